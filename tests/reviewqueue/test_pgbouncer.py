"""The product behind a real PgBouncer in transaction mode: pages, API, long polls and LISTEN by the direct URL."""

from __future__ import annotations

import contextlib
import http.cookiejar
import os
import re
import shutil
import subprocess
import tempfile
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from django.conf import settings

from reviewqueue.operations.doctor import configuration
from reviewqueue.operations.environment import databases
from tests import own_processes
from tests.running_server import SETUP_COMMANDS, RunningServer

PGBOUNCER = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin:/usr/local/sbin")
needs_pgbouncer = pytest.mark.skipif(PGBOUNCER is None, reason="no pgbouncer (Debian: apt install pgbouncer)")

ASK = {"reason": "approval.action", "title": "Order", "proposal": {"name": "order", "arguments": {"n": 1}}}


@contextlib.contextmanager
def pgbouncer(direct: str) -> Iterator[str]:
    """Run PgBouncer in transaction mode with few server connections, and yield the URL of the database through it."""
    parts = urllib.parse.urlsplit(direct)
    name, server = parts.path[1:], dict(urllib.parse.parse_qsl(parts.query))["host"]
    with tempfile.TemporaryDirectory(prefix="rq-pgb-") as folder:
        if os.geteuid() == 0:
            shutil.chown(folder, "nobody")  # PgBouncer steps down, as PostgreSQL does
        port = own_processes.free_port()
        users, ini = Path(folder) / "users.txt", Path(folder) / "pgbouncer.ini"
        users.write_text(f'"{parts.username}" ""\n')
        ini.write_text(
            f"[databases]\n{name} = host={server} dbname={name}\n"
            f"[pgbouncer]\nlisten_addr =\nlisten_port = {port}\nunix_socket_dir = {folder}\nauth_type = trust\n"
            f"auth_file = {users}\npool_mode = transaction\ndefault_pool_size = 3\nmax_client_conn = 200\n"
        )
        as_user = ["--user", "nobody"] if os.geteuid() == 0 else []
        with (Path(folder) / "log").open("wb") as log:
            running = subprocess.Popen([str(PGBOUNCER), *as_user, str(ini)], stdout=log, stderr=log)
            pooled = f"postgresql://{parts.username}@/{name}?host={folder}&port={port}"
            try:
                own_processes.eventually(lambda: answers(pooled), within=20, log=Path(folder) / "log")
                yield pooled
            finally:
                running.terminate()
                running.wait()


def answers(address: str) -> bool:
    with contextlib.suppress(psycopg.OperationalError):
        psycopg.connect(address).close()
        return True
    return False


@contextlib.contextmanager
def a_server_behind_pgbouncer(folder: Path) -> Iterator[tuple[RunningServer, str]]:
    """Start `web` behind PgBouncer; yields it with what the set-up commands printed, among it the password of a person."""
    direct = own_processes.make_migrated_database(folder)
    port = own_processes.free_port()
    base, log = f"http://127.0.0.1:{port}", folder / "web.log"
    with pgbouncer(direct) as pooled:
        environment = own_processes.environment_for(
            pooled, DATABASE_DIRECT_URL=direct, PORT=str(port), BASE_URL=base, WEB_PROCESSES="1"
        )
        with own_processes.started("web", environment=environment, log=log):
            printed = own_processes.run_commands(SETUP_COMMANDS, environment=environment)
            token, key, *_ = re.findall(r"rq_[0-9a-z]+_[A-Za-z0-9_-]{43}", printed)
            server = RunningServer(base, key, token, environment | {"DIRECT": direct})
            own_processes.eventually(lambda: serves(server), within=60, log=log)
            yield server, printed


def serves(server: RunningServer) -> bool:
    with contextlib.suppress(OSError):
        return bool(server.call("GET", "agents/me", key=server.key))
    return False


@needs_pgbouncer
@pytest.mark.slow
@pytest.mark.postgresql
def test_the_product_works_behind_a_pooler_in_transaction_mode(tmp_path: Path):
    with a_server_behind_pgbouncer(tmp_path) as (server, printed):
        waits = []
        for number in range(6):  # more transactions than server connections, from several threads
            asked = server.call("POST", "asks", ASK | {"key": f"k-{number}"}, key=server.key)["interrupt"]["id"]
            waits.append(asked)
        polled: list[tuple[str, float]] = []

        def poll() -> None:
            found = server.call("GET", f"interrupts/{waits[0]}?wait=20", key=server.key)
            polled.append((found["status"], time.monotonic()))

        thread = threading.Thread(target=poll)
        thread.start()
        own_processes.eventually(lambda: is_listening(server.environment["DIRECT"]), within=20)
        for interrupt in waits:
            body = {"state_version": 1, "verdict": "approve"}
            assert server.call("POST", f"interrupts/{interrupt}/decisions", body)["resume"] == "ready"
        thread.join(30)
        assert [status for status, _ in polled] == ["answered"]
        claimed = server.call("POST", "continuations/claim", {"max": 10}, key=server.key)
        assert len(claimed) == 6
        assert len(server.call("GET", "runs?limit=2", key=server.key)["runs"]) == 2
        password = re.search(r"Password, shown only once: (\S+)", printed)
        assert password is not None, printed
        for _ in range(10):
            assert signs_in(server.base, "ana@example.org", password[1]) == 200
        assert "Traceback" not in (tmp_path / "web.log").read_text()


def is_listening(direct: str) -> bool:
    found = own_processes.query(direct, "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'")
    return bool(found[0][0])


def signs_in(base: str, address: str, password: str) -> int:
    """Return the status of the inbox after a sign-in with a new session."""
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()))
    with opener.open(f"{base}/account/login/", timeout=60) as page:
        token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page.read().decode())
    assert token is not None
    fields = {"login": address, "password": password, "csrfmiddlewaretoken": token[1]}
    with opener.open(f"{base}/account/login/", urllib.parse.urlencode(fields).encode(), timeout=60) as page:
        assert page.url == f"{base}/"
        status: int = page.status
        return status


def test_a_pooled_connection_keeps_nothing_in_a_session():
    made = databases(
        "postgresql:///q?host=/b", direct="postgresql:///q?host=/d", replica="", process="web", pool_size=5
    )
    default, direct = made["default"], made["direct"]
    assert default["OPTIONS"]["prepare_threshold"] is None
    assert default["DISABLE_SERVER_SIDE_CURSORS"]
    assert "options" not in default["OPTIONS"]
    assert (direct["HOST"], "pool" in direct["OPTIONS"]) == ("/d", False)
    assert [it["OPTIONS"]["application_name"] for it in (default, direct)] == ["reviewqueue web", "reviewqueue command"]


@pytest.mark.django_db
def test_the_doctor_finds_a_role_without_the_timeout(monkeypatch: pytest.MonkeyPatch):
    if settings.DATABASES["default"]["ENGINE"].endswith("sqlite3"):
        pytest.skip("only PostgreSQL has roles")
    from django.db import connection

    monkeypatch.setitem(settings.DATABASES, "direct", {})
    assert not list(configuration._pooled_connection())  # the suite's own connection sets it at its start
    connection.cursor().execute("SET LOCAL idle_in_transaction_session_timeout = 0")
    [found] = configuration._pooled_connection()
    assert "ALTER ROLE" in found.message
