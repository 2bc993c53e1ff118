"""Every page against axe-core, in light and dark, wide and narrow, with every fold open: no finding at all."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from importlib.resources import files

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Page

from ledger import clock
from reviewqueue.inbox_preferences import saved_replies
from reviewqueue.operations import kill_switch
from reviewqueue.operations.provisioning.agents import add_agent, add_call_label, add_effect_rule, set_effect_mode
from reviewqueue.operations.provisioning.policies import add_policy
from reviewqueue.webhooks.models import WebhookEndpoint
from runs.models import Decision, Run
from runs.use_cases.amend_interrupt import Amendment, amend_open_interrupt
from tests import builders
from tests.attack.page_routes import a_dead_notification, an_unknown_effect_of_a_held_run
from tests.browser.test_deciding import LINES
from tests.browser.test_reviewing import choose, decide_elsewhere, lenas, open_wait
from tests.pages import desk
from tests.pages.test_dead_letters import a_dead_message, a_dead_signal
from tests.pages.test_expired import a_lapse_with_a_failed_effect, let_expire
from tests.pages.test_rounds import a_second_round
from tests.planted_builders import a_planted_request
from tests.reviewqueue.a_busy_quarter import Quarter
from tests.runs.test_external_signals import an_event
from tests.runs.test_unclaimed_continuations import offered_since
from tests.runs.test_versions import unread_by
from tests.second_factors import PASSWORD, code, recovery_codes
from tests.standing_rule_builders import a_decided_refund, a_refund

AXE = (files("axe_playwright_python") / "axe.min.js").read_text()
#: Every rule up to level AA, best practices and experimental ones. Without one: it forbids the `tabindex` of a table that
#: scrolls, which `scrollable-region-focusable` demands. Axe describes every element of a violation, and of a rule that
#: passed only the first one; only what the tests read leaves the browser.
RUN = """axe.run(document, {
    runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice", "experimental"],
    rules: { "focus-order-semantics": { enabled: false } },
    resultTypes: ["violations"],
}).then((found) => ({ passed: found.passes.length, violations: found.violations }))"""
__all__ = ["lenas"]  # a fixture


def findings(page: Page) -> list[str]:
    """Return what axe finds, as one line each."""
    page.evaluate("document.querySelectorAll('details').forEach((fold) => { fold.open = true; })")
    # A control half covered by a bar at an edge can be scrolled into view; axe takes what is visible for its size.
    page.evaluate("document.querySelectorAll('.topbar, .jump').forEach((bar) => { bar.style.position = 'static'; })")
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE)
    found = page.evaluate(RUN)
    assert found["passed"] > 10, "axe did not look"
    return [
        f"{rule['impact']} {rule['id']}: {node['html'][:150]}" for rule in found["violations"] for node in rule["nodes"]
    ]


def an_inbox(page: Page) -> None:
    desk.change_a_fact(desk.an_order())
    desk.a_question()
    desk.a_refund(5)
    page.goto("/")


def an_empty_inbox(page: Page) -> None:
    page.goto("/?view=mine")


def a_narrowed_inbox(page: Page) -> None:
    desk.a_refund(5)
    desk.a_refund(6)
    page.goto("/?q=cracked&risk=medium&view=no-such")
    page.set_viewport_size({"width": 1440, "height": 900})
    page.get_by_role("checkbox", name=re.compile("^Select")).first.check()
    page.get_by_role("button", name="Claim").first.click()
    page.get_by_role("button", name="Extend").wait_for()


def several_together(page: Page) -> None:
    waits = [desk.a_refund(5), desk.a_refund(6), desk.an_order()]
    page.goto("/together?" + "&".join(f"interrupt={it.public_id}" for it in waits))
    page.get_by_role("radio", name=re.compile("^Approve")).check()


def what_became_of_several(page: Page) -> None:
    several_together(page)
    page.get_by_role("button", name=re.compile("^Approve 2")).click()
    page.get_by_role("heading", name="2 of 2 decided").wait_for()


def the_next_one_at_once(page: Page) -> None:
    waits = [desk.a_refund(5), desk.a_refund(6)]
    open_wait(page, waits[0])
    page.evaluate("document.cookie = 'next=at-once; path=/'")
    choose(page, "Reject")
    page.get_by_role("button", name="Reject this call").click()
    page.get_by_text("You rejected:").wait_for()


def a_wait_that_moved(page: Page) -> None:
    interrupt = desk.an_order()
    open_wait(page, interrupt)
    decide_elsewhere(interrupt)
    page.locator("#moved").get_by_text("Ines rejected.").wait_for()


def a_wait_for_a_signal(page: Page) -> None:
    desk.lena().groups.add(builders.a_group("agent-owners"))
    open_wait(page, builders.a_waiting_interrupt(an_event()))
    page.get_by_text("PO-2231").first.wait_for()


def a_wait(page: Page) -> None:
    interrupt = desk.an_order()
    desk.change_a_fact(interrupt)
    open_wait(page, interrupt)
    choose(page, "Edit and approve")


def a_wait_with_faults(page: Page) -> None:
    interrupt = desk.an_order()
    desk.change_a_fact(interrupt)
    open_wait(page, interrupt)
    choose(page, "Approve")
    page.get_by_role("button", name="Approve: ").click()
    page.get_by_role("alert").wait_for()


def an_edit_in_review(page: Page) -> None:
    open_wait(page, desk.an_order())
    choose(page, "Edit and approve")
    page.get_by_role("textbox", name="amount").fill("1.00")
    page.get_by_role("button", name="Review my changes").click()
    page.get_by_role("button", name="Approve my version").wait_for()


def a_question_with_faults(page: Page) -> None:
    open_wait(page, desk.a_question(proposal=builders.CALL))
    page.get_by_role("button", name="Send this answer").click()
    page.get_by_role("alert").wait_for()


def being_second(page: Page) -> None:
    interrupt = desk.an_order()
    open_wait(page, interrupt)
    choose(page, "Reject")
    page.get_by_label("Reason, sent to the agent").fill("Too dear")
    decide_elsewhere(interrupt, message="Wrong account")
    page.get_by_role("button", name="Reject this call").click()
    page.get_by_role("alert").wait_for()


def a_receipt(page: Page) -> None:
    decide_elsewhere(desk.an_order(), "approve")
    desk.a_refund(5)
    page.goto(f"/decisions/{Decision.objects.get().public_id}")


def runs(page: Page) -> None:
    desk.an_order()
    page.goto("/runs")


def a_run(page: Page) -> None:
    interrupt = desk.an_order()
    decide_elsewhere(interrupt, message="Hours match")
    page.goto(f"/runs/{interrupt.run.public_id}")


def a_stranded_run(page: Page) -> None:
    """The run with its actions, the list of stranded runs, and the receipt of the decision."""
    builders.a_person("lena@company.example", "agent-owners")
    interrupt = desk.an_order()
    decision = builders.decide(interrupt, builders.a_person("ines@company.example")).decision
    Run.objects.update(code_version="1")
    unread_by(Run.objects.get(), "2")
    offered_since(interrupt.run, clock.now() - timedelta(minutes=14))
    for address in ("/runs?of=stranded", f"/decisions/{decision.public_id}"):
        page.goto(address)
        page.get_by_text("no worker").first.wait_for()
        assert not findings(page)
    page.goto(f"/runs/{interrupt.run.public_id}")


def her_agents(page: Page) -> None:
    """Two of her agents, one halted, and the page of a run with every action."""
    her = builders.a_person("lena@company.example", "agent-owners", "operators")
    interrupt = desk.an_order()
    kill_switch.halt(her, slug=builders.an_agent("invoices").slug, reason="Matched an invoice twice")
    page.goto(f"/runs/{interrupt.run.public_id}")
    assert not findings(page)
    page.goto("/agents")
    page.get_by_role("heading", name="All agents").wait_for()


def measures(page: Page) -> None:
    Quarter(now=clock.now(), decided=300, open_waits=40).write()
    page.goto("/insights?days=90")
    assert page.locator(".plot > svg").count() == 6


def no_measures(page: Page) -> None:
    page.goto("/insights?days=7")


def lists_and_alternatives_with_errors(page: Page) -> None:
    open_wait(page, desk.a_question(LINES))
    page.get_by_role("button", name="Add an entry to Lines").click()
    page.get_by_role("textbox", name="Part").wait_for()
    page.get_by_role("radio", name="Later").check()
    page.get_by_role("button", name="Send this answer").click()
    page.get_by_role("alert").wait_for()


def an_amended_wait(page: Page) -> None:
    interrupt = desk.an_order()
    open_wait(page, interrupt)
    choose(page, "Approve")
    page.get_by_label("Note for the record").first.fill("Hours match")
    dearer = {**interrupt.proposal["arguments"], "amount": "199000.00"}
    amendment = Amendment(proposal={"name": interrupt.proposal["name"], "arguments": dearer}, message="Dearer\nnow")
    amend_open_interrupt(agent=interrupt.agent, interrupt_id=interrupt.public_id, amendment=amendment)
    page.get_by_text("Draft saved").wait_for()
    open_wait(page, interrupt)
    page.get_by_role("heading", name="Changed since you opened it").wait_for()


def a_second_round_with_comments(page: Page) -> None:
    interrupt, _ = a_second_round(builders.a_reviewer("ines@company.example"), message="Fine")
    open_wait(page, interrupt)
    page.get_by_role("textbox", name="Comment").fill("Ask S-22 too")
    page.get_by_role("button", name="Add comment").click()
    page.locator("#comments .said-here").wait_for()


def every_value_of_a_call(page: Page) -> None:
    call = {
        "name": "order",
        "arguments": {"lines": [{"part": f"Part {number}", "note": "x" * 90} for number in range(150)]},
    }
    page.goto(f"/interrupts/{desk.an_order(proposal=call).public_id}/call")


def expired_requests(page: Page) -> None:
    desk.lena().groups.add(builders.a_group("agent-owners"))
    let_expire(desk.an_order())
    a_lapse_with_a_failed_effect()
    page.goto("/expired")
    page.get_by_role("button", name="Restart the run of").wait_for()
    page.get_by_role("link", name="Review and restart").wait_for()


def dead_letters(page: Page) -> None:
    desk.lena().groups.add(builders.a_group("operators"))
    a_dead_signal(body={"flight": "LH 400", "lines": [{"part": "Hook"}, None]})
    page.goto("/dead-letters")
    page.get_by_text("Keep 7 more days").first.wait_for()


def an_unmatched_signal(page: Page) -> None:
    desk.lena().groups.add(builders.a_group("agent-owners"))
    signal = a_dead_signal(body={"flight": "LH 400", "lines": [{"part": "Hook"}, None]})
    page.goto(f"/dead-letters/{signal.public_id}")


def messages_given_up(page: Page) -> None:
    desk.lena().groups.add(builders.a_group("agent-owners"))
    a_dead_message()
    page.goto("/dead-letters?of=messages")
    page.get_by_role("button", name="Send again").wait_for()


def notifications_given_up(page: Page) -> None:
    desk.lena().groups.add(builders.a_group("operators"))
    a_dead_notification(desk.lena())
    page.goto("/dead-letters?of=notifications")
    page.get_by_role("button", name="Send again").wait_for()


def notification_settings_with_errors(page: Page) -> None:
    page.goto("/notifications")
    page.get_by_label("Quiet hours from").fill("20:00")
    page.get_by_role("button", name="Save").click()
    page.get_by_text("Nothing was saved.").wait_for()


def people_and_their_roles(page: Page) -> None:
    desk.lena().groups.add(builders.a_group("operators"))
    builders.a_reviewer("a-very-long-address-of-a-person." * 3 + "@example.org")
    builders.a_reviewer("gone@example.org").groups.clear()
    page.goto("/people")
    page.get_by_role("button", name="Disable gone@example.org").click()
    page.get_by_role("button", name="Enable gone@example.org").wait_for()
    page.locator("#notices .notice").wait_for()


def the_audit_log(page: Page) -> None:
    desk.lena().groups.add(builders.a_group("operators"))
    add_agent("agent-with-a-very-long-name-of-fifty-characters-in-all", owner="finance")
    add_policy("approval.action", queue="engineering", quorum=2)
    set_effect_mode("agent-with-a-very-long-name-of-fifty-characters-in-all", effects="any")
    page.goto("/audit")
    page.get_by_role("button", name="Filter").wait_for()


def an_agent_with_everything(page: Page) -> None:
    desk.lena().groups.add(builders.a_group("operators"))
    name = "agent-with-a-very-long-name-of-fifty-characters-in-all"
    add_agent(name, owner="finance")
    add_effect_rule("pay_invoices_of_a_supplier_with_a_long_name_*", agent=name, reason="question")
    amount = {"amount": {"label": "Amount", "unit": "EUR"}}
    add_call_label("pay_invoice", agent=name, sentence="Pay invoice {number} of {supplier}", arguments=amount)
    agent = builders.an_agent(name)
    builders.a_connection("erp", agent)
    WebhookEndpoint.objects.create(
        public_id="whk_1",
        agent=agent,
        key="k",
        url="https://desk.example/hooks/" + "long/" * 20,
        events=["run.started", "interrupt.answered"],
        created_at=clock.now(),
    )
    page.goto(f"/agents/{name}")
    keys = page.get_by_role("region", name="API keys")
    keys.get_by_text("Add a key").click()
    keys.get_by_label("Name", exact=True).fill("bank")
    page.get_by_role("checkbox", name=re.compile("^signal")).check()
    page.get_by_role("button", name="Add the key").click()
    page.get_by_role("heading", name="Copy the key bank now").wait_for()


def what_owners_resolve(page: Page) -> None:
    lena = desk.lena()
    lena.groups.add(builders.a_group("operators"))
    User.objects.filter(pk=lena.pk).update(is_staff=True)
    an_unknown_effect_of_a_held_run(lena)
    a_dead_message()
    page.goto("/outcomes")
    page.get_by_role("heading", name="Unknown outcomes").wait_for()


def queues_and_policies(page: Page) -> None:
    desk.lena().groups.add(builders.a_group("operators"))
    builders.a_queue("a-queue-with-a-very-long-name-of-fifty-characters-in-a")
    add_policy("payment", queue="engineering", queues=["refunds"])
    page.goto("/queues")


def a_policy_in_preview(page: Page) -> None:
    desk.lena().groups.add(builders.a_group("operators"))
    add_policy("approval.action", queue="engineering", self_review=True)
    desk.an_order()
    page.goto("/policies/edit?reason=approval.action")
    page.get_by_label("How many people must approve the same call").fill("2")
    page.get_by_role("checkbox", name="The person who started a run can decide about it").uncheck()
    page.get_by_role("button", name="Preview").click()
    page.get_by_role("heading", name="What changes").wait_for()


def replies_in_use(page: Page) -> None:
    lena, order = desk.lena(), desk.an_order()
    lena.groups.add(builders.a_group("engineering-leads"))
    saved_replies.save_reply(lena, name="Wrong amount of a supplier with a very long name", text="Wrong. " * 60)
    saved_replies.save_reply(lena, name="Shared", text="Send the receipt.", queue="engineering")
    page.goto(f"/interrupts/{order.public_id}")
    page.get_by_role("button", name="Insert reply").last.wait_for()
    assert findings(page) == []
    page.goto("/replies")


def a_standing_rule_with_faults(page: Page) -> None:
    desk.lena().groups.add(builders.a_group("engineering-leads"))
    builders.a_policy(standing_rules="low")
    page.goto(f"/rules/new?interrupt={a_refund().public_id}")
    page.get_by_label("Why").fill("Small refunds of this shop are always right, " * 6)
    page.get_by_role("button", name="Preview").click()
    page.get_by_role("heading", name="What it would decide").wait_for()
    page.get_by_label("Member").nth(1).fill("/name")
    page.get_by_role("button", name="Preview").click()
    page.get_by_text("must be a JSON Pointer").wait_for()


def a_standing_rule_and_its_list(page: Page) -> None:
    lena = desk.lena()
    lena.groups.add(builders.a_group("engineering-leads"))
    rule, _ = a_decided_refund(lena)
    page.goto("/rules")
    page.get_by_role("link", name="refund").wait_for()
    assert findings(page) == []
    page.goto(f"/rules/{rule.public_id}")


def planted_requests_and_their_form(page: Page) -> None:
    lena, order = desk.lena(), desk.an_order()
    lena.groups.add(builders.a_group("engineering-leads"))
    builders.a_reviewer()
    row = a_planted_request(lena, copy_of=builders.a_waiting_interrupt(), fault="One zero too many. " * 40)
    builders.decide(row.interrupt, builders.a_reviewer(), "approve")
    page.goto("/planted")
    page.get_by_role("link", name="Missed").click()
    page.get_by_text("The decision did not catch it.").wait_for()
    assert findings(page) == []
    page.goto("/insights")
    page.get_by_role("heading", name="Judgement").wait_for()
    assert findings(page) == []
    page.goto(f"/planted/new?copy_of={order.public_id}")
    page.get_by_role("button", name="Plant the request").click()
    page.get_by_text("is missing: say what is wrong").wait_for()


def a_forgotten_password(page: Page) -> None:
    page.context.clear_cookies()
    page.goto("/account/password/reset/")
    page.get_by_role("button", name="Send me a link").wait_for()


def second_factors_and_sessions(page: Page) -> None:
    """Every page of second factors and sessions; the last one is measured in every theme and width."""
    lena = desk.lena()
    lena.set_password(PASSWORD)
    lena.save()
    page.context.clear_cookies()
    page.goto("/account/login/?next=/account/sessions/")
    page.get_by_label("E-mail").fill(lena.email)
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_role("button", name="Sign in", exact=True).click()
    page.get_by_text("this session").wait_for()
    page.goto("/account/second-factor/app/")
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    assert not findings(page)
    page.get_by_role("button", name="Confirm").click()
    secret = page.locator("code").inner_text()
    assert not findings(page)
    page.get_by_label("Code that the app shows").fill(code(secret))
    page.get_by_role("button", name="Add the app").click()
    page.get_by_text("These codes are shown only now.").wait_for()
    assert not findings(page)
    for address in ("passkeys/add/", "second-factor/app/remove/", "second-factor/codes/new/", "second-factor/codes/"):
        page.goto(f"/account/{address}")
        if page.get_by_role("heading", name="Confirm with your second factor").is_visible():
            assert not findings(page)
            page.get_by_label("Code of your app").fill(code(secret, steps=1))
            page.get_by_role("button", name="Confirm").click()
        assert not findings(page), address
    page.context.clear_cookies()
    page.goto("/account/login/?next=/account/sessions/")
    page.get_by_label("E-mail").fill(lena.email)
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_role("button", name="Sign in", exact=True).click()
    page.get_by_role("heading", name="Use your second factor").wait_for()
    assert not findings(page)
    page.get_by_label("Code of your app").fill(recovery_codes(lena)[0])
    page.get_by_role("button", name="Sign in", exact=True).click()
    page.get_by_role("heading", name="Sessions").wait_for()
    assert not findings(page)
    page.goto("/account/second-factor/")


PAGES = [
    second_factors_and_sessions,
    lists_and_alternatives_with_errors,
    an_amended_wait,
    a_stranded_run,
    a_second_round_with_comments,
    every_value_of_a_call,
    an_inbox,
    an_empty_inbox,
    a_narrowed_inbox,
    several_together,
    what_became_of_several,
    a_wait_that_moved,
    a_wait_for_a_signal,
    the_next_one_at_once,
    a_wait,
    a_wait_with_faults,
    an_edit_in_review,
    a_question_with_faults,
    being_second,
    a_receipt,
    runs,
    a_run,
    her_agents,
    expired_requests,
    dead_letters,
    an_unmatched_signal,
    messages_given_up,
    notifications_given_up,
    notification_settings_with_errors,
    people_and_their_roles,
    the_audit_log,
    an_agent_with_everything,
    what_owners_resolve,
    queues_and_policies,
    a_policy_in_preview,
    replies_in_use,
    planted_requests_and_their_form,
    a_standing_rule_with_faults,
    a_standing_rule_and_its_list,
    a_forgotten_password,
    measures,
    no_measures,
]


@pytest.mark.parametrize("reach", PAGES, ids=lambda reach: re.sub("_", " ", reach.__name__))
def test_row_26_axe_finds_nothing(lenas: Page, reach: Callable[[Page], None]):
    reach(lenas)
    found = []
    for scheme in ("light", "dark"):
        lenas.emulate_media(color_scheme=scheme)
        for width in (1440, 360):
            lenas.set_viewport_size({"width": width, "height": 900})
            found += [f"{scheme} {width}: {line}" for line in findings(lenas)]
    assert found == []
