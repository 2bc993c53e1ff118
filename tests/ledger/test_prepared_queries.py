"""Prepared queries return the rows of the queryset from which they were compiled, for other values each time."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest
from django.contrib.auth.models import Group, User
from django.db import NotSupportedError, connection, transaction
from django.db.models import Exists, OuterRef, Value

from ledger import clock, exact_json, prepared_queries
from ledger.models import Effect, Order
from ledger.prepared_queries import PreparedQuery, PreparedUpdate, StatementTime
from ledger.transactions import use_case
from tests.ledger.effect_builders import LATER, a_person, intend
from tests.unguarded import without_triggers

pytestmark = pytest.mark.django_db


def columns(row: object) -> dict[str, object]:
    return {name: value for name, value in vars(row).items() if name != "_state"}


def two_effects() -> list[Effect]:
    intend(key="order:1")
    intend(key="order:2", arguments={"amount": "1.00"})
    return list(Effect.objects.order_by("id"))


def test_it_reads_what_its_queryset_reads():
    effects = two_effects()
    owned = Effect.objects.select_related("owner").annotate(answer=Value(42)).order_by("id")
    query = PreparedQuery(lambda: owned.filter(scope=prepared_queries.text_parameter("scope")))

    read = query.all(scope=effects[0].scope)

    expected = list(owned.filter(scope=effects[0].scope))
    assert [columns(row) for row in read] == [columns(row) for row in expected]
    assert [row.answer for row in read] == [42, 42]
    assert {row._state.db for row in read} == {"default"}
    assert not any(row._state.adding for row in read)


def test_a_joined_row_costs_no_second_statement(django_assert_num_queries):
    two_effects()
    query = PreparedQuery(
        lambda: Effect.objects.select_related("owner").filter(key=prepared_queries.text_parameter("key"))
    )
    with django_assert_num_queries(1):
        effect = query.first(key="order:1")
        assert effect is not None
        assert effect.owner.name


def test_it_is_built_once_and_asked_with_other_values():
    two_effects()
    built = []

    def build():
        built.append(1)
        return Effect.objects.filter(key=prepared_queries.text_parameter("key"))

    query = PreparedQuery(build)
    assert [query.first(key=key).key for key in ("order:1", "order:2")] == ["order:1", "order:2"]
    assert query.first(key="order:3") is None
    assert built == [1]
    query.forget()
    query.first(key="order:1")
    assert built == [1, 1]


def test_values_come_as_plain_tuples():
    two_effects()
    query = PreparedQuery(
        lambda: Effect.objects.filter(name=prepared_queries.text_parameter("name")).values_list("key", "call")
    )
    [name] = {effect.name for effect in Effect.objects.all()}
    assert sorted(key for key, _ in query.all(name=name)) == ["order:1", "order:2"]
    assert all(call["name"] == name for _, call in query.all(name=name)), "the field's own conversion"


def test_times_are_given_as_the_field_gives_them():
    [effect, _] = two_effects()
    query = PreparedQuery(
        lambda: Effect.objects.filter(created_at__lt=prepared_queries.datetime_parameter("before")).values_list("pk")
    )
    just_after = effect.created_at + timedelta(microseconds=1)
    assert (effect.pk,) in query.all(before=just_after)
    assert (effect.pk,) not in query.all(before=effect.created_at)


def test_values_can_be_in_a_list_and_in_a_subquery():
    person = User.objects.create(username="ana@example.org")
    person.groups.add(Group.objects.create(name="reviewers"))
    query = PreparedQuery(
        lambda: User.objects.filter(
            Exists(Group.objects.filter(user=OuterRef("pk"), name=prepared_queries.text_parameter("group"))),
            username__in=[prepared_queries.text_parameter("one"), prepared_queries.text_parameter("other")],
        )
    )
    assert query.all(group="reviewers", one="ben@example.org", other="ana@example.org") == [person]
    assert query.all(group="leads", one="ben@example.org", other="ana@example.org") == []


def test_the_present_is_that_of_each_use_not_of_the_first():
    [effect, _] = two_effects()
    query = PreparedQuery(lambda: Effect.objects.filter(settle_by__lte=StatementTime()).values_list("pk"))
    Effect.objects.filter(pk=effect.pk).update(settle_by=clock.now() + timedelta(hours=1))
    assert query.all() == []
    after_the_first_use = clock.now()
    Effect.objects.filter(pk=effect.pk).update(settle_by=after_the_first_use)
    assert query.all() == [(effect.pk,)]


def test_a_row_is_inserted_as_save_would():
    [saved, _] = two_effects()
    fields = {name: value for name, value in columns(saved).items() if name not in {"id", "_owner_cache"}}
    fields |= {"public_id": "eff_other", "key": "order:3"}
    made = prepared_queries.insert_row(Effect(**fields))
    assert columns(Effect.objects.get(pk=made.pk)) == columns(saved) | {**fields, "id": made.pk}
    assert (made._state.adding, made._state.db) == (False, "default")
    again = prepared_queries.insert_row(
        Effect(**fields | {"public_id": "eff_third", "key": "order:4", "error": "a text"})
    )
    assert again.pk > made.pk
    assert Effect.objects.get(pk=again.pk).error == "a text", "each row has its own values"


def test_times_that_a_field_fills_in_are_filled_in():
    order = prepared_queries.insert_row(
        Order(effect=two_effects()[0], person=a_person(), reason="lost", ordered_at=LATER)
    )
    assert Order.objects.get(pk=order.pk).ordered_at == LATER


def test_an_update_writes_its_columns_and_counts_its_rows():
    [first, second] = two_effects()
    write = PreparedUpdate(
        lambda: Effect.objects.filter(pk=prepared_queries.int_parameter("pk"), status__in=["intended"]),
        ["error", "receipt", "owner"],
    )
    other = Group.objects.create(name="others")
    with without_triggers():
        assert write.write(pk=first.pk, error="late", receipt={"b": 1, "a": Decimal("1.00")}, owner=other.pk) == 1
    first.refresh_from_db()
    assert (first.error, first.owner) == ("late", other)
    assert exact_json.dumps(first.receipt) == '{"b":1,"a":1.00}'
    second.refresh_from_db()
    assert second.error == ""
    Effect.objects.update(status="unknown")
    assert write.write(pk=first.pk, error="", receipt=None, owner=other.pk) == 0


@pytest.mark.postgresql
def test_on_postgresql_a_text_is_prepared_once_with_its_constants_in_it():
    """One plan for all values: PostgreSQL chooses a partial index by the text of the statement."""
    two_effects()
    unknown = Effect.objects.filter(
        status="intended", name__contains="100%", key=prepared_queries.text_parameter("key")
    )
    query = PreparedQuery(lambda: unknown.values_list("key", flat=True).order_by("id"))
    for key in ("order:1", "order:2", "it's 100%s"):
        query.all(key=key)

    with connection.cursor() as cursor:
        cursor.execute("SELECT statement, generic_plans FROM pg_prepared_statements WHERE statement LIKE '%100%'")
        [(statement, plans)] = cursor.fetchall()
    assert "= 'intended'" in statement
    assert "= ($1)" in statement
    assert plans == 3


@pytest.mark.postgresql
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("in_a_use_case", [False, True])
def test_a_table_that_changes_under_an_open_connection_is_read_and_written_all_the_same(in_a_use_case: bool):
    """PostgreSQL refuses statements that the connection prepared before the change."""
    Group.objects.create(name="a")
    query = PreparedQuery(lambda: Group.objects.filter(name=prepared_queries.text_parameter("name")))
    write = PreparedUpdate(lambda: Group.objects.filter(name=prepared_queries.text_parameter("which")), ["name"])

    def verb() -> list[str]:
        assert write.write(which="a", name="a") == 1
        return [group.name for group in query.all(name="a")]

    asked = use_case(verb) if in_a_use_case else verb
    assert asked() == ["a"]
    beside = connection.copy()
    try:
        for width in (160, 150):
            with beside.cursor() as cursor:
                cursor.execute(f"ALTER TABLE auth_group ALTER COLUMN name TYPE varchar({width})")
            assert asked() == asked() == ["a"]
    finally:
        beside.close()


@pytest.mark.postgresql
@pytest.mark.django_db(transaction=True)
def test_another_database_error_is_raised_unchanged():
    locked = PreparedQuery(
        lambda: Group.objects.filter(name=prepared_queries.text_parameter("name")).select_for_update().distinct()
    )
    with pytest.raises(NotSupportedError), transaction.atomic():
        locked.all(name="a")
