"""Digests of the rows that a transaction writes, collected until an event of their run takes them into its chain.

A model that the chain covers has ``covered_as`` (the row's name in events, such as ``decision:dec_...``) and
``covered_parts`` (the columns that the digest of each part covers). A part's digest is computed only when the part is
written, so columns that never change are compared with what was recorded when the row was created.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Protocol

from ledger.digests import digest

#: The parts: columns that never change, what a request shows, and what transitions write.
FIXED = ""
CONTENT = "content"
STATE = "state"


class CoveredRow(Protocol):
    """A model instance whose columns the event chain of its run covers."""

    covered_parts: ClassVar[Mapping[str, tuple[str, ...]]]

    @property
    def covered_as(self) -> str: ...


class CoveredByPublicId:
    """A covered row that events name by its kind and its public id."""

    covered_kind: ClassVar[str]
    public_id: Any

    @property
    def covered_as(self) -> str:
        return f"{self.covered_kind}:{self.public_id}"


def part_name(row: CoveredRow, part: str) -> str:
    """Return the name of a part in an event: ``effect:eff_...`` or ``effect:eff_....state``."""
    return f"{row.covered_as}.{part}" if part else row.covered_as


def digest_row_part(row: CoveredRow, part: str) -> str:
    """Return the digest of one part of a row as it is in memory."""
    return digest({column: column_as_json(getattr(row, column)) for column in row.covered_parts[part]})


def column_as_json(value: Any) -> Any:
    """Return a column's value as JSON: times in UTC with microseconds, durations in seconds."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="microseconds")
    if isinstance(value, timedelta):
        return str(value.total_seconds())
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, str):
        return str(value)
    if isinstance(value, dict):
        return {name: column_as_json(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [column_as_json(member) for member in value]
    return value


# --- collecting -------------------------------------------------------------------------------------------------------


def collect_written_row(scope: str, row: CoveredRow, *parts: str) -> None:
    """Record that parts of a row of the run ``scope`` were written; without ``parts``, all of them."""
    written = _written().setdefault(scope, {})
    for part in parts or row.covered_parts:
        written[part_name(row, part)] = (row, part)


def take_written_digests(scope: str) -> dict[str, str]:
    """Return, by name, the current digests of the parts that were written since the run's last event, and clear them."""
    written = _written().pop(scope, {})
    return {name: digest_row_part(row, part) for name, (row, part) in written.items()}


def any_row_written(scope: str) -> bool:
    """Tell whether rows of the run were written since its last event."""
    return bool(_written().get(scope))


def forget_written_rows() -> None:
    """Clear what was collected, such as the writes of a transaction that was rolled back."""
    _written().clear()


def list_unrecorded_parts() -> list[str]:
    """Return the names of the written parts that no event covers yet."""
    return sorted(name for written in _written().values() for name in written)


def _written() -> dict[str, dict[str, tuple[CoveredRow, str]]]:
    """Return the parts written by this thread, which has one connection, by run and name."""
    found: dict[str, dict[str, tuple[CoveredRow, str]]] | None = getattr(_of_thread, "written", None)
    if found is None:
        found = _of_thread.written = {}
    return found


_of_thread = threading.local()
