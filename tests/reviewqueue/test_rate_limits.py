"""Rate limits: of a key, a person and an address, by API and by page."""

from __future__ import annotations

import time

import pytest
from django.test import Client
from django.urls import reverse

from reviewqueue.operations.api_keys import create_agent_key, create_personal_token
from reviewqueue.serving import rate_limits
from reviewqueue.serving.client_address import client_network
from reviewqueue.serving.rate_limits import RateLimit
from tests import builders
from tests.api.calls import Caller, a_reviewer_client, a_worker

pytestmark = pytest.mark.django_db


def set_limit(monkeypatch: pytest.MonkeyPatch, name: str, per_minute: int) -> None:
    stopped = time.monotonic()
    monkeypatch.setattr(rate_limits, name, limit := RateLimit(per_minute=per_minute, now=lambda: stopped))
    monkeypatch.setattr(f"reviewqueue.api.authentication.{name}", limit, raising=False)


def test_a_bucket_holds_a_minutes_calls_and_fills_evenly():
    clock = [0.0]
    limit = RateLimit(per_minute=60, now=lambda: clock[0])
    assert [limit.take("a") for _ in range(60)] == [0] * 60
    assert limit.take("a") == 1
    assert limit.take("b") == 0
    clock[0] = 1
    assert (limit.take("a"), limit.take("a")) == (0, 1)
    clock[0] = 1000
    assert [limit.take("a") for _ in range(61)] == [0] * 60 + [1]


def test_a_slow_limit_says_how_long_to_wait():
    limit = RateLimit(per_minute=1, now=lambda: 5.0)
    assert (limit.take("a"), limit.take("a")) == (0, 60)


def test_no_limit_counts_nothing():
    limit = RateLimit(per_minute=0)
    assert [limit.take("a") for _ in range(1000)] == [0] * 1000
    assert not limit._buckets


def test_buckets_do_not_pile_up(monkeypatch):
    monkeypatch.setattr(rate_limits, "MAX_BUCKETS", 10)
    limit = RateLimit(per_minute=5, now=lambda: 0.0)
    for n in range(100):
        limit.take(f"address {n}")
    assert len(limit._buckets) == 10


def judge_refused(reply) -> None:
    assert (reply.status, reply["code"], reply.headers["Content-Type"]) == (
        429,
        "rate_limited",
        "application/problem+json",
    )
    assert 1 <= int(reply.headers["Retry-After"]) <= 60


def test_a_key_that_calls_too_often_is_refused_and_another_is_not(monkeypatch):
    set_limit(monkeypatch, "calls_of_key", 2)
    worker, ana = a_worker(), a_reviewer_client()
    another = Caller(create_agent_key(builders.an_agent()).text)
    assert [worker.get("agents/me").status for _ in range(2)] == [200, 200]
    judge_refused(worker.get("agents/me"))
    assert (another.get("agents/me").status, ana.get("interrupts").status) == (200, 200)


def test_a_person_has_one_limit_over_all_their_tokens(monkeypatch):
    set_limit(monkeypatch, "calls_of_key", 2)
    ana = builders.a_reviewer()
    one, two = (Caller(create_personal_token(ana).text) for _ in range(2))
    assert (one.get("interrupts").status, two.get("interrupts").status) == (200, 200)
    judge_refused(one.get("interrupts"))


def test_guessed_keys_are_refused_for_their_address_and_a_good_key_beside_them_is_not(monkeypatch):
    set_limit(monkeypatch, "failed_keys_of_address", 3)
    worker = a_worker()
    guesses = [Caller(f"rq_{'a' * 12}_{str(n) * 43}").get("agents/me") for n in range(4)]
    assert [it.status for it in guesses] == [401, 401, 401, 429]
    judge_refused(guesses[-1])
    assert worker.get("agents/me").status == 200
    elsewhere = Client(REMOTE_ADDR="198.51.100.7")
    assert elsewhere.get("/api/v1/agents/me").status_code == 401


def test_good_calls_never_count_as_guesses(monkeypatch):
    set_limit(monkeypatch, "failed_keys_of_address", 1)
    worker = a_worker()
    assert {worker.get("agents/me").status for _ in range(10)} == {200}
    assert Caller().get("agents/me").status == 401


def test_a_person_who_requests_too_many_pages_gets_retry_after(monkeypatch):
    set_limit(monkeypatch, "pages_of_person", 2)
    builders.a_queue()
    ana, ben = Client(), Client()
    ana.force_login(builders.a_reviewer("ana@example.org"))
    ben.force_login(builders.a_reviewer("ben@example.org"))
    assert [ana.get("/").status_code for _ in range(2)] == [200, 200]
    refused = ana.get("/")
    assert (refused.status_code, refused["Retry-After"]) == (429, "30")
    assert "Wait 30 seconds" in refused.text
    assert ben.get("/").status_code == 200
    assert ana.get("/healthz").status_code == 200


def test_an_address_without_a_sign_in_that_asks_for_too_many_pages_is_refused(monkeypatch):
    set_limit(monkeypatch, "pages_of_address", 2)
    page = reverse("account_login")
    assert [Client().get(page).status_code for _ in range(3)] == [200, 200, 429]
    assert Client(REMOTE_ADDR="198.51.100.7").get(page).status_code == 200
    signed_in = Client()
    signed_in.force_login(builders.a_reviewer())
    assert signed_in.get("/").status_code == 200


@pytest.mark.parametrize(
    ("trusted", "environ", "network"),
    [
        (0, {"REMOTE_ADDR": "192.0.2.1", "HTTP_X_FORWARDED_FOR": "198.51.100.1"}, "192.0.2.1"),
        (1, {"REMOTE_ADDR": "10.0.0.1", "HTTP_X_FORWARDED_FOR": "203.0.113.9, 198.51.100.1"}, "198.51.100.1"),
        (2, {"REMOTE_ADDR": "10.0.0.1", "HTTP_X_FORWARDED_FOR": "203.0.113.9, 198.51.100.1"}, "203.0.113.9"),
        (2, {"REMOTE_ADDR": "10.0.0.1", "HTTP_X_FORWARDED_FOR": "203.0.113.9"}, "10.0.0.1"),
        (0, {"REMOTE_ADDR": "2001:db8::1:2:3:4"}, "2001:db8::/64"),
        (0, {"REMOTE_ADDR": "::ffff:192.0.2.1"}, "192.0.2.1"),
        (0, {"REMOTE_ADDR": "unix:"}, "unix:"),
        (0, {}, ""),
    ],
)
def test_the_address_is_the_connections_or_what_trusted_proxies_say(settings, trusted, environ, network):
    settings.TRUSTED_PROXY_COUNT = trusted
    assert client_network(environ) == network


def test_the_defaults_are_those_of_the_page_of_settings(settings):
    page = (settings.ROOT / "docs/settings.md").read_text()
    defaults = {
        "API_CALLS_PER_MINUTE": "12000",
        "FAILED_KEYS_PER_MINUTE": "60",
        "PAGES_PER_MINUTE": "1200",
        "SIGNED_OUT_PAGES_PER_MINUTE": "600",
        "REQUEST_BODY_SECONDS": "30",
        "REQUEST_BODY_RATE": "1024",
        "REQUEST_HEADER_SECONDS": "30",
        "LONG_POLLS": "32",
        "WEB_THREADS": "12",
    }
    source = (settings.ROOT / "reviewqueue/settings.py").read_text().replace("12_000", "12000")
    for name, default in defaults.items():
        assert f"| `{name}` | {default} |" in page
        assert f'environment.number("{name}", {default}' in source
