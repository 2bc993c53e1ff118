"""The schemas of replies, one per reply that `replies` and the views write, by the name that the document has for it.

Called by `document`. Every reply that a test gets is held against these, so they say what is, not what was meant.
"""

from __future__ import annotations

from typing import Any

from ledger.states import EffectStatus
from reviewqueue.api.openapi.insights_schemas import MEASURES
from reviewqueue.api.openapi.schema_helpers import (
    DIGEST,
    DIGEST_OF_BYTES,
    EXACT,
    MOMENT,
    OBJECT,
    TEXT,
    WHOLE,
    YES_NO,
    Schema,
    an_id,
    by_key,
    const,
    many,
    one_of,
    or_null,
    ref,
)
from reviewqueue.api.openapi.schema_helpers import shape as _shape
from reviewqueue.webhooks.models import DeliveryStatus
from runs.models import FactCheck, FactKind
from runs.states import (
    Cause,
    ContinuationKind,
    Control,
    DecisionStatus,
    EffectMode,
    HoldKind,
    InterruptStatus,
    Kind,
    OnChange,
    OnExpiry,
    Risk,
    RuleAction,
    RunStatus,
    Verdict,
)

RUN, INTERRUPT, CONTINUATION = an_id("run"), an_id("int"), an_id("con")
DECISION, PERMIT = an_id("dec"), an_id("per")
RUN_STATUS, INTERRUPT_STATUS = one_of(RunStatus.values), one_of(InterruptStatus.values)
RESUME = or_null(one_of(["checking", "ready", "held", "leased", "acknowledged", "void"]))

ANSWERS: dict[str, Schema] = {}


def _add(name: str, members: dict[str, Schema], **sometimes: Schema) -> None:
    ANSWERS[name] = _shape(name, members, sometimes=sometimes)


def _add_page(name: str, member: str, row: str) -> None:
    _add(name, {member: many(ref(row)), "next": or_null(TEXT)})


def _extend(name: str, base: str, members: dict[str, Any], **sometimes: Schema) -> None:
    own = _shape(name, members, sometimes=sometimes)
    properties = ANSWERS[base]["properties"] | own["properties"]
    required = [*ANSWERS[base]["required"], *members]
    ANSWERS[name] = {"type": "object", "required": required, "properties": properties}


# --- who am I ---------------------------------------------------------------------------------------------------------

_add("MeRule", {"name": TEXT, "action": one_of(RuleAction.values), "reason": or_null(TEXT)})
_add("MeEffects", {"mode": one_of(EffectMode.values), "rules": many(ref("MeRule"))})
_add("MeAgent", {"slug": TEXT, "owner": TEXT, "effects": ref("MeEffects")})
_add("MeKey", {"prefix": TEXT, "name": TEXT, "scopes": many(TEXT), "expires_at": or_null(MOMENT)})
_add("Bounds", {"least": WHOLE, "most": WHOLE, "default": WHOLE})
_limits = dict.fromkeys(["body_bytes", "file_bytes", "depth", "wait_seconds", "claim", "checks", "page"], WHOLE)
_add("Limits", _limits | {"lease_seconds": ref("Bounds")})
_add("Me", {"agent": or_null(ref("MeAgent")), "person": or_null(TEXT), "key": ref("MeKey"), "limits": ref("Limits")})

# --- runs -------------------------------------------------------------------------------------------------------------

