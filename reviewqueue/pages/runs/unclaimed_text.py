"""Sentences about a run that no worker claims; ``runs.unclaimed_continuations`` says which runs these are."""

from __future__ import annotations

from collections.abc import Sequence

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from reviewqueue.text.hidden_characters import render_exact
from reviewqueue.text.times import duration_label
from runs.unclaimed_continuations import UnclaimedRun


def summarize_unclaimed(it: UnclaimedRun) -> SafeString:
    """Return how long no worker has claimed the run and, after a while, which workers can."""
    if it.takes_back:
        text = _("no worker has claimed it for {duration} to compensate its effects")
        return format_html(text, duration=duration_label(it.waited))
    waited = format_html(_("no worker has claimed it for {duration}"), duration=duration_label(it.waited))
    parts = [waited, *_needs(it), *_unread(it)]
    return format_html_join("; ", "{}", ((part,) for part in parts))


def describe_unread(versions: Sequence[str]) -> SafeString:
    """Return the code versions of the workers that handed a run back."""
    named = [
        format_html(_("code version <code>{version}</code>"), version=render_exact(version, one_line=True))
        if version
        else format_html("{}", _("workers without a code version"))
        for version in versions
    ]
    return format_html_join(", ", "{}", ((words,) for words in named))


def _needs(it: UnclaimedRun) -> list[SafeString]:
    if not (it.code_version and it.is_told):
        return []
    version = render_exact(it.code_version, one_line=True)
    return [format_html(_("it needs code version <code>{version}</code>"), version=version)]


def _unread(it: UnclaimedRun) -> list[SafeString]:
    if not it.handed_back_by:
        return []
    count = len(it.handed_back_by)
    text = ngettext("{number} code version cannot read it", "{number} code versions cannot read it", count)
    return [format_html(text, number=count)]
