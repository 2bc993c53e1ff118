"""Request serializers of runs, continuations and effects, and how their members become the arguments of use cases."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import AbstractUser

from ledger.digests import digest
from ledger.effects import EffectDeclaration
from ledger.errors import PayloadInvalid
from ledger.states import CompensateOn, EffectStatus, InFlight, Repeat
from reviewqueue.api.serializers.fields import (
    MAX_BATCH,
    BatchField,
    BooleanField,
    ChoiceField,
    DateTimeField,
    EmailField,
    ExactField,
    IntegerField,
    KeyField,
    ListField,
    MetadataField,
    RequestSerializer,
    TextField,
    TokenField,
    invalid_at,
)
from reviewqueue.api.serializers.interrupt_serializers import FactRequest, FactSourceRequest, InterruptRequest
from runs.checkpoints import Snapshot
from runs.leases import MAX_LEASE_SECONDS, MIN_LEASE_SECONDS

MAX_POLL_SECONDS = 30
MAX_CLAIMS = 100

_CODE_VERSION = "Version of the agent's code. The run is offered to workers of the same version, or that accept it."
_PARENT = "Id of a live run of this agent, or of another agent of its owners; the new run becomes its child run."
_INITIATOR = "Person who started the run, by e-mail address."

# --- runs and their checkpoints -------------------------------------------------------------------------------------------


class StartRunRequest(RequestSerializer):
    """A new run."""

    key = KeyField(
        "Your key of the run: a repeated request with it finds the same run.", required=False, allow_null=True
    )
    title = TextField("One line that people read.", max_length=300, min_length=1)
    initiator = EmailField(_INITIATOR, allow_null=True, default=None)
    parent = TextField(_PARENT, max_length=40, min_length=1, allow_null=True, default=None)  # type: ignore[assignment]
    code_version = TextField(_CODE_VERSION, max_length=100, allow_null=True, default=None)
    metadata = MetadataField(
        "Your own small object. Send numbers with a fraction as texts.", allow_null=True, default=None
    )
    lease_seconds = IntegerField(
        "How long the lease lasts without a heartbeat, in seconds. 0: no lease, and any worker can claim the run.",
        min_value=MIN_LEASE_SECONDS,
        max_value=MAX_LEASE_SECONDS,
        allow_zero=True,
        default=60,
    )
    max_step_seconds = IntegerField(
        "How long a step may continue after a stop was requested, in seconds. Then the lease ends.",
        min_value=1,
        max_value=86_400,
        default=900,
    )


class AskRequest(InterruptRequest):
    """A run and its only interrupt."""

    key = KeyField(
        "Your key of the run and its interrupt: a repeated request with it finds the same ones.",
        required=False,
        allow_null=True,
    )
    state = ExactField("What your code needs to continue from here.")
    initiator = EmailField(_INITIATOR, allow_null=True, default=None)
    parent = TextField(_PARENT, max_length=40, min_length=1, allow_null=True, default=None)  # type: ignore[assignment]
    code_version = TextField(_CODE_VERSION, max_length=100, allow_null=True, default=None)


class AskBatchRequest(RequestSerializer):
    """Several asks."""

    asks = BatchField(
        "The asks, each with its own `key`. Each is validated and stored by itself.",
        AskRequest(),
        min_entries=1,
        max_entries=MAX_BATCH,
    )


class SnapshotRequest(RequestSerializer):
    """A checkpoint's content."""

    step = TextField("Name of the step that ended here.", max_length=200, min_length=1)
    state = ExactField("What your code needs to continue from here.", required=True)
    facts = ListField(
        "Facts that the rest of the run relies on.", FactRequest(), max_entries=50, allow_null=True, default=None
    )
    replay_from = TextField(
        "Step that a replay begins with, if it is not the next one.", max_length=200, allow_null=True, default=None
    )
    format = TextField(
        "Format of the state; `json` when left out.", max_length=60, min_length=1, allow_null=True, default=None
    )
    code_version = TextField(_CODE_VERSION, max_length=100, allow_null=True, default=None)


_AFTER = "Number of the checkpoint before this one. A repeated request is recognized by it."


class CommitCheckpointRequest(SnapshotRequest):
    """The next checkpoint of a run."""

    after = IntegerField(_AFTER)


class PendingEffectRequest(RequestSerializer):
    """An effect that is in flight when its run suspends."""

    key = KeyField("Key of an effect that is in flight.")
    in_flight = ChoiceField(
        "What happens to the effect while the run is suspended: `await` its outcome; `cancel` it outside (if it was "
        "applied all the same, it is compensated); or `abandon` it: its outcome is unknown at once.",
        *InFlight.values,
        default=InFlight.AWAIT.value,
    )
    settle_by = DateTimeField(
        "Time until which the outcome is awaited; then it is unknown. Required unless `in_flight` is `abandon`.",
        required=False,
        allow_null=True,
        default=None,
    )

    def validate(self, sent: dict[str, Any]) -> dict[str, Any]:
        """Refuse to await an outcome without an end."""
        if sent["settle_by"] is None and sent["in_flight"] != InFlight.ABANDON:
            raise invalid_at("is missing: the time until which the outcome is awaited", "settle_by")
        return sent


