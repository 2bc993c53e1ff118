"""Do the rows bear each other out? Chains, statuses, counters, and rows that point nowhere.

Nothing is repaired here. A run that looks wrong is looked at again under its lock before a word is said: a verb may
have been at work between two of our statements.
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
from runs.run_status import Impossible, is_offered, standing
from runs.states import OPEN_CONTINUATIONS, ContinuationStatus, DecisionStatus, InterruptStatus
from runs.timeline import find_break


def wrong_runs(*, newest: int | None) -> Iterator[Finding]:
    """Find runs whose chain is broken, whose status is not what follows from its truths, or whose counters are wrong.

    ``newest`` bounds how many chains are read, the newest runs first; the rest is looked at for all.
    """
    looked_at = Run.objects.order_by("-pk")
    suspects = {run.pk for run in looked_at.iterator() if _misstands(run)}
    suspects |= set(_miscounted().values_list("pk", flat=True))
    read = looked_at if newest is None else looked_at[:newest]
    suspects |= {run.pk for run in read if find_break(run) or find_changed_records(run)}
    for pk in sorted(suspects):
        for check, words in _look_again(pk):
            yield Finding(check=check, words=words)


def _look_again(pk: int) -> list[tuple[str, str]]:
    with transaction.atomic():
        run = locked_runs().get(pk=pk)
        found = [("status", _misstands(run)), ("counters", _miscounts(run)), ("timeline", find_break(run))]
        found.append(("records", find_changed_records(run)))
    return [(check, f"{run.public_id}: {words}") for check, words in found if words]


def _misstands(run: Run) -> str:
    try:
        follows = standing(run)
    except Impossible:
        return f"stored as {run.status}, but nobody holds it, nothing waits and nothing may go on"
    if run.status != follows:
        return f"stored as {run.status}, but its truths say {follows}"
    if (run.ready_since is not None) != is_offered(run):
        return "it may be claimed, and says of itself that no worker is awaited; or the other way round"
    return ""


def _miscounted() -> QuerySet[Run]:
    """Return the runs whose own figures differ from the rows they count."""
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


def _miscounts(run: Run) -> str:
    open_one = run.continuations.filter(status__in=OPEN_CONTINUATIONS).values_list("status", flat=True).first()
    pairs = {
        "open waits": (run.open_waits, run.interrupts.filter(status=InterruptStatus.WAITING).count()),
        "open holds": (run.open_holds, run.holds.filter(lifted_at=None).count()),
        "versions that cannot read it": (run.handed_back, run.hand_backs.filter(over_at=None).count()),
        "open continuation": (run.open_continuation or "none", open_one or "none"),
    }
    wrong = [f"{name}: {stored} stored, {there} there" for name, (stored, there) in pairs.items() if stored != there]
    if run.open_continuation == ContinuationStatus.LEASED and run.lease_until is None:
        wrong.append("its continuation is leased, and nobody holds a lease")
    return "; ".join(wrong)


def orphans() -> Iterator[Finding]:
    """Find rows that point to what is not there, where the database itself cannot forbid it."""
    for effect in Effect.objects.exclude(scope__in=Run.objects.values("public_id")).order_by("pk").iterator():
        yield Finding(check="orphans", words=f"effect {effect.public_id} belongs to {effect.scope}, which is no run")
    named = Effect.objects.exclude(permit_ref=None).exclude(permit_ref__in=Permit.objects.values("public_id"))
    for effect in named.order_by("pk").iterator():
        yield Finding(
            check="orphans", words=f"effect {effect.public_id} rests on {effect.permit_ref}, which is no permit"
        )
    good = Permit.objects.filter(void_at=None).exclude(decision__status=DecisionStatus.ACCEPTED)
    for permit in good.select_related("decision").order_by("pk").iterator():
        words = f"permit {permit.public_id} is good, though its decision is {permit.decision.status}"
        yield Finding(check="orphans", words=words)
    if connection.vendor == "sqlite":  # anything that opened the file with its foreign keys off could write this
        try:
            connection.check_constraints()
        except IntegrityError as problem:
            yield Finding(check="orphans", words=str(problem))
