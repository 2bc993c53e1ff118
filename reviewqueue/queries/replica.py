"""Reads of lists and figures from a replica of the database (`REPLICA_DATABASE_URL`), where one is set.

A view marked ``reads_replica`` reads the rows of runs and their counts from the replica, with the names of people, queues
and agents that the same statement joins. Permissions, and people, groups, queues and agents on their own, come from the
primary. The replica is left out while it does not answer, is no standby of the primary, or lags more than
`REPLICA_MAX_LAG` seconds; a view whose read fails there runs again on the primary.
"""

from __future__ import annotations

import functools
import logging
import threading
import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Concatenate, ParamSpec, TypeVar

from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, Error, InterfaceError, OperationalError, connections
from django.db.backends.utils import CursorWrapper
from django.db.models import Model
from django.http import HttpResponseBase

log = logging.getLogger(__name__)

ALIAS = "replica"
HEADER = "X-Data-Age"
#: Rows that lists and figures show. People, groups, keys, agents, queues and their permissions are not among them.
MODELS = frozenset(
    {
        *(
            "ledger.effect",
            "runs.checkpoint",
            "runs.continuation",
            "runs.decision",
            "runs.event",
            "runs.feed",
            "runs.hold",
        ),
        *("runs.interrupt", "runs.outcome", "runs.permit", "runs.progress", "runs.run"),
        *("reviewqueue.rollupcell", "reviewqueue.rollupgroup", "reviewqueue.rollupstate", "reviewqueue.rolluptotal"),
        "reviewqueue.rollupdueday",
    }
)
SECONDS_BETWEEN_CHECKS = 1.0
SECONDS_LEFT_ALONE = 5.0
#: A request that would wait longer for another one's measurement reads the primary.
SECONDS_TO_WAIT = 0.2
#: A smaller lag is not shown: any page is as old a moment after it was opened.
SECONDS_TO_SHOW = 1.0

P = ParamSpec("P")
Subject = TypeVar("Subject")
Response = TypeVar("Response", bound=HttpResponseBase)

_is_reading: ContextVar[bool] = ContextVar("is_reading_replica", default=False)


class ReplicaRouter:
    """Django's router of a database with a replica."""

    def db_for_read(self, model: type[Model], **hints: Any) -> str:
        """Return the replica for a listed row inside a view that reads it, else the primary."""
        is_listed = _is_reading.get() and model._meta.label_lower in MODELS
        return ALIAS if is_listed else DEFAULT_DB_ALIAS

    def db_for_write(self, model: type[Model], **hints: Any) -> str:
        """Return the primary, also for a row that was read from the replica."""
        return DEFAULT_DB_ALIAS

    def allow_relation(self, one: Model, other: Model, **hints: Any) -> bool:
        """Both are copies of one database."""
        return True

    def allow_migrate(self, db: str, app_label: str, **hints: Any) -> bool | None:
        """Refuse to migrate a replica: it gets the tables of the primary."""
        return False if db == ALIAS else None


def reading_alias() -> str:
    """Return the database of a statement of our own about listed rows."""
    return ALIAS if _is_reading.get() else DEFAULT_DB_ALIAS


