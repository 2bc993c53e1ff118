"""Event types of webhooks and the event feed, and the members that each event publishes.

Only ids, the agent's own keys and numbers are published; never a decision, verdict, name or reason (decisions reach an agent
only under a live lease). Everything is read from the event alone, so a message is the same at every attempt.
"""

from __future__ import annotations

from typing import Any

from runs.models import Event

READY = "continuation.ready"

#: Type -> description (docs/webhooks.md). A test compares the types with those that the use cases record.
TYPES = {
    "run.started": "A run started.",
    "checkpoint.committed": "A worker committed a checkpoint.",
    "run.suspended": "A run is suspended; its interrupts are open.",
    "interrupt.answered": "An interrupt was answered. The decision itself comes with the claim of the continuation.",
    "interrupt.amended": "An agent changed an open interrupt.",
    "interrupt.withdrawn": "An agent withdrew an open interrupt.",
    "interrupt.expired": "An interrupt passed its deadline without a decision.",
    "interrupt.escalated": "An interrupt passed its deadline and was escalated to another queue.",
    "interrupt.assigned": "An interrupt was assigned to people.",
    "interrupt.extended": "An interrupt got a later deadline.",
    "interrupt.claimed": "A reviewer claimed an interrupt.",
    "interrupt.released": "A reviewer released an interrupt, or lost the permission to decide it.",
    "interrupt.unassigned": "An assignment ended: its person lost the permission to decide the interrupt.",
    "interrupt.commented": "A reviewer commented on an interrupt.",
    "attachment.added": "A reviewer attached a file to an interrupt.",
    "interrupt.reminded": "The deadline of an open interrupt is near.",
    "timer.fired": "A run's timer fired.",
    "signal.refused": "A signal did not fit the schema of its interrupt. It is a dead letter.",
    "decision.counted": "An approval was counted; the quorum needs more.",
    "vote.revoked": "An approval no longer counts: its person lost the permission to decide the interrupt.",
    "decision.refused": "A decision was refused. It is stored as evidence.",
    "decision.undone": "A decision was undone; the interrupt is open again.",
    READY: "A run is ready: any worker of the agent can claim the continuation.",
    "continuation.claimed": "A worker claimed a continuation.",
    "resume.denied": "The person who decided has lost the permission; the interrupt is open again.",
    "approval.revoked": "The person who approved has lost the permission; the permit is void, and the agent must ask again.",
    "review.renewed": "A fact changed; the interrupts are open for another round.",
    "run.replanned": "A fact changed; the agent must plan again.",
    "facts.reported": "A worker reported facts that it checks itself.",
    "fact.waived": "An owner waived a fact that could not be checked.",
    "hold.opened": "A run is on hold.",
    "hold.lifted": "A hold of a run was lifted.",
    "records.written": "Rows were stored that no other event covers, such as a report that changed nothing.",
    "snapshots.erased": "The checkpoint states of an ended run were erased after their retention period.",
    "run.restored": "A backup was restored; the run is on hold until its owner has checked it.",
    "lease.lost": "A lease expired without a heartbeat.",
    "lease.handed_back": "A worker released its lease.",
    "effect.begun": "An effect began.",
    "effect.applied": "An effect was applied.",
    "effect.failed": "An effect failed and was not applied.",
    "effect.unknown": "The outcome of an effect is unknown.",
    "effect.refused": "An effect was not allowed to begin.",
    "effect.compensated": "An effect was compensated.",
    "effect.undo_waived": "An owner decided that an effect of an ended run needs no compensation.",
    "effect.settled": "An owner resolved an unknown outcome.",
    "effect.ordered_again": "A person ordered another attempt of an effect.",
    "effect.contradicted": "A later report contradicts the recorded outcome of an effect.",
    "effect.contradiction_closed": "An owner resolved contradicting reports of an effect.",
    "run.pause_asked": "A person paused a run.",
    "run.resumed": "A person resumed a paused run.",
    "run.cancel_asked": "A person cancelled again a run that is already ending.",
    "run.ending": "A run is ending.",
    "run.compensating": "The effects of an ended run need compensation: any worker of the agent can claim the continuation.",
    "run.retagged": "A person assigned a run to another code version of its agent.",
    "run.restarted": "A person restarted an ended run.",
    "run.completed": "A run completed.",
    "run.failed": "A run failed.",
    "run.cancelled": "A run was cancelled.",
    "run.expired": "A run expired, because no worker continued it in time.",
}

#: Reference of an event -> the member that publishes it.
_PUBLISHED = {
    "continuation": "continuation",
    "interrupt": "interrupt",
    "interrupts": "interrupts",
    "decision": "decision",
    "effect": "effect",
    "checkpoint": "checkpoint",
    "number": "checkpoint",
}


def types_of(event: Event) -> list[str]:
    """Return the types of an event: its own, and ``continuation.ready`` if it made a continuation ready."""
    made_ready = event.refs.get("ready") is True and event.type != READY
    return [event.type, READY] if made_ready else [event.type]


def published_members(event: Event) -> dict[str, Any]:
    """Return the published members of a numbered event. ``sequence`` is its number in the agent's feed."""
    members = {name: event.refs[ref] for ref, name in _PUBLISHED.items() if event.refs.get(ref) is not None}
    if "interrupt" not in members and members.get("interrupts"):
        members["interrupt"] = members["interrupts"][-1]
    return {"run": event.run.public_id, **members, "sequence": event.announced_seq}
