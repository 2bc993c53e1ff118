"""The rows that the hot use cases write equal those of a reference that saves each row by the ORM, one after the other."""

from __future__ import annotations

import itertools
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import patch

import pytest
from django.db import connection, models, transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ledger.digests import digest
from ledger.models import Effect, EffectReport
from reviewqueue import permissions
from runs.models import Agent, Checkpoint, Continuation, Decision, Event, Fact, Interrupt, Outcome, Permit, Run
from runs.use_cases import claim_continuation, start_run
from runs.use_cases.complete_run import complete_run
from runs.use_cases.report_effect import report_effect
from runs.use_cases.start_run import NewAsk, NewRun, create_ask, create_asks
from tests import builders
from tests.builders import a_policy, a_reviewer, a_running_run, a_wait, an_agent, claim, decide, suspend_run

pytestmark = pytest.mark.django_db

WRITTEN: list[type[models.Model]] = [Run, Checkpoint, Interrupt, Fact, Event, Decision, Permit, Continuation]
WRITTEN += [Effect, EffectReport, Outcome]
START = datetime(2026, 3, 4, 5, 6, 7, 891, tzinfo=UTC)

TEXTS = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), min_size=1, max_size=20)
NUMBERS = st.integers() | st.decimals(allow_nan=False, allow_infinity=False, places=3)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner),
    max_leaves=6,
)
REQUESTS = st.fixed_dictionaries(
    {
        "title": TEXTS,
        "message": TEXTS,
        "proposal": st.fixed_dictionaries({"name": TEXTS, "arguments": st.dictionaries(TEXTS, VALUES, max_size=3)}),
        "evidence": st.lists(st.fixed_dictionaries({"label": TEXTS, "value": VALUES}), max_size=2),
        "priority": st.integers(0, 100),
    }
)
VERDICTS = st.sampled_from(["approve", "reject", "respond"])


def save(row: models.Model) -> models.Model:
    row.save(force_insert=True)
    return row


def save_if_new(row: models.Model) -> bool:
    type(row)._default_manager.bulk_create([row], ignore_conflicts=True)
    keys = {name: getattr(row, name) for name in ("agent", "scope", "key") if hasattr(row, name)}  # a run or an effect
    found = type(row)._default_manager.get(**keys)
    row.pk = found.pk
    return bool(found.public_id == row.public_id)  # type: ignore[attr-defined]


def save_new(row: models.Model) -> None:
    assert save_if_new(row)


def update(prepared: Any, *, changed: str = "", **values: Any) -> None:
    found = prepared._build(**{name: values[name] for name in values if name not in prepared._columns})
    assert found.update(**{name: values[name] for name in prepared._columns}) == 1 or not changed


def as_reference() -> ExitStack:
    """Replace every prepared write by the ORM's own."""
    replaced = ExitStack()
    for module in ("timeline", "permits", "continuations", "decisions", "checkpoints", "use_cases.create_interrupts"):
        replaced.enter_context(patch(f"runs.{module}.insert_later", save))
    for module in ("interrupts", "continuations", "run_status", "decisions"):
        replaced.enter_context(patch(f"runs.{module}.update_later", update))
    for name, by_orm in (("insert_later", save), ("update_later", update)):
        replaced.enter_context(patch(f"ledger.effects.{name}", by_orm))
    replaced.enter_context(patch("runs.use_cases.complete_run.insert_later", save))
    replaced.enter_context(patch("runs.use_cases.start_run.insert_if_new_later", save_new))
    replaced.enter_context(patch("ledger.prepared_queries.insert_row", save))
    replaced.enter_context(patch("ledger.prepared_queries.insert_row_if_new", save_if_new))
    return replaced


def with_fixed_ids_and_times() -> ExitStack:
    fixed, numbers, times = ExitStack(), itertools.count(1), itertools.count(1)

    def now(*_: Any) -> datetime:
        return START + timedelta(seconds=next(times))

    modules = ("use_cases.start_run", "use_cases.create_interrupts", "decisions", "permits", "continuations")
    for module in (*(f"runs.{name}" for name in modules), "ledger.effects"):
        fixed.enter_context(patch(f"{module}.new_id", lambda prefix: f"{prefix}_{next(numbers)}"))
    fixed.enter_context(builders.at_time(now))
    fixed.enter_context(patch("runs.kill_switch.read_halt_and_clock", lambda _: (False, now())))
    read = claim_continuation.read_claim_basis
    fixed.enter_context(patch.object(claim_continuation, "read_claim_basis", lambda run: replace(read(run), now=now())))
    fixed.enter_context(patch.object(start_run, "read_halt_and_clock", lambda _: (False, now())))
    ask_basis = start_run.read_ask_basis
    fixed.enter_context(patch.object(start_run, "read_ask_basis", lambda *of: replace(ask_basis(*of), now=now())))
    return fixed


