"""Live updates: how many queries a poll costs, and what it reports after a change."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from ledger import clock
from reviewqueue import reviewer_actions as acts
from reviewqueue.pages import live_updates
from runs.models import Interrupt
from runs.use_cases.amend_interrupt import Amendment, amend_open_interrupt
from runs.use_cases.expire import expire_due_interrupts
from tests import builders
from tests.pages import desk
from tests.pages.test_inbox import decide, shown_ids

pytestmark = pytest.mark.django_db
LIST = {"HX-Request": "true", "HX-Target": "list"}
WAIT = {"HX-Request": "true", "HX-Target": "moved"}


@pytest.fixture(autouse=True)
def no_quarter_of_a_minute_ends(monkeypatch):
    monkeypatch.setattr(live_updates, "RENDERED_AFTER", 10**9)


def ask(client: Client, address: str, headers: dict[str, str], tag: str = ""):
    return client.get(address, headers=headers | ({"If-None-Match": tag} if tag else {}))


def statements(client: Client, address: str, headers: dict[str, str], tag: str) -> list[str]:
    with CaptureQueriesContext(connection) as captured:
        assert ask(client, address, headers, tag).status_code == 304
    return [query["sql"] for query in captured.captured_queries if "clock_timestamp" not in query["sql"]]


class TestAList:
    def test_it_answers_304_with_four_statements_while_nothing_moved(self):
        client = desk.signed_in(desk.lena())
        for number in range(30):
            desk.a_refund(number)
        for address in ("/", "/?view=open", "/?queue=refunds&q=cracked&risk=medium"):
            tag = ask(client, address, LIST)["ETag"]
            # The session, the person, their groups, the rows of this page of the list.
            assert len(statements(client, address, LIST, tag)) == 4

    def test_a_changed_list_is_rendered_and_an_unchanged_one_is_not_sent(self):
        person, other = desk.lena(), builders.a_reviewer("ben@company.example", "refunds")
        client = desk.signed_in(person)
        refund, order = desk.a_refund(1), desk.an_order()
        tag = ask(client, "/?view=open&queue=refunds", LIST)["ETag"]
        acts.claim_request(responder=other, interrupt_id=refund.public_id)
        answer = ask(client, "/?view=open&queue=refunds", LIST, tag)
        assert answer.status_code == 200
        assert "ben@company.example" in answer.content.decode()
        assert "csrfmiddlewaretoken" not in answer.content.decode()
        assert answer["Cache-Control"] == "no-store"
        decide(
            order, person
        )  # in another queue, so the list is unchanged and the counts change with the next rendering
        assert ask(client, "/?view=open&queue=refunds", LIST, answer["ETag"]).status_code == 304
        tag = ask(client, "/?view=open&queue=refunds", LIST)["ETag"]
        acts.add_comment(responder=person, interrupt_id=refund.public_id, text="Seen")  # moves nothing that is shown
        again = ask(client, "/?view=open&queue=refunds", LIST, tag)
        assert again.status_code == 304
        assert again["ETag"] != tag

    def test_a_claim_that_ends_by_itself_is_a_move(self):
        client, other = desk.signed_in(desk.lena()), builders.a_reviewer("ben@company.example", "refunds")
        refund = desk.a_refund(1)
        acts.claim_request(responder=other, interrupt_id=refund.public_id)
        tag = ask(client, "/", LIST)["ETag"]
        Interrupt.objects.update(claimed_until=clock.now())
        assert ask(client, "/", LIST, tag).status_code == 200

    def test_it_is_the_same_page_of_the_same_list(self):
        client = desk.signed_in(desk.lena())
        refund, _ = desk.a_refund(1), desk.an_order()
        assert shown_ids(ask(client, "/?queue=refunds", LIST).content.decode()) == [refund.public_id]

    def test_another_persons_answer_is_never_the_same(self):
        desk.a_refund(1)
        hers = ask(desk.signed_in(desk.lena()), "/", LIST)["ETag"]
        bens = desk.signed_in(builders.a_reviewer("ben@company.example", "refunds"))
        answer = ask(bens, "/", LIST, hers)
        assert answer.status_code == 200

    def test_who_has_signed_out_gets_no_page_but_the_way_to_sign_in(self):
        answer = ask(Client(), "/", LIST)
        assert answer["HX-Redirect"].startswith("/account/login/")
        assert answer.content == b""

    def test_relative_times_advance_without_a_change(self, monkeypatch):
        monkeypatch.setattr(live_updates, "RENDERED_AFTER", 10**-6)
        client = desk.signed_in(desk.lena())
        refund = desk.a_refund(1)
        tag = ask(client, "/", LIST)["ETag"]
        Interrupt.objects.filter(pk=refund.pk).update(deadline=clock.now() + timedelta(minutes=5))
        answer = ask(client, "/", LIST, tag)
        assert answer.status_code == 200
        assert "4 min" in answer.content.decode()


class TestAWait:
    def address(self, client: Client, interrupt: Interrupt) -> str:
        html = client.get(f"/interrupts/{interrupt.public_id}").content.decode()
        start = html.index('hx-get="/interrupts/') + len('hx-get="')
        return html[start : html.index('"', start)]

    def test_it_answers_304_with_three_statements_while_nothing_changes(self):
        client, interrupt = desk.signed_in(desk.lena()), desk.an_order()
        address = self.address(client, interrupt)
        tag = f'"{address.partition("seen=")[2]}"'
        assert len(statements(client, address, WAIT, tag)) == 3  # the session, the person, the request

    def test_it_says_what_happened_elsewhere(self):
        person, other = desk.lena(), builders.a_reviewer("ben@company.example", "refunds")
        client = desk.signed_in(person)
        held, decided, amended, over = (desk.a_refund(number) for number in range(4))
        addresses = {it.pk: self.address(client, it) for it in (held, decided, amended, over)}
        acts.claim_request(responder=other, interrupt_id=held.public_id)
        decide(decided, other, "reject")
        amend_open_interrupt(agent=amended.agent, interrupt_id=amended.public_id, amendment=Amendment(title="Another"))
        Interrupt.objects.filter(pk=over.pk).update(deadline=clock.now() - timedelta(seconds=1))
        expire_due_interrupts(limit=10)

        def live_status(interrupt: Interrupt) -> str:
            return ask(client, addresses[interrupt.pk], WAIT).content.decode()

        assert "ben@company.example claimed this request." in live_status(held).replace("</bdi>", "")
        assert "rejected." in live_status(decided)
        assert "The request has changed." in live_status(amended)
        assert "This was expired." in live_status(over)
        assert all("data-inert" in live_status(it) for it in (held, decided, amended, over))
        acts.release_request(responder=other, interrupt_id=held.public_id)
        assert "notice" not in live_status(held)

    def test_another_reviewers_vote_is_reported_and_disables_nothing(self):
        person, other, third = desk.lena(), *(builders.a_reviewer(f"{name}@company.example") for name in ("ben", "zoe"))
        client, interrupt = desk.signed_in(person), builders.a_waiting_interrupt(builders.a_wait(wish={"quorum": 3}))
        before = self.address(client, interrupt)
        tag = f'"{before.partition("seen=")[2]}"'
        assert ask(client, before, WAIT, tag).status_code == 304
        decide(interrupt, other)
        told = ask(client, before, WAIT, tag).content.decode()
        assert "ben@company.example approved this." in told.replace("</bdi>", "")
        assert "1 of 3 approvals so far; 2 more are needed." in told
        assert "Read it again" in told
        assert "data-inert" not in told
        after = self.address(client, interrupt)
        acts.undo_decision(responder=other, interrupt_id=interrupt.public_id)
        assert "An approval was undone." in ask(client, after, WAIT).content.decode()
        decide(interrupt, third)  # as many as there were, and another's
        told = ask(client, after, WAIT).content.decode()
        assert "zoe@company.example approved this." in told.replace("</bdi>", "")

    def test_only_a_permitted_reviewer_reads_that_their_vote_is_the_last(self):
        person, other = desk.lena(), builders.a_reviewer("ben@company.example")
        reader, starter = (
            builders.a_person("olga@company.example", "operators"),
            builders.a_reviewer("ina@company.example"),
        )
        started = builders.a_running_run(initiator=starter)
        interrupt = builders.a_waiting_interrupt(builders.a_wait(wish={"quorum": 2}), started=started)
        clients = {it: desk.signed_in(it) for it in (person, reader, starter)}
        addresses = {it: self.address(client, interrupt) for it, client in clients.items()}
        decide(interrupt, other)
        told = {it: ask(client, addresses[it], WAIT).content.decode() for it, client in clients.items()}
        assert "1 of 2 approvals so far; yours is the last." in told[person]
        assert "1 of 2 approvals so far; one more is needed." in told[reader]
        assert "1 of 2 approvals so far; one more is needed." in told[starter]

    def test_an_own_vote_on_another_page_is_reported_and_prevents_a_second_vote(self):
        person, _ = desk.lena(), builders.a_reviewer("ben@company.example")
        client, interrupt = desk.signed_in(person), builders.a_waiting_interrupt(builders.a_wait(wish={"quorum": 2}))
        before = self.address(client, interrupt)
        decide(interrupt, person)
        told = ask(client, before, WAIT).content.decode()
        assert "You approved this on another page." in told
        assert "data-inert" in told

    def test_an_ended_own_claim_is_reported_and_disables_nothing(self):
        person = desk.lena()
        client, interrupt = desk.signed_in(person), desk.a_refund(1)
        acts.claim_request(responder=person, interrupt_id=interrupt.public_id)
        address = self.address(client, interrupt)
        Interrupt.objects.update(claimed_until=clock.now())
        told = ask(client, address, WAIT).content.decode()
        assert "Your claim has ended." in told
        assert "data-inert" not in told

    @pytest.mark.parametrize(
        "seen",
        [
            *("", "x", "waiting.1", "waiting.9999999999.0", "waiting.1.0.0", "waiting.1.0.0.", "%00", "answered.1.0"),
            *("waiting.1.0.0.0xzz", "waiting.1.0.0.x1", "answered.1.0.0.0"),
        ],
    )
    def test_an_invented_state_shows_nothing(self, seen: str):
        client, interrupt = desk.signed_in(desk.lena()), desk.a_refund(1)
        answer = ask(client, f"/interrupts/{interrupt.public_id}/standing?seen={seen}", WAIT)
        assert answer.status_code == 200
        assert "notice" not in answer.content.decode()

    def test_a_foreign_wait_is_a_missing_one(self):
        interrupt = desk.an_order()
        client = desk.signed_in(builders.a_reviewer("ben@company.example", "refunds"))
        assert ask(client, f"/interrupts/{interrupt.public_id}/standing", WAIT).status_code == 404

    def test_only_earlier_reviewers_read_that_a_request_was_escalated(self):
        leads = builders.a_queue("leads-only")
        builders.a_policy("approval.action", queues=["refunds"], escalate_to=leads, on_expiry="escalate")
        ben = builders.a_reviewer("ben@company.example", "refunds")
        stranger = desk.signed_in(builders.a_reviewer("zoe@company.example", "elsewhere"))
        interrupt = desk.a_refund(1, wish={"queue": "refunds", "on_expiry": {"do": "escalate"}})
        client = desk.signed_in(ben)
        address = self.address(client, interrupt)
        builders.move_deadline(interrupt, clock.now())
        assert expire_due_interrupts(limit=10) == 1
        answer = ask(client, address, WAIT)
        told = answer.content.decode()
        assert "No answer in time." in told
        assert "The request was escalated to Leads only with a new deadline." in told
        assert "You can read it, but not decide it. Your input stays on this page." in told
        assert "data-inert" in told
        assert ask(client, address, WAIT, answer["ETag"]).status_code == 304
        assert client.get(f"/interrupts/{interrupt.public_id}").status_code == 200
        assert ask(stranger, address, WAIT).status_code == 404
        ben.groups.clear()
        assert ask(client, address, WAIT).status_code == 404
