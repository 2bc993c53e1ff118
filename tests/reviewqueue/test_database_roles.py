"""The database role of the application: it does the product's work, and cannot change tables, triggers or history."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.core.management import CommandError, call_command
from django.db import ProgrammingError, connection, transaction
from django.test import Client

from ledger.states import EffectStatus
from reviewqueue import permissions, tasks
from reviewqueue.operations import database_roles
from reviewqueue.operations.doctor import configuration, records
from runs.models import Event, Run
from runs.use_cases import report_effect
from runs.use_cases.complete_run import complete_run
from tests import builders

pytestmark = [pytest.mark.django_db, pytest.mark.postgresql]

ROLE = "reviewqueue_app"


@contextmanager
def as_application() -> Iterator[None]:
    with connection.cursor() as cursor:
        cursor.execute(f"SET ROLE {ROLE}")
        try:
            yield
        finally:
            cursor.execute("RESET ROLE")


@pytest.fixture
def role() -> str:
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE ROLE {ROLE}")  # ends with the transaction of the test
    call_command("grants", ROLE, apply=True, stdout=io.StringIO())
    return ROLE


def test_the_main_journey_needs_nothing_else(role: str, client: Client):
    with as_application():
        ana = builders.a_reviewer()
        interrupt = builders.a_waiting_interrupt()
        client.force_login(ana)
        assert client.get("/").status_code == 200
        assert client.get(f"/requests/{interrupt.public_id}/", follow=True).status_code in (200, 404)
        builders.decide(interrupt, ana)
        tasks.sweep()
        run = Run.objects.select_related("agent").get(pk=interrupt.run_id)
        [continuation] = run.continuations.filter(status="ready")
        claimed = builders.claim_by_id(run.agent, continuation.public_id)
        [answer] = claimed.answers
        words = {"agent": run.agent, "run_id": run.public_id, "key": "order:PR-4711"}
        begun = builders.begin_effect(
            still_may_decide=permissions.still_may_decide,
            token=claimed.lease.token,
            permit=answer.permit.public_id,
            **builders.CALL,
            **words,
        )
        report_effect.report_effect(attempt_token=begun.attempt_token, status=EffectStatus.APPLIED, **words)
        complete_run(agent=run.agent, run_id=run.public_id, token=claimed.lease.token, result=None)
        tasks.sweep()
        assert Run.objects.get(pk=run.pk).status == "completed"
        assert [found.message for found in records.triggers()] == []
        assert list(configuration.database_role()) == []


FORBIDDEN = [
    'DROP TRIGGER "runs_event_refuses_update" ON runs_event',
    "ALTER TABLE runs_event DISABLE TRIGGER ALL",
    "SET session_replication_role = replica",
    "DROP TABLE runs_halt",
    "CREATE TABLE planted (id int)",
    "UPDATE runs_event SET actor = 'system:other'",
    "DELETE FROM runs_event",
    "TRUNCATE runs_event CASCADE",
    "UPDATE runs_decision SET verdict = 'approve'",
    "DELETE FROM runs_decision",
    "UPDATE runs_policy SET quorum = 1",
    "UPDATE runs_permit SET digest = ''",
    "UPDATE ledger_effect SET name = 'other'",
    "DELETE FROM ledger_effectreport",
    "DELETE FROM django_migrations",
]


def test_it_cannot_change_tables_triggers_or_history(role: str):
    builders.a_waiting_interrupt()
    assert Event.objects.exists()
    with as_application(), connection.cursor() as cursor:
        for statement in FORBIDDEN:
            with pytest.raises(ProgrammingError, match=r"permission denied|must be owner"), transaction.atomic():
                cursor.execute(statement)


def test_the_doctor_notes_a_role_that_owns_the_tables():
    messages = [found.message for found in configuration.database_role()]
    assert any("append-only tables" in message for message in messages)
    assert not any(found.is_wrong for found in configuration.database_role())


def test_the_statements_are_printed_without_apply(role: str):
    out = io.StringIO()
    call_command("grants", ROLE, stdout=out)
    lines = out.getvalue().splitlines()
    assert (lines[0], lines[-1]) == ("BEGIN;", "COMMIT;")
    assert f'GRANT SELECT, INSERT ON "runs_schema" TO "{ROLE}";' in lines


@pytest.mark.parametrize(
    ("given", "reason"), [("nobody_here", "existing role"), ("current", "must not be a superuser")]
)
def test_an_unsuitable_role_is_refused(given: str, reason: str):
    name = connection.settings_dict["USER"] if given == "current" else given
    with pytest.raises(CommandError, match=reason):
        call_command("grants", name)


def test_a_member_of_the_owner_is_refused_also_if_it_inherits_nothing():
    """It could become the owner by SET ROLE. Run by a superuser, the owner itself is refused."""
    with connection.cursor() as cursor:
        cursor.execute("CREATE ROLE an_owner")
        cursor.execute("CREATE ROLE a_member NOINHERIT IN ROLE an_owner")
        cursor.execute("ALTER TABLE runs_event OWNER TO an_owner")
        for name in ("an_owner", "a_member"):
            with pytest.raises(CommandError, match="owner of the tables"):
                call_command("grants", name, stdout=io.StringIO())
        cursor.execute("SET ROLE a_member")
        try:
            assert any("owns 1 append-only" in power for power in database_roles.excessive_powers())
        finally:
            cursor.execute("RESET ROLE")


def test_each_table_with_triggers_has_its_guard():
    assert sorted(database_roles.guarded_tables()) == sorted(records.GUARDED)
