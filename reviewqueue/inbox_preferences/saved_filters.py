"""Saved filters: named lists of the inbox, private or shared with the people of a queue by its leads.

A filter is a query. It grants nothing, and each reader sees their own requests in it.
"""

from __future__ import annotations

from urllib.parse import parse_qsl

from django.contrib.auth.models import AbstractUser
from django.db.models import Q, QuerySet

from ledger.errors import NotFound, PayloadInvalid
from ledger.transactions import use_case
from reviewqueue import permissions
from reviewqueue.models import SavedFilter
from runs.errors import NotPermitted

MAX_NAME_LENGTH = 60
MAX_QUERY_LENGTH = 1_000
MAX_FILTERS = 50  # of a person, and of a queue


def visible_filters(person: AbstractUser) -> QuerySet[SavedFilter]:
    """Return the person's private filters and those shared with their queues, by name."""
    if not person.is_active:
        return SavedFilter.objects.none()
    shared = Q(queue__in=permissions.queues_of(person).values("pk"))
    found = SavedFilter.objects.filter(Q(person=person.pk, queue=None) | shared)
    return found.select_related("queue").order_by("name", "pk")


@use_case
def save_filter(person: AbstractUser, *, name: str, query: str, queue: str = "") -> tuple[SavedFilter, bool]:
    """Save a list under a name, and return the filter and whether it is new; one of the same name is replaced.

    ``queue``: share it with this queue. A shared filter has no person, so that it outlives the account of the lead.
    Raises ``PayloadInvalid``, ``NotFound`` (a queue that the person cannot see), ``NotPermitted`` (one they do not lead).
    """
    name = " ".join(name.split())
    if not name or len(name) > MAX_NAME_LENGTH or not name.isprintable():
        raise PayloadInvalid.at("/name", f"must have 1 to {MAX_NAME_LENGTH} printable characters")
    if "\x00" in query:
        raise PayloadInvalid.at("/query", "must have no NUL character")
    if len(query) > MAX_QUERY_LENGTH:
        raise PayloadInvalid.at("/query", "is too long to be saved. Search for a shorter text")
    shared_with = None
    if queue:
        shared_with = None if "\x00" in queue else permissions.queues_of(person).filter(slug=queue).first()
        if shared_with is None:
            raise NotFound
        if not permissions.is_lead_of(person, shared_with):
            raise NotPermitted(f"Only leads of {shared_with.slug} can share a filter with it.")
        # Its readers see the slug, also those who cannot see that queue.
        if dict(parse_qsl(query)).get("queue", queue) != queue:
            raise PayloadInvalid.at("/query", f"must not name another queue than {queue}, with which it is shared")
    theirs = SavedFilter.objects.filter(queue=shared_with) if shared_with else _private(person)
    if theirs.count() >= MAX_FILTERS and not theirs.filter(name=name).exists():
        has = "You have" if shared_with is None else f"{shared_with.slug} has"
        raise PayloadInvalid(f"{has} {MAX_FILTERS} saved filters. Remove one first.")
    owner = None if shared_with else person.pk
    return SavedFilter.objects.update_or_create(
        person_id=owner, queue=shared_with, name=name, defaults={"query": query}
    )


@use_case
def remove_filter(person: AbstractUser, *, pk: int) -> SavedFilter:
    """Remove a private filter of the person, or one shared with a queue that they lead.

    Raises ``NotFound``, ``NotPermitted``.
    """
    saved = visible_filters(person).filter(pk=pk).first()
    if saved is None:
        raise NotFound
    if saved.queue is not None and not permissions.is_lead_of(person, saved.queue):
        raise NotPermitted(f"Only leads of {saved.queue.slug} can remove a filter that is shared with it.")
    SavedFilter.objects.filter(pk=saved.pk).delete()
    return saved


def _private(person: AbstractUser) -> QuerySet[SavedFilter]:
    return SavedFilter.objects.filter(person=person.pk, queue=None)
