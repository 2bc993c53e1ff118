"""Starts the database and the server, measures, prints the table."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import math
import os
import platform
import secrets
import statistics
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil

from tests import postgresql
from tests.benchmarks import bulk_work
from tests.own_processes import free_port

ROOT = Path(__file__).resolve().parent.parent.parent
PLAIN_BODY = "x" * 3072
TABLE = "CREATE TABLE plain_row (id bigserial PRIMARY KEY, body text NOT NULL)"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("--rounds", type=int, default=7, help="rounds over all kinds of calls (default 7)")
    parser.add_argument("--calls", type=int, default=160, help="calls of each kind in a round (default 160)")
    parser.add_argument("--rates", action="store_true", help="only the rates")
    parser.add_argument("--only-waiting", action="store_true", help="only the figures beside many open requests")
    parser.add_argument("--only", nargs="+", choices=bulk_work.NAMES, help="only these figures of bulk work")
    parser.add_argument("--due", type=int, default=10_000, help="requests due at once (default 10,000)")
    parser.add_argument("--effects", type=int, default=1_000, help="effects to compensate (default 1,000)")
    parser.add_argument("--ready", type=int, default=400, help="runs to claim (default 400)")
    parser.add_argument(
        "--waiting",
        type=int,
        nargs="*",
        default=[10_000, 100_000],
        help="open requests at the end (default 10,000 and 100,000)",
    )
    parser.add_argument("--peers", action="store_true", help="beside other durable engines (tests/benchmarks/peers.py)")
    chosen = parser.parse_args()
    with postgresql.started(durable=True) as server:
        address = server.make_database("benchmarks")
        os.environ |= {
            "DATABASE_URL": address,
            "DJANGO_SETTINGS_MODULE": "tests.benchmarks.settings",
            "SECRET_KEY": secrets.token_urlsafe(50),
            "REVIEWQUEUE_ENVIRONMENT": "own",
            "LOG_LEVEL": "WARNING",
        }
        import django

        django.setup()
        _prepare()
        if chosen.peers:
            from tests.benchmarks import peers

            print_line(_commit())
            peers.run(server, rounds=chosen.rounds, calls=chosen.calls, say=print_line)
            return 0
        with _web() as (port, web):
            Benchmark(port, address, processes=[web, server.pid]).run(chosen)
    return 0


def _prepare() -> None:
    from django.core.management import call_command
    from django.db import connection

    call_command("migrate", verbosity=0)
    with connection.cursor() as cursor:
        cursor.execute(TABLE)


@contextlib.contextmanager
def _web() -> Iterator[tuple[int, int]]:
    """`manage.py web` on a free port, with its usual processes and threads; yields the port and its process."""
    port = free_port()
    web = subprocess.Popen([sys.executable, str(ROOT / "manage.py"), "web"], env=os.environ | {"PORT": str(port)})
    try:
        for _ in range(900):  # a busy machine takes its time
            with contextlib.suppress(urllib.error.URLError, ConnectionError, TimeoutError):
                urllib.request.urlopen(f"http://127.0.0.1:{port}/account/login/", timeout=5).close()
                break
            time.sleep(0.1)
        yield port, web.pid
    finally:
        web.terminate()
        web.wait(20)


class Benchmark:
    """One run over all figures; each is printed as soon as it is there."""

    def __init__(self, port: int, address: str, *, processes: list[int]) -> None:
        from tests.benchmarks import calls, load

        self.port, self.address, self.processes = port, address, processes
        self.of, self.load = calls, load
        self.credentials = calls.create_credentials()
        self.number = 0

    def run(self, chosen: argparse.Namespace) -> None:
        print_line(
            f"{os.cpu_count()} cores, Python {platform.python_version()}, {_commit()}, {self.load.CLIENTS} clients\n"
        )
        if chosen.only:
            self.show_bulk_work(chosen)
            return
        if not chosen.only_waiting:
            self.show_rates(chosen.rounds, chosen.calls)
            if chosen.rates:
                return
            self.show_long_polls(1000)
            self.show_wake(100)
            self.show_large_calls()
            self.show_bulk_work(chosen)
        for waiting in (100, *chosen.waiting):
            self.show_beside_open_requests(waiting, chosen.rounds, chosen.calls)

    # --- rates against the floors -------------------------------------------------------------------------------------

    def show_rates(self, rounds: int, calls: int) -> None:
        """Everything in turns, so that a slower minute of the machine is every figure's."""
        self.one_round(40)  # warm
        rounds_taken = [self.one_round(calls) for _ in range(rounds)]
        print_line(
            f"{'':12}{'per second':>12}{'p50 ms':>9}{'p95 ms':>9}{'CPU ms':>9}{'of the plain view':>20}{'by CPU':>9}"
        )
        for kind in rounds_taken[0]:
            taken = sum((one[kind] for one in rounds_taken), self.load.NOTHING)
            share = statistics.median(one[kind].rate / one["plain view"].rate for one in rounds_taken)
            by_cpu = statistics.median(
                one["plain view"].cpu_each / (one[kind].cpu_each or math.nan) for one in rounds_taken
            )
            target = "   target: at least 1/5" if kind in {"suspend", "decide"} else ""
            times = f"{taken.percentile(50):9.1f}{taken.percentile(95):9.1f}{1000 * taken.cpu_each:9.2f}"
            print_line(f"{kind:12}{taken.rate:12.0f}{times}{_shown(share):>20}{_shown(by_cpu):>9}{target}")
        print_line("The share is the median over the rounds: each kind beside the plain view of its own round.")
        print_line("CPU is that of server and database for one call: it holds on a machine that others use too.")

    def one_round(self, count: int) -> dict[str, Any]:
        of, credentials = self.of, self.credentials
        taken: dict[str, Any] = {"plain view": self.send(self.plain_calls(count))[0]}
        taken["commits"] = self.commit(count)
        taken["start"], started = self.send([of.start(credentials, self.next()) for _ in range(count)])
        taken["suspend"], suspended = self.send([of.suspend(credentials, run) for run in started])
        taken["list"], _ = self.send([of.inbox(credentials)] * (count // 4))
        taken["decide"], _ = self.send([of.decide(credentials, one) for one in suspended])
        taken["claim"], claimed = self.send([of.claim(credentials)] * count)
        claimed = [one for one in claimed if one]
        while len(claimed) < count:  # workers that come at once may pass by each other's runs
            claimed += self.send([of.claim(credentials)])[1]
        taken["complete"], _ = self.send([of.complete(credentials, one) for one in claimed])
        return taken

    def send(self, calls: list[Any]) -> tuple[Any, list[Any]]:
        return self.with_cpu(lambda: self.load.call_all(self.port, calls))

    def with_cpu(self, work: Callable[[], tuple[Any, Any]]) -> tuple[Any, Any]:
        """Work, and add the CPU that server and database used for it."""
        before = self.cpu()
        taken, replies = work()
        return dataclasses.replace(taken, cpu=self.cpu() - before), replies

    def cpu(self) -> float:
        """Seconds of CPU that the server's and the database's processes have used so far."""
        used = 0.0
        for parent in (psutil.Process(pid) for pid in self.processes):
            for process in [parent, *parent.children(recursive=True)]:
                with contextlib.suppress(psutil.NoSuchProcess):
                    times = process.cpu_times()
                    used += times.user + times.system
        return used

    def next(self) -> int:
        self.number += 1
        return self.number

    def plain_calls(self, count: int) -> list[Any]:
        return [self.load.Call(method="POST", path="/plain", headers={}, body=PLAIN_BODY.encode())] * count

    def commit(self, count: int) -> Any:
        """Single rows, committed straight to the database by as many sessions."""
        import psycopg

        with contextlib.ExitStack() as open_until_done:
            connect = lambda: open_until_done.enter_context(psycopg.connect(self.address, autocommit=True))  # noqa: E731
            sessions = [connect() for _ in range(self.load.CLIENTS)]
            insert = "INSERT INTO plain_row (body) VALUES (%s)"
            workers = [lambda _, session=session: session.execute(insert, [PLAIN_BODY]) for session in sessions]
            return self.load.take_turns(workers, count)

    # --- long polls ----------------------------------------------------------------------------------------------------

    def show_long_polls(self, count: int) -> None:
        """Bytes per waiting run, everything it has left in any table and index."""
        before = _bytes_of_everything()
        _, started = self.send([self.of.start(self.credentials, self.next()) for _ in range(count)])
        self.send([self.of.suspend(self.credentials, run) for run in started])
        each = (_bytes_of_everything() - before) / count
        words = f"with {len(self.of.suspend(self.credentials, started[0]).body)} bytes in its suspend"
        print_line(f"\nbytes per waiting run      {each:8.0f}   {words}; target: at most 8192")

    def show_wake(self, count: int) -> None:
        """A worker's long poll returns after a decision, beside many open requests."""
        after_sent, after_told = [], []
        worker, reviewer = self.load.Client(self.port), self.load.Client(self.port)
        for _ in range(count):
            _, [run] = self.send([self.of.start(self.credentials, self.next())])
            _, [suspended] = self.send([self.of.suspend(self.credentials, run)])
            claimed_at: list[float] = []
            waiting = threading.Thread(target=self._claim, args=(worker, claimed_at))
            waiting.start()
            time.sleep(0.05 + 0.2 * secrets.randbelow(100) / 100)
            sent = time.perf_counter()
            reviewer.send(self.of.decide(self.credentials, suspended))
            told = time.perf_counter()
            waiting.join()
            after_sent.append(claimed_at[0] - sent)
            after_told.append(max(0.0, claimed_at[0] - told))
        for label, each in (("decision confirmed to claimed", after_told), ("decision sent to claimed", after_sent)):
            taken = self.load.Measured(seconds=1, each=each)
            p50, p95 = taken.percentile(50), taken.percentile(95)
            print_line(f"{label:27}{p50:6.1f} ms p50, {p95:.1f} ms p95; target: 10 and 25")

    def _claim(self, worker: Any, claimed_at: list[float]) -> None:
        claimed = worker.send(self.of.claim(self.credentials, wait=20))
        claimed_at.append(time.perf_counter())
        self.send([self.of.complete(self.credentials, claimed)])

    def show_bulk_work(self, chosen: argparse.Namespace) -> None:
        names = chosen.only or bulk_work.NAMES
        if "claims" in names:
            bulk_work.show_claims(self, print_line, runs=chosen.ready)
        if "restarts" in names:
            bulk_work.show_restarts(self, print_line, runs=20)
        if "undos" in names:
            bulk_work.show_undos(self, print_line, effects=chosen.effects)
        if "expiry" in names:
            bulk_work.show_expiry(self, print_line, due=chosen.due)

    # --- beside many open requests ----------------------------------------------------------------------------------

    def show_beside_open_requests(self, waiting: int, rounds: int, calls: int) -> None:
        """The same calls beside so many open requests, and the pages over them: no figure may grow with their number."""
        from tests.benchmarks import inbox_copies

        began = time.perf_counter()
        inbox_copies.fill_up(self.credentials, to=waiting)
        print_line(f"\n{waiting} waiting (made in {time.perf_counter() - began:.1f} s)")
        self.show_rates(rounds, calls)
        for name, look in inbox_copies.looks(self.credentials).items():
            milliseconds, cpu, queries = look()
            figures = f"{milliseconds:6.1f} ms p50 of server time ({cpu:.1f} ms of CPU), {queries} queries"
            print_line(f"{name:17} at {waiting} waiting: {figures}; target: under 100, constant")

    def show_large_calls(self) -> None:
        """The page of a request with 10,000 members beside one with ten: limited by what a page renders."""
        from tests.benchmarks import inbox_copies

        for name, look in inbox_copies.large_calls(self.credentials).items():
            milliseconds, cpu, queries = look()
            figures = f"{milliseconds:6.1f} ms p50 of server time ({cpu:.1f} ms of CPU), {queries} queries"
            print_line(f"a request page with a call of {name:14}: {figures}; target: under 500 of CPU")


def _shown(share: float) -> str:
    if math.isnan(share):
        return "-"  # the sessions that committed are gone, and their CPU with them
    return f"{share:.2f}" if share >= 1 else f"1/{1 / share:.1f}"


def print_line(text: str) -> None:
    print(text)  # noqa: T201  the table is what this is for


def _bytes_of_everything() -> int:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")
        cursor.execute(
            "SELECT sum(pg_total_relation_size(relid)) FROM pg_stat_user_tables WHERE relname <> 'plain_row'"
        )
        return int(cursor.fetchone()[0])


def _commit() -> str:
    named = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return f"commit {named.stdout.strip()}" if named.returncode == 0 else "no repository"


if __name__ == "__main__":
    sys.exit(main())
