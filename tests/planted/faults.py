"""Named breakages of the product, each with the test that has to see it.

A fault is planted in a process of its own, by a patch of what is looked up when it is called: the product's sources stay as
they are. A name that is gone fails ``test_planted``, and so does a fault that its test doesn't see. Faults that only a race
or a kill shows are the ``test_without_...`` in ``tests.races`` and ``tests.crashes``.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db import transaction

from ledger import compensation, effects
from ledger.effects import Next
from reviewqueue import gateway, tasks
from reviewqueue.doctor import records, rows
from runs import (
    acting,
    approvals,
    checking,
    deadlines,
    expiry,
    interrupts,
    leases,
    permits,
    policies,
    renewing,
    resuming,
    signals,
    verification,
)
from runs.models import FactStatus, Permit
from tests.reviewqueue import test_gateway, test_tampering
from tests.runs import (
    test_acting,
    test_checking,
    test_compensation,
    test_control,
    test_ladders,
    test_permits,
    test_permits_taken_back,
    test_probing,
    test_resuming,
    test_signals,
)


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One breakage: what it breaks, how, which test sees it, and which promises of `tests/promises.py` it would cost."""

    words: str
    plant: Callable[[], None]
    seen_by: Callable[..., None]
    costs: tuple[int, ...]


FAULTS: list[Fault] = []


def fault(
    *, seen_by: Callable[..., None], costs: tuple[int, ...]
) -> Callable[[Callable[[], None]], Callable[[], None]]:
    def written(plant: Callable[[], None]) -> Callable[[], None]:
        words = plant.__name__.replace("_", " ")
        FAULTS.append(Fault(words=words, plant=plant, seen_by=seen_by, costs=costs))
        return plant

    return written


