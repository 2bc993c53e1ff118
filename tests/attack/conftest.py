"""The world of the pages, built once for the tests of a module."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import pytest
from django.db import transaction
from pytest_django import DjangoDbBlocker

from tests.attack.page_routes import PageWorld, a_page_world
from tests.conftest import restore_policies


@pytest.fixture(scope="module")
def world_of_the_module(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[PageWorld]:
    """Build the world in a transaction around those of the tests, which each roll back to it."""
    with django_db_blocker.unblock():
        around = transaction.atomic()
        around._from_testcase = True  # type: ignore[attr-defined]  # as Django's own test cases mark theirs
        with around:
            restore_policies()
            yield a_page_world()
            transaction.set_rollback(True)


@pytest.fixture
def world(world_of_the_module: PageWorld) -> PageWorld:
    return copy.deepcopy(world_of_the_module)
