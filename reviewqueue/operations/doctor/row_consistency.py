"""Checks that rows agree with each other: hash chains, statuses, counters and references.

A run that looks wrong is checked again under its lock before it is reported: a request may have changed it between two
statements.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.db import IntegrityError, connection, transaction
from django.db.models import Count, F, OuterRef, QuerySet, Subquery, Value
from django.db.models.functions import Coalesce

from ledger.models import Effect
from reviewqueue.operations.doctor.findings import Finding
from reviewqueue.operations.doctor.records import find_changed_records
from runs.locks import locked_runs
from runs.models import Continuation, HandBack, Hold, Interrupt, Permit, Run
from runs.run_status import ImpossibleStatus, compute_status, is_claimable
from runs.states import OPEN_CONTINUATIONS, ContinuationStatus, DecisionStatus, InterruptStatus
from runs.timeline import find_broken_event


def inconsistent_runs(*, newest: int | None) -> Iterator[Finding]:
    """Find runs with a broken chain, changed records, a status that does not follow from their rows, or wrong counters.

    ``newest`` limits how many chains are read, the newest runs first. Statuses and counters are checked for every run.
    """
    runs = Run.objects.order_by("-pk")
    suspects = {run.pk for run in runs.iterator() if _status_fault(run)}
    suspects |= set(_runs_with_inconsistent_counters().values_list("pk", flat=True))
    read = runs if newest is None else runs[:newest]
    suspects |= {run.pk for run in read if find_broken_event(run) or find_changed_records(run)}
    for pk in sorted(suspects):
        for check, message in _check_locked(pk):
            yield Finding(check=check, message=message)


def _check_locked(pk: int) -> list[tuple[str, str]]:
    with transaction.atomic():
        run = locked_runs().get(pk=pk)
        found = [
            ("status", _status_fault(run)),
            ("counters", _counter_faults(run)),
            ("timeline", find_broken_event(run)),
        ]
        found.append(("records", find_changed_records(run)))
    return [(check, f"Run {run.public_id}: {fault}.") for check, fault in found if fault]


def _status_fault(run: Run) -> str:
    try:
        follows = compute_status(run)
    except ImpossibleStatus:
        return f"its status is {run.status}, but it has no lease, no open request and no continuation"
    if run.status != follows:
        return f"its status is {run.status}, but must be {follows} by its rows"
    if (run.ready_since is not None) != is_claimable(run):
        return "it can be claimed, but ready_since is empty; or it cannot, and ready_since is set"
    return ""


def _runs_with_inconsistent_counters() -> QuerySet[Run]:
    """Return the runs whose counters differ from the number of their rows."""
    waits = Interrupt.objects.filter(run=OuterRef("pk"), status=InterruptStatus.WAITING)
    holds = Hold.objects.filter(run=OuterRef("pk"), lifted_at=None)
    open_one = Continuation.objects.filter(run=OuterRef("pk"), status__in=OPEN_CONTINUATIONS)
    counted = Run.objects.annotate(
        counted_waits=_number_of(waits),
        counted_holds=_number_of(holds),
        counted_versions=_number_of(HandBack.objects.filter(run=OuterRef("pk"), over_at=None)),
        found_continuation=Coalesce(Subquery(open_one.values("status")[:1]), Value("")),
    )
    return counted.exclude(
        open_waits=F("counted_waits"),
        open_holds=F("counted_holds"),
        handed_back=F("counted_versions"),
        open_continuation=F("found_continuation"),
    )


def _number_of(rows: QuerySet[Any]) -> Coalesce:
    counted = rows.order_by().values("run").annotate(number=Count("pk")).values("number")
    return Coalesce(Subquery(counted), Value(0))


def _counter_faults(run: Run) -> str:
    open_one = run.continuations.filter(status__in=OPEN_CONTINUATIONS).values_list("status", flat=True).first()
    pairs = {
        "open requests": (run.open_waits, run.interrupts.filter(status=InterruptStatus.WAITING).count()),
        "open holds": (run.open_holds, run.holds.filter(lifted_at=None).count()),
        "code versions that cannot continue it": (run.handed_back, run.hand_backs.filter(over_at=None).count()),
        "open continuation": (run.open_continuation or "none", open_one or "none"),
    }
    wrong = [f"{name}: {stored} stored, {actual} found" for name, (stored, actual) in pairs.items() if stored != actual]
    if run.open_continuation == ContinuationStatus.LEASED and run.lease_until is None:
        wrong.append("its continuation is leased, but the run has no lease")
    return "; ".join(wrong)


def dangling_references() -> Iterator[Finding]:
    """Find references to missing rows that no foreign key prevents."""
    for effect in Effect.objects.exclude(scope__in=Run.objects.values("public_id")).order_by("pk").iterator():
        yield Finding(
            check="orphans", message=f"Effect {effect.public_id} belongs to {effect.scope}, which is not a run."
        )
    named = Effect.objects.exclude(permit_ref=None).exclude(permit_ref__in=Permit.objects.values("public_id"))
    for effect in named.order_by("pk").iterator():
        yield Finding(
            check="orphans", message=f"Effect {effect.public_id} uses {effect.permit_ref}, which is not a permit."
        )
    good = Permit.objects.filter(void_at=None).exclude(decision__status=DecisionStatus.ACCEPTED)
    for permit in good.select_related("decision").order_by("pk").iterator():
        message = f"Permit {permit.public_id} is valid, but its decision is {permit.decision.status}."
        yield Finding(check="orphans", message=message)
    if connection.vendor == "sqlite":  # a program can open the file with foreign keys off
        try:
            connection.check_constraints()
        except IntegrityError as problem:
            yield Finding(check="orphans", message=f"A foreign key is violated: {problem}")
