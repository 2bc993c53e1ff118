"""Drafts: unsent input of a person for one open request, kept on the server.

Limited in size, number and age, and deleted when the request closes. A draft fills the form again; it is never sent
automatically.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from django.contrib.auth.models import AbstractUser
from django.db import models
from django.db.models import Q

from ledger import clock
from ledger.errors import NotFound, PayloadInvalid
from ledger.transactions import use_case
from reviewqueue import permissions
from reviewqueue.models import TypedAnswer
from runs.states import InterruptStatus

MAX_LENGTH = 200_000  # characters
MAX_DRAFTS = 100  # drafts of one person; the oldest is deleted
RETENTION = timedelta(days=7)


@use_case
def save_typed_answer(*, person: AbstractUser, interrupt_id: str, form: str) -> TypedAnswer | None:
    """Save the person's draft. Returns ``None`` if the request is closed, and deletes its draft."""
    interrupt = permissions.visible_interrupt(person, interrupt_id)
    if interrupt is None:
        raise NotFound
    if interrupt.status != InterruptStatus.WAITING:
        TypedAnswer.objects.filter(person=person.pk, interrupt=interrupt).delete()
        return None
    if len(form) > MAX_LENGTH:
        raise PayloadInvalid(f"The draft must have at most {MAX_LENGTH} characters, so it was not saved.")
    draft, created = TypedAnswer.objects.update_or_create(
        person_id=person.pk, interrupt=interrupt, defaults={"form": form, "saved_at": clock.now()}
    )
    if created:
        newest = TypedAnswer.objects.filter(person=person.pk).order_by("-saved_at").values("pk")[:MAX_DRAFTS]
        TypedAnswer.objects.filter(person=person.pk).exclude(pk__in=list(newest.values_list("pk", flat=True))).delete()
    return draft


def typed_answer_of(person: AbstractUser, interrupt_pk: int, *, now: datetime) -> TypedAnswer | None:
    """Return this person's draft for the request, if it is recent."""
    return TypedAnswer.objects.filter(person=person.pk, interrupt=interrupt_pk, saved_at__gt=now - RETENTION).first()


def discard_typed_answer(person: AbstractUser, interrupt_pk: int) -> None:
    TypedAnswer.objects.filter(person=person.pk, interrupt=interrupt_pk).delete()


def anything_typed_to_forget() -> bool:
    """Tell whether a draft of a closed request, or an old one, is stored."""
    return _due_for_deletion().exists()


def forget_typed_answers(*, limit: int) -> int:
    """Delete drafts of closed requests and old drafts. Returns how many."""
    found = list(_due_for_deletion().values_list("pk", flat=True)[:limit])
    return TypedAnswer.objects.filter(pk__in=found).delete()[0] if found else 0


def _due_for_deletion() -> models.QuerySet[TypedAnswer]:
    closed = ~Q(interrupt__status=InterruptStatus.WAITING)
    return TypedAnswer.objects.filter(closed | Q(saved_at__lt=clock.now() - RETENTION))