def everywhere(sound: Any, broken: Any) -> None:
    """Put the broken one wherever the product has imported the sound one."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in {"ledger", "runs", "reviewqueue"}:
            for member in [it for it, value in vars(module).items() if value is sound]:
                setattr(module, member, broken)


def nothing(*_: Any, **__: Any) -> None:
    """Do not do it."""


# --- answers and deadlines --------------------------------------------------------------------------------------------


@fault(seen_by=test_gateway.test_an_answer_exactly_at_the_deadline_is_late, costs=(7,))
def an_answer_exactly_at_the_deadline_is_in_time() -> None:
    everywhere(deadlines.is_over, lambda interrupt, *, now: interrupt.deadline < now)


@fault(seen_by=test_gateway.test_another_version_or_another_content_is_stale, costs=(3, 12))
def an_answer_counts_whatever_its_reader_saw() -> None:
    sound = gateway._find_refusal

    def blind(responder: Any, interrupt: Any, seen: Any, *more: Any, **named: Any) -> Any:
        return sound(responder, interrupt, gateway.Seen(state_version=interrupt.state_version), *more, **named)

    gateway._find_refusal = blind


@fault(seen_by=test_gateway.test_denied_attempts_are_kept_up_to_a_bound, costs=(24,))
def a_refusal_takes_its_record_back_with_it() -> None:
    sound = gateway._keep_refused

    def raised(*words: Any, **named: Any) -> Any:
        raise sound(*words, **named)

    gateway._keep_refused = raised


@fault(seen_by=test_gateway.test_the_check_of_facts_is_a_row_of_the_answers_own_transaction, costs=(4,))
def what_follows_is_enqueued_on_commit() -> None:
    sound = tasks.enqueue_check
    tasks.enqueue_check = lambda continuation: transaction.on_commit(lambda: sound(continuation))


@fault(seen_by=test_ladders.test_after_a_downtime_a_chain_is_climbed_one_level_at_a_time, costs=(8,))
def a_level_of_a_chain_gets_no_time_of_its_own() -> None:
    everywhere(interrupts.escalate_interrupt, functools.partial(_without_time, interrupts.escalate_interrupt))


def _without_time(sound: Any, interrupt: Any, *, to: Any, wait: timedelta, now: Any) -> None:
    sound(interrupt, to=to, wait=-wait, now=now)


@fault(seen_by=test_ladders.test_people_are_reminded_once_for_each_time_of_the_policy, costs=(8,))
def a_reminder_does_not_say_that_it_was_given() -> None:
    expiry.remind_interrupt = nothing


@fault(seen_by=test_signals.test_one_signal_wakes_one_wait_and_the_next_is_kept_for_the_next, costs=(3,))
def a_signal_is_not_used_up() -> None:
    sound = signals.answer_by_itself

    def unused(*words: Any, signal: Any, **named: Any) -> Any:
        type(signal).objects.filter(pk=signal.pk).update(used_by=None, used_at=None)
        return sound(*words, signal=signal, **named)

    signals.answer_by_itself = unused


# --- going on ---------------------------------------------------------------------------------------------------------


@fault(seen_by=test_resuming.test_a_stale_lease_cannot_write, costs=(9,))
def a_lease_is_good_whatever_its_fence() -> None:
    sound = leases.check_lease
    everywhere(sound, lambda run, token, *, now: sound(run, leases.lease_of(run).token, now=now))


@fault(
    seen_by=test_resuming.test_a_changed_checkpoint_goes_to_no_worker_and_the_answer_is_kept,
    costs=(24,),
)
def a_checkpoint_is_not_compared_with_its_digest() -> None:
    resuming.is_intact = lambda checkpoint: True


@fault(
    seen_by=test_permits_taken_back.test_an_answer_of_somebody_who_lost_the_right_permits_nothing,
    costs=(13,),
)
def authority_is_not_asked_again_in_the_claim() -> None:
    resuming._reopen_unauthorised = lambda *_, **__: False


@fault(
    seen_by=test_checking.test_a_changed_fact_sends_the_run_back_to_its_agent_with_the_answer_as_evidence,
    costs=(14,),
)
def a_fact_is_taken_as_it_was() -> None:
    sound = checking.record_value

    def unchanged(fact: Any, *words: Any, **named: Any) -> None:
        sound(fact, *words, **named)
        fact.last_status = FactStatus.SAME

    checking.record_value = unchanged


@fault(seen_by=test_checking.test_an_answer_that_was_overtaken_is_not_told_as_an_answer_ever_again, costs=(14,))
def an_overtaken_answer_stays_accepted() -> None:
    renewing.free_keys = nothing


# --- effects ----------------------------------------------------------------------------------------------------------


@fault(seen_by=test_permits.test_another_call_than_the_approved_one_is_refused_and_shown, costs=(12,))
def the_call_is_not_compared_with_the_approved_one() -> None:
    approvals.check_permit = nothing
    approvals.standing_permit = lambda run, **_: Permit.objects.filter(run=run).first()


@fault(seen_by=test_permits.test_a_permit_begins_one_effect_only, costs=(5, 12))
def a_spent_permit_begins_another_effect() -> None:
    permits._spent = lambda run: effects.Effect.objects.none()


@fault(
    seen_by=test_permits_taken_back.test_an_answer_that_was_taken_back_permits_nothing_whoever_answers_next,
    costs=(12,),
)
def an_answer_taken_back_leaves_its_permit() -> None:
    interrupts.void_permits = nothing


@fault(seen_by=test_tampering.test_a_permit_changed_past_the_triggers_begins_no_effect, costs=(12, 24))
def a_permit_is_not_compared_with_its_decision() -> None:
    acting.find_changed_permit = lambda *_, **__: ""


@fault(seen_by=test_tampering.test_a_permit_whose_end_was_moved_begins_no_effect, costs=(24,))
def a_permit_is_not_compared_with_its_event() -> None:
    verification.find_changed = lambda *_, **__: ""


@fault(seen_by=test_tampering.test_an_effect_whose_outcome_was_changed_is_not_begun_again, costs=(5, 24))
def an_effect_is_not_compared_with_its_event() -> None:
    acting.find_changed = lambda *_, **__: ""


@fault(seen_by=test_tampering.test_a_changed_request_is_not_decided, costs=(12, 24))
def a_request_is_not_compared_with_what_was_recorded() -> None:
    gateway.find_changed_request = lambda *_: ""


@fault(seen_by=test_tampering.test_a_policy_changed_in_place_opens_and_decides_nothing, costs=(24,))
def a_policy_is_not_compared_at_a_decision() -> None:
    gateway.is_as_recorded = lambda *_: True


@fault(seen_by=test_tampering.test_a_policy_changed_in_place_opens_and_decides_nothing, costs=(24,))
def a_policy_is_not_compared_when_a_request_is_opened() -> None:
    policies.refuse_changed_policy = nothing


@fault(seen_by=test_tampering.test_a_checkpoint_changed_with_its_digest_goes_to_no_worker, costs=(24,))
def a_checkpoint_is_not_compared_with_its_event() -> None:
    resuming.find_changed = lambda *_: ""


@fault(seen_by=test_tampering.test_a_changed_record_is_named_by_the_doctor, costs=(24,))
def the_doctor_does_not_compare_records_with_events() -> None:
    rows.find_changed_records = lambda _: ""


@fault(seen_by=test_tampering.test_a_changed_policy_is_named_by_the_doctor, costs=(24,))
def the_doctor_does_not_compare_the_configuration() -> None:
    records.changed_configuration = lambda: iter(())


@fault(
    seen_by=test_control.test_a_pause_takes_effect_at_the_next_safe_point_and_no_effect_begins_before,
    costs=(16,),
)
def an_effect_begins_though_a_pause_was_asked() -> None:
    acting._check_flags = nothing


@fault(
    seen_by=test_control.test_a_halted_agent_starts_claims_and_begins_nothing_until_it_is_lifted,
    costs=(16,),
)
def an_effect_begins_though_its_agent_is_halted() -> None:
    acting.refuse_halted = nothing


@fault(
    seen_by=test_acting.test_a_restarted_worker_under_the_same_lease_puts_the_effect_in_doubt,
    costs=(5, 6),
)
def an_effect_in_doubt_is_tried_again() -> None:
    sound = effects.foresee

    def blind(*words: Any, **named: Any) -> Next:
        found = sound(*words, **named)
        return Next.NEXT_ATTEMPT if found is Next.DOUBT else found

    effects.foresee = blind


@fault(seen_by=test_probing.test_what_was_declared_as_done_settles_it_and_the_run_goes_on, costs=(5, 6))
def a_lost_lease_leaves_no_doubt() -> None:
    effects.doubt_effects = lambda **_: []


@fault(seen_by=test_acting.test_a_contradiction_holds_the_run_until_its_owner_has_looked, costs=(6,))
def a_report_never_contradicts_what_stands() -> None:
    effects._contradicts = lambda *_, **__: False


@fault(seen_by=test_compensation.test_a_cancelled_run_takes_back_what_it_did_newest_first, costs=(15,))
def what_was_done_first_is_taken_back_first() -> None:
    sound = compensation.due_undos
    compensation.due_undos = lambda scope, *, on: list(reversed(sound(scope, on=on)))
    compensation.newest_due_undo = lambda scope, *, on: next(iter(compensation.due_undos(scope, on=on)), None)
