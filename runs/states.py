"""The words for where a run, an interrupt, a decision and a continuation stand, and the moves between them (MOVES 3).

A run's status is computed by ``standing.py`` and never chosen. Beside each other enum stands its table; a test walks every
pair of state and verb, and the documentation's tables are compared with these.
"""

from __future__ import annotations

from django.db import models


class RunStatus(models.TextChoices):
    """What ``standing.standing`` says of a run; the last four are final."""

    RUNNING = "running"
    WAITING = "waiting"
    REVALIDATING = "revalidating"
    READY = "ready"
    BLOCKED = "blocked"
    PAUSED = "paused"
    CANCELLING = "cancelling"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"


FINAL = frozenset({RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED, RunStatus.EXPIRED})


class InterruptStatus(models.TextChoices):
    """ANSWERED is final only once its lease has begun an effect, or reached the next boundary.

    Renewal and lost authority reopen it before that.
    """

    WAITING = "waiting"
    ANSWERED = "answered"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"
    CANCELLED = "cancelled"
    SUPERSEDED = "superseded"


#: verb -> (from, to); ``opening.py`` writes the first ``Interrupt.status``, ``interrupts.py`` alone every later one.
INTERRUPT_MOVES: dict[str, tuple[frozenset[InterruptStatus], InterruptStatus]] = {
    "answer": (frozenset({InterruptStatus.WAITING}), InterruptStatus.ANSWERED),
    "remind": (frozenset({InterruptStatus.WAITING}), InterruptStatus.WAITING),
    "extend": (frozenset({InterruptStatus.WAITING}), InterruptStatus.WAITING),
    "escalate": (frozenset({InterruptStatus.WAITING}), InterruptStatus.WAITING),
    "expire": (frozenset({InterruptStatus.WAITING}), InterruptStatus.EXPIRED),
    "cancel": (frozenset({InterruptStatus.WAITING}), InterruptStatus.CANCELLED),
    "amend": (frozenset({InterruptStatus.WAITING}), InterruptStatus.WAITING),
    "withdraw": (frozenset({InterruptStatus.WAITING}), InterruptStatus.WITHDRAWN),
    "supersede": (frozenset({InterruptStatus.WAITING}), InterruptStatus.SUPERSEDED),
    "bring back": (frozenset({InterruptStatus.SUPERSEDED}), InterruptStatus.WAITING),
    "reopen": (frozenset({InterruptStatus.ANSWERED}), InterruptStatus.WAITING),
}


class DecisionStatus(models.TextChoices):
    """COUNTED and ACCEPTED stand; OVERTAKEN and REVOKED stood once; the other five were refused and are evidence."""

    COUNTED = "counted"
    ACCEPTED = "accepted"
    OVERTAKEN = "overtaken"
    REVOKED = "revoked"
    STALE = "stale"
    LATE = "late"
    DENIED = "denied"
    INVALID = "invalid"
    DUPLICATE = "duplicate"


STANDING_DECISIONS = frozenset({DecisionStatus.COUNTED, DecisionStatus.ACCEPTED})

#: verb -> (from, to); ``decisions.py`` alone writes ``Decision.status``.
DECISION_MOVES: dict[str, tuple[frozenset[DecisionStatus], DecisionStatus]] = {
    "accept": (frozenset({DecisionStatus.COUNTED}), DecisionStatus.ACCEPTED),
    "count again": (frozenset({DecisionStatus.ACCEPTED}), DecisionStatus.COUNTED),
    "overtake": (STANDING_DECISIONS, DecisionStatus.OVERTAKEN),
    "revoke": (STANDING_DECISIONS, DecisionStatus.REVOKED),
}


class ContinuationStatus(models.TextChoices):
    """CHECKING, READY and LEASED are open; a run has at most one open continuation."""

    CHECKING = "checking"
    READY = "ready"
    LEASED = "leased"
    ACKNOWLEDGED = "acknowledged"
    VOID = "void"


OPEN_CONTINUATIONS = frozenset({ContinuationStatus.CHECKING, ContinuationStatus.READY, ContinuationStatus.LEASED})

#: verb -> (from, to); ``continuations.py`` alone writes ``Continuation.status``.
CONTINUATION_MOVES: dict[str, tuple[frozenset[ContinuationStatus], ContinuationStatus]] = {
    "pass": (frozenset({ContinuationStatus.CHECKING}), ContinuationStatus.READY),
    "postpone": (frozenset({ContinuationStatus.CHECKING}), ContinuationStatus.CHECKING),
    "claim": (frozenset({ContinuationStatus.READY}), ContinuationStatus.LEASED),
    "recheck": (frozenset({ContinuationStatus.READY}), ContinuationStatus.CHECKING),
    "return": (frozenset({ContinuationStatus.LEASED}), ContinuationStatus.READY),
    "acknowledge": (frozenset({ContinuationStatus.LEASED}), ContinuationStatus.ACKNOWLEDGED),
    "void": (OPEN_CONTINUATIONS, ContinuationStatus.VOID),
}


