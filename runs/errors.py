"""The refusals of runs, one class per code of the API contract. The docstring is the sentence that people read."""

from __future__ import annotations

from ledger.errors import Refusal


class StaleVersion(Refusal):
    """The object has changed since you read it. Nothing was done. Read it again."""

    code = "stale_version"


class AlreadyDecided(Refusal):
    """Another decision was accepted first."""

    code = "already_decided"


class AlreadyVoted(Refusal):
    """Your vote is already counted. Other people must cast the remaining votes."""

    code = "already_voted"


class Expired(Refusal):
    """The deadline of this request has passed. Nothing was done."""

    code = "expired"


class Withdrawn(Refusal):
    """The agent withdrew this request. No decision is needed."""

    code = "withdrawn"


class Superseded(Refusal):
    """Another answer made this request unnecessary."""

    code = "superseded"


class InterruptCancelled(Refusal):
    """The run was cancelled, and this request with it."""

    code = "cancelled"


class NotPermitted(Refusal):
    """You do not have permission to do this."""

    code = "not_permitted"


class SecondFactorRequired(Refusal):
    """The policy requires a fresh second factor for this decision. Decide it on its page."""

    code = "second_factor_required"


class ConfirmationRequired(Refusal):
    """The call has hidden or look-alike characters. Read it, then confirm that you have seen them."""

    code = "confirmation_required"


class SelfReview(Refusal):
    """You started this run, so another person must decide."""

    code = "self_review"


class ClaimedByOther(Refusal):
    """Another reviewer has claimed this request."""

    code = "claimed_by_other"


class InputInvalid(Refusal):
    """The answer does not match the schema of the request."""

    code = "input_invalid"


class AttachmentRefused(Refusal):
    """This file cannot be attached to the request."""

    code = "attachment_refused"


class SchemaUnsupported(Refusal):
    """This schema cannot be used for answers."""

    code = "schema_unsupported"


class RecordChanged(Refusal):
    """A stored record differs from the history of its run. Nothing was done. An operator must check it with manage.py
    doctor.
    """

    code = "record_changed"


class PolicyRefuses(Refusal):
    """The policy of this reason does not allow this."""

    code = "policy_refuses"


class NoDecider(Refusal):
    """No user can decide this request: its queue has no members, or all of them are excluded."""

    code = "no_decider"


class CorrelationTaken(Refusal):
    """Another open interrupt of this agent waits for signals of this correlation."""

    code = "correlation_taken"


class TooDeep(Refusal):
    """Child runs are nested too deeply."""

    code = "too_deep"


class OpenInterrupts(Refusal):
    """The run has open interrupts."""

    code = "open_interrupts"


class LeaseLost(Refusal):
    """This worker's lease has ended. What it wrote before is stored; this request was not."""

    code = "lease_lost"


class AlreadyClaimed(Refusal):
    """Another worker has claimed this run."""

    code = "already_claimed"


class NotReady(Refusal):
    """This run cannot continue yet."""

    code = "not_ready"


class IncompatibleVersion(Refusal):
    """This run was suspended by another version of the agent's code."""

    code = "incompatible_version"


class SnapshotErased(Refusal):
    """The state or file was erased when its retention period ended. Only its record remains."""

    code = "snapshot_erased"


class DigestMismatch(Refusal):
    """The content does not match its digest. Nothing was stored. Send it again."""

    code = "digest_mismatch"


class FileDamaged(Refusal):
    """The stored file is missing or was changed, so it cannot be returned."""

    code = "file_spoilt"


class StepMismatch(Refusal):
    """Another step is recorded at this place, so this execution does not repeat the earlier one."""

    code = "step_mismatch"


class ApprovalRequired(Refusal):
    """This effect needs a person's approval first."""

    code = "approval_required"


class ApprovalLost(Refusal):
    """The person who approved this call no longer has permission to approve it. The request is open again, and this
    lease has ended.
    """

    code = "approval_lost"


class EffectNotAllowed(Refusal):
    """No effect rule of this agent names this effect, and the agent can begin only effects that a rule names."""

    code = "effect_not_allowed"


class CallNotApproved(Refusal):
    """This call differs from the one that was approved."""

    code = "call_not_approved"


class PermitUsed(Refusal):
    """This approval was already used for another effect."""

    code = "permit_used"


class PermitExpired(Refusal):
    """This approval has expired or was revoked."""

    code = "permit_expired"


class FactsUnchecked(Refusal):
    """The worker must report the facts that it checks before the first effect."""

    code = "facts_unchecked"


class FactsChanged(Refusal):
    """A fact has changed, so the run was sent back and this worker's lease has ended."""

    code = "facts_changed"


class AgentHalted(Refusal):
    """This agent is halted. No run of it can start, continue or begin an effect until an operator lifts the halt."""

    code = "agent_halted"


class UndoTooLate(Refusal):
    """This decision can no longer be undone."""

    code = "undo_too_late"


class RunPaused(Refusal):
    """The run is paused or will pause at its next safe point. No effect can begin."""

    code = "run_paused"


class RunCancelled(Refusal):
    """The run is ending and accepts no new work."""

    code = "run_cancelled"


class RunFinished(Refusal):
    """The run has ended."""

    code = "run_finished"


class RunActive(Refusal):
    """The run has not ended. Only an ended run can be restarted."""

    code = "run_active"


class RateLimited(Refusal):
    """Too many requests, or too many refused attempts. Wait for the time in Retry-After."""

    code = "rate_limited"
