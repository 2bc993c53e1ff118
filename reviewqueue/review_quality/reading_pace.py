"""How long a reviewer had a request open before deciding it on its page, compared with an estimate of the reading time.

The estimate is the number of characters that the page shows of the request, at ``CHARACTERS_PER_SECOND``, which is about
twice as fast as people usually read; at least ``LEAST``, at most ``MOST``. So a decision that is faster was not read. The
page has a signed time in its form; no row is written before the decision. A decision is never blocked.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from django.contrib.auth.models import AbstractUser
from django.core import signing

from ledger.exact_json import dumps
from reviewqueue.models import DecisionPace
from reviewqueue.rollups.cells import rounded_down
from runs.models import Decision, Fact, Interrupt

CHARACTERS_PER_SECOND = 50
LEAST, MOST = timedelta(seconds=2), timedelta(minutes=1)
_SALT = "reviewqueue.reading_pace"


def estimate_reading(interrupt: Interrupt) -> timedelta:
    """Return how long the request takes to read at least."""
    call = None if interrupt.proposal is None else interrupt.proposal["arguments"]
    facts = Fact.objects.filter(interrupt=interrupt.pk).values_list("name", "value")
    texts = [interrupt.title, interrupt.message, dumps(call), dumps(interrupt.evidence), dumps(dict(facts))]
    return min(max(timedelta(seconds=sum(map(len, texts)) / CHARACTERS_PER_SECOND), LEAST), MOST)


def opened_token(person: AbstractUser, interrupt: Interrupt, *, sent: str, now: datetime) -> str:
    """Return the text that the form has: the time of its first page. ``sent``: of the form that is shown again."""
    if read_opened(sent, person, interrupt.public_id) is not None:
        return sent
    return signing.dumps([person.pk, interrupt.public_id, now.timestamp()], salt=_SALT)


def read_opened(token: str, person: AbstractUser, interrupt_id: str) -> datetime | None:
    """Return when the person opened the request; ``None`` for a token of another person or request."""
    try:
        pk, opened, at = signing.loads(token, salt=_SALT)
    except (signing.BadSignature, ValueError, TypeError):
        return None
    return datetime.fromtimestamp(at, UTC) if (pk, opened) == (person.pk, interrupt_id) else None


def record_pace(person: AbstractUser, decision: Decision, interrupt: Interrupt, *, opened: datetime) -> DecisionPace:
    """Record how long the person had the request open, once for each decision.

    The next request is loaded before the previous one is decided, so its time begins at that decision.
    """
    assert interrupt.queue is not None  # noqa: S101  a person decided it
    before = DecisionPace.objects.filter(person=person.pk).order_by("-id").values_list("decided_at", flat=True).first()
    began = opened if before is None else max(opened, before)
    took, estimate = max(decision.created_at - began, timedelta(0)), estimate_reading(interrupt)
    row, _ = DecisionPace.objects.get_or_create(
        decision=decision,
        defaults={
            "person_id": person.pk,
            "queue": interrupt.queue,
            "seconds": rounded_down(int(took.total_seconds())),
            "estimate_seconds": round(estimate.total_seconds()),
            "is_fast": took < estimate,
            "decided_at": decision.created_at,
        },
    )
    return row


def find_fast(person: AbstractUser, decision: Decision) -> DecisionPace | None:
    """Return the pace of the person's own decision if it was faster than reading."""
    return DecisionPace.objects.filter(decision=decision.pk, person=person.pk, is_fast=True).first()
