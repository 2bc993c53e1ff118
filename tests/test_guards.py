"""The guards around every test: no network beyond this machine, no outbound call in a transaction."""

from __future__ import annotations

import socket

import httpx
import pytest
from django.contrib.auth.models import Permission
from django.contrib.contenttypes.models import ContentType
from django.db import transaction

from runs.models import Event, Policy, Queue
from tests import builders
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


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("turn", [1, 2])
def test_after_a_transactional_test_every_row_is_gone_but_those_of_migrations(turn: int):
    assert not Queue.objects.exists()
    assert not Event.objects.exists()
    assert Permission.objects.count() > ContentType.objects.count() > 50
    assert Policy.objects.exists()
    builders.a_waiting_interrupt()
    assert Event.objects.exists()