class SuspendRequest(RequestSerializer):
    """A checkpoint, the interrupts that the run waits for, and the effects in flight."""

    after = IntegerField(_AFTER)
    checkpoint = SnapshotRequest("Checkpoint from which the run continues after the answer.")
    pending = ListField(
        "Effects in flight. One that is not listed makes the call fail with `in_doubt`.",
        PendingEffectRequest(),
        max_entries=50,
        allow_null=True,
        default=None,
    )
    interrupts = ListField("Interrupts that the run waits for.", InterruptRequest(), min_entries=1, max_entries=50)
    resume_when = ChoiceField(
        "`all`: the run continues when every interrupt is answered. `any`: with the first answer.",
        "all",
        "any",
        default="all",
    )


def snapshot(sent: Any, checkpoint: dict[str, Any]) -> Snapshot:
    """Return the snapshot of a request. ``sent`` is the whole body: a repeated request is recognized by its digest."""
    return Snapshot(
        step=checkpoint["step"],
        state=checkpoint["state"],
        replay_from=checkpoint["replay_from"] or "",
        format=checkpoint["format"] or "json",
        code_version=checkpoint["code_version"] or "",
        request_digest=digest(sent),
    )


def person_named(address: str | None, *, at: str) -> AbstractUser | None:
    """Return the person with this address, or ``None`` without one. ``at``: the JSON Pointer of the address."""
    if address is None:
        return None
    person = get_user_model().objects.filter(username=address).first()
    if person is None:
        raise PayloadInvalid.at(at, "is not a known user")
    return person


class ProgressRequest(RequestSerializer):
    """Progress that people see."""

    text = TextField("What the worker does now.", max_length=300, default="")
    done = IntegerField("Number of steps done.", allow_null=True, default=None)
    of = IntegerField("Number of steps in all.", allow_null=True, default=None)
    spent = TextField("Cost so far, in a unit of your own.", max_length=100, allow_null=True, default=None)


class HeartbeatRequest(RequestSerializer):
    """A heartbeat of the worker that holds the lease."""

    progress = ProgressRequest("Progress that people see.", allow_null=True, default=None)


class ReleaseLeaseRequest(RequestSerializer):
    """The end of a lease, by the worker that holds it."""

    reason = ChoiceField("Why the worker does not continue.", "retry", "incompatible", "unknown_checkpoint")
    detail = TextField("More about the reason, for people.", max_length=300, allow_null=True, default=None)


class ReportedFactRequest(RequestSerializer):
    """A fact as the worker found it."""

    name = TextField("Name of the fact.", max_length=200, min_length=1)
    value = ExactField("Value of the fact now.", required=True)


