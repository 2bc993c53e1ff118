"""Looking an unknown outcome up, by key, over the network: found, not found, and every fault that settles nothing."""

from __future__ import annotations

from decimal import Decimal

import pytest
from django.db import transaction

from ledger.probes import ProbeResult
from reviewqueue.outbound import http_client
from reviewqueue.outbound.http_client import run_probe
from runs.models import Connection
from runs.use_cases.reconcile_probes import Probe
from tests.outbound.hostile_server import hostile_server

LIMIT = 1.0


@pytest.fixture(scope="module")
def server():
    with hostile_server() as server:
        yield server


@pytest.fixture(autouse=True)
def a_shorter_clock(monkeypatch):
    monkeypatch.setattr(http_client, "TOTAL_SECONDS", LIMIT)


def look(server, path: str, *, key: str = "order:PR-1", pointer: str = "/spec/version", base: str = "") -> ProbeResult:
    connection = Connection(name="erp", base_url=base or server.address, secret="")
    return run_probe(Probe(effect_pk=1, token="t", key=key, connection=connection, path=path, pointer=pointer))


def test_the_value_comes_home_with_the_whole_reply(server):
    looked = look(server, "/good")
    assert (looked.trouble, looked.not_found, looked.value) == ("", False, 7)
    assert looked.reply == {"spec": {"version": 7}, "price": Decimal("184000.00"), "nothing": None}


def test_the_key_goes_along_in_the_path_and_in_a_header(server):
    server.asked.clear()
    look(server, "/good?key={key}")
    [(path, headers)] = server.asked
    assert (path, headers["Idempotency-Key"]) == ("/good?key=order:PR-1", "order:PR-1")


def test_not_found_is_what_the_receiver_says_in_json(server):
    assert look(server, "/gone").not_found
    page = look(server, "/gone-page")
    assert (page.not_found, page.trouble) == (False, "The reply has the status 404.")


@pytest.mark.parametrize(
    "path",
    [
        *("/broken", "/made", "/elsewhere", "/page", "/text", "/nan", "/doubled", "/deep", "/empty", "/large"),
        *("/endless", "/bomb", "/silent", "/drip", "/drip-headers", "/cut", "/garbage", "/nothing"),
    ],
)
def test_a_fault_is_reported_and_is_no_outcome(server, path):
    looked = look(server, path)
    assert looked.trouble
    assert (looked.not_found, looked.value, looked.reply) == (False, None, None)


def test_a_key_does_not_lead_away_from_the_connection(server):
    server.asked.clear()
    assert "must stay below" in look(server, "/orders/{key}", key="..").trouble
    assert server.asked == []


def test_nothing_is_looked_up_at_an_address_that_is_not_public(server, settings):
    settings.OUTBOUND_ALLOW = []
    assert "not public" in look(server, "/good").trouble


def test_nothing_is_looked_up_inside_a_transaction(server, db):
    with transaction.atomic(), pytest.raises(Exception, match="transaction"):
        look(server, "/good")
