"""An inbox filled by copying a real wait, and what its pages cost the server."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import psutil
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from runs.models import Checkpoint, Interrupt, Run
from tests import builders
from tests.benchmarks.desk import Desk

LOOKS = 15


def fill_up(desk: Desk, *, to: int) -> None:
    """Copy one waiting run, its checkpoint and its wait, until so many wait."""
    builders.a_waiting_interrupt(started=builders.a_running_run(desk.agent))
    template = Interrupt.objects.select_related("run", "checkpoint").filter(status="waiting").latest("id")
    missing = to - Interrupt.objects.filter(status="waiting").count()
    for first in range(0, max(0, missing), 1000):
        places = range(first, min(first + 1000, missing))
        ids = [f"{to}x{place}" for place in places]
        runs = Run.objects.bulk_create(_copy(template.run, public_id=f"run_{one}", key=f"copy-{one}") for one in ids)
        boundaries = Checkpoint.objects.bulk_create(_copy(template.checkpoint, run=run) for run in runs)
        pairs = zip(runs, boundaries, strict=True)
        Interrupt.objects.bulk_create(
            _copy(template, run=run, checkpoint=boundary, public_id=f"int_{run.public_id[4:]}")
            for run, boundary in pairs
        )
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")


def _copy(row: object, **changed: object) -> object:
    fields = {field.attname: getattr(row, field.attname) for field in row._meta.concrete_fields if field.name != "id"}
    related = {f"{name}_id" for name in changed}
    return type(row)(**{name: value for name, value in fields.items() if name not in related} | changed)


def cpu() -> float:
    """Return the seconds of CPU that this process and its database session have used so far."""
    assert connection.connection is not None
    session = psutil.Process(connection.connection.info.backend_pid).cpu_times()
    return time.process_time() + session.user + session.system


def looks(desk: Desk) -> dict[str, Callable[[], tuple[float, float, int]]]:
    """Return the pages to look at: the inbox as a person opens it, and the API's list."""
    person = Client(SERVER_NAME="localhost")
    program = Client(SERVER_NAME="localhost", headers={"Authorization": f"Bearer {desk.token}"})
    person.force_login(desk.reviewer, backend="django.contrib.auth.backends.ModelBackend")
    return {
        "inbox page": lambda: _look(person, "/"),
        "API's list": lambda: _look(program, "/api/v1/interrupts?status=waiting&limit=50"),
    }


def _look(client: Client, address: str) -> tuple[float, float, int]:
    client.get(address)
    each = []
    before = cpu()
    for _ in range(LOOKS):
        began = time.perf_counter()
        reply = client.get(address)
        each.append(time.perf_counter() - began)
    used = cpu() - before
    if reply.status_code != 200:
        raise RuntimeError(f"{address}: {reply.status_code}")
    with CaptureQueriesContext(connection) as queries:
        client.get(address)
    return 1000 * statistics.median(each), 1000 * used / LOOKS, len(queries)
