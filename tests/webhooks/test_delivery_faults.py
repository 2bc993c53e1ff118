"""Every way a receiver can fail, tried on one: how often it is called, where the message ends, what is noted.

The table in docs/webhooks.md is what these tests found: they compare it line by line. Time passes by moving what is due.
"""

from __future__ import annotations

import re
import socket
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpcore
import pytest
from django.db import transaction

from reviewqueue.outbound import address_policy, http_client
from reviewqueue.webhooks import deliveries, sender
from reviewqueue.webhooks.models import Delivery, DeliveryAttempt, DeliveryStatus, WebhookEndpoint
from tests import builders
from tests.webhooks.webhook_builders import an_endpoint, make_everything_due, publish, send

pytestmark = pytest.mark.django_db

DOCS = Path(__file__).resolve().parents[2] / "docs" / "webhooks.md"
SHORT = 0.4

#: what the receiver does -> how the test makes it do that, and the time a call has
FAULTS = {
    "answers 200": ([200], 10),
    "answers 500 once, then 200": (["broken", 200], 10),
    "answers 500": (["broken"], 10),
    "answers 404": ([404], 10),
    "answers 400": ([400], 10),
    "answers 429, `Retry-After: 120`": (["busy"], 10),
    "answers 503, `Retry-After: 999999999`": (["busy_for_ever"], 10),
    "answers 302": (["elsewhere"], 10),
    "answers 410": ([410], 10),
    "says nothing (timeout)": (["silent"], SHORT),
    "resets the connection": (["reset"], 10),
    "answers 200 with 10 MB": (["large"], 10),
    "answers 500 with 10 MB": (["large_failure"], 10),
    "drips its head, byte by byte": (["dripping_head"], SHORT),
    "answers 200 and drips its body": (["dripping_body"], SHORT),
}


@pytest.fixture
def shorter_calls(monkeypatch):
    def shorten(seconds):
        monkeypatch.setattr(sender, "CALL_SECONDS", seconds)

    return shorten


def try_to_the_end() -> list[str]:
    """Deliver until the message has ended; return the delay before each attempt."""
    waits = []
    for _ in range(deliveries.MAX_ATTEMPTS + 1):
        send()
        delivery = Delivery.objects.get()
        if delivery.status != DeliveryStatus.DUE:
            return waits
        last = DeliveryAttempt.objects.latest("number")
        waits.append(delay_label(delivery.next_at - last.ended_at))
        make_everything_due()
    raise AssertionError("it does not end")


def delay_label(length: timedelta) -> str:
    seconds = round(length.total_seconds())
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= size and seconds % size == 0:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def row(fault: str, waits: list[str]) -> str:
    delivery, endpoint = Delivery.objects.get(), WebhookEndpoint.objects.get()
    end = delivery.status + (", endpoint disabled" if endpoint.disabled_at else "")
    noted = re.sub(r"within [0-9.]+ seconds", "within 10 seconds", delivery.trouble) or "-"
    return f"| {fault} | {delivery.attempt} | {waits[0] if waits else '-'} | {end} | {noted} |"


def compare(line: str) -> None:
    assert line in DOCS.read_text().splitlines(), f"docs/webhooks.md does not have the line\n{line}"


def a_message(url: str) -> None:
    an_endpoint(url, "run.started")
    builders.a_running_run()
    publish()


@pytest.mark.proves(10)
@pytest.mark.parametrize("fault", FAULTS)
def test_the_table_of_faults_is_what_happens(at_home, shorter_calls, fault):
    answers, seconds = FAULTS[fault]
    shorter_calls(seconds)
    at_home.will(*answers)
    a_message(at_home.url)
    waits = try_to_the_end()
    delivery = Delivery.objects.get()
    assert delivery.attempt == len(at_home.got) == DeliveryAttempt.objects.exclude(ended_at=None).count()
    assert len({got.headers["webhook-id"] for got in at_home.got}) == 1
    assert all(got.path == "/hooks" for got in at_home.got), "no redirect is followed"
    compare(row(fault, waits))


@pytest.mark.proves(10)
def test_a_refused_connection(shorter_calls):
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    a_message(f"http://127.0.0.1:{port}/hooks")
    compare(row("is not there (connection refused)", try_to_the_end()))


