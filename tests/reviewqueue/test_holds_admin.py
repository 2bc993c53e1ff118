"""The admin pages of holds: an owner waives a fact that cannot be checked, or lets workers try a run again."""

from __future__ import annotations

from zoneinfo import ZoneInfo

import pytest
from django.contrib.auth.models import User
from django.db import transaction
from django.test import Client

from ledger import clock
from reviewqueue import tasks
from runs.holds import open_hold
from runs.locks import locked_runs
from runs.models import Continuation, Fact, Hold, Run
from runs.run_status import save_status
from runs.states import HoldKind
from runs.use_cases.reconcile_facts import FetchedFact, revalidate_continuation
from tests import builders

pytestmark = pytest.mark.django_db


def staff(address: str, *groups: str) -> User:
    person = builders.a_person(address, *groups)
    person.is_staff = True
    person.save()
    return person


def signed_in(person: User) -> Client:
    client = Client()
    client.force_login(person)
    return client


def no_server_answers(_: object) -> FetchedFact:
    return FetchedFact(trouble="No server answers at the address.")


def a_run_held_for_a_fact(**request) -> Hold:
    builders.a_connection()
    interrupt = builders.a_waiting_interrupt(
        builders.a_wait(facts=[builders.a_checked_fact()]), started=builders.a_running_run(**request)
    )
    builders.decide(interrupt, builders.a_reviewer())
    continuation = Continuation.objects.get()
    for _ in range(3):
        Continuation.objects.update(check_due_at=clock.now())
        revalidate_continuation(continuation_id=continuation.public_id, fetch=no_server_answers)
    return Hold.objects.get()


def page_of(hold: Hold) -> str:
    return f"/admin/runs/hold/{hold.pk}/change/"


def test_the_owner_sees_what_holds_the_run_and_why():
    hold = a_run_held_for_a_fact()
    html = signed_in(staff("olga@example.org", "agent-owners")).get(page_of(hold)).content.decode()
    for words in (
        "fact_unavailable",
        "specification",
        "No server answers at the address.",
        "Continue without this fact",
    ):
        assert words in html


def test_the_owner_waives_the_fact_with_a_reason_and_the_run_continues():
    hold = a_run_held_for_a_fact()
    olga = signed_in(staff("olga@example.org", "agent-owners"))

    html = olga.post(page_of(hold), {"reason": "Confirmed by phone: still 7."}, follow=True).content.decode()

    assert "The run continues without specification." in html
    assert "Continue without this fact" not in html
    fact = Fact.objects.get()
    assert (fact.waived_by.username, fact.waived_reason) == ("olga@example.org", "Confirmed by phone: still 7.")
    tasks.sweep()
    assert Run.objects.get().status == "ready"


def test_without_a_reason_nothing_is_waived():
    hold = a_run_held_for_a_fact()
    reply = signed_in(staff("olga@example.org", "agent-owners")).post(page_of(hold), {"reason": " "})
    assert reply.status_code == 200
    assert Fact.objects.get().waived_by is None


def test_the_initiator_of_the_run_cannot_waive_its_fact():
    olga = staff("olga@example.org", "agent-owners")
    hold = a_run_held_for_a_fact(initiator=olga)
    html = signed_in(olga).post(page_of(hold), {"reason": "I am sure."}, follow=True).content.decode()
    assert "not for a run that they started" in html
    assert Run.objects.get().status == "blocked"


@pytest.mark.parametrize("groups", [["other-owners"], []])
def test_a_hold_of_other_owners_is_not_found(groups):
    builders.an_agent("other", owner="other-owners")
    hold = a_run_held_for_a_fact()
    desk = signed_in(staff("olaf@example.org", *groups))
    assert desk.get(page_of(hold)).status_code in {403, 404}
    assert desk.post(page_of(hold), {"reason": "Let it go."}).status_code in {403, 404}
    assert Run.objects.get().status == "blocked"


def test_a_run_that_workers_gave_up_on_is_tried_again():
    interrupt = builders.a_waiting_interrupt()
    builders.decide(interrupt, builders.a_reviewer())
    with transaction.atomic():
        run, now = locked_runs().get(), clock.now()
        open_hold(run, HoldKind.GAVE_UP, owner_id=run.agent.owner_id, reason="5 workers claimed it.", now=now)
        save_status(run, now)
    hold = Hold.objects.get()
    olga = signed_in(staff("olga@example.org", "agent-owners"))
    html = olga.post(page_of(hold), {"reason": "Fixed in 2.1."}, follow=True).content.decode()
    assert "Workers can claim the run." in html
    assert Run.objects.get().status == "ready"


def test_a_hold_of_an_effect_is_settled_at_the_effect():
    hold = a_run_held_for_a_fact()
    Hold.objects.update(kind=HoldKind.UNKNOWN_EFFECT)
    html = signed_in(staff("olga@example.org", "agent-owners")).get(page_of(hold)).content.decode()
    assert "<form" not in html[html.index("<h2>Hold</h2>") :]


def test_times_are_in_the_zone_that_they_name():
    hold, client = a_run_held_for_a_fact(), signed_in(staff("olga@example.org", "agent-owners"))
    client.cookies["zone"] = "Asia/Tokyo"
    opened = hold.opened_at.astimezone(ZoneInfo("Asia/Tokyo"))
    for address in (page_of(hold), "/admin/runs/hold/"):
        html = client.get(address).content.decode()
        assert f"{opened:%Y-%m-%d %H:%M:%S} JST" in html, address
        assert f"{opened:%H:%M:%S} UTC" not in html
