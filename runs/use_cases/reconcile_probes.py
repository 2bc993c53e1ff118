"""RECONCILIATION by probe: look up unknown outcomes at the receiver, and continue their runs.

Three steps, so that no outbound call happens in a transaction: ``begin_probe`` counts the attempt and says where to
look, ``look`` (from a higher layer) makes the call, and ``finish_probe`` decides under the locks of run and effect. The
result of a probe that a person or a worker overtook is discarded.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from ledger import clock, probes
from ledger.effects import locked_effects
from ledger.models import Effect
from ledger.probes import ProbeResult
from ledger.states import EffectStatus
from ledger.transactions import use_case
from runs.locks import lock_run_by_id
from runs.models import Connection, Run
from runs.run_status import save_status
from runs.timeline import record_event
from runs.use_cases.reconcile_outcomes import continue_after_outcome

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Probe:
    """A probe that has begun. ``connection`` is ``None`` if it was removed."""

    effect_pk: int
    token: str
    key: str
    connection: Connection | None
    path: str
    pointer: str


Look = Callable[[Probe], ProbeResult]


def probe_due_effects(*, limit: int, seconds: float, look: Look) -> int:
    """Probe up to ``limit`` unknown outcomes for about ``seconds``, and return how many were settled."""
    began, settled = time.monotonic(), 0
    for pk in probes.list_due_probes(before=clock.now(), limit=limit):
        if time.monotonic() - began > seconds:
            break
        try:
            settled += probe_effect(effect_pk=pk, look=look)
        except Exception:  # the attempt was counted, so the row is deferred and the others continue
            logger.exception("a probe failed", extra={"pk": pk})
    return settled


def has_due_probes() -> bool:
    """Tell whether a probe is due, with one indexed query."""
    return bool(probes.list_due_probes(before=clock.now(), limit=1))


def probe_effect(*, effect_pk: int, look: Look) -> bool:
    """Probe one unknown outcome, and tell whether that settled it. Idempotent."""
    probe = begin_probe(effect_pk=effect_pk)
    if probe is None:
        return False
    gone = ProbeResult(trouble="The connection of this probe no longer exists.")
    return finish_probe(probe=probe, looked=gone if probe.connection is None else look(probe))


@use_case
def begin_probe(*, effect_pk: int) -> Probe | None:
    """Count the attempt and say where to look; ``None`` if no probe is due any more."""
    run, effect = _lock(effect_pk)
    if run is None or effect is None:
        return None
    token = probes.begin_probe_try(effect, now=clock.now())
    if token is None:
        return None
    declared = effect.probe
    connection = Connection.objects.filter(agent=run.agent_id, name=declared["connection"]).first()
    return Probe(
        effect_pk=effect_pk,
        token=token,
        key=effect.key,
        connection=connection,
        path=declared["path"],
        pointer=declared["pointer"],
    )


@use_case
def finish_probe(*, probe: Probe, looked: ProbeResult) -> bool:
    """Settle the effect if the probe found its outcome, continue what waited for it, and tell whether it did."""
    run, effect = _lock(probe.effect_pk)
    if run is None or effect is None:
        return False
    now = clock.now()
    verdict = probes.apply_probe_result(effect, token=probe.token, looked=looked, now=now)
    if verdict is None:
        return False
    if not verdict.outcome:
        save_status(run, now)
        return False
    record_event(
        run,
        "effect.settled",
        actor=probes.SYSTEM,
        at=now,
        effect=effect.key,
        attempt=effect.attempt,
        outcome=verdict.outcome,
    )
    continue_after_outcome(run, effect, by=probes.SYSTEM, now=now)
    save_status(run, now)
    return True


def _lock(effect_pk: int) -> tuple[Run | None, Effect | None]:
    """Lock the run of an effect, then the effect."""
    scope = Effect.objects.filter(pk=effect_pk, status=EffectStatus.UNKNOWN).values_list("scope", flat=True).first()
    run = lock_run_by_id(scope) if scope else None
    if run is None:
        return None, None
    return run, locked_effects().get(pk=effect_pk)
