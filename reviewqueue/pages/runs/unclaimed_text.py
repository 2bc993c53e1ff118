"""A run that no worker takes, in a few words: for the list of runs and for a decision's receipt.

Called by the pages; who is meant, and from when on it is told, is ``runs.unclaimed_continuations``'s.
"""

from __future__ import annotations

from collections.abc import Sequence

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from reviewqueue.text.hidden_characters import seen
from reviewqueue.text.times import in_words
from runs.unclaimed_continuations import Unclaimed


def told_in_short(it: Unclaimed) -> SafeString:
    """Return since when no worker took it, and once that is long: what kind of worker it takes."""
    if it.takes_back:
        return format_html("no worker came for {} to take back what it did", in_words(it.waited))
    return format_html("no worker took it for {}{}{}", in_words(it.waited), _needs(it), _unread(it))


def unread_in_words(versions: Sequence[str]) -> SafeString:
    """Return who handed a run back, as versions of the code."""
    named = [
        format_html("code version <code>{}</code>", seen(version, one_line=True))
        if version
        else mark_safe("workers that name no version")
        for version in versions
    ]
    return format_html_join(", ", "{}", ((words,) for words in named))


def _needs(it: Unclaimed) -> SafeString:
    if not (it.code_version and it.is_told):
        return mark_safe("")
    return format_html("; it needs code <code>{}</code>", seen(it.code_version, one_line=True))


def _unread(it: Unclaimed) -> SafeString:
    if not it.handed_back_by:
        return mark_safe("")
    count = len(it.handed_back_by)
    return format_html("; {} version{} could not read it", count, "" if count == 1 else "s")
