"""Consistent rows by the million, copied inside PostgreSQL or SQLite from runs that the use cases have created.

`python -m tests.benchmarks.many_rows WAITING ENDED` fills the migrated, empty database of DATABASE_URL. Three queues share
the rows, and a fourth has three. A copy has the statuses, counters and hash chain of its template; its events record no
digests of rows, as those of a version without row digests, because its ids and times differ.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from django.db.models import Model

    from runs.models import Interrupt, Run

QUEUES = ("engineering", "finance", "legal")
QUIET, QUIET_ROWS = "quiet", 3
AGENTS = ("purchase-requests", "refunds", "contracts")
RISKS = ("high", "medium", "low")
REASONS = ("approval.action", "approval.spend", "approval.contract")
ALL_QUEUES_READER, OPERATOR = "everywhere@example.org", "operator@example.org"
ENDED_OVER = timedelta(days=60)
DEADLINES_OVER = timedelta(days=2)
MESSAGE = "The hoist is needed in week 49; two of three suppliers can deliver. " * 2
CALL = {
    "name": "issue_purchase_order",
    "arguments": {"supplier": "S-17", "amount": "184000.00", "lines": [f"Part {n}, 12 pieces" for n in range(20)]},
}


def fill(*, waiting: int, ended: int) -> None:
    """Create people, queues and policies, and so many waiting and ended runs."""
    from tests.unguarded import without_triggers

    create_people()
    kinds = list(itertools.product(QUEUES, RISKS))
    with without_triggers():
        for place, (queue, risk) in enumerate(kinds):
            template = a_waiting_interrupt(queue, risk).run
            copies = _share(waiting, place, len(kinds)) - 1
            copy_run(template, copies, tag=f"w{place}", changed={"deadline": DEADLINES_OVER})
        for _ in range(QUIET_ROWS):
            a_waiting_interrupt(QUIET, "medium")
        for place, (queue, risk) in enumerate(kinds):
            end = expire if place % 3 == 2 else complete
            template = end(a_waiting_interrupt(queue, risk))
            changed = dict.fromkeys(TIMES_OF_AN_ENDED_RUN, -ENDED_OVER)
            copy_run(template, _share(ended, place, len(kinds)) - 1, tag=f"e{place}", changed=changed)
    analyze()


def _share(number: int, place: int, parts: int) -> int:
    return number // parts + (place < number % parts)


def create_people() -> None:
    from runs.use_cases.reconcile_outcomes import OPERATORS
    from tests import builders

    for slug in (*QUEUES, QUIET):
        builders.a_reviewer(f"{slug}@example.org", slug)
    builders.a_person(ALL_QUEUES_READER, *(f"{slug}-reviewers" for slug in (*QUEUES, QUIET)))
    builders.a_person(OPERATOR, OPERATORS)
    for slug in AGENTS:
        builders.an_agent(slug, owner=f"{slug}-owners")
        builders.a_person(f"{slug}-owner@example.org", f"{slug}-owners")
    for reason in REASONS:
        builders.a_policy(reason, any_queue=True)


def a_waiting_interrupt(queue: str, risk: str) -> Interrupt:
    from runs.policies import RequestedTerms
    from tests import builders

    place = (QUEUES.index(queue) if queue in QUEUES else 0) + RISKS.index(risk)
    builders.a_queue(queue)
    wait = builders.a_wait(reason=REASONS[place % 3], proposal=CALL, message=MESSAGE)
    terms = RequestedTerms(queue=queue, risk=risk, deadline_in=timedelta(hours=4))
    object.__setattr__(wait, "wish", terms)
    started = builders.a_running_run(builders.an_agent(AGENTS[RISKS.index(risk)]))
    return builders.a_waiting_interrupt(wait, started=started)


def complete(interrupt: Interrupt) -> Run:
    """Approve it, perform the approved call, and complete the run."""
    from django.contrib.auth.models import User

    from reviewqueue import permissions
    from runs.use_cases.complete_run import complete_run
    from runs.use_cases.report_effect import report_effect
    from tests import builders

    assert interrupt.queue is not None
    agent = interrupt.agent
    builders.decide(interrupt, User.objects.get(username=f"{interrupt.queue.slug}@example.org"))
    [claimed] = builders.claim(agent)
    of_run: dict[str, Any] = {"agent": agent, "run_id": interrupt.run.public_id}
    lease = claimed.lease.token
    begun = builders.begin_effect(
        **of_run, token=lease, key="order", still_may_decide=permissions.still_may_decide, **CALL
    )
    assert begun.attempt_token is not None
    report_effect(**of_run, key="order", attempt_token=begun.attempt_token, status="applied", receipt={"order": "4711"})
    return complete_run(**of_run, token=lease, result={"order": "4711"})


def expire(interrupt: Interrupt) -> Run:
    """Let its deadline pass, which ends the run."""
    from ledger import clock
    from runs.models import Run
    from runs.use_cases.expire import expire_interrupt_if_due
    from tests import builders

    builders.move_deadline(interrupt, clock.now())
    expire_interrupt_if_due(interrupt_pk=interrupt.pk)
    return Run.objects.get(pk=interrupt.run_id)


#: Columns of an ended run that move back in time, so that its ends spread over the period.
TIMES_OF_AN_ENDED_RUN = (
    "created_at",
    "ended_at",
    "closed_at",
    "deadline",
    "leased_at",
    "acknowledged_at",
    "delivered_at",
    "begun_at",
    "changed_at",
)


def copy_run(run: Run, count: int, *, tag: str, changed: dict[str, timedelta]) -> None:
    """Copy a run with all its rows ``count`` times; the columns of ``changed`` spread over a time from the template's."""
    from django.db import connection

    if count < 1:
        return
    rows = rows_of(run)
    first = {model: _last_id(model) + 1 for model in rows}
    with connection.cursor() as cursor:
        for model, ids in rows.items():
            for place, pk in enumerate(ids):
                values = _values(model, rows, first, place, tag=tag, changed=changed, count=count)
                cursor.execute(_copy_statement(model, pk, values, count))
            if connection.vendor == "postgresql":
                table = model._meta.db_table
                cursor.execute(f"SELECT setval(pg_get_serial_sequence('{table}', 'id'), max(id)) FROM {table}")  # noqa: S608


