"""`python -m tests.faults_under_load [--only TEXT]`: inject each fault under load, and print the table of operations.md.

Needs nginx; the full disk needs the permission to mount, and wrong clocks need libfaketime. It takes about 15 minutes.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests import own_processes
from tests.faults_under_load import faults, installation
from tests.faults_under_load.load import Load

SECONDS_BEFORE, SECONDS_AFTER, SECONDS_TO_END = 4, 4, 60
HEAD = (
    "fault, commit",
    "requests",
    "failed",
    "longest time without a write, s",
    "acknowledged writes",
    "lost",
    "effects",
    "repeated",
    "left for a person",
)

STORED = {
    "runs": "SELECT key FROM runs_run",
    "requests": "SELECT public_id FROM runs_interrupt",
    "decisions": "SELECT public_id FROM runs_decision WHERE status = 'accepted'",
    "effects": "SELECT scope || '/' || key FROM ledger_effect WHERE status = 'applied'",
    "ends": "SELECT public_id FROM runs_run WHERE status = 'completed'",
}


@dataclass(kw_only=True)
class Row:
    fault: faults.Fault
    load: Load
    gap: float
    lost: dict[str, int]
    left: int
    finding: str

    @property
    def cells(self) -> list[str]:
        failed = sum(1 for call in self.load.calls if call.outcome == "failed")
        repeated = sum(1 for times in self.load.performed.values() if times > 1)
        lost = ", ".join(f"{count} {kind}" for kind, count in self.lost.items() if count) or "0"
        acknowledged = sum(len(names) for names in self.load.acknowledged.values())
        numbers = (len(self.load.calls), failed, f"{self.gap:.1f}", acknowledged, lost, len(self.load.performed))
        return [f"{self.fault.name} ({self.fault.mode})", *map(str, numbers), str(repeated), str(self.left)]


def main() -> None:
    os.environ |= {"DJANGO_SETTINGS_MODULE": "tests.settings", "REVIEWQUEUE_MODE": "test"}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", default="", help="the faults whose name contains this text")
    parser.add_argument("--mode", default="", choices=("", "asynchronous", "on", "remote_apply"))
    chosen = parser.parse_args()
    wanted = [it for it in faults.all_faults() if chosen.only in it.name and chosen.mode in ("", it.mode)]
    show(HEAD)
    show(["---"] * len(HEAD))
    together = [it for it in wanted if not it.has_own]
    for group in [together] * bool(together) + [[it] for it in wanted if it.has_own]:
        with a_folder(small=group[0].name == faults.DISK_FULL), contextlib.ExitStack() as until_the_end:
            folder = Path(until_the_end.enter_context(tempfile.TemporaryDirectory(prefix="reviewqueue-faults-")))
            it = until_the_end.enter_context(installation.started(folder, group[0].mode))
            for fault in group:
                row = measure(it, fault)
                show(row.cells)
                sys.stderr.write(f"{dict(row.load.failures)} {row.finding}\n")


def measure(it: installation.Installation, fault: faults.Fault) -> Row:
    """Inject one fault under load, let what is open end, and compare the database with what was acknowledged."""
    load = it.load()
    with load.running():
        write_on(load, seconds=SECONDS_BEFORE)
        began = time.monotonic()
        fault.harm(it)
        load.is_over.wait(fault.lasts)
        fault.mend(it)
        write_on(load, seconds=SECONDS_AFTER)
        gap = longest_gap(load, since=began)
        load.is_ending.set()
        with contextlib.suppress(AssertionError):
            own_processes.eventually(lambda: not open_runs(it, load), within=SECONDS_TO_END)
    if load.faults:
        raise SystemExit(f"A client failed: {load.faults}")
    stored = {kind: {name for [name] in rows(it, statement)} for kind, statement in STORED.items()}
    lost = {kind: len(names - stored[kind]) for kind, names in load.acknowledged.items()}
    return Row(fault=fault, load=load, gap=gap, lost=lost, left=open_runs(it, load), finding=rollback_finding(it))


def write_on(load: Load, *, seconds: float) -> None:
    """Wait until writes are acknowledged again, and for some seconds more."""
    now = time.monotonic()
    own_processes.eventually(lambda: load.faults or load.written_since(now) >= 10, within=120)
    load.is_over.wait(seconds)


def longest_gap(load: Load, *, since: float) -> float:
    times = sorted(call.at for call in load.calls if call.writes and call.outcome == "ok" and call.at >= since)
    return max(after - before for before, after in itertools.pairwise([since, *times]))


def open_runs(it: installation.Installation, load: Load) -> int:
    keys = load.acknowledged.get("runs", set())
    return sum(1 for [key] in rows(it, "SELECT key FROM runs_run WHERE ended_at IS NULL") if key in keys)


def rows(it: installation.Installation, statement: str) -> list[tuple[str, ...]]:
    return own_processes.query(f"{it.cluster.address}&target_session_attrs=read-write", statement)


def rollback_finding(it: installation.Installation) -> str:
    """Return what the doctor of a host that saw the primary says about a rolled-back database."""
    command = [sys.executable, "manage.py", "doctor", "--json"]
    done = subprocess.run(command, env=it.environment, capture_output=True, text=True, check=False)
    found = json.loads(done.stdout)["findings"] if done.stdout else [{"check": "restored", "message": done.stderr}]
    return "; ".join(finding["message"] for finding in found if finding["check"] == "restored" or finding["wrong"])


@contextlib.contextmanager
def a_folder(*, small: bool) -> Iterator[None]:
    """Keep temporary files on a small disk of their own, if ``small``."""
    if not small:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="reviewqueue-small-") as folder:
        subprocess.run(["/usr/bin/mount", "-t", "tmpfs", "-o", "size=600m,mode=755", "tmpfs", folder], check=True)
        before, tempfile.tempdir = tempfile.tempdir, folder
        try:
            yield
        finally:
            tempfile.tempdir = before
            subprocess.run(["/usr/bin/umount", "--lazy", folder], check=True)


def show(cells: object) -> None:
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)  # type: ignore[call-overload]  # noqa: T201


if __name__ == "__main__":
    main()
