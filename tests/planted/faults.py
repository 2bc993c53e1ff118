"""Named faults of the product, each with the test that must detect it.

A fault is planted in a separate process by patching a name that is looked up when it is called; the product's sources
stay unchanged. A missing name fails ``test_planted``, and so does a fault that its test does not detect. Faults that
only a race or a kill shows are the ``test_without_...`` in ``tests.races`` and ``tests.crashes``.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from django.db import transaction
from django.views.debug import SafeExceptionReporterFilter

from ledger import compensation, effect_names, effect_queries, effects, in_flight
from ledger.digests import digest
from ledger.effects import NextStep
from ledger.errors import PayloadInvalid
from reviewqueue import drafts, middleware, permission_sweep, permissions, resume_gateway, tasks
from reviewqueue.api import authentication, pagination
from reviewqueue.api.authentication import CallsPerMinute
from reviewqueue.api.problems import Unauthenticated
from reviewqueue.operations import error_reports, file_permissions
from reviewqueue.operations.doctor import records, row_consistency
from reviewqueue.pages.account_adapter import ClosedAccountAdapter
from reviewqueue.pages.interrupt import decision_evidence, decision_form
from reviewqueue.queries import inbox
from reviewqueue.serving import request_ids
from reviewqueue.serving.asgi_bridge import BoundedApplication
from reviewqueue.serving.request_bodies import BodyLimits
from reviewqueue.serving.thread_shares import Share, ThreadShares
from reviewqueue.text import hidden_characters, json_values
from runs import (
    effect_rules,
    external_signals,
    facts,
    interrupt_requests,
    interrupts,
    leases,
    permits,
    planted_requests,
    policies,
    revocation,
    timeline,
    verification,
)
from runs.models import Event, FactStatus, Permit, Queue
from runs.use_cases import (
    begin_effect,
    claim_continuation,
    expire,
    reconcile_facts,
    reconcile_renewals,
    revoke_approvals,
)
from tests.api import test_bounded_responses
from tests.attack import test_activity_of_others
from tests.pages import test_csrf_failure, test_disguised_calls, test_large_values
from tests.reviewqueue import (
    test_error_reports,
    test_file_permissions,
    test_gateway,
    test_lost_permissions,
    test_permissions,
    test_planted_requests,
    test_rate_limits,
    test_request_ids,
    test_reviewer_actions,
    test_sign_in_limits,
    test_tampering,
)
from tests.runs import (
    test_begin_effect,
    test_compensation,
    test_credentials,
    test_effect_rules,
    test_escalation,
    test_external_signals,
    test_leases_and_claims,
    test_permits,
    test_policies,
    test_probes,
    test_revalidation,
    test_revoked_permits,
    test_run_control,
)
from tests.serving import test_asgi_bridge, test_thread_shares


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One fault: what it breaks, how, the test that detects it, and the promises of `tests/promises.py` that it would
    break.
    """

    words: str
    plant: Callable[[], None]
    seen_by: Callable[..., None]
    costs: tuple[int, ...]


FAULTS: list[Fault] = []
#: Seconds that a test has whose fault makes it wait for ever; without the fault it needs two.
SHORT_PATIENCE = 6


def fault(
    *, seen_by: Callable[..., None], costs: tuple[int, ...]
) -> Callable[[Callable[[], None]], Callable[[], None]]:
    def written(plant: Callable[[], None]) -> Callable[[], None]:
        words = plant.__name__.replace("_", " ")
        FAULTS.append(Fault(words=words, plant=plant, seen_by=seen_by, costs=costs))
        return plant

    return written


