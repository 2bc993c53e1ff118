"""What a page of the reconciliation admin may cost, and that every stored value can still be read there."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from ledger import clock, effect_queries
from ledger.effects import EffectDeclaration
from ledger.models import Effect, EffectReport
from reviewqueue.admin.base import MAX_JSON_BYTES
from reviewqueue.admin.effects import MAX_REPORT_BYTES, MAX_REPORTS
from runs.models import Event, Fact, Hold
from tests import builders
from tests.ledger.effect_builders import an_effect
from tests.pages import desk
from tests.reviewqueue.test_holds_admin import a_run_held_for_a_fact
from tests.runs.leased_run_builders import a_leased_run, begin, let_go, report
from tests.unguarded import without_triggers

pytestmark = pytest.mark.django_db

PAGE_BYTES = 256 * 1024
LARGE: dict[str, Any] = {
    "members": {f"{number:05d}": 1 for number in range(60_000)},
    "text": {"text": "x" * 900_000},
    "hidden characters": {"text": "\u202e" * 200_000},
}


def an_operator() -> User:
    person = builders.a_person("ops@company.example", "operators")
    person.is_staff = True
    person.save()
    return person


def at_admin(person: User | None = None) -> Client:
    return desk.signed_in(person or an_operator())


def page(client: Client, model: str, pk: int) -> str:
    reply = client.get(reverse(f"admin:{model}_change", args=[pk]))
    assert reply.status_code == 200
    return reply.content.decode()


def an_unknown_effect(arguments: Any, receipt: Any = None) -> Effect:
    run = a_leased_run()
    begin(run, arguments=arguments)
    report(run, "unknown", error="no reply in 30 s", receipt=receipt)
    let_go(run)
    return Effect.objects.get()


@pytest.mark.parametrize("kind", LARGE)
def test_the_page_of_an_effect_does_not_grow_with_what_was_sent_and_received(kind):
    effect = an_unknown_effect(LARGE[kind], LARGE[kind])
    client = at_admin()
    for model in ("ledger_effect", "reviewqueue_unknownoutcome"):
        html = page(client, model, effect.pk)
        assert len(html) <= 3 * MAX_JSON_BYTES + MAX_REPORT_BYTES + 32 * 1024 <= PAGE_BYTES
        assert re.search(r"Showing 1 to [\d,]+ of [\d,]+ characters", html)
    links = set(re.findall(r'href="([^"]+/values/[^"]+)"', html))
    assert {href.split("/values/")[1] for href in links} >= {"call/", "reports/"}
    for href in links:
        assert client.get(href).status_code == 200, href
    whole = client.get(next(href for href in links if "call" in href) + "?as=json")
    assert len(whole.content) > 190_000


def test_a_stored_value_is_escaped_once():
    effect = an_unknown_effect({"note": "<b>5 & 6</b>"})
    html = page(at_admin(), "ledger_effect", effect.pk)
    assert "&quot;note&quot;: &quot;&lt;b&gt;5 &amp; 6&lt;/b&gt;&quot;" in html
    assert "&amp;quot;" not in html
    assert "<b>5" not in html


def test_the_reports_of_an_effect_are_bounded_and_all_can_be_read():
    effect = an_unknown_effect({"day": 1})
    EffectReport.objects.bulk_create(
        EffectReport(
            effect=effect,
            attempt=1,
            status="unknown",
            by="agent:a",
            at=clock.now(),
            body={"n": number, "x": "y" * 9_000},
        )
        for number in range(120)
    )
    client = at_admin()
    html = page(client, "ledger_effect", effect.pk)
    assert len(html) <= MAX_REPORTS * 2 * MAX_REPORT_BYTES
    assert "Show earlier reports" in html
    address = reverse("admin:ledger_effect_values", args=[effect.pk, "reports"])
    every = client.get(f"{address}?as=json").content.decode()
    assert every.count('"n":') == 120


def test_a_fact_and_the_references_of_an_event_are_bounded_alike():
    hold = a_run_held_for_a_fact()
    Fact.objects.update(value=LARGE["members"], last_value=LARGE["text"])
    with transaction.atomic(), without_triggers():
        Event.objects.filter(pk=Event.objects.first().pk).update(refs=LARGE["text"])
    client = at_admin()
    assert len(page(client, "runs_hold", hold.pk)) <= PAGE_BYTES
    assert "Show the rest" in page(client, "runs_hold", hold.pk)
    assert client.get(reverse("admin:runs_hold_values", args=[hold.pk, "facts"])).status_code == 200
    event = Event.objects.first()
    assert len(page(client, "runs_event", event.pk)) <= PAGE_BYTES
    assert client.get(reverse("admin:runs_event_values", args=[event.pk, "refs"])).status_code == 200


def test_the_values_of_others_are_missing():
    effect = an_unknown_effect(LARGE["members"])
    stranger = builders.a_person("eve@company.example", builders.an_agent("another", "other-owners").owner.name)
    stranger.is_staff = True
    stranger.save()
    address = reverse("admin:ledger_effect_values", args=[effect.pk, "call"])
    assert at_admin(stranger).get(address).status_code in (403, 404)
    assert at_admin().get(address.replace("call", "owner")).status_code == 404
    assert at_admin(builders.a_reviewer("ben@company.example")).get(address).status_code in (302, 403, 404)


def test_the_page_of_a_run_reads_no_row_for_each_effect_that_it_does_not_show():
    run = a_leased_run()
    client, counts = at_admin(), []
    for keys in (range(3), range(3, 120)):
        for number in keys:
            an_effect("applied", key=f"e{number}", scope=run.public_id)
        with CaptureQueriesContext(connection) as captured:
            html = client.get(f"/runs/{run.public_id}").content.decode()
        counts.append(len(captured))
    assert counts[1] <= counts[0] + 1
    assert "120 effects" in html
    assert "effects stay as they are (120)" in html


def test_effects_are_counted_by_status_and_by_what_a_cancel_compensates():
    run = a_leased_run()
    back = EffectDeclaration(compensation={"name": "cancel", "arguments": {}}, compensate_on=("cancel",))
    begin(run, key="a", declared=back)
    report(run, "applied", key="a")
    begin(run, key="b")
    report(run, "applied", key="b")
    begin(run, key="c")
    found = effect_queries.count_effects(run.public_id)
    assert (found.statuses, found.applied, found.compensated_on_cancel) == ({"applied": 2, "intended": 1}, 2, 1)
    assert found.total == 3
    assert effect_queries.count_effects("run_of_nobody").total == 0
    assert not Hold.objects.exists()
