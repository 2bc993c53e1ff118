"""The history checker: a verdict per promise from the clients' records, the database, and the receiver's count.

*holds*, *broken*, or *unknown*: if a client got no response and no other source shows the result, the checker does not
guess. It is a pure function of the evidence (`evidence`) and is itself tested with planted faults.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tests.nemesis import effect_checks, run_checks
from tests.nemesis.verdicts import BROKEN, HOLDS, UNKNOWN, Evidence, Finding, Verdict

CHECKS: Mapping[tuple[int, str], Callable[[Evidence], Finding]] = {
    (1, "creates answered 2xx"): run_checks.no_create_is_lost,
    (2, "keys of creates"): run_checks.no_create_is_doubled,
    (3, "closed waits"): run_checks.one_interrupt_has_one_outcome,
    (4, "decided interrupts"): run_checks.every_decision_is_continued,
    (5, "effects"): effect_checks.no_effect_is_repeated,
    (6, "unknown outcomes"): effect_checks.every_unknown_has_an_owner,
    (7, "accepted answers of people"): run_checks.no_late_answer_counts,
    (8, "waits"): run_checks.every_interrupt_ends_once,
    (9, "checkpoints"): run_checks.no_stale_lease_writes,
    (10, "messages"): run_checks.every_delivered_message_arrived,
    (15, "compensated effects"): effect_checks.compensations_are_applied_once_newest_first,
    (16, "pauses"): effect_checks.nothing_begins_in_a_pause,
    (17, "replies, the database restarted now and then"): run_checks.no_client_gets_a_server_error,
    (19, "ends at a deadline, by clocks an hour wrong"): run_checks.nothing_ends_early,
    (17, "runs held against every rule of the database"): run_checks.no_half_states,
}


def judge(evidence: Evidence) -> list[Verdict]:
    """Return one verdict for each check."""
    return [_verdict(promise, what, check(evidence)) for (promise, what), check in CHECKS.items()]


def _verdict(promise: int, what: str, found: Finding) -> Verdict:
    verdict = BROKEN if found.broken else UNKNOWN if found.unknown else HOLDS
    return Verdict(promise=promise, n=found.n, what=what, verdict=verdict, words=found.broken + found.unknown)
