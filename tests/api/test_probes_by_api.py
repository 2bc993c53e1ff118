"""Probes by API: how they are declared, and what the task does with a real receiver."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.urls import reverse

from ledger.models import Effect
from reviewqueue import tasks
from tests.api.calls import a_started_run, a_worker
from tests.builders import a_connection
from tests.outbound.hostile_server import hostile_server
from tests.reviewqueue.test_holds_admin import signed_in, staff

pytestmark = pytest.mark.django_db

PROBE = {"connection": "erp", "path": "/good", "pointer": "/spec/version"}


def begin(worker, **probe: Any):
    run, lease = a_started_run(worker)
    wanted = {"name": "order", "arguments": 1, "probe": PROBE | probe}
    return run, worker.put(f"runs/{run}/effects/order", wanted, Run_Lease=lease)


@pytest.mark.parametrize(
    ("probe", "pointer"),
    [
        ({"connection": "none"}, "/probe/connection"),
        ({"path": "good"}, "/probe/path"),
        ({"path": "/../x"}, "/probe/path"),
        ({"path": "//elsewhere"}, "/probe/path"),
        ({"pointer": "spec"}, "/probe/pointer"),
        ({"applied": "booked"}, "/probe/applied"),
        ({"conclusive": "yes"}, "/probe/conclusive"),
        ({"url": "http://elsewhere"}, "/probe/url"),
    ],
)
def test_what_is_no_probe_is_refused_where_it_is_wrong(probe, pointer):
    a_connection()
    _, refused = begin(a_worker(), **probe)
    assert (refused.status, refused["errors"][0]["pointer"]) == (422, pointer)
    assert not Effect.objects.exists()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("applied", "status"), [([7], "applied"), ([8], "unknown")])
def test_an_unknown_outcome_is_looked_up_by_the_task_and_shown_at_the_desk(applied, status):
    worker = a_worker()
    connection = a_connection()
    run, begun = begin(worker, applied=applied)
    told = {"attempt_token": begun["attempt_token"], "status": "unknown"}
    worker.post(f"runs/{run}/effects/order/outcome", told)
    with hostile_server() as server:
        type(connection).objects.update(base_url=server.address)
        tasks.probe()
        tasks.probe()
        assert len(server.asked) == 1
    effect = Effect.objects.get()
    assert effect.status == status
    if status == "applied":
        [row] = worker.get(f"runs/{run}/effects")["effects"]
        assert row["receipt"]["spec"] == {"version": 7}
    olga = signed_in(staff("olga@example.org", "agent-owners"))
    html = olga.get(reverse("admin:ledger_effect_change", args=[effect.pk])).content.decode()
    assert re.search(r"data-label=.Who.><bdi[^>]*>this server<", html)
    assert ("looked up" in html) == (status == "unknown")
