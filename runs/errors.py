"""The refusals of runs: one class per code of the contract; the docstring is the sentence people read."""

from __future__ import annotations

from ledger.errors import Refusal


class StaleVersion(Refusal):
    """This was changed since you saw it. Nothing was done; look at it again."""

    code = "stale_version"


class AlreadyDecided(Refusal):
    """Somebody decided this already."""

    code = "already_decided"


class AlreadyVoted(Refusal):
    """Your vote counts already; the other votes are somebody else's."""

    code = "already_voted"


class Expired(Refusal):
    """The time to decide this has ended; nothing was done."""

    code = "expired"


class Withdrawn(Refusal):
    """The agent took this question back; there is nothing to decide any more."""

    code = "withdrawn"


class Superseded(Refusal):
    """Another answer made this question needless."""

    code = "superseded"


class WaitCancelled(Refusal):
    """The run was cancelled, and this question with it."""

    code = "cancelled"


class NotPermitted(Refusal):
    """You may not do this."""

    code = "not_permitted"


class SelfReview(Refusal):
    """You started this run, so somebody else decides about it."""

    code = "self_review"


class ClaimedByOther(Refusal):
    """Somebody else holds this at the moment."""

    code = "claimed_by_other"


class InputInvalid(Refusal):
    """The answer does not fit what was asked."""

    code = "input_invalid"


class SchemaUnsupported(Refusal):
    """This schema cannot be used for answers."""

    code = "schema_unsupported"


class RecordChanged(Refusal):
    """A stored record is not what its history recorded. Nothing was done; an operator has to look at it (doctor)."""

    code = "record_changed"


class PolicyRefuses(Refusal):
    """The policy of this reason does not allow that."""

    code = "policy_refuses"


class NoDecider(Refusal):
    """Nobody may decide this: the queue has no members, or they are all excluded."""

    code = "no_decider"


class CorrelationTaken(Refusal):
    """Another wait of this agent is open for signals of this correlation."""

    code = "correlation_taken"


class TooDeep(Refusal):
    """Runs are nested too deep."""

    code = "too_deep"


class OpenInterrupts(Refusal):
    """The run still waits for somebody."""

    code = "open_interrupts"


class LeaseLost(Refusal):
    """This worker's lease has ended. What it did is kept; what it writes now is not."""

    code = "lease_lost"


class AlreadyClaimed(Refusal):
    """Another worker goes on with this run."""

    code = "already_claimed"


class NotReady(Refusal):
    """This run cannot go on yet."""

    code = "not_ready"


class IncompatibleVersion(Refusal):
    """This run was suspended by another version of the agent's code."""

    code = "incompatible_version"


class SnapshotErased(Refusal):
    """The state of this checkpoint is past its time and was erased; only the record of it is kept."""

    code = "snapshot_erased"


class DigestMismatch(Refusal):
    """What arrived is not what its digest says; nothing was stored. Send it again."""

    code = "digest_mismatch"


class FileSpoilt(Refusal):
    """The stored file of this checkpoint is gone or was changed; nothing of it is given to anybody."""

    code = "file_spoilt"


class StepMismatch(Refusal):
    """Another step is recorded at this place: what runs now does not repeat what ran before."""

    code = "step_mismatch"


class ApprovalRequired(Refusal):
    """This effect needs a person's approval first."""

    code = "approval_required"


class ApprovalLost(Refusal):
    """The person who approved this may no longer approve it. The request is open again, and this lease has ended."""

    code = "approval_lost"


class EffectNotAllowed(Refusal):
    """No effect rule of this agent names this effect, and the agent may begin only effects that a rule names."""

    code = "effect_not_allowed"


class CallNotApproved(Refusal):
    """This is not the call that was approved."""

    code = "call_not_approved"


class PermitUsed(Refusal):
    """This approval was spent already, on the one effect it allows."""

    code = "permit_used"


class PermitExpired(Refusal):
    """This approval has ended, or was taken back."""

    code = "permit_expired"


class FactsUnchecked(Refusal):
    """The facts that the worker checks have to be reported before the first effect."""

    code = "facts_unchecked"


class FactsChanged(Refusal):
    """A fact changed, so the run went back; this worker's turn is over."""

    code = "facts_changed"


class AgentHalted(Refusal):
    """This agent is halted: none of its runs starts, goes on or acts until an operator lifts the halt."""

    code = "agent_halted"


class UndoTooLate(Refusal):
    """This answer cannot be taken back any more."""

    code = "undo_too_late"


class RunPaused(Refusal):
    """The run is paused, or stops at its next safe point; no effect may begin."""

    code = "run_paused"


class RunCancelled(Refusal):
    """The run is being ended; no new work is taken."""

    code = "run_cancelled"


class RunFinished(Refusal):
    """The run has ended."""

    code = "run_finished"


class RunActive(Refusal):
    """The run is still going on; only an ended one can be started again."""

    code = "run_active"


class RateLimited(Refusal):
    """Too many calls, or too many refused attempts. Wait as long as Retry-After says."""

    code = "rate_limited"
