"""A repeated `POST runs` returns what a restarted worker needs: the live first lease, or what it can claim."""

from __future__ import annotations

import pytest

from ledger import clock
from runs.models import Run
from runs.use_cases import expire
from tests import builders
from tests.api.calls import a_worker

pytestmark = pytest.mark.django_db

RUN = {"key": "PR-4711", "title": "A purchase"}


def test_the_first_lease_is_returned_while_it_is_live():
    worker = a_worker()
    first, again = worker.post("runs", RUN), worker.post("runs", RUN)
    assert (again.status, again["lease"], again["continuation"]) == (200, first["lease"], None)


def test_a_lease_that_has_ended_is_not_returned():
    """The dead worker's lease would be refused as `lease_lost` by every later call."""
    worker = a_worker()
    run = worker.post("runs", RUN)["id"]
    builders.end_lease_now(Run.objects.get(public_id=run), clock.now())
    again = worker.post("runs", RUN)
    assert (again["status"], again["lease"], again["continuation"]) == ("running", None, None)


def test_a_restarted_worker_claims_the_continuation_of_its_run():
    worker = a_worker()
    run = worker.post("runs", RUN)["id"]
    builders.end_lease_now(Run.objects.get(public_id=run), clock.now())
    expire.release_lapsed_leases(limit=9)
    again = worker.post("runs", RUN)
    assert (again["status"], again["lease"]) == ("ready", None)
    [claimed] = worker.post(f"continuations/{again['continuation']}/claim").body
    assert (claimed["checkpoint"]["step"], claimed["cause"]) == ("start", "lease_lost")
    taken = worker.post("runs", RUN)
    assert (taken["status"], taken["lease"], taken["continuation"]) == ("running", None, None)


def test_a_run_without_a_lease_can_be_claimed_at_once():
    worker = a_worker()
    first = worker.post("runs", RUN | {"lease_seconds": 0})
    again = worker.post("runs", RUN | {"lease_seconds": 0})
    assert first["continuation"] == again["continuation"]
    [claimed] = worker.post(f"continuations/{first['continuation']}/claim").body
    assert (claimed["checkpoint"]["step"], claimed["checkpoint"]["state"], claimed["answers"]) == ("start", None, {})
    assert worker.post("runs", RUN | {"lease_seconds": 0})["continuation"] is None
