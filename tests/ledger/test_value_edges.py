"""Values at their limits: numbers, times, ids, look-alikes, undo keys, triggers and the SQL of prepared queries."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from types import SimpleNamespace

import pytest
from django.db import connection, models

from ledger import (
    actors,
    compensation,
    confusables,
    datetimes,
    effects,
    exact_json,
    json_diff,
    prepared_queries,
    probes,
    public_ids,
    reconciliation,
    row_digests,
    transactions,
)
from ledger.append_only_triggers import GuardTable, missing_guards, trigger_name
from ledger.errors import Busy, PayloadInvalid, Refusal
from ledger.states import EffectStatus
from tests.ledger.effect_builders import LATER, NOON, RUN, a_person, an_effect, settle

UNDONE_BY = effects.EffectDeclaration(compensation={"name": "cancel_order", "arguments": {}}, compensate_on=("cancel",))


# --- numbers, times, ids ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["0." + "1" * 399, "1" * 310, "-" + "1" * 310, "1" * 401, "1.5e309", "-1.5e309", "1.5e-309"]
)
def test_a_number_past_a_limit_is_refused(text):
    with pytest.raises(PayloadInvalid):
        exact_json.parse(text)


@pytest.mark.parametrize("text", ["0." + "1" * 398, "1" * 309, "-" + "1" * 309, "1.5e308"])
def test_a_number_at_a_limit_is_kept(text):
    assert exact_json.dumps(exact_json.parse(text)).lower().replace("+", "") == text


@pytest.mark.parametrize(
    ("offset", "is_time"), [("+23:59", True), ("+00:59", True), ("+23:60", False), ("+24:00", False)]
)
def test_an_offset_has_at_most_23_hours_and_59_minutes(offset, is_time):
    if is_time:
        assert datetimes.parse_datetime(f"2026-12-01T12:00:00{offset}").year == 2026
    else:
        with pytest.raises(datetimes.InvalidDatetime):
            datetimes.parse_datetime(f"2026-12-01T12:00:00{offset}")


def test_a_short_fraction_of_a_second_is_filled_up_from_the_right():
    assert datetimes.parse_datetime("2026-12-01T12:00:00.5Z").microsecond == 500_000
    assert datetimes.parse_datetime("2026-12-01T12:00:00.123456789Z").microsecond == 123_456


def test_every_character_of_an_id_is_random():
    ids = [public_ids.new_id("run") for _ in range(60)]
    assert {len(it) for it in ids} == {len("run_") + 26}
    assert min(len({it[place] for it in ids}) for place in range(4, 30)) > 10


def test_separators_are_one_in_a_skeleton_and_wildcards_stay():
    assert confusables.skeleton("issue--order!") == confusables.skeleton("issue_order")
    assert confusables.skeleton("issue_*", wildcards="*") == "lssue_*"
    assert confusables.skeleton("__") == ""


# --- undo -------------------------------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_only_the_key_of_the_last_attempt_finds_the_effect_that_it_compensates():
    effect = an_effect("applied", declared=UNDONE_BY)
    assert compensation.lock_effect_to_compensate(RUN, compensation.compensation_key(effect)) == effect
    for key in (
        effect.public_id,
        f"{effect.public_id}:1",
        f"redo:{effect.public_id}:1",
        f"undo:{effect.public_id}:2",
        f"undo:{effect.public_id}:01",
        f"undo:{effect.public_id}:\u0661",
        f"undo:{effect.public_id}:",
        f"undo:{effect.public_id}:-1",
    ):
        assert compensation.lock_effect_to_compensate(RUN, key) is None, key
    assert compensation.lock_effect_to_compensate("run_other", compensation.compensation_key(effect)) is None


@pytest.mark.django_db
def test_the_first_to_undo_is_the_newest_that_this_end_undoes():
    older = an_effect("applied", key="older", declared=UNDONE_BY)
    on_failure = effects.EffectDeclaration(
        compensation={"name": "cancel_order", "arguments": {}}, compensate_on=("fail",)
    )
    newer = an_effect("applied", key="newer", declared=on_failure, now=LATER)
    assert compensation.find_newest_due_compensation(RUN, on="cancel") == older
    assert compensation.find_newest_due_compensation(RUN, on="fail") == newer
    assert compensation.find_newest_due_compensation(RUN, on="expire") is None


@pytest.mark.django_db
def test_an_undo_is_waived_once_by_a_person_with_a_reason():
    effect = an_effect("applied", declared=UNDONE_BY)
    with pytest.raises(PayloadInvalid) as refused:
        compensation.record_waiver(effect, person=a_person(), reason=" ")
    assert [problem.pointer for problem in refused.value.errors] == ["/reason"]
    compensation.record_waiver(effect, person=a_person(), reason="x" * 299 + "yz")
    effect.refresh_from_db()
    assert effect.undo_waived_reason == "x" * 299 + "y"
    with pytest.raises(compensation.AlreadyResolved):
        compensation.record_waiver(effect, person=a_person("ben@example.org"), reason="again")
    effect.refresh_from_db()
    assert effect.undo_waived_by == a_person()
    failed = an_effect("failed", key="failed", declared=UNDONE_BY)
    with pytest.raises(compensation.AlreadyResolved):
        compensation.record_waiver(failed, person=a_person(), reason="never happened")


# --- probes -----------------------------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_not_found_counts_from_five_minutes_after_the_effect_began():
    probe = {"connection": "erp", "applied": [True], "failed": [], "conclusive": True}
    effect = an_effect("unknown", declared=effects.EffectDeclaration(probe=probe))
    looked = probes.ProbeResult(not_found=True)
    early = probes.interpret_probe_result(effect, looked, now=NOON + probes.MIN_AGE - timedelta(microseconds=1))
    assert early.outcome == ""
    assert probes.interpret_probe_result(effect, looked, now=NOON + probes.MIN_AGE).outcome == "failed"
    assert probes.MIN_AGE.total_seconds() == 300


# --- triggers ---------------------------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_a_guard_that_is_applied_again_has_every_trigger_and_can_be_taken_away():
    table = "ledger_effectreport"
    operation = GuardTable(table, ["status"])
    with connection.cursor() as cursor:
        editor = SimpleNamespace(connection=connection, execute=lambda statement, params: cursor.execute(statement))
        operation.database_backwards("ledger", editor, None, None)
        assert len(missing_guards([table])) == 3
        operation.database_forwards("ledger", editor, None, None)
    assert missing_guards([table]) == []
    assert trigger_name(table, "delete") == "ledger_effectreport_refuses_delete"


# --- prepared queries -------------------------------------------------------------------------------------------------


def on_postgresql() -> SimpleNamespace:
    ops = SimpleNamespace(compose_sql=lambda sql, params: "'" + str(params[0]).replace("'", "''") + "'")
    return SimpleNamespace(vendor="postgresql", ops=ops)


def test_on_postgresql_what_is_the_same_at_each_use_is_written_into_the_text():
    given = prepared_queries.int_parameter("pk")
    text, params = prepared_queries._with_constants(
        ("a = %s AND b = %s AND c = %s", ("50%", given, 7)), on_postgresql()
    )
    assert (text, params) == ("a = '50%%' AND b = %s AND c = '7'", [given])
    text, params = prepared_queries._with_constants(("a = %s", ("50%",)), SimpleNamespace(vendor="sqlite"))
    assert (text, params) == ("a = %s", ["50%"])


def test_the_present_of_a_query_is_asked_of_postgresql_itself():
    assert prepared_queries.StatementTime().as_postgresql(None, None) == ("STATEMENT_TIMESTAMP()", [])


@pytest.mark.parametrize(
    ("function", "is_old"), [("RevalidateCachedQuery", True), ("ExecuteQuery", False), (None, False)]
)
def test_an_old_plan_is_known_by_the_place_in_postgresql(function, is_old):
    cause = None
    if function is not None:
        cause = type(
            "Diagnosed", (prepared_queries.psycopg.Error,), {"diag": SimpleNamespace(source_function=function)}
        )()
    error = prepared_queries.NotSupportedError()
    error.__cause__ = cause
    assert prepared_queries._is_of_an_old_plan(error) is is_old


class OldPlan:
    """A cursor of PostgreSQL that refuses the first execution of a text."""

    def __init__(self, *, old: bool = True) -> None:
        self.executed, self.old = [], old

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    def execute(self, text, values):
        self.executed.append((text, values))
        if len(self.executed) == 1:
            function = "RevalidateCachedQuery" if self.old else "ExecuteQuery"
            diag = SimpleNamespace(source_function=function)
            error = prepared_queries.NotSupportedError("cached plan")
            raise error from type("Diagnosed", (prepared_queries.psycopg.Error,), {"diag": diag})()


@pytest.mark.parametrize(("old", "within"), [(True, False), (True, True), (False, False)])
def test_a_text_prepared_on_a_changed_table_is_prepared_again_outside_a_transaction_only(monkeypatch, old, within):
    cursor, asked = OldPlan(old=old), []
    monkeypatch.setattr(prepared_queries, "_cursor", lambda here: cursor)
    below = SimpleNamespace(execute=lambda text, **options: asked.append((text, options)))
    here = SimpleNamespace(in_atomic_block=within, connection=below)
    expected = transactions.StalePreparedStatement if old and within else prepared_queries.NotSupportedError
    if old and not within:
        with prepared_queries.executed("SELECT 1", [], here) as found:
            assert found is cursor
        assert asked == [("DEALLOCATE ALL", {"prepare": False})]
        assert cursor.executed == [("SELECT 1", [])] * 2
        return
    with pytest.raises(expected), prepared_queries.executed("SELECT 1", [], here):
        pass
    assert (asked, len(cursor.executed)) == ([], 1)


@pytest.mark.parametrize(
    ("vendor", "logged", "own"), [("sqlite", False, False), ("postgresql", True, False), ("postgresql", False, True)]
)
def test_on_postgresql_a_connection_prepares_each_text_itself_unless_statements_are_logged(
    monkeypatch, vendor, logged, own
):
    done = []
    monkeypatch.setattr(prepared_queries, "PreparedCursor", lambda connection: ("prepares", connection))
    here = SimpleNamespace(
        vendor=vendor,
        queries_logged=logged,
        connection="connection",
        cursor=lambda: "as Django's",
        close_if_health_check_failed=lambda: done.append("checked"),
        ensure_connection=lambda: done.append("connected"),
        _prepare_cursor=lambda cursor: cursor,
    )
    assert prepared_queries._cursor(here) == (("prepares", "connection") if own else "as Django's")
    assert done == (["checked", "connected"] if own else [])


def test_parameters_are_numbered_and_percent_signs_of_constants_stay():
    text = "SELECT %s FROM t WHERE a LIKE '100%%s' AND b = (%s)"
    assert prepared_queries._numbered(text) == "SELECT $1 FROM t WHERE a LIKE '100%s' AND b = ($2)"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (models.CharField(), "text"),
        (models.TextField(), None),
        (models.BooleanField(), True),
        (models.IntegerField(), 7),
        (models.PositiveSmallIntegerField(), None),
        (models.IntegerField(), "7"),
        (models.CharField(), 7),
        (models.CharField(), EffectStatus.APPLIED),
        (models.DateTimeField(), datetime(2026, 3, 4, tzinfo=UTC)),
        (models.DateTimeField(), None),
        (exact_json.ExactJSONField(), "text"),
        (exact_json.ExactJSONField(), True),
    ],
)
def test_a_plain_value_is_converted_for_postgresql_as_django_converts_it(field, value):
    here = SimpleNamespace(vendor="postgresql", ops=prepared_queries.DatabaseOperations(connection))
    converted = prepared_queries.Parameter("given", field).value_of({"given": value}, here)
    expected = field.get_db_prep_save(value, here)
    assert (type(converted), converted) == (type(expected), expected)


def test_a_time_without_a_time_zone_is_refused():
    here = SimpleNamespace(vendor="postgresql", ops=prepared_queries.DatabaseOperations(connection))
    with pytest.raises(ValueError, match="has no time zone"):
        prepared_queries.datetime_parameter("at").value_of({"at": datetime(2026, 3, 4)}, here)  # noqa: DTZ001


# --- transactions -----------------------------------------------------------------------------------------------------


def test_losers_wait_some_milliseconds_longer_each_time(monkeypatch):
    slept, tried = [], []
    monkeypatch.setattr(transactions.transaction, "atomic", lambda **_: _NoTransaction())

    @transactions.use_case
    def always_loses() -> None:
        tried.append(1)
        raise transactions.StalePreparedStatement("changed")

    monkeypatch.setattr(transactions.random, "uniform", lambda low, high: (low, high))
    monkeypatch.setattr(transactions, "pause", slept.append)
    with pytest.raises(Busy):
        always_loses()
    assert len(tried) == 3
    assert slept == [(0.005, 0.05) * 1, (0.005, 0.05) * 2]


class _NoTransaction:
    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False


@pytest.mark.parametrize(
    ("sqlstate", "message", "again"),
    [
        ("40001", "", True),
        ("40P01", "", True),
        ("57014", "", False),
        (None, "database is locked", True),
        (None, "disk is full", False),
    ],
)
def test_what_is_worth_another_try(sqlstate, message, again):
    error = transactions.OperationalError(message)
    error.__cause__ = type("Cause", (Exception,), {"sqlstate": sqlstate})()
    assert transactions._is_retryable(error) is again


def test_nothing_of_django_is_needed_for_a_placeholder():
    assert isinstance(prepared_queries.datetime_parameter("at").output_field, models.DateTimeField)
    assert isinstance(prepared_queries.int_parameter("pk").output_field, models.BigIntegerField)
    assert isinstance(prepared_queries.text_parameter("name").output_field, models.CharField)


# --- texts and differences --------------------------------------------------------------------------------------------


def test_a_refusal_says_the_first_paragraph_of_its_docstring_unless_it_is_given_a_sentence():
    class NotToday(Refusal):
        """It is closed
        today.

        For those who read the code.
        """

    class Silent(Refusal):
        pass

    Silent.__doc__ = None
    assert (str(NotToday()), NotToday().detail, NotToday().errors) == ("It is closed today.", "It is closed today.", [])
    assert str(NotToday("Tomorrow.", code=7)) == "Tomorrow."
    assert NotToday("Tomorrow.", step=7).extra == {"step": 7}
    assert Silent.sentence() == Refusal.sentence()


@pytest.mark.parametrize(
    ("actor", "words"),
    [
        ("person:ana@example.org", "ana@example.org"),
        ("agent:purchasing", "the agent purchasing"),
        ("system:expiry", "this server"),
        ("parent:run_1", "its parent run"),
        ("robot:r2", "robot:r2"),
        ("person:", "person:"),
        ("somebody", "somebody"),
    ],
)
def test_an_actor_in_a_sentence(actor, words):
    assert actors.actor_label(actor) == words


def test_an_added_member_differs_from_a_removed_one():
    added, removed, changed = (
        json_diff.diff_json(before, after)[0]
        for before, after in (({}, {"a": 1}), ({"a": 1}, {}), ({"a": 1}, {"a": 2}))
    )
    assert [(it.is_added, it.is_gone) for it in (added, removed, changed)] == [
        (True, False),
        (False, True),
        (False, False),
    ]


def test_the_columns_of_a_covered_row_are_json():
    noon = NOON.astimezone(timezone(timedelta(hours=2)))
    value = {"at": noon, "for": timedelta(minutes=1, microseconds=5), "share": 0.1, "list": (noon, [1]), "none": None}
    assert row_digests.column_as_json(value) == {
        "at": "2026-12-01T12:00:00.000000+00:00",
        "for": "60.000005",
        "share": "0.1",
        "list": ["2026-12-01T12:00:00.000000+00:00", [1]],
        "none": None,
    }


@pytest.mark.django_db
def test_the_second_owner_reads_who_resolved_it():
    effect = an_effect("unknown")
    settle(effect, "applied", person=a_person())
    effect.refresh_from_db()
    refusal = reconciliation.already_resolved_refusal(effect)
    assert "resolved first by ana@example.org: applied" in refusal.detail
    assert refusal.extra["outcome"] == "applied"
    effect.status = "compensated"
    refusal = reconciliation.already_resolved_refusal(effect)
    assert "by :" not in refusal.detail
    assert refusal.extra == {"by": "", "outcome": "compensated"}


@pytest.mark.parametrize(("levels", "steps"), [(7, 7), (8, 8), (9, 8)])
def test_lists_inside_lists_are_compared_entry_by_entry_down_to_eight(levels, steps):
    before, after = 1, 2
    for _ in range(levels):
        before, after = [before], [after]
    [difference] = json_diff.diff_json(before, after)
    assert len(difference.path) == steps
