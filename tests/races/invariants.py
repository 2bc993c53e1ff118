"""Invariants of a run after any race or kill, checked in SQL; and responses that no client may get."""

from __future__ import annotations

from typing import Any

from django.db import connection

from runs.models import Run
from runs.run_status import ImpossibleStatus, compute_status
from runs.timeline import find_broken_event
from tests.races.race_runner import RaceResult

#: Each statement returns one row for each breach of the promise that names it; `%s` is the run.
PROMISES = {
    "two accepted answers": """
        SELECT interrupt_id FROM runs_decision d JOIN runs_interrupt i ON i.id = d.interrupt_id
        WHERE i.run_id = %s AND d.status = 'accepted' AND d.closes GROUP BY interrupt_id HAVING count(*) > 1""",
    "an answer accepted after the deadline": """
        SELECT d.id FROM runs_decision d JOIN runs_interrupt i ON i.id = d.interrupt_id
        WHERE i.run_id = %s AND d.status = 'accepted' AND d.by_id IS NOT NULL AND d.created_at >= i.deadline""",
    "an accepted answer to an interrupt that is not closed": """
        SELECT d.id FROM runs_decision d JOIN runs_interrupt i ON i.id = d.interrupt_id
        WHERE i.run_id = %s AND d.status = 'accepted' AND i.status NOT IN ('answered', 'expired')
        AND NOT (i.status = 'withdrawn' AND d.cause = 'withdrawn')""",
    "an answered interrupt without its answer": """
        SELECT i.id FROM runs_interrupt i WHERE i.run_id = %s AND i.status = 'answered'
        AND NOT EXISTS (SELECT 1 FROM runs_decision d
                        WHERE d.interrupt_id = i.id AND d.status IN ('accepted', 'overtaken'))""",
    "an answered checkpoint that no worker can continue from": """
        SELECT i.id FROM runs_interrupt i JOIN runs_run r ON r.id = i.run_id WHERE i.run_id = %s AND i.status = 'answered'
        AND i.epoch = r.epoch AND r.ending = ''
        AND NOT EXISTS (SELECT 1 FROM runs_continuation c WHERE c.checkpoint_id = i.checkpoint_id)
        AND NOT EXISTS (SELECT 1 FROM runs_interrupt o WHERE o.checkpoint_id = i.checkpoint_id AND o.status = 'waiting')""",
    "two open continuations": """
        SELECT run_id FROM runs_continuation WHERE run_id = %s AND status IN ('checking', 'ready', 'leased')
        GROUP BY run_id HAVING count(*) > 1""",
    "two continuations of one cause": """
        SELECT checkpoint_id FROM runs_continuation WHERE run_id = %s AND cause IN ('person', 'system:expiry', 'withdrawn')
        AND status <> 'void' GROUP BY checkpoint_id HAVING count(*) > 1""",
    "an open interrupt beside a lease or an open continuation": """
        SELECT r.id FROM runs_run r WHERE r.id = %s
        AND EXISTS (SELECT 1 FROM runs_interrupt i WHERE i.run_id = r.id AND i.status = 'waiting')
        AND (r.lease_until IS NOT NULL OR EXISTS (SELECT 1 FROM runs_continuation c WHERE c.run_id = r.id
             AND c.status IN ('checking', 'ready', 'leased')))""",
    "a permit without an approval": """
        SELECT p.id FROM runs_permit p JOIN runs_decision d ON d.id = p.decision_id
        WHERE p.run_id = %s AND p.void_at IS NULL AND (d.status <> 'accepted' OR d.verdict NOT IN ('approve', 'edit'))""",
    "counts that differ from the rows": """
        SELECT r.id FROM runs_run r WHERE r.id = %s AND (
           r.open_waits <> (SELECT count(*) FROM runs_interrupt i WHERE i.run_id = r.id AND i.status = 'waiting')
        OR r.open_holds <> (SELECT count(*) FROM runs_hold h WHERE h.run_id = r.id AND h.lifted_at IS NULL)
        OR r.handed_back <> (SELECT count(*) FROM runs_handback b WHERE b.run_id = r.id AND b.over_at IS NULL)
        OR r.open_continuation <> coalesce((SELECT max(c.status) FROM runs_continuation c WHERE c.run_id = r.id
                                            AND c.status IN ('checking', 'ready', 'leased')), ''))""",
    "awaited by workers, and not offered to them, or the other way round": """
        SELECT r.id FROM runs_run r WHERE r.id = %s AND (r.ready_since IS NOT NULL) <> (r.status = 'ready'
        OR (r.status = 'cancelling' AND r.open_continuation = 'ready' AND r.open_holds = 0))""",
    "a check that no task and no sweep will make": """
        SELECT c.id FROM runs_continuation c WHERE c.run_id = %s AND c.status = 'checking' AND c.check_due_at IS NULL""",
    "an effect under way that no live lease began": """
        SELECT e.id FROM ledger_effect e JOIN runs_run r ON r.public_id = e.scope WHERE r.id = %s
        AND e.status = 'intended' AND e.settle_by IS NULL AND (r.lease_until IS NULL OR r.fence <> e.fence)""",
    "an unknown effect without an owner": """
        SELECT e.id FROM ledger_effect e JOIN runs_run r ON r.public_id = e.scope WHERE r.id = %s
        AND e.status = 'unknown' AND e.repeat = 'never' AND e.in_flight <> 'abandon'
        AND NOT EXISTS (SELECT 1 FROM ledger_order o WHERE o.effect_id = e.id AND o.used_by_attempt IS NULL)
        AND NOT EXISTS (SELECT 1 FROM runs_hold h WHERE h.run_id = r.id AND h.kind = 'unknown_effect' AND h.subject = e.key
            AND h.lifted_at IS NULL AND h.owner_id = e.owner_id)""",
    "an effect begun during a pause": """
        SELECT e.id FROM runs_event e JOIN runs_event p ON p.run_id = e.run_id AND p.seq < e.seq
        WHERE e.run_id = %s AND e.type = 'effect.begun' AND p.type = 'run.pause_asked'
        AND NOT EXISTS (SELECT 1 FROM runs_event r WHERE r.run_id = e.run_id AND r.seq BETWEEN p.seq AND e.seq
                        AND r.type IN ('run.resumed', 'run.ending', 'run.restarted'))""",
    "a run that ended with an effect in the open": """
        SELECT e.id FROM ledger_effect e JOIN runs_run r ON r.public_id = e.scope WHERE r.id = %s
        AND r.ended_at IS NOT NULL AND e.status IN ('intended', 'unknown')""",
}


def breaches(run_pk: int) -> list[str]:
    """Return the invariants that this run breaks, as texts."""
    found = [promise for promise, statement in PROMISES.items() if rows(statement, run_pk)]
    run = Run.objects.get(pk=run_pk)
    broken = find_broken_event(run)
    if broken:
        found.append(f"a timeline with a gap: {broken}")
    try:
        if compute_status(run) != run.status:
            found.append(f"a status that does not follow: {run.status}, not {compute_status(run)}")
    except ImpossibleStatus:
        found.append("a run that nothing can continue")
    return found


def forbidden_responses(told: list[RaceResult]) -> list[str]:
    """Return responses that no client may get: a server error, or a database that gave up."""
    broken = [f"{racer.by} met {racer.broke}" for racer in told if racer.broke]
    return broken + [f"{racer.by} got that the database is busy" for racer in told if racer.refused == "busy"]


def rows(statement: str, *values: Any) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return cursor.fetchall()


def deadlocks() -> int:
    """Return how many deadlocks the database has resolved so far."""
    [(count,)] = rows("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
    return int(count)
