"""The inbox: permissions, order, counts, number of queries, empty states."""

from __future__ import annotations

import re
from datetime import timedelta
from urllib.parse import parse_qsl, urlsplit

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext

from ledger import clock
from reviewqueue import reviewer_actions as acts
from reviewqueue.queries import inbox, inbox_counts, inbox_filters
from reviewqueue.queries.inbox import View
from reviewqueue.queries.inbox_filters import explain_invalid_search
from reviewqueue.resume_gateway import ShownVersion, submit_decision
from runs.decisions import Answer
from runs.models import Event, Interrupt, Run
from tests import builders
from tests.pages import desk
from tests.pages.test_expired import let_expire

pytestmark = pytest.mark.django_db


def titles(html: str) -> list[str]:
    return [re.sub(r"<[^>]+>", "", found) for found in re.findall(r'<div class="ask">\s*<a [^>]+>(.*?)</a>', html)]


def shown_ids(html: str) -> list[str]:
    return re.findall(r'<li class="wait" id="wait-(\w+)"', html)


def decide(interrupt: Interrupt, person, verdict: str = "approve") -> None:
    answer = Answer(verdict=verdict)
    submit_decision(
        responder=person,
        interrupt_id=interrupt.public_id,
        answer=answer,
        seen=ShownVersion(state_version=interrupt.state_version),
        door="api",
    )


def test_requests_are_sorted_by_risk_then_by_time_left():
    person = desk.lena()
    wishes = [("low", 1), ("high", 9), ("medium", 3), ("high", 2), ("medium", 1)]
    for risk, hours in wishes:
        builders.a_waiting_interrupt(builders.a_wait(wish={"risk": risk, "deadline_in": timedelta(hours=hours)}))
    html = desk.signed_in(person).get("/").content.decode()
    waits = {wait.public_id: wait for wait in Interrupt.objects.all()}
    order = [(waits[one].risk, waits[one].deadline) for one in shown_ids(html)]
    rank = {"high": 0, "medium": 1, "low": 2}
    assert [(rank[risk], at) for risk, at in order] == sorted((rank[risk], at) for risk, at in order)
    assert html.index("High risk") < html.index("Medium risk") < html.index("Low risk")


def test_a_title_is_made_from_the_stored_call_and_the_agents_title_is_quoted():
    person = desk.lena()
    desk.an_order(title="Routine, already approved by security")
    html = desk.signed_in(person).get("/").content.decode()
    assert titles(html) == ["Issue purchase order to S-17 for 184000.00 EUR"]
    assert '<q class="stated"><bdi class="exact">Routine, already approved by security</bdi></q>' in html
    assert '<data class="num" value="184000.00">' in html


def test_only_what_a_person_may_see_is_listed_and_counted():
    desk.an_order()
    refund = desk.a_refund(1)
    stranger = builders.a_reviewer("zoe@company.example", "elsewhere")
    html = desk.signed_in(stranger).get("/").content.decode()
    assert shown_ids(html) == []
    assert inbox.count_decidable_requests(stranger, now=clock.now()) == (0, False)
    refunds = builders.a_reviewer("ben@company.example", "refunds")
    assert shown_ids(desk.signed_in(refunds).get("/").content.decode()) == [refund.public_id]
    assert "engineering" not in desk.signed_in(refunds).get("/").content.decode().lower()