_add("Lease", {"token": TEXT, "expires_at": MOMENT, "fence": WHOLE})
_started = {"id": RUN, "key": TEXT, "status": RUN_STATUS, "epoch": WHOLE, "checkpoint": WHOLE}
_add("Started", _started | {"lease": or_null(ref("Lease"))})
_add("RunStanding", {"id": RUN, "status": RUN_STATUS})
_extend(
    "RunControlled",
    "RunStanding",
    {
        "epoch": WHOLE,
        "control": one_of(Control.values),
        "pause_asked_by": or_null(TEXT),
        "pause_asked_at": or_null(MOMENT),
        "reason": or_null(TEXT),
        "stop_by": or_null(MOMENT),
    },
)
_extend("RunRetagged", "RunControlled", {"code_version": TEXT})
_add(
    "RunRow",
    {
        "id": RUN,
        "key": TEXT,
        "title": TEXT,
        "status": RUN_STATUS,
        "agent": TEXT,
        "initiator": or_null(TEXT),
        "parent": or_null(RUN),
        "epoch": WHOLE,
        "checkpoint": WHOLE,
        "code_version": TEXT,
        "metadata": OBJECT,
        "created_at": MOMENT,
        "ended_at": or_null(MOMENT),
        "expires_at": or_null(MOMENT),
    },
)
_add_page("RunPage", "runs", "RunRow")
_add("Ending", {"to": RUN_STATUS, "reason": TEXT})
_add("Pause", {"asked_at": MOMENT, "asked_by": TEXT, "reason": TEXT})
_add("LeaseNow", {"expires_at": MOMENT, "fence": WHOLE})
_add("Hold", {"kind": one_of(HoldKind.values), "subject": TEXT, "owner": TEXT, "reason": TEXT, "opened_at": MOMENT})
_counts = {"done": or_null(WHOLE), "of": or_null(WHOLE)}
_add("Progress", {"text": TEXT} | _counts | {"spent": TEXT, "at": MOMENT})
_add("Outcome", {"kind": RUN_STATUS, "result": EXACT})
_add("File", {"digest": DIGEST_OF_BYTES, "size": WHOLE})
_add("FileOffered", {"number": WHOLE, "digest": DIGEST_OF_BYTES, "size": WHOLE})
_add("Unclaimed", {"since": MOMENT, "is_late": YES_NO, "handed_back_by": many(TEXT)})
_extend(
    "Run",
    "RunRow",
    {
        "ending": or_null(ref("Ending")),
        "pause": or_null(ref("Pause")),
        "lease": or_null(ref("LeaseNow")),
        "continuation": or_null(CONTINUATION),
        "unclaimed": or_null(ref("Unclaimed")),
        "holds": many(ref("Hold")),
        "progress": or_null(ref("Progress")),
        "outcome": or_null(ref("Outcome")),
        "file": or_null(ref("File")),
    },
)
_event = {"seq": WHOLE, "type": TEXT, "actor": TEXT, "at": MOMENT, "refs": OBJECT}
_add("Event", _event | {"prev": or_null(TEXT), "digest": or_null(TEXT)})
_add_page("Timeline", "events", "Event")
_add("CheckpointMark", {"number": WHOLE, "digest": DIGEST}, file=ref("File"))
_stop = {"reason": TEXT, "asked_by": TEXT, "stop_by": or_null(MOMENT), "cancel_effects": many(TEXT)}
_extend("Reached", "CheckpointMark", {"control": one_of(Control.values)}, **_stop)
_add("Beat", {"expires_at": MOMENT, "control": one_of(Control.values)}, **_stop)
_add("FactNow", {"name": TEXT, "value": EXACT, "now": EXACT})
_extend("Fact", "FactNow", {"checked_at": or_null(MOMENT), "on_change": one_of(OnChange.values)})
_extend(
    "FactClaimed",
    "FactNow",
    {"check": one_of(FactCheck.values), "kind": one_of(FactKind.values), "valid": or_null(YES_NO)},
)
_words = {"step": TEXT, "replay_from": TEXT, "state": EXACT, "format": TEXT}
_digest = {"digest": DIGEST, "code_version": TEXT}
_add("CheckpointClaimed", {"number": WHOLE} | _words | _digest, compensated_since=many(TEXT), file=ref("File"))
_add("CheckpointWhole", {"number": WHOLE} | _words | _digest, file=ref("File"))
_extend("Checkpoint", "CheckpointWhole", {"created_at": MOMENT, "facts": many(ref("Fact"))})
_step = {"name": TEXT, "place": WHOLE, "result": EXACT, "recorded_at": MOMENT}
_add("Step", _step)
_add("Steps", {"after": WHOLE, "steps": many(ref("Step")), "next": or_null(TEXT)})
_extend("StepRecorded", "Step", {"replayed": YES_NO, "control": one_of(Control.values)}, **_stop)
_left = {"code_version": TEXT, "runs": WHOLE, "waiting": WHOLE, "oldest_at": MOMENT}
_add("LeftBehind", _left)
_of_version = {"agent": TEXT, "code_version": TEXT, "runs": WHOLE, "taking_back": WHOLE, "oldest_at": MOMENT}
_add("UnclaimedOfVersion", _of_version | {"handed_back_by": many(TEXT)})
_stranded = {"stranded": many(ref("LeftBehind")), "unclaimed": many(ref("UnclaimedOfVersion"))}
_add("Stranded", {"code_version": TEXT, "accepts": many(TEXT), "runs": WHOLE} | _stranded)
_add("Judged", {"control": one_of(["continue", "refresh", "replan", "renew"]), "changed": many(ref("FactNow"))})
_add("UnderWay", {"run": RUN, "key": TEXT, "name": TEXT})
_add("Halted", {"agents": many(TEXT), "halted": YES_NO, "effects_under_way": many(ref("UnderWay"))})

