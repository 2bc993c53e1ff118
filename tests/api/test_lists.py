"""Lists: page by page without a gap or a double, narrowed by filters, at the same number of statements for any length."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from runs.models import Interrupt
from tests import builders
from tests.api.calls import a_reviewer_client, a_waiting_interrupt, a_worker, the_approval, the_wait

pytestmark = pytest.mark.django_db


def walk(caller, path: str, name: str, limit: int) -> list[str]:
    """Return the ids of a whole list, read page by page."""
    found, cursor = [], ""
    while True:
        reply = caller.get(f"{path}{'&' if '?' in path else '?'}limit={limit}" + (f"&next={cursor}" if cursor else ""))
        assert reply.status == 200, reply.body
        found += [row.get("id") or row["seq"] for row in reply[name]]
        cursor = reply["next"]
        if cursor is None:
            return found


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
def test_a_list_is_walked_without_a_gap_or_a_double(limit):
    worker, ana = a_worker(), a_reviewer_client()
    made = [a_waiting_interrupt(worker) for _ in range(4)]
    waits, runs = [wait for wait, _ in reversed(made)], [run for _, run in reversed(made)]
    assert walk(worker, "interrupts", "interrupts", limit) == walk(ana, "interrupts", "interrupts", limit) == waits
    assert walk(worker, "runs", "runs", limit) == runs
    assert walk(worker, f"runs/{runs[0]}/timeline", "events", limit) == [1, 2]


def test_a_row_that_left_the_list_is_still_a_place_in_it():
    worker, ana = a_worker(), a_reviewer_client()
    waits = [a_waiting_interrupt(worker, the_approval())[0] for _ in range(3)]
    first = worker.get("interrupts?status=waiting&limit=1")
    ana.post(f"interrupts/{waits[2]}/decisions", {"state_version": 1, "verdict": "approve"})
    rest = worker.get(f"interrupts?status=waiting&next={first['next']}")
    assert [row["id"] for row in rest["interrupts"]] == [waits[1], waits[0]]


def test_a_list_is_narrowed_by_its_filters():
    worker = a_worker()
    builders.a_queue("legal")
    high, _ = a_waiting_interrupt(worker, the_wait(risk="high", queue="legal"))
    low, _ = a_waiting_interrupt(worker, the_approval(risk="low"))
    Interrupt.objects.filter(public_id=low).update(status="expired")
    for query, found in (
        ("queue=legal", [high]),
        ("status=waiting", [high]),
        ("status=expired", [low]),
        ("risk=low", [low]),
        ("reason=approval.action", [low]),
        ("agent=purchase-requests", [low, high]),
        ("queue=legal&risk=low", []),
        ("queue=engineering&status=cancelled", []),
    ):
        assert [row["id"] for row in worker.get(f"interrupts?{query}")["interrupts"]] == found, query


@pytest.mark.parametrize(
    "path",
    [
        "interrupts?status=wating",
        "interrupts?risk=higher",
        "interrupts?queue=enginering",
        "interrupts?queue=no queue",
        "interrupts?queue=",
        "interrupts?agent=nobody",
        "interrupts?reason=aproval.action",
        "runs?status=runing",
        "runs?key=a b",
        "runs?key=",
        "insights?queue=enginering",
        "insights?agent=nobody",
        "insights?days=31",
        "waits/stranded?code_version=1&agent=nobody",
        "waits/stranded?code_version=",
        "waits/stranded",
        "signals?status=ded",
        "signals?correlation=a b",
        "deliveries?status=ok",
        "deliveries?webhook=whk_0",
        "events?after=x",
        "schema?format=xml",
    ],
)
def test_a_filter_refuses_an_unknown_value(path):
    worker = a_worker()
    builders.a_queue()
    wrong = path.rpartition("?")[2].rpartition("&")[2].partition("=")[0]
    reply = worker.get(path)
    assert (reply.status, reply["code"]) == (422, "payload_invalid"), reply.body
    assert f"?{wrong if '?' in path else 'code_version'} " in reply["errors"][0]["message"]


def test_a_filter_refuses_a_name_that_the_person_cannot_see():
    worker, ana = a_worker(), a_reviewer_client()
    builders.a_queue("legal")
    a_waiting_interrupt(worker)
    for query in ("queue=legal", "queue=lagel"):
        assert ana.get(f"interrupts?{query}").status == 422
    assert ana.get("interrupts?agent=purchase-requests&risk=low")["interrupts"] == []
    assert ana.get("interrupts?queue=engineering&status=expired")["interrupts"] == []


def test_the_number_of_statements_is_the_same_for_any_number_of_rows():
    worker, ana = a_worker(), a_reviewer_client()
    counts = []
    for _ in range(3):
        a_waiting_interrupt(worker)
        ana.get("agents/me")
        worker.get("agents/me")
        with CaptureQueriesContext(connection) as captured:
            for caller in (ana, worker):
                caller.get("interrupts")
                caller.get("runs")
        counts.append(len(captured))
    assert len(set(counts)) == 1


def test_one_run_shows_what_holds_it_and_what_it_waits_for():
    worker = a_worker()
    _, run = a_waiting_interrupt(worker)
    shown = worker.get(f"runs/{run}")
    assert (shown["status"], shown["continuation"], shown["holds"], shown["lease"]) == ("waiting", None, [], None)
    assert [wait["key"] for wait in worker.get(f"runs/{run}/interrupts")["interrupts"]] == ["certificate"]
