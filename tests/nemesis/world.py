"""The processes of one nemesis run: two `web`, two `worker`, agents, reviewers, an operator, a receiver, PostgreSQL.

Each can be killed, stopped, woken and restarted together with its child processes; what remains at the end of the block
is killed. `FAKETIME` is set for processes with a wrong clock, if its library is installed.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from django.conf import settings

from tests import own_processes, postgresql
from tests.own_processes import eventually

AGENTS, REVIEWERS = 3, ("ana", "ben")
HOUR = 3600
SECONDS_TO_START = 400  # on a machine that does much else


def faketime_library() -> str | None:
    """libfaketime, of Debian's package `faketime`. None: clocks stay right, and the test reports that."""
    found = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
    return str(found[0]) if found else None


@dataclass
class ManagedProcess:
    """One process that is restarted after its kill, together with its child processes."""

    name: str
    command: list[str]
    environment: dict[str, str]
    log: Path
    wrong_by: int = 0
    _process: psutil.Popen | None = field(default=None, repr=False)

    def start(self) -> None:
        with self.log.open("ab") as written:
            self._process = psutil.Popen(
                self.command,
                env=self.environment | self._clock(),
                stdin=subprocess.DEVNULL,
                stdout=written,
                stderr=written,
                cwd=settings.ROOT,
            )

    def kill(self) -> None:
        groups = self._groups()
        self._signal(signal.SIGKILL)
        for group in groups:  # a process that is just starting is in no list of children yet
            with contextlib.suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
        if self._process is not None:
            self._process.wait()

    def stop(self) -> None:
        self._signal(signal.SIGSTOP)

    def wake(self) -> None:
        self._signal(signal.SIGCONT)

    def again(self, *, wrong_by: int = 0) -> None:
        """Kill and restart it, with a clock that is wrong by so many seconds."""
        self.kill()
        self.wrong_by = wrong_by
        self.start()

    def runs(self) -> bool:
        return self._process is not None and bool(self._process.poll() is None)

    def memory(self) -> int:
        """Return the resident bytes of the process and its children."""
        return sum(member.memory_info().rss for member in self._processes())

    def _processes(self) -> list[psutil.Process]:
        if self._process is None:
            return []
        with contextlib.suppress(psutil.NoSuchProcess):
            return [self._process, *self._process.children(recursive=True)]
        return []

    def _groups(self) -> set[int]:
        """Return the process groups of its children; the process itself is in the test's group."""
        groups = set()
        for member in self._processes():
            with contextlib.suppress(ProcessLookupError):
                groups.add(os.getpgid(member.pid))
        return groups - {os.getpgid(0)}

    def _signal(self, sign: signal.Signals) -> None:
        for member in self._processes():  # the parent first, which would start its children again
            with contextlib.suppress(psutil.NoSuchProcess):
                member.send_signal(sign)

    def _clock(self) -> dict[str, str]:
        library = faketime_library()
        if not self.wrong_by or library is None:
            return {}
        return {"LD_PRELOAD": library, "FAKETIME": f"{self.wrong_by:+d}s", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}


