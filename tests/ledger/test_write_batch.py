"""Writes of a use case are executed together, before anything reads them, and as one by one."""

from __future__ import annotations

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group, User
from django.contrib.contenttypes.models import ContentType
from django.db import connection
from django.test.utils import CaptureQueriesContext

from ledger import prepared_queries
from ledger.errors import Busy
from ledger.prepared_queries import PreparedUpdate, RowExists
from ledger.transactions import use_case
from ledger.write_batch import insert_if_new_later, insert_later, is_collected, notify_later, update_later

pytestmark = pytest.mark.django_db


def _named(which: str) -> object:
    return Group.objects.filter(name=which)


RENAME = PreparedUpdate(_named, ["name"])


def names() -> list[str]:
    return [*Group.objects.order_by("id").values_list("name", flat=True)]


@use_case
def add(*added: str, read: bool = False) -> tuple[list[Group], list[str]]:
    rows = [insert_later(Group(name=name)) for name in added]
    return rows, names() if read else []


def test_rows_get_ascending_keys_in_the_order_of_their_writes():
    rows, _ = add("b", "a", "c")
    assert names() == ["b", "a", "c"]
    assert [row.pk for row in rows] == [*Group.objects.order_by("id").values_list("id", flat=True)]
    assert not any(row._state.adding for row in rows)


def test_a_read_sees_the_writes_before_it():
    assert add("a", "b", read=True)[1] == ["a", "b"]


def test_an_update_sees_the_rows_and_updates_before_it():
    @use_case
    def rename() -> None:
        insert_later(Group(name="a"))
        update_later(RENAME, changed="gone", which="a", name="b")
        update_later(RENAME, changed="gone", which="b", name="c")
        insert_later(Group(name="a"))  # the name is free only after the updates

    rename()
    assert names() == ["c", "a"]


def test_an_update_of_no_row_rolls_everything_back():
    @use_case
    def rename() -> None:
        insert_later(Group(name="a"))
        update_later(RENAME, changed="b is gone", which="b", name="c")

    with pytest.raises(RuntimeError, match="b is gone"):
        rename()
    assert names() == []


def test_an_update_may_find_no_row_if_nothing_relies_on_it():
    use_case(lambda: update_later(RENAME, which="b", name="c"))()
    assert names() == []


def test_writes_before_a_raised_error_are_rolled_back_and_forgotten():
    @use_case
    def fail() -> None:
        insert_later(Group(name="a"))
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        fail()
    assert add("b", read=True)[1] == ["b"]


def test_outside_a_use_case_a_write_is_executed_at_once():
    row = insert_later(Group(name="a"))
    assert row.pk is not None
    with pytest.raises(RuntimeError, match="gone"):
        update_later(RENAME, changed="gone", which="b", name="c")
    update_later(RENAME, changed="gone", which="a", name="c")
    notify_later("a_channel", "1")
    assert names() == ["c"]


@pytest.mark.postgresql
def test_on_postgresql_they_are_one_statement():
    @use_case
    def write() -> None:
        notify_later("a_channel", "1")
        notify_later("a_channel", "1")
        insert_later(Group(name="a"))
        insert_later(Group(name="b"))

    with CaptureQueriesContext(connection) as captured:
        write()
    [statement] = [it["sql"] for it in captured.captured_queries if "auth_group" in it["sql"]]
    assert statement.count("INSERT INTO") == 2
    assert statement.count("pg_notify") == 1


def test_a_row_that_a_unique_constraint_prevents_is_not_inserted():
    assert prepared_queries.insert_row_if_new(Group(name="a"))
    again = Group(name="a")
    assert not prepared_queries.insert_row_if_new(again)
    assert again.pk is None
    assert names() == ["a"]


def test_a_new_row_is_inserted_with_the_columns_that_it_has_at_last():
    @use_case
    def write() -> bool:
        insert_if_new_later(row)
        was_collected = is_collected(row)
        row.name = "b"
        if not was_collected:
            update_later(RENAME, changed="gone", which="a", name="b")
        return was_collected

    row = Group(pk=100_000, name="a")
    assert write() == (connection.vendor == "postgresql")
    assert (names(), is_collected(row)) == (["b"], False)


def test_a_use_case_that_inserts_a_row_that_exists_is_tried_again_and_writes_nothing_else():
    Group.objects.create(name="a")
    seen = []

    @use_case
    def write() -> None:
        seen.append(names())
        insert_later(Group(name="b"))
        insert_if_new_later(Group(pk=100_000, name="a"))

    with pytest.raises(Busy) as refused:
        write()
    assert isinstance(refused.value.__cause__, RowExists)
    assert seen == [["a"]] * 3
    assert names() == ["a"]


@pytest.mark.parametrize("insert", [insert_later, prepared_queries.insert_row, prepared_queries.insert_row_if_new])
def test_a_row_that_refers_to_an_unsaved_row_is_refused(insert):
    entry = LogEntry(user=User.objects.create(username="ana"), content_type=ContentType(), action_flag=1)
    with pytest.raises(RuntimeError, match=r"LogEntry\.content_type must be inserted first"):
        use_case(lambda: insert(entry))()
    assert not LogEntry.objects.exists()


@pytest.mark.postgresql
def test_on_postgresql_a_row_that_refers_to_a_collected_row_is_refused():
    @use_case
    def write() -> None:
        kind = insert_later(ContentType(app_label="a", model="b"))
        insert_later(LogEntry(user=ana, content_type=kind, action_flag=1))

    ana = User.objects.create(username="ana")
    with pytest.raises(RuntimeError, match=r"LogEntry\.content_type must be inserted first"):
        write()
    assert not LogEntry.objects.exists()


def test_a_row_gets_the_key_of_a_row_that_was_inserted_after_it_was_assigned():
    kind = ContentType(app_label="a", model="b")
    entry = LogEntry(user=User.objects.create(username="ana"), content_type=kind, action_flag=1)

    @use_case
    def write() -> None:
        prepared_queries.insert_row(kind)
        insert_later(entry)

    write()
    assert LogEntry.objects.get().content_type == kind
