"""Sample requests for page tests: labelled calls, forms, changed facts and hostile text in three queues."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import User
from django.core.cache import caches
from django.test import Client

from ledger import clock
from reviewqueue.accounts.sessions import ACTIVITY_INTERVAL
from runs.facts import RequestedFact
from runs.models import CallLabel, Fact, FactStatus, Interrupt
from tests import builders

REFUND = {"name": "refund_order", "arguments": {"order": "R-20418", "amount": "1240.00", "reason": "arrived cracked"}}
CERTIFICATE = {
    "type": "object",
    "title": "Certificate",
    "required": ["certificate_no", "kind", "issued_on", "issuer"],
    "properties": {
        "certificate_no": {"type": "string", "title": "Certificate number", "pattern": "^LT-[0-9]{4}-[0-9]{4}$"},
        "kind": {"title": "Kind of certificate", "enum": ["load_test", "material", "welding"]},
        "issued_on": {"type": "string", "title": "Issued on", "format": "date"},
        "tested_tonnes": {"type": "number", "title": "Tested load in t", "minimum": 0},
        "valid": {"type": "boolean", "title": "Still valid"},
        "issuer": {
            "type": "object",
            "title": "Issued by",
            "required": ["name"],
            "properties": {
                "name": {"type": "string", "title": "Name of the body"},
                "accreditation": {"type": "string", "title": "Accreditation"},
            },
        },
        "remarks": {"type": "string", "title": "Remarks", "maxLength": 2000},
    },
}


def lena() -> User:
    """Return a lead of engineering who also reviews refunds."""
    builders.a_queue("refunds")
    person = builders.a_person(
        "lena@company.example", "engineering-reviewers", "engineering-leads", "refunds-reviewers"
    )
    builders.a_queue("engineering")
    person.first_name, person.last_name = "Lena", "Brandt"
    person.save()
    return person


def a_label(name: str, sentence: str, *, agent: str = "purchase-requests", **arguments: Any) -> CallLabel:
    """Return the owner's label of a call."""
    label, _ = CallLabel.objects.update_or_create(
        agent=builders.an_agent(agent), name=name, defaults={"sentence": sentence, "arguments": arguments}
    )
    return label


def an_order(**asked: Any) -> Interrupt:
    """Return an approval of a purchase order, with label, facts, evidence and message."""
    a_label(
        "issue_purchase_order",
        "Issue purchase order to {supplier} for {amount} EUR",
        supplier={"label": "Supplier"},
        amount={"label": "Amount", "unit": "EUR"},
        deliver_to={"label": "Place of delivery"},
    )
    call = {
        "name": "issue_purchase_order",
        "arguments": {
            "supplier": "S-17",
            "amount": "184000.00",
            "cost_centre": "4410",
            "article": "HX-2.5-14",
            "quantity": 1,
            "deliver_by": "2026-12-14",
            "deliver_to": "Gate 2, laydown area B, next to the old crane pad; call the site manager first",
        },
    }
    wanted: dict[str, Any] = {
        "title": "Order the replacement hoist for crane 14",
        "message": (
            "Three suppliers were asked, **two answered**. S-17 is 6 % dearer than S-22 but delivers nine days sooner.\n\n"
            "After specification 8 I compared both offers again. I recommend S-17."
        ),
        "proposal": call,
        "evidence": [
            {"label": "Supplier check S-17", "value": "passed", "source": "supplier register"},
            {"label": "Offers", "value": {"S-17": "184000.00", "S-22": "173500.00"}, "source": "mailbox"},
        ],
        "facts": [
            RequestedFact(name="Budget left, 4410", value="212400.00", on_change="note"),
            RequestedFact(name="specification", value=8, on_change="replan"),
            RequestedFact(name="Offer valid until", value="2026-12-04", on_change="renew"),
        ],
        "wish": {"deadline_in": timedelta(hours=2, minutes=10), "risk": "high"},
        **asked,
    }
    ines = builders.a_person("ines@company.example", "engineering-reviewers")
    started = builders.a_running_run(
        title="Purchase request PR-4711", initiator=builders.a_person("tomas@company.example")
    )
    ines.first_name = "Ines"
    ines.save()
    return builders.a_waiting_interrupt(builders.a_wait(**wanted), started=started)


def change_a_fact(interrupt: Interrupt, *, to: Any = "190900.00", name: str = "Budget left, 4410") -> Fact:
    """Let the last check of a fact have found another value."""
    fact = Fact.objects.get(interrupt=interrupt, name=name)
    fact.last_value, fact.last_status, fact.checked_at = to, FactStatus.CHANGED, clock.now()
    fact.save()
    return fact


def a_question(schema: Any = None, **asked: Any) -> Interrupt:
    """Return a request for a certificate with a form."""
    wanted = {
        "title": "Certificate for crane 14",
        "message": "The supplier’s file names a load test, but holds no certificate. Please give me its number and issuer.",
        "input_schema": CERTIFICATE if schema is None else schema,
        "wish": {"deadline_in": timedelta(hours=21, minutes=38), "risk": "high"},
        **asked,
    }
    return builders.a_waiting_interrupt(builders.an_input_wait(**wanted))


def a_refund(number: int, **asked: Any) -> Interrupt:
    """Return one small refund, in its own queue."""
    a_label("refund_order", "Refund order {order}", agent="refunds", amount={"label": "Amount", "unit": "EUR"})
    call = {"name": "refund_order", "arguments": {**REFUND["arguments"], "order": f"R-{number}"}}
    builders.a_queue("refunds")
    wanted = {
        "proposal": call,
        "title": "Two of six panels arrived cracked",
        "wish": {"queue": "refunds", "deadline_in": timedelta(hours=3, minutes=number % 60), "risk": "medium"},
        **asked,
    }
    agent = builders.an_agent("refunds")
    started = builders.a_running_run(agent)
    return builders.suspend_run(started, builders.a_wait(**wanted), agent=agent).interrupts[0]


def signed_in(person: User) -> Client:
    """Return a client with the session of this person, who was seen just now: the next page does not record that."""
    client = Client()
    client.force_login(person)
    caches["process"].set(f"activity:{client.session.session_key}", 1, ACTIVITY_INTERVAL)
    return client


def form_of(client: Client, interrupt: Interrupt, **typed: str) -> dict[str, str]:
    """Return the form data of the request: its hidden fields and the entered ones."""
    html = client.get(f"/interrupts/{interrupt.public_id}").content.decode()
    hidden = dict(re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', html))
    wanted = ("state_version", "content_digest", "request_key", "who", "draft")
    return {name: hidden[name] for name in wanted} | typed


def post(client: Client, interrupt: Interrupt, form: dict[str, str], **headers: str):
    """Send the form."""
    return client.post(f"/interrupts/{interrupt.public_id}", form, **headers)