def rows_after(work: Any, *, as_written_by: ExitStack) -> dict[str, list[dict[str, Any]]]:
    """Do the work in a savepoint with fixed ids and times, and return every row; nothing of it stays."""
    outer = transaction.atomic()
    outer._from_testcase = True  # the transactions of use cases are durable
    with outer, with_fixed_ids_and_times(), as_written_by:
        _restart_keys()
        work()
        found = {model.__name__: [*model._default_manager.order_by("pk").values()] for model in WRITTEN}
        transaction.set_rollback(True)
    return found


def _restart_keys() -> None:
    """Give the next rows the same primary keys as those that were rolled back: digests cover them."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            for model in WRITTEN:
                cursor.execute("SELECT setval(pg_get_serial_sequence(%s, 'id'), 100000)", [model._meta.db_table])


def ask(agent: Agent, request: dict[str, Any], state: Any) -> Interrupt:
    wait = a_wait(**request)
    new = NewRun(key="w1", body_digest=digest(state), title=request["title"], metadata={"a": "b"})
    asked = NewAsk(request=new, wait=wait, state=state)
    return create_ask(agent=agent, ask=asked, check_assignees=permissions.check_assignees)[1]


@given(request=REQUESTS, state=VALUES, verdict=VERDICTS)
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_an_ask_its_decision_and_its_claim_write_the_rows_of_the_reference(request, state, verdict):
    a_policy("approval.action")
    agent, ana = an_agent(), a_reviewer()

    def work() -> None:
        interrupt = ask(agent, request, state)
        decide(interrupt, ana, verdict, message="no")
        claim(agent)

    written = rows_after(work, as_written_by=ExitStack())
    assert [len(written[name]) for name in ("Run", "Checkpoint", "Interrupt", "Decision")] == [1, 1, 1, 1]
    assert written == rows_after(work, as_written_by=as_reference())


@given(requests=st.lists(REQUESTS, min_size=1, max_size=3), state=VALUES)
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_asks_of_one_transaction_write_the_rows_of_the_reference(requests, state):
    a_policy("approval.action")
    agent = an_agent()

    def work() -> None:
        asks = [
            NewAsk(
                request=NewRun(key=f"w{place}", body_digest=digest(state), title=request["title"]),
                wait=a_wait(**request),
                state=state,
            )
            for place, request in enumerate(requests)
        ]
        checks = {"check_assignees": permissions.check_assignees, "check_key": lambda: None}
        assert None not in create_asks(agent=agent, asks=asks, **checks)

    written = rows_after(work, as_written_by=ExitStack())
    assert len(written["Interrupt"]) == len(written["Run"]) == len(requests)
    assert written == rows_after(work, as_written_by=as_reference())


@given(requests=st.lists(REQUESTS, min_size=1, max_size=3), facts=st.lists(VALUES, max_size=2))
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_suspend_and_its_decisions_write_the_rows_of_the_reference(requests, facts):
    a_policy("approval.action")
    agent, ana = an_agent(), a_reviewer()
    known = [builders.a_checked_fact(f"fact-{place}", value) for place, value in enumerate(facts)]

    def work() -> None:
        started = a_running_run(agent, key="r1")
        waits = [a_wait(f"wait-{place}", **request, facts=known) for place, request in enumerate(requests)]
        for interrupt in suspend_run(started, *waits).interrupts:
            decide(interrupt, ana)

    if known:
        builders.a_connection(agent=agent)
    written = rows_after(work, as_written_by=ExitStack())
    assert len(written["Interrupt"]) == len(requests)
    assert written == rows_after(work, as_written_by=as_reference())


@given(
    arguments=st.dictionaries(TEXTS, VALUES, max_size=3), receipt=VALUES, status=st.sampled_from(["applied", "failed"])
)
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_an_effect_its_outcome_and_the_completion_write_the_rows_of_the_reference(arguments, receipt, status):
    agent = an_agent()

    def work() -> None:
        started = a_running_run(agent, key="r1")
        by = {"agent": agent, "run_id": started.run.public_id}
        call = {"key": "order:1", "name": "issue_order", "arguments": arguments}
        permitted = {"still_may_decide": permissions.still_may_decide}
        begun = builders.begin_effect(**by, token=started.lease.token, **call, **permitted)
        attempt = str(begun.attempt_token)
        report_effect(**by, key="order:1", attempt_token=attempt, status=status, receipt=receipt)
        complete_run(**by, token=started.lease.token, result=receipt)

    written = rows_after(work, as_written_by=ExitStack())
    assert [len(written[name]) for name in ("Effect", "EffectReport", "Outcome")] == [1, 1, 1]
    assert written == rows_after(work, as_written_by=as_reference())
