"""The runs behind a reviewer's queues: the same as by the permission of each row."""

from __future__ import annotations

import itertools
import random

import pytest
from django.contrib.auth.models import User

from reviewqueue import permissions
from reviewqueue.queries import visible_ranges
from reviewqueue.queries.visible_ranges import list_run_keys
from runs.models import Interrupt, Run
from tests import builders

pytestmark = pytest.mark.django_db

STATUSES = ("waiting", "ready", "blocked")


def runs_of_three_agents_and_queues() -> User:
    """Three agents ask two queues, and a third one that the returned reviewer does not see; their runs are mixed."""
    draw = random.Random(7)
    ana = builders.a_reviewer()
    queues = [builders.a_queue(), builders.a_queue("finance"), builders.a_queue("legal")]
    ana.groups.add(queues[1].reviewers)
    agents = [builders.an_agent(slug) for slug in ("one", "two", "three")]
    for number in range(24):
        interrupt = builders.a_waiting_interrupt(started=builders.a_running_run(agents[number % 3]))
        queue = draw.choice(queues)
        Interrupt.objects.filter(pk=interrupt.pk).update(queue=queue)
        Run.objects.filter(pk=interrupt.run_id).update(status=draw.choice(STATUSES))
    return ana


@pytest.mark.parametrize("steps", [visible_ranges.MAX_STEPS, 1, 2, 3, 4, 5])
def test_a_list_by_status_is_the_same_as_by_the_permission_of_each_row(monkeypatch, steps: int):
    monkeypatch.setattr(visible_ranges, "MAX_STEPS", steps)
    ana = runs_of_three_agents_and_queues()
    scope = permissions.read_scope(ana)
    assert len(scope.queues) == 2
    visible = Run.objects.filter(pk__in=permissions.visible_runs(ana)).order_by("-id")
    assert 0 < visible.count() < Run.objects.count()
    places = [None, *visible.values_list("pk", flat=True)[::9]]
    agents = [None, *Run.objects.values_list("agent", flat=True).distinct()]
    for status, agent, before, limit in itertools.product(("", *STATUSES), agents, places, (2, 51)):
        expected = visible.filter(status=status) if status else visible
        expected = expected if agent is None else expected.filter(agent=agent)
        expected = expected if before is None else expected.filter(pk__lt=before)
        found = list_run_keys(scope, agent=agent, status=status, before=before, limit=limit)
        assert found == list(expected.values_list("pk", flat=True)[:limit]), (status, agent, before, limit)
