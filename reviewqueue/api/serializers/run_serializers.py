"""What requests look like, member by member (docs/api.md), and how they read as the verbs' own dataclasses.

Waits are in `wait_shapes`, what people do around them in `desk_shapes`. Nothing is looked up here but the people that a
request names.
"""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import AbstractUser

from ledger.digests import digest
from ledger.effects import Declared
from ledger.errors import PayloadInvalid
from ledger.states import EffectStatus, InFlight, On, Repeat
from reviewqueue.api.serializers.fields import (
    Address,
    Exact,
    Key,
    Many,
    Metadata,
    Moment,
    OneOf,
    Shape,
    Text,
    Whole,
    YesNo,
    wrong_in,
)
from reviewqueue.api.serializers.interrupt_serializers import CheckedThere, FactShape, WaitShape
from runs.checkpoints import Snapshot
from runs.decisions import MESSAGE_LIMIT
from runs.leases import LONGEST, SHORTEST

LONGEST_POLL = 30
MOST_CLAIMED = 20

# --- runs and their boundaries --------------------------------------------------------------------------------------------


class RunShape(Shape):
    """`POST runs`."""

    key = Key(required=False, allow_null=True)
    title = Text(most=300, least=1)
    initiator = Address(allow_null=True, default=None)
    parent = Text(most=40, least=1, allow_null=True, default=None)  # type: ignore[assignment]
    code_version = Text(most=100, allow_null=True, default=None)
    metadata = Metadata(allow_null=True, default=None)
    lease_seconds = Whole(least=SHORTEST, most=LONGEST, or_zero=True, default=60)
    max_step_seconds = Whole(least=1, most=86_400, default=900)


class AskShape(WaitShape):
    """`POST asks`: a run and its one wait in one body."""

    key = Key(required=False, allow_null=True)
    state = Exact()
    initiator = Address(allow_null=True, default=None)
    parent = Text(most=40, least=1, allow_null=True, default=None)  # type: ignore[assignment]
    code_version = Text(most=100, allow_null=True, default=None)


class SnapshotShape(Shape):
    """A checkpoint, as a suspend carries it."""

    step = Text(most=200, least=1)
    state = Exact(required=True)
    facts = Many(FactShape(), most=50, allow_null=True, default=None)
    replay_from = Text(most=200, allow_null=True, default=None)
    format = Text(most=60, least=1, allow_null=True, default=None)
    code_version = Text(most=100, allow_null=True, default=None)


class CheckpointShape(SnapshotShape):
    """`POST runs/{id}/checkpoints`."""

    after = Whole()


class Pending(Shape):
    """An effect that is under way when its run suspends."""

    key = Key()
    in_flight = OneOf(*InFlight.values, default=InFlight.AWAIT.value)
    settle_by = Moment(required=False, allow_null=True, default=None)

    def validate(self, sent: dict[str, Any]) -> dict[str, Any]:
        """Refuse a wait without an end; what is let be has none."""
        if sent["settle_by"] is None and sent["in_flight"] != InFlight.ABANDON:
            raise wrong_in("is missing: until when its outcome is awaited", "settle_by")
        return sent


class SuspendShape(Shape):
    """`POST runs/{id}/interrupts`."""

    after = Whole()
    checkpoint = SnapshotShape()
    pending = Many(Pending(), most=50, allow_null=True, default=None)
    interrupts = Many(WaitShape(), least=1, most=50)
    resume_when = OneOf("all", "any", default="all")


def snapshot(sent: Any, checkpoint: dict[str, Any]) -> Snapshot:
    """Return the snapshot that was handed over; ``sent`` is the whole body, by which the same call is known again."""
    return Snapshot(
        step=checkpoint["step"],
        state=checkpoint["state"],
        replay_from=checkpoint["replay_from"] or "",
        format=checkpoint["format"] or "json",
        code_version=checkpoint["code_version"] or "",
        request_digest=digest(sent),
    )


def person_named(address: str | None, *, at: str) -> AbstractUser | None:
    """Return the person of this address; ``None`` when nobody was named. Refuses an address that is nobody's."""
    if address is None:
        return None
    person = get_user_model().objects.filter(username=address).first()
    if person is None:
        raise PayloadInvalid.at(at, "is nobody here")
    return person


class BeatShape(Shape):
    """`POST runs/{id}/lease`: a heartbeat, with what to tell people."""

    class Progress(Shape):
        """What the worker is at."""

        text = Text(most=300, default="")
        done = Whole(allow_null=True, default=None)
        of = Whole(allow_null=True, default=None)
        spent = Text(most=100, allow_null=True, default=None)

    progress = Progress(allow_null=True, default=None)


class HandBackShape(Shape):
    """`POST runs/{id}/lease/release`."""

    reason = OneOf("retry", "incompatible", "unknown_checkpoint")
    detail = Text(most=300, allow_null=True, default=None)