class ContinuationKind(models.TextChoices):
    """RESUME goes on with the run; COMPENSATE takes back what an ended one did, and nothing else."""

    RESUME = "resume"
    COMPENSATE = "compensate"


class FileStatus(models.TextChoices):
    """ARRIVING and UNWANTED bytes may or may not lie in the storage; OFFERED and KEPT ones do; ERASED ones do not."""

    ARRIVING = "arriving"
    OFFERED = "offered"
    KEPT = "kept"
    UNWANTED = "unwanted"
    ERASED = "erased"


#: verb -> (from, to); ``files.py`` alone writes ``CheckpointFile.status``. A row that no checkpoint names goes with its
#: bytes.
FILE_MOVES: dict[str, tuple[frozenset[FileStatus], FileStatus]] = {
    "offer": (frozenset({FileStatus.ARRIVING}), FileStatus.OFFERED),
    "keep": (frozenset({FileStatus.OFFERED}), FileStatus.KEPT),
    "give up": (frozenset({FileStatus.ARRIVING, FileStatus.OFFERED, FileStatus.KEPT}), FileStatus.UNWANTED),
    "erase": (frozenset({FileStatus.UNWANTED}), FileStatus.ERASED),
}


class Kind(models.TextChoices):
    """What an interrupt waits for."""

    APPROVAL = "approval"
    INPUT = "input"
    EVENT = "event"
    TIMER = "timer"


class Verdict(models.TextChoices):
    """What a person may say; the first four to an approval, the last two to an input."""

    APPROVE = "approve"
    EDIT = "edit"
    REJECT = "reject"
    RESPOND = "respond"
    ANSWER = "answer"
    DECLINE = "decline"


VERDICTS_OF: dict[str, tuple[str, ...]] = {
    Kind.APPROVAL: (Verdict.APPROVE, Verdict.EDIT, Verdict.REJECT, Verdict.RESPOND),
    Kind.INPUT: (Verdict.ANSWER, Verdict.DECLINE),
    Kind.EVENT: (Verdict.ANSWER, Verdict.DECLINE),
    Kind.TIMER: (),
}

#: Verdicts that allow the proposed (or edited) call, and so leave a permit behind.
APPROVING = frozenset({Verdict.APPROVE, Verdict.EDIT})


class Risk(models.TextChoices):
    """How much goes wrong if the decision does. ``RISK_RANK`` is stored beside it, so that the inbox pages by a tuple."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


RISK_RANK: dict[str, int] = {Risk.HIGH: 0, Risk.MEDIUM: 1, Risk.LOW: 2}


class OnExpiry(models.TextChoices):
    """What happens at the deadline. CANCEL ends the run ``expired``; RESUME wakes the agent without an answer."""

    CANCEL = "cancel"
    FAIL = "fail"
    RESUME = "resume"
    ESCALATE = "escalate"
    DEFAULT = "default"


class OnReject(models.TextChoices):
    """What a person's no does: the agent is told and goes on, or the run is cancelled and taken back."""

    RESUME = "resume"
    CANCEL = "cancel"


class EffectMode(models.TextChoices):
    """Which effects an agent may begin: those that its effect rules name, or any (the rules then only ask for approvals)."""

    LISTED = "listed"
    ANY = "any"


class RuleAction(models.TextChoices):
    """What an effect rule says of the effects that it names: they may begin freely, or need an approval."""

    ALLOW = "allow"
    APPROVAL = "approval"


class ResumeWhen(models.TextChoices):
    """When a run with several waits goes on: all answered, or the first."""

    ALL = "all"
    ANY = "any"


class OnChange(models.TextChoices):
    """What a changed fact does: the agent redoes what is affected, the review is renewed, or it is only noted."""

    REPLAN = "replan"
    RENEW = "renew"
    NOTE = "note"


class HoldKind(models.TextChoices):
    """Why a continuation may not go on yet. Each has an owner and its own way out (MOVES 3.1)."""

    UNKNOWN_EFFECT = "unknown_effect"
    FACT_UNAVAILABLE = "fact_unavailable"
    STRANDED = "stranded"
    GAVE_UP = "gave_up"
    CONTRADICTION = "contradiction"
    NO_DECIDER = "no_decider"
    UNDO_FAILED = "undo_failed"
    UNSTABLE_KEY = "unstable_key"
    RESTORED = "restored"
    CHECKPOINT_SPOILT = "checkpoint_spoilt"


class Cause(models.TextChoices):
    """Why a continuation was made: that of its last answer, or what happened to the run."""

    PERSON = "person"
    EXPIRY = "system:expiry"
    WITHDRAWN = "withdrawn"
    SIGNAL = "signal"
    TIMER = "timer"
    START = "start"
    PAUSE = "pause"
    LEASE_LOST = "lease_lost"
    HANDED_BACK = "handed_back"
    REPLAN = "replan"
    RESTART = "restart"
    CANCEL = "cancel"
    EXPIRE = "expire"
    FAIL = "fail"
    REJECT = "reject"


class Control(models.TextChoices):
    """What a worker is told at a safe point or by a heartbeat."""

    CONTINUE = "continue"
    PAUSE = "pause"
    CANCEL = "cancel"
