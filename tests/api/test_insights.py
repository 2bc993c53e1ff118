"""The measures by API: the figures of the queries, over what the caller may see, as JSON and as a sheet."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest

from ledger import clock
from reviewqueue import permissions
from reviewqueue.operations.api_keys import create_agent_key, create_personal_token
from reviewqueue.queries.insights import Insights, read_insights
from reviewqueue.queries.insights.scope import insights_scope
from tests import builders
from tests.api.calls import Caller
from tests.reviewqueue.a_busy_quarter import FOREIGN, Quarter, a_reader

pytestmark = pytest.mark.django_db


@pytest.fixture
def busy(monkeypatch: pytest.MonkeyPatch) -> Quarter:
    rows = Quarter(now=clock.now(), decided=300, open_waits=40)
    rows.write()
    monkeypatch.setattr(clock, "now", lambda: rows.now)
    return rows


def a_lead() -> Caller:
    return Caller(create_personal_token(a_reader()).text)


def read(visible: permissions.VisibleScope, **wanted: Any) -> Insights:
    return read_insights(insights_scope(visible=visible, now=clock.now(), **({"days": 30} | wanted)))


def test_the_json_has_the_figures_of_the_queries(busy: Quarter):
    reader = a_reader()
    found = read(permissions.read_scope(reader), days=90)
    told = a_lead().get("insights?days=90")
    assert (told.status, told["days"]) == (200, 90)
    assert told["waiting"]["number"] == found.waiting.ages.number
    assert told["waiting"]["p50_seconds"] == int(found.waiting.ages.p50.total_seconds())
    assert [(it["waits"], it["ending_soon"]) for it in told["waiting"]["by_age"]] == [*found.waiting.bands.values()]
    assert told["deciding"]["p90_seconds"] == int(found.deciding.lengths.p90.total_seconds())
    assert {(it["status"], it["code"]): it["refused"] for it in told["refused"]["by_code"]} == found.refused.codes
    assert told["resumed"]["by_status"]["completed"] == found.resumed.number("completed")
    assert sum(part["runs"] for part in told["resumed"]["parts"]) == told["resumed"]["runs"] == found.resumed.number()
    spared = told["spared"]
    assert (spared["steps_kept"], spared["steps_redone"], spared["effects_skipped"]) == found.spared.totals()
    assert told["ended"]["closed"] == found.ended.total
    assert [(it["person"], it["decided"]) for it in told["load"]] == [(it.address, it.decided) for it in found.load]


def test_an_agent_gets_its_own_runs_and_no_share_of_any_person(busy: Quarter):
    agent = builders.an_agent("mail-desk")
    found = read(permissions.VisibleScope(agents=frozenset({agent.pk})))
    worker = Caller(create_agent_key(agent).text)
    told = worker.get("insights")
    assert told["waiting"]["number"] == found.waiting.ages.number > 0
    assert told["resumed"]["runs"] == found.resumed.number()
    assert told["load"] is None
    sheet = worker.client.get("/api/v1/insights?format=csv", headers={"Authorization": f"Bearer {worker.key}"}).text
    assert "example.org" not in sheet


def test_the_sheet_and_the_json_speak_of_one_thing(busy: Quarter):
    lead = a_lead()
    told = lead.get("insights?days=7&queue=engineering")
    path = "/api/v1/insights?days=7&queue=engineering&format=csv"
    handed_out = lead.client.get(path, headers={"Authorization": f"Bearer {lead.key}"})
    assert handed_out["Content-Type"].startswith("text/csv")
    figures = {tuple(line[:3]): line[4] for line in csv.reader(io.StringIO(handed_out.text))}
    assert figures["waiting", "", "number"] == str(told["waiting"]["number"])
    assert figures["refused", "", "submitted"] == str(told["refused"]["submitted"])
    for part in told["spared"]["parts"]:
        assert figures["spared", part["begins"], "effects_skipped"] == str(part["effects_skipped"])


def test_a_foreign_queue_and_a_missing_one_look_the_same(busy: Quarter):
    lead = a_lead()
    foreign, missing = lead.get(f"insights?queue={FOREIGN}"), lead.get("insights?queue=nowhere")
    assert (foreign.status, missing.status) == (422, 422)
    assert foreign["errors"] == missing["errors"]


@pytest.mark.parametrize("query", ["days=31", "days=", "days=7&days=7", "format=xml", "since=2026", "queue=%00"])
def test_a_query_that_is_not_known_is_refused(query: str):
    refused = a_lead().get(f"insights?{query}")
    assert (refused.status, refused["code"]) == (422, "payload_invalid")


def test_without_interrupts_no_times_are_measured():
    told = a_lead().get("insights")
    assert told["waiting"] | {"by_age": [], "by_queue": []} == {
        "number": 0,
        "p10_seconds": None,
        "p50_seconds": None,
        "p90_seconds": None,
        "longest_seconds": None,
        "by_age": [],
        "by_queue": [],
    }
    assert told["load"] == []
