"""Size limits for the message, the facts and the evidence of a request, and which of them the page shows only in part.

Facts and evidence have a budget of their own. So whether they are shown whole does not depend on the rest of the page, and
is the same when the decision form is rendered and when it is validated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from reviewqueue.text.agent_text import is_shown_whole
from reviewqueue.text.json_values import MAX_BYTES, MAX_MEMBERS, Budget, render_json_within
from runs.models import Fact, FactStatus

#: Limits of all facts and evidence of one request: members at every depth, and bytes of HTML.
MAX_EVIDENCE_MEMBERS = 750
MAX_EVIDENCE_BYTES = 160 * 1024

#: The parts of a request that can be shown in part, as a sentence names them.
CALL, MESSAGE, FACTS, EVIDENCE = "call", "message", "facts", "evidence"


def new_evidence_budget() -> Budget:
    return Budget(members=MAX_EVIDENCE_MEMBERS, size=MAX_EVIDENCE_BYTES)


def render_value(value: Any, budget: Budget, *, more: str = "", stated: bool = True) -> tuple[str, bool]:
    """Return a value as HTML within its own limits and those of ``budget``, and whether it is shown whole."""
    own = Budget(members=min(MAX_MEMBERS, budget.members), size=min(MAX_BYTES, budget.size))
    given = Budget(members=own.members, size=own.size)
    rendered = render_json_within(value, budget=own, more=more, stated=stated)
    budget.spend(given, own)
    return rendered.html, rendered.is_whole


def parts_left_out(*, message: str, facts: Iterable[Fact], evidence: Iterable[Any]) -> list[str]:
    """Return which of the three the page shows only in part."""
    budget = new_evidence_budget()
    # The budget is spent in the order of the page: facts, then evidence.
    facts_whole = [render_value(value, budget)[1] for fact in facts for value in _values_of_fact(fact)]
    evidence_whole = [
        render_value(value, budget, stated=stated)[1] for it in evidence for value, stated in _values_of(it)
    ]
    found = {MESSAGE: is_shown_whole(message), FACTS: all(facts_whole), EVIDENCE: all(evidence_whole)}
    return [name for name, is_whole in found.items() if not is_whole]


def split_evidence(entry: Any) -> dict[str, Any]:
    """Return one piece of evidence as label, value and source; an entry without a label is shown as one value."""
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
