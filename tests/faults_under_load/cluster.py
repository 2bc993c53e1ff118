"""A primary PostgreSQL and a standby that follows it by streaming, from the same binaries and on this machine."""

from __future__ import annotations

import contextlib
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import psycopg

from tests import own_processes, postgresql

STANDBY = "standby"
#: How the primary confirms a commit: its settings by the name that the table shows.
MODES: dict[str, dict[str, str]] = {
    "asynchronous": {},
    "on": {"synchronous_standby_names": STANDBY, "synchronous_commit": "on"},
    "remote_apply": {"synchronous_standby_names": STANDBY, "synchronous_commit": "remote_apply"},
}


@dataclass(kw_only=True)
class Instance:
    """One PostgreSQL: `data` and the socket are in ``home``."""

    program: Path
    home: Path
    as_user: dict[str, object]
    process: subprocess.Popen[bytes] | None = None

    @property
    def server(self) -> postgresql.Server:
        return postgresql.Server(sockets=self.home, pid=self.process.pid if self.process else 0)

    def start(self) -> None:
        """Start it and wait until it accepts connections."""
        data = self.home / "data"
        self.process = postgresql.start(self.program, self.home, data, self.as_user, durable=True)
        postgresql.wait_until_ready(self.server, self.process, self.home / "log")

    def restart_at_once(self) -> None:
        """Restart like `pg_ctl restart -m immediate`."""
        assert self.process is not None
        self.process.send_signal(signal.SIGQUIT)
        self.process.wait()
        self.start()

    def kill(self) -> None:
        """Kill all its processes at once, as the loss of its machine does."""
        if self.process is None:
            return
        with contextlib.suppress(psutil.NoSuchProcess):
            main = psutil.Process(self.process.pid)
            for member in [main, *main.children(recursive=True)]:
                with contextlib.suppress(psutil.NoSuchProcess):
                    member.kill()
        self.process.wait()

    def runs(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def execute(self, *statements: str) -> list[tuple[Any, ...]]:
        """Execute statements, each in its own transaction, and return the rows of the last one."""
        rows: list[tuple[Any, ...]] = []
        with psycopg.connect(self.server.address(), autocommit=True) as connection:
            for statement in statements:
                cursor = connection.execute(statement)
                rows = cursor.fetchall() if cursor.description else []
        return rows


@dataclass(kw_only=True)
class Cluster:
    """``primary`` and ``standby`` are what they were at the start."""

    primary: Instance
    standby: Instance
    database: str = "faults"

    @property
    def address(self) -> str:
        """The URL of both hosts: its clients use the one that accepts writes."""
        return f"postgresql://postgres@/{self.database}?host={self.primary.home},{self.standby.home}"

    def cut_off_standby(self) -> None:
        """Stop the stream to the standby, as a broken network does."""
        self.standby.execute("ALTER SYSTEM SET primary_conninfo = ''", "SELECT pg_reload_conf()")

    def connect_standby(self) -> None:
        self.standby.execute("ALTER SYSTEM RESET primary_conninfo", "SELECT pg_reload_conf()")

    def promote_standby(self) -> None:
        self.standby.execute("SELECT pg_promote(true, 60)")


@contextlib.contextmanager
def started(mode: str) -> Iterator[Cluster]:
    """Run both, with a database for the product; ``mode``: one of ``MODES``."""
    home = Path(tempfile.mkdtemp(prefix="reviewqueue-cluster-"))
    home.chmod(0o755)
    with contextlib.ExitStack() as until_the_end:
        until_the_end.callback(shutil.rmtree, home, ignore_errors=True)
        program, as_user = postgresql.binaries(home), postgresql.step_down(home)
        instances = [Instance(program=program, home=home / name, as_user=as_user) for name in ("primary", STANDBY)]
        cluster = Cluster(primary=instances[0], standby=instances[1])
        for instance in instances:
            instance.home.mkdir()
            postgresql.step_down(instance.home)
            until_the_end.callback(instance.kill)
        postgresql.initialise(program, cluster.primary.home / "data", as_user)
        cluster.primary.start()
        cluster.primary.execute(f"CREATE DATABASE {cluster.database}")
        _copy(cluster)
        cluster.standby.start()
        _wait_for_stream(cluster)
        for name, value in MODES[mode].items():
            cluster.primary.execute(f"ALTER SYSTEM SET {name} = '{value}'")
        cluster.primary.execute("SELECT pg_reload_conf()")
        yield cluster


def _copy(cluster: Cluster) -> None:
    origin = f"host={cluster.primary.home} user=postgres application_name={STANDBY}"
    command = [str(cluster.primary.program / "pg_basebackup"), "--pgdata", str(cluster.standby.home / "data")]
    done = subprocess.run(  # type: ignore[call-overload]
        [*command, "--dbname", origin, "--checkpoint=fast", "--wal-method=stream", "--no-sync"],
        capture_output=True,
        text=True,
        cwd="/",
        **cluster.primary.as_user,
    )
    if done.returncode:
        raise postgresql.NoPostgreSQL(f"pg_basebackup failed:\n{done.stderr}")
    (cluster.standby.home / "data" / "standby.signal").touch()
    with (cluster.standby.home / "data" / "postgresql.conf").open("a") as settings:
        settings.write(f"\nprimary_conninfo = '{origin}'\nwal_retrieve_retry_interval = '200ms'\n")


def _wait_for_stream(cluster: Cluster) -> None:
    own_processes.eventually(
        lambda: cluster.primary.execute("SELECT 1 FROM pg_stat_replication WHERE state = 'streaming'"), within=30
    )