class _Replica:
    """What this process knows of the replica: its lag, and when it is looked at again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next_check = float("-inf")
        self._lag: float | None = None

    def lag(self) -> float | None:
        """Return the seconds by which the replica is behind; ``None`` if it must not be read."""
        if not self._lock.acquire(timeout=SECONDS_TO_WAIT):  # it does not answer the thread that measures
            return None
        try:
            if time.monotonic() >= self._next_check:
                self._next_check = time.monotonic() + SECONDS_BETWEEN_CHECKS
                self._measure()
            is_usable = self._lag is not None and self._lag <= settings.REPLICA_MAX_LAG
            return self._lag if is_usable else None
        finally:
            self._lock.release()

    def _measure(self) -> None:
        try:
            self._lag = measure_lag()
        except Error as problem:
            if is_of_primary():
                self._lag = None  # the view reports it
            else:
                self._leave_alone(problem)

    def leave_alone(self, problem: Exception) -> None:
        """Read nothing from it for some seconds."""
        is_locked = self._lock.acquire(timeout=SECONDS_TO_WAIT)
        try:
            self._leave_alone(problem)
        finally:
            if is_locked:
                self._lock.release()

    def _leave_alone(self, problem: Exception) -> None:
        self._lag = None
        self._next_check = time.monotonic() + SECONDS_LEFT_ALONE
        connections[ALIAS].close()
        connections[ALIAS].errors_occurred = False
        log.warning("The replica is not read for %.0f s: %s", SECONDS_LEFT_ALONE, str(problem).partition("\n")[0])


_replica = _Replica()


def _follows_a_change(subject: object) -> bool:
    """Return whether a request shows a message about the change that led to it, which the replica may lack."""
    return bool(len(getattr(subject, "_messages", ())))


def is_of_primary() -> bool:
    """Return whether the fault that was just caught is one of the primary."""
    return connections[DEFAULT_DB_ALIAS].errors_occurred and not connections[ALIAS].errors_occurred


def measure_lag() -> float | None:
    """Return the seconds since the newest change that the replica has, 0 if it has all; ``None`` if it is no standby.

    A standby of another database is none: it has another system identifier, or changes that the primary does not have.
    Both times are of the primary's clock. Raises ``django.db.Error``.
    """
    with connections[DEFAULT_DB_ALIAS].cursor() as cursor:
        cursor.execute("SELECT pg_current_wal_lsn()::text, clock_timestamp()")
        [place, now] = cursor.fetchone()
        identifier = _system_identifier(cursor)
    with connections[ALIAS].cursor() as cursor:
        cursor.execute(
            "SELECT pg_is_in_recovery(), pg_last_wal_replay_lsn()::text, pg_last_wal_replay_lsn() >= %s::pg_lsn, "
            "pg_last_xact_replay_timestamp()",
            [place],
        )
        [is_standby, replayed, has_all, newest] = cursor.fetchone()
        if not is_standby or (newest is None and not has_all):
            return None
        if identifier and (_system_identifier(cursor) or identifier) != identifier:
            return None
    if not has_all:
        return max(0.0, (now - newest).total_seconds())
    with connections[DEFAULT_DB_ALIAS].cursor() as cursor:
        cursor.execute("SELECT pg_current_wal_lsn() >= %s::pg_lsn", [replayed])
        [has_as_much] = cursor.fetchone()
    return 0.0 if has_as_much else None


def _system_identifier(cursor: CursorWrapper) -> int:
    """Return the identifier that a server and its standbys share; 0 if the role cannot read it."""
    cursor.execute("SELECT has_function_privilege('pg_control_system()', 'EXECUTE')")
    if cursor.fetchone() != (True,):
        return 0
    cursor.execute("SELECT system_identifier FROM pg_control_system()")
    return int(cursor.fetchone()[0])


def reads_replica(
    view: Callable[Concatenate[Subject, P], Response],
) -> Callable[Concatenate[Subject, P], Response]:
    """Mark a view, or its method, that only lists or counts: it reads the replica, if there is one that may be read."""

    @functools.wraps(view)
    def read(subject: Subject, *args: P.args, **kwargs: P.kwargs) -> Response:
        lag = _replica.lag() if ALIAS in settings.DATABASES and not _follows_a_change(subject) else None
        if lag is None:
            return view(subject, *args, **kwargs)
        if lag >= SECONDS_TO_SHOW:
            setattr(subject, "data_age", round(lag))  # noqa: B010  of a request; base.html shows it
        reading = _is_reading.set(True)
        try:
            response = view(subject, *args, **kwargs)
            response.headers[HEADER] = str(round(lag))
            return response
        except (OperationalError, InterfaceError) as problem:
            if is_of_primary():
                raise
            _replica.leave_alone(problem)
        finally:
            _is_reading.reset(reading)
        if hasattr(subject, "data_age"):
            del subject.data_age
        return view(subject, *args, **kwargs)

    return read
