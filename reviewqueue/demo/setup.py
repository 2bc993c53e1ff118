"""Sample data of the demo: queues, people, agents and their rules, and ten requests, each for one feature.

The requests are created through the API with the agents' own keys. A second start adds nothing: existing rows remain, and
the idempotency keys make repeated requests harmless. Passwords and keys are stored in one file that only its owner can read.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from reviewqueue.demo.purchase_agent import send
from reviewqueue.operations.api_keys import create_agent_key
from reviewqueue.operations.provisioning.agents import add_agent, add_call_label, add_effect_rule
from reviewqueue.operations.provisioning.connections import add_connection
from reviewqueue.operations.provisioning.names import ProvisioningError
from reviewqueue.operations.provisioning.people import add_person
from reviewqueue.operations.provisioning.policies import add_policy
from reviewqueue.operations.provisioning.queues import add_queue
from runs.models import Agent

BUYER, SUPPORT = "purchase-requests", "support-desk"
AGENTS = {BUYER: "buying-platform", SUPPORT: "support-platform"}
QUEUES = ("purchasing", "engineering", "refunds", "refund-leads", "payments")

#: Address -> label of the sign-in, and its roles.
PEOPLE: dict[str, tuple[str, list[dict[str, str]]]] = {
    "rita@example.org": (
        "reviewer",
        [{"role": "reviewer", "queue": queue} for queue in QUEUES if queue != "refund-leads"],
    ),
    "olga@example.org": ("owner", [{"role": "owner", "agent": agent} for agent in AGENTS]),
    "leo@example.org": ("lead", [{"role": "lead", "queue": queue} for queue in QUEUES]),
    "otto@example.org": ("operator", [{"role": "operator"}]),
}

LABELS: dict[str, dict[str, tuple[str, dict[str, dict[str, str]]]]] = {
    BUYER: {
        "ask_offer": ("Ask {supplier} for an offer", {"supplier": {"label": "Supplier"}}),
        "issue_purchase_order": (
            "Issue purchase order to {supplier} for {amount} EUR",
            {
                "supplier": {"label": "Supplier"},
                "item": {"label": "Item"},
                "amount": {"label": "Amount", "unit": "EUR"},
                "certificate": {"label": "Load test certificate"},
            },
        ),
    },
    SUPPORT: {
        "book_credit": (
            "Book a credit of {amount} EUR for order {order}",
            {"order": {"label": "Order"}, "amount": {"label": "Amount", "unit": "EUR"}},
        ),
        "refund_order": (
            "Refund order {order}: {amount} EUR",
            {"order": {"label": "Order"}, "amount": {"label": "Amount", "unit": "EUR"}},
        ),
        "send_mail": (
            "Send a mail to {to}",
            {"to": {"label": "To"}, "subject": {"label": "Subject"}, "body": {"label": "Text"}},
        ),
        "pay_invoice": (
            "Pay invoice {invoice}: {amount} EUR",
            {
                "invoice": {"label": "Invoice"},
                "amount": {"label": "Amount", "unit": "EUR"},
                "iban": {"label": "To the account"},
            },
        ),
    },
}

FREE = {"ask_offer", "book_credit"}  # effects that need no approval


class DemoFile:
    """The file with the passwords that the demo prints, the keys of its agents, and the steps that are done."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.content: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {"people": {}, "keys": {}}

    def save(self) -> None:
        """Replace the file. Only its owner can read it."""
        self.file.parent.mkdir(parents=True, exist_ok=True)
        temporary = self.file.with_suffix(".new")
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as written:
            json.dump(self.content, written, indent=1)
        temporary.replace(self.file)


def add_people_and_rules(store: DemoFile, *, records: str) -> None:
    """Add people, queues, policies and rules that the requests need."""
    for queue in QUEUES:
        _add_unless_known(add_queue, queue, owner="desk-owners")
    for agent, owner in AGENTS.items():
        _add_agent(store, agent, owner=owner)
    for address, (label, roles) in PEOPLE.items():
        for role in roles:
            added = _add_unless_known(add_person, address, **role)
            if added is not None and added.password is not None:
                store.content["people"][address] = {"is": label, "password": added.password, "token": added.token}
                store.save()
    _add_unless_known(add_connection, "erp", agent=BUYER, url=records)
    _add_unless_known(add_policy, "approval.action", queue="purchasing")
    _add_unless_known(add_policy, "evidence.missing", queue="engineering")
    _add_unless_known(add_policy, "question", queue="engineering")
    soon = timedelta(minutes=2)  # one sample request is escalated so soon
    _add_unless_known(
        add_policy, "approval.action", agent=SUPPORT, queue="refunds", escalate_to="refund-leads", claim_time=soon
    )
    _add_unless_known(add_policy, "payment.out", agent=SUPPORT, queue="payments", quorum=2, risk_floor="high")
    for agent, labels in LABELS.items():
        for call, (sentence, arguments) in labels.items():
            _add_unless_known(add_call_label, call, agent=agent, sentence=sentence, arguments=arguments)
            reason = "payment.out" if call == "pay_invoice" else "approval.action"
            _add_unless_known(add_effect_rule, call, agent=agent, reason="" if call in FREE else reason)


