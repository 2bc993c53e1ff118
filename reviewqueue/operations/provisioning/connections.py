"""Connections of agents, for facts and probes."""

from __future__ import annotations

from django.db import transaction

from ledger.transactions import assert_no_transaction
from reviewqueue.operations import audit_log
from reviewqueue.operations.provisioning.names import SYSTEM, VARIABLE_NAME, ProvisioningError, check_name, find_agent
from reviewqueue.outbound.address_policy import AddressRefused, check_base_url
from reviewqueue.outbound.http_client import TOTAL_SECONDS, CallDeadline, OutOfTime
from runs.configuration_history import lock_head
from runs.models import Connection

MAX_URL_LENGTH = 500  # of a connection


def add_connection(name: str, *, agent: str, url: str, secret: str = "", actor: str = SYSTEM) -> Connection:
    """Add a connection for fetching an agent's facts. ``secret`` names an environment variable; the secret is not stored.

    The address is checked now and again at every call.
    """
    find_agent(agent)
    check_connection(name, url=url, secret=secret)
    return insert_connection(name, agent=agent, url=url, secret=secret, actor=actor)


def check_connection(name: str, *, url: str, secret: str) -> None:
    """Check what ``insert_connection`` stores. The host is resolved, which takes seconds: not in a transaction."""
    assert_no_transaction()
    check_name(name)
    if secret and not VARIABLE_NAME.fullmatch(secret):
        raise ProvisioningError(
            "The secret must be the name of an environment variable, in capitals, such as ERP_TOKEN."
        )
    if len(url) > MAX_URL_LENGTH:
        raise ProvisioningError(f"A connection's URL must have at most {MAX_URL_LENGTH} characters.")
    try:
        CallDeadline(TOTAL_SECONDS).within(lambda: check_base_url(url))
    except AddressRefused as refused:
        raise ProvisioningError(
            f"A connection's URL must be http(s)://host[:port][/path]; this one {refused}."
        ) from None
    except OutOfTime:
        raise ProvisioningError("The host of the connection's URL was not resolved in time.") from None


@transaction.atomic
def insert_connection(name: str, *, agent: str, url: str, secret: str, actor: str) -> Connection:
    """Store a connection that was checked by ``check_connection``."""
    lock_head()
    of = find_agent(agent)
    if Connection.objects.filter(agent=of, name=name).exists():
        raise ProvisioningError(f"Agent {agent} has a connection {name} already.")
    connection = Connection.objects.create(agent=of, name=name, base_url=url.rstrip("/"), secret=secret)
    audit_log.record(connection, actor=actor)
    return connection
