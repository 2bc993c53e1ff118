"""Cost of bulk work: thousands of requests due at once, compensation of a long run, many claims at once, restarts.

`--only expiry undos claims restarts` runs them. Each figure is compared with one of the same minute and machine: a plain
statement, the same effects when they were done, one worker, a run that is new.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tests.benchmarks.load import Call, Client, a_call

if TYPE_CHECKING:
    from tests.benchmarks.__main__ import Benchmark

NAMES = ["expiry", "undos", "claims", "restarts"]

#: What an expiry that cancels writes, in one statement and with no chain: run, wait, three events.
PLAIN_EXPIRY = """
    WITH due AS (
        UPDATE runs_interrupt SET status = 'expired', closed_at = clock_timestamp()
        WHERE status = 'waiting' AND deadline <= clock_timestamp() RETURNING run_id, agent_id, public_id),
    ended AS (
        UPDATE runs_run r SET status = 'expired', ending = 'expired', ending_on = 'expire', ended_at = clock_timestamp(),
            open_waits = 0, timeline_seq = r.timeline_seq + 3
        FROM due WHERE r.id = due.run_id RETURNING r.id, r.agent_id, r.timeline_seq, r.timeline_head, due.public_id)
    INSERT INTO runs_event (run_id, agent_id, seq, type, actor, at, refs, prev, digest)
    SELECT id, agent_id, timeline_seq - 3 + n, 'run.expired', 'system:expiry', clock_timestamp(), public_id, timeline_head,
        timeline_head FROM ended, generate_series(1, 3) AS n"""


def show_expiry(benchmark: Benchmark, say: Callable[[str], None], *, due: int) -> None:
    """Due requests ended by one process's sweeps, beside one statement that writes the same rows for as many others."""
    from django.db import connection

    from reviewqueue import tasks
    from runs.models import Interrupt
    from tests.benchmarks import inbox_copies

    let_due(benchmark, due)
    began, before = time.perf_counter(), inbox_copies.cpu()
    while Interrupt.objects.filter(pk__in=first_due()).exists():
        tasks.sweep()
    swept, cpu = time.perf_counter() - began, inbox_copies.cpu() - before

    let_due(benchmark, due + 1)
    began = time.perf_counter()
    with connection.cursor() as cursor:
        cursor.execute(PLAIN_EXPIRY)
    plain = time.perf_counter() - began
    each = f"{due / swept:.0f} a second, {1000 * cpu / due:.1f} ms of CPU each"
    say(f"{due} due at once: {swept:.1f} s by one process, each in a transaction of its own ({each})")
    say(f"   one plain statement for as many: {plain:.2f} s; the sweep takes {swept / plain:.0f} times as long")


def let_due(benchmark: Benchmark, count: int) -> None:
    from ledger import clock
    from runs.models import Interrupt
    from tests.benchmarks import inbox_copies

    inbox_copies.fill_up(benchmark.credentials, to=count)
    Interrupt.objects.filter(status="waiting").update(deadline=clock.now())


def first_due() -> Any:
    from ledger import clock
    from runs.interrupts import due_interrupts
    from runs.models import Interrupt

    return Interrupt.objects.filter(due_interrupts(before=clock.now())).values("pk")[:1]


# --- by the API, one call after the other -----------------------------------------------------------------------------