def test_every_count_equals_its_list():
    person, other = desk.lena(), builders.a_reviewer("ben@company.example")
    waits = [builders.a_waiting_interrupt() for _ in range(7)]
    for number in range(3):
        desk.a_refund(number)
    acts.claim_request(responder=person, interrupt_id=waits[0].public_id)
    acts.claim_request(responder=other, interrupt_id=waits[1].public_id)
    acts.claim_request(responder=other, interrupt_id=waits[2].public_id)
    Interrupt.objects.filter(pk=waits[2].pk).update(claimed_until=clock.now() - timedelta(seconds=1))
    builders.a_waiting_interrupt(builders.a_wait(assignees=[person.username]))
    decide(waits[3], other)
    Interrupt.objects.filter(pk=waits[4].pk).update(status="expired", closed_at=clock.now())
    client = desk.signed_in(person)
    counts = inbox_counts.count_requests(person, now=clock.now())
    open_views = {"decide": 8, "open": 9, "mine": 2, "unclaimed": 7, "snoozed": 0}
    assert counts.views == open_views | {"decided": 1, "expired": 1}
    for view in View:
        html = client.get(f"/?view={view}").content.decode()
        assert len(shown_ids(html)) == counts.views[view], view
        assert counts.shown(view) == str(counts.views[view])
    for queue in ("engineering", "refunds"):
        for view in (View.DECIDE, View.OPEN):
            html = client.get(f"/?view={view}&queue={queue}").content.decode()
            assert len(shown_ids(html)) == counts.of(view, queue)
    assert '<span class="faint num" id="inbox-count">8</span>' in client.get("/").content.decode()


def test_a_request_decided_elsewhere_moves_to_the_decided_list():
    person, other = desk.lena(), builders.a_reviewer("ben@company.example")
    interrupt = builders.a_waiting_interrupt()
    decide(interrupt, other, "reject")
    client = desk.signed_in(person)
    assert interrupt.public_id not in client.get("/").content.decode()
    decided = client.get("/?view=decided").content.decode()
    assert "rejected" in decided
    assert "ben@company.example" in decided


def test_a_claim_is_shown_to_everybody_until_it_ends():
    person, other = desk.lena(), builders.a_reviewer("ben@company.example")
    interrupt = builders.a_waiting_interrupt()
    acts.claim_request(responder=other, interrupt_id=interrupt.public_id)
    client = desk.signed_in(person)
    assert "ben@company.example" in client.get("/?view=open").content.decode()
    assert shown_ids(client.get("/").content.decode()) == []
    Interrupt.objects.update(claimed_until=clock.now())
    assert "ben@company.example" not in client.get("/?view=open").content.decode()
    assert shown_ids(client.get("/").content.decode()) == [interrupt.public_id]


def test_pages_follow_each_other_without_gaps_or_doubles_also_when_rows_leave_meanwhile(monkeypatch):
    monkeypatch.setattr(inbox, "PAGE_SIZE", 4)
    person, other = desk.lena(), builders.a_reviewer("ben@company.example")
    waits = [
        builders.a_waiting_interrupt(
            builders.a_wait(wish={"risk": ("high", "low")[at % 2], "deadline_in": timedelta(hours=1 + at % 3)})
        )
        for at in range(11)
    ]
    Interrupt.objects.filter(risk="low").update(deadline=waits[0].deadline)  # equal deadlines: the id decides
    client, seen, address = desk.signed_in(person), [], "/"
    while address:
        html = client.get(address).content.decode()
        seen += shown_ids(html)
        if len(seen) == 4:
            decide(Interrupt.objects.get(public_id=seen[0]), other)
        found = re.search(r'rel="next" href="([^"]+)"', html)
        address = found[1].replace("&amp;", "&") if found else ""
    assert len(seen) == len(set(seen)) == 11


@pytest.mark.parametrize(
    "after",
    [
        "x",
        "0~~1",
        "0~2026~1",
        "0~2026-13-99T00:00:00+00:00~1",
        "0~2026-01-01T00:00:00~1",
        "9" * 40,
        "0~0001-01-01T00:00:00+14:00~1",
        "0~9999-12-31T23:59:59-14:00~1",
    ],
)
def test_a_made_up_place_begins_at_the_start(after: str):
    person = desk.lena()
    builders.a_waiting_interrupt()
    response = desk.signed_in(person).get("/", {"after": after, "view": "no-such", "queue": ""})
    assert response.status_code == 200
    assert len(shown_ids(response.content.decode())) == 1


