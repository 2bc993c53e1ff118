"""Saved replies: texts that people insert in comments and reasons, private or shared with a queue by its leads."""

from __future__ import annotations

from django.contrib.auth.models import AbstractUser
from django.db.models import Q, QuerySet

from ledger.errors import NotFound, PayloadInvalid
from ledger.transactions import use_case
from reviewqueue import permissions
from reviewqueue.models import SavedReply
from runs.errors import NotPermitted
from runs.models import Queue

MAX_NAME_LENGTH = 60
MAX_TEXT_LENGTH = 2_000
MAX_REPLIES = 50  # of a person, and of a queue


def visible_replies(person: AbstractUser) -> QuerySet[SavedReply]:
    """Return the person's private replies and those of their queues, by name."""
    if not person.is_active:
        return SavedReply.objects.none()
    shared = Q(queue__in=permissions.queues_of(person).values("pk"))
    found = SavedReply.objects.filter(Q(person=person.pk, queue=None) | shared)
    return found.select_related("queue").order_by("name", "pk")


def replies_for_queue(person: AbstractUser, queue: Queue | None) -> QuerySet[SavedReply]:
    """Return the visible replies for requests of this queue: private ones, and its own."""
    of_queue = Q(queue=None) if queue is None else Q(queue=None) | Q(queue=queue)
    return visible_replies(person).filter(of_queue)


@use_case
def save_reply(person: AbstractUser, *, name: str, text: str, queue: str = "") -> tuple[SavedReply, bool]:
    """Save a text under a name, and return the reply and whether it is new; one of the same name is replaced.

    ``queue``: share it with this queue. A shared reply has no person, so that it outlives the account of the lead.
    Raises ``PayloadInvalid``, ``NotFound`` (a queue that the person cannot see), ``NotPermitted`` (one they do not lead).
    """
    name, text = " ".join(name.split()), text.replace("\r\n", "\n").strip()
    if not name or len(name) > MAX_NAME_LENGTH or not name.isprintable():
        raise PayloadInvalid.at("/name", f"must have 1 to {MAX_NAME_LENGTH} printable characters")
    if not text or len(text) > MAX_TEXT_LENGTH or "\x00" in text:
        raise PayloadInvalid.at("/text", f"must have 1 to {MAX_TEXT_LENGTH} characters")
    shared_with = None
    if queue:
        shared_with = None if "\x00" in queue else permissions.queues_of(person).filter(slug=queue).first()
        if shared_with is None:
            raise NotFound
        if not permissions.is_lead_of(person, shared_with):
            raise NotPermitted(f"Only leads of {shared_with.slug} can share a reply with it.")
    theirs = SavedReply.objects.filter(queue=shared_with) if shared_with else _private(person)
    if theirs.count() >= MAX_REPLIES and not theirs.filter(name=name).exists():
        has = "You have" if shared_with is None else f"{shared_with.slug} has"
        raise PayloadInvalid(f"{has} {MAX_REPLIES} saved replies. Remove one first.")
    owner = None if shared_with else person.pk
    return SavedReply.objects.update_or_create(person_id=owner, queue=shared_with, name=name, defaults={"text": text})


@use_case
def remove_reply(person: AbstractUser, *, pk: int) -> SavedReply:
    """Remove a private reply of the person, or one of a queue that they lead. Raises ``NotFound``, ``NotPermitted``."""
    saved = visible_replies(person).filter(pk=pk).first()
    if saved is None:
        raise NotFound
    if saved.queue is not None and not permissions.is_lead_of(person, saved.queue):
        raise NotPermitted(f"Only leads of {saved.queue.slug} can remove a reply that is shared with it.")
    SavedReply.objects.filter(pk=saved.pk).delete()
    return saved


def _private(person: AbstractUser) -> QuerySet[SavedReply]:
    return SavedReply.objects.filter(person=person.pk, queue=None)
