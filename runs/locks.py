"""Row locks, taken by every transaction in one order: run, interrupts by id, rule, continuation, effect, signal.

Transactions that lock the same rows in different orders deadlock, so runs and interrupts are locked only by these
functions, and no transaction locks two runs. Read the clock (``ledger.clock``) after the last lock. Effects are locked
by ``ledger.effects``, after their run.

A lock is NO KEY UPDATE: a plain FOR UPDATE would block every insert of a row that has a foreign key to the locked one.
Requests wait for a lock. Sweeps pass ``skip_locked``: the row is due again a second later, and one frozen transaction
cannot stop the sweep.
"""

from __future__ import annotations

from django.db.models import OuterRef, QuerySet

from ledger.errors import Busy, NotFound
from ledger.log_context import note_ids, note_run
from ledger.prepared_queries import PreparedQuery, prepared
from ledger.transactions import assert_in_transaction
from runs.configuration_history import recorded_policy
from runs.models import Agent, Interrupt, Run


def locked_runs(*, skip_locked: bool = False) -> QuerySet[Run]:
    """Return a queryset that locks the runs it reads, for lookups that the functions below do not have."""
    assert_in_transaction()
    return Run.objects.select_for_update(of=("self",), no_key=True, skip_locked=skip_locked)


def lock_run(pk: int, *, skip_locked: bool = False) -> Run | None:
    """Lock and return a run, with its agent; ``None`` if another transaction has it locked and ``skip_locked`` is set."""
    return _note_run(locked_runs(skip_locked=skip_locked).select_related("agent").filter(pk=pk).first())


def lock_run_by_id(run_id: str, *, skip_locked: bool = False) -> Run | None:
    """Lock and return the run with a public id, with its agent."""
    return _note_run(locked_runs(skip_locked=skip_locked).select_related("agent").filter(public_id=run_id).first())


def lock_own_run(agent: Agent, run_id: str) -> Run:
    """Lock and return the agent's run with a public id: the first statement of a worker's use case. Raises ``NotFound``."""
    assert_in_transaction()
    run = _own_run.first(agent=agent.pk, run_id=run_id)
    if run is None:
        raise NotFound
    run.agent = agent
    _note_run(run)
    return run


@prepared
def _own_run(agent: int, run_id: str) -> QuerySet[Run]:
    return locked_runs().filter(agent=agent, public_id=run_id, planted=None)


def lock_run_of_continuation(continuation_id: str) -> Run | None:
    """Lock and return the run of a continuation, with its agent."""
    return _note_run(locked_runs().select_related("agent").filter(continuations__public_id=continuation_id).first())


def lock_run_of_interrupt(interrupt_pk: int, *, skip_locked: bool = False) -> Run | None:
    """Lock and return the run of an interrupt: the first lock of every transaction that changes the interrupt."""
    assert_in_transaction()
    query = _run_of_interrupt_if_free if skip_locked else _run_of_interrupt
    return _note_run(query.first(interrupt=interrupt_pk))


@prepared
def _run_of_interrupt(interrupt: int) -> QuerySet[Run]:
    return locked_runs().filter(interrupts=interrupt)


@prepared
def _run_of_interrupt_if_free(interrupt: int) -> QuerySet[Run]:
    return locked_runs(skip_locked=True).filter(interrupts=interrupt)


def lock_interrupt(run: Run, pk: int) -> Interrupt:
    """Lock and return an interrupt of the locked run, with queue, policy, schema and checkpoint.

    ``recorded_policy`` is its policy's configuration record. The checkpoint's state is deferred, because it can be
    large.
    """
    assert_in_transaction()
    [interrupt] = _interrupt.all(pk=pk)
    interrupt.run = run
    note_ids(interrupt=interrupt.public_id)
    return interrupt


@prepared
def _interrupt(pk: int) -> QuerySet[Interrupt]:
    related = _for_update(Interrupt.objects.filter(pk=pk)).select_related("queue", "policy", "schema", "checkpoint")
    return related.defer("checkpoint__state").annotate(recorded_policy=recorded_policy(OuterRef("policy_id")))


def lock_run_and_interrupt(interrupt_pk: int, *, skip_locked: bool = False) -> tuple[Run, Interrupt]:
    """Lock and return the run of an interrupt and the interrupt, in this order, by one statement.

    The statement may have waited for the lock. It returns both rows as they are since, and rows that never change:
    policy, its configuration record (``recorded_policy``), schema and checkpoint. The queue is read later.

    ``skip_locked``: do not wait. Raises ``Busy`` if another transaction has one of them locked.
    """
    assert_in_transaction()
    found = (_run_and_interrupt_if_free if skip_locked else _run_and_interrupt).first(pk=interrupt_pk)
    if found is None and skip_locked:
        raise Busy
    return _noted(found)


def lock_run_and_found_interrupt(query: PreparedQuery[Interrupt], **values: int | str) -> tuple[Run, Interrupt]:
    """Lock and return them as ``lock_run_and_interrupt`` does, for a query made of ``with_locked_run``.

    Conditions of the query are checked again if the statement had to wait for the lock.
    """
    assert_in_transaction()
    return _noted(query.first(**values))


def with_locked_run(interrupts: QuerySet[Interrupt], *, skip_locked: bool = False) -> QuerySet[Interrupt]:
    """Return a queryset that locks the runs of interrupts and the interrupts, and reads what never changes with them."""
    # PostgreSQL locks the rows in the order of `of`.
    locked = interrupts.select_for_update(of=("run", "self"), no_key=True, skip_locked=skip_locked)
    related = locked.select_related("run", "policy", "schema", "checkpoint").defer("checkpoint__state")
    return related.annotate(recorded_policy=recorded_policy(OuterRef("policy_id")))


@prepared
def _run_and_interrupt(pk: int) -> QuerySet[Interrupt]:
    return with_locked_run(Interrupt.objects.filter(pk=pk))


@prepared
def _run_and_interrupt_if_free(pk: int) -> QuerySet[Interrupt]:
    return with_locked_run(Interrupt.objects.filter(pk=pk), skip_locked=True)


def _noted(interrupt: Interrupt | None) -> tuple[Run, Interrupt]:
    if interrupt is None:
        raise NotFound
    _note_run(interrupt.run)
    note_ids(interrupt=interrupt.public_id)
    return interrupt.run, interrupt


def lock_interrupts(run: Run, interrupts: QuerySet[Interrupt]) -> list[Interrupt]:
    """Lock and return interrupts of the locked run by ascending id."""
    assert_in_transaction()
    locked = list(_for_update(interrupts).order_by("id"))
    for interrupt in locked:
        interrupt.run = run
    return locked


def _for_update(interrupts: QuerySet[Interrupt]) -> QuerySet[Interrupt]:
    return interrupts.select_for_update(of=("self",), no_key=True)


def _note_run(run: Run | None) -> Run | None:
    """Name the run in the log lines that follow, and its agent if it was read with it."""
    if run is not None and Run.agent.is_cached(run):
        note_run(run.public_id, agent=run.agent.slug)
    elif run is not None:
        note_run(run.public_id)
    return run