def everywhere(sound: Any, broken: Any) -> None:
    """Replace the sound function wherever the product has imported it."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in {"ledger", "runs", "reviewqueue"}:
            for member in [it for it, value in vars(module).items() if value is sound]:
                setattr(module, member, broken)


def nothing(*_: Any, **__: Any) -> None:
    pass


@fault(
    seen_by=test_reviewer_actions.test_an_answer_by_page_can_be_undone_for_its_whole_time_whatever_closes_the_last_request,
    costs=(),
)
def a_continuation_ignores_the_undo_window() -> None:
    find_checks_and_undo_end = facts.find_checks_and_undo_end
    interrupts.find_checks_and_undo_end = lambda *of: (find_checks_and_undo_end(*of)[0], None)


# --- what the agent may choose ----------------------------------------------------------------------------------------


@fault(
    seen_by=test_policies.test_a_queue_that_the_policy_does_not_name_is_refused_and_so_is_one_that_does_not_exist,
    costs=(13,),
)
def a_policy_without_a_list_lets_the_agent_choose_any_queue() -> None:
    everywhere(
        policies.allowed_queues, lambda policy: policy.queues or list(Queue.objects.values_list("slug", flat=True))
    )


@fault(seen_by=test_policies.test_a_child_does_not_get_a_looser_policy_through_its_parent, costs=(13,))
def a_child_takes_any_policy_of_its_parent() -> None:
    everywhere(policies.is_as_strict, lambda policy, other: policy.agent_id is not None)


@fault(seen_by=test_policies.test_a_person_without_permission_and_an_unknown_person_get_the_same_answer, costs=(13,))
def a_refusal_reveals_known_addresses() -> None:
    sound = interrupt_requests.find_people

    def published(addresses: list[str]) -> list[Any]:
        people = sound(addresses)
        if None in people:
            raise PayloadInvalid.at(f"/interrupts/0/assignees/{people.index(None)}", "is not known")
        return people

    everywhere(sound, published)


@fault(seen_by=test_effect_rules.test_what_no_rule_names_is_refused_where_effects_are_listed, costs=(12,))
def an_effect_that_no_rule_names_may_begin() -> None:
    effect_rules.EffectMode = SimpleNamespace(LISTED="never")


@fault(seen_by=test_effect_rules.test_a_near_spelling_of_a_rules_name_is_refused_and_names_the_rule, costs=(12,))
def a_near_spelling_is_another_name() -> None:
    everywhere(effect_names.is_confusable_with, lambda name, pattern: False)


@fault(seen_by=test_effect_rules.test_a_compensation_must_be_an_allowed_effect, costs=(12,))
def a_compensation_is_allowed_by_no_rule() -> None:
    sound = begin_effect._check_declared
    free = replace(effects.NO_DECLARATION)
    begin_effect._check_declared = lambda run, declared, *, undone: sound(run, free, undone=undone)


@fault(seen_by=test_disguised_calls.test_a_confirmation_of_another_version_counts_for_nothing, costs=(12,))
def a_disguised_call_is_approved_without_a_confirmation() -> None:
    everywhere(hidden_characters.warnings_in, lambda value: hidden_characters.Warnings(hidden=0, mixed=()))


@fault(seen_by=test_disguised_calls.test_a_confirmation_of_another_version_counts_for_nothing, costs=(12,))
def any_confirmation_of_a_disguise_counts() -> None:
    sound = decision_form._Builder.confirmation

    def lenient(self: Any, what: str, verdict: str, value: str, **named: Any) -> Any:
        return sound(self, what, verdict, self.text(f"seen-{what}-{verdict}") or value, **named)

    decision_form._Builder.confirmation = lenient  # type: ignore[method-assign]


@fault(seen_by=test_effect_rules.test_of_two_equally_close_rules_the_stricter_holds, costs=(12,))
def of_two_equally_close_rules_the_alphabetically_first_applies() -> None:
    effect_rules._closeness = lambda rule: (rule.is_exact, len(rule.pattern), rule.action == "allow", rule.pattern)


# --- answers and deadlines --------------------------------------------------------------------------------------------


@fault(seen_by=test_gateway.test_an_answer_exactly_at_the_deadline_is_late, costs=(7,))
def an_answer_exactly_at_the_deadline_is_in_time() -> None:
    everywhere(interrupts.is_past_deadline, lambda interrupt, *, now: interrupt.deadline < now)


@fault(seen_by=test_gateway.test_another_version_or_another_content_is_stale, costs=(3, 12))
def an_answer_counts_whatever_its_reader_saw() -> None:
    sound = resume_gateway._find_refusal

    def blind(responder: Any, interrupt: Any, seen: Any, *more: Any, **named: Any) -> Any:
        return sound(
            responder, interrupt, resume_gateway.ShownVersion(state_version=interrupt.state_version), *more, **named
        )

    resume_gateway._find_refusal = blind


@fault(seen_by=test_gateway.test_denied_attempts_are_kept_up_to_a_bound, costs=(24,))
def a_refusal_rolls_back_its_record() -> None:
    sound = resume_gateway._record_refused

    def raised(*words: Any, **named: Any) -> Any:
        raise sound(*words, **named)

    resume_gateway._record_refused = raised


@fault(seen_by=test_gateway.test_the_check_of_facts_is_a_row_of_the_answers_own_transaction, costs=(4,))
def the_revalidation_is_enqueued_on_commit() -> None:
    sound = tasks.enqueue_check
    tasks.enqueue_check = lambda continuation: transaction.on_commit(lambda: sound(continuation))


@fault(seen_by=test_escalation.test_after_a_downtime_a_request_escalates_one_level_at_a_time, costs=(8,))
def a_level_of_a_chain_gets_no_time_of_its_own() -> None:
    everywhere(interrupts.escalate_interrupt, functools.partial(_without_time, interrupts.escalate_interrupt))


def _without_time(sound: Any, interrupt: Any, *, to: Any, wait: timedelta, now: Any) -> None:
    sound(interrupt, to=to, wait=-wait, now=now)


@fault(seen_by=test_escalation.test_people_are_reminded_once_for_each_time_of_the_policy, costs=(8,))
def a_reminder_does_not_record_that_it_was_sent() -> None:
    expire.remind_interrupt = nothing


@fault(
    seen_by=test_external_signals.test_one_signal_answers_one_interrupt_and_the_next_is_stored_for_the_next, costs=(3,)
)
def a_signal_is_not_used_up() -> None:
    sound = external_signals.answer_without_person

    def unused(*words: Any, signal: Any, **named: Any) -> Any:
        type(signal).objects.filter(pk=signal.pk).update(used_by=None, used_at=None)
        return sound(*words, signal=signal, **named)

    external_signals.answer_without_person = unused


# --- claims and leases ------------------------------------------------------------------------------------------------


@fault(seen_by=test_leases_and_claims.test_a_stale_lease_cannot_write, costs=(9,))
def a_lease_is_good_whatever_its_fence() -> None:
    sound = leases.check_lease
    everywhere(sound, lambda run, token, *, now: sound(run, leases.current_lease(run).token, now=now))


@fault(
    seen_by=test_leases_and_claims.test_a_changed_checkpoint_goes_to_no_worker_and_the_answer_is_kept,
    costs=(24,),
)
def a_checkpoint_is_not_compared_with_its_digest() -> None:
    claim_continuation.has_recorded_state = lambda checkpoint: True


@fault(
    seen_by=test_revoked_permits.test_an_answer_of_a_person_who_lost_the_permission_permits_nothing,
    costs=(13,),
)
def permissions_are_not_checked_again_in_the_claim() -> None:
    claim_continuation.revoke_lost_answers = lambda run, said, **_: (False, said)


@fault(
    seen_by=test_revoked_permits.test_a_permit_of_an_earlier_boundary_ends_with_its_approvers_permission, costs=(13,)
)
def permissions_are_not_checked_again_when_an_effect_begins() -> None:
    effect_rules.find_lost_approval = nothing


@fault(seen_by=test_revoked_permits.test_a_lost_vote_of_an_earlier_boundary_ends_the_permit, costs=(13,))
def only_the_vote_that_closed_is_judged_when_an_effect_begins() -> None:
    revocation._decisions_behind = lambda permit: [permit.decision]


@fault(seen_by=test_revoked_permits.test_a_claim_hands_out_no_permit_of_an_earlier_boundary_that_was_lost, costs=(13,))
def a_claim_judges_its_own_boundary_only() -> None:
    revoke_approvals._still_allowing = lambda *_, **__: set()


@fault(seen_by=test_revoked_permits.test_an_approval_by_default_ends_when_the_policy_forbids_it, costs=(13,))
def an_approval_by_default_needs_no_policy() -> None:
    permissions._default_may_approve = lambda interrupt: True


@fault(
    seen_by=test_lost_permissions.test_an_answer_is_not_refused_for_the_claim_of_a_person_who_may_no_longer_decide,
    costs=(13,),
)
def a_claim_blocks_others_whatever_its_owner_may_do() -> None:
    permissions.claimant_may_decide = lambda interrupt: True


@fault(
    seen_by=test_lost_permissions.test_a_request_without_an_assignee_who_may_decide_is_for_the_leads,
    costs=(13,),
)
def an_assignment_blocks_the_leads_whatever_its_assignees_may_do() -> None:
    permissions._assignees_who_may_decide = lambda interrupt: permissions.deciders_of(interrupt.queue)


@fault(
    seen_by=test_lost_permissions.test_the_sweep_releases_claims_assignments_and_votes_once_and_says_so,
    costs=(13,),
)
def claims_and_votes_of_a_lost_permission_are_never_released() -> None:
    permission_sweep._release_claim = permission_sweep._release_assignments = nothing


@fault(
    seen_by=test_revalidation.test_a_changed_fact_sends_the_run_back_to_its_agent_with_the_answer_as_evidence,
    costs=(14,),
)
def a_fact_is_taken_as_it_was() -> None:
    sound = reconcile_facts.record_fact_value

    def unchanged(fact: Any, *words: Any, **named: Any) -> None:
        sound(fact, *words, **named)
        fact.last_status = FactStatus.SAME

    reconcile_facts.record_fact_value = unchanged


@fault(seen_by=test_revalidation.test_an_overtaken_answer_is_never_delivered_as_an_answer_again, costs=(14,))
def an_overtaken_answer_stays_accepted() -> None:
    reconcile_renewals.free_keys = nothing


@fault(
    seen_by=test_credentials.test_a_credential_that_was_renewed_continues_and_keeps_the_answer,
    costs=(14,),
)
def a_credential_is_compared_like_a_value() -> None:
    everywhere(facts.can_rely_on, lambda fact, value, *, now: digest(value) == digest(fact.relied_on))


@fault(
    seen_by=test_credentials.test_an_expired_credential_asks_the_worker_for_its_renewal_and_keeps_lease_and_answer,
    costs=(14,),
)
def an_expired_credential_overtakes_the_answer() -> None:
    everywhere(facts.must_be_refreshed, lambda fact: False)


@fault(
    seen_by=test_credentials.test_no_effect_begins_under_a_credential_that_ended_since_it_was_reported,
    costs=(14,),
)
def an_effect_begins_under_a_credential_that_has_ended() -> None:
    begin_effect.guards_effects = lambda fact: False


@fault(
    seen_by=test_reviewer_actions.test_an_answer_that_a_worker_was_given_is_not_undone_whatever_became_of_the_worker,
    costs=(3, 4),
)
def a_claim_does_not_record_that_a_worker_has_the_answer() -> None:
    claim_continuation.record_delivery = nothing


# --- effects ----------------------------------------------------------------------------------------------------------


@fault(seen_by=test_permits.test_another_call_than_the_approved_one_is_refused_and_shown, costs=(12,))
def the_call_is_not_compared_with_the_approved_one() -> None:
    effect_rules.check_permit = nothing
    effect_rules.list_valid_permits = lambda run, **_: list(Permit.objects.filter(run=run))


@fault(seen_by=test_permits.test_a_permit_begins_only_one_effect, costs=(5, 12))
def a_spent_permit_begins_another_effect() -> None:
    permits._spent = lambda run: effects.Effect.objects.none()


@fault(
    seen_by=test_revoked_permits.test_an_undone_answer_permits_nothing_after_the_next_answer,
    costs=(12,),
)
def an_undone_answer_leaves_its_permit() -> None:
    interrupts.void_permits = nothing


@fault(seen_by=test_tampering.test_a_permit_changed_past_the_triggers_begins_no_effect, costs=(12, 24))
def a_permit_is_not_compared_with_its_decision() -> None:
    begin_effect.find_changed_permit = lambda *_, **__: ""


@fault(seen_by=test_tampering.test_a_permit_whose_end_was_moved_begins_no_effect, costs=(24,))
def a_permit_is_not_compared_with_its_event() -> None:
    verification.find_changed = lambda *_, **__: ""


@fault(
    seen_by=test_tampering.test_a_permit_begins_no_second_effect_after_its_first_was_taken_out_of_the_ledger,
    costs=(5, 24),
)
def events_do_not_record_what_a_permit_began() -> None:
    verification._must_not_have_begun = lambda *_: False


@fault(seen_by=test_tampering.test_events_whose_digests_were_erased_exempt_no_row, costs=(24,))
def events_without_digests_exempt_every_row() -> None:
    verification.time_of_last_event_without_digest = lambda run: run.events.latest("seq").at


@fault(seen_by=test_tampering.test_an_effect_whose_outcome_was_changed_is_not_begun_again, costs=(5, 24))
def an_effect_is_not_compared_with_its_event() -> None:
    begin_effect.find_changed = lambda *_, **__: ""


@fault(seen_by=test_tampering.test_a_changed_request_is_not_decided, costs=(12, 24))
def a_request_is_not_compared_with_what_was_recorded() -> None:
    resume_gateway.find_changed_request = lambda *_, **__: ""


@fault(seen_by=test_tampering.test_a_policy_changed_in_place_opens_and_decides_nothing, costs=(24,))
def a_policy_is_not_compared_at_a_decision() -> None:
    resume_gateway.is_as_recorded = lambda *_: True


@fault(seen_by=test_tampering.test_a_policy_changed_in_place_opens_and_decides_nothing, costs=(24,))
def a_policy_is_not_compared_when_a_request_is_opened() -> None:
    policies.refuse_changed_policy = nothing


@fault(
    seen_by=test_permissions.test_an_approval_ends_when_its_queue_is_not_allowed_any_more,
    costs=(13,),
)
def a_queue_that_the_policy_excludes_decides_on() -> None:
    permissions.is_queue_allowed = lambda *_: True


class _EqualToAnything:
    def __ne__(self, other: object) -> bool:
        return False


@fault(
    seen_by=test_tampering.test_effect_rules_or_a_mode_changed_past_the_triggers_begin_no_effect,
    costs=(24,),
)
def effect_rules_are_not_compared_when_an_effect_begins() -> None:
    effect_rules.json = SimpleNamespace(loads=lambda _: _EqualToAnything())


@fault(seen_by=test_tampering.test_a_checkpoint_changed_with_its_digest_goes_to_no_worker, costs=(24,))
def a_checkpoint_is_not_compared_with_its_event() -> None:
    claim_continuation.find_changed = lambda *_: ""


@fault(seen_by=test_tampering.test_a_changed_record_is_named_by_the_doctor, costs=(24,))
def the_doctor_does_not_compare_records_with_events() -> None:
    row_consistency.find_changed_records = lambda _: ""


@fault(seen_by=test_tampering.test_a_changed_policy_is_named_by_the_doctor, costs=(24,))
def the_doctor_does_not_compare_the_configuration() -> None:
    records.find_changed_configuration = lambda: iter(())


@fault(
    seen_by=test_run_control.test_a_pause_takes_effect_at_the_next_safe_point_and_no_effect_begins_before,
    costs=(16,),
)
def an_effect_begins_though_a_pause_was_asked() -> None:
    begin_effect._check_flags = nothing


@fault(
    seen_by=test_run_control.test_a_halted_agent_starts_claims_and_begins_nothing_until_it_is_lifted,
    costs=(16,),
)
def an_effect_begins_though_its_agent_is_halted() -> None:
    begin_effect.refuse_halted_agent = nothing


@fault(
    seen_by=test_begin_effect.test_a_restarted_worker_under_the_same_lease_makes_the_outcome_unknown,
    costs=(5, 6),
)
def an_unknown_effect_is_retried() -> None:
    sound = effects.plan_effect

    def blind(*words: Any, **named: Any) -> NextStep:
        found = sound(*words, **named)
        return NextStep.NEXT_ATTEMPT if found is NextStep.DOUBT else found

    effects.plan_effect = blind


@fault(seen_by=test_probes.test_a_probe_that_finds_the_declared_value_settles_it_and_the_run_continues, costs=(5, 6))
def a_lost_lease_marks_no_effect_unknown() -> None:
    in_flight.mark_lost_unknown = lambda **_: []


@fault(seen_by=test_begin_effect.test_a_contradiction_holds_the_run_until_its_owner_has_looked, costs=(6,))
def a_report_never_contradicts_the_recorded_outcome() -> None:
    effects._contradicts = lambda *_, **__: False


@fault(seen_by=test_compensation.test_a_cancelled_run_compensates_its_effects_newest_first, costs=(15,))
def the_oldest_effect_is_compensated_first() -> None:
    sound = compensation.list_due_compensations
    compensation.list_due_compensations = lambda scope, *, on: list(reversed(sound(scope, on=on)))
    compensation.find_newest_due_compensation = lambda scope, *, on: next(
        iter(compensation.list_due_compensations(scope, on=on)), None
    )


# --- secrets ----------------------------------------------------------------------------------------------------------


@fault(
    seen_by=test_csrf_failure.test_a_decision_form_shows_its_input_and_no_foreign_field,
    costs=(),
)
def a_stale_form_shows_every_field_that_came_with_it() -> None:
    every = lambda post: [(name, text) for name, texts in post.lists() for text in texts]  # noqa: E731
    everywhere(drafts.entered_texts, every)


@fault(
    seen_by=test_csrf_failure.test_a_field_named_like_a_secret_is_sent_with_the_decision_and_in_no_draft,
    costs=(),
)
def a_draft_holds_a_field_that_is_named_like_a_secret() -> None:
    everywhere(drafts.is_named_like_a_secret, lambda name: False)


@fault(seen_by=test_csrf_failure.test_a_wrong_password_is_in_no_answer_to_a_script, costs=())
def a_sign_in_by_script_is_answered_with_its_password() -> None:
    ClosedAccountAdapter.is_ajax = DefaultAccountAdapter.is_ajax  # type: ignore[method-assign]


@fault(
    seen_by=test_sign_in_limits.test_a_guesser_is_stopped_and_the_right_person_signs_in_from_elsewhere,
    costs=(),
)
def wrong_passwords_are_counted_by_person_alone() -> None:
    ClosedAccountAdapter.pre_authenticate = DefaultAccountAdapter.pre_authenticate  # type: ignore[method-assign]


@fault(
    seen_by=test_activity_of_others.test_the_tag_of_a_live_list_is_the_same_whatever_happens_elsewhere,
    costs=(),
)
def a_live_list_is_compared_by_the_newest_events_of_all_users() -> None:
    newest = Event.objects.order_by("-id").values_list("pk", flat=True)
    inbox.get_list_fingerprint = lambda person, **_: str(list(newest[:64]))


@fault(seen_by=test_error_reports.test_a_report_holds_names_and_no_value_that_was_sent, costs=())
def an_error_report_holds_the_headers_that_no_deny_list_knows() -> None:
    sound = SafeExceptionReporterFilter.get_safe_request_meta
    error_reports.ErrorReportFilter.get_safe_request_meta = sound  # type: ignore[method-assign]


@fault(seen_by=test_file_permissions.test_the_folder_of_its_own_is_made_for_its_user_alone, costs=())
def the_folder_of_the_database_is_open_to_others() -> None:
    everywhere(file_permissions.make_folder, lambda folder: folder.mkdir(exist_ok=True))


@fault(seen_by=test_asgi_bridge.test_slow_bodies_hold_no_thread, costs=(11,))
def a_body_has_all_the_time_it_wants() -> None:
    test_asgi_bridge.PATIENCE = SHORT_PATIENCE
    BodyLimits.allowed = lambda self, received: 1e6


@fault(seen_by=test_asgi_bridge.test_slow_bodies_hold_no_thread, costs=(11,))
def a_request_takes_its_thread_before_its_body_is_there() -> None:
    test_asgi_bridge.PATIENCE = SHORT_PATIENCE
    sound = BoundedApplication._work

    async def early(self: Any, environ: Any, holders: Any, body: Any) -> Any:
        share = await self._share(holders)
        try:
            return await sound(self, environ, holders, body)
        finally:
            share.give_back()

    BoundedApplication._work = early


@fault(seen_by=test_thread_shares.test_one_address_leaves_a_quarter_of_the_threads, costs=(11,))
def one_address_may_have_every_thread() -> None:
    ThreadShares._can_have_another = lambda self, holders: True


@fault(seen_by=test_asgi_bridge.test_requests_that_only_wait_leave_their_threads_to_others, costs=(11,))
def a_long_poll_keeps_its_share_while_waiting() -> None:
    test_asgi_bridge.PATIENCE = SHORT_PATIENCE
    Share.give_back_from_thread = lambda self: None


@fault(seen_by=test_asgi_bridge.test_one_key_cannot_have_every_place_for_large_bodies, costs=(11,))
def one_key_may_have_every_place_for_large_bodies() -> None:
    BoundedApplication._stream_place = lambda self, holders: contextlib.nullcontext()


@fault(seen_by=test_rate_limits.test_a_key_that_calls_too_often_is_refused_and_another_is_not, costs=(20,))
def a_key_may_call_as_often_as_it_likes() -> None:
    CallsPerMinute.allow_request = lambda self, request, view: True


@fault(
    seen_by=test_rate_limits.test_guessed_keys_are_refused_for_their_address_and_a_good_key_beside_them_is_not,
    costs=(20,),
)
def keys_may_be_guessed_for_ever() -> None:
    authentication._refuse_key = lambda request: Unauthenticated()


@fault(seen_by=test_rate_limits.test_good_calls_never_count_as_guesses, costs=(20,))
def a_good_key_is_counted_as_a_guess() -> None:
    sound = authentication.verify_key

    def counts(text: str) -> Any:
        return None if authentication.failed_keys_of_address.take("") else sound(text)

    authentication.verify_key = counts


@fault(
    seen_by=test_rate_limits.test_an_address_without_a_sign_in_that_asks_for_too_many_pages_is_refused,
    costs=(20,),
)
def pages_without_a_sign_in_have_no_limit() -> None:
    middleware.client_network = lambda environ: str(id(environ))


@fault(seen_by=test_request_ids.test_an_id_that_could_forge_a_log_line_is_replaced, costs=(20,))
def any_request_id_is_taken() -> None:
    everywhere(request_ids.choose_request_id, lambda sent: sent)
    test_request_ids.choose_request_id = lambda sent: sent


@fault(seen_by=test_request_ids.test_another_threads_line_does_not_carry_this_requests_id_and_its_own_does, costs=(20,))
def log_lines_do_not_know_their_request() -> None:
    request_ids.AddRequestId.filter = lambda self, record: setattr(record, "request_id", "-") or True


# --- pages ------------------------------------------------------------------------------------------------------------


@fault(
    seen_by=test_large_values.test_a_call_that_is_not_shown_whole_is_approved_only_with_a_confirmation,
    costs=(12,),
)
def a_call_that_is_not_shown_whole_is_approved_unread() -> None:
    json_values.is_shown_whole = lambda arguments: True


@fault(
    seen_by=test_large_values.test_what_an_approval_rests_on_is_confirmed_where_it_is_not_shown_whole,
    costs=(12,),
)
def evidence_that_is_not_shown_whole_is_approved_unread() -> None:
    decision_evidence.parts_left_out = lambda **parts: []


@fault(seen_by=test_bounded_responses.test_a_page_of_effects_ends_before_its_receipts_fill_it, costs=())
def a_page_of_the_api_has_any_size() -> None:
    pagination.STORED_CHARACTERS = 10**12


@fault(
    seen_by=test_bounded_responses.test_the_receipts_of_a_claim_share_their_limit_and_the_newest_come_first, costs=()
)
def a_claim_lists_receipts_of_any_size() -> None:
    effect_queries.MAX_RECEIPT_CHARACTERS_OF_CLAIM = 10**12


@fault(seen_by=test_large_values.test_a_call_that_is_not_shown_whole_is_no_part_of_a_bulk, costs=(12,))
def a_call_that_is_not_shown_whole_is_decided_in_a_bulk() -> None:
    everywhere(json_values.fits_in_bulk, lambda arguments: True)


# --- planted requests -------------------------------------------------------------------------------------------------


@fault(seen_by=test_planted_requests.test_one_vote_decides_it_also_with_a_quorum, costs=())
def a_planted_request_is_decided_like_one_of_an_agent() -> None:
    everywhere(planted_requests.find_planted, lambda run, interrupt: None)


@fault(seen_by=test_planted_requests.test_no_agent_gets_it, costs=())
def the_feed_of_an_agent_has_planted_requests() -> None:
    timeline._feed_of = lambda run: run.agent_id


@fault(seen_by=test_planted_requests.test_a_mark_that_was_changed_in_the_database_stops_the_decision, costs=())
def the_record_of_a_planted_request_is_not_compared() -> None:
    everywhere(planted_requests.commitment_of, lambda row: "rq1:the same")


@fault(
    seen_by=test_planted_requests.test_its_lead_cannot_decide_it_and_another_lead_does_not_see_it_in_the_list, costs=()
)
def a_lead_decides_what_they_planted() -> None:
    not_planted = SimpleNamespace(filter=lambda **_: SimpleNamespace(exists=lambda: False))
    permissions.PlantedRequest = SimpleNamespace(objects=not_planted)
