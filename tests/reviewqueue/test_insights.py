# ruff: noqa: S608  these statements contain only our own text
"""The measures: each is what plain SQL over the same rows says, and counts only what its reader may see."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection

from ledger import clock
from reviewqueue import permissions
from reviewqueue.queries.insights import Insights, read_insights
from reviewqueue.queries.insights.scope import PERIODS, insights_scope
from reviewqueue.rollups.cells import AGES, rounded_down
from tests import builders
from tests.reviewqueue.a_busy_quarter import FOREIGN, SEEN, Quarter, a_reader

pytestmark = pytest.mark.django_db

MINE = "q.slug IN ('engineering', 'purchasing')"
INTERRUPTS = "runs_interrupt i JOIN runs_queue q ON q.id = i.queue_id"
ANSWERS = "runs_decision d JOIN runs_interrupt i ON i.id = d.interrupt_id JOIN runs_queue q ON q.id = i.queue_id"
MY_RUNS = f"(SELECT i.run_id FROM {INTERRUPTS} WHERE {MINE})"
REFUSED = "('stale', 'late', 'denied', 'invalid', 'duplicate')"


@pytest.fixture
def quarter() -> Quarter:
    rows = Quarter(now=clock.now(), decided=500, open_waits=60)
    rows.write()
    return rows


def measures(reader: User, now: datetime, *, days: int = 30, queue: str = "", agent: str = "") -> Insights:
    return read_insights(
        insights_scope(visible=permissions.read_scope(reader), days=days, now=now, queue=queue, agent=agent)
    )


def sql(statement: str, **moments: datetime) -> list[tuple[Any, ...]]:
    """Rows of a plain statement; `:name` stands for a time."""
    names = re.findall(r" :(\w+)", statement)
    with connection.cursor() as cursor:
        values = [connection.ops.adapt_datetimefield_value(moments[name]) for name in names]
        cursor.execute(re.sub(r" :\w+", " %s", statement), values)
        return cursor.fetchall()


def number(statement: str, **moments: datetime) -> int:
    return sql(statement, **moments)[0][0] or 0


def seconds(later: str, earlier: str) -> str:
    if connection.vendor == "postgresql":
        return f"ROUND(EXTRACT(EPOCH FROM CAST({later} AS timestamptz) - {earlier}))"
    return f"ROUND((julianday({later}) - julianday({earlier})) * 86400)"


def day(column: str, *, week: bool) -> str:
    if connection.vendor == "postgresql":
        return f"CAST(DATE_TRUNC('{'week' if week else 'day'}', {column} AT TIME ZONE 'UTC') AS date)"
    return f"DATE({column}, '-6 days', 'weekday 1')" if week else f"DATE({column})"


def quantile(percent: int, length: str, rows: str, **moments: datetime) -> int | None:
    """The length at its rank, by ORDER BY and OFFSET."""
    many = number(f"SELECT COUNT(*) FROM {rows}", **moments)
    if not many:
        return None
    place = (many * percent + 99) // 100 - 1
    exact = sql(f"SELECT {length} AS taken FROM {rows} ORDER BY 1 LIMIT 1 OFFSET {place}", **moments)[0][0]
    return rounded_down(int(exact))


def whole(length: timedelta | None) -> int | None:
    return None if length is None else int(length.total_seconds())


def test_the_age_of_open_requests_is_what_sql_says(quarter: Quarter):
    found = measures(a_reader(), quarter.now).waiting
    opened = f"{INTERRUPTS} WHERE {MINE} AND i.status = 'waiting'"
    assert found.ages.number == number(f"SELECT COUNT(*) FROM {opened}") > 40
    for percent, length in (
        (10, found.ages.p10),
        (50, found.ages.p50),
        (90, found.ages.p90),
        (100, found.ages.longest),
    ):
        ages = sql(f"SELECT i.created_at FROM {opened} ORDER BY i.created_at DESC")
        rank = (len(ages) * percent + 99) // 100 - 1
        age = quarter.now - _datetime_of(ages[rank][0])
        assert length == timedelta(seconds=rounded_down(int(age.total_seconds())))
    for name, (youngest, oldest) in AGES.items():
        end = quarter.now - oldest if oldest else datetime(2000, 1, 1, tzinfo=UTC)
        band = f"{opened} AND i.created_at <= :begin AND i.created_at > :finish"
        counted = number(f"SELECT COUNT(*) FROM {band}", begin=quarter.now - youngest, finish=end)
        soon = quarter.now + timedelta(hours=2)
        begun = {"begin": quarter.now - youngest, "finish": end, "soon": soon}
        ending = number(f"SELECT COUNT(*) FROM {band} AND i.deadline < :soon", **begun)
        assert found.bands[name] == (counted, ending)
    by_queue = dict(sql(f"SELECT q.slug, COUNT(*) FROM {opened} GROUP BY q.slug"))
    assert {queue: ages.number for queue, ages in found.queues.items()} == by_queue
    assert set(by_queue) == set(SEEN)


def _datetime_of(value: Any) -> datetime:
    moment = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def test_the_time_to_decide_is_what_sql_says(quarter: Quarter):
    for days in PERIODS:
        found = measures(a_reader(), quarter.now, days=days)
        taken = seconds("d.created_at", "i.created_at")
        closing = f"{ANSWERS} WHERE {MINE} AND d.closes AND d.by_id IS NOT NULL AND d.created_at >= :since"
        since = found.scope.since
        assert found.deciding.lengths.number == number(f"SELECT COUNT(*) FROM {closing}", since=since) > 0
        for percent, length in ((10, "p10"), (50, "p50"), (90, "p90"), (100, "longest")):
            assert whole(getattr(found.deciding.lengths, length)) == quantile(percent, taken, closing, since=since)
            for risk, lengths in found.deciding.risks.items():
                of_risk = f"{closing} AND i.risk = '{risk}'"
                assert whole(getattr(lengths, length)) == quantile(percent, taken, of_risk, since=since)
        earlier = since - timedelta(days=days)
        before = f"{closing} AND d.created_at < :until"
        assert whole(found.deciding.before.p50) == quantile(50, taken, before, since=earlier, until=since)


def test_refusals_and_ends_are_what_sql_says(quarter: Quarter):
    for days in PERIODS:
        found = measures(a_reader(), quarter.now, days=days)
        since = {"since": found.scope.since}
        said = f"{ANSWERS} WHERE {MINE} AND d.by_id IS NOT NULL AND d.created_at >= :since"
        assert found.refused.submitted == number(f"SELECT COUNT(*) FROM {said}", **since)
        by_code = sql(
            f"SELECT d.status, d.code, COUNT(*) FROM {said} AND d.status IN {REFUSED} GROUP BY d.status, d.code",
            **since,
        )
        assert found.refused.codes == {(status, code): many for status, code, many in by_code}
        assert list(found.refused.codes.values()) == sorted(found.refused.codes.values(), reverse=True)
        closed = f"{INTERRUPTS} WHERE {MINE} AND i.status <> 'waiting' AND i.closed_at >= :since"
        by_status = dict(sql(f"SELECT i.status, COUNT(*) FROM {closed} GROUP BY i.status", **since))
        assert {status: many for status, many in found.ended.statuses.items() if many} == by_status
        expired = f"{closed} AND i.status = 'expired'"
        assert found.ended.escalated == number(f"SELECT COUNT(*) FROM {expired} AND i.level > 0", **since)
        default = "d.interrupt_id = i.id AND d.cause = 'system:expiry' AND d.status = 'accepted' AND d.verdict <> ''"
        answered = f"{expired} AND EXISTS (SELECT 1 FROM runs_decision d WHERE {default})"
        assert found.ended.by_default == number(f"SELECT COUNT(*) FROM {answered}", **since)


def test_what_became_of_resumed_runs_is_what_sql_says(quarter: Quarter):
    for days in PERIODS:
        found = measures(a_reader(), quarter.now, days=days)
        first = (
            "SELECT c.run_id, MIN(c.leased_at) AS at FROM runs_continuation c "
            f"WHERE c.cause IN ('person', 'system:expiry') AND c.leased_at >= :since AND c.run_id IN {MY_RUNS} "
            "GROUP BY c.run_id"
        )
        cut = day("f.at", week=days > 7)
        rows = sql(
            f"SELECT {cut}, r.status, COUNT(*) FROM ({first}) f JOIN runs_run r ON r.id = f.run_id GROUP BY 1, 2",
            since=found.scope.since,
        )
        assert [
            (str(part), status, many)
            for part, statuses in found.resumed.parts.items()
            for status, many in statuses.items()
        ] == [(str(part), status, many) for part, status, many in sorted(rows, key=lambda row: (str(row[0]), row[1]))]
        assert found.resumed.number() == sum(row[2] for row in rows)
        assert found.resumed.number("completed") == sum(row[2] for row in rows if row[1] == "completed")


def test_the_work_that_was_spared_is_what_sql_says(quarter: Quarter):
    for days in PERIODS:
        found = measures(a_reader(), quarter.now, days=days)
        since = {"since": found.scope.since}
        mine = f"c.leased_at >= :since AND c.run_id IN {MY_RUNS}"
        joined = "runs_continuation c JOIN runs_checkpoint p ON p.id = c.checkpoint_id"
        reached = f"{joined} WHERE {mine} AND c.acknowledged_at IS NOT NULL"
        kept = number(f"SELECT SUM(p.number) FROM {reached} AND c.cause NOT IN ('start', 'restart')", **since)
        lost = number(f"SELECT COUNT(*) FROM {reached} AND c.cause IN ('lease_lost', 'handed_back')", **since)
        again = number(
            f"SELECT COUNT(*) FROM runs_checkpoint n JOIN runs_continuation c ON c.run_id = n.run_id AND c.fence = n.fence "
            f"WHERE {mine} AND c.cause = 'replan' AND c.acknowledged_at IS NOT NULL "
            "AND EXISTS (SELECT 1 FROM runs_checkpoint o WHERE o.run_id = n.run_id AND o.epoch = n.epoch "
            "AND o.step = n.step AND o.fence < n.fence)",
            **since,
        )
        skipped = number(f"SELECT SUM(c.effects_skipped) FROM runs_continuation c WHERE {mine}", **since)
        assert found.spared.totals() == (kept - again, lost + again, skipped)
        assert again > 0 or days < 90
        effects = f"ledger_effect e WHERE e.scope IN (SELECT r.public_id FROM runs_run r WHERE r.id IN {MY_RUNS})"
        assert found.spared.unknown_now == number(f"SELECT COUNT(*) FROM {effects} AND e.status = 'unknown'") > 0
        said = "FROM ledger_effectreport p WHERE p.effect_id = e.id AND p.status = 'applied'"
        twice = f"(SELECT COUNT(DISTINCT p.attempt) {said}) > 1"
        unordered = "NOT EXISTS (SELECT 1 FROM ledger_order o WHERE o.effect_id = e.id)"
        repeated = f"{effects} AND e.repeat = 'never' AND e.changed_at >= :since AND {unordered} AND {twice}"
        assert found.spared.repeated == number(f"SELECT COUNT(*) FROM {repeated}", **since)


def test_the_load_of_each_person_is_what_sql_says(quarter: Quarter):
    found = measures(a_reader(), quarter.now)
    since = {"since": found.scope.since}
    closing = f"{ANSWERS} JOIN auth_user u ON u.id = d.by_id WHERE {MINE} AND d.closes AND d.created_at >= :since"
    counts = sql(
        "SELECT u.username, COUNT(*), SUM(CASE WHEN i.risk = 'high' THEN 1 ELSE 0 END), "
        f"SUM(CASE WHEN d.status = 'revoked' THEN 1 ELSE 0 END) FROM {closing} GROUP BY u.username",
        **since,
    )
    assert {(share.address, share.decided, share.high_risk, share.revoked) for share in found.load} == set(counts)
    claims = f"{INTERRUPTS} JOIN auth_user u ON u.id = i.claimed_by_id"
    held = f"{claims} WHERE {MINE} AND i.status = 'waiting' AND i.claimed_until > :now"
    claimed = dict(sql(f"SELECT u.username, COUNT(*) FROM {held} GROUP BY u.username", now=quarter.now))
    assert {share.address: share.claimed_now for share in found.load if share.claimed_now} == claimed
    taken = seconds("d.created_at", "i.created_at")
    for share in found.load:
        own = f"{closing} AND u.username = '{share.address}'"
        assert whole(share.median) == quantile(50, taken, own, **since)
    assert [share.name for share in found.load if share.address == "lena@example.org"] == ["Lena"]


def test_a_queue_and_an_agent_narrow_every_measure(quarter: Quarter):
    reader = a_reader()
    everything = measures(reader, quarter.now)
    parts = [measures(reader, quarter.now, queue=queue) for queue in SEEN]
    assert sum(part.waiting.ages.number for part in parts) == everything.waiting.ages.number
    assert sum(part.deciding.lengths.number for part in parts) == everything.deciding.lengths.number
    assert sum(part.refused.total for part in parts) == everything.refused.total
    assert sum(part.resumed.number() for part in parts) == everything.resumed.number()
    of_agents = [measures(reader, quarter.now, agent=agent) for agent in ("purchase-requests", "mail-desk")]
    assert sum(part.resumed.number() for part in of_agents) == everything.resumed.number()
    assert sum(part.spared.totals()[2] for part in of_agents) == everything.spared.totals()[2]


def test_figures_include_only_visible_requests(quarter: Quarter):
    reader, stranger = a_reader(), builders.a_person("nobody@example.org")
    assert measures(reader, quarter.now, queue=FOREIGN).waiting.ages.number == 0
    assert "otto@example.org" not in {share.address for share in measures(reader, quarter.now).load}
    nothing = measures(stranger, quarter.now, days=90)
    assert nothing.waiting.ages.number == nothing.deciding.lengths.number == nothing.refused.submitted == 0
    assert nothing.resumed.number() == nothing.ended.total == nothing.spared.unknown_now == len(nothing.load) == 0
    operator = measures(builders.a_person("op@example.org", permissions.OPERATORS), quarter.now, days=90)
    assert operator.waiting.ages.number > measures(reader, quarter.now).waiting.ages.number


def test_an_empty_installation_has_measures_too():
    found = measures(a_reader(), clock.now(), days=7)
    assert found.waiting.ages.p50 is found.deciding.lengths.p50 is None
    assert found.spared.totals() == (0, 0, 0)
    assert len(found.resumed.parts) == 7


def test_the_measures_take_a_bounded_number_of_statements(quarter: Quarter, django_assert_max_num_queries):
    reader = a_reader()
    with django_assert_max_num_queries(28):
        measures(reader, quarter.now, days=90)


@pytest.mark.parametrize(("days", "parts"), [(7, 7), (30, {5, 6}), (90, {13, 14})])
def test_a_period_is_cut_without_gaps(days: int, parts: Any):
    for hour in range(0, 24 * 9, 5):
        now = datetime(2026, 11, 26, tzinfo=UTC) + timedelta(hours=hour)
        scope = insights_scope(visible=permissions.VisibleScope(), days=days, now=now)
        cuts = scope.cuts()
        assert len(cuts) in (parts if isinstance(parts, set) else {parts})
        assert {later - earlier for earlier, later in pairwise(cuts)} == {timedelta(days=7 if days > 7 else 1)}
        assert cuts[0] <= scope.since.date() < cuts[1]
        assert cuts[-1] <= now.date()
