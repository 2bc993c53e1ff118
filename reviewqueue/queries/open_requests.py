"""The open requests that a person may see, by groups of equal queue, agent, reason and risk. Read-only.

The index ``open_waits_by_group`` has one range for each group, sorted by deadline, and
``open_waits_by_group_and_age`` one sorted by age. The groups are found by one jump in the
index each; a list is merged from the groups that pass its filters, and a count adds up their lengths. So no list or count
depends on how many requests are open.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib.auth.models import AbstractUser
from django.db import connection
from django.db.models import Func, Q, QuerySet, TextField, Value
from django.db.models.expressions import RawSQL
from django.db.models.lookups import GreaterThan, LessThan

from ledger.prepared_queries import Parameter, int_parameter, text_parameter
from reviewqueue.permissions import VisibleScope, make_scope, scope_rows
from reviewqueue.queries.decidable import COLUMNS as DECIDABLE_COLUMNS
from reviewqueue.queries.decidable import decidable_sql
from reviewqueue.queries.inbox_filters import ORDERS, InboxFilters
from reviewqueue.queries.ordered_branches import Statement, compile_branch, first_keys, keys_subquery
from runs.models import Interrupt, Run
from runs.states import RISK_RANK, InterruptStatus

MAX_COUNTED_OPEN = 1_000  # a longer list shows "1000+", so that counting stays cheap
ORDER = ORDERS[""]
ENDED_ORDER = ("-closed_at", "-id")
NO_FILTERS = InboxFilters()
_RISKS = {rank: str(risk) for risk, rank in RISK_RANK.items()}

Place = tuple[int, datetime, int]

#: One jump in the index from each group to the next, first those with a queue, then those without.
_GROUPS = """
WITH RECURSIVE scope(kind, pk) AS ({scope}), asked(id) AS (
    SELECT (SELECT id FROM runs_interrupt WHERE status = 'waiting' AND queue_id IS NOT NULL
            ORDER BY queue_id, agent_id, reason, risk_rank LIMIT 1)
    UNION ALL
    SELECT (SELECT n.id FROM runs_interrupt n WHERE n.status = 'waiting'
            AND (n.queue_id, n.agent_id, n.reason, n.risk_rank) > (g.queue_id, g.agent_id, g.reason, g.risk_rank)
            ORDER BY n.queue_id, n.agent_id, n.reason, n.risk_rank LIMIT 1)
    FROM asked JOIN runs_interrupt g ON g.id = asked.id
), unasked(id) AS (
    SELECT (SELECT id FROM runs_interrupt WHERE status = 'waiting' AND queue_id IS NULL
            ORDER BY queue_id, agent_id, reason, risk_rank LIMIT 1)
    UNION ALL
    SELECT (SELECT n.id FROM runs_interrupt n WHERE n.status = 'waiting' AND n.queue_id IS NULL
            AND (n.agent_id, n.reason, n.risk_rank) > (g.agent_id, g.reason, g.risk_rank)
            ORDER BY n.queue_id, n.agent_id, n.reason, n.risk_rank LIMIT 1)
    FROM unasked JOIN runs_interrupt g ON g.id = unasked.id
)
SELECT kind, pk, NULL, NULL, NULL, NULL, NULL, NULL, NULL FROM scope
UNION ALL
SELECT 'group', g.queue_id, g.agent_id, g.reason, g.risk_rank, q.slug, a.slug, {number}, {decidable}
FROM (SELECT id FROM asked UNION ALL SELECT id FROM unasked) AS first
JOIN runs_interrupt g ON g.id = first.id
JOIN runs_agent a ON a.id = g.agent_id
LEFT JOIN runs_queue q ON q.id = g.queue_id
WHERE EXISTS (SELECT 1 FROM scope WHERE kind = 'operators' OR (kind = 'queue' AND pk = g.queue_id)
    OR (kind = 'agent' AND pk = g.agent_id))
