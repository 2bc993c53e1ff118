"""Pages on a run that no worker claims: the list, the run with its three remedies, the receipt of the decision."""

from __future__ import annotations

from datetime import timedelta

import pytest

from ledger import clock
from runs.models import Continuation, Run
from runs.use_cases.control_run import cancel_run, pause_run
from runs.use_cases.expire import release_lapsed_leases
from runs.use_cases.release_lease import VERSIONS_BEFORE_HOLD
from tests import builders
from tests.pages import desk
from tests.pages.test_receipts_and_runs import decide, receipt_of, text
from tests.runs.test_compensation import a_cancelled_run
from tests.runs.test_unclaimed_continuations import offered_since
from tests.runs.test_versions import unread_by

pytestmark = pytest.mark.django_db

QUARTER = timedelta(minutes=14)


@pytest.fixture
def owner():
    return builders.a_person("own@example.org", "agent-owners")


def a_run_for(length: timedelta, *, version: str = "2.4.1") -> Run:
    run = builders.a_running_run(lease_seconds=0, code_version=version).run
    return offered_since(run, clock.now() - length)


def page(person, address: str) -> str:
    response = desk.signed_in(person).get(address)
    assert response.status_code == 200
    return text(response.content.decode())


def test_the_list_tells_after_a_time_that_a_run_is_stranded_and_in_which_version(owner):
    a_run_for(timedelta(minutes=3))
    told = page(owner, "/runs")
    assert "no worker has claimed it for 3 min" in told
    assert "it needs code" not in told
    run = a_run_for(QUARTER)
    told = page(owner, "/runs?of=stranded")
    assert "no worker has claimed it for 14 min; it needs code version 2.4.1" in told
    assert run.public_id in told
    assert told.count("run_") == 1


def test_the_list_of_stranded_runs_has_the_held_ones_and_no_paused_one(owner):
    builders.decide(
        builders.a_waiting_interrupt(started=builders.a_running_run(code_version="1")), builders.a_reviewer()
    )
    held = unread_by(Run.objects.get(), "1", "2", "3")
    paused = a_run_for(QUARTER)
    pause_run(run_id=paused.public_id, actor="person:own@example.org", reason="", check=lambda _: None)
    told = page(owner, "/runs?of=stranded")
    assert "3 code versions cannot read it" in told
    assert held.public_id in told
    assert paused.public_id not in told
    assert "stranded" not in page(owner, "/runs?status=paused").replace("Stranded", "")


def test_the_page_of_a_held_run_says_what_the_list_says(owner):
    builders.decide(
        builders.a_waiting_interrupt(started=builders.a_running_run(code_version="1")), builders.a_reviewer()
    )
    held = unread_by(Run.objects.get(), "1", "2", "3")
    told = page(owner, f"/runs/{held.public_id}")
    assert "Three code versions of the agent cannot read its checkpoint" in told
    assert "No worker knows" not in told
    assert VERSIONS_BEFORE_HOLD == 3, "the text names the number"


def test_the_list_without_stranded_runs_has_an_empty_state(owner):
    assert "No stranded runs" in page(owner, "/runs?of=stranded")


def test_the_page_of_a_run_says_what_it_waits_for_and_the_three_ways_out(owner):
    run = a_run_for(QUARTER)
    told = page(owner, f"/runs/{run.public_id}")
    assert "Stranded: no worker has claimed the run for 14 min." in told
    assert "a worker of purchase-requests that has or accepts code version 2.4.1" in told
    assert "Start a worker that can read it, assign it to another code version , or cancel it" in told
    assert "Set the code version" in told
    assert "Any worker can claim the run and continue it." not in told
    run = a_run_for(timedelta(minutes=3))
    assert "Stranded" not in page(owner, f"/runs/{run.public_id}")


def test_who_could_not_read_it_is_named_also_before_anybody_wonders(owner):
    run = builders.a_running_run(lease_seconds=0, code_version="1").run
    unread_by(run, "2")
    told = page(owner, f"/runs/{run.public_id}")
    assert "Not every worker can read its checkpoint." in told
    assert "Handed back by code version 2 , and not offered to it again." in told
    assert "incompatible : code version 2 ; no such step" in told


def test_who_started_it_may_end_it_and_is_sent_to_its_owners(owner):
    tom = builders.a_person("tom@example.org")
    run = builders.a_running_run(lease_seconds=0, code_version="1", initiator=tom).run
    offered_since(run, clock.now() - QUARTER)
    told = page(tom, f"/runs/{run.public_id}")
    assert "Its owners can assign it to another code version; you can cancel it ." in told
    assert "Set the code version" not in told


def test_an_ended_run_without_a_worker_to_compensate_is_shown():
    owner = builders.a_person("op@example.org", "operators")
    run = offered_since(a_cancelled_run("order"), clock.now() - QUARTER)
    told = page(owner, f"/runs/{run.public_id}")
    assert "No worker has claimed the run for 14 min to compensate its effects." in told
    assert "whatever its code version" in told
    assert "no worker has claimed it for 14 min to compensate its effects" in page(owner, "/runs?of=stranded")