class ReportFactsRequest(RequestSerializer):
    """The facts that the worker checks."""

    facts = ListField("Facts, each at most once.", ReportedFactRequest(), min_entries=1, max_entries=50)

    def validate_facts(self, facts: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Refuse a fact that is named twice."""
        names = [fact["name"] for fact in facts]
        twice = [place for place, name in enumerate(names) if name in names[:place]]
        if twice:
            raise invalid_at("is named twice", twice[0], "name")
        return facts


class RecordStepRequest(RequestSerializer):
    """The result of a step."""

    result = ExactField("Result of the step.", required=True)


class CompleteRunRequest(RequestSerializer):
    """The end of a run that is done."""

    result = ExactField("Result of the run.")


class FailRunRequest(RequestSerializer):
    """The end of a run that failed."""

    error = ExactField("What went wrong.", required=True)


# --- continuations, effects ---------------------------------------------------------------------------------------------


class EmptyRequest(RequestSerializer):
    """No body, or an empty object."""


class ClaimContinuationRequest(RequestSerializer):
    """What a worker can continue, and for how long it holds the lease."""

    code_version = TextField("Version of this worker's code.", max_length=100, allow_null=True, default=None)
    accepts = ListField(
        "Other code versions whose checkpoints this worker can read.",
        TextField(max_length=100),
        max_entries=50,
        allow_null=True,
        default=None,
    )
    lease_seconds = IntegerField(
        "How long the lease lasts without a heartbeat, in seconds.",
        min_value=MIN_LEASE_SECONDS,
        max_value=MAX_LEASE_SECONDS,
        default=60,
    )


class ClaimContinuationsRequest(ClaimContinuationRequest):
    """How many continuations a worker claims, and how long it waits for the first."""

    max = IntegerField("Largest number of continuations to claim.", min_value=1, max_value=MAX_CLAIMS, default=1)
    wait = IntegerField(
        "How long to wait for the first continuation, in seconds.", min_value=0, max_value=MAX_POLL_SECONDS, default=0
    )


class CompensationRequest(RequestSerializer):
    """The call that compensates an effect, and after which ends of the run."""

    name = TextField(
        "Name of the call that compensates the effect. It must not need an approval by an effect rule.",
        max_length=200,
        min_length=1,
    )
    arguments = ExactField("Arguments of that call.", required=True)
    on = ListField(
        "Ends of the run after which the effect is compensated: cancel, expire, fail, reject (a rejection ends the "
        "run); all of them when left out.",
        ChoiceField("", *CompensateOn.values),
        min_entries=1,
        max_entries=len(CompensateOn),
        allow_null=True,
        default=None,
    )


class ProbeRequest(FactSourceRequest):
    """Where this server looks up an unknown outcome, and what the values there mean."""

    path = TextField(
        "Path below the connection's address; `{key}` is replaced with the effect's key.", max_length=500, min_length=1
    )
    pointer = TextField("JSON Pointer (RFC 6901) to the value in the response.", max_length=500, default="")
    applied = ListField(
        "Values that mean that the effect was applied; `true` and `applied` when left out.",
        ExactField(),
        max_entries=20,
        allow_null=True,
        default=None,
    )
    failed = ListField(
        "Values that mean that the effect was not applied; `false` and `failed` when left out. Any other value "
        "resolves nothing.",
        ExactField(),
        max_entries=20,
        allow_null=True,
        default=None,
    )
    conclusive = BooleanField(
        "Whether a 404 means that the effect was not applied, from five minutes after it was begun.", default=False
    )


class BeginEffectRequest(RequestSerializer):
    """A call to the outside world that the worker wants to perform."""

    name = TextField("Name of the call.", max_length=200, min_length=1)
    arguments = ExactField("Arguments of the call. With a permit they can be left out: the approved ones are used.")
    permit = TextField("Id of the permit that an approval left.", max_length=40, allow_null=True, default=None)
    repeat = ChoiceField(
        "Whether an unknown outcome may be tried again: `never` (a person resolves it), `by_key` (the receiver drops "
        "repeated calls by their key) or `harmless`.",
        *Repeat.values,
        default=Repeat.NEVER.value,
    )
    stable_key = BooleanField(
        "False: a repeated step uses another key, so after a lost lease an owner must confirm first.", default=True
    )
    in_flight = ChoiceField(
        "What happens to the effect if its run stops while it is in flight: `await` its outcome; `cancel` it outside "
        "(if it was applied all the same, it is compensated); or `abandon` it: its outcome is unknown at once.",
        *InFlight.values,
        default=InFlight.AWAIT.value,
    )
    compensation = CompensationRequest(
        "How the effect is compensated when the run ends. Null: it is not. Only counts for a new effect.",
        allow_null=True,
        default=None,
    )
    probe = ProbeRequest(
        "Where this server looks up an unknown outcome by the effect's key, to resolve it without a person. Null: a "
        "person resolves it.",
        allow_null=True,
        default=None,
    )

    def validate(self, sent: dict[str, Any]) -> dict[str, Any]:
        """Refuse to repeat or abandon an effect whose key is not stable: a later call could not find it by its key."""
        if not sent["stable_key"] and sent["repeat"] != Repeat.NEVER:
            raise invalid_at("must be never if the key is not stable: the next attempt has another key", "repeat")
        if not sent["stable_key"] and sent["in_flight"] == InFlight.ABANDON:
            raise invalid_at("cannot be abandon if the key is not stable: the effect could not be found", "in_flight")
        return sent


def declared(sent: dict[str, Any]) -> EffectDeclaration:
    """Return how an effect is compensated and probed; without ``on``, every end of the run compensates it."""
    kept = {"stable_key": sent["stable_key"], "in_flight": sent["in_flight"], "probe": _probe(sent["probe"])}
    compensation = sent["compensation"]
    if compensation is None:
        return EffectDeclaration(**kept)
    call = {"name": compensation["name"], "arguments": compensation["arguments"]}
    return EffectDeclaration(
        compensation=call, compensate_on=tuple(dict.fromkeys(compensation["on"] or CompensateOn.values)), **kept
    )


def _probe(sent: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return a probe as it is stored, with the default values."""
    if sent is None:
        return None
    applied = [True, EffectStatus.APPLIED.value] if sent["applied"] is None else sent["applied"]
    failed = [False, EffectStatus.FAILED.value] if sent["failed"] is None else sent["failed"]
    return {**sent, "applied": applied, "failed": failed}


class EffectOutcomeRequest(RequestSerializer):
    """The outcome of an attempt."""

    attempt_token = TokenField("Token of the attempt.", kind="att")
    status = ChoiceField(
        "`applied`: it happened. `failed`: it surely did not. `unknown`: the worker does not know.",
        EffectStatus.APPLIED.value,
        EffectStatus.FAILED.value,
        EffectStatus.UNKNOWN.value,
    )
    receipt = ExactField("Response of the receiver.")
    error = TextField("What went wrong.", max_length=2_000, allow_null=True, default=None)
    retryable = BooleanField("Whether a failed effect may be tried again.", default=False)
