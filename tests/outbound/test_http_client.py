"""The outbound HTTP client: what a call returns, and that every fault is reported in a sentence and in bounded time."""

from __future__ import annotations

import socket
import time
from decimal import Decimal

import pytest
from django.db import transaction

from ledger.exact_json import dumps
from reviewqueue.outbound import http_client
from reviewqueue.outbound.http_client import fetch_fact
from runs.models import Connection
from runs.use_cases.reconcile_facts import FactToFetch
from tests.outbound.hostile_server import hostile_server

LIMIT = 1.0


@pytest.fixture(scope="module")
def server():
    with hostile_server() as server:
        yield server


@pytest.fixture(autouse=True)
def a_shorter_clock(monkeypatch):
    monkeypatch.setattr(http_client, "TOTAL_SECONDS", LIMIT)


def ask(base_url, path, pointer="/spec/version", secret=""):
    connection = Connection(name="erp", base_url=base_url, secret=secret)
    return fetch_fact(FactToFetch(fact_id=1, connection=connection, path=path, pointer=pointer))


@pytest.mark.parametrize(
    ("path", "pointer", "text"),
    [
        ("/good", "/spec/version", "7"),
        ("/good?full=1", "/price", "184000.00"),
        ("/good", "/nothing", "null"),
        ("/problem-json", "", "7"),
    ],
)
def test_the_value_comes_home_exactly(server, path, pointer, text):
    found = ask(server.address, path, pointer)
    assert (found.trouble, dumps(found.value)) == ("", text)


def test_a_number_with_a_point_stays_a_decimal(server):
    assert ask(server.address, "/good", "/price").value == Decimal("184000.00")


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/gone", "status 404"),
        ("/broken", "status 500"),
        ("/made", "status 201"),
        ("/elsewhere", "redirect"),
        ("/page", "content type of the reply is not JSON"),
        ("/text", "not JSON"),
        ("/nan", "not JSON"),
        ("/doubled", "not JSON"),
        ("/deep", "not JSON"),
        ("/empty", "not JSON"),
        ("/large", "longer than 64 KiB"),
        ("/endless", "longer than 64 KiB"),
        ("/bomb", "compressed"),
        ("/silent", "No complete reply"),
        ("/drip", "No complete reply"),
        ("/drip-headers", "No complete reply"),
        ("/many-headers", "was not HTTP"),
        ("/cut", "connection failed"),
        ("/garbage", "was not HTTP"),
        ("/nothing", "connection failed"),
    ],
)
def test_a_fault_is_reported_in_a_sentence_and_in_time(server, path, text):
    began = time.monotonic()
    found = ask(server.address, path)
    assert text in found.trouble
    assert found.value is None
    assert time.monotonic() - began < LIMIT + 15, "the server keeps its silence for 20 seconds"


def test_a_pointer_to_nothing_is_trouble(server):
    assert "pointer" in ask(server.address, "/good", "/spec/date").trouble


def test_nobody_at_the_address_is_trouble():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    assert "No server answers" in ask(f"http://127.0.0.1:{port}", "/good").trouble


def test_a_redirect_is_not_followed(server):
    before = len(server.asked)
    ask(server.address, "/elsewhere")
    assert [path for path, _ in server.asked[before:]] == ["/elsewhere"]


def test_the_secret_comes_from_the_environment(server, monkeypatch):
    monkeypatch.setenv("ERP_TOKEN", "s3cret")
    ask(server.address, "/good", secret="ERP_TOKEN")
    headers = server.asked[-1][1]
    assert headers["Authorization"] == "Bearer s3cret"
    assert headers["Accept-Encoding"] == "identity"


def test_without_the_secret_nothing_is_asked(server, monkeypatch):
    monkeypatch.delenv("ERP_TOKEN", raising=False)
    before = len(server.asked)
    assert "ERP_TOKEN is not set" in ask(server.address, "/good", secret="ERP_TOKEN").trouble
    assert len(server.asked) == before


def test_a_proxy_of_the_environment_is_not_used(server, monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert ask(server.address, "/good").value == 7


def test_a_private_address_is_refused_at_the_call(server, settings):
    settings.OUTBOUND_ALLOW = []
    before = len(server.asked)
    assert "not public" in ask(server.address, "/good").trouble
    assert len(server.asked) == before


def test_the_path_of_a_fact_cannot_leave_its_base(server):
    before = len(server.asked)
    assert "must stay below" in ask(f"{server.address}/api", "/../good").trouble
    assert len(server.asked) == before


def test_a_name_that_changes_its_address_is_still_called_at_the_judged_one(server, monkeypatch):
    """Rebinding: the first look-up is public or listed, the second would lead inside. There is no second."""
    looked_up = []

    def answer(host, port, *_, **__):
        looked_up.append(host)
        address = host if host == "127.0.0.1" else ("127.0.0.1" if len(looked_up) == 1 else "10.0.0.1")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    monkeypatch.setattr(http_client.addresses.socket, "getaddrinfo", answer)
    port = server.server_address[1]
    assert ask(f"http://erp.example.org:{port}", "/good").value == 7
    assert looked_up.count("erp.example.org") == 1
    assert server.asked[-1][1]["Host"] == f"erp.example.org:{port}"


def test_a_resolver_that_hangs_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(http_client.addresses.socket, "getaddrinfo", lambda *_, **__: time.sleep(LIMIT + 0.5))
    assert "No complete reply" in ask("http://erp.example.org", "/good").trouble


def test_a_bug_of_ours_is_trouble_too(monkeypatch):
    monkeypatch.setattr(http_client, "_secret", lambda _: 1 / 0)
    assert ask("http://127.0.0.1", "/good").trouble == "The call failed (ZeroDivisionError)."


@pytest.mark.django_db(transaction=True)
def test_no_call_goes_out_inside_a_transaction(server):
    with transaction.atomic(), pytest.raises(RuntimeError, match="transaction"):
        ask(server.address, "/good")