@dataclass(kw_only=True)
class World:
    folder: Path
    server: postgresql.Server
    address: str
    receiver: str
    environment: dict[str, str]
    ports: list[int]
    webs: list[ManagedProcess]
    workers: list[ManagedProcess]
    agents: list[ManagedProcess]
    people: list[ManagedProcess]

    @property
    def all_processes(self) -> list[ManagedProcess]:
        return [*self.webs, *self.workers, *self.agents, *self.people]

    def answers(self, port: int) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5) as reply:
                return bool(reply.status == 200)
        except OSError:
            return False

    def weather(self, word: str) -> None:
        request = urllib.request.Request(f"{self.receiver}/{word}", data=b"{}", method="POST")  # noqa: S310  our own
        urllib.request.urlopen(request, timeout=10).close()  # noqa: S310

    def truth(self) -> dict[str, Any]:
        """Return what really happened, by the receiver's own count."""
        with urllib.request.urlopen(f"{self.receiver}/all", timeout=20) as reply:  # noqa: S310  our own
            return dict(json.load(reply))

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return own_processes.query(self.address, sql)

    def do(self, *words: str) -> str:
        """Run the part of the nemesis that needs Django in a separate process."""
        command = [sys.executable, "-m", "tests.nemesis.database_setup", *words, self.receiver]
        done = subprocess.run(
            command, env=self.environment, cwd=settings.ROOT, capture_output=True, text=True, timeout=240, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@contextlib.contextmanager
def a_world(folder: Path, *, seed: int) -> Iterator[World]:
    """Everything started and responding, without faults, with agents and people not yet working."""
    with contextlib.ExitStack() as whole:
        server = whole.enter_context(postgresql.started(durable=True))
        world = _a_still_world(folder, server, server.make_database("nemesis"), whole, seed=seed)
        keys = json.loads(world.do("found").splitlines()[-1])
        for kept in [*world.webs, *world.workers]:
            whole.callback(kept.kill)
            kept.start()
        for number in range(1, AGENTS + 1):
            world.agents.append(_a_client(world, f"agent-{number}", "agents", keys["agent"], seed=seed))
        for name in REVIEWERS:
            world.people.append(_a_client(world, name, "people", keys[name], "reviewer", seed=seed))
        world.people.append(_a_client(world, "oli", "people", keys["oli"], "operator", seed=seed))
        for kept in [*world.agents, *world.people]:
            whole.callback(kept.kill)
        for port in world.ports:
            eventually(lambda port=port: world.answers(port), within=SECONDS_TO_START, log=folder / "web-1.log")
        eventually(
            lambda: world.rows("SELECT 1 FROM reviewqueue_heartbeat"),
            within=SECONDS_TO_START,
            log=folder / "worker-1.log",
        )
        _ask_for_webhooks(world, keys["agent"])
        yield world


def _ask_for_webhooks(world: World, key: str) -> None:
    wanted = {"url": f"{world.receiver}/hooks", "events": ["continuation.ready", "run.completed"], "description": ""}
    request = urllib.request.Request(
        f"http://127.0.0.1:{world.ports[0]}/api/v1/webhooks",
        method="POST",
        data=json.dumps(wanted).encode(),
        headers={"Authorization": f"Bearer {key}", "Content-Type": "application/json", "Idempotency-Key": "hooks"},
    )
    urllib.request.urlopen(request, timeout=60).close()  # noqa: S310


def _a_still_world(
    folder: Path, server: postgresql.Server, address: str, whole: contextlib.ExitStack, *, seed: int
) -> World:
    hook, *ports = (own_processes.free_port() for _ in range(3))
    outside = ManagedProcess(
        "receiver",
        [sys.executable, "-m", "tests.nemesis.receiver", str(hook), str(seed)],
        own_processes.environment_for(address),
        folder / "receiver.log",
    )
    whole.callback(outside.kill)
    outside.start()
    shared = {"OUTBOUND_ALLOW": "127.0.0.0/8", "WEB_PROCESSES": "1", "BASE_URL": f"http://127.0.0.1:{ports[0]}"}
    environment = own_processes.environment_for(address, **shared)
    manage = [sys.executable, str(settings.ROOT / "manage.py")]
    webs, workers = (
        [
            ManagedProcess(
                f"{kind}-{place}", [*manage, kind], environment | {"PORT": str(port)}, folder / f"{kind}-{place}.log"
            )
            for place, port in enumerate(ports, start=1)
        ]
        for kind in ("web", "worker")
    )
    return World(
        folder=folder,
        server=server,
        address=address,
        receiver=f"http://127.0.0.1:{hook}",
        environment=environment,
        ports=ports,
        webs=webs,
        workers=workers,
        agents=[],
        people=[],
    )


def _a_client(world: World, name: str, module: str, token: str, *words: str, seed: int) -> ManagedProcess:
    script = {"name": name, "ports": world.ports, "token": token, "folder": str(world.folder), "seed": seed}
    script |= {"receiver": int(world.receiver.rpartition(":")[2]), "stop_file": str(world.folder / "stop")}
    path = world.folder / f"{name}.json"
    path.write_text(json.dumps(script))
    command = [sys.executable, "-m", f"tests.nemesis.{module}", str(path), *words]
    return ManagedProcess(name, command, own_processes.environment_for(world.address), world.folder / f"{name}.log")
