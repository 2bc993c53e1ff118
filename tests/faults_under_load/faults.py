"""The faults: each harms an installation, and mends what does not mend itself."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass

from tests.faults_under_load.installation import Installation
from tests.nemesis.world import HOUR, faketime_library

Step = Callable[[Installation], None]


def nothing(it: Installation) -> None:
    pass


@dataclass(frozen=True, kw_only=True)
class Fault:
    """``lasts``: seconds from the harm to the mending. ``mode``: how the primary confirms a commit.

    ``has_own``: needs an installation of its own, because it does not end as it began.
    """

    name: str
    harm: Step
    mend: Step = nothing
    lasts: float = 0.0
    mode: str = "asynchronous"
    has_own: bool = False


def kill_web(it: Installation) -> None:
    it.webs[0].kill()


def start_web(it: Installation) -> None:
    it.webs[0].start()
    it.wait_for(it.webs[0])


def kill_web_process(it: Installation) -> None:
    """Kill the process that serves requests; its parents live."""
    assert it.webs[0]._process is not None
    family = it.webs[0]._process.children(recursive=True)
    next(member for member in family if not member.children()).kill()


def kill_workers(it: Installation) -> None:
    for worker in it.workers:
        worker.kill()


def start_workers(it: Installation) -> None:
    for worker in it.workers:
        worker.start()


def kill_task_process(it: Installation) -> None:
    """Kill one process of the cluster of tasks; its parents live."""
    assert it.workers[0]._process is not None
    family = it.workers[0]._process.children(recursive=True)
    next(member for member in family if not member.children()).kill()


def reload_proxy(it: Installation) -> None:
    assert it.proxy._process is not None
    it.proxy._process.send_signal(signal.SIGHUP)


def kill_proxy(it: Installation) -> None:
    it.proxy.kill()


def start_proxy(it: Installation) -> None:
    it.proxy.start()


def kill_session(it: Installation) -> None:
    """Kill one session of PostgreSQL, which restarts all others then."""
    [[pid]] = it.cluster.primary.execute(
        "SELECT pid FROM pg_stat_activity WHERE application_name = 'reviewqueue web' LIMIT 1"
    )
    os.kill(pid, signal.SIGKILL)


def restart_database(it: Installation) -> None:
    it.cluster.primary.restart_at_once()


def stop_database(it: Installation) -> None:
    it.cluster.primary.kill()


def start_database(it: Installation) -> None:
    with contextlib.suppress(FileNotFoundError):
        (it.cluster.primary.home / "data" / "postmaster.pid").unlink()  # of a killed one
    it.cluster.primary.start()


def fill_disk(it: Installation) -> None:
    with (it.cluster.primary.home / "filler").open("wb", buffering=0) as filler, contextlib.suppress(OSError):
        while True:
            filler.write(b"\0" * 65536)


def empty_disk(it: Installation) -> None:
    (it.cluster.primary.home / "filler").unlink()
    if not it.cluster.primary.runs():  # without room for its log it stops
        start_database(it)


def shift_clocks(it: Installation) -> None:
    it.webs[0].again(wrong_by=HOUR)
    it.workers[0].again(wrong_by=-HOUR)
    it.wait_for(it.webs[0])


def set_clocks(it: Installation) -> None:
    it.webs[0].again()
    it.workers[0].again()
    it.wait_for(it.webs[0])


def cut_off_standby(it: Installation) -> None:
    it.cluster.cut_off_standby()


def connect_standby(it: Installation) -> None:
    it.cluster.connect_standby()


def fail_over(it: Installation) -> None:
    it.cluster.primary.kill()
    it.cluster.promote_standby()


def _fail_overs() -> list[Fault]:
    plain = "the primary is killed and the standby promoted"
    cut = "the stream to the standby breaks, and 1 s later {}"
    found = []
    for mode in ("remote_apply", "on", "asynchronous"):
        found.append(Fault(name=plain, harm=fail_over, mode=mode, has_own=True))
    for mode in ("on", "asynchronous"):
        found.append(
            Fault(name=cut.format(plain), harm=cut_off_standby, mend=fail_over, lasts=1, mode=mode, has_own=True)
        )
    return found


def all_faults() -> list[Fault]:
    """Return the faults that can be injected on this machine."""
    known = [
        Fault(name="none", harm=nothing, lasts=5),
        Fault(name="one web process is killed; its parent starts it again", harm=kill_web_process),
        Fault(name="a web node is killed, and started after 2 s", harm=kill_web, mend=start_web, lasts=2),
        Fault(name="a task process is killed; its parent starts it again", harm=kill_task_process),
        Fault(
            name="both worker nodes are killed, and started after 5 s", harm=kill_workers, mend=start_workers, lasts=5
        ),
        Fault(name="the proxy reloads", harm=reload_proxy),
        Fault(name="the proxy is killed, and started after 1 s", harm=kill_proxy, mend=start_proxy, lasts=1),
        Fault(name="a session of PostgreSQL is killed", harm=kill_session),
        Fault(name="PostgreSQL restarts at once", harm=restart_database),
        Fault(name="PostgreSQL is killed, and started after 5 s", harm=stop_database, mend=start_database, lasts=5),
    ]
    if faketime_library():
        known.append(
            Fault(
                name="a web node an hour ahead and a worker node an hour behind for 5 s",
                harm=shift_clocks,
                mend=set_clocks,
                lasts=5,
            )
        )
    known.append(
        Fault(
            name="the standby is away for 5 s",
            harm=cut_off_standby,
            mend=connect_standby,
            lasts=5,
            mode="on",
            has_own=True,
        )
    )
    if can_mount():
        known.append(Fault(name=DISK_FULL, harm=fill_disk, mend=empty_disk, lasts=5, has_own=True))
    return [*known, *_fail_overs()]


DISK_FULL = "the disk of PostgreSQL is full for 5 s"


def can_mount() -> bool:
    """Whether this process can mount the small disk that is filled."""
    return os.geteuid() == 0 and subprocess.run(["/usr/bin/unshare", "-m", "true"], check=False).returncode == 0
