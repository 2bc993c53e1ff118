"""Transactions: one for each use case, kept or rolled back as its outcome says, tried again when the database asks."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Group
from django.db import OperationalError, transaction

from ledger import transactions
from ledger.errors import AlreadyResolved, Busy, OutcomeUnknown
from ledger.transactions import assert_in_transaction, assert_no_transaction, use_case

pytestmark = pytest.mark.django_db(transaction=True)


class Deadlock(Exception):
    sqlstate = "40P01"


def a_deadlock() -> OperationalError:
    error = OperationalError("deadlock detected")
    error.__cause__ = Deadlock()
    return error


def group_names() -> list[str]:
    return list(Group.objects.values_list("name", flat=True))


def test_what_a_use_case_did_is_kept():
    @use_case
    def verb() -> int:
        Group.objects.create(name="a")
        return 7

    assert verb() == 7
    assert group_names() == ["a"]


def test_a_refusal_that_is_returned_keeps_its_record_and_is_raised():
    @use_case
    def verb() -> int | OutcomeUnknown:
        Group.objects.create(name="the record of it")
        return OutcomeUnknown()

    with pytest.raises(OutcomeUnknown):
        verb()
    assert group_names() == ["the record of it"]


def test_a_refusal_that_is_raised_rolls_everything_back():
    @use_case
    def verb() -> None:
        Group.objects.create(name="a")
        raise AlreadyResolved

    with pytest.raises(AlreadyResolved):
        verb()
    assert group_names() == []


@pytest.mark.parametrize("error", [a_deadlock(), OperationalError("database is locked")])
def test_a_deadlocked_use_case_is_retried_from_the_start(error):
    tries = []

    @use_case
    def verb() -> int:
        Group.objects.create(name=f"try {len(tries)}")
        tries.append(1)
        if len(tries) < transactions.TRIES:
            raise error
        return len(tries)

    assert verb() == transactions.TRIES
    assert group_names() == [f"try {transactions.TRIES - 1}"]


def test_a_database_that_gives_up_three_times_is_busy():
    tries = []

    @use_case
    def verb() -> None:
        tries.append(1)
        raise a_deadlock()

    with pytest.raises(Busy) as refused:
        verb()
    assert (len(tries), refused.value.retryable) == (3, True)


def test_another_failure_of_the_database_is_not_tried_again():
    tries = []

    @use_case
    def verb() -> None:
        tries.append(1)
        raise OperationalError("the disk is full")

    with pytest.raises(OperationalError, match="disk"):
        verb()
    assert len(tries) == 1


def test_a_use_case_cannot_run_inside_another_transaction():
    @use_case
    def verb() -> None: ...

    with transaction.atomic(), pytest.raises(RuntimeError, match="durable"):
        verb()


def test_the_asserts_know_whether_a_transaction_is_open():
    assert_no_transaction()
    with pytest.raises(RuntimeError, match="inside the transaction"):
        assert_in_transaction()
    with transaction.atomic():
        assert_in_transaction()
        with pytest.raises(RuntimeError, match="outbound call"):
            assert_no_transaction()
