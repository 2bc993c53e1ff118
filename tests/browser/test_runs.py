"""Runs in a real browser: REVIEWER rows 9, 11 and 21, each named in its test."""

from __future__ import annotations

from datetime import timedelta

from playwright.sync_api import Page, expect

from ledger import clock
from runs.models import Run
from runs.use_cases import expire
from tests import builders
from tests.browser.test_reviewing import choose, decide_elsewhere, lenas, open_wait, sign_in
from tests.pages import desk
from tests.runs import leased_run_builders
from tests.runs.test_unclaimed_continuations import offered_since

__all__ = ["lenas"]  # a fixture


def a_purchase_that_acted():
    """A purchase asked one supplier, does not know whether it asked another, and waits for an approval."""
    desk.a_label("ask_offer", "Ask supplier {supplier} for an offer", supplier={"label": "Supplier"})
    started = builders.a_running_run(title="PR-4711", initiator=builders.a_person("tomas@company.example"))
    run = started.run
    for supplier, status in (("S-17", "applied"), ("S-22", "unknown")):
        key, arguments = f"ask:{supplier}", {"supplier": supplier}
        leased_run_builders.begin(run, key=key, name="ask_offer", arguments=arguments)
        leased_run_builders.report(run, status, key=key, receipt={"mail": supplier} if status == "applied" else None)
    return builders.a_waiting_interrupt(builders.a_wait(title="Order the hoist"), started=started)


def test_row_9_the_effects_so_far_and_the_history_are_read_from_top_to_bottom(lenas: Page):
    interrupt = a_purchase_that_acted()
    open_wait(lenas, interrupt)
    done = lenas.get_by_role("region", name="Effects so far")
    known, unknown = done.locator("tbody tr").all()
    expect(known).to_contain_text("Ask supplier S-17 for an offer")
    expect(unknown).to_contain_text("Ask supplier S-22 for an offer")
    expect(unknown).to_contain_text("resolve")

    choose(lenas, "Approve")
    lenas.get_by_role("button", name="Approve: ").click()
    expect(lenas.get_by_role("heading", name="Receipt")).to_be_visible()
    lenas.goto(f"/runs/{interrupt.run.public_id}")
    story = [line.inner_text() for line in lenas.locator("ol.timeline > li").all()]
    told = (
        "Run started for tomas",
        "An effect was applied",
        "unknown outcome",
        "Sent a request to Engineering",
        "You approved",
    )
    order = [next(at for at, line in enumerate(story) if words in line) for words in told]
    assert order == sorted(order), story
    expect(lenas.get_by_role("region", name="Effects")).to_contain_text("S-22")


def test_row_11_why_am_i_asked_and_why_can_i_not_decide(lenas: Page, live_server):
    interrupt = desk.an_order()
    open_wait(lenas, interrupt)
    expect(lenas.locator("main")).to_contain_text("approval.action")
    tomas = builders.a_person("tomas@company.example", "engineering-reviewers")
    lenas.context.clear_cookies()
    sign_in(lenas, tomas, live_server.url)
    open_wait(lenas, interrupt)
    expect(lenas.locator("main")).to_contain_text("You started this run, so another person must decide.")
    expect(lenas.locator("main")).to_contain_text("Lena")
    expect(lenas.get_by_role("radio")).to_have_count(0)


def test_row_11_a_closed_wait_says_who_decided_it(lenas: Page):
    interrupt = desk.an_order()
    decide_elsewhere(interrupt, message="Hours do not match")
    open_wait(lenas, interrupt)
    expect(lenas.locator("main")).to_contain_text("Ines")
    expect(lenas.get_by_role("radio")).to_have_count(0)


def test_row_21_a_run_is_paused_pressed_twice_resumed_and_cancelled_with_reasons(lenas: Page, live_server):
    started = builders.a_running_run(initiator=desk.lena(), title="PR-4712")
    run = started.run
    lenas.goto(f"/runs/{run.public_id}")
    control = lenas.get_by_role("region", name="Actions")
    control.get_by_text("Pause", exact=True).click()
    expect(control).to_contain_text("no effect begins until then")
    control.get_by_label("Reason").first.fill("wait for Monday")
    control.get_by_role("button", name="Pause this run").dblclick()
    expect(lenas.locator("main")).to_contain_text("Pausing")
    run.refresh_from_db()
    assert (run.status, run.pause_reason) == ("running", "wait for Monday")

    leased_run_builders.change(run, lease_until=clock.now() - timedelta(seconds=1))
    assert expire.release_lapsed_leases(limit=10) == 1
    lenas.reload()
    expect(lenas.locator("main")).to_contain_text("Paused")
    control.get_by_text("Resume", exact=True).click()
    control.get_by_role("button", name="Resume this run").click()
    expect(lenas.locator("main")).not_to_contain_text("Paused.")

    control.get_by_text("Cancel", exact=True).click()
    expect(control).to_contain_text("You cannot undo this; you can only restart the run.")
    control.get_by_role("button", name="Cancel this run").click()
    expect(lenas.locator("main")).to_contain_text("Cancelled")
    assert Run.objects.get(pk=run.pk).status == "cancelled"


def test_row_21_an_owner_halts_the_agent_on_the_runs_page(lenas: Page):
    builders.a_person("lena@company.example", "agent-owners")
    interrupt = desk.an_order()
    lenas.goto(f"/runs/{interrupt.run.public_id}")
    kill_switch = lenas.get_by_role("region", name="Kill switch")
    kill_switch.get_by_text("Halt", exact=True).click()
    kill_switch.get_by_label("Reason").fill("Prices are wrong")
    kill_switch.get_by_role("button", name="Halt purchase-requests").click()
    expect(lenas.locator("main")).to_contain_text("Prices are wrong")
    expect(lenas.locator("main")).to_contain_text("Only operators can lift a halt.")


def test_an_owner_gives_a_stranded_run_to_another_version_on_the_narrowest_screen(lenas: Page):
    builders.a_person("lena@company.example", "agent-owners")
    run = builders.a_running_run(lease_seconds=0, code_version="2.4.1").run
    offered_since(run, clock.now() - timedelta(minutes=14))
    lenas.set_viewport_size({"width": 360, "height": 740})
    lenas.goto("/runs")
    lenas.get_by_role("link", name="Stranded").click()
    expect(lenas.locator("tbody tr")).to_contain_text(
        "no worker has claimed it for 14 min; it needs code version 2.4.1"
    )
    lenas.locator("tbody a").first.click()
    lenas.get_by_role("link", name="assign it to another code version").click()
    control = lenas.get_by_role("region", name="Actions")
    control.get_by_text("Assign to another code version").click()
    control.get_by_label("Code version").fill("3.0")
    control.get_by_label("Reason").nth(1).fill("3.0 reads it")
    assert lenas.evaluate("document.documentElement.scrollWidth") <= 360
    control.get_by_role("button", name="Set the code version").click()
    expect(lenas.get_by_text("Only workers with code version 3.0 can claim the run now.")).to_be_visible()
    expect(lenas.locator("main")).to_contain_text("assigned the run to code version 3.0 instead of 2.4.1")
    assert Run.objects.get(pk=run.pk).code_version == "3.0"
