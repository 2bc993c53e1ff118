"""What is found when rows are written past the triggers, as a superuser of the database can: at use, and by the doctor.

The table of ``docs/tampering.md`` is held equal to what this test sees.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import IntegrityError, connection, transaction
from django.db.models import Model

from ledger import clock, row_digests
from ledger.append_only_triggers import KINDS, GuardTable, missing_guards
from ledger.digests import digest
from ledger.errors import Refusal
from ledger.models import Effect, EffectReport
from reviewqueue import permissions
from reviewqueue.operations.doctor import history_integrity, records, row_consistency
from runs.errors import RecordChanged
from runs.models import (
    Agent,
    Attachment,
    Checkpoint,
    ConfigurationRecord,
    Decision,
    EffectRule,
    Event,
    Interrupt,
    Permit,
    Policy,
    Run,
    Schema,
)
from runs.use_cases import begin_effect, report_effect
from runs.use_cases.claim_continuation import ClaimedRun
from tests import builders
from tests.planted_builders import a_planted_request
from tests.standing_rule_builders import a_decided_refund
from tests.unguarded import without_triggers

pytestmark = [pytest.mark.django_db, pytest.mark.proves(24)]

PAGE = Path(settings.ROOT) / "docs" / "tampering.md"
OTHER = {"supplier": "S-17", "amount": "999999.00"}
NOTHING = "-"
CALLED = str(builders.CALL["name"])


@dataclass(frozen=True, kw_only=True)
class Sample:
    """Runs in which every kind of record counts next: an effect that began, one that may, an answer, a request."""

    done: ClaimedRun  # its effect is applied
    permitted: ClaimedRun  # its effect has not begun
    rejected: ClaimedRun  # not approved
    decided: Interrupt  # not claimed
    waiting: Interrupt


def a_sample() -> Sample:
    builders.a_rule()
    builders.a_policy()
    done, permitted = claimed("approve"), claimed("approve")
    begin(done)
    report_effect.report_effect(
        agent=done.run.agent,
        run_id=done.run.public_id,
        key="order",
        attempt_token=begin_effect.attempt_tokens.make_attempt_token(done.run.public_id, "order", 1),
        status="applied",
        receipt={"order": "PO-1"},
    )
    rejected = claimed("reject")
    decided = builders.a_waiting_interrupt()
    builders.decide(decided, builders.a_reviewer())
    return Sample(
        done=done,
        permitted=permitted,
        rejected=rejected,
        decided=decided,
        waiting=builders.a_waiting_interrupt(),
    )


def claimed(verdict: str) -> ClaimedRun:
    interrupt = builders.a_waiting_interrupt()
    builders.decide(interrupt, builders.a_reviewer(), verdict)
    [found] = builders.claim(interrupt.agent)
    return found


def begin(
    by: ClaimedRun, arguments: Any = None, permit: str | None = None, key: str = "order"
) -> begin_effect.BegunEffect:
    given = arguments or builders.CALL["arguments"]
    words = {"key": key, "name": builders.CALL["name"], "arguments": given}
    return begin_call(by, permit=permit, **words)


def begin_call(by: ClaimedRun, **words: Any) -> begin_effect.BegunEffect:
    judged = {"still_may_decide": permissions.still_may_decide}
    return builders.begin_effect(agent=by.run.agent, run_id=by.run.public_id, token=by.lease.token, **words, **judged)


# --- the ways to tamper -----------------------------------------------------------------------------------------------


def write(row: Model, **columns: Any) -> None:
    type(row)._default_manager.filter(pk=row.pk).update(**columns)


def delete(row: Model) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f'DELETE FROM "{row._meta.db_table}" WHERE id = %s', [row.pk])  # noqa: S608  our own names


def insert(row: Model, **columns: Any) -> Model:
    """Insert a copy of a row."""
    names = [field.attname for field in row._meta.concrete_fields if not field.primary_key]
    copy = type(row)(**({name: getattr(row, name) for name in names} | columns))
    copy.save(force_insert=True)
    return copy


def permit_of(by: ClaimedRun) -> Permit:
    return Permit.objects.get(run=by.run)


def decision_of(by: ClaimedRun) -> Decision:
    return Decision.objects.get(interrupt__run=by.run)


def effect_of(by: ClaimedRun) -> Effect:
    return Effect.objects.get(scope=by.run.public_id)


def a_call(arguments: Any) -> dict[str, Any]:
    return {"name": builders.CALL["name"], "arguments": arguments}


def newest_policy() -> Policy:
    return Policy.objects.filter(reason="approval.action").order_by("-version")[0]


def insert_effect(story: Sample) -> None:
    insert(effect_of(story.done), public_id="eff_inserted", key="another", permit_ref=None)


def insert_decision(story: Sample) -> None:
    told = decision_of(story.rejected)
    insert(
        told, public_id="dec_inserted", status="counted", closes=False, by_id=builders.a_person("eve@example.org").pk
    )


def insert_permit(story: Sample) -> None:
    call = a_call(builders.CALL["arguments"])
    told = permit_of(story.permitted)
    decision, run = decision_of(story.rejected), story.rejected.run
    insert(told, public_id="per_inserted", decision_id=decision.pk, run_id=run.pk, call=call, digest=digest(call))


def change_event(story: Sample) -> None:
    recorded = Event.objects.get(run=story.permitted.run, type="interrupt.answered")
    write(recorded, refs=recorded.refs | {"verdict": "reject"})


def insert_event(story: Sample) -> None:
    last = Event.objects.filter(run=story.permitted.run).latest("seq")
    insert(last, seq=last.seq + 1, announced_seq=None)


# --- the uses ---------------------------------------------------------------------------------------------------------


def to_begin(story: Sample) -> object:
    return begin(story.permitted, permit=permit_of(story.permitted).public_id)


def to_begin_another_call(story: Sample) -> object:
    return begin(story.permitted, OTHER, permit=permit_of(story.permitted).public_id)


def to_begin_without_permit(story: Sample) -> object:
    return begin(story.permitted)


def to_begin_unapproved(story: Sample) -> object:
    return begin(story.rejected)


def to_begin_with_inserted(story: Sample) -> object:
    return begin(story.rejected, permit="per_inserted")


def to_begin_again(story: Sample) -> object:
    begun = begin(story.done)
    return begun if begun.perform else None


def to_decide(story: Sample) -> object:
    return builders.decide(story.waiting, builders.a_reviewer())


def to_claim(story: Sample) -> object:
    return builders.claim(story.decided.agent)


def to_open(_: Sample) -> object:
    return builders.a_waiting_interrupt()


@dataclass(frozen=True, kw_only=True)
class Case:
    """One way to tamper with one kind of record; ``use`` is what relies on it next."""

    record: str
    how: str
    tamper: Callable[[Sample], object]
    use: Callable[[Sample], object] | None = None
    used: str = ""


BEGIN, CLAIM, DECIDE, OPEN = "effect begins", "claim", "decision", "request opened"


def case(record: str, how: str, tamper: Callable[[Sample], object], use: Any = None, used: str = "") -> Case:
    return Case(record=record, how=how, tamper=tamper, use=use, used=used)


CASES = [
    case(
        "permit",
        "changed",
        lambda story: write(permit_of(story.permitted), call=a_call(OTHER), digest=digest(a_call(OTHER))),
        to_begin_another_call,
        BEGIN,
    ),
    case("permit", "deleted", lambda story: delete(permit_of(story.permitted)), to_begin_without_permit, BEGIN),
    case("permit", "inserted", insert_permit, to_begin_with_inserted, BEGIN),
    case(
        "decision",
        "changed",
        lambda story: write(decision_of(story.permitted), by_id=builders.a_person("eve@example.org").pk),
        to_begin,
        BEGIN,
    ),
    case("decision", "deleted", lambda story: delete(decision_of(story.permitted)), to_begin_without_permit, BEGIN),
    case("decision", "inserted", insert_decision),
    case(
        "input or message of a decision",
        "changed",
        lambda story: write(Decision.objects.get(interrupt=story.decided), message="another"),
        to_claim,
        CLAIM,
    ),
    case(
        "proposal of a request",
        "changed",
        lambda story: write(story.waiting, proposal=a_call(OTHER)),
        to_decide,
        DECIDE,
    ),
    case("title of a request", "changed", lambda story: write(story.waiting, title="Another"), to_decide, DECIDE),
    case("quorum of a request", "changed", lambda story: write(story.waiting, quorum=3), to_decide, DECIDE),
    case("request", "deleted", lambda story: delete(story.decided)),
    case("request", "inserted", lambda story: insert(story.waiting, public_id="int_inserted", key="another"), None),
    case(
        "checkpoint",
        "changed",
        lambda story: write(story.decided.checkpoint, state={"a": 1}, digest=digest({"a": 1})),
        to_claim,
        CLAIM,
    ),
    case("checkpoint", "deleted", lambda story: delete(story.decided.checkpoint), to_claim, CLAIM),
    case("checkpoint", "inserted", lambda story: insert(story.decided.checkpoint, number=99)),
    case("policy", "changed", lambda _: write(newest_policy(), permit_ttl=timedelta(days=365)), to_decide, DECIDE),
    case("policy", "deleted", lambda _: delete(newest_policy())),
    case("policy", "inserted", lambda _: insert(newest_policy(), version=99), to_open, OPEN),
    case(
        "effect rule",
        "changed",
        lambda _: write(EffectRule.objects.get(), name_pattern="nothing"),
        to_begin_unapproved,
        BEGIN,
    ),
    case("effect rule", "deleted", lambda _: delete(EffectRule.objects.get()), to_begin_unapproved, BEGIN),
    case(
        "effect rule",
        "inserted",
        lambda _: insert(EffectRule.objects.get(), name_pattern=CALLED, action="allow", reason=""),
        to_begin_unapproved,
        BEGIN,
    ),
    case(
        "effect mode of an agent",
        "changed",
        lambda _: write(Agent.objects.get(), effect_mode="listed"),
        to_begin,
        BEGIN,
    ),
    case(
        "effect",
        "changed",
        lambda story: write(effect_of(story.done), status="failed", retryable=True),
        to_begin_again,
        BEGIN,
    ),
    case("effect", "deleted", lambda story: delete(effect_of(story.done)), to_begin_again, BEGIN),
    case("effect", "inserted", insert_effect),
    case("report of an effect", "changed", lambda _: write(EffectReport.objects.get(), by="agent:another")),
    case("report of an effect", "deleted", lambda _: delete(EffectReport.objects.get())),
    case("report of an effect", "inserted", lambda _: insert(EffectReport.objects.get(), by="agent:another")),
    case("event", "changed", change_event, to_begin, BEGIN),
    case(
        "event",
        "deleted",
        lambda story: delete(Event.objects.get(run=story.permitted.run, type="interrupt.answered")),
        to_begin,
        BEGIN,
    ),
    case("event", "inserted", insert_event),
    case(
        "configuration record",
        "changed",
        lambda _: write(ConfigurationRecord.objects.latest("seq"), actor="system:another"),
    ),
    case("configuration record", "deleted", lambda _: delete(ConfigurationRecord.objects.latest("seq"))),
    case(
        "configuration record",
        "inserted",
        lambda _: insert(ConfigurationRecord.objects.latest("seq"), seq=10_000),
    ),
]


def found_by_the_doctor() -> list[str]:
    checks = (
        row_consistency.inconsistent_runs(newest=None),
        row_consistency.dangling_references(),
        records.configuration(),
        history_integrity.feed_gaps(),
    )
    return [finding.message for check in checks for finding in check if finding.is_wrong]


@contextmanager
def rolled_back() -> Iterator[None]:
    """Roll back everything inside, although use cases open transactions there."""
    block = transaction.atomic()
    block._from_testcase = True  # type: ignore[attr-defined]
    with block:
        yield
        transaction.set_rollback(True)
    row_digests.forget_written_rows()


def is_stopped(use: Callable[[Sample], object], story: Sample) -> bool:
    """Tell whether nothing came of a use: it was refused, or gave nothing."""
    try:
        return not use(story)
    except Refusal:
        return True


def test_every_change_past_the_triggers_is_found_as_the_page_says():
    story = a_sample()
    assert found_by_the_doctor() == []
    for case in CASES:
        if case.use is not None:
            with rolled_back():
                is_its_own = case.use is to_begin_again or case.use is to_begin_with_inserted
                known = case.use in {to_begin_another_call, to_begin_without_permit, to_begin_unapproved}
                assert is_its_own or known or not is_stopped(case.use, story), f"{case.record}: nothing to stop"
    seen: dict[str, dict[str, str]] = {}
    for case in CASES:
        with rolled_back(), without_triggers():
            case.tamper(story)
            by_doctor = found_by_the_doctor()
            assert by_doctor, f"{case.record} {case.how}: the doctor finds nothing"
        at_use = ""
        if case.use is not None:
            with rolled_back():
                with without_triggers():
                    case.tamper(story)
                assert is_stopped(case.use, story), f"{case.record} {case.how}: {case.used} goes through"
                at_use = f"{case.used}, "
        seen.setdefault(case.record, {})[case.how] = f"{at_use}doctor"
    table = [
        f"| {record} | {found.get('changed', NOTHING)} | {found.get('deleted', NOTHING)} "
        f"| {found.get('inserted', NOTHING)} |"
        for record, found in seen.items()
    ]
    print("\n".join(table))  # noqa: T201  the table is asked for
    written = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    assert [line for line in written if line in table] == table


def test_a_permit_changed_past_the_triggers_begins_no_effect():
    builders.a_rule()
    taken = claimed("approve")
    with without_triggers():
        write(permit_of(taken), call=a_call(OTHER), digest=digest(a_call(OTHER)))
    with pytest.raises(RecordChanged) as refused:
        begin(taken, OTHER, permit=permit_of(taken).public_id)
    assert refused.value.extra["record"] == permit_of(taken).covered_as
    assert not Effect.objects.exists()
    last = Event.objects.filter(run=taken.run).latest("seq")
    assert (last.type, last.refs["code"]) == ("effect.refused", "record_changed")


def test_a_permit_whose_end_was_moved_begins_no_effect():
    taken = claimed("approve")
    with without_triggers():
        write(permit_of(taken), valid_until=clock.now() + timedelta(days=365))
    with pytest.raises(RecordChanged):
        begin(taken, permit=permit_of(taken).public_id)


def test_events_whose_digests_were_erased_exempt_no_row():
    taken = claimed("approve")
    with without_triggers():
        Event.objects.filter(run=taken.run).update(row_digests=None)
        write(permit_of(taken), valid_until=clock.now() + timedelta(days=365))
    with pytest.raises(RecordChanged):
        begin(taken, permit=permit_of(taken).public_id)


def test_an_effect_whose_outcome_was_changed_is_not_begun_again():
    builders.a_rule()
    taken = claimed("approve")
    begin(taken)
    write(effect_of(taken), status="failed", retryable=True)
    with pytest.raises(RecordChanged):
        begin(taken)
    assert effect_of(taken).attempt == 1


@pytest.mark.parametrize("how", ["changed", "deleted"])
def test_a_permit_begins_no_second_effect_after_its_first_was_taken_out_of_the_ledger(how: str):
    builders.a_rule()
    taken = claimed("approve")
    begin(taken)
    with without_triggers():
        if how == "changed":
            write(effect_of(taken), permit_ref=None)
        else:
            delete(effect_of(taken))
    with pytest.raises(RecordChanged) as refused:
        begin(taken, permit=permit_of(taken).public_id, key="another")
    assert refused.value.extra["record"] == "effect:order"


def test_a_changed_request_is_not_decided():
    waiting = builders.a_waiting_interrupt()
    with without_triggers():
        write(waiting, message="Another message")
    with pytest.raises(RecordChanged):
        builders.decide(waiting, builders.a_reviewer())
    assert Interrupt.objects.get().status == "waiting"


def test_a_quorum_lowered_in_place_decides_nothing():
    builders.a_reviewer("ben@example.org")
    builders.a_reviewer()
    waiting = builders.a_waiting_interrupt(builders.a_wait(wish={"quorum": 2}))
    with without_triggers():
        write(waiting, quorum=1)
    with pytest.raises(RecordChanged):
        builders.decide(waiting, builders.a_reviewer())


def test_a_policy_changed_in_place_opens_and_decides_nothing():
    builders.a_policy(quorum=2)
    builders.a_reviewer("ben@example.org")
    builders.a_reviewer()
    waiting = builders.a_waiting_interrupt()
    with without_triggers():
        write(newest_policy(), quorum=1)
    with pytest.raises(RecordChanged):
        builders.decide(waiting, builders.a_reviewer())
    with pytest.raises(RecordChanged):
        builders.a_waiting_interrupt()


def test_a_checkpoint_changed_with_its_digest_goes_to_no_worker():
    interrupt = builders.a_waiting_interrupt()
    builders.decide(interrupt, builders.a_reviewer())
    with without_triggers():
        write(interrupt.checkpoint, state={"a": 1}, digest=digest({"a": 1}))
    assert builders.claim(interrupt.agent) == []
    assert Run.objects.get().status == "blocked"


def test_a_changed_record_is_named_by_the_doctor():
    taken = claimed("approve")
    with without_triggers():
        write(permit_of(taken), valid_until=clock.now() + timedelta(days=365))
    [message] = found_by_the_doctor()
    assert message == f"Run {taken.run.public_id}: permit {permit_of(taken).public_id} was changed."


def test_an_answer_schema_is_as_it_was_created_until_it_is_changed():
    builders.a_waiting_interrupt(builders.an_input_wait())
    assert found_by_the_doctor() == []
    schema = Schema.objects.get()
    with without_triggers():
        write(schema, body=schema.body | {"title": "Another"})
    assert f"The answer schema {schema.pk} was changed." in found_by_the_doctor()


def test_a_changed_policy_is_named_by_the_doctor():
    policy = builders.a_policy(quorum=2)
    with without_triggers():
        write(policy, quorum=1)
    [message] = found_by_the_doctor()
    assert message == f"Not as recorded: policy {policy.pk} ({policy}) was changed: quorum."


def an_attachment(interrupt: Interrupt) -> Attachment:
    now = clock.now()
    content = {"name": "LT.pdf", "media_type": "application/pdf", "size": 1, "digest": "sha256:1", "stored_as": "a/1"}
    return Attachment.objects.create(
        public_id="att_1",
        run=interrupt.run,
        interrupt=interrupt,
        person=builders.a_reviewer(),
        status="offered",
        created_at=now,
        added_at=now,
        **content,
    )


@pytest.mark.parametrize("how", ["UPDATE", "DELETE", "TRUNCATE", "REPLACE"])
@pytest.mark.parametrize("table", records.GUARDED)
def test_the_database_itself_refuses_to_change_what_is_append_only(table: str, how: str):
    if how == "TRUNCATE" and connection.vendor == "sqlite":
        pytest.skip("SQLite has no TRUNCATE")
    if how == "REPLACE" and connection.vendor == "postgresql":
        pytest.skip("PostgreSQL has no REPLACE")
    if table in {"runs_revision", "runs_schema", "ledger_order"} and how != "TRUNCATE":
        pytest.skip("the sample has no row of this kind")
    if how != "TRUNCATE":
        an_attachment(a_sample().waiting)
    if "plantedrequest" in table:
        a_planted_request()
    if "standingrule" in table:
        a_decided_refund()
    connection.check_constraints()  # TRUNCATE waits for deferred ones
    statement = {
        "UPDATE": f'UPDATE "{table}" SET id = id + 1000000',  # noqa: S608  our own names
        "DELETE": f'DELETE FROM "{table}"',  # noqa: S608  our own names
        "TRUNCATE": f'TRUNCATE "{table}" CASCADE',
        "REPLACE": f'REPLACE INTO "{table}" SELECT * FROM "{table}" LIMIT 1',  # noqa: S608  our own names
    }[how]
    with pytest.raises(IntegrityError, match="is append-only"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement)


def test_every_append_only_table_has_its_triggers():
    """A migration that remakes a table on SQLite drops them: it has to repeat its GuardTable."""
    assert missing_guards(records.GUARDED) == []
    assert list(records.triggers()) == []


def test_a_trigger_that_is_gone_is_found():
    with connection.cursor() as cursor:
        on = ' ON "runs_permit"' if connection.vendor == "postgresql" else ""
        cursor.execute(f'DROP TRIGGER "runs_permit_refuses_update"{on}')
    [finding] = records.triggers()
    assert "runs_permit_refuses_update" in finding.message


def test_a_recorded_removal_lets_an_effect_rule_go():
    rule = builders.a_rule()
    builders.remove_rule(rule)
    assert list(records.configuration()) == []
    assert begin(claimed("reject")).perform


def changed_rule() -> None:
    write(EffectRule.objects.get(), action="allow", reason="")


def deleted_rule() -> None:
    delete(EffectRule.objects.get())


def inserted_rule() -> None:
    insert(EffectRule.objects.get(), name_pattern=CALLED, action="allow", reason="")


def changed_mode() -> None:
    write(Agent.objects.get(), effect_mode="any")


@pytest.mark.parametrize("tamper", [changed_rule, deleted_rule, inserted_rule, changed_mode])
def test_effect_rules_or_a_mode_changed_past_the_triggers_begin_no_effect(tamper: Callable[[], None]):
    builders.a_rule()
    taken = claimed("reject")
    builders.set_effect_mode(taken.run.agent, "listed")
    with without_triggers():
        tamper()
    for name in (CALLED, "send_mail"):
        with pytest.raises(RecordChanged) as refused:
            begin_call(taken, key=name, name=name, arguments=1)
        assert refused.value.extra["record"] == f"effect rules of {taken.run.agent.slug}"
    assert not Effect.objects.exists()
    last = Event.objects.filter(run=taken.run).latest("seq")
    assert (last.type, last.refs["code"]) == ("effect.refused", "record_changed")


def test_a_changed_mode_is_named_by_the_doctor():
    agent = builders.an_agent()
    builders.set_effect_mode(agent, "listed")
    assert list(records.configuration()) == []
    write(agent, effect_mode="any")
    [message] = found_by_the_doctor()
    assert message == f"Not as recorded: agent {agent.pk} ({agent}) was changed: effect_mode."


def test_a_recorded_change_does_not_make_good_a_change_past_the_program():
    agent = builders.an_agent()
    builders.set_effect_mode(agent, "listed")
    write(agent, effect_mode="any")
    builders.a_rule()
    [message] = found_by_the_doctor()
    assert message == f"Not as recorded: agent {agent.pk} ({agent}) was changed: effect_mode."


def test_a_rewritten_configuration_is_found_by_its_anchor():
    builders.a_policy()
    kept = list(history_integrity.anchors())
    assert list(history_integrity.broken_anchors(kept)) == []
    last = ConfigurationRecord.objects.latest("seq")
    last.actor = "system:another"
    with without_triggers():
        write(last, actor=last.actor, digest=digest(last.covered()))
    [finding] = history_integrity.broken_anchors(kept)
    assert finding.message.startswith("configuration: ")


def test_rows_of_a_version_that_recorded_no_digests_are_not_called_changed():
    """The events of a run that began before the upgrade have no digests; what it does from then on is covered."""
    interrupt = builders.a_waiting_interrupt()
    with without_triggers():
        forget_digests(interrupt.run)
    assert found_by_the_doctor() == []
    builders.decide(interrupt, builders.a_reviewer())
    assert found_by_the_doctor() == []
    [taken] = builders.claim(interrupt.agent)
    assert begin(taken, permit=taken.permits[0].public_id).perform
    with without_triggers():
        write(permit_of(taken), valid_until=clock.now() + timedelta(days=9))
    assert found_by_the_doctor() != []


def forget_digests(run: Run) -> None:
    prev = ""
    for event in Event.objects.filter(run=run).order_by("seq"):
        event.row_digests, event.prev = None, prev
        prev = event.digest = digest(event.covered())
        write(event, row_digests=None, prev=event.prev, digest=event.digest)
    Run.objects.filter(pk=run.pk).update(timeline_head=prev)


def test_states_past_their_time_can_be_erased_and_nothing_else_of_a_checkpoint():
    checkpoint = builders.a_waiting_interrupt().checkpoint
    with pytest.raises(IntegrityError), transaction.atomic():
        Checkpoint.objects.filter(pk=checkpoint.pk).update(state={})
    with pytest.raises(IntegrityError), transaction.atomic():
        Checkpoint.objects.filter(pk=checkpoint.pk).update(state=None)
    assert Checkpoint.objects.filter(pk=checkpoint.pk).update(state=None, erased_at=clock.now()) == 1


def test_a_guard_describes_itself():
    guard = GuardTable("runs_event", ["seq"])
    assert guard.describe() == "Guard the append-only table runs_event"
    assert set(KINDS) == {"sqlite", "postgresql"}


@pytest.mark.parametrize("how", ["another person", "another message", "deleted"])
def test_a_changed_vote_of_a_quorum_begins_no_effect(how: str):
    builders.a_rule()
    ben, ana = builders.a_reviewer("ben@example.org"), builders.a_reviewer()
    interrupt = builders.a_waiting_interrupt(builders.a_wait(wish={"quorum": 2}))
    builders.decide(interrupt, ben)
    builders.decide(interrupt, ana)
    [taken] = builders.claim(interrupt.agent)
    vote = Decision.objects.get(by=ben)
    with without_triggers():
        if how == "another person":
            write(vote, by=builders.a_reviewer("eve@example.org"))
        elif how == "another message":
            write(vote, message="Agreed.")
        else:
            delete(vote)
    with pytest.raises(RecordChanged):
        begin(taken)
    assert not Effect.objects.exists()


def test_a_policy_inserted_past_the_chain_holds_its_run_and_no_other():
    policy = builders.a_policy()
    first, second = builders.a_waiting_interrupt(), builders.a_waiting_interrupt(builders.an_input_wait())
    builders.decide(first, builders.a_reviewer())
    builders.decide(second, builders.a_reviewer(), "answer", input={"certificate_no": "LT-1"})
    policy.pk, policy.version = None, policy.version + 1
    policy.save(force_insert=True)
    [taken] = builders.claim(first.agent)
    assert taken.run == second.run
    first.run.refresh_from_db()
    assert first.run.status == "blocked"
