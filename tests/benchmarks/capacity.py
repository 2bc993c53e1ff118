"""`python -m tests.benchmarks.capacity [RUNS]`: what one request costs in bytes, log and CPU (docs/performance.md).

Two web and two worker nodes, nginx, and a primary with a standby process runs of one request each: start, effect, suspend
with 1 KiB of arguments and 2 KiB of state, decision, claim, effect, end. CPU is that of the processes, also while the
machine does other work.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

from tests import own_processes
from tests.faults_under_load import installation
from tests.faults_under_load.load import Load

SECONDS_IDLE = 20
PADDING = 1024
TABLES = """SELECT relname, n_live_tup, pg_total_relation_size(relid), pg_relation_size(relid)
            FROM pg_stat_user_tables ORDER BY 3 DESC LIMIT 14"""


def main(runs: int) -> None:
    os.environ |= {"DJANGO_SETTINGS_MODULE": "tests.settings", "REVIEWQUEUE_MODE": "test"}
    with (
        tempfile.TemporaryDirectory(prefix="reviewqueue-capacity-") as folder,
        installation.started(Path(folder), "asynchronous") as it,
    ):
        idle_from = cpu(it)
        time.sleep(SECONDS_IDLE)
        idle = {name: (after - idle_from[name]) / SECONDS_IDLE for name, after in cpu(it).items()}
        show("CPU of idle processes, ms per second", {name: round(1000 * used, 1) for name, used in idle.items()})
        load = Load(address=it.address, key=it.key, token=it.token, padding=PADDING)
        before, log, began, size = cpu(it), position(it), time.monotonic(), database_size(it)
        with load.running():
            own_processes.eventually(lambda: len(load.acknowledged.get("ends", ())) >= runs, within=3600)
            load.is_ending.set()
            own_processes.eventually(lambda: not open_runs(it), within=120)
        seconds, ended = time.monotonic() - began, len(load.acknowledged["ends"])
        used = {name: after - before[name] - idle[name] * seconds for name, after in cpu(it).items()}
        show("runs, calls, seconds", [ended, len(load.calls), round(seconds)])
        show("CPU of one run, ms, without idle", {name: round(1000 * each / ended, 1) for name, each in used.items()})
        show("log of one run, bytes", round((position(it) - log) / ended))
        it.cluster.primary.execute("VACUUM ANALYZE")
        rows(it, "SELECT pg_stat_force_next_flush()")
        show("size of the database for one run, bytes", round((database_size(it) - size) / ended))
        for name, live, total, table in rows(it, TABLES):
            show(f"  {name}: rows, bytes, of these indexes", [live, total, int(total) - int(table)])
        show("backup: seconds, bytes", backup(it, Path(folder) / "dump"))
        show("connections", rows(it, "SELECT application_name, count(*)::int FROM pg_stat_activity GROUP BY 1"))


def cpu(it: installation.Installation) -> dict[str, float]:
    """Return the seconds of CPU that each kind of process has used."""
    assert it.cluster.primary.process is not None
    assert it.cluster.standby.process is not None
    mains = {
        "web": [web._process for web in it.webs],
        "worker": [worker._process for worker in it.workers],
        "nginx": [it.proxy._process],
        "postgresql": [psutil.Process(it.cluster.primary.process.pid)],
        "standby": [psutil.Process(it.cluster.standby.process.pid)],
    }
    return {name: sum(_seconds(main) for main in found if main is not None) for name, found in mains.items()}


def _seconds(main: psutil.Process) -> float:
    """Of the process, its children, and those of its children that have ended."""
    times = [member.cpu_times() for member in [main, *main.children(recursive=True)]]
    return float(sum(it.user + it.system + it.children_user + it.children_system for it in times))


def rows(it: installation.Installation, statement: str) -> list[tuple[object, ...]]:
    return own_processes.query(
        f"postgresql://postgres@/{it.cluster.database}?host={it.cluster.primary.home}", statement
    )


def open_runs(it: installation.Installation) -> object:
    return rows(it, "SELECT count(*)::int FROM runs_run WHERE ended_at IS NULL")[0][0]


def position(it: installation.Installation) -> int:
    [[bytes_written]] = it.cluster.primary.execute("SELECT (pg_current_wal_lsn() - '0/0'::pg_lsn)::bigint")
    return int(bytes_written)


def database_size(it: installation.Installation) -> int:
    [[size]] = it.cluster.primary.execute(f"SELECT pg_database_size('{it.cluster.database}')")
    return int(size)


def backup(it: installation.Installation, to: Path) -> list[float]:
    url = f"postgresql://postgres@/{it.cluster.database}?host={it.cluster.primary.home}"
    began = time.monotonic()
    command = [str(it.cluster.primary.program / "pg_dump"), "--format=custom", f"--file={to}", url]
    subprocess.run(command, check=True)
    return [round(time.monotonic() - began, 1), to.stat().st_size]


def show(what: str, found: object) -> None:
    print(f"{what}: {found}", flush=True)  # noqa: T201  read by a person


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
