"""Webhook endpoints: register, list, delete, rotate the signing secret.

A URL is checked here and again at every call. A secret is shown once, in the response that created it. After a rotation the
old secret signs beside the new one for a day, so that receivers can change over and a lost response does no harm.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import urlsplit

from django.db.models import Q, QuerySet

from ledger import clock
from ledger.actors import agent_actor
from ledger.errors import KeyReused, NotFound, PayloadInvalid
from ledger.public_ids import new_id
from ledger.transactions import assert_no_transaction, use_case
from reviewqueue.outbound import address_policy, http_client
from reviewqueue.webhooks import signing
from reviewqueue.webhooks.deliveries import void_deliveries
from reviewqueue.webhooks.event_types import TYPES
from reviewqueue.webhooks.models import MessageFormat, WebhookEndpoint, WebhookSecret
from runs.configuration_history import CREATED, REMOVED, Subject, lock_head, record_administration
from runs.errors import RateLimited
from runs.models import Agent

MAX_ENDPOINTS = 10
MAX_SECRETS = 5
MAX_URL_LENGTH = 500
OVERLAP = timedelta(hours=24)
RESOLVE_SECONDS = 5.0


@dataclass(frozen=True, kw_only=True)
class EndpointRequest:
    """The endpoint to register. ``events`` are event types, ``body_digest`` covers the whole request.

    ``format`` is a ``MessageFormat``.
    """

    key: str
    body_digest: str
    url: str
    events: list[str]
    description: str = ""
    format: str = MessageFormat.PLAIN


@dataclass(frozen=True, kw_only=True)
class RegisteredEndpoint:
    """An endpoint, and its secret if this call created one: it cannot be read later."""

    endpoint: WebhookEndpoint
    secret: str | None
    created: bool


def endpoints_of(agent: Agent) -> QuerySet[WebhookEndpoint]:
    """Return the agent's endpoints, disabled ones included, deleted ones not."""
    return WebhookEndpoint.objects.filter(agent=agent, deleted_at=None)


def register_endpoint(*, agent: Agent, request: EndpointRequest, actor: str = "") -> RegisteredEndpoint:
    """Register an endpoint, or return the one that the same key registered before, without its secret.

    Raises ``PayloadInvalid`` for a refused URL, an unknown event type, or too many endpoints; ``KeyReused`` if the key
    belongs to another request. ``actor``: by default the agent itself.
    """
    assert_no_transaction()
    known = _known(agent, request)
    if known is not None:
        return known
    _check_events(request.events)
    _check_address(request.url)
    return _insert(agent=agent, request=request, actor=actor or agent_actor(agent.slug))


@use_case
def _insert(*, agent: Agent, request: EndpointRequest, actor: str) -> RegisteredEndpoint:
    # One registration at a time per agent: two at once could both take the last place. A change of its owner locks the
    # head of the audit log first, too.
    lock_head()
    Agent.objects.select_for_update(of=("self",), no_key=True).get(pk=agent.pk)
    known = _known(agent, request)
    if known is not None:
        return known
    if endpoints_of(agent).count() >= MAX_ENDPOINTS:
        raise PayloadInvalid.at("/url", f"exceeds the limit of {MAX_ENDPOINTS} endpoints per agent")
    now = clock.now()
    endpoint = WebhookEndpoint.objects.create(
        public_id=new_id("whk"),
        agent=agent,
        key=request.key,
        body_digest=request.body_digest,
        url=request.url,
        events=list(dict.fromkeys(request.events)),
        description=request.description,
        format=request.format,
        created_at=now,
    )
    _record(endpoint, actor=actor, action=CREATED)
    return RegisteredEndpoint(endpoint=endpoint, secret=_add_secret(endpoint, now=now), created=True)


def _known(agent: Agent, request: EndpointRequest) -> RegisteredEndpoint | None:
    endpoint = WebhookEndpoint.objects.filter(agent=agent, key=request.key).first()
    if endpoint is None:
        return None
    if endpoint.body_digest != request.body_digest or endpoint.deleted_at is not None:
        raise KeyReused(f"The key {request.key} registered another endpoint.", webhook=endpoint.public_id)
    return RegisteredEndpoint(endpoint=endpoint, secret=None, created=False)


