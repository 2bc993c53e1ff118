"""What an approval rests on beside its call: the message, the facts and the evidence of a request.

Facts and evidence are drawn within limits of their own, so that whether the page shows them whole depends on nothing else
on it, and is the same when the form is drawn and when it is judged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from reviewqueue.text.agent_text import is_shown_whole
from reviewqueue.text.json_values import BYTES_DRAWN, MEMBERS_DRAWN, Budget, draw_within
from runs.models import Fact, FactStatus

#: The limits of all facts and all evidence of one request: members at every depth, and bytes of HTML.
MEMBERS = 750
BYTES = 160 * 1024

#: The parts of a request that may be drawn in part, as a sentence names them. The call has a page of its own.
CALL, MESSAGE, FACTS, EVIDENCE = "call", "message", "facts", "evidence"


def budget_of_grounds() -> Budget:
    """Return the limits of the facts and the evidence of one page."""
    return Budget(members=MEMBERS, size=BYTES)


def draw_ground(value: Any, budget: Budget, *, more: str = "", stated: bool = True) -> tuple[str, bool]:
    """Return a value as HTML within its own limits and those of ``budget``, and whether it is whole."""
    own = Budget(members=min(MEMBERS_DRAWN, budget.members), size=min(BYTES_DRAWN, budget.size))
    given = Budget(members=own.members, size=own.size)
    drawn = draw_within(value, budget=own, more=more, stated=stated)
    budget.spend(given, own)
    return drawn.html, drawn.is_whole


def parts_left_out(*, message: str, facts: Iterable[Fact], evidence: Iterable[Any]) -> list[str]:
    """Return which of the three the page of a request shows in part."""
    budget = budget_of_grounds()
    # In the order in which the page draws them.
    facts_whole = [draw_ground(value, budget)[1] for fact in facts for value in _values_of_fact(fact)]
    evidence_whole = [
        draw_ground(value, budget, stated=stated)[1] for it in evidence for value, stated in _values_of(it)
    ]
    found = {MESSAGE: is_shown_whole(message), FACTS: all(facts_whole), EVIDENCE: all(evidence_whole)}
    return [name for name, is_whole in found.items() if not is_whole]


def split_evidence(entry: Any) -> dict[str, Any]:
    """Return one piece of evidence as label, value and source; any other shape is shown whole."""
    if isinstance(entry, Mapping) and "label" in entry:
        rest = {name: value for name, value in entry.items() if name not in ("label", "value", "source")}
        return {
            "label": str(entry["label"]),
            "has_value": "value" in entry,
            "value": entry.get("value"),
            "source": str(entry.get("source") or ""),
            "rest": rest,
        }
    return {"label": "", "has_value": True, "value": entry, "source": "", "rest": {}}


def _values_of_fact(fact: Fact) -> list[Any]:
    is_checked = fact.last_status in (FactStatus.CHANGED, FactStatus.SAME)
    return [fact.value, fact.last_value] if is_checked else [fact.value]


def _values_of(entry: Any) -> list[tuple[Any, bool]]:
    piece = split_evidence(entry)
    values = [(piece["value"], True)] if piece["has_value"] else []
    return [*values, (piece["rest"], False)] if piece["rest"] else values