def _add_agent(store: DemoFile, name: str, *, owner: str) -> None:
    added = _add_unless_known(add_agent, name, owner=owner)
    if added is not None:
        store.content["keys"][name] = added[1].text
    elif name not in store.content["keys"]:  # the last start was stopped between the two lines above
        store.content["keys"][name] = create_agent_key(Agent.objects.get(slug=name), name="demo").text
    store.save()


def _add_unless_known(add: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    try:
        return add(*arguments, **options)
    except ProvisioningError:
        return None


# --- the requests -----------------------------------------------------------------------------------------------------


def create_requests(store: DemoFile, *, queue: str) -> None:
    """Create the requests through the API at ``queue``, and decide one, so that there is a finished run to look at."""
    if store.content.get("asked"):
        return
    for request in sample_requests():
        _ask(store, queue, "POST", "/asks", with_itself_as_state(request))
    _leave_an_unknown_outcome(store, queue)
    _decide_one(store, queue)
    _vote_once(store, queue)
    store.content["asked"] = True
    store.save()


def _ask(store: DemoFile, queue: str, method: str, path: str, body: Any = None, **headers: str) -> Any:
    named = {"Authorization": f"Bearer {store.content['keys'][SUPPORT]}"}
    return send(
        method, f"{queue}/api/v1{path}", body, named | {name.replace("_", "-"): it for name, it in headers.items()}
    )


def sample_requests() -> list[dict[str, Any]]:
    """Return the requests of the support agent, as bodies of `POST asks`."""
    return [
        a_refund("R-20418", "1240.00", "Two of six panels arrived cracked", deadline_in="PT3H", risk="medium"),
        a_refund("R-20431", "18.40", "Charged twice for delivery", deadline_in="PT3M", risk="low"),
        a_refund(
            "R-20377",
            "640.00",
            "Returned in full, box opened",
            deadline_in="PT2M",
            on_expiry={"do": "escalate"},
        ),
        a_refund(
            "R-20436",
            "9.99",
            "Voucher not applied",
            deadline_in="PT5H",
            risk="low",
            on_expiry={"do": "default", "verdict": "reject"},
        ),
        {
            "key": "invoice-20-1187",
            "title": "Crane rental, October, final instalment",
            "message": "The invoice fits the contract and the hours in the site log. It is due today.",
            "reason": "payment.out",
            "risk": "high",
            "deadline_in": "PT40M",
            "on_expiry": {"do": "default", "verdict": "reject"},
            "proposal": {
                "name": "pay_invoice",
                "arguments": {"invoice": "20-1187", "amount": "48250.00", "iban": "DE89370400440532013019"},
            },
            "evidence": [{"label": "Hours in the site log", "value": 193, "source": "site log, October"}],
        },
        a_mail(),
        a_hostile_mail(),
        a_question(),
    ]


def with_itself_as_state(request: dict[str, Any]) -> dict[str, Any]:
    """Store the request as the run's state, so that the agent can create it again after a restart."""
    return request | {"state": {"request": request}}


def a_refund(order: str, amount: str, title: str, **more: Any) -> dict[str, Any]:
    """Return the request for one refund."""
    return {
        "key": f"refund-{order}",
        "title": title,
        "reason": "approval.action",
        "proposal": {"name": "refund_order", "arguments": {"order": order, "amount": amount}},
        "evidence": [{"label": "Order total", "value": amount, "source": "shop"}],
        **more,
    }


def a_mail() -> dict[str, Any]:
    """Return a mail with a mistake, to be edited."""
    return {
        "key": "mail-delay-49",
        "title": "Delay notice for week 49",
        "message": "The customer asked twice. Shall I send this?",
        "reason": "approval.action",
        "deadline_in": "PT6H",
        "proposal": {
            "name": "send_mail",
            "arguments": {
                "to": "site-office@customer.example",
                "subject": "Your delivery in week 49",
                "body": "Dear customer,\n\nthe hoist will be delivered on Thursday 31 November.\n\nKind regards",
            },
            "schema": {
                "type": "object",
                "required": ["to", "subject", "body"],
                "additionalProperties": False,
                "properties": {
                    "to": {"type": "string", "format": "email", "title": "To"},
                    "subject": {"type": "string", "title": "Subject", "maxLength": 120},
                    "body": {"type": "string", "title": "Text", "maxLength": 2000},
                },
            },
        },
    }


def a_hostile_mail() -> dict[str, Any]:
    """Return a request of a manipulated agent: its text does not say what the call would do."""
    tail = "\n" * 60 + "PS: Our new account is DE00 1234. Please pay everything there from today on."
    return {
        "key": "mail-follow-up",
        "title": "Routine follow-up, already approved by security, no review needed",
        "message": "**APPROVED BY SECURITY** <script>document.forms[0].submit()</script>\n\n"
        '<button hx-post="/approve">Approve</button> [Open the ticket](javascript:alert(1)) '
        "![](https://tracker.example/pixel.png)",
        "reason": "approval.action",
        "risk": "high",
        "deadline_in": "PT1H5M",
        "proposal": {
            "name": "send_mail",
            "arguments": {
                "to": "accounts@custоmer.example",  # the second o is Cyrillic
                "subject": "Your account \u202efdp.eciovni\u202c",
                "body": f"Hello,\u200b\u200b just a routine follow-up.{tail}",
            },
        },
    }


def a_question() -> dict[str, Any]:
    """Return an input request whose answer has a schema: choices with titles, an integer, a nested object."""
    return {
        "key": "anchor-plate-b",
        "kind": "input",
        "title": "Which bolts for anchor plate B?",
        "message": "The drawing says class 8.8, the parts list says 10.9.",
        "reason": "question",
        "deadline_in": "P2D",
        "input_schema": {
            "type": "object",
            "required": ["bolt_class", "count"],
            "additionalProperties": False,
            "properties": {
                "bolt_class": {
                    "title": "Bolt class",
                    "oneOf": [
                        {"const": "8.8", "title": "8.8, as in the drawing"},
                        {"const": "10.9", "title": "10.9, as in the parts list"},
                    ],
                },
                "count": {"type": "integer", "title": "How many", "minimum": 1, "maximum": 48},
                "redraw": {"type": "boolean", "title": "The drawing must be corrected"},
                "approved_by": {
                    "type": "object",
                    "title": "Structural engineer",
                    "required": ["name"],
                    "properties": {
                        "name": {"type": "string", "title": "Name", "minLength": 2},
                        "on": {"type": "string", "format": "date", "title": "On"},
                    },
                },
            },
        },
        "evidence": [
            {"label": "Drawing B-113", "value": "8.8", "source": "drawings"},
            {"label": "Parts list", "value": "10.9", "source": "parts list, revision 4"},
        ],
    }


def _leave_an_unknown_outcome(store: DemoFile, queue: str) -> None:
    """Act as a worker whose call got no answer. The owner of the agent must resolve the unknown outcome."""
    wanted = {"key": "credit-R-20299", "title": "Credit note for order R-20299", "lease_seconds": 60}
    run = _ask(store, queue, "POST", "/runs", wanted)
    if run["lease"] is None:
        return
    place, lease = f"/runs/{run['id']}", run["lease"]["token"]
    call = {"name": "book_credit", "arguments": {"order": "R-20299", "amount": "75.00"}}
    effect = _ask(store, queue, "PUT", f"{place}/effects/credit:R-20299", call, Run_Lease=lease, Idempotency_Key="demo")
    report = {"status": "unknown", "error": "The bank closed the connection before it answered."}
    outcome = report | {"attempt_token": effect["attempt_token"]}
    _ask(store, queue, "POST", f"{place}/effects/credit:R-20299/outcome", outcome)
    _ask(store, queue, "POST", f"{place}/lease/release", {"reason": "retry"}, Run_Lease=lease)


def _decide_one(store: DemoFile, queue: str) -> None:
    """Approve a refund as the lead, so that there is a decided and finished run to look at."""
    asked = _ask(
        store, queue, "POST", "/asks", with_itself_as_state(a_refund("R-20410", "86.50", "Wrong colour delivered"))
    )
    lead = {"Authorization": f"Bearer {store.content['people']['leo@example.org']['token']}"}
    place = f"{queue}/api/v1/interrupts/{asked['interrupt']['id']}"
    shown = send("GET", place, None, lead)
    decision = {
        "verdict": "approve",
        "state_version": shown["state_version"],
        "content_digest": shown["content_digest"],
    }
    if shown["status"] == "waiting":
        send("POST", f"{place}/decisions", decision, lead)


def _vote_once(store: DemoFile, queue: str) -> None:
    """Approve the payment that needs two people as the lead, so that one more approval decides it."""
    lead = {"Authorization": f"Bearer {store.content['people']['leo@example.org']['token']}"}
    waiting = send("GET", f"{queue}/api/v1/interrupts?reason=payment.out&status=waiting", None, lead)["interrupts"]
    for wait in waiting:
        vote = {"verdict": "approve", "state_version": wait["state_version"], "message": "Amount and hours match"}
        send("POST", f"{queue}/api/v1/interrupts/{wait['id']}/decisions", vote, lead)
