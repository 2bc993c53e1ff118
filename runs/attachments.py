"""Attachments: files that reviewers add to a request, which their answers name by digest.

Writes ``Attachment.status``. As for checkpoint files, a row is written before its bytes, so the storage never has unknown
bytes. A file is kept once a decision names it, and erased with the states of its run; the sweep erases a file that no
decision names after its request has closed.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.models import AbstractBaseUser
from django.db.models import Q, QuerySet

from ledger import clock, row_digests
from ledger.errors import Problem
from ledger.exact_json import ABSENT
from ledger.public_ids import new_id
from ledger.transactions import assert_in_transaction, use_case
from runs.decisions import Answer, answer_schema
from runs.errors import InputInvalid
from runs.file_storage import delete_stored_file
from runs.models import Attachment, Decision, Interrupt, Run
from runs.schemas.attachments import list_named_files
from runs.states import FILE_TRANSITIONS, FileStatus, InterruptStatus
from runs.sweep import not_deferred, sweep_rows

MAX_ATTACHMENTS = 20  # of one person on one request, erased ones included
BYTES_ARRIVE_WITHIN = timedelta(hours=1)
#: An undone decision opens its request again; its other files are still there for this time.
KEEP_AFTER_CLOSING = timedelta(hours=1)
_USABLE = (FileStatus.OFFERED, FileStatus.KEPT)


def create_attachment(
    interrupt: Interrupt, person_id: int, *, name: str, media_type: str, digest: str, size: int, now: datetime
) -> Attachment:
    """Create the row of a file whose bytes are about to be stored."""
    assert_in_transaction()
    bare = digest.removeprefix("sha256:")
    return Attachment.objects.create(
        public_id=new_id("att"),
        run_id=interrupt.run_id,
        interrupt=interrupt,
        person_id=person_id,
        name=name,
        media_type=media_type,
        size=size,
        digest=digest,
        stored_as=f"attachments/{bare[:2]}/{bare}-{secrets.token_hex(16)}",
        status=FileStatus.ARRIVING,
        created_at=now,
    )


def find_attachment(interrupt: Interrupt, person_id: int, digest: str) -> Attachment | None:
    """Return the file with these bytes that the person attached to the request."""
    return list_usable(interrupt, person_id).filter(digest=digest).first()


def list_usable(interrupt: Interrupt, person_id: int) -> QuerySet[Attachment]:
    """Return the files that the person attached to the request and can name in an answer."""
    own = Attachment.objects.filter(interrupt=interrupt, person=person_id, status__in=_USABLE)
    return own.order_by("id")


def offer_attachment(run: Run, attachment: Attachment, *, now: datetime) -> bool:
    """Offer a stored file for an answer. False: the sweep gave it up. The caller records an event."""
    assert_in_transaction()
    if _move("offer", Q(pk=attachment.pk), added_at=now) != 1:
        return False
    attachment.added_at, attachment.status = now, FileStatus.OFFERED
    row_digests.collect_written_row(run.public_id, attachment)
    return True


def check_attachments(interrupt: Interrupt, person: AbstractBaseUser, answer: Answer) -> list[str]:
    """Return the digests of the files that an answer names. An erased file counts until ``keep_attachments``, because a
    closed request and a repeated decision have replies of their own.

    Raises ``InputInvalid`` for a file that this person has not attached to this request, or that does not fit its place.
    """
    if answer.input is ABSENT:
        return []
    named = list_named_files(answer_schema(interrupt), answer.input)
    if not named:
        return []
    attached = Attachment.objects.filter(interrupt=interrupt, person=person.pk).exclude(added_at=None)
    own = {file.digest: file for file in attached}
    problems = []
    for place in named:
        file = own.get(place.digest)
        if file is None:
            problems.append(Problem(f"/input{place.pointer}", "must be the digest of a file that you attached here"))
            continue
        wrong = [rule.problem(media_type=file.media_type, size=file.size) for rule in place.rules]
        if all(wrong):
            problems.append(Problem(f"/input{place.pointer}", wrong[0]))
    if problems:
        raise InputInvalid(errors=problems)
    return sorted({place.digest for place in named})


def keep_attachments(interrupt: Interrupt, person: AbstractBaseUser, named: Sequence[str]) -> bool:
    """Keep the files that a decision names, under the run's lock. False: one of them is erased, or is about to be."""
    assert_in_transaction()
    if not named:
        return True
    own = Q(interrupt=interrupt, person=person.pk, digest__in=named)
    _move("keep", own)
    return Attachment.objects.filter(own, status=FileStatus.KEPT).count() == len(named)


