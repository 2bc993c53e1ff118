"""What of the timeline is told outside: the types that an endpoint may ask for, and the few members that are told of each.

Ids, keys of the agent's own and numbers; never an answer, a verdict, a name or a reason (an answer reaches an agent under a
live lease only). All of it is read from the event alone, so a message says the same at every attempt. Called by the
announcer and by the feed of the API; pure, nothing is looked up here.
"""

from __future__ import annotations

from typing import Any

from runs.models import Event

READY = "continuation.ready"

#: type -> what it tells (docs/webhooks.md). A test compares it with what the verbs write.
TYPES = {
    "run.started": "A run began.",
    "checkpoint.committed": "A worker committed a boundary.",
    "run.suspended": "A run stopped to wait; its interrupts are open.",
    "interrupt.answered": "An interrupt was answered. The answer itself comes with the claim.",
    "interrupt.amended": "Its agent changed an open interrupt.",
    "interrupt.withdrawn": "Its agent took an open interrupt back.",
    "interrupt.expired": "Nobody answered in time.",
    "interrupt.escalated": "Nobody answered in time; another queue is asked.",
    "interrupt.assigned": "An interrupt was given to named people.",
    "interrupt.extended": "An interrupt got a later deadline.",
    "interrupt.claimed": "A reviewer took an interrupt up.",
    "interrupt.released": "A reviewer let an interrupt go, or may no longer decide it.",
    "interrupt.unassigned": "An assignment ended: its person may no longer decide the interrupt.",
    "interrupt.commented": "A reviewer commented.",
    "interrupt.reminded": "The deadline of an interrupt comes near, and nobody has answered.",
    "timer.fired": "The time that a run waited for has come.",
    "signal.refused": "A signal did not fit what the wait asks for, and is kept as a dead letter.",
    "decision.counted": "One of several people approved; others have to join.",
    "vote.revoked": "A vote counts no more: its person may no longer decide the interrupt.",
    "decision.refused": "An answer was refused and kept as evidence.",
    "decision.undone": "An answer was taken back; the interrupt is open again.",
    READY: "A run may go on: any worker of the agent may claim the continuation.",
    "continuation.claimed": "A worker went on.",
    "resume.denied": "Whoever answered may no longer decide that; the interrupt is open again.",
    "approval.revoked": "Whoever approved may no longer decide that; the permit is void, and the agent must ask again.",
    "review.renewed": "A fact changed; the interrupts are asked again.",
    "run.replanned": "A fact changed; the agent has to plan again.",
    "facts.reported": "A worker told the facts that it checks itself.",
    "fact.waived": "A fact that could not be told was waived by name.",
    "hold.opened": "A run is held back.",
    "hold.lifted": "What held a run back is settled.",
    "records.written": "Rows were stored that no other event covers, such as a report that changed nothing.",
    "snapshots.erased": "The states of an ended run are past their time and were erased.",
    "run.restored": "A backup was restored; the run is held until its owner has compared it with the world.",
    "lease.lost": "A worker was silent too long.",
    "lease.handed_back": "A worker gave its run back.",
    "effect.begun": "An effect was begun.",
    "effect.applied": "An effect was applied.",
    "effect.failed": "An effect failed, and is known not to be applied.",
    "effect.unknown": "Nobody knows whether an effect was applied.",
    "effect.refused": "An effect was not allowed to begin.",
    "effect.compensated": "What an effect did was taken back.",
    "effect.undo_waived": "An effect stays although its run was ended; its owner said so.",
    "effect.settled": "The owner of an unknown effect said what happened.",
    "effect.ordered_again": "A person ordered an effect once more.",
    "effect.contradicted": "A later report says otherwise than the ledger.",
    "effect.contradiction_closed": "An owner settled which report is right.",
    "run.pause_asked": "Somebody asked a run to pause.",
    "run.resumed": "Somebody let a paused run go on.",
    "run.cancel_asked": "Somebody asked again for a run that is ending to end.",
    "run.ending": "A run is being ended.",
    "run.compensating": "What an ended run did is to be taken back: any worker of the agent may claim the continuation.",
    "run.retagged": "A person gave a run to another version of its agent's code.",
    "run.restarted": "A person started an ended run again.",
    "run.completed": "A run was completed.",
    "run.failed": "A run failed.",
    "run.cancelled": "A run was cancelled.",
    "run.expired": "A run came to its end because nobody went on with it.",
}

#: Members of an event that are told, by the names they are told under.
_TOLD = {
    "continuation": "continuation",
    "interrupt": "interrupt",
    "interrupts": "interrupts",
    "decision": "decision",
    "effect": "effect",
    "checkpoint": "checkpoint",
    "number": "checkpoint",
}


def types_of(event: Event) -> list[str]:
    """Return what an event is announced as: its own type, and ``continuation.ready`` when this very move made one ready."""
    made_ready = event.refs.get("ready") is True and event.type != READY
    return [event.type, READY] if made_ready else [event.type]


def told_of_event(event: Event) -> dict[str, Any]:
    """Return the members that are told of a numbered event. ``sequence`` is its place in the agent's feed."""
    told = {name: event.refs[ref] for ref, name in _TOLD.items() if event.refs.get(ref) is not None}
    if "interrupt" not in told and told.get("interrupts"):
        told["interrupt"] = told["interrupts"][-1]
    return {"run": event.run.public_id, **told, "sequence": event.announced_seq}
