"""Liveness (`/healthz`) and readiness (`/readyz`), for supervisors and load balancers.

Both need no key, so they show fixed sentences and never an address or the text of an error; that goes to the log.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
from datetime import datetime, timedelta
from pathlib import Path

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.db.models import Max, Min
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_safe
from django_q.models import OrmQ

from ledger import clock
from reviewqueue.models import Heartbeat
from reviewqueue.operations.installation import PROGRAM
from reviewqueue.serving.shutdown import is_stopping

log = logging.getLogger(__name__)

#: A worker sends a heartbeat every 5 s, and its supervisor restarts a silent cluster after 30 s.
MAX_HEARTBEAT_AGE = timedelta(seconds=60)

MIN_FREE_BYTES = 64 * 1024**2

_known_to_be_migrated = False


@login_not_required
@require_safe
def healthz(request: HttpRequest) -> HttpResponse:
    """Answer 200 without using the database: a database that is down must not make a supervisor kill this process."""
    return HttpResponse("ok\n", content_type="text/plain")


@login_not_required
@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    """Answer 200 if this process can serve requests, else 503 with the reason."""
    faults = find_shutdown() or find_full_disk() or find_fault()
    body = {"ready": not faults, "wrong": [{"check": check, "detail": detail} for check, detail in faults.items()]}
    return JsonResponse(body, status=503 if faults else 200)


def find_shutdown() -> dict[str, str]:
    """Return the fault of a process that will stop soon, so that no new requests are sent to it."""
    return {"shutdown": "This process is about to stop."} if is_stopping() else {}


def find_full_disk() -> dict[str, str]:
    """Return the first folder of this process whose disk is full, as ``{check: detail}``."""
    for name, free in free_bytes().items():
        if free < MIN_FREE_BYTES:
            return {"disk": f"The disk of the {name} has less than {MIN_FREE_BYTES // 1024**2} MiB free."}
    return {}


def free_bytes() -> dict[str, int]:
    """Return the free bytes on the disk of each folder that this process writes to."""
    folders = {"files": Path(settings.MEDIA_ROOT), "temporary files": Path(tempfile.gettempdir())}
    if connection.vendor == "sqlite":
        folders["database"] = Path(str(connection.settings_dict["NAME"])).absolute().parent
    existing = {
        name: next(it for it in (folder, *folder.absolute().parents) if it.exists()) for name, folder in folders.items()
    }
    return {name: shutil.disk_usage(folder).free for name, folder in existing.items()}


def find_fault() -> dict[str, str]:
    """Return the first fault that keeps this process from work, as ``{check: detail}``; empty if there is none."""
    try:
        now = clock.now()
        if not is_migrated():
            return {"migrations": f"The database is not migrated. Run: {PROGRAM} migrate"}
        silence = heartbeat_age(now=now)
    except DatabaseError as error:
        log.warning("Not ready: the database does not answer (%s)", str(error).partition("\n")[0])
        connection.close()
        return {"database": "The database does not answer."}
    if silence is None:
        return {"worker": f"No worker is running. Start one: {PROGRAM} worker"}
    if silence > MAX_HEARTBEAT_AGE:
        return {"worker": f"The last heartbeat of a worker was {silence.total_seconds():.0f} seconds ago."}
    return {}


def is_migrated() -> bool:
    """Return whether every migration of this version is applied. A positive result is cached."""
    global _known_to_be_migrated
    if not _known_to_be_migrated:
        executor = MigrationExecutor(connection)
        _known_to_be_migrated = not executor.migration_plan(executor.loader.graph.leaf_nodes())
    return _known_to_be_migrated


def heartbeat_age(*, now: datetime) -> timedelta | None:
    """Return the age of the newest heartbeat of any worker; ``None`` without a worker."""
    beaten_at = Heartbeat.objects.aggregate(last=Max("beaten_at"))["last"]
    return None if beaten_at is None else max(now - beaten_at, timedelta())


def count_workers(*, now: datetime) -> int:
    """Return the number of workers with a recent heartbeat."""
    return Heartbeat.objects.filter(beaten_at__gt=now - MAX_HEARTBEAT_AGE).count()


def task_queue_lag(*, now: datetime) -> timedelta:
    """Return how long the oldest queued task has waited. A running task does not count: its ``lock`` is in the future."""
    oldest = OrmQ.objects.filter(lock__lte=now).aggregate(oldest=Min("lock"))["oldest"]
    return timedelta() if oldest is None else now - oldest