def _check_events(events: list[str]) -> None:
    for place, type_ in enumerate(events):
        if type_ not in TYPES:
            raise PayloadInvalid.at(f"/events/{place}", f"must be an event type: {', '.join(TYPES)}")


def _check_address(url: str) -> None:
    try:
        http_client.CallDeadline(RESOLVE_SECONDS).within(lambda: address_policy.check_webhook_url(url))
    except address_policy.AddressRefused as refused:
        raise PayloadInvalid.at("/url", str(refused)) from None
    except http_client.OutOfTime:
        raise PayloadInvalid.at("/url", "has a host that was not resolved in time") from None


@use_case
def delete_endpoint(*, agent: Agent, endpoint_id: str, actor: str = "") -> None:
    """Delete an endpoint: it gets no more messages, and due ones become void. The log of deliveries remains."""
    endpoint = _lock(agent, endpoint_id)
    now = clock.now()
    WebhookEndpoint.objects.filter(pk=endpoint.pk).update(deleted_at=now)
    void_deliveries(endpoint, now=now)
    _record(endpoint, actor=actor or agent_actor(agent.slug), action=REMOVED)


@use_case
def rotate_secret(*, agent: Agent, endpoint_id: str, actor: str = "") -> RegisteredEndpoint:
    """Create a new signing secret. Earlier secrets sign beside it for a day.

    Raises ``RateLimited`` while five secrets are valid: an older one, which a receiver may use, is never ended early.
    """
    endpoint = _lock(agent, endpoint_id)
    now = clock.now()
    if live_secrets(endpoint, now=now).count() >= MAX_SECRETS:
        raise RateLimited(f"This endpoint has {MAX_SECRETS} valid secrets already; one of them ends within a day.")
    WebhookSecret.objects.filter(endpoint=endpoint, ends_at=None).update(ends_at=now + OVERLAP)
    _record(endpoint, actor=actor or agent_actor(agent.slug), action="secret rotated")
    return RegisteredEndpoint(endpoint=endpoint, secret=_add_secret(endpoint, now=now), created=False)


def live_secrets(endpoint: WebhookEndpoint, *, now: datetime) -> QuerySet[WebhookSecret]:
    """Return the secrets that sign at ``now``, newest first."""
    return WebhookSecret.objects.filter(Q(ends_at=None) | Q(ends_at__gt=now), endpoint=endpoint).order_by("-id")


def _record(endpoint: WebhookEndpoint, *, actor: str, action: str) -> None:
    subject = Subject(kind="webhook", pk=endpoint.pk, name=endpoint.public_id, agent=endpoint.agent)
    state = {"url": masked_url(endpoint.url), "events": list(endpoint.events), "description": endpoint.description}
    state |= {} if endpoint.format == MessageFormat.PLAIN else {"format": str(endpoint.format)}
    before = None if action in (CREATED, REMOVED) else state
    record_administration(subject, actor=actor, action=action, before=before, after=state)


def masked_url(url: str) -> str:
    """Return the origin of a URL for the audit log. Its path and query can contain a secret of the receiver."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    has_more = parts.path.strip("/") or parts.query or "@" in parts.netloc
    return f"{parts.scheme}://{host}/***" if has_more else f"{parts.scheme}://{host}"


def _add_secret(endpoint: WebhookEndpoint, *, now: datetime) -> str:
    secret = signing.new_secret()
    WebhookSecret.objects.create(endpoint=endpoint, sealed=signing.seal(secret), created_at=now)
    return secret


def _lock(agent: Agent, endpoint_id: str) -> WebhookEndpoint:
    rows = endpoints_of(agent).select_for_update(of=("self",), no_key=True)
    endpoint = rows.filter(public_id=endpoint_id).first()
    if endpoint is None:
        raise NotFound
    return endpoint
