"""The changes that a reviewer made to a call before the approval, for one line of the timeline.

The receipt has the whole comparison.
"""

from __future__ import annotations

from typing import Any

from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from ledger import exact_json
from reviewqueue.text.hidden_characters import render_exact
from reviewqueue.text.json_diff_text import list_differences
from runs.models import Decision, Interrupt
from runs.revisions import arguments_shown_at
from runs.states import Verdict

PLACES_SHOWN = 4
LONGEST_VALUE = 60


def summarize_edit(decision: Decision | None, wait: Interrupt | None) -> SafeString | str:
    """Return the first changed places of the call, with the old and the new value."""
    if decision is None or wait is None or decision.verdict != Verdict.EDIT or wait.proposal is None:
        return ""
    found = list_differences(arguments_shown_at(wait, decision.state_version), decision.arguments)
    told = [
        format_html("<code>{}</code> {} → {}", render_exact(it.place, one_line=True), _short(it.old), _short(it.new))
        for it in found[:PLACES_SHOWN]
    ]
    more = f", and {len(found) - PLACES_SHOWN} more" if len(found) > PLACES_SHOWN else ""
    return mark_safe("; ".join(told) + more)  # noqa: S308  every part was escaped


def _short(value: Any) -> SafeString | str:
    if value is exact_json.ABSENT:
        return "nothing"
    text = value if isinstance(value, str) else exact_json.dumps(value)
    return render_exact(text[:LONGEST_VALUE] + ("…" if len(text) > LONGEST_VALUE else ""), one_line=True)