def test_a_version_with_markup_is_escaped(owner):
    run = a_run_for(QUARTER, version="<b>2</b>\u202e")
    html = desk.signed_in(owner).get(f"/runs/{run.public_id}").content.decode()
    assert "<b>2</b>" not in html
    assert "\u202e" not in html
    html = desk.signed_in(owner).get("/runs").content.decode()
    assert "<b>2</b>" not in html
    assert "\u202e" not in html


# --- the receipt ------------------------------------------------------------------------------------------------------


def test_a_receipt_tells_that_no_worker_has_taken_it_and_since_when():
    person, interrupt = desk.lena(), desk.an_order()
    decision = decide(interrupt, person, door="api")
    assert "no worker has claimed it" not in text(receipt_of(decision, person))
    Run.objects.update(code_version="1")
    offered_since(interrupt.run, clock.now() - QUARTER)
    told = text(receipt_of(decision, person))
    assert "Approved; no worker has claimed it for 14 min." in told
    assert "with or compatible with code version 1" in told
    assert "The answer is kept until then" in told
    assert "Ready no worker has claimed it for 14 min" in told
    unread_by(Run.objects.get(), "7")
    offered_since(interrupt.run, clock.now() - QUARTER)
    assert "Returned by code version 7 ." in text(receipt_of(decision, person))


def test_a_receipt_of_a_paused_run_blames_no_worker():
    person, interrupt = desk.lena(), desk.an_order()
    decision = decide(interrupt, person, door="api")
    offered_since(interrupt.run, clock.now() - QUARTER)
    pause_run(run_id=interrupt.run.public_id, actor="person:x", reason="", check=lambda _: None)
    assert "no worker has claimed it" not in text(receipt_of(decision, person))


# --- the actions -------------------------------------------------------------------------------------------------------


def test_an_owner_gives_a_run_to_another_version_on_its_page(owner):
    run = a_run_for(QUARTER)
    client, address = desk.signed_in(owner), f"/runs/{run.public_id}/retag"
    told = client.post(address, {"code_version": "3.0"}, follow=True).content.decode()
    assert "The reason must have" in told
    for wrong in ("", "  ", "x" * 101, "3\x000"):
        told = client.post(address, {"code_version": wrong, "reason": "why"}, follow=True).content.decode()
        assert "The code version must have 1 to 100 characters. Nothing was changed." in told
    assert Run.objects.get().code_version == "2.4.1"
    html = client.post(address, {"code_version": "3.0", "reason": "it reads it"}, follow=True).content.decode()
    assert "Only workers with code version 3.0 can claim the run now." in html
    told = text(html)
    assert "assigned the run to code version 3.0 instead of 2.4.1 it reads it" in told
    assert Run.objects.get().code_version == "3.0"


def test_a_run_in_a_worker_s_hands_says_why_it_cannot_be_retagged(owner):
    run = builders.a_running_run(code_version="1").run
    assert "Not available while a worker holds the lease." in page(owner, f"/runs/{run.public_id}")
    form = {"code_version": "3.0", "reason": "it reads it"}
    told = desk.signed_in(owner).post(f"/runs/{run.public_id}/retag", form, follow=True).content.decode()
    assert "A worker holds the lease of this run, so the code version was not changed." in told


def test_a_reviewer_cannot_retag_a_run():
    interrupt = builders.a_waiting_interrupt(started=builders.a_running_run(code_version="1"))
    form = {"code_version": "3.0", "reason": "it reads it"}
    address = f"/runs/{interrupt.run.public_id}/retag"
    told = desk.signed_in(builders.a_reviewer()).post(address, form, follow=True).content.decode()
    assert "Only owners of the agent and operators" in told
    assert desk.signed_in(builders.a_person("eve@example.org")).post(address, form).status_code == 404
    assert Run.objects.get().code_version == "1"


def test_a_restart_on_the_page_chooses_its_checkpoint(owner):
    started = builders.a_running_run(code_version="1")
    builders.commit(started)
    Run.objects.update(code_version="2")
    run = a_stopped(started.run)
    client = desk.signed_in(owner)
    told = text(client.get(f"/runs/{run.public_id}").content.decode())
    assert "1: compare-offers (code 1) (latest) 0: start (code 1)" in told
    address = f"/runs/{run.public_id}/restart"
    form = {"reason": "the old code is back"}
    for wrong in ("7", "x", "-1", "9" * 20):
        told = client.post(address, form | {"checkpoint": wrong}, follow=True).content.decode()
        assert "must be the number of a checkpoint of this run" in told
    client.post(address, form | {"checkpoint": "0"})
    run.refresh_from_db()
    assert (run.epoch, run.code_version) == (2, "1")
    assert Continuation.objects.get(run=run, status="checking").checkpoint.step == "start"


def a_stopped(run: Run) -> Run:
    builders.end_lease_now(run, clock.now())
    cancel_run(run_id=run.public_id, actor="person:x", reason="", check=lambda _: None)
    release_lapsed_leases(limit=5)
    run.refresh_from_db()
    assert run.status == "cancelled"
    return run
