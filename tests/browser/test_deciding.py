"""The page of a request in a browser; each test is named after its row of tests/cases.md."""

from __future__ import annotations

from datetime import timedelta

from playwright.sync_api import Browser, Page, Route, expect

from ledger import clock, exact_json
from reviewqueue import reviewer_actions as acts
from reviewqueue.webhooks.models import Delivery, WebhookEndpoint
from runs.models import Decision, Event
from runs.use_cases.amend_interrupt import Amendment, amend_open_interrupt
from tests import builders
from tests.browser.test_reviewing import choose, lenas, open_wait, sign_in, without_script  # noqa: F401  fixtures
from tests.pages import desk

LINES = {
    "type": "object",
    "required": ["lines", "pay"],
    "properties": {
        "lines": {
            "type": "array",
            "title": "Lines",
            "items": {
                "type": "object",
                "required": ["part", "amount"],
                "properties": {"part": {"type": "string", "title": "Part"}, "amount": {"type": "number"}},
            },
        },
        "pay": {
            "title": "How it is paid",
            "oneOf": [
                {
                    "title": "By card",
                    "type": "object",
                    "required": ["number"],
                    "properties": {"number": {"type": "string"}},
                },
                {"title": "Later", "type": "object", "required": ["days"], "properties": {"days": {"type": "integer"}}},
                {"type": "null"},
            ],
        },
        "tags": {"type": "array", "title": "Tags", "items": {"type": "string"}},
        "areas": {"type": "array", "title": "Areas", "items": {"enum": ["North", "South", "Yard"]}},
    },
}


def fill_in(page: Page) -> None:
    page.get_by_role("button", name="Add an entry to Lines").click()
    part = page.get_by_role("textbox", name="Part")
    expect(part).to_have_count(1)
    part.fill("Hook")
    page.get_by_role("textbox", name="amount").fill("1.50")
    page.get_by_role("radio", name="Later").check()
    page.get_by_role("textbox", name="days").fill("30")
    page.get_by_role("button", name="Add an entry to Lines").click()
    expect(part).to_have_count(2)
    expect(part.nth(0)).to_have_value("Hook")
    expect(page.get_by_role("textbox", name="days")).to_have_value("30")
    part.nth(1).fill("Drum")
    page.get_by_role("textbox", name="amount").nth(1).fill("2")
    page.get_by_role("button", name="Remove entry 1 of Lines").click()
    expect(part).to_have_count(1)
    expect(part).to_have_value("Drum")
    page.get_by_role("textbox", name="Tags").fill("urgent\n\n00123")
    page.get_by_role("checkbox", name="Yard").check()
    page.get_by_role("button", name="Send this answer").click()
    expect(page.get_by_role("heading", name="Receipt")).to_be_visible()
    assert exact_json.dumps(Decision.objects.get(status="accepted").input) == (
        '{"lines":[{"part":"Drum","amount":2}],"pay":{"days":30},"tags":["urgent","00123"],"areas":["Yard"]}'
    )


def test_row_13_entries_come_and_go_and_a_shape_is_chosen(lenas: Page):  # noqa: F811
    open_wait(lenas, desk.a_question(LINES))
    fill_in(lenas)


def test_row_13_and_25_the_same_without_javascript(without_script: Page):  # noqa: F811
    open_wait(without_script, desk.a_question(LINES))
    fill_in(without_script)


def test_row_13_the_added_entry_takes_the_focus_and_the_page_stays_where_it_is(lenas: Page):  # noqa: F811
    open_wait(lenas, desk.a_question(LINES))
    lenas.get_by_role("button", name="Add an entry to Lines").click()
    expect(lenas.locator("li:focus")).to_contain_text("Part")
    assert "/interrupts/" in lenas.url


def test_row_8_a_nested_change_is_shown_where_it_is(lenas: Page):  # noqa: F811
    call = {"name": "order", "arguments": {"lines": [{"part": "Hook", "amount": 1}, {"part": "Drum", "amount": 2}]}}
    open_wait(lenas, desk.an_order(proposal=call))
    choose(lenas, "Edit and approve")
    lenas.get_by_role("textbox", name="amount").nth(1).fill("20")
    lenas.get_by_role("button", name="Review my changes").click()
    expect(lenas.locator(".changed .place")).to_have_text("2 / amount")
    expect(lenas.locator(".changed .gone")).to_contain_text("2")
    expect(lenas.locator(".changed .come")).to_contain_text("20")
    lenas.get_by_role("button", name="Approve my version").click()
    expect(lenas.get_by_role("heading", name="Receipt")).to_be_visible()


