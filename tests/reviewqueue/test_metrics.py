"""Metrics for Prometheus: who can read them, and that they match the database."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest
from django.db import OperationalError, connection
from django.test import Client
from django_q.models import OrmQ
from prometheus_client.parser import text_string_to_metric_families

from ledger import clock
from ledger.models import Effect
from reviewqueue.models import Delivery, Heartbeat, RollupCell
from reviewqueue.operations import metrics
from reviewqueue.queries.dead_letters import dismiss_signal
from reviewqueue.rollups import cells
from reviewqueue.rollups.counting import count_rollups
from runs.errors import AlreadyDecided
from runs.models import Continuation, Interrupt
from tests import builders
from tests.ledger.effect_builders import an_effect
from tests.pages.test_dead_letters import a_dead_signal
from tests.webhooks.webhook_builders import an_endpoint, publish

pytestmark = pytest.mark.django_db

STRANGER = "192.0.2.7"
TOKEN = "a-token-for-the-metrics"


def read(client: Client, **named: str) -> dict[tuple[str, ...], float]:
    """Samples by their name and the values of their labels, in the alphabetical order of the labels."""
    response = client.get("/metrics", **named)
    assert response.status_code == 200
    return {
        (sample.name.removeprefix("reviewqueue_"), *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(response.text)
        for sample in family.samples
    }


@pytest.mark.parametrize(
    "named",
    [
        {"REMOTE_ADDR": STRANGER},
        {"REMOTE_ADDR": ""},
        {"REMOTE_ADDR": "127.0.0.1", "HTTP_X_FORWARDED_FOR": STRANGER},
        {"REMOTE_ADDR": "127.0.0.1", "HTTP_FORWARDED": f"for={STRANGER}"},
        {"REMOTE_ADDR": STRANGER, "HTTP_AUTHORIZATION": "Bearer "},
        {"REMOTE_ADDR": STRANGER, "HTTP_AUTHORIZATION": "Bearer x"},
    ],
)
def test_without_a_token_in_the_settings_strangers_find_nothing(client: Client, named: dict[str, str]):
    assert client.get("/metrics", **named).status_code == 404


def test_a_program_on_this_machine_reads_them_until_a_proxy_is_declared(client: Client, settings):
    assert client.get("/metrics", REMOTE_ADDR="127.0.0.1").status_code == 200
    assert client.get("/metrics", REMOTE_ADDR="::1").status_code == 200
    settings.TRUSTED_PROXY_COUNT = 1
    assert client.get("/metrics", REMOTE_ADDR="127.0.0.1").status_code == 404


def test_the_token_opens_them_from_anywhere_and_no_other_does(client: Client, settings):
    settings.METRICS_TOKEN = TOKEN
    assert client.get("/metrics", REMOTE_ADDR=STRANGER, HTTP_AUTHORIZATION=f"Bearer {TOKEN}").status_code == 200
    for said in ("", f"Basic {TOKEN}", "Bearer", f"Bearer {TOKEN}x", "Bearer ü"):
        refused = client.get("/metrics", REMOTE_ADDR=STRANGER, HTTP_AUTHORIZATION=said)
        assert (refused.status_code, refused["WWW-Authenticate"]) == (401, "Bearer")


def test_a_session_is_no_key_to_them(client: Client):
    client.force_login(builders.a_person())
    assert client.get("/metrics", REMOTE_ADDR=STRANGER).status_code == 404


def test_every_figure_is_what_the_database_says(client: Client):
    ana, ben = builders.a_reviewer(), builders.a_reviewer("ben@example.org")
    decided = builders.a_waiting_interrupt()
    builders.decide(decided, ana)
    with pytest.raises(AlreadyDecided):
        builders.decide(decided, ben, "reject")
    waiting = builders.a_waiting_interrupt()
    builders.move_deadline(waiting, clock.now() - timedelta(seconds=1))
    an_effect("unknown")
    Continuation.objects.update(effects_skipped=3)
    Heartbeat.objects.create(worker="one:1", beaten_at=clock.now() - timedelta(seconds=7))
    OrmQ.objects.all().delete()
    OrmQ.objects.create(key="reviewqueue", payload="x", lock=clock.now() - timedelta(seconds=30))
    OrmQ.objects.create(key="reviewqueue", payload="y", lock=clock.now() + timedelta(seconds=300))

    found = read(client)

    assert found["waits_open", "engineering"] == 1
    assert 0 < found["wait_oldest_age_seconds", "engineering"] < 60
    assert found["waits_overdue",] == 1
    assert found["waits_closed_total", "answered"] == 1
    assert found["decisions_total", "", "accepted"] == 1
    assert found["decisions_total", "already_decided", "duplicate"] == 1
    assert (found["runs_live", "waiting"], found["runs_live", "ready"]) == (1, 1)
    assert found["continuations_open", "ready"] == 1
    assert 0 < found["continuation_ready_oldest_age_seconds",] < 60
    assert found["effects_unknown",] == Effect.objects.count() == 1
    assert found["effects_skipped_total",] == 3
    assert 7 <= found["worker_silence_seconds",] < 60
    assert 0 < found["unannounced_oldest_age_seconds",] < 60
    assert found["tasks_queued",] == 2
    assert 30 <= found["task_lag_seconds",] < 90


def test_messages_on_their_way_and_dead_letters_are_counted(client: Client):
    an_endpoint("http://127.0.0.1:8009/hooks", "run.started")
    for _ in range(3):
        builders.a_running_run()
    publish()
    Delivery.objects.filter(pk=Delivery.objects.earliest("pk").pk).update(status="dead", next_at=None)
    found = read(client)
    assert (found["deliveries", "due"], found["deliveries", "dead"]) == (2, 1)
    assert found["unannounced_oldest_age_seconds",] == 0


def test_dead_signals_are_counted_until_they_are_dismissed(client: Client):
    first, _ = a_dead_signal("evt-1"), a_dead_signal("evt-2")
    assert read(client)["signals_dead",] == 2
    dismiss_signal(builders.a_person("own@example.org", "agent-owners"), first.public_id, reason="sent twice")
    assert read(client)["signals_dead",] == 1


def test_an_empty_database_has_figures_too(client: Client):
    found = read(client)
    assert found["waits_overdue",] == found["effects_skipped_total",] == found["task_lag_seconds",] == 0
    assert ("worker_silence_seconds",) not in found


def test_while_the_database_is_away_a_scrape_answers_with_the_values_of_the_node(client: Client, monkeypatch):
    def away() -> None:
        raise OperationalError("connection refused")

    monkeypatch.setattr(metrics.clock, "now", away)
    monkeypatch.setattr(metrics.connection, "close", lambda: None)
    errors = read(client)["database_errors_total",]
    found = read(client)
    assert (found["database_up",], found["database_errors_total",]) == (0, errors + 1)
    assert found["disk_free_bytes", "files"] > 0
    assert ("waits_overdue",) not in found


def test_a_scrape_costs_a_bounded_number_of_statements(client: Client, django_assert_max_num_queries):
    for number in range(3):
        waiting = builders.a_waiting_interrupt()
        Interrupt.objects.filter(pk=waiting.pk).update(queue=builders.a_queue(f"queue-{number}"))
    clock_statement = connection.vendor == "postgresql"  # SQLite's clock is the process's
    with django_assert_max_num_queries(25 + clock_statement):  # no worker has counted
        assert read(client)["waits_open", "queue-2"] == 1
    count_rollups(seconds=60)
    with django_assert_max_num_queries(15 + clock_statement):
        assert read(client)["waits_open", "queue-2"] == 1


def test_a_number_without_a_time_makes_no_error(client: Client):
    """As if a worker replaced the cells between the two reads of a scrape."""
    builders.a_waiting_interrupt()
    count_rollups(seconds=60)
    RollupCell.objects.filter(measure=cells.OLDEST).delete()
    found = read(client)
    assert (found["waits_open", "engineering"], found["wait_oldest_age_seconds", "engineering"]) == (1, 0)


def test_workers_and_the_age_of_the_counts_are_shown(client: Client):
    for seconds in (1, 7, 3600):
        Heartbeat.objects.create(worker=f"one:{seconds}", beaten_at=clock.now() - timedelta(seconds=seconds))
    assert ("counts_age_seconds",) not in read(client)
    count_rollups(seconds=60)
    found = read(client)
    assert found["workers",] == 2
    assert 0 <= found["counts_age_seconds",] < 60


def test_no_person_and_no_request_is_named(client: Client):
    ana = builders.a_reviewer()
    interrupt = builders.a_waiting_interrupt()
    builders.decide(interrupt, ana)
    said = client.get("/metrics").text
    for secret in ("ana", "example.org", interrupt.public_id, interrupt.run.public_id, interrupt.title, "S-17"):
        assert secret not in said


def test_unclaimed_runs_of_many_code_versions_share_a_series():
    many = Counter({f"v{number}": number for number in range(1, 9)})
    shown = [(f"v{number}", number) for number in range(4, 9)]
    assert metrics._largest(many, "(other)") == [("(other)", 6), *shown]
    assert metrics._largest(Counter({"": 2, "v1": 1}), "(other)") == [("", 2), ("v1", 1)]
