"""Planted requests: their mark, their commitment in the audit log, and their disclosure when they are closed.

Until then, nothing that reviewers, owners or the agent can read differs from other requests: the audit log has only a
digest. The only writer of ``PlantedRequest``.
"""

from __future__ import annotations

from datetime import datetime

from ledger import row_digests
from ledger.actors import person_actor
from ledger.digests import digest
from ledger.row_digests import column_as_json
from ledger.transactions import assert_in_transaction
from runs.configuration_history import CREATED, Subject, record_administration
from runs.errors import RecordChanged
from runs.models import ConfigurationRecord, Decision, Interrupt, PlantedRequest, Run
from runs.states import PlantedOutcome
from runs.timeline import record_event

KIND = "planted_request"
#: The event that discloses a planted request. It is in no feed and no webhook, because no agent reads these runs.
PLANTED = "interrupt.planted"
DISCLOSED = "disclosed"
_COMMITTED = (
    "public_id",
    "interrupt_id",
    "queue_id",
    "planted_by_id",
    "copied_from_id",
    "fault",
    "expected",
    "created_at",
)


def commit_to(row: PlantedRequest, *, actor: str) -> None:
    """Record the digest of a new row in the audit log, without its content."""
    record_administration(_subject(row), actor=actor, action=CREATED, after={"commitment": row.commitment})


def find_planted(run: Run, interrupt: Interrupt) -> PlantedRequest | None:
    """Return the row of a planted request that is open; ``None`` for any other request.

    Raises ``RecordChanged`` if the row is missing or differs from what the audit log recorded when it was planted.
    """
    if not run.planted:
        return None
    row = PlantedRequest.objects.select_related("queue", "planted_by").filter(interrupt=interrupt).first()
    if row is None:
        raise RecordChanged(record=f"run {run.public_id}")
    records = ConfigurationRecord.objects.filter(kind=KIND, subject=row.pk, action=CREATED).order_by("seq")
    recorded = records.values_list("content", flat=True).first()
    if recorded is None or recorded.get("commitment") != commitment_of(row):
        raise RecordChanged(record=f"planted request {row.public_id}")
    return row


def disclose(
    run: Run,
    row: PlantedRequest,
    *,
    outcome: PlantedOutcome,
    actor: str,
    now: datetime,
    decision: Decision | None = None,
) -> None:
    """Record that the request of the locked run was planted, in the timeline and the audit log. Neither has the fault or
    the outcome.
    """
    assert_in_transaction()
    row.outcome, row.decision, row.closed_at = outcome, decision, now
    row.save(update_fields=["outcome", "decision", "closed_at"])
    row_digests.collect_written_row(run.public_id, row)
    interrupt = row.interrupt.public_id
    record_event(
        run,
        PLANTED,
        actor=person_actor(row.planted_by),
        at=now,
        interrupt=interrupt,
        planted=row.public_id,
        commitment=row.commitment,
        decision=None if decision is None else decision.public_id,
    )
    after = {
        "planted_by": row.planted_by.get_username(),
        "interrupt": interrupt,
        "decision": None if decision is None else decision.public_id,
        "commitment": row.commitment,
    }
    record_administration(_subject(row), actor=actor, action=DISCLOSED, after=after)


def disclose_if_open(run: Run, *, actor: str, now: datetime) -> None:
    """Disclose the planted request of a run that ends before its request was decided."""
    row = (
        PlantedRequest.objects.select_related("interrupt", "planted_by").filter(interrupt__run=run, outcome="").first()
    )
    if row is not None:
        disclose(run, row, outcome=PlantedOutcome.WITHDRAWN, actor=actor, now=now)


def find_disclosed(interrupt: Interrupt) -> PlantedRequest | None:
    """Return the row of a planted request that is closed, for its readers; ``None`` for any other request."""
    if not interrupt.run.planted:
        return None
    rows = PlantedRequest.objects.select_related("planted_by", "queue").exclude(outcome="")
    return rows.filter(interrupt=interrupt).first()


def shown_key(run: Run) -> str:
    """Return the key of a run as people see it."""
    if not run.planted:
        return str(run.key)
    return PlantedRequest.objects.filter(interrupt__run=run).values_list("run_key", flat=True).first() or ""


def commitment_of(row: PlantedRequest) -> str:
    """Return the digest of what was planted."""
    return digest({name: column_as_json(getattr(row, name)) for name in _COMMITTED})


def _subject(row: PlantedRequest) -> Subject:
    return Subject(kind=KIND, pk=row.pk, name=row.public_id, queue=row.queue)