def show_undos(benchmark: Benchmark, say: Callable[[str], None], *, effects: int) -> None:
    """One run applies many effects and fails; another worker compensates them. Each effect costs two calls."""
    client, credentials = Client(benchmark.port), benchmark.credentials
    run = client.send(benchmark.of.start(credentials, benchmark.next()))
    lease, path = run["lease"]["token"], f"/api/v1/runs/{run['id']}"
    back = {"name": "release_hoist", "arguments": {"day": 1}}
    done = [
        timed(lambda number=number: perform(client, credentials, path, lease, f"reserve:{number}", compensation=back))
        for number in range(effects)
    ]
    client.send(a_call("POST", f"{path}/fail", {"error": "no crew"}, key=credentials.agent_key, Run_Lease=lease))
    began = time.perf_counter()
    [taken] = client.send(
        a_call("POST", "/api/v1/continuations/claim", {"lease_seconds": 3600}, key=credentials.agent_key)
    )
    claimed = time.perf_counter() - began
    lease, keys = taken["lease"]["token"], [one["key"] for one in taken["compensations"]]
    undone = [
        timed(lambda key=key: perform(client, credentials, path, lease, key, name="release_hoist")) for key in keys
    ]
    tenth = max(1, len(keys) // 10)
    growth = statistics.mean(undone[-tenth:]) / statistics.mean(undone[:tenth])
    say(f"{len(keys)} effects compensated: {sum(undone):.1f} s; the claim that lists them {1000 * claimed:.0f} ms")
    say(
        f"   to do them took {sum(done):.1f} s: {sum(undone) / sum(done):.2f} times that; last tenth {growth:.2f} of first"
    )


def perform(client: Client, credentials: Any, path: str, lease: str, key: str, **wanted: Any) -> None:
    """Begin one effect and report that it was applied. An undo brings no arguments: they were declared."""
    body = {"name": "reserve_hoist", "arguments": {"day": 1}} | wanted if "compensation" in wanted else wanted
    begun = client.send(a_call("PUT", f"{path}/effects/{key}", body, key=credentials.agent_key, Run_Lease=lease))
    told = {"attempt_token": begun["attempt_token"], "status": "applied"}
    client.send(a_call("POST", f"{path}/effects/{key}/outcome", told, key=credentials.agent_key))


def show_claims(benchmark: Benchmark, say: Callable[[str], None], *, runs: int) -> None:
    """Workers that claim one run after the other from the same agent, until none is ready; each claims a share."""
    rates = {}
    for workers in (1, 2, 4):
        benchmark.send([ready(benchmark) for _ in range(runs)])
        rates[workers] = claim_all(benchmark, workers, runs)
    words = ", ".join(f"{count} workers {rate:.0f}" for count, rate in rates.items()).replace("1 workers", "1 worker")
    shares = ", ".join(f"{rates[count] / rates[1]:.2f}" for count in (2, 4))
    say(f"claims a second of {runs} ready runs: {words}; beside one worker {shares} times")


def ready(benchmark: Benchmark) -> Call:
    body = {"key": f"PR-{benchmark.next()}", "title": "A purchase", "lease_seconds": 0}
    return a_call("POST", "/api/v1/runs", body, key=benchmark.credentials.agent_key)


def claim_all(benchmark: Benchmark, workers: int, runs: int) -> float:
    claimed: list[str] = []

    def work() -> None:
        client = Client(benchmark.port)
        while len(claimed) < runs:
            claimed.extend(one["run"]["id"] for one in client.send(benchmark.of.claim(benchmark.credentials)))

    threads = [threading.Thread(target=work) for _ in range(workers)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if len({*claimed}) != runs:
        raise RuntimeError(f"{len(claimed)} claims of {runs} runs, {len({*claimed})} different ones")
    return runs / (time.perf_counter() - began)


def show_restarts(benchmark: Benchmark, say: Callable[[str], None], *, runs: int, effects: int = 20) -> None:
    """A failed run with some applied effects is started again and claimed; beside a run that is new, started and claimed."""
    from reviewqueue.operations.api_keys import create_personal_token
    from tests import builders

    owner = create_personal_token(builders.a_person("owner@example.org", benchmark.credentials.agent.owner.name)).text
    client, credentials = Client(benchmark.port), benchmark.credentials
    anew, again = [], []
    for _ in range(runs):
        anew.append(timed(lambda: (client.send(ready(benchmark)), client.send(benchmark.of.claim(credentials)))))
        path = failed_run(benchmark, client, effects)
        restart = a_call("POST", f"{path}/restart", {"reason": "again"}, key=owner)
        again.append(
            timed(lambda restart=restart: (client.send(restart), client.send(benchmark.of.claim(credentials))))
        )
    was, now = statistics.median(anew), statistics.median(again)
    say(
        f"restart and claim of a run with {effects} effects: {1000 * now:.1f} ms; start and claim of a new one: "
        f"{1000 * was:.1f} ms; {now / was:.2f} times that"
    )


def failed_run(benchmark: Benchmark, client: Client, effects: int) -> str:
    credentials = benchmark.credentials
    run = client.send(benchmark.of.start(credentials, benchmark.next()))
    lease, path = run["lease"]["token"], f"/api/v1/runs/{run['id']}"
    for number in range(effects):
        body = {"name": "reserve_hoist", "arguments": {"day": number}}
        begun = client.send(
            a_call("PUT", f"{path}/effects/r:{number}", body, key=credentials.agent_key, Run_Lease=lease)
        )
        told = {"attempt_token": begun["attempt_token"], "status": "applied"}
        client.send(a_call("POST", f"{path}/effects/r:{number}/outcome", told, key=credentials.agent_key))
    client.send(a_call("POST", f"{path}/fail", {"error": "no crew"}, key=credentials.agent_key, Run_Lease=lease))
    return path


def timed(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