@pytest.mark.parametrize("address", ["/", "/?view=closed", "/?view=expired", "/expired", "/expired?of=standing"])
@pytest.mark.parametrize("offset", ["+15:59", "+16:00", "+23:59", "-23:59"])
def test_a_list_position_accepts_any_offset(address: str, offset: str):
    builders.a_waiting_interrupt()
    query = {**dict(parse_qsl(urlsplit(address).query)), "after": f"0~2020-01-01T00:00:00{offset}~1"}
    assert desk.signed_in(desk.lena()).get(urlsplit(address).path, query).status_code == 200


def test_the_number_of_queries_does_not_grow_with_the_number_of_requests():
    person = desk.lena()
    client = desk.signed_in(person)

    def queries() -> int:
        with CaptureQueriesContext(
            connection,
        ) as captured:
            assert client.get("/").status_code == 200
        return len(captured)

    desk.a_refund(1)
    few = queries()
    for number in range(2, 40):
        desk.a_refund(number)
    assert queries() == few
    assert few <= 20


def test_opening_the_inbox_changes_nothing():
    person = desk.lena()
    interrupt = desk.an_order()
    before = (Event.objects.count(), list(Run.objects.values()), list(Interrupt.objects.values()))
    for address in ("/", "/?view=mine", "/?view=decided", "/runs", f"/interrupts/{interrupt.public_id}"):
        assert desk.signed_in(person).get(address).status_code == 200
    assert (Event.objects.count(), list(Run.objects.values()), list(Interrupt.objects.values())) == before


def test_a_row_says_how_many_approved_and_whether_the_reader_has():
    person, other = desk.lena(), builders.a_reviewer("ben@company.example")
    wait = builders.a_waiting_interrupt(builders.a_wait("pay", wish={"quorum": 2, "risk": "low"}))
    client = desk.signed_in(person)
    assert "0 of 2</span>" in client.get("/").content.decode()
    decide(wait, other)
    html = client.get("/").content.decode()
    assert "1 of 2, you have not voted</span>" in html
    assert re.search(rf'<input\s+class="pick"[^>]* form="picked"\s+value="{wait.public_id}"', html)
    html = desk.signed_in(other).get("/?view=open").content.decode()
    assert "1 of 2, you voted</span>" in html
    assert "You have approved it; it needs more approvals." in html
    assert 'class="pick"' not in html


class TestNothing:
    def test_a_person_without_a_queue_sees_why(self):
        html = desk.signed_in(builders.a_person("nora@company.example")).get("/").content.decode()
        assert "You are not in a queue yet" in html
        assert "nora@company.example" in html

    def test_a_queue_that_was_never_asked_says_so(self):
        assert "No requests yet" in desk.signed_in(desk.lena()).get("/").content.decode()

    def test_an_inbox_without_open_requests_shows_the_number_of_decisions(self):
        person, other = desk.lena(), builders.a_reviewer("ben@company.example")
        decide(builders.a_waiting_interrupt(), other)
        html = desk.signed_in(person).get("/").content.decode()
        assert "No open requests" in html
        assert "1 decided so far" in html

    def test_an_empty_view_never_says_that_nothing_is_left_while_something_is(self):
        person = desk.lena()
        builders.a_waiting_interrupt()
        for address in ("/?view=mine", "/?queue=refunds", "/?view=decided"):
            html = desk.signed_in(person).get(address).content.decode()
            assert ("No matching requests" in html) == ("queue=" in address)
            assert "1 open in all your queues" in html

    @pytest.mark.parametrize(
        ("view", "heading"),
        [
            ("mine", "You have no requests"),
            ("unclaimed", "No unclaimed requests"),
            ("decided", "No decided requests"),
            ("expired", "No requests were closed unanswered"),
        ],
    )
    def test_each_empty_view_says_what_it_would_list(self, view: str, heading: str):
        person = desk.lena()
        interrupt = builders.a_waiting_interrupt()
        builders.a_reviewer("ben@company.example")
        acts.claim_request(responder=User.objects.get(username="ben@company.example"), interrupt_id=interrupt.public_id)
        html = desk.signed_in(person).get(f"/?view={view}").content.decode()
        assert f"<h2>{heading}</h2>" in html

    def test_expired_requests_are_reached_from_the_view_of_requests_closed_unanswered(self):
        let_expire(builders.a_waiting_interrupt())
        client = desk.signed_in(desk.lena())
        assert "/expired" not in client.get("/").content.decode()
        assert 'href="/expired"' in client.get("/?view=expired").content.decode()
        assert 'href="/?view=expired"' in client.get("/expired").content.decode()