# --- waits and answers --------------------------------------------------------------------------------------------------

_mark = {"id": INTERRUPT, "key": TEXT, "status": INTERRUPT_STATUS, "state_version": WHOLE}
_add("InterruptMark", _mark | {"deadline": MOMENT, "url": TEXT})
_extend("Amended", "InterruptMark", {"content_digest": DIGEST})
_extend("Withdrawn", "InterruptMark", {"continuation": or_null(CONTINUATION)})
_add("Asked", {"interrupt": ref("InterruptMark"), "run": ref("RunStanding"), "url": TEXT})
_add("RunTitle", {"id": RUN, "title": TEXT})
_extend(
    "InterruptRow",
    "InterruptMark",
    {
        "kind": one_of(Kind.values),
        "reason": TEXT,
        "round": WHOLE,
        "queue": or_null(TEXT),
        "correlation": or_null(TEXT),
        "risk": one_of(Risk.values),
        "priority": WHOLE,
        "title": TEXT,
        "run": ref("RunTitle"),
        "created_at": MOMENT,
        "answered_at": or_null(MOMENT),
    },
)
_add_page("InterruptPage", "interrupts", "InterruptRow")
_add("Proposal", {"name": TEXT, "arguments": OBJECT}, schema=EXACT)
_add("Evidence", {"label": TEXT, "value": EXACT}, source=TEXT)
_answer_at = {"verdict": one_of(Verdict.values), "input": EXACT, "arguments": EXACT}
_add("AtExpiry", {"do": one_of(OnExpiry.values)}, **_answer_at, to=TEXT)
_add("PolicyMark", {"reason": TEXT, "version": WHOLE, "agent": or_null(TEXT)})
_add("ParentMark", {"id": RUN, "title": TEXT, "agent": TEXT, "status": RUN_STATUS})
_add("DuplicateMark", {"id": INTERRUPT, "run": RUN, "url": TEXT})
_vote = {"decision": DECISION, "decided_by": TEXT, "decided_at": MOMENT, "verdict": one_of(Verdict.values)}
_add("Vote", _vote | {"message": or_null(TEXT)})
_add("Approvals", {"needed": WHOLE, "counted": WHOLE})
_add("SignalMark", {"id": TEXT, "type": TEXT})
_signal = {"id": TEXT, "correlation": TEXT, "type": TEXT, "status": one_of(["kept", "used", "dead"])}
_kept = {"interrupt": or_null(INTERRUPT), "received_at": MOMENT, "keep_until": or_null(MOMENT)}
_add("Signal", _signal | _kept)
_add_page("SignalPage", "signals", "Signal")
_add("ChangedPlace", {"path": TEXT}, before=EXACT, after=EXACT)
_add(
    "Answer",
    {
        "verdict": or_null(one_of(Verdict.values)),
        "input": EXACT,
        "arguments": or_null(OBJECT),
        "changed": many(ref("ChangedPlace")),
        "message": or_null(TEXT),
        "decided_by": TEXT,
        "decided_at": MOMENT,
        "decision": DECISION,
        "cause": one_of(Cause.values),
        "permit": or_null(PERMIT),
    },
    signal=ref("SignalMark"),
)
_extend("AnswerClaimed", "Answer", {"new": YES_NO})
_add("Why", {"code": TEXT, "detail": TEXT})
_extend(
    "Interrupt",
    "InterruptRow",
    {
        "content_digest": DIGEST,
        "assignees": many(TEXT),
        "message": TEXT,
        "proposal": or_null(ref("Proposal")),
        "input_schema": EXACT,
        "verdicts": many(one_of(Verdict.values)),
        "evidence": many(ref("Evidence")),
        "facts": many(ref("Fact")),
        "on_expiry": ref("AtExpiry"),
        "approvals": ref("Approvals"),
        "policy": ref("PolicyMark"),
        "parents": many(ref("ParentMark")),
        "duplicates": many(ref("DuplicateMark")),
        "claimed_by": or_null(TEXT),
        "claimed_until": or_null(MOMENT),
        "external_id": or_null(TEXT),
        "metadata": OBJECT,
        "resume": RESUME,
    },
    # for an agent's key
    continuation=or_null(CONTINUATION),
    # for a person
    may_decide=YES_NO,
    why_not=or_null(ref("Why")),
    decision=or_null(ref("Answer")),
    has_voted=YES_NO,
    votes=many(ref("Vote")),
)
_add(
    "Suspended",
    {
        "run": ref("RunStanding"),
        "checkpoint": ref("CheckpointMark"),
        "interrupts": many(ref("InterruptMark")),
        "answers": by_key(ref("Answer")),
        "cancel_effects": many(TEXT),
    },
)
_add("InterruptStanding", {"id": INTERRUPT, "status": INTERRUPT_STATUS})
_add(
    "Receipt",
    {
        "decision": DECISION,
        "status": one_of(DecisionStatus.values),
        "interrupt": ref("InterruptStanding"),
        "verdict": one_of(Verdict.values),
        "state_version": WHOLE,
        "decided_by": TEXT,
        "decided_at": MOMENT,
        "digest": DIGEST,
        "permit": or_null(PERMIT),
        "resume": RESUME,
    },
    replayed=const(True),
    approvals=ref("Approvals"),  # where several people have to approve
)
_add("OneResult", {"interrupt": TEXT, "status": WHOLE}, receipt=ref("Receipt"), problem=ref("Problem"))
_add("ManyDecided", {"decisions": many(ref("OneResult"))})
_held = {"claimed_by": or_null(TEXT), "claimed_until": or_null(MOMENT)}
_add("ClaimShown", {"id": INTERRUPT, "status": INTERRUPT_STATUS, "state_version": WHOLE} | _held)
_extend("Assigned", "ClaimShown", {"assignees": many(TEXT)})
_add("Comment", {"by": TEXT, "text": TEXT, "at": MOMENT})
_add_page("CommentPage", "comments", "Comment")

