"""Does this process live, and may it be given work? `/healthz` and `/readyz`, for supervisors and load balancers.

Open to everybody, so they tell only what is wrong in our own words, never an address or an error's text (that goes to the
log). What they look at is also what `metrics` counts and `doctor` judges. Nothing here changes a row.
"""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

from django.contrib.auth.decorators import login_not_required
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.db.models import Max, Min
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_safe
from django_q.models import OrmQ

from ledger import clock
from reviewqueue.models import Heartbeat

log = logging.getLogger(__name__)

#: A worker beats every five seconds, and its supervisor starts a silent cluster again after thirty.
LONGEST_SILENCE = timedelta(seconds=60)

_known_to_be_migrated = False


@login_not_required
@require_safe
def healthz(request: HttpRequest) -> HttpResponse:
    """Say that this process answers. Asks nothing of the database: a database that is away must not get us killed."""
    return HttpResponse("ok\n", content_type="text/plain")


@login_not_required
@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    """Say whether this process may be given work; 503 with what is wrong where it may not."""
    wrong = what_is_wrong()
    told = {"ready": not wrong, "wrong": [{"check": check, "detail": detail} for check, detail in wrong.items()]}
    return JsonResponse(told, status=503 if wrong else 200)


def what_is_wrong() -> dict[str, str]:
    """Return what keeps this process from work, by the name of the check; the first trouble hides what rests on it."""
    try:
        now = clock.now()
        if not is_migrated():
            return {"migrations": "The database has not been migrated: python3 manage.py migrate"}
        silence = silence_of_workers(now=now)
    except DatabaseError:
        log.exception("not ready: the database does not answer")
        connection.close()
        return {"database": "The database does not answer."}
    if silence is None:
        return {"worker": "No worker runs: python3 manage.py worker"}
    if silence > LONGEST_SILENCE:
        return {"worker": f"No worker was heard of for {silence.total_seconds():.0f} seconds."}
    return {}


def is_migrated() -> bool:
    """Tell whether every migration of this version is applied. Once it is, it stays so: asked of the database once."""
    global _known_to_be_migrated
    if not _known_to_be_migrated:
        executor = MigrationExecutor(connection)
        _known_to_be_migrated = not executor.migration_plan(executor.loader.graph.leaf_nodes())
    return _known_to_be_migrated


def silence_of_workers(*, now: datetime) -> timedelta | None:
    """Return how long ago the last task went through any worker's cluster; ``None`` where no worker is known."""
    beaten_at = Heartbeat.objects.aggregate(last=Max("beaten_at"))["last"]
    return None if beaten_at is None else max(now - beaten_at, timedelta())


def lag_of_tasks(*, now: datetime) -> timedelta:
    """Return how long the oldest task waits to be taken; a task that is being done is locked until a time to come."""
    oldest = OrmQ.objects.filter(lock__lte=now).aggregate(oldest=Min("lock"))["oldest"]
    return timedelta() if oldest is None else now - oldest
