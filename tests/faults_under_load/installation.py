"""Two web and two worker nodes behind nginx, on a primary with a standby: each is killed and started again by `faults`."""

from __future__ import annotations

import http.client
import re
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings

from tests import own_processes
from tests.deploy import nginx
from tests.faults_under_load import cluster
from tests.faults_under_load.load import Load
from tests.nemesis.world import ManagedProcess
from tests.running_server import SETUP_COMMANDS

SECONDS_TO_START = 150
IDLE = "2s"


@dataclass(kw_only=True)
class Installation:
    folder: Path
    cluster: cluster.Cluster
    environment: dict[str, str]
    webs: list[ManagedProcess]
    workers: list[ManagedProcess]
    proxy: ManagedProcess
    address: str
    key: str
    token: str

    def load(self) -> Load:
        return Load(address=self.address, key=self.key, token=self.token)

    def answers(self, node: ManagedProcess, path: str = "/healthz") -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", int(node.environment["PORT"]), timeout=5)
        with suppress(OSError):
            connection.request("GET", path)
            return connection.getresponse().status == 200
        return False

    def wait_for(self, *nodes: ManagedProcess) -> None:
        for node in nodes:
            own_processes.eventually(lambda node=node: self.answers(node), within=SECONDS_TO_START, log=node.log)


@contextmanager
def started(folder: Path, mode: str) -> Iterator[Installation]:
    """Start everything; ``mode``: how the primary confirms a commit."""
    with ExitStack() as until_the_end:
        servers = until_the_end.enter_context(cluster.started(mode))
        shared = own_processes.environment_for(
            servers.address, BASE_URL="http://127.0.0.1", WEB_PROCESSES="1", HIGH_WATER_FILE=str(folder / "mark.json")
        )
        printed = own_processes.run_commands(["migrate --verbosity 0", *SETUP_COMMANDS], environment=shared)
        token, key, *_ = re.findall(r"rq_[0-9a-z]+_[A-Za-z0-9_-]{43}", printed)
        manage = [sys.executable, str(settings.ROOT / "manage.py")]
        nodes = {
            kind: [
                ManagedProcess(
                    f"{kind}-{number}",
                    [*manage, kind],
                    shared | {"PORT": str(own_processes.free_port())},
                    folder / f"{kind}-{number}.log",
                )
                for number in (1, 2)
            ]
            for kind in ("web", "worker", "proxy")
        }
        proxy = nodes["proxy"][0]
        port = proxy.environment["PORT"]
        upstreams = [f"127.0.0.1:{node.environment['PORT']}" for node in nodes["web"]]
        proxy.command = nginx.command_of(folder, upstreams, port=int(port), idle=IDLE)
        if not proxy.command:
            raise SystemExit("nginx is not installed (Debian: nginx-light).")
        installation = Installation(
            folder=folder,
            cluster=servers,
            environment=shared,
            webs=nodes["web"],
            workers=nodes["worker"],
            proxy=proxy,
            address=f"127.0.0.1:{port}",
            key=key,
            token=token,
        )
        for process in (*installation.webs, *installation.workers, proxy):
            until_the_end.callback(process.kill)
            process.start()
        installation.wait_for(*installation.webs, proxy)
        own_processes.eventually(
            lambda: installation.answers(installation.webs[0], "/readyz"),
            within=SECONDS_TO_START,
            log=folder / "worker-1.log",
        )
        yield installation