def test_row_14_the_browser_is_killed_and_the_text_comes_back(browser: Browser, live_server):
    interrupt = desk.an_order()
    with browser.new_context(base_url=live_server.url, locale="en-GB") as context:
        page = context.new_page()
        sign_in(page, desk.lena(), live_server.url)
        open_wait(page, interrupt)
        choose(page, "Reject")
        page.get_by_label("Reason, sent to the agent").fill("Too dear by 6 %")
        expect(page.get_by_text("Draft saved")).to_be_visible()
    with browser.new_context(base_url=live_server.url, locale="en-GB") as context:
        page = context.new_page()
        sign_in(page, desk.lena(), live_server.url)
        open_wait(page, interrupt)
        expect(page.get_by_text("is filled in below")).to_be_visible()
        expect(page.get_by_label("Reason, sent to the agent")).to_have_value("Too dear by 6 %")
        page.get_by_role("button", name="Discard draft").click()
        expect(page.get_by_text("is filled in below")).to_have_count(0)
        expect(page.get_by_role("radio", name="Reject")).not_to_be_checked()
    assert not Decision.objects.exists()


def test_row_8_amended_while_open_must_be_acknowledged_before_approving(lenas: Page):  # noqa: F811
    interrupt = desk.an_order()
    open_wait(lenas, interrupt)
    choose(lenas, "Approve")
    lenas.get_by_label("Note for the record").first.fill("Hours match")
    dearer = {**interrupt.proposal["arguments"], "amount": "199000.00"}
    amendment = Amendment(proposal={"name": interrupt.proposal["name"], "arguments": dearer})
    amend_open_interrupt(agent=interrupt.agent, interrupt_id=interrupt.public_id, amendment=amendment)
    lenas.get_by_role("button", name="Approve: ").click()
    expect(lenas.get_by_role("heading", name="Changed since you opened it")).to_be_visible()
    lenas.get_by_role("link", name="Read it again").click()
    amended = lenas.locator("#amended")
    expect(amended.locator(".gone")).to_contain_text("184000.00")
    expect(amended.locator(".come")).to_contain_text("199000.00")
    expect(lenas.get_by_label("Note for the record").first).to_have_value("Hours match")
    lenas.get_by_role("button", name="Approve: ").click()
    expect(lenas.get_by_role("alert")).to_contain_text("Confirm that you have read the changes.")
    lenas.get_by_role("checkbox", name="I have read what changed").first.check()
    lenas.get_by_role("button", name="Approve: ").click()
    expect(lenas.get_by_role("heading", name="Receipt")).to_be_visible()


def test_row_16_a_comment_and_a_skip_with_its_reason_are_in_the_history(lenas: Page):  # noqa: F811
    first, second = desk.an_order(), desk.a_question()
    open_wait(lenas, first)
    lenas.get_by_role("textbox", name="Comment").fill("Ask S-22 too")
    lenas.get_by_role("button", name="Add comment").click()
    expect(lenas.locator("#comments")).to_contain_text("Ask S-22 too")
    lenas.get_by_text("Skip for now").click()
    lenas.get_by_role("textbox", name="Reason").last.fill("I wait for S-22")
    lenas.get_by_role("button", name="Skip", exact=True).click()
    lenas.wait_for_url(f"**/interrupts/{second.public_id}")
    open_wait(lenas, first)
    expect(lenas.locator(".late .timeline").last).to_contain_text("Skipped: I wait for S-22")


def test_row_16_a_lead_hands_over_and_gives_more_time(lenas: Page):  # noqa: F811
    interrupt = desk.an_order()
    open_wait(lenas, interrupt)
    lenas.get_by_text("Extend the deadline").first.click()
    lenas.get_by_label("Later by").select_option("1 h")
    lenas.get_by_role("button", name="Extend the deadline").click()
    expect(lenas.locator(".late .timeline").last).to_contain_text("extended the deadline")
    lenas.locator("summary").get_by_text("Assign", exact=True).click()
    lenas.get_by_role("checkbox", name="Ines").check()
    lenas.get_by_role("button", name="Assign").click()
    expect(lenas.get_by_role("heading", name="Why you cannot decide")).to_be_visible()
    expect(lenas.get_by_text("Can decide: Ines")).to_be_visible()


def test_row_23_a_large_call_is_searched_by_keyboard_and_a_path_is_copied(lenas: Page):  # noqa: F811
    lines = [{"part": f"Part {number}", "amount": f"{number}.00", "note": "x" * 40} for number in range(2_000)]
    open_wait(lenas, desk.an_order(proposal={"name": "order", "arguments": {"lines": lines}}))
    link = lenas.get_by_role("link", name="Search every value")
    link.focus()
    lenas.keyboard.press("Enter")
    expect(lenas.get_by_role("heading", level=1)).to_contain_text("Every value of order")
    lenas.get_by_role("searchbox", name="Find in paths and values").fill("part 1999")
    lenas.keyboard.press("Enter")
    expect(lenas.get_by_text("/lines/1999/part")).to_be_visible()
    lenas.get_by_role("button", name="Copy path").click()
    expect(lenas.locator("#says")).to_contain_text("opied")


