"""LangChain's human-in-the-loop requests through the API and back: batched, per call, and the older shape, types kept.

The mapping is the agent guide's, word by word; that LangChain itself takes its decisions is shown by that page's own run.
"""

from __future__ import annotations

from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest
from django.conf import settings

from ledger.exact_json import dumps
from tests.api.calls import a_reviewer_client, a_started_run, a_worker, the_suspend, the_wait
from tests.docs_session import blocks_of

pytestmark = pytest.mark.django_db

#: Everything that a careless way through would change: a float's zero, a code's zeros, null, the empty ones, 2^53 + 1, NFD.
ARGUMENTS: dict[str, Any] = {
    "amount": Decimal("1.0"),
    "count": 1,
    "price": Decimal("184000.00"),
    "code": "00123",
    "note": None,
    "empty": "",
    "none_of": [],
    "flag": False,
    "large": 2**53 + 1,
    "nested": {"z": [Decimal("0.10"), "a", None], "a": {}},
    "e\u0301": "\u00e9",
}
EDITED = ARGUMENTS | {"amount": Decimal("2.50"), "note": "", "count": Decimal("1.0")}


@pytest.fixture(scope="module")
def langchain() -> SimpleNamespace:
    [text] = [it.text for it in blocks_of(settings.ROOT / "docs" / "agents.md") if it.title == "langchain_shapes.py"]
    names: dict[str, Any] = {}
    exec(compile(text, "langchain_shapes.py", "exec"), names)  # noqa: S102  our own page
    return SimpleNamespace(**names)


def an_interrupt(value: Any, schema: Any = None, name: str = "f5f2abeb") -> SimpleNamespace:
    return SimpleNamespace(id=name, value=value, response_schema=schema)


def answer_as_reviewers(
    langchain: SimpleNamespace, *interrupts: SimpleNamespace, answers: list[dict[str, Any]]
) -> list[Any]:
    """Ask all in one suspend, answer from the last to the first, claim; return what each interrupt resumes with."""
    worker, ana = a_worker(), a_reviewer_client()
    the_wait()
    run, lease = a_started_run(worker)
    waits = [wait for interrupt in interrupts for wait in langchain.interrupts_of(interrupt, "engineering")]
    asked = worker.post(f"runs/{run}/interrupts", the_suspend(*waits), Run_Lease=lease)
    assert asked.status == 201, asked.body
    shown = [ana.get(f"interrupts/{made['id']}") for made in asked["interrupts"]]
    for wait, seen in zip(waits, shown, strict=True):
        assert dumps(seen["proposal"]) == dumps(wait["proposal"])
        assert seen["verdicts"] == wait["verdicts"]
        assert seen["external_id"] == wait["external_id"]
    for seen, given in reversed(list(zip(shown, answers, strict=True))):
        decided = ana.post(f"interrupts/{seen['id']}/decisions", {"state_version": 1, **given})
        assert decided.status == 201, decided.body
    [taken] = worker.post("continuations/claim", {}).body
    return [langchain.resume_of(interrupt, taken["answers"]) for interrupt in interrupts]


def same(resume: Any, expected: Any) -> bool:
    """Texts are compared: Python takes 1, 1.0 and True for the same."""
    return dumps(resume) == dumps(expected)


def test_a_batch_comes_back_in_its_order(langchain):
    batch = {
        "action_requests": [
            {"name": "order", "args": ARGUMENTS, "description": "Order *it*."},
            {"name": "mail", "args": {"to": "S-17"}},
            {"name": "order", "args": ARGUMENTS | {"code": "00124"}},
            {"name": "ask", "args": {}},
            {"name": "mail", "args": {"to": "S-4"}},
        ],
        "review_configs": [
            {"action_name": "order", "allowed_decisions": ["approve", "edit", "reject"]},
            {"action_name": "mail", "allowed_decisions": ["approve", "reject"]},
            {"action_name": "ask", "allowed_decisions": ["respond"]},
        ],
    }

    [resume] = answer_as_reviewers(
        langchain,
        an_interrupt(batch),
        answers=[
            {"verdict": "edit", "arguments": EDITED},
            {"verdict": "approve"},
            {"verdict": "approve", "message": "Fine."},
            {"verdict": "respond", "message": "00123"},
            {"verdict": "reject", "message": "Not yet."},
        ],
    )

    assert same(
        resume,
        {
            "decisions": [
                {"type": "edit", "edited_action": {"name": "order", "args": EDITED}},
                {"type": "approve"},
                {"type": "approve"},
                {"type": "respond", "message": "00123"},
                {"type": "reject", "message": "Not yet."},
            ]
        },
    )


def test_each_call_of_its_own_interrupt_gets_its_own_decision(langchain):
    def a_call(name: str, *decisions: str) -> SimpleNamespace:
        value = {
            "type": "tool_approval",
            "tool_call_id": f"call_{name}",
            "name": name,
            "args": ARGUMENTS,
            "description": "?",
        }
        several = {"discriminator": {"propertyName": "type", "mapping": dict.fromkeys(decisions, "#/$defs/X")}}
        one = {"properties": {"type": {"const": decisions[0]}}}
        return an_interrupt(value, several if len(decisions) > 1 else one, name=name)

    resumed = answer_as_reviewers(
        langchain,
        a_call("order", "approve", "edit", "reject", "respond"),
        a_call("mail", "approve", "reject"),
        a_call("only", "approve"),
        answers=[{"verdict": "edit", "arguments": EDITED}, {"verdict": "reject"}, {"verdict": "approve"}],
    )

    edit = {"type": "edit", "edited_action": {"name": "order", "args": EDITED}}
    assert same(resumed, [edit, {"type": "reject"}, {"type": "approve"}])


def test_the_older_format_is_answered_in_its_own_format(langchain):
    def a_request(**allowed: bool) -> dict[str, Any]:
        config = dict.fromkeys(["allow_accept", "allow_edit", "allow_ignore", "allow_respond"], False) | allowed
        return {"action_request": {"action": "order", "args": ARGUMENTS}, "config": config, "description": None}

    [resume] = answer_as_reviewers(
        langchain,
        an_interrupt(
            [
                a_request(allow_accept=True, allow_edit=True),
                a_request(allow_edit=True),
                a_request(allow_ignore=True),
                a_request(allow_respond=True, allow_ignore=True),
            ]
        ),
        answers=[
            {"verdict": "approve"},
            {"verdict": "edit", "arguments": EDITED},
            {"verdict": "reject"},
            {"verdict": "respond", "message": "1.0"},
        ],
    )

    assert same(
        resume,
        [
            {"type": "accept", "args": None},
            {"type": "edit", "args": {"action": "order", "args": EDITED}},
            {"type": "ignore", "args": None},
            {"type": "response", "args": "1.0"},
        ],
    )


@pytest.mark.parametrize(("verdict", "decision"), [(None, {"type": "reject"}), ("approve", {"type": "approve"})])
def test_what_the_deadline_decided_is_a_rejection_unless_it_says_otherwise(langchain, verdict, decision):
    batch = {
        "action_requests": [{"name": "order", "args": {}}],
        "review_configs": [{"action_name": "order", "allowed_decisions": ["approve", "reject"]}],
    }
    answer = {"verdict": verdict, "message": None, "arguments": None}
    assert langchain.resume_of(an_interrupt(batch), {"f5f2abeb.0": answer}) == {"decisions": [decision]}
