"""Liveness without a database; readiness only with a database, migrations and a recent heartbeat."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from django.db import OperationalError
from django.test import Client

from ledger import clock
from reviewqueue.models import Heartbeat
from reviewqueue.operations import health
from reviewqueue.serving.shutdown import SHUTDOWN_MARKER


def a_heartbeat(ago: timedelta = timedelta(seconds=1), worker: str = "one:1") -> None:
    Heartbeat.objects.create(worker=worker, beaten_at=clock.now() - ago)


def failing_checks(client: Client) -> list[str]:
    response = client.get("/readyz")
    told = response.json()
    assert (response.status_code, told["ready"]) == ((503, False) if told["wrong"] else (200, True))
    return [entry["check"] for entry in told["wrong"]]


def test_a_process_lives_though_its_database_is_away(client: Client):
    """Outside the database fixture every statement raises."""
    response = client.get("/healthz")
    assert (response.status_code, response.text) == (200, "ok\n")
    assert response["Cache-Control"] == "no-store"


def test_a_probe_is_not_sent_to_https(client: Client, settings):
    settings.SECURE_SSL_REDIRECT = True
    assert client.get("/healthz").status_code == 200


@pytest.mark.django_db
def test_ready_takes_database_migrations_and_a_worker(client: Client):
    a_heartbeat()
    assert failing_checks(client) == []


@pytest.mark.django_db
def test_without_a_worker_nothing_is_ready(client: Client):
    assert failing_checks(client) == ["worker"]


@pytest.mark.django_db
def test_the_latest_beat_of_any_worker_counts(client: Client):
    a_heartbeat(health.MAX_HEARTBEAT_AGE + timedelta(seconds=5))
    assert failing_checks(client) == ["worker"]
    a_heartbeat(worker="two:2")
    assert failing_checks(client) == []


@pytest.mark.django_db
def test_a_database_that_is_away_is_named_without_its_address(client: Client, monkeypatch: pytest.MonkeyPatch):
    def away() -> None:
        raise OperationalError("could not connect to 10.1.2.3")

    monkeypatch.setattr(health.clock, "now", away)
    monkeypatch.setattr(health.connection, "close", lambda: None)
    assert failing_checks(client) == ["database"]
    assert "10.1.2.3" not in client.get("/readyz").text


@pytest.mark.django_db
def test_missing_migrations_are_reported_first(client: Client, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(health, "is_migrated", lambda: False)
    assert failing_checks(client) == ["migrations"]


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
def test_probes_only_read(client: Client, path: str):
    assert client.post(path).status_code in {404, 405}
    assert client.delete(path).status_code in {404, 405}


@pytest.mark.django_db
def test_a_full_disk_is_not_ready(client: Client, monkeypatch: pytest.MonkeyPatch):
    a_heartbeat()
    monkeypatch.setattr(health, "MIN_FREE_BYTES", 10**30)
    assert failing_checks(client) == ["disk"]


@pytest.mark.django_db
def test_a_process_that_is_about_to_stop_is_not_ready(client: Client, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    a_heartbeat()
    monkeypatch.setenv(SHUTDOWN_MARKER, str(tmp_path / "stopping"))
    assert failing_checks(client) == []
    (tmp_path / "stopping").touch()
    assert failing_checks(client) == ["shutdown"]
    assert client.get("/healthz").status_code == 200