def test_row_20_the_receipt_follows_a_message_that_fails(lenas: Page):  # noqa: F811
    interrupt = desk.an_order()
    open_wait(lenas, interrupt)
    choose(lenas, "Approve")
    lenas.get_by_role("button", name="Approve: ").click()
    expect(lenas.get_by_role("heading", name="Receipt")).to_be_visible()
    event = Event.objects.get(type="interrupt.answered")
    endpoint = WebhookEndpoint.objects.create(
        public_id="whe_1", agent=interrupt.agent, key="hook", body_digest="rq1:body", created_at=clock.now(),
        url="https://agent.example/hook", events=["interrupt.answered"],
    )  # fmt: skip
    Delivery.objects.create(
        public_id="msg_1", endpoint=endpoint, event=event, type=event.type, body="{}", created_at=clock.now(), tries=1,
        trouble="HTTP 500", next_at=clock.now() + timedelta(seconds=30), give_up_at=clock.now() + timedelta(days=1),
    )  # fmt: skip
    expect(lenas.get_by_text("1 attempt; next attempt")).to_be_visible()
    Delivery.objects.update(status="delivered", ended_at=clock.now())
    expect(lenas.locator("#so-far").get_by_text("delivered", exact=True)).to_be_visible()


def test_row_20_an_open_receipt_drops_a_permit_that_was_revoked(lenas: Page):  # noqa: F811
    interrupt = desk.an_order()
    open_wait(lenas, interrupt)
    choose(lenas, "Approve")
    lenas.get_by_role("button", name="Approve: ").click()
    expect(lenas.locator("#permit")).to_contain_text("1 use, until")
    acts.undo_decision(responder=Decision.objects.get().by, interrupt_id=interrupt.public_id)
    expect(lenas.locator("#permit")).to_contain_text("void since")
    expect(lenas.locator("#status")).to_contain_text("undone")


def test_row_12_the_open_page_flips_at_zero(lenas: Page):  # noqa: F811
    interrupt = desk.an_order()
    builders.move_deadline(interrupt, clock.now() + timedelta(seconds=12))  # a busy machine opens the page within it
    open_wait(lenas, interrupt)
    choose(lenas, "Reject")
    lenas.get_by_label("Reason, sent to the agent").fill("Too dear")
    expect(lenas.locator("#moved")).to_contain_text("The deadline has passed.", timeout=30_000)
    expect(lenas.locator("#moved")).to_contain_text("the run ends as expired")
    expect(lenas.get_by_label("Reason, sent to the agent")).to_have_value("Too dear")


def test_text_entered_while_the_form_is_sent_stays(lenas: Page) -> None:  # noqa: F811
    open_wait(lenas, desk.a_question())
    held: list[Route] = []

    def hold(route: Route) -> None:
        if route.request.method == "POST" and not route.request.url.endswith("/typed"):
            held.append(route)
        else:
            route.continue_()

    lenas.route("**/interrupts/**", hold)
    remarks = lenas.get_by_role("textbox", name="Remarks")
    remarks.fill("before")
    lenas.get_by_role("button", name="Send this answer").click()
    remarks.fill("before, and meanwhile")
    lenas.get_by_role("radio", name="welding").check()
    held.pop().continue_()
    expect(lenas.get_by_role("alert").first).to_be_visible()
    expect(lenas.get_by_role("textbox", name="Remarks")).to_have_value("before, and meanwhile")
    expect(lenas.get_by_role("radio", name="welding")).to_be_checked()


def test_a_second_tab_says_that_its_draft_is_older(lenas: Page) -> None:  # noqa: F811
    interrupt = desk.a_question()
    open_wait(lenas, interrupt)
    other = lenas.context.new_page()
    other.goto(lenas.url)
    lenas.get_by_role("textbox", name="Remarks").fill("from the first tab")
    expect(lenas.get_by_text("Draft saved").first).to_be_visible()
    other.get_by_role("textbox", name="Remarks").fill("from the second tab")
    expect(other.get_by_text("another tab has a newer draft").first).to_be_visible()
    other.get_by_role("button", name="Save this text instead").click()
    expect(other.get_by_text("Draft saved").first).to_be_visible()
    lenas.reload()
    expect(lenas.get_by_role("textbox", name="Remarks")).to_have_value("from the second tab")