class TestFilters:
    """Filters by queue, reason, risk, agent and text, alone and combined; links to views and pages keep them."""

    def a_full_inbox(self):
        person, other = desk.lena(), builders.a_reviewer("ben@company.example")
        orders = [desk.an_order(title=f"Order {number} for crane 14") for number in range(3)]
        questions = [desk.a_question() for _ in range(2)]
        refunds = [desk.a_refund(number) for number in range(4)]
        acts.claim_request(responder=person, interrupt_id=orders[0].public_id)
        decide(orders[1], other)
        decide(refunds[1], person, "reject")
        return person, orders, questions, refunds

    @pytest.mark.parametrize(
        "filters",
        [
            {},
            {"queue": "refunds"},
            {"risk": "high"},
            {"agent": "refunds"},
            {"reason": "evidence.missing"},
            {"q": "crane 14"},
            {"q": "r-2"},
            {"risk": "high", "agent": "purchase-requests", "reason": "approval.action"},
            {"queue": "refunds", "risk": "medium", "q": "cracked"},
            {"queue": "engineering", "q": "S-17 purchase ORDER"},
            {"queue": "no-such-queue"},
        ],
        ids=str,
    )
    def test_the_counts_of_the_views_equal_the_lists_under_every_filter(self, filters):
        person, *_ = self.a_full_inbox()
        client = desk.signed_in(person)
        for view in View:
            html = client.get("/", {"view": view, **filters}).content.decode()
            shown = dict(re.findall(r'<a href="[^"]*"[^>]*>\s*([A-Z][a-z ]*[a-z])\s*<span>(\d+)</span>\s*</a>', html))
            name = {
                "decide": "Mine to decide",
                "open": "All open",
                "decided": "Decided",
                "expired": "Closed unanswered",
            }.get(view, view.capitalize())
            assert len(shown_ids(html)) == int(shown[name]), (view, filters)

    def test_filters_combine_and_only_what_fits_all_is_listed(self):
        person, orders, questions, refunds = self.a_full_inbox()
        client = desk.signed_in(person)

        def listed(**filters: str) -> set[str]:
            return set(shown_ids(client.get("/", filters).content.decode()))

        assert listed(agent="refunds") == {it.public_id for it in refunds if it is not refunds[1]}
        assert listed(reason="evidence.missing") == {it.public_id for it in questions}
        assert listed(risk="high", reason="approval.action") == {orders[0].public_id, orders[2].public_id}
        assert listed(view="mine", risk="high") == {orders[0].public_id}
        assert listed(view="mine", risk="low") == set()
        assert listed(view="decided", agent="refunds") == {refunds[1].public_id}

    def test_views_queues_and_pages_keep_the_filters(self, monkeypatch):
        monkeypatch.setattr(inbox, "PAGE_SIZE", 2)
        person, *_, refunds = self.a_full_inbox()
        client = desk.signed_in(person)
        html = client.get("/", {"agent": "refunds", "q": "cracked", "view": "unclaimed"}).content.decode()
        links = [
            found.replace("&amp;", "&")
            for found in re.findall(r'<a (?:class="btn" )?(?:rel="next" )?href="(/\?[^"]+)"', html)
        ]
        beside = [link for link in links if link != "/?view=unclaimed"]
        assert len(beside) >= 6
        assert all("agent=refunds" in link and "q=cracked" in link for link in beside)
        following = next(link for link in links if "after=" in link)
        seen = shown_ids(html) + shown_ids(client.get(following).content.decode())
        assert set(seen) == {it.public_id for it in refunds if it is not refunds[1]}
        assert '<input type="hidden" name="view" value="unclaimed">' in html

    def test_the_search_finds_titles_calls_and_owner_labels_case_insensitively(self):
        person = desk.lena()
        order = desk.an_order(title="Ersatz für ÄRGERLICHEN Bruch")
        refund = desk.a_refund(20418)
        client = desk.signed_in(person)
        for text, found in (
            ("ärgerlichen", order),
            ("ISSUE purchase", order),  # the owner's label
            ("laydown area b", order),  # an argument
            ("184000.00", order),
            ("r-20418", refund),
            ("refund order arrived", refund),
        ):
            assert shown_ids(client.get("/", {"q": text}).content.decode()) == [found.public_id], text

    def test_the_search_finds_escaped_characters_quoted_texts_keys_and_ids(self):
        person = desk.lena()
        call = {
            "name": "copy",
            "arguments": {"from": "C:\\Users\\ana", "note": 'the "new" crane, 14 t', "of": "a/b\tc"},
        }
        started = builders.a_running_run(key="PR-4711")
        wait = builders.a_wait(
            "copy-files", title="Copy 14 files to the crane", proposal=call, external_id="tool_call_7"
        )
        interrupt = builders.a_waiting_interrupt(wait, started=started)
        builders.a_waiting_interrupt(builders.a_wait(title="Move the crane by 14 m"))
        client = desk.signed_in(person)
        for text in (
            "C:\\Users",
            "c:\\users\\ANA",
            'the "new" crane',
            '"new"',
            '"crane, 14"',
            '"14 files"',
            "a/b",
            "pr-4711",
            "copy-files",
            "tool_call_7",
            interrupt.public_id,
            interrupt.run.public_id,
        ):
            assert shown_ids(client.get("/", {"q": text}).content.decode()) == [interrupt.public_id], text
        assert shown_ids(client.get("/", {"q": '"files crane"'}).content.decode()) == []

    def test_ids_are_found_beyond_the_searched_rows(self, monkeypatch):
        monkeypatch.setattr(inbox_filters, "SEARCHED", 1)
        client = desk.signed_in(desk.lena())
        desk.a_refund(1, wish={"queue": "refunds", "risk": "high"})
        started = builders.a_running_run(key="PR-4711")
        interrupt = builders.a_waiting_interrupt(builders.a_wait(wish={"risk": "low"}), started=started)
        for text in (interrupt.public_id, interrupt.run.public_id, "PR-4711"):
            assert shown_ids(client.get("/", {"q": text}).content.decode()) == [interrupt.public_id], text
        assert shown_ids(client.get("/", {"q": "hoist"}).content.decode()) == []
        builders.a_queue("secrets")
        secret = builders.a_waiting_interrupt(builders.a_wait(wish={"queue": "secrets"}))
        for text in (secret.public_id, secret.run.public_id):
            assert shown_ids(client.get("/", {"q": text}).content.decode()) == [], "only visible requests are found"

    @pytest.mark.parametrize("text", ["%", "_", "\\", ".", ".*", "(", "[", "a|b", "'", '"', "?", "-- "])
    def test_no_character_is_a_wildcard(self, text: str):
        person = desk.lena()
        builders.a_waiting_interrupt(builders.a_wait(title="Plain title", proposal={"name": "go", "arguments": {}}))
        response = desk.signed_in(person).get("/", {"q": f"Pl{text}n"})
        assert response.status_code == 200
        assert shown_ids(response.content.decode()) == []

    @pytest.mark.parametrize(
        ("query", "told"),
        [
            ("q=a%00b", "contains a character that cannot be stored"),
            (
                "q=%ED%A0%80",
                "No matching requests",
            ),  # half a pair is no UTF-8, so the address holds the sign for a fault
            ("q=" + "x" * 101, "longer than 100 characters"),
            ("q=" + "+".join("abcdefghi"), "more than 8 terms"),
            ("view=no-such", "“no-such” is not a view"),
            ("risk=HIGH", "“HIGH” is not a valid risk"),
            ("queue=%3Cb%3E", "“&lt;b&gt;” is not a valid queue"),
            ("agent=a+b", "“a b” is not a valid agent"),
            ("reason=%00", "is not a valid reason"),
            ("risk=high&risk=low", "“risk” is given twice"),
            ("after=nonsense", "This page of the list does not exist"),
        ],
    )
    def test_an_invalid_parameter_is_reported(self, query: str, told: str):
        person = desk.lena()
        builders.a_waiting_interrupt()
        response = desk.signed_in(person).get(f"/?{query}")
        assert response.status_code == 200
        assert told in response.content.decode()

    @pytest.mark.parametrize("sort", ["", "oldest"])
    def test_a_search_among_the_requests_of_an_agent_without_any_finds_nothing(self, sort):
        operator = builders.a_person("op@example.org", "operators")
        page = desk.signed_in(operator).get(f"/?agent=nowhere&q=crane&sort={sort}")
        assert page.status_code == 200

    def test_a_lone_surrogate_is_no_text_to_search_for(self):
        assert explain_invalid_search("a\ud800")
        assert not explain_invalid_search("crane 14")

    def test_only_the_first_waits_of_a_list_are_searched(self, monkeypatch):
        monkeypatch.setattr(inbox_filters, "SEARCHED", 2)
        person = desk.lena()
        for number in range(4):
            desk.a_refund(number)
        response = desk.signed_in(person).get("/", {"q": "cracked"})
        assert len(shown_ids(response.content.decode())) == 2

    def test_filters_name_nothing_that_a_person_cannot_see(self):
        desk.an_order()
        desk.a_refund(1)
        html = desk.signed_in(builders.a_reviewer("ben@company.example", "refunds")).get("/").content.decode()
        assert re.search(r'<option value="refunds"\s*>refunds</option>', html)
        assert "purchase-requests" not in html

    def test_no_filter_makes_more_statements_with_more_waits(self):
        person = desk.lena()
        client = desk.signed_in(person)

        def queries() -> int:
            with CaptureQueriesContext(connection) as captured:
                assert client.get("/", {"q": "cracked", "risk": "medium", "queue": "refunds"}).status_code == 200
            return len(captured)

        desk.a_refund(1)
        few = queries()
        for number in range(2, 30):
            desk.a_refund(number)
        assert queries() == few <= 26

    def test_an_empty_list_under_filters_says_what_is_left_without_them(self):
        person = desk.lena()
        desk.a_refund(1)
        client = desk.signed_in(person)
        html = client.get("/", {"q": "crane 41", "risk": "high"}).content.decode()
        assert "Mine to decide with “crane 41”, with high risk: none. 1 open in all your queues." in html
        assert '<a class="btn" href="/">Clear the filters</a>' in html

    def test_a_search_that_matches_only_requests_of_others_leads_to_them(self):
        desk.a_refund(1)
        auditor = builders.a_person("aud@company.example", "refunds-auditors")
        client = desk.signed_in(auditor)
        html = client.get("/", {"q": "cracked", "risk": "medium"}).content.decode()
        assert '<a class="btn" href="/?view=open&amp;risk=medium&amp;q=cracked">Search all open requests</a>' in html

    def test_filters_on_an_empty_inbox_never_say_that_there_were_no_requests(self):
        html = desk.signed_in(desk.lena()).get("/", {"risk": "high"}).content.decode()
        assert "No matching requests" in html
        assert "No request is open in your queues." in html

    def test_every_view_says_that_a_person_is_in_no_queue(self):
        client = desk.signed_in(builders.a_person("nora@company.example"))
        for view in View:
            assert "You are not in a queue yet" in client.get("/", {"view": view}).content.decode()
