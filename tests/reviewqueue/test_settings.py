"""Settings: what the environment may say, how each database is set, and that the docs name every one of them."""

from __future__ import annotations

import ast
import re
import stat
from pathlib import Path

import pytest
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from reviewqueue.operations import environment
from tests.own_processes import environment_for, run_command

READERS = {
    "text",
    "number",
    "boolean",
    "comma_separated",
    "network_blocks",
    "choice",
    "some_of",
    "web_address",
    "group_roles",
    "sentry_handler",
    "cache_server",
    "file_storage",
}


def database(address: str, *, process: str = "command"):
    return environment.database(address, process=process, pool_size=7)


def test_sqlite_takes_its_write_lock_at_once_and_keeps_every_commit():
    made = database("sqlite:///var/x.sqlite3")
    assert made["NAME"] == "var/x.sqlite3"
    assert made["OPTIONS"]["transaction_mode"] == "IMMEDIATE"
    assert made["OPTIONS"]["init_command"] == "PRAGMA journal_mode=WAL;PRAGMA synchronous=FULL;"
    assert database("sqlite:////srv/with%20blank.sqlite3")["NAME"] == "/srv/with blank.sqlite3"


def test_the_first_start_makes_the_folder_of_its_own_database(tmp_path: Path):
    address = environment.default_database(tmp_path / "var", "reviewqueue.sqlite3")
    assert environment.database(address, process="command", pool_size=1)["NAME"] == str(
        tmp_path / "var/reviewqueue.sqlite3"
    )
    assert (tmp_path / "var").is_dir()
    assert environment.default_database(tmp_path / "var", "reviewqueue.sqlite3") == address


def test_postgresql_is_reached_by_host_or_by_socket():
    by_host = database("postgresql://ana:p%40ss@db.example.org:5433/queue?sslmode=require")
    named = ("USER", "PASSWORD", "HOST", "PORT", "NAME")
    assert [by_host[name] for name in named] == ["ana", "p@ss", "db.example.org", "5433", "queue"]
    assert by_host["OPTIONS"]["sslmode"] == "require"
    by_socket = database("postgresql://ana@/queue?host=/run/postgresql")
    assert [by_socket[name] for name in named] == ["ana", "", "/run/postgresql", "", "queue"]
    assert "host" not in by_socket["OPTIONS"]


def test_a_url_of_several_hosts_leads_to_the_one_that_accepts_writes():
    made = database("postgresql://ana:p%40ss@db-1.example.org,db-2.example.org:5433/queue")
    assert [made[name] for name in ("HOST", "PORT", "USER", "PASSWORD", "NAME")] == [
        "db-1.example.org,db-2.example.org",
        ",5433",
        "ana",
        "p@ss",
        "queue",
    ]
    chosen = ("target_session_attrs", "connect_timeout", "tcp_user_timeout")
    assert [made["OPTIONS"][name] for name in chosen] == ["read-write", "3", "10000"]
    own = database("postgresql:///queue?host=/run/a,/run/b&target_session_attrs=any&connect_timeout=9")
    assert own["HOST"] == "/run/a,/run/b"
    assert [own["OPTIONS"][name] for name in chosen] == ["any", "9", "10000"]
    assert not any(name in database("postgresql://db/queue")["OPTIONS"] for name in chosen)


@pytest.mark.parametrize(
    ("address", "said"),
    [("postgresql://ana@db/queue?sslmod=require", "sslmod"), ("postgresql://ana:s3cret%zz@db/queue", "cannot be read")],
)
def test_a_url_that_cannot_be_read_is_refused_without_its_password(address: str, said: str):
    with pytest.raises(ImproperlyConfigured, match=said) as refused:
        database(address)
    assert "s3cret" not in str(refused.value)