# --- going on, acting ---------------------------------------------------------------------------------------------------

_run = {"id": RUN, "key": TEXT, "title": TEXT, "epoch": WHOLE, "code_version": TEXT, "metadata": OBJECT}
_add("RunClaimed", _run)
_add("Permit", {"id": PERMIT, "interrupt": TEXT, "name": TEXT, "digest": DIGEST, "valid_until": MOMENT})
_effect = {"key": TEXT, "name": TEXT, "status": one_of(EffectStatus.values), "attempt": WHOLE}
_told = {"receipt": EXACT, "error": or_null(TEXT), "retryable": YES_NO, "undoes": or_null(TEXT)}
_add("Effect", _effect | _told)
_add("Compensation", {"key": TEXT, "undoes": TEXT, "name": TEXT, "arguments": EXACT, "receipt": EXACT})
_add_page("Effects", "effects", "Effect")
_begun = {"key": TEXT, "status": one_of(EffectStatus.values), "perform": YES_NO, "attempt": WHOLE}
_perform = {"attempt_token": TEXT, "arguments": EXACT, "digest": DIGEST}
_add("Begun", _begun, **_perform, receipt=EXACT, error=or_null(TEXT), retryable=YES_NO)
_add(
    "Claimed",
    {
        "id": CONTINUATION,
        "kind": one_of(ContinuationKind.values),
        "cause": one_of(Cause.values),
        "attempt": WHOLE,
        "run": ref("RunClaimed"),
        "lease": ref("Lease"),
        "checkpoint": ref("CheckpointClaimed"),
        "answers": by_key(ref("AnswerClaimed")),
        "overtaken": by_key(ref("Answer")),
        "changed": many(ref("FactNow")),
        "facts": many(ref("FactClaimed")),
        "effects": many(ref("Effect")),
        "more_effects": or_null(TEXT),
        "permits": many(ref("Permit")),
        "compensations": many(ref("Compensation")),
    },
)
ANSWERS["ClaimedMany"] = many(ref("Claimed"))

