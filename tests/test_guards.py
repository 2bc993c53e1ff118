"""The guards around every test: no network beyond this machine, no outbound call in a transaction."""

from __future__ import annotations

import socket

import httpx
import pytest
from django.db import transaction

from tests.conftest import OutsideNetwork


def test_a_test_that_reaches_beyond_this_machine_fails():
    with pytest.raises(OutsideNetwork):
        socket.create_connection(("203.0.113.7", 80), timeout=1)
    with pytest.raises(OutsideNetwork):
        httpx.get("https://example.org/", trust_env=False)


@pytest.mark.django_db(transaction=True)
def test_an_outbound_call_inside_a_transaction_fails():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = listening.getsockname()
        socket.create_connection(address).close()
        refused = pytest.raises(RuntimeError, match="An outbound call must not be made inside a transaction")
        with transaction.atomic(), refused, socket.socket() as caller:
            caller.connect(address)


@pytest.mark.django_db
def test_the_transaction_that_wraps_a_test_does_not_count():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        socket.create_connection(listening.getsockname()).close()