def test_the_web_process_has_a_pool_and_the_worker_keeps_its_connections():
    web = database("postgresql:///queue", process="web")
    worker = database("postgresql:///queue", process="worker")
    assert web["OPTIONS"]["pool"]["max_size"] == 7
    assert "CONN_MAX_AGE" not in web
    assert "pool" not in worker["OPTIONS"]
    assert (worker["CONN_MAX_AGE"], worker["CONN_HEALTH_CHECKS"]) == (600, True)
    assert all(made["OPTIONS"]["prepare_threshold"] == 0 for made in (web, worker))
    assert all("plan_cache_mode=force_generic_plan" in made["OPTIONS"]["options"] for made in (web, worker))
    assert all("idle_in_transaction_session_timeout=30s" in made["OPTIONS"]["options"] for made in (web, worker))


@pytest.mark.parametrize("address", ["mysql://x/y", "queue.sqlite3", "sqlite:///"])
def test_an_address_of_no_known_database_is_refused(address: str):
    with pytest.raises(ImproperlyConfigured, match="DATABASE_URL"):
        database(address)


def test_production_does_not_start_without_a_secret_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.delenv("SECRET_KEY", raising=False)
    with pytest.raises(ImproperlyConfigured, match="SECRET_KEY is not set"):
        environment.secret_key(mode="production", var=tmp_path)
    assert not list(tmp_path.iterdir())


def test_the_demo_makes_one_key_and_keeps_it_to_itself(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.delenv("SECRET_KEY", raising=False)
    first = environment.secret_key(mode="demo", var=tmp_path)
    assert environment.secret_key(mode="demo", var=tmp_path) == first
    assert len(first) >= 50
    (kept,) = tmp_path.iterdir()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("name", "given", "read"),
    [
        ("PORT", "80a", lambda: environment.number("PORT", 8000)),
        ("EMAIL_USE_TLS", "perhaps", lambda: environment.boolean("EMAIL_USE_TLS")),
        ("REVIEWQUEUE_MODE", "debug", lambda: environment.choice("REVIEWQUEUE_MODE", environment.MODES, "test")),
        ("SENTRY_DSN", "sentry.example.org/1", lambda: environment.sentry_handler("SENTRY_DSN")),
        ("FILES_URL", "https://bucket.example.org", lambda: environment.file_storage("FILES_URL")),
        ("FILES_URL", "s3://bucket?secret_key=x", lambda: environment.file_storage("FILES_URL")),
        ("CACHE_URL", "cache.example.org:6379", lambda: environment.cache_server("CACHE_URL")),
        ("BASE_URL", "review.example.org", lambda: environment.base_url("http://localhost")),
        ("BASE_URL", "https://example.org/review", lambda: environment.base_url("http://localhost")),
    ],
)
def test_what_cannot_be_read_is_refused_by_name(monkeypatch: pytest.MonkeyPatch, name: str, given: str, read):
    monkeypatch.setenv(name, given)
    with pytest.raises(ImproperlyConfigured, match=name):
        read()


def test_the_deployment_check_is_content_with_production_settings():
    production = environment_for("postgresql://ana@/queue?host=/run/postgresql", BASE_URL="https://review.example.org")
    run_command("check", "--deploy", "--fail-level", "WARNING", environment=production)


def test_a_missing_secret_key_is_reported_in_one_sentence():
    without = environment_for("sqlite:///var/x.sqlite3")
    del without["SECRET_KEY"]
    with pytest.raises(AssertionError) as told:
        run_command("check", environment=without)
    assert "SECRET_KEY is not set" in str(told.value)
    assert "Traceback" not in str(told.value)


def names_read() -> set[str]:
    """Names that `settings` and `environment` ask the environment for, read from their source."""
    names = set()
    for module in ("settings.py", "operations/environment.py"):
        for call in ast.walk(ast.parse((settings.ROOT / "reviewqueue" / module).read_text())):
            if not (isinstance(call, ast.Call) and call.args and isinstance(call.args[0], ast.Constant)):
                continue
            called = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
            if called in READERS:
                names.add(call.args[0].value)
    return names


def test_the_docs_name_every_setting_and_no_other():
    table = (settings.ROOT / "docs" / "settings.md").read_text()
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    documented = {name for row in rows for name in re.findall(r"`([A-Z_]+)`", row)}
    assert documented - {"REVIEWQUEUE_ENVIRONMENT"} == names_read()  # read by manage.py, before any setting
