"""An inbox filled with copies of a real request, and the server time of its pages."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial
from urllib.parse import urlencode

import psutil
from django.db import connection
from django.db.models import Model
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from ledger import clock
from reviewqueue.queries import inbox
from runs.models import Checkpoint, Event, Interrupt, Run
from tests import builders
from tests.benchmarks.calls import Credentials

LOOKS = 15


def fill_up(credentials: Credentials, *, to: int) -> None:
    """Copy one waiting run with its checkpoint and interrupt inside the database until there are enough.

    Deadlines and risks differ, as they do where people work; each copy has the size of its template.
    """
    builders.a_waiting_interrupt(started=builders.a_running_run(credentials.agent))
    template = Interrupt.objects.select_related("run", "checkpoint").filter(status="waiting").latest("id")
    missing = max(0, to - Interrupt.objects.filter(status="waiting").count())
    public = f"'{to}x' || n.n"
    with connection.cursor() as cursor:
        numbers = f"generate_series(1, {missing}) AS n(n)"
        columns = {"public_id": f"'run_' || {public}", "key": f"'copy-' || {public}"}
        cursor.execute(copy_rows(Run, template.run_id, columns, numbers))
        numbers += f" JOIN runs_run r ON r.key = 'copy-' || {public}"
        cursor.execute(copy_rows(Checkpoint, template.checkpoint_id, {"run_id": "r.id"}, numbers))
        numbers += " JOIN runs_checkpoint c ON c.run_id = r.id"
        columns = {"public_id": f"'int_' || {public}", "run_id": "r.id", "checkpoint_id": "c.id"}
        columns |= {"deadline": "t.deadline + n.n * interval '1 second'"}
        columns |= {"risk_rank": "n.n % 3", "risk": "(array['high', 'medium', 'low'])[1 + n.n % 3]"}
        cursor.execute(copy_rows(Interrupt, template.pk, columns, numbers))
        # As if of a version that recorded no digests of rows: the copies are not those that the template's events recorded.
        columns = {
            "run_id": "r.id",
            "row_digests": "NULL",
            "announced_seq": "NULL",
            "announced_at": "clock_timestamp()",
        }
        first = Event.objects.filter(run=template.run_id).earliest("seq")
        cursor.execute(copy_rows(Event, first.pk, columns | {"at": "clock_timestamp()"}, numbers))
        cursor.execute("VACUUM ANALYZE")


def copy_rows(model: type[Model], pk: int, changed: dict[str, str], numbers: str) -> str:
    """Return the statement that copies one row for each number, with some columns changed."""
    names = [field.column for field in model._meta.concrete_fields if not field.primary_key]
    values = ", ".join(changed.get(name, f't."{name}"') for name in names)
    into = ", ".join(f'"{name}"' for name in names)
    table = model._meta.db_table
    return f'INSERT INTO "{table}" ({into}) SELECT {values} FROM "{table}" t, {numbers} WHERE t.id = {pk}'  # noqa: S608  our own


def cpu() -> float:
    """Return the seconds of CPU that this process and its database session have used so far."""
    assert connection.connection is not None
    session = psutil.Process(connection.connection.info.backend_pid).cpu_times()
    return time.process_time() + session.user + session.system


def looks(credentials: Credentials) -> dict[str, Callable[[], tuple[float, float, int]]]:
    """Return the pages to look at: the inbox as a person opens it, and the API's list."""
    person = Client(SERVER_NAME="localhost")
    program = Client(SERVER_NAME="localhost", headers={"Authorization": f"Bearer {credentials.token}"})
    person.force_login(credentials.reviewer, backend="django.contrib.auth.backends.ModelBackend")
    first = inbox.list_requests(credentials.reviewer, view=inbox.View.OPEN, now=clock.now())
    after = urlencode({"after": first.next})
    middle = Interrupt.objects.filter(status="waiting").order_by("id")[100 // 2]
    return {
        "inbox page": lambda: _look(person, "/"),
        "its second page": lambda: _look(person, f"/?{after}"),
        "unclaimed": lambda: _look(person, "/?view=unclaimed"),
        "mine": lambda: _look(person, "/?view=mine"),
        "one request's page": lambda: _look(person, reverse("interrupt", args=[middle.public_id])),
        "API's list": lambda: _look(program, "/api/v1/interrupts?status=waiting&limit=50"),
    }


def large_calls(credentials: Credentials) -> dict[str, Callable[[], tuple[float, float, int]]]:
    """Return the page of a request whose call has ten members, and of one whose call has 10,000."""
    person = Client(SERVER_NAME="localhost")
    person.force_login(credentials.reviewer, backend="django.contrib.auth.backends.ModelBackend")
    found = {}
    for number in (10, 10_000):
        call = {"name": "order", "arguments": {f"m{place}": "x" for place in range(number)}}
        wait = builders.a_wait(proposal=call)
        interrupt = builders.a_waiting_interrupt(wait, started=builders.a_running_run(credentials.agent))
        address = reverse("interrupt", args=[interrupt.public_id])
        found[f"{number} members"] = partial(_look, person, address)
    return found


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