# --- webhooks, the feed -------------------------------------------------------------------------------------------------

_times = {"created_at": MOMENT, "disabled_at": or_null(MOMENT), "resting_until": or_null(MOMENT)}
_endpoint = {"id": an_id("whk"), "url": TEXT, "events": many(TEXT), "description": TEXT, "secret": or_null(TEXT)}
_add("Webhook", _endpoint | _times)
_extend("WebhookMade", "Webhook", {"old_secrets_until": or_null(MOMENT)})
_add_page("WebhookPage", "webhooks", "Webhook")
_add("WebhookDeleted", {"id": an_id("whk"), "deleted": const(True)})
_tried = {"number": WHOLE, "began_at": MOMENT, "ended_at": or_null(MOMENT), "reply_status": or_null(WHOLE)}
_add("Attempt", _tried | {"trouble": or_null(TEXT)})
_add(
    "Delivery",
    {
        "id": TEXT,
        "webhook": an_id("whk"),
        "type": TEXT,
        "run": RUN,
        "sequence": or_null(WHOLE),
        "status": one_of(DeliveryStatus.values),
        "trouble": or_null(TEXT),
        "next_at": or_null(MOMENT),
        "created_at": MOMENT,
        "ended_at": or_null(MOMENT),
        "attempts": many(ref("Attempt")),
    },
)
_add_page("DeliveryPage", "deliveries", "Delivery")
_add(
    "FeedEvent",
    {"type": TEXT, "at": MOMENT, "run": RUN, "sequence": WHOLE},
    interrupt=INTERRUPT,
    interrupts=many(INTERRUPT),
    continuation=CONTINUATION,
    decision=DECISION,
    effect=TEXT,
    checkpoint=WHOLE,
    ready=const(True),
)
_add("Feed", {"events": many(ref("FeedEvent")), "next": WHOLE, "more": YES_NO})

# --- problems -----------------------------------------------------------------------------------------------------------

_add("Wrong", {"pointer": TEXT, "message": TEXT})
_standard = {"type": TEXT, "title": TEXT, "status": WHOLE, "code": TEXT, "detail": TEXT, "retryable": YES_NO}
_add("Problem", _standard | {"request_id": TEXT, "errors": many(ref("Wrong"))})
ANSWERS["Problem"]["additionalProperties"] = True  # what a refusal tells besides: winner, who_can, rule, effects ...

ANSWERS |= MEASURES
ANSWERS["Document"] = {"type": "object", "required": ["openapi", "paths"], "additionalProperties": True}