def attachments_of(decision: Decision) -> list[Attachment]:
    """Return the files that a decision names; no query for a decision without one."""
    digests = sorted(_digests_in(decision.input))
    if not digests or decision.by_id is None:
        return []
    own = Attachment.objects.filter(interrupt=decision.interrupt_id, person=decision.by_id, digest__in=digests)
    return list(own.exclude(added_at=None).select_related("interrupt").order_by("id"))


def _digests_in(value: Any) -> set[str]:
    found, waiting = set(), [value]
    while waiting:
        inner = waiting.pop()
        if isinstance(inner, str) and inner.startswith("sha256:") and len(inner) == 71:
            found.add(inner)
        elif isinstance(inner, dict):
            waiting.extend(inner.values())
        elif isinstance(inner, list):
            waiting.extend(inner)
    return found


def mark_attachments_for_deletion(run: Run) -> int:
    """Mark every attachment of the locked run for deletion; digest, size and name stay recorded."""
    assert_in_transaction()
    return _move("give up", Q(run=run))


@use_case
def mark_failed_attachment_for_deletion(pk: int) -> None:
    """Mark a file for deletion whose upload failed."""
    _move("give up", Q(pk=pk, status=FileStatus.ARRIVING))


def any_attachment_to_delete() -> bool:
    """Tell whether a file is due for deletion."""
    return Attachment.objects.filter(_unwanted(clock.now())).exists()


def delete_unwanted_attachments(*, limit: int) -> int:
    """Delete the bytes of up to ``limit`` due files, and return the number of files."""
    return sweep_rows(Attachment.objects.all(), _unwanted(clock.now()), "id", _delete, limit=limit)


def _unwanted(now: datetime) -> Q:
    never_arrived = Q(status=FileStatus.ARRIVING, created_at__lte=now - BYTES_ARRIVE_WITHIN)
    is_closed = ~Q(interrupt__status=InterruptStatus.WAITING) & Q(interrupt__closed_at__lte=now - KEEP_AFTER_CLOSING)
    left_behind = Q(status=FileStatus.OFFERED) & is_closed
    # Implied by the rest, but needed for the partial index, which leaves out the many kept files.
    may_go = Q(status__in=[FileStatus.ARRIVING, FileStatus.OFFERED, FileStatus.UNWANTED])
    return may_go & (Q(status=FileStatus.UNWANTED) | never_arrived | left_behind) & not_deferred(now)


def _delete(pk: int) -> bool:
    stored_as = _claim_unwanted(pk)
    if stored_as is None:
        return False
    delete_stored_file(stored_as)  # after a crash here the row is still due, and the deletion is repeated
    _forget_bytes(pk)
    return True


@use_case
def _claim_unwanted(pk: int) -> str | None:
    file = Attachment.objects.filter(_unwanted(clock.now()), pk=pk).first()
    if file is None:
        return None
    if file.status != FileStatus.UNWANTED and _move("give up", Q(pk=pk, status=file.status)) != 1:
        return None  # a decision has named it meanwhile
    return file.stored_as


@use_case
def _forget_bytes(pk: int) -> None:
    if _move("erase", Q(pk=pk, added_at__isnull=False), erased_at=clock.now()) != 1:
        Attachment.objects.filter(pk=pk, status=FileStatus.UNWANTED, added_at=None).delete()


def _move(verb: str, which: Q, **fields: datetime) -> int:
    allowed, to = FILE_TRANSITIONS[verb]
    return Attachment.objects.filter(which, status__in=allowed).update(status=to, **fields)