class ReportedFacts(Shape):
    """`POST runs/{id}/facts`."""

    class Reported(Shape):
        """One fact as the worker found it."""

        name = Text(most=200, least=1)
        value = Exact(required=True)

    facts = Many(Reported(), least=1, most=50)

    def validate_facts(self, facts: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Refuse a fact that is named twice."""
        names = [fact["name"] for fact in facts]
        twice = [place for place, name in enumerate(names) if name in names[:place]]
        if twice:
            raise wrong_in("is named twice", twice[0], "name")
        return facts


class StepShape(Shape):
    """`PUT runs/{id}/steps/{name}`."""

    result = Exact(required=True)


class CompleteShape(Shape):
    """`POST runs/{id}/complete`."""

    result = Exact()


class FailShape(Shape):
    """`POST runs/{id}/fail`."""

    error = Exact(required=True)


# --- answers, claims, effects ---------------------------------------------------------------------------------------------


class DecisionShape(Shape):
    """`POST interrupts/{id}/decisions`."""

    state_version = Whole(least=1)
    content_digest = Text(most=68, allow_null=True, default=None)
    verdict = Text(most=20)
    input = Exact()
    arguments = Exact()
    message = Text(most=MESSAGE_LIMIT, allow_null=True, default=None)


class NothingShape(Shape):
    """A call without a body, or with an empty object."""


class ClaimOneShape(Shape):
    """`POST continuations/{id}/claim`."""

    code_version = Text(most=100, allow_null=True, default=None)
    accepts = Many(Text(most=100), most=50, allow_null=True, default=None)
    lease_seconds = Whole(least=SHORTEST, most=LONGEST, default=60)


class ClaimShape(ClaimOneShape):
    """`POST continuations/claim`."""

    max = Whole(least=1, most=MOST_CLAIMED, default=1)
    wait = Whole(least=0, most=LONGEST_POLL, default=0)


class CompensationShape(Shape):
    """How an effect is taken back: a call of its own, and after which ends of the run."""

    name = Text(most=200, least=1)
    arguments = Exact(required=True)
    on = Many(OneOf(*On.values), least=1, most=len(On), allow_null=True, default=None)


class ProbeShape(CheckedThere):
    """Where an unknown outcome is looked up by its key, and which values there mean that it happened, or did not."""

    applied = Many(Exact(), most=20, allow_null=True, default=None)
    failed = Many(Exact(), most=20, allow_null=True, default=None)
    conclusive = YesNo(default=False)


class EffectShape(Shape):
    """`PUT runs/{id}/effects/{key}`."""

    name = Text(most=200, least=1)
    arguments = Exact()
    permit = Text(most=40, allow_null=True, default=None)
    repeat = OneOf(*Repeat.values, default=Repeat.NEVER.value)
    stable_key = YesNo(default=True)
    in_flight = OneOf(*InFlight.values, default=InFlight.AWAIT.value)
    compensation = CompensationShape(allow_null=True, default=None)
    probe = ProbeShape(allow_null=True, default=None)

    def validate(self, sent: dict[str, Any]) -> dict[str, Any]:
        """Refuse to repeat, or to let be, what nobody would know again by its key."""
        if not sent["stable_key"] and sent["repeat"] != Repeat.NEVER:
            raise wrong_in("has to be never where the key is not stable: another try would have another key", "repeat")
        if not sent["stable_key"] and sent["in_flight"] == InFlight.ABANDON:
            raise wrong_in("cannot be abandon where the key is not stable: nobody would know it again", "in_flight")
        return sent


def declared(sent: dict[str, Any]) -> Declared:
    """Return what the body of an effect says of taking it back; left out, every end of the run does."""
    kept = {"stable_key": sent["stable_key"], "in_flight": sent["in_flight"], "probe": _probe(sent["probe"])}
    taken_back = sent["compensation"]
    if taken_back is None:
        return Declared(**kept)
    call = {"name": taken_back["name"], "arguments": taken_back["arguments"]}
    return Declared(compensation=call, compensate_on=tuple(dict.fromkeys(taken_back["on"] or On.values)), **kept)


def _probe(sent: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return a probe as it is kept; without values of its own, true says that it happened and false that it did not."""
    if sent is None:
        return None
    applied = [True, EffectStatus.APPLIED.value] if sent["applied"] is None else sent["applied"]
    failed = [False, EffectStatus.FAILED.value] if sent["failed"] is None else sent["failed"]
    return {**sent, "applied": applied, "failed": failed}


class OutcomeShape(Shape):
    """`POST runs/{id}/effects/{key}/outcome`."""

    attempt_token = Text(most=200, least=1)
    status = OneOf(EffectStatus.APPLIED.value, EffectStatus.FAILED.value, EffectStatus.UNKNOWN.value)
    receipt = Exact()
    error = Text(most=2_000, allow_null=True, default=None)
    retryable = YesNo(default=False)
