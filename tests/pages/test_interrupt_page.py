"""The page of one request: the call first, the agent's text in its frame, facts, why you are asked or cannot decide."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils.html import escape

from ledger import clock
from ledger.digests import digest
from reviewqueue import reviewer_actions as acts
from reviewqueue.templatetags.agent_text import seen_plain, visible_line
from runs.models import Decision, Interrupt
from runs.use_cases import expire
from tests import builders
from tests.pages import desk
from tests.pages.hostile import HIDDEN, MARKUP
from tests.runs.test_external_signals import a_timer, an_event, receive

pytestmark = pytest.mark.django_db


def page_of(interrupt: Interrupt, person=None) -> str:
    response = desk.signed_in(person or desk.lena()).get(f"/interrupts/{interrupt.public_id}")
    assert response.status_code == 200
    return response.content.decode()


def happen(html: str) -> str:
    return html[html.index('<section class="happen"') : html.index("</section>", html.index('<section class="happen"'))]


def test_the_page_reads_before_it_decides_and_decides_before_it_remembers():
    html = page_of(desk.an_order())
    places = [html.index(mark) for mark in ('class="happen"', 'class="fence"', 'id="decide"', 'class="late stack"')]
    assert places == sorted(places)


def test_what_will_happen_is_the_stored_call_whole_and_exact():
    interrupt = desk.an_order()
    panel = happen(page_of(interrupt))
    for name, value in interrupt.proposal["arguments"].items():
        assert name in panel
        assert str(value) in panel
    assert "7 of 7 arguments shown" in panel
    assert "Once, and only this call" in panel
    assert digest({name: interrupt.proposal[name] for name in ("name", "arguments")}) in panel
    assert "Order the replacement hoist" not in panel


def test_the_heading_is_ours_and_never_the_agents():
    html = page_of(desk.an_order(title="Approved by security"))
    assert "Issue purchase order to" in re.search(r"<h1[^>]*>(.*?)</h1>", html, re.DOTALL)[1]
    assert "Approved by security" not in re.search(r"<title>(.*?)</title>", html)[1]
    assert html.count("Approved by security") == 2  # in the frame of the agent's text, and quoted in the history


def test_thirty_arguments_are_all_there():
    arguments = {f"line_{number}": f"value {number}" for number in range(30)}
    panel = happen(page_of(desk.an_order(proposal={"name": "issue_purchase_order", "arguments": arguments})))
    assert all(f"value {number}" in panel for number in range(30))
    assert "30 of 30 arguments shown" in panel


def test_a_large_argument_is_folded_and_whole():
    big = "".join(f"line {number:05d}\n" for number in range(9_000))
    interrupt = desk.an_order(proposal={"name": "send_mail", "arguments": {"body": big}})
    panel = happen(page_of(interrupt))
    assert "more characters" in panel
    assert "line 08999" in panel


def test_hostile_texts_are_shown_as_text_everywhere():
    for text in MARKUP:
        call = {"name": text, "arguments": {text: text, "nested": {text: [text]}}}
        evidence = [{"label": text, "value": {text: text}, "source": text, text: text}, text]
        wanted = {"title": text[:200], "message": text, "proposal": call, "evidence": evidence}
        html = page_of(desk.an_order(**wanted))
        main = html[html.index("<main") :]
        for mark in (
            "<img",
            "<script",
            "<iframe",
            "<base",
            "<style",
            "onerror=alert(1)>",
            'javascript:alert(1)"',
            'href="http',
        ):
            assert mark not in main, (text, mark)
        fenced = main[main.index("<blockquote>") : main.index("</blockquote>")]
        assert "<a " not in fenced
        assert "<button" not in fenced


def test_hidden_characters_are_counted_and_shown():
    arguments = {"to": "billing@s-17-h\u043eists.example", "file": "offer\u202efdp.exe", "body": "".join(HIDDEN[:5])}
    html = page_of(desk.an_order(proposal={"name": "send_mail", "arguments": arguments}))
    assert "The call can be misread." in html
    assert "title can be misread" not in html
    assert "U+202E" in happen(html)
    assert "U+043E" in happen(html)
    assert "\u202e" not in happen(html)


def test_the_badge_of_hidden_characters_is_at_the_text_that_has_them():
    lena, badge = desk.lena(), "1 hidden character</span>"
    in_title = desk.an_order(title="Order\u202ethe hoist")
    html = page_of(in_title, lena)
    assert "The agent’s title can be misread." in html
    assert "The call can be misread." not in html
    assert badge not in html[html.index('<header class="head">') : html.index("</header>", html.index("<h1"))]
    row = desk.signed_in(lena).get("/").content.decode()
    assert badge in row[row.index('<span class="from">') :]
    assert badge not in row[row.index('<div class="ask">') : row.index('<span class="from">')]


def test_facts_tell_then_now_and_what_a_change_does():
    interrupt = desk.an_order()
    desk.change_a_fact(interrupt)
    html = page_of(interrupt)
    table = html[html.index('id="facts"') : html.index("</table>", html.index('id="facts"'))]
    assert "212400.00" in table
    assert "190900.00" in table
    assert 'class="hot"' in table
    assert "not checked yet" in table
    assert "1 fact changed" in html


def test_time_left_and_the_deadline_action_are_shown():
    builders.a_policy("approval.action", escalate_to=builders.a_queue("engineering-leads"), on_expiry="escalate")
    html = page_of(desk.an_order())
    assert "2 h 09 min" in html
    assert "then to Engineering leads" in html
    ladder = html[html.index('class="levels"') :]
    assert "Without an answer the run ends as expired" in ladder


def test_why_am_i_asked_names_the_policy_its_version_and_the_queue():
    html = page_of(desk.an_order())
    assert "policy approval.action 1" in html
    assert "Any reviewer or lead of the queue can decide" in html


def test_a_reader_without_permission_sees_why_and_who_can_and_no_form():
    interrupt = desk.an_order()
    desk.lena()
    html = page_of(interrupt, builders.a_person("tomas@company.example"))
    assert "You are not a reviewer of engineering." in html
    assert "Lena Brandt" in html
    assert 'name="verdict"' not in html
    auditor = page_of(interrupt, builders.a_person("kim@company.example", "engineering-auditors"))
    assert 'name="verdict"' not in auditor


def test_the_starter_of_the_run_sees_that_another_reviewer_must_decide():
    ana = builders.a_reviewer()
    interrupt = builders.a_waiting_interrupt(started=builders.a_running_run(initiator=ana))
    assert "You started this run" in page_of(interrupt, ana)


def test_a_foreign_wait_looks_like_a_missing_one():
    interrupt = desk.an_order()
    stranger = desk.signed_in(builders.a_reviewer("zoe@company.example", "elsewhere"))
    foreign = stranger.get(f"/interrupts/{interrupt.public_id}")
    missing = stranger.get("/interrupts/int_0000000000000000000000000")
    assert (foreign.status_code, missing.status_code) == (404, 404)
    clean = lambda response: re.sub(r'value="\w{64}"|content="\w{64}"', "", response.content.decode())  # noqa: E731
    assert clean(foreign) == clean(missing)
    for verb in ("", "/claim", "/release", "/undo"):
        assert stranger.post(f"/interrupts/{interrupt.public_id}{verb}", {"verdict": "approve"}).status_code == 404


def test_nothing_is_chosen_beforehand():
    html = page_of(desk.an_order())
    form = html[html.index('id="decide"') : html.index("</form>", html.index('id="decide"'))]
    assert "checked" not in form
    assert html.count('type="radio" name="verdict"') == 4


def test_an_input_request_shows_the_agents_form_and_the_plan_is_not_for_approval():
    interrupt = desk.a_question(proposal=builders.CALL)
    html = page_of(interrupt)
    assert "Evidence is missing: " in html
    assert "7 fields to fill in" in html
    assert "Certificate number" in html
    assert "your answer does not approve it" in html
    assert "What will happen if you approve" not in html
    assert "I can’t answer this" in html


def test_the_heading_of_a_call_is_its_whole_sentence():
    desk.a_label("set_prices", "Set {count} prices in {shop}", agent="purchase-requests")
    call = {"name": "set_prices", "arguments": {"count": 1900, "shop": "North"}}
    html = page_of(builders.a_waiting_interrupt(builders.a_wait(proposal=call)))
    heading = re.sub(r"<[^>]+>", "", html[html.index("<h1") : html.index("</h1>")])
    assert heading == "Set 1900 prices in North"
    assert "<title>Set 1900 prices in North · Review queue</title>" in html


def test_requests_for_input_differ_by_row_heading_and_tab_title():
    lena = desk.lena()
    for title in ("Certificate for crane 14", "Certificate for crane 15\u202e", "Approve: <b>all</b>"):
        interrupt = desk.a_question(title=title)
        html = page_of(interrupt, lena)
        quoted = f'Evidence is missing: <q class="stated">{visible_line(title)}</q>'
        assert re.split(r"<h1[^>]*>", html)[1].startswith(quoted)
        assert f"<title>Evidence is missing: “{escape(seen_plain(title))}” · Review queue</title>" in html
        assert quoted in desk.signed_in(lena).get("/").content.decode()


def test_a_claim_by_another_leaves_the_page_readable_and_takes_the_form_away():
    interrupt, ines = desk.an_order(), builders.a_reviewer("ines@company.example")
    acts.claim_request(responder=ines, interrupt_id=interrupt.public_id)
    html = page_of(interrupt)
    assert "has claimed this" in html
    assert 'name="verdict"' not in html
    assert "Take over" in html  # Lena leads this queue
    assert "Take over" not in page_of(interrupt, builders.a_reviewer("ben@company.example"))


def test_claiming_extending_and_releasing_are_forms():
    interrupt, person = desk.an_order(), desk.lena()
    client = desk.signed_in(person)
    response = client.post(f"/interrupts/{interrupt.public_id}/claim")
    assert response.status_code == 302
    assert "claimed this until" in client.get(response.url).content.decode()
    part = client.post(f"/interrupts/{interrupt.public_id}/release", headers={"HX-Request": "true"})
    assert 'id="held"' in part.content.decode()
    assert "<html" not in part.content.decode()
    interrupt.refresh_from_db()
    assert interrupt.claimed_by is None


def test_a_lost_claim_says_who_was_first_and_nothing_else_changes():
    interrupt, ines = desk.an_order(), builders.a_reviewer("ines@company.example")
    acts.claim_request(responder=ines, interrupt_id=interrupt.public_id)
    ben = desk.signed_in(builders.a_reviewer("ben@company.example"))
    response = ben.post(f"/interrupts/{interrupt.public_id}/claim")
    assert response.status_code == 409
    assert "ines@company.example has claimed this request until" in response.content.decode()
    interrupt.refresh_from_db()
    assert interrupt.claimed_by == ines


def test_a_closed_wait_tells_how_it_ended():
    interrupt = desk.an_order()
    Interrupt.objects.update(status="expired", closed_at=clock.now())
    html = page_of(interrupt)
    assert "This request is closed" in html
    assert 'name="verdict"' not in html


def test_a_deadline_under_an_hour_is_soon_and_one_that_passed_is_over():
    interrupt = desk.an_order()
    builders.move_deadline(interrupt, clock.now() - timedelta(minutes=5))
    assert "over since 5 min" in page_of(interrupt)


def test_the_number_of_queries_does_not_grow_with_the_history():
    interrupt, person = desk.an_order(), desk.lena()
    client = desk.signed_in(person)

    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            client.get(f"/interrupts/{interrupt.public_id}")
        return len(captured)

    first = queries()
    for _ in range(12):
        acts.claim_request(responder=person, interrupt_id=interrupt.public_id)
    desk.a_refund(1)
    desk.a_refund(2)
    assert queries() <= first + 2
    assert first <= 45


def test_a_renewed_review_shows_what_the_agent_relied_on_beside_what_is_true_now():
    interrupt = desk.an_order()
    fact = desk.change_a_fact(interrupt, name="specification", to=9)
    fact.reviewed_value, fact.was_reviewed = 9, True
    fact.save()
    html = desk.signed_in(desk.lena()).get(f"/interrupts/{interrupt.public_id}").content.decode()
    table = html[html.index('id="facts"') : html.index("</table>", html.index('id="facts"'))]
    assert table.index("<del>") < table.index("8") < table.index("<ins>") < table.index("9", table.index("<ins>"))


def an_owner():
    return builders.a_person("omar@example.org", "agent-owners")


def test_a_request_for_a_signal_shows_its_correlation_id_and_the_signal_that_came():
    interrupt = builders.a_waiting_interrupt(an_event())
    html = page_of(interrupt, an_owner())
    assert '<code><bdi class="exact">PO-2231</bdi></code>' in html
    assert "Without the signal the run ends as expired." in html
    assert "The call is not made" not in html
    assert "<b>Waits for the signal</b>, now" in html
    assert "Unclaimed" not in html
    receive()
    html = page_of(interrupt, an_owner())
    assert '<code><bdi class="exact">PO-2231</bdi></code>' in html
    assert '<code><bdi class="exact">evt-1</bdi></code>' in html
    assert "<b>answered</b>" in html
    assert "a signal" in html


def test_a_timer_that_elapsed_reached_its_time_and_was_not_left_unanswered():
    interrupt = builders.a_waiting_interrupt(a_timer())
    builders.move_deadline(interrupt, clock.now())
    expire.expire_due_interrupts(limit=9)
    client = desk.signed_in(an_owner())
    for address in (
        f"/interrupts/{interrupt.public_id}",
        f"/decisions/{Decision.objects.get().public_id}",
        f"/runs/{interrupt.run.public_id}",
        "/?view=decided",
    ):
        html = client.get(address).content.decode()
        assert "reached its time" in html, address
        assert "gave no answer" not in html


def test_each_verdict_shows_its_key():
    html = page_of(desk.an_order())
    decide = html[html.index('id="decide"') :]
    assert re.findall(r'<kbd class="scripted" aria-hidden="true">(\w)</kbd>', decide) == ["a", "e", "r", "m"]


def test_after_an_escalation_the_first_queue_reads_what_happened_and_follows_every_link():
    builders.a_policy("approval.action", escalate_to=builders.a_queue("directors"), on_expiry="escalate")
    person = builders.a_person("len@company.example", "engineering-leads")
    interrupt = desk.an_order(wish={"queue": "engineering", "on_expiry": {"do": "escalate"}})
    builders.move_deadline(interrupt, clock.now())
    assert expire.expire_due_interrupts(limit=9) == 1
    client = desk.signed_in(person)
    html = client.get(f"/interrupts/{interrupt.public_id}").content.decode()
    told = " ".join(re.sub(r"<[^>]*>", "", html.partition("data-escalated")[2].partition("</div>")[0]).split())
    assert "Escalated from Engineering to Directors" in told
    assert "it was not decided by its deadline. You can read it; Directors decides it." in told
    assert 'id="decide"' not in html
    for address in (f"/interrupts/{interrupt.public_id}/call", f"/runs/{interrupt.run.public_id}"):
        assert client.get(address).status_code == 200, address
    director = builders.a_reviewer("dora@company.example", "directors")
    decision = builders.decide(interrupt, director).decision
    assert client.get(f"/decisions/{decision.public_id}").status_code == 200
    assert client.get("/?view=decided").content.decode().count(interrupt.public_id) == 0
    stranger = desk.signed_in(builders.a_reviewer("zoe@company.example", "refunds"))
    for address in (f"/interrupts/{interrupt.public_id}", f"/runs/{interrupt.run.public_id}"):
        assert stranger.get(address).status_code == 404, address
