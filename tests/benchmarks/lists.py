"""Server time of every page and list beside few rows and beside many, with their ratio.

`python -m tests.benchmarks.lists FEW MANY [--explain N] [--only NAME...]` reads two databases that
`tests.benchmarks.many_rows` filled, and prints a table: wall ms, CPU ms of process and database session, and statements.
`--explain` prints the plans of the slowest statements of the second database.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

LOOKS = 5
#: A look that takes longer than this is measured once.
LONG = 2.0
TARGET_RATIO, TARGET_MS = 2.0, 150.0


def pages() -> dict[str, Callable[[], Any]]:
    """Return each page and list, as a function that answers a response."""
    from django.contrib.auth.models import User
    from django.test import Client
    from django.urls import reverse

    from ledger import clock
    from reviewqueue.operations.api_keys import create_agent_key, create_personal_token
    from reviewqueue.queries import inbox
    from runs.models import Agent, Interrupt, Run
    from tests.benchmarks.many_rows import AGENTS, ALL_QUEUES_READER, OPERATOR

    def person(name: str) -> Client:
        client = Client(SERVER_NAME="localhost")
        user = User.objects.get(username=name)
        client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
        return client

    def program(token: str) -> Client:
        return Client(SERVER_NAME="localhost", headers={"Authorization": f"Bearer {token}"})

    one, quiet, owner = (
        person("engineering@example.org"),
        person("quiet@example.org"),
        person(f"{AGENTS[0]}-owner@example.org"),
    )
    everywhere, operator = person(ALL_QUEUES_READER), person(OPERATOR)
    reviewer = User.objects.get(username="engineering@example.org")
    token = program(create_personal_token(reviewer).text)
    key = program(create_agent_key(Agent.objects.get(slug=AGENTS[0])).text)
    waiting = Interrupt.objects.filter(queue__slug="engineering", status="waiting").order_by(
        "risk_rank", "deadline", "id"
    )
    first, last = waiting.first(), waiting.reverse().first()
    ended = Run.objects.filter(status="completed", interrupts__queue__slug="engineering").order_by("id")
    run = ended.first()
    assert first is not None
    assert last is not None
    assert run is not None
    page = inbox.list_requests(reviewer, view=inbox.View.OPEN, now=clock.now())

    live = {"HX-Request": "true", "HX-Target": "list"}

    def look_again(client: Client) -> Callable[[], Any]:
        tags = [""]

        def look() -> Any:
            response = client.get("/", headers=live | {"If-None-Match": tags[-1]})
            tags.append(response["ETag"])
            return response

        return look

    return {
        "inbox of one queue": lambda: one.get("/"),
        "inbox, its second page": lambda: one.get("/", {"after": page.next}),
        "inbox of all queues": lambda: everywhere.get("/"),
        "inbox of a quiet queue": lambda: quiet.get("/"),
        "inbox of an agent's owner": lambda: owner.get("/"),
        "inbox of an operator": lambda: operator.get("/"),
        "inbox, one queue of all": lambda: everywhere.get("/?queue=legal"),
        "inbox, quiet queue of all": lambda: everywhere.get("/?queue=quiet"),
        "inbox, risk": lambda: one.get("/?risk=low"),
        "inbox, reason": lambda: one.get("/?reason=approval.contract"),
        "inbox, agent": lambda: one.get("/?agent=refunds"),
        "inbox, search": lambda: one.get("/?q=hoist"),
        "inbox, search without a match": lambda: one.get("/?q=zeppelin"),
        "inbox, mine": lambda: one.get("/?view=mine"),
        "inbox, unclaimed": lambda: one.get("/?view=unclaimed"),
        "inbox, decided": lambda: one.get("/?view=decided"),
        "inbox, expired": lambda: one.get("/?view=expired"),
        "live redraw, unchanged": look_again(one),
        "live redraw, changed": lambda: one.get("/", headers=live),
        "live redraw of a quiet queue": lambda: quiet.get("/", headers=live),
        "request page, first": lambda: one.get(reverse("interrupt", args=[first.public_id])),
        "request page, last": lambda: one.get(reverse("interrupt", args=[last.public_id])),
        "run page": lambda: one.get(reverse("run", args=[run.public_id])),
        "runs": lambda: one.get("/runs"),
        "runs of an owner": lambda: owner.get("/runs"),
        "runs of an operator": lambda: operator.get("/runs"),
        "runs, status": lambda: one.get("/runs?status=waiting"),
        "runs, stranded": lambda: one.get("/runs?of=stranded"),
        "agents": lambda: owner.get("/agents"),
        "agents of an operator": lambda: operator.get("/agents"),
        "expired": lambda: one.get("/expired"),
        "expired of an operator": lambda: operator.get("/expired"),
        "dead letters": lambda: owner.get("/dead-letters"),
        "insights": lambda: one.get("/insights"),
        "insights of an operator": lambda: operator.get("/insights"),
        "API interrupts, waiting": lambda: token.get("/api/v1/interrupts?status=waiting"),
        "API interrupts, waiting in a queue": lambda: token.get("/api/v1/interrupts?status=waiting&queue=engineering"),
        "API interrupts, all": lambda: token.get("/api/v1/interrupts"),
        "API interrupts, waiting, agent's key": lambda: key.get("/api/v1/interrupts?status=waiting"),
        "API interrupts in a quiet queue, agent's key": lambda: key.get(
            "/api/v1/interrupts?status=waiting&queue=quiet"
        ),
        "API runs": lambda: token.get("/api/v1/runs"),
        "API runs, waiting": lambda: token.get("/api/v1/runs?status=waiting"),
        "API runs, agent's key": lambda: key.get("/api/v1/runs"),
        "API runs, failed, agent's key": lambda: key.get("/api/v1/runs?status=failed"),
        "API insights": lambda: token.get("/api/v1/insights"),
        "API insights, agent's key": lambda: key.get("/api/v1/insights"),
        "metrics": lambda: Client(SERVER_NAME="localhost").get("/metrics"),
    }


def measure(wanted: list[str], *, explain: int) -> dict[str, Any]:
    """Measure the pages of the database of DATABASE_URL, and explain its slowest statements."""
    import django

    django.setup()
    from django.conf import settings
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    settings.PAGES_PER_MINUTE = settings.API_CALLS_PER_MINUTE = settings.SIGNED_OUT_PAGES_PER_MINUTE = 0
    figures, statements = {}, []
    for name, look in pages().items():
        if wanted and not any(word in name for word in wanted):
            continue
        began = time.perf_counter()
        with CaptureQueriesContext(connection) as captured:
            response = look()
        took, number = time.perf_counter() - began, len(captured)
        if response.status_code not in (200, 304):
            raise RuntimeError(f"{name}: {response.status_code}")
        statements += [(float(query["time"]), name, query["sql"]) for query in captured.captured_queries]
        looks, before = [], _cpu()
        for _ in range(1 if took > LONG else LOOKS):
            began = time.perf_counter()
            look()
            looks.append(time.perf_counter() - began)
        used = (_cpu() - before) / len(looks)
        figures[name] = [1000 * statistics.median(looks), 1000 * used, number]
    return {"figures": figures, "plans": list(_plans(statements, explain))}


def _cpu() -> float:
    """Return the seconds of CPU that this process and its database session have used so far."""
    import psutil
    from django.db import connection

    used = time.process_time()
    if connection.vendor == "postgresql":
        connection.ensure_connection()
        session = psutil.Process(connection.connection.info.backend_pid).cpu_times()
        used += session.user + session.system
    return used


def _plans(statements: list[tuple[float, str, str]], number: int) -> Iterator[str]:
    from django.db import connection

    seen: set[str] = set()
    for seconds, name, sql in sorted(statements, reverse=True):
        shape = re.sub(r"\d+", "", sql)
        if len(seen) == number or shape in seen or not sql.startswith(("SELECT", "WITH")):
            continue
        seen.add(shape)
        with connection.cursor() as cursor:
            how = "EXPLAIN (ANALYZE, BUFFERS)" if connection.vendor == "postgresql" else "EXPLAIN QUERY PLAN"
            cursor.execute(f"{how} {sql}")
            plan = "\n".join("  " + str(row[-1]) for row in cursor.fetchall())
        yield f"{1000 * seconds:.0f} ms, {name}\n  {sql[:3000]}\n{plan}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.lists", description=__doc__)
    parser.add_argument("databases", nargs="*", metavar="URL", help="the database with few rows, and the one with many")
    parser.add_argument("--explain", type=int, default=0, metavar="N", help="plans of the N slowest statements")
    parser.add_argument(
        "--only", nargs="+", default=[], metavar="NAME", help="only pages whose name contains one of these"
    )
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.measure:
        print(json.dumps(measure(chosen.only, explain=chosen.explain)))  # noqa: T201
        return 0
    few, many = (_measured(url, chosen) for url in chosen.databases)
    print(f"{'':46}{'wall ms':>16}{'ratio':>8}{'CPU ms':>16}{'statements':>12}")  # noqa: T201
    for name, (wall, cpu, _) in few["figures"].items():
        wall_of_many, cpu_of_many, number = many["figures"][name]
        misses = "" if wall_of_many <= min(TARGET_RATIO * wall, TARGET_MS) else "  *"
        walls, cpus = f"{wall:7.0f}{wall_of_many:9.0f}", f"{cpu:7.0f}{cpu_of_many:9.0f}"
        print(f"{name:46}{walls}{wall_of_many / wall:8.1f}{cpus}{number:12}{misses}")  # noqa: T201
    print(f"* more than {TARGET_RATIO:.0f} times, or over {TARGET_MS:.0f} ms")  # noqa: T201
    print("\n\n".join(["", *many["plans"]]))  # noqa: T201
    return 0


def _measured(url: str, chosen: argparse.Namespace) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.benchmarks.lists", "--measure", "--explain", str(chosen.explain)]
    command += ["--only", *chosen.only] if chosen.only else []
    environment = {"SECRET_KEY": "x" * 50, "REVIEWQUEUE_ENVIRONMENT": "own", "LOG_LEVEL": "ERROR"}
    environment |= {"DJANGO_SETTINGS_MODULE": "tests.benchmarks.settings"} | os.environ | {"DATABASE_URL": url}
    printed = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout
    found: dict[str, Any] = json.loads(printed.splitlines()[-1])
    return found


if __name__ == "__main__":
    sys.exit(main())