@pytest.mark.parametrize("address", ["169.254.169.254", "10.0.0.7"])
def test_a_name_that_leads_elsewhere_by_now(at_home, monkeypatch, address):
    """Judged at every call, and the judged address is the one that is connected to: rebinding finds nothing to bind."""
    port, leads_to = at_home.server_address[1], ["127.0.0.1"]
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, port, **_: [(2, 1, 6, "", (leads_to[0], port))])
    a_message(f"http://hooks.example.org:{port}/hooks")
    leads_to[0] = address
    waits = try_to_the_end()
    assert at_home.got == []
    compare(row(f"has a name that now resolves to {address}", waits))


def test_the_schedule_is_the_one_in_the_docs(at_home):
    at_home.will("broken")
    a_message(at_home.url)
    waits = try_to_the_end()
    schedule = f"the next attempt follows after {', '.join(waits[:-1])} and {waits[-1]}"
    assert schedule in " ".join(DOCS.read_text().split())


@pytest.mark.parametrize("fault", ["silent", "dripping_head", "dripping_body", "large_failure"])
def test_a_call_is_over_in_time_and_reads_little(at_home, shorter_calls, fault, monkeypatch):
    shorter_calls(SHORT)
    at_home.will(fault)
    a_message(at_home.url)
    began = time.monotonic()
    send()
    assert time.monotonic() - began < SHORT + 15, "the receiver keeps its silence for 20 seconds"
    assert len(DeliveryAttempt.objects.get().excerpt) <= sender.MAX_EXCERPT_LENGTH


def test_only_a_short_escaped_beginning_of_a_failure_is_kept(at_home):
    """C181: what a receiver says is no way to read what lies behind it."""
    at_home.will("broken")
    a_message(at_home.url)
    send()
    attempt = DeliveryAttempt.objects.get()
    assert attempt.excerpt == "<b>secret\\x00\\x1b[31m of the receiver</b>"
    assert "secret" not in Delivery.objects.get().trouble


@pytest.mark.proves(10)
@pytest.mark.parametrize("status", [301, 303, 307, 308])
def test_no_kind_of_redirect_is_followed(at_home, status):
    """C184"""
    at_home.will(status)
    a_message(at_home.url)
    send()
    assert [got.path for got in at_home.got] == ["/hooks"]
    assert "redirect" in Delivery.objects.get().trouble


def test_nothing_of_a_success_is_kept(at_home):
    at_home.will("large")
    a_message(at_home.url)
    send()
    assert DeliveryAttempt.objects.get().excerpt == ""


@pytest.mark.proves(10)
@pytest.mark.parametrize(
    ("told", "seconds"),
    [(b"120", 120), (b"0", 0), (b"999999999", 6 * 3600), (b"-5", None), (b"soon", None), (b"", None)],
)
def test_retry_after_is_honoured_within_six_hours(told, seconds):
    assert asked_wait(told) == (None if seconds is None else timedelta(seconds=seconds))


@pytest.mark.proves(10)
@pytest.mark.parametrize(
    ("told", "seconds"),
    [
        (b"Sun, 29 Nov 2026 12:02:00 GMT", 120),
        (b"Sun, 29 Nov 2026 11:00:00 GMT", 0),
        (b"Sun, 29 Nov 2099 11:00:00 GMT", 6 * 3600),
        (b"Sun, 99 Nov 2026 11:00:00 GMT", None),
    ],
)
def test_retry_after_may_be_a_date(told, seconds):
    assert asked_wait(told) == (None if seconds is None else timedelta(seconds=seconds))


def asked_wait(told: bytes):
    response = httpcore.Response(503, headers=[(b"Retry-After", told)])
    return sender._retry_after(response, now=datetime(2026, 11, 29, 12, tzinfo=UTC))


def test_a_call_in_a_transaction_is_refused(at_home):
    with pytest.raises(RuntimeError, match="An outbound call must not be made"):
        call_in_a_transaction(at_home.url)
    assert at_home.got == []


def call_in_a_transaction(url):
    called = http_client.open_call(
        method="POST", url=url, resolve=lambda: address_policy.check_webhook_url(url), headers=[], seconds=1
    )
    with transaction.atomic(), called:
        pass
