"""What people have typed and not sent yet: kept on the server, each for one person and one open wait.

Called by the page of a wait while somebody types, and by the sweep. Bounded in size, number and age; gone when the wait
closes. It fills a form again and is never sent by itself.
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

LIMIT = 200_000  # characters
MOST = 100  # of one person; the oldest goes
KEPT_FOR = timedelta(days=7)


@use_case
def save_typed_answer(*, person: AbstractUser, interrupt_id: str, form: str) -> TypedAnswer | None:
    """Keep what the person has typed so far. Returns ``None`` where the wait is closed: nothing is kept for it."""
    interrupt = permissions.visible_interrupt(person, interrupt_id)
    if interrupt is None:
        raise NotFound
    if interrupt.status != InterruptStatus.WAITING:
        TypedAnswer.objects.filter(person=person.pk, interrupt=interrupt).delete()
        return None
    if len(form) > LIMIT:
        raise PayloadInvalid(f"This is longer than {LIMIT} characters and is not kept while you type.")
    typed, made = TypedAnswer.objects.update_or_create(
        person_id=person.pk, interrupt=interrupt, defaults={"form": form, "saved_at": clock.now()}
    )
    if made:
        newest = TypedAnswer.objects.filter(person=person.pk).order_by("-saved_at").values("pk")[:MOST]
        TypedAnswer.objects.filter(person=person.pk).exclude(pk__in=list(newest.values_list("pk", flat=True))).delete()
    return typed


def typed_answer_of(person: AbstractUser, interrupt_pk: int, *, now: datetime) -> TypedAnswer | None:
    """Return what this person has typed for the wait, if it is fresh."""
    return TypedAnswer.objects.filter(person=person.pk, interrupt=interrupt_pk, saved_at__gt=now - KEPT_FOR).first()


def discard_typed_answer(person: AbstractUser, interrupt_pk: int) -> None:
    """Forget it: it was sent, or is not wanted any more."""
    TypedAnswer.objects.filter(person=person.pk, interrupt=interrupt_pk).delete()


def anything_typed_to_forget() -> bool:
    """Tell whether something is kept for a wait that is closed, or too long."""
    return _to_forget().exists()


def forget_typed_answers(*, limit: int) -> int:
    """Forget what was typed for waits that have closed, and what is too old. Returns how many."""
    found = list(_to_forget().values_list("pk", flat=True)[:limit])
    return TypedAnswer.objects.filter(pk__in=found).delete()[0] if found else 0


def _to_forget() -> models.QuerySet[TypedAnswer]:
    closed = ~Q(interrupt__status=InterruptStatus.WAITING)
    return TypedAnswer.objects.filter(closed | Q(saved_at__lt=clock.now() - KEPT_FOR))
