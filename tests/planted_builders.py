"""Planted requests for tests: a lead, an earlier request of the queue, and a planted copy of it."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import User

from reviewqueue.review_quality import planted_requests
from runs.models import Interrupt, PlantedRequest
from tests import builders
from tests.standing_rule_builders import a_lead

FAULTY = {"supplier": "S-17", "amount": "1840000.00"}
FAULT = "The amount has one zero too many."


def written(copy_of: str = "", **changes: Any) -> dict[str, Any]:
    stated: dict[str, Any] = {
        "queue": "engineering",
        "arguments": FAULTY,
        "fault": FAULT,
        "expected": ["reject", "respond"],
    }
    copied: dict[str, Any] = {"copy_of": copy_of}
    own = {
        "agent": "purchase-requests",
        "reason": "approval.action",
        "call": "issue_purchase_order",
        "title": "An order",
    }
    return stated | (copied if copy_of else own) | changes


def an_example() -> Interrupt:
    """Return a request of the agent, which a planted one can copy."""
    builders.a_reviewer()
    return builders.a_waiting_interrupt()


def a_planted_request(lead: User | None = None, *, copy_of: Interrupt | None = None, **changes: Any) -> PlantedRequest:
    """Return an open planted copy of a request."""
    example = copy_of or an_example()
    return planted_requests.plant(lead or a_lead(), **written(example.public_id, **changes))