def rows_of(run: Run) -> dict[type[Model], list[int]]:
    """Return the primary keys of all rows of a run, in an order in which no row references a later table."""
    from ledger.models import Effect, EffectReport
    from runs.models import Checkpoint, Continuation, Decision, Event, Interrupt, Outcome, Permit, Run

    unlike_their_copies = Event.objects.filter(run=run).order_by("seq")
    prev = ""
    for event in unlike_their_copies:
        event.row_digests, event.prev = None, prev
        prev = event.digest = _digest_of(event)
        Event.objects.filter(pk=event.pk).update(row_digests=None, prev=event.prev, digest=prev, announced_at=event.at)
    Run.objects.filter(pk=run.pk).update(timeline_head=prev)
    found: dict[type[Model], Iterable[int]] = {
        Run: [run.pk],
        Checkpoint: Checkpoint.objects.filter(run=run).values_list("pk", flat=True),
        Interrupt: Interrupt.objects.filter(run=run).values_list("pk", flat=True),
        Decision: Decision.objects.filter(interrupt__run=run).values_list("pk", flat=True),
        Permit: Permit.objects.filter(run=run).values_list("pk", flat=True),
        Continuation: Continuation.objects.filter(run=run).values_list("pk", flat=True),
        Effect: Effect.objects.filter(scope=run.public_id).values_list("pk", flat=True),
        EffectReport: EffectReport.objects.filter(effect__scope=run.public_id).values_list("pk", flat=True),
        Outcome: Outcome.objects.filter(run=run).values_list("pk", flat=True),
        Event: Event.objects.filter(run=run).values_list("pk", flat=True),
    }
    return {model: sorted(ids) for model, ids in found.items() if ids}


def _digest_of(event: Any) -> str:
    from ledger.digests import digest

    return digest(event.covered())


def _last_id(model: type[Model]) -> int:
    newest = model._default_manager.order_by("-pk").values_list("pk", flat=True).first()
    return newest or 0


def _values(
    model: type[Model],
    rows: dict[type[Model], list[int]],
    first: dict[type[Model], int],
    place: int,
    *,
    tag: str,
    changed: dict[str, timedelta],
    count: int,
) -> dict[str, str]:
    """Return the SQL of each column of a copy: new ids, moved times, and the template's value for the rest."""

    def copied_id(of: type[Model], at: str) -> str:
        return f"{first[of]} + (n.n - 1) * {len(rows[of])} + {at}"

    values: dict[str, str] = {}
    for field in model._meta.concrete_fields:
        column, of = f't."{field.column}"', field.related_model
        values[field.column] = column
        if field.primary_key:
            values[field.column] = copied_id(model, str(place))
        elif isinstance(of, type) and of in rows:
            places = " ".join(f"WHEN {pk} THEN {copied_id(of, str(at))}" for at, pk in enumerate(rows[of]))
            values[field.column] = f"CASE {column} {places} ELSE {column} END"
        elif field.name in ("public_id", "scope", "permit_ref"):
            values[field.column] = _copied_public_id(column, tag)
        elif field.name in changed:
            values[field.column] = _moved(column, changed[field.name] / count)
        elif field.column in ("announced_seq", "row_digests"):
            values[field.column] = "NULL"
    if model._meta.model_name == "run":
        values["key"] = f"'copy-{tag}-' || (10000000 + n.n)"
    return values


def _copied_public_id(column: str, tag: str) -> str:
    """Return the prefix of the kind and the number of the copy; a run has one row of each kind with a public id."""
    return f"substr({column}, 1, 4) || '{tag}' || (10000000 + n.n)"


def _moved(column: str, step: timedelta) -> str:
    from django.db import connection

    seconds = step.total_seconds()
    if connection.vendor == "postgresql":
        return f"{column} + n.n * interval '{seconds} seconds'"
    # SQLite has milliseconds; Django stores and parses microseconds.
    return f"strftime('%Y-%m-%d %H:%M:%f', {column}, (n.n * {seconds}) || ' seconds') || '000'"


def _copy_statement(model: type[Model], pk: int, values: dict[str, str], count: int) -> str:
    from django.db import connection

    table = model._meta.db_table
    into, selected = ", ".join(f'"{name}"' for name in values), ", ".join(values.values())
    if connection.vendor == "postgresql":
        numbers = f"generate_series(1, {count}) AS n(n)"
    else:
        series = f"SELECT 1 UNION ALL SELECT n + 1 FROM m WHERE n < {count}"  # noqa: S608  our own
        numbers = f"(WITH RECURSIVE m(n) AS ({series}) SELECT n FROM m) n"  # noqa: S608
    source = f'"{table}" t, {numbers} WHERE t.id = {pk}'
    return f'INSERT INTO "{table}" ({into}) SELECT {selected} FROM {source}'  # noqa: S608  our own


def analyze() -> None:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE" if connection.vendor == "postgresql" else "ANALYZE")


def main(waiting: int, ended: int, *, say: Callable[[str], None] = print) -> None:
    import django

    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    fill(waiting=waiting, ended=ended)
    say(f"{waiting} waiting, {ended} ended")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
