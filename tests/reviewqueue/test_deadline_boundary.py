"""One millisecond before the deadline, at it, and one after it; without a sweep, so only the gateway decides."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from ledger import clock
from reviewqueue import reviewer_actions
from runs.errors import Expired
from runs.models import Continuation, Decision, Event, Interrupt, Permit, Run
from runs.use_cases import expire
from tests import builders, figures

pytestmark = [pytest.mark.django_db, pytest.mark.proves(7)]

#: Each expiry rule, and the resulting status of interrupt and run. Escalation has its own tests: it continues the interrupt.
ENDS = {
    "cancel": ({"do": "cancel"}, "expired"),
    "fail": ({"do": "fail"}, "failed"),
    "resume": ({"do": "resume"}, "ready"),
    "default": ({"do": "default", "verdict": "reject"}, "ready"),
}
OFFSETS = {"-1 ms": -1000, "-1 us": -1, "0": 0, "+1 us": 1, "+1 ms": 1000}


@pytest.fixture(autouse=True)
def no_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    def sweep(**_: Any) -> int:
        raise AssertionError("a sweep ran")

    monkeypatch.setattr(expire, "expire_due_interrupts", sweep)


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("moment", OFFSETS)
def test_an_answer_counts_before_the_deadline_and_from_it_on_it_does_not(moment: str, end: str):
    """CASES C055, C056, C058: whatever the policy does at the end."""
    on_expiry, run_stands = ENDS[end]
    ana, interrupt = builders.a_reviewer(), builders.a_waiting_interrupt(builders.a_wait(wish={"on_expiry": on_expiry}))
    # All code reads one clock, which is frozen here to test each microsecond.
    at_moment = builders.at_time(lambda: interrupt.deadline + timedelta(microseconds=OFFSETS[moment]))

    if OFFSETS[moment] < 0:
        with at_moment:
            assert builders.decide(interrupt, ana).decision.status == "accepted"
        figures.count("answers up to 1 ms before the deadline", "counted")
        return

    with at_moment, pytest.raises(Expired):
        builders.decide(interrupt, ana)
    interrupt.refresh_from_db()
    assert (interrupt.status, Run.objects.get().status) == ("expired", run_stands)
    assert not Decision.objects.filter(by=ana, status="accepted").exists()
    assert not Permit.objects.exists()
    assert Event.objects.filter(type="interrupt.expired").count() == 1
    assert Continuation.objects.count() == (1 if run_stands == "ready" else 0)
    figures.count("answers at the deadline or up to 1 ms after it, no sweep running", "0 accepted, all refused")


@pytest.mark.parametrize("answers", [100])
def test_by_the_databases_own_clock_no_late_answer_counts(answers: int):
    """The deadline is moved to within two milliseconds of now; the result is read from the rows."""
    ana = builders.a_reviewer()
    chance = random.Random(figures.SEED)
    told = {"counted": 0, "late": 0}
    for _ in range(answers):
        interrupt = builders.a_waiting_interrupt(builders.a_wait(wish={"on_expiry": {"do": "resume"}}))
        within = timedelta(milliseconds=chance.uniform(-2, 40))
        builders.move_deadline(interrupt, clock.now() + within)
        try:
            builders.decide(interrupt, ana)
            told["counted"] += 1
        except Expired:
            told["late"] += 1
        interrupt.refresh_from_db()
        accepted = Decision.objects.get(interrupt=interrupt, closes=True)
        was_answered = accepted.by_id is not None
        assert was_answered == (accepted.created_at < interrupt.deadline) == (interrupt.status == "answered")
    figures.count("answers around the deadline by the database's clock", "0 late counted", n=answers)


@pytest.mark.parametrize("verb", ["claim", "extend", "assign"])
def test_no_reviewer_action_extends_a_request_at_its_deadline(verb: str):
    lead, interrupt = builders.a_person("lea@example.org", "engineering-leads"), builders.a_waiting_interrupt()
    builders.move_deadline(interrupt, clock.now())
    act: dict[str, Callable[[], Any]] = {
        "claim": lambda: reviewer_actions.claim_request(responder=lead, interrupt_id=interrupt.public_id),
        "extend": lambda: reviewer_actions.extend_deadline(
            responder=lead, interrupt_id=interrupt.public_id, by=timedelta(minutes=5)
        ),
        "assign": lambda: reviewer_actions.assign_request(responder=lead, interrupt_id=interrupt.public_id, people=[]),
    }
    with pytest.raises(Expired):
        act[verb]()
    with pytest.raises(Expired):
        builders.decide(interrupt, lead)
    assert Interrupt.objects.get(pk=interrupt.pk).status == "expired"