"""
_NUMBER = """CASE WHEN g.queue_id IS NULL THEN (SELECT count(*) FROM (SELECT 1 FROM runs_interrupt i
        WHERE i.status = 'waiting' AND i.queue_id IS NULL AND i.agent_id = g.agent_id AND i.reason = g.reason
        AND i.risk_rank = g.risk_rank LIMIT {most}) AS counted)
    ELSE (SELECT count(*) FROM (SELECT 1 FROM runs_interrupt i
        WHERE i.status = 'waiting' AND i.queue_id = g.queue_id AND i.agent_id = g.agent_id AND i.reason = g.reason
        AND i.risk_rank = g.risk_rank LIMIT {most}) AS counted) END"""
#: Those of the first of a group that the person can decide now. The inner limit bounds the rows that are looked at.
_DECIDABLE = """CASE WHEN EXISTS (SELECT 1 FROM scope WHERE kind = 'decides' AND pk = g.queue_id) THEN
    (SELECT count(*) FROM (SELECT {columns} FROM runs_interrupt i
        WHERE i.status = 'waiting' AND i.queue_id = g.queue_id AND i.agent_id = g.agent_id AND i.reason = g.reason
        AND i.risk_rank = g.risk_rank ORDER BY i.deadline, i.id LIMIT {most}) AS runs_interrupt WHERE {condition})
    ELSE 0 END"""


@dataclass(frozen=True, kw_only=True)
class OpenGroup:
    """Open requests with the same filter attributes.

    ``number``: how many, up to ``MAX_COUNTED_OPEN`` + 1. ``decidable``: how many of these the person can decide now.
    """

    queue_id: int | None
    agent_id: int
    reason: str
    risk_rank: int
    queue: str
    agent: str
    number: int
    decidable: int

    @property
    def risk(self) -> str:
        return _RISKS[self.risk_rank]

    def passes(self, filters: InboxFilters) -> bool:
        """Tell whether these requests pass the filters, apart from the text search."""
        return filters.fits(queue=self.queue, reason=self.reason, risk=self.risk, agent=self.agent)


@dataclass(frozen=True, kw_only=True)
class OpenRequests:
    """The groups of open requests that a person may see, and beside them those of runs that the person started."""

    scope: VisibleScope
    groups: tuple[OpenGroup, ...]

    def is_more(self, group: OpenGroup) -> bool:
        """Tell whether the group has requests that were not looked at to count those that the person can decide."""
        return group.number > MAX_COUNTED_OPEN and group.queue_id in self.scope.decides

    def first(
        self,
        rows: QuerySet[Interrupt],
        *,
        filters: InboxFilters = NO_FILTERS,
        after: Place | None = None,
        before: Place | None = None,
        are_decided: bool = False,
        limit: int,
    ) -> list[int]:
        """Return the primary keys of the first of these rows, in the order of the inbox; before a place the last ones.

        ``rows`` are further conditions on the requests; ``are_decided``: only those of queues in which the person
        decides. A text search is not applied.
        """
        order = filters.order if before is None else reversed_order(filters.order)
        return first_keys(self._branches(rows, filters, after, before, are_decided, limit), order, limit)

    def first_as_subquery(
        self,
        rows: QuerySet[Interrupt],
        *,
        filters: InboxFilters,
        after: Place | None = None,
        are_decided: bool = False,
        limit: int,
    ) -> RawSQL | None:
        """Return the same primary keys as a subquery; ``None`` if there is no group."""
        branches = self._branches(rows, filters, after, None, are_decided, limit)
        return keys_subquery(branches, filters.order, limit) if branches else None

    def _branches(
        self,
        rows: QuerySet[Interrupt],
        filters: InboxFilters,
        after: Place | None,
        before: Place | None,
        are_decided: bool,
        limit: int,
    ) -> list[Statement]:
        order = filters.order if before is None else reversed_order(filters.order)
        waiting = rows.filter(status=InterruptStatus.WAITING)
        if after is not None:
            waiting = waiting.filter(filter_after_open(after, filters.order))
        if before is not None:
            waiting = waiting.filter(filter_before_open(before, filters.order))
        texts: dict[bool, Statement | None] = {}
        branches = []
        for group in self.groups:
            if not group.passes(filters) or (filters.order == ORDER and _is_outside(group, after, before)):
                continue
            if are_decided and group.queue_id not in self.scope.decides:
                continue
            has_queue = group.queue_id is not None
            if has_queue not in texts:
                of_group = waiting.filter(_of_group(has_queue=has_queue))
                null = () if has_queue else ("-queue_id",) if order[0].startswith("-") else ("queue_id",)
                texts[has_queue] = compile_branch(of_group, order, limit, all_null=null)
            text = texts[has_queue]
            if text is not None:
                branches.append((text[0], [_value_of(param, group) for param in text[1]]))
        own = None if self.scope.everything or are_decided else self.own(waiting, filters)
        own_branch = None if own is None else compile_branch(own, order, limit)
        return branches if own_branch is None else [*branches, own_branch]

    def own(self, rows: QuerySet[Interrupt], filters: InboxFilters = NO_FILTERS) -> QuerySet[Interrupt]:
        """Return those of the rows that the person sees only because they started the run."""
        if self.scope.person is None:  # a filter by None would find the runs without an initiator
            return rows.none()
        rows = rows.filter(**filters.columns)
        if filters.risk:
            rows = rows.filter(risk_rank=RISK_RANK[filters.risk])
        beside = Q(queue__in=sorted(self.scope.queues)) | Q(agent__in=sorted(self.scope.agents))
        started = Run.objects.filter(initiator=self.scope.person, ended_at=None)
        return rows.filter(run__in=started).exclude(beside)


def shown_number(number: int, is_more: bool = False, *, most: int = MAX_COUNTED_OPEN) -> str:
    """Return a count as text, with a plus if it is only a lower bound."""
    return f"{min(number, most)}+" if is_more or number > most else str(number)


def read_open_requests(
    person: AbstractUser, *, are_counted: bool = False, count_decidable_at: datetime | None = None
) -> OpenRequests:
    """Read what the person may see now, and the groups of open requests in it.

    ``count_decidable_at``: also count those that the person can decide at this time.
    """
    if not person.is_active:
        return OpenRequests(scope=VisibleScope(), groups=())
    scope, params = scope_rows(person.pk).query.get_compiler(connection=connection).as_sql()
    most = MAX_COUNTED_OPEN + 1
    number, decidable, values = _NUMBER.format(most=most) if are_counted else "0", "0", list(params)
    if count_decidable_at is not None:
        condition, more = decidable_sql(person.pk, now=count_decidable_at)
        columns = ", ".join(f"i.{name}" for name in DECIDABLE_COLUMNS)
        decidable, values = _DECIDABLE.format(columns=columns, most=most, condition=condition), values + more
    with connection.cursor() as cursor:
        cursor.execute(_GROUPS.format(scope=scope, number=number, decidable=decidable), values)
        rows = cursor.fetchall()
    groups = [_group(row[1:]) for row in rows if row[0] == "group"]
    return OpenRequests(
        scope=make_scope(person, [(row[0], row[1]) for row in rows if row[0] != "group"]),
        groups=tuple(sorted(groups, key=lambda group: group.risk_rank)),
    )


def _group(row: Sequence[Any]) -> OpenGroup:
    queue_id, agent_id, reason, rank, queue, agent, number, decidable = row
    return OpenGroup(
        queue_id=queue_id,
        agent_id=agent_id,
        reason=reason,
        risk_rank=rank,
        queue=queue or "",
        agent=agent,
        number=number,
        decidable=decidable,
    )


def _of_group(*, has_queue: bool) -> Q:
    equal: dict[str, Any] = {
        "agent": int_parameter("agent_id"),
        "reason": text_parameter("reason"),
        "risk_rank": int_parameter("risk_rank"),
    }
    return Q(**equal, queue=int_parameter("queue_id")) if has_queue else Q(**equal, queue=None)


def _value_of(param: Any, group: OpenGroup) -> Any:
    return getattr(group, param.name) if isinstance(param, Parameter) and param.name else param


def _is_outside(group: OpenGroup, after: Place | None, before: Place | None) -> bool:
    """Tell whether the whole group lies on the other side of a place."""
    return (after is not None and group.risk_rank < after[0]) or (before is not None and group.risk_rank > before[0])


class _RowValue(Func):
    """A row value such as ``(risk_rank, deadline, id)``.

    Compared as one value it is a position in the index. Conditions joined by OR would read the index from its start.
    """

    template = "(%(expressions)s)"
    output_field = TextField()


def reversed_order(order: tuple[str, ...]) -> tuple[str, ...]:
    """Return the opposite order. All columns of an order have the same direction."""
    return tuple(name.removeprefix("-") if name.startswith("-") else f"-{name}" for name in order)


def filter_after_open(place: Place, order: tuple[str, ...] = ORDER) -> GreaterThan | LessThan:
    """Return the filter for open requests after a place in this order."""
    values = dict(zip(ORDER, place, strict=True))
    columns = [name.removeprefix("-") for name in order]
    compared = LessThan if order[0].startswith("-") else GreaterThan
    return compared(_RowValue(*columns), _RowValue(*(Value(values[name]) for name in columns)))


def filter_before_open(place: Place, order: tuple[str, ...] = ORDER) -> GreaterThan | LessThan:
    """Return the filter for open requests before a place in this order."""
    return filter_after_open(place, reversed_order(order))


def filter_after_closed(_: int, at: datetime, pk: int) -> LessThan:
    return LessThan(_RowValue("closed_at", "id"), _RowValue(Value(at), Value(pk)))
