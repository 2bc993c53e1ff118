"""Statuses and other enumerations of runs, interrupts, decisions, continuations and files, with their transition tables.

``Run.status`` is computed by ``run_status``. Each other status has one writing module, named beside its table. Tests
walk every pair of status and verb, and compare the documentation's tables with these.
"""

from __future__ import annotations

from django.db import models


class RunStatus(models.TextChoices):
    """The status computed by ``run_status``; the last four are final."""

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
    """ANSWERED is final only after the claiming worker began an effect or reached the next boundary.

    Before that an undo, a renewed review or a lost permission reopens it.
    """

    WAITING = "waiting"
    ANSWERED = "answered"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"
    CANCELLED = "cancelled"
    SUPERSEDED = "superseded"


#: verb -> (from, to). ``use_cases/create_interrupts.py`` writes the first status, ``interrupts.py`` every later one.
INTERRUPT_TRANSITIONS: dict[str, tuple[frozenset[InterruptStatus], InterruptStatus]] = {
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
    """COUNTED and ACCEPTED are valid, OVERTAKEN and REVOKED no longer are; the other five are refused answers."""

    COUNTED = "counted"
    ACCEPTED = "accepted"
    OVERTAKEN = "overtaken"
    REVOKED = "revoked"
    STALE = "stale"
    LATE = "late"
    DENIED = "denied"
    INVALID = "invalid"
    DUPLICATE = "duplicate"


VALID_DECISIONS = frozenset({DecisionStatus.COUNTED, DecisionStatus.ACCEPTED})

#: verb -> (from, to). ``decisions.py`` writes the status.
DECISION_TRANSITIONS: dict[str, tuple[frozenset[DecisionStatus], DecisionStatus]] = {
    "accept": (frozenset({DecisionStatus.COUNTED}), DecisionStatus.ACCEPTED),
    "count again": (frozenset({DecisionStatus.ACCEPTED}), DecisionStatus.COUNTED),
    "overtake": (VALID_DECISIONS, DecisionStatus.OVERTAKEN),
    "revoke": (VALID_DECISIONS, DecisionStatus.REVOKED),
}


class ContinuationStatus(models.TextChoices):
    """CHECKING, READY and LEASED are open; a run has at most one open continuation."""

    CHECKING = "checking"
    READY = "ready"
    LEASED = "leased"
    ACKNOWLEDGED = "acknowledged"
    VOID = "void"


OPEN_CONTINUATIONS = frozenset({ContinuationStatus.CHECKING, ContinuationStatus.READY, ContinuationStatus.LEASED})

#: verb -> (from, to). ``continuations.py`` writes the status.
CONTINUATION_TRANSITIONS: dict[str, tuple[frozenset[ContinuationStatus], ContinuationStatus]] = {
    "pass": (frozenset({ContinuationStatus.CHECKING}), ContinuationStatus.READY),
    "postpone": (frozenset({ContinuationStatus.CHECKING}), ContinuationStatus.CHECKING),
    "claim": (frozenset({ContinuationStatus.READY}), ContinuationStatus.LEASED),
    "recheck": (frozenset({ContinuationStatus.READY}), ContinuationStatus.CHECKING),
    "return": (frozenset({ContinuationStatus.LEASED}), ContinuationStatus.READY),
    "acknowledge": (frozenset({ContinuationStatus.LEASED}), ContinuationStatus.ACKNOWLEDGED),
    "void": (OPEN_CONTINUATIONS, ContinuationStatus.VOID),
}


class ContinuationKind(models.TextChoices):
    """RESUME continues the run; COMPENSATE only compensates the effects of an ending run."""

    RESUME = "resume"
    COMPENSATE = "compensate"


class FileStatus(models.TextChoices):
    """OFFERED and KEPT bytes are in the storage, ERASED ones are not, ARRIVING and UNWANTED ones can be or not."""

    ARRIVING = "arriving"
    OFFERED = "offered"
    KEPT = "kept"
    UNWANTED = "unwanted"
    ERASED = "erased"


#: verb -> (from, to). ``checkpoint_files.py`` writes the status. A row without a checkpoint is deleted with its bytes.
FILE_TRANSITIONS: dict[str, tuple[frozenset[FileStatus], FileStatus]] = {
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
    """The first four decide an approval, the last two an input."""

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

#: Verdicts that allow the proposed or edited call, and so create a permit.
APPROVING = frozenset({Verdict.APPROVE, Verdict.EDIT})


class Risk(models.TextChoices):
    """The damage that a wrong decision can cause. ``RISK_RANK`` is stored too, as the first sort key of the inbox."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


RISK_RANK: dict[str, int] = {Risk.HIGH: 0, Risk.MEDIUM: 1, Risk.LOW: 2}


class OnExpiry(models.TextChoices):
    """What happens at the deadline. CANCEL ends the run as ``expired``; RESUME continues it without an answer."""

    CANCEL = "cancel"
    FAIL = "fail"
    RESUME = "resume"
    ESCALATE = "escalate"
    DEFAULT = "default"


class OnReject(models.TextChoices):
    """What a rejection does: the run continues with it as the answer, or is cancelled and compensated."""

    RESUME = "resume"
    CANCEL = "cancel"


class PlantedOutcome(models.TextChoices):
    """How a planted request ended. ``withdrawn``: by its lead, or with its run; ``expired``: at its deadline."""

    CAUGHT = "caught"
    MISSED = "missed"
    WITHDRAWN = "withdrawn"
    EXPIRED = "expired"


class SecondFactor(models.TextChoices):
    """Which decisions need a second factor of their own; each value is stricter than the one before."""

    NEVER = "never"
    HIGH_RISK = "high_risk"
    ALWAYS = "always"


class RuleRisk(models.TextChoices):
    """The highest risk of requests that a lead's standing rule can decide. High risk is always decided by people."""

    NEVER = "never"
    LOW = "low"
    MEDIUM = "medium"


class EffectMode(models.TextChoices):
    """Which effects an agent can begin: those that an effect rule names, or any (rules then only require approvals)."""

    LISTED = "listed"
    ANY = "any"


class RuleAction(models.TextChoices):
    """What an effect rule does with a matching effect: allow it, or require an approval."""

    ALLOW = "allow"
    APPROVAL = "approval"


class ResumeWhen(models.TextChoices):
    """When a run with several interrupts continues: after all answers, or after the first."""

    ALL = "all"
    ANY = "any"


class OnChange(models.TextChoices):
    """What a changed fact does: the agent plans again, the review is renewed, or the change is only recorded."""

    REPLAN = "replan"
    RENEW = "renew"
    NOTE = "note"


class HoldKind(models.TextChoices):
    """Why a run is on hold. Each kind has an owner and its own way to lift it (docs/architecture.md)."""

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
    """Why a continuation was made: the cause of the last answer, or what happened to the run."""

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
    """The instruction in the response to a checkpoint or a heartbeat."""

    CONTINUE = "continue"
    PAUSE = "pause"
    CANCEL = "cancel"
