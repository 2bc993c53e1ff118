"""Queries that are compiled once: the rows of the queryset they were built from, for other values each time."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest
from django.contrib.auth.models import Group, User
from django.db.models import Exists, OuterRef, Value

from ledger import clock, compiled
from ledger.compiled import Compiled, Present
from ledger.models import Effect
from tests.ledger.effect_builders import intend

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
    query = Compiled(lambda: owned.filter(scope=compiled.text("scope")))

    read = query.all(scope=effects[0].scope)

    expected = list(owned.filter(scope=effects[0].scope))
    assert [columns(row) for row in read] == [columns(row) for row in expected]
    assert [row.answer for row in read] == [42, 42]
    assert {row._state.db for row in read} == {"default"}
    assert not any(row._state.adding for row in read)


def test_a_joined_row_costs_no_second_statement(django_assert_num_queries):
    two_effects()
    query = Compiled(lambda: Effect.objects.select_related("owner").filter(key=compiled.text("key")))
    with django_assert_num_queries(1):
        effect = query.first(key="order:1")
        assert effect is not None
        assert effect.owner.name


def test_it_is_built_once_and_asked_with_other_values():
    two_effects()
    built = []

    def build():
        built.append(1)
        return Effect.objects.filter(key=compiled.text("key"))

    query = Compiled(build)
    assert [query.first(key=key).key for key in ("order:1", "order:2")] == ["order:1", "order:2"]
    assert query.first(key="order:3") is None
    assert built == [1]
    query.forget()
    query.first(key="order:1")
    assert built == [1, 1]


def test_values_come_as_plain_tuples():
    two_effects()
    query = Compiled(lambda: Effect.objects.filter(name=compiled.text("name")).values_list("key", "call"))
    [name] = {effect.name for effect in Effect.objects.all()}
    assert sorted(key for key, _ in query.all(name=name)) == ["order:1", "order:2"]
    assert all(call["name"] == name for _, call in query.all(name=name)), "the field's own conversion"


def test_times_are_given_as_the_field_gives_them():
    [effect, _] = two_effects()
    query = Compiled(lambda: Effect.objects.filter(created_at__lt=compiled.moment("before")).values_list("pk"))
    just_after = effect.created_at + timedelta(microseconds=1)
    assert (effect.pk,) in query.all(before=just_after)
    assert (effect.pk,) not in query.all(before=effect.created_at)


def test_values_may_stand_in_a_list_and_in_a_subquery():
    person = User.objects.create(username="ana@example.org")
    person.groups.add(Group.objects.create(name="reviewers"))
    query = Compiled(
        lambda: User.objects.filter(
            Exists(Group.objects.filter(user=OuterRef("pk"), name=compiled.text("group"))),
            username__in=[compiled.text("one"), compiled.text("other")],
        )
    )
    assert query.all(group="reviewers", one="ben@example.org", other="ana@example.org") == [person]
    assert query.all(group="leads", one="ben@example.org", other="ana@example.org") == []


def test_the_present_is_that_of_each_use_not_of_the_first():
    [effect, _] = two_effects()
    query = Compiled(lambda: Effect.objects.filter(settle_by__lte=Present()).values_list("pk"))
    Effect.objects.filter(pk=effect.pk).update(settle_by=clock.now() + timedelta(seconds=0.3))
    assert query.all() == []
    time.sleep(0.35)
    assert query.all() == [(effect.pk,)]
