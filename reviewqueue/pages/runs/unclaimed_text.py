"""Sentences about a run that no worker claims; ``runs.unclaimed_continuations`` says which runs these are."""

from __future__ import annotations

from collections.abc import Sequence

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from reviewqueue.text.hidden_characters import render_exact
from reviewqueue.text.times import duration_label
from runs.unclaimed_continuations import UnclaimedRun


def summarize_unclaimed(it: UnclaimedRun) -> SafeString:
    """Return how long no worker has claimed the run and, after a while, which workers can."""
    if it.takes_back:
        return format_html("no worker has claimed it for {} to compensate its effects", duration_label(it.waited))
    return format_html("no worker has claimed it for {}{}{}", duration_label(it.waited), _needs(it), _unread(it))


def describe_unread(versions: Sequence[str]) -> SafeString:
    """Return the code versions of the workers that handed a run back."""
    named = [
        format_html("code version <code>{}</code>", render_exact(version, one_line=True))
        if version
        else mark_safe("workers without a code version")
        for version in versions
    ]
    return format_html_join(", ", "{}", ((words,) for words in named))


def _needs(it: UnclaimedRun) -> SafeString:
    if not (it.code_version and it.is_told):
        return mark_safe("")
    return format_html("; it needs code version <code>{}</code>", render_exact(it.code_version, one_line=True))


def _unread(it: UnclaimedRun) -> SafeString:
    if not it.handed_back_by:
        return mark_safe("")
    count = len(it.handed_back_by)
    return format_html("; {} code version{} cannot read it", count, "" if count == 1 else "s")
