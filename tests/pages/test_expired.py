"""Expired requests: their reviewers, how each ended, what the run did since, and the restart."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from ledger import clock
from reviewqueue import reviewer_actions as acts
from reviewqueue.queries import expired as lapsed
from runs.models import Interrupt, Run
from runs.use_cases.control_run import restart_run
from runs.use_cases.expire import expire_due_interrupts
from tests import builders
from tests.pages import desk
from tests.runs.leased_run_builders import begin, report

pytestmark = pytest.mark.django_db


@pytest.fixture
def owner():
    return builders.a_person("own@example.org", "agent-owners")


def let_expire(interrupt: Interrupt, *, times: int = 1) -> Interrupt:
    for _ in range(times):
        interrupt.refresh_from_db()
        builders.move_deadline(interrupt, clock.now() - timedelta(seconds=1))
        assert expire_due_interrupts(limit=10) == 1
    interrupt.refresh_from_db()
    return interrupt


def expiring(do: str, **answer: object) -> dict[str, object]:
    return {"on_expiry": {"do": do, **answer}}


def page(client: Client, query: str = "") -> str:
    return client.get(f"/expired{query}").content.decode()


def row_of(html: str, interrupt: Interrupt) -> str:
    found = re.search(rf'<tr id="wait-{interrupt.public_id}">.*?</tr>', html, re.DOTALL)
    assert found is not None, "the request is not listed"
    return " ".join(re.sub(r"<[^>]+>", " ", found[0]).split())


def press(client: Client, interrupt: Interrupt, **fields: str) -> str:
    sent = {"reason": "No answer in time; ask again"} | fields
    return client.post(f"/expired/{interrupt.public_id}/restart", sent, follow=True).content.decode()


def test_it_says_who_was_asked_who_claimed_it_and_what_followed(owner):
    ana = builders.a_reviewer()
    wait = builders.a_waiting_interrupt(builders.a_wait(assignees=["ana@example.org"]))
    acts.claim_request(responder=ana, interrupt_id=wait.public_id)
    let_expire(wait)
    told = row_of(page(desk.signed_in(owner)), wait)
    assert "Engineering" in told
    assert "for ana@example.org" in told
    assert "last claimed by ana@example.org" in told
    assert "The run ended as expired." in told
    assert "no effects" in told


def test_an_escalated_request_names_all_its_queues(owner):
    builders.a_policy("approval.action", escalate_to=builders.a_queue("directors"), on_expiry="escalate", then="fail")
    wait = builders.a_waiting_interrupt(builders.a_wait(wish=expiring("escalate")))
    let_expire(wait, times=2)
    told = row_of(page(desk.signed_in(owner)), wait)
    assert "Engineering, then Directors" in told
    assert "escalated 1 time before" in told
    assert "The run ended as failed." in told
    assert "not claimed" in told


@pytest.mark.parametrize(
    ("do", "answer", "told"),
    [
        ("resume", {}, "The agent was notified and continued without an answer."),
        ("default", {"verdict": "reject"}, "By its policy it counted as rejected."),
    ],
)
def test_a_request_whose_run_continued_offers_no_restart(owner, do, answer, told):
    builders.a_policy("approval.action", on_expiry_allowed=["cancel", "default", "resume"])
    wait = let_expire(builders.a_waiting_interrupt(builders.a_wait(wish=expiring(do, **answer))))
    client = desk.signed_in(owner)
    row = row_of(page(client), wait)
    assert told in row
    assert "Nothing to restart" in row
    assert wait.public_id not in page(client, "?of=standing")


def test_one_press_restarts_the_run_and_the_row_says_who_did(owner):
    wait = let_expire(builders.a_waiting_interrupt())
    client = desk.signed_in(owner)
    assert 'value="No answer in time; ask again"' in page(client, "?of=standing")
    told = press(client, wait, list="of=standing")
    assert "Restarted as epoch 2" in told
    assert wait.public_id not in told.split("</nav>")[-1]  # back in the same list, which has it no more
    run = Run.objects.get(pk=wait.run_id)
    assert (run.epoch, run.status) == (2, "revalidating")
    row = row_of(page(client), wait)
    assert "by own@example.org" in row
    assert "No answer in time; ask again" in row
    assert "now epoch 2" in row


def test_pressed_twice_is_restarted_once(owner):
    wait = let_expire(builders.a_waiting_interrupt())
    client = desk.signed_in(owner)
    press(client, wait)
    assert "restarted after" in press(client, wait)
    assert Run.objects.get(pk=wait.run_id).epoch == 2


def test_a_page_that_was_open_when_the_run_ended_a_second_time_restarts_nothing(owner):
    wait = let_expire(builders.a_waiting_interrupt())
    client = desk.signed_in(owner)
    press(client, wait)
    run = Run.objects.get(pk=wait.run_id)
    Run.objects.filter(pk=run.pk).update(status="expired", ended_at=clock.now(), ending="expired")
    assert "This run was restarted after its request expired." in press(client, wait)
    assert Run.objects.get(pk=run.pk).epoch == 2


def a_lapse_with_a_failed_effect() -> Interrupt:
    started = builders.a_running_run()
    begin(started.run, key="rope", name="order_rope", arguments={"length": 40})
    report(started.run, "failed", key="rope")
    return let_expire(builders.a_waiting_interrupt(started=started))


def test_where_an_effect_failed_the_way_leads_to_the_run_and_one_press_does_nothing(owner):
    wait = a_lapse_with_a_failed_effect()
    client = desk.signed_in(owner)
    html = page(client)
    assert f'href="/runs/{wait.run.public_id}#actions"' in html
    assert f"/expired/{wait.public_id}/restart" not in html
    assert "effects: 1 failed" in row_of(html, wait)
    answer = client.post(f"/expired/{wait.public_id}/restart", {"reason": "again"})
    assert answer.url == f"/runs/{wait.run.public_id}#actions"
    assert Run.objects.get(pk=wait.run_id).epoch == 1


def test_a_reviewer_sees_who_may_restart_it_and_cannot(owner):
    builders.a_person("ops@example.org", "operators")
    gone = builders.a_person("gone@example.org", "agent-owners")
    gone.is_active = False
    gone.save()
    wait = let_expire(builders.a_waiting_interrupt())
    client = desk.signed_in(builders.a_reviewer())
    html = page(client)
    assert "Can be restarted by own@example.org , ops@example.org" in row_of(html, wait)
    assert "/restart" not in html
    assert "Only owners of the agent and operators can restart this run." in press(client, wait)
    assert Run.objects.get(pk=wait.run_id).epoch == 1


def test_an_owner_who_started_the_run_is_not_named_and_cannot(owner):
    started = builders.a_running_run(initiator=owner)
    wait = let_expire(builders.a_waiting_interrupt(started=started))
    client = desk.signed_in(owner)
    assert "Cannot be restarted" in row_of(page(client), wait)
    assert "You started this run, so another owner must restart it." in press(client, wait)


def test_a_foreign_wait_and_one_that_did_not_expire_are_missing(owner):
    wait = let_expire(builders.a_waiting_interrupt())
    stranger = desk.signed_in(builders.a_reviewer("zoe@example.org", "elsewhere"))
    assert wait.public_id not in page(stranger)
    assert "engineering" not in page(stranger).lower()
    assert stranger.post(f"/expired/{wait.public_id}/restart", {"reason": "x"}).status_code == 404
    open_one = builders.a_waiting_interrupt()
    assert desk.signed_in(owner).post(f"/expired/{open_one.public_id}/restart", {"reason": "x"}).status_code == 404


@pytest.mark.parametrize("reason", ["", "   ", "x" * 301, "a\x00b"])
def test_a_restart_without_a_good_reason_does_nothing(owner, reason):
    wait = let_expire(builders.a_waiting_interrupt())
    assert "The reason must have 1 to 300 characters. Nothing was changed." in press(
        desk.signed_in(owner), wait, reason=reason
    )
    assert Run.objects.get(pk=wait.run_id).epoch == 1


def test_another_open_request_of_the_run_is_mentioned(owner):
    wait, other = builders.a_wait("order"), builders.a_wait("second")
    opened = builders.suspend_run(builders.a_running_run(), wait, other, resume_when="any").interrupts
    let_expire(opened[0])
    assert "Another request of the run stayed open." in row_of(page(desk.signed_in(owner)), opened[0])


def test_pages_follow_each_other_by_their_end_and_filters_stay_on(owner, monkeypatch):
    monkeypatch.setattr(lapsed, "PAGE_SIZE", 3)
    waits = [let_expire(builders.a_waiting_interrupt()) for _ in range(7)]
    client, seen, query = desk.signed_in(owner), [], "?queue=engineering"
    while query:
        html = page(client, query)
        seen += re.findall(r'<tr id="wait-(\w+)"', html)
        following = re.search(r'rel="next" href="/expired(\?[^"]+)"', html)
        query = following[1].replace("&amp;", "&") if following else ""
        assert not query or "queue=engineering" in query
    assert seen == [wait.public_id for wait in waits[::-1]]


@pytest.mark.parametrize("query", ["?after=x", "?queue=%00", "?agent=a%20b", "?after=1~x~1&after=2", "?of=nonsense"])
def test_what_cannot_be_read_in_the_address_leads_to_the_list(owner, query):
    wait = let_expire(builders.a_waiting_interrupt())
    assert wait.public_id in page(desk.signed_in(owner), query)


def test_more_waits_cost_no_more_statements(owner):
    client = desk.signed_in(owner)

    def statements() -> int:
        with CaptureQueriesContext(connection) as captured:
            assert client.get("/expired").status_code == 200
        return len(captured)

    a_lapse_with_a_failed_effect()
    few = statements()
    for number in range(6):
        started = builders.a_running_run(initiator=builders.a_person(f"tom{number}@example.org"))
        let_expire(builders.a_waiting_interrupt(started=started))
    again = let_expire(builders.a_waiting_interrupt())
    restart_run(run_id=again.run.public_id, person=owner, reason="again", check=lambda run: None)
    assert statements() == few <= 22


def test_a_halted_agent_is_named(owner):
    let_expire(builders.a_waiting_interrupt())
    desk.signed_in(owner).post("/agents/purchase-requests/halt", {"reason": "look"})
    assert "is halted by own@example.org" in re.sub(r"<[^>]+>", "", page(desk.signed_in(owner)))


def test_the_inbox_links_to_expired_requests_and_their_empty_state_explains_them(owner):
    client = desk.signed_in(owner)
    assert "No expired requests" in page(client)
    let_expire(builders.a_waiting_interrupt())
    assert 'href="/?view=expired"' in client.get("/").content.decode()
    assert 'href="/expired"' in client.get("/?view=expired").content.decode()
