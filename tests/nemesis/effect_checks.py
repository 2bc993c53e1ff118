"""Checks of effects: performed once, owned if unknown, compensated once, and never begun in a pause."""

from __future__ import annotations

from collections import defaultdict

from tests.nemesis.evidence import Database, Effect
from tests.nemesis.verdicts import TAKEN_BACK, Evidence, Finding


def no_effect_is_repeated(evidence: Evidence) -> Finding:
    found = Finding(n=len(evidence.database.effects))
    for effect in evidence.database.effects:
        times = len(evidence.arrived(effect))
        name = f"{effect.run}/{effect.key}"
        if times > 1 + effect.orders:
            found.broken.append(f"{name} was done {times} times, with {effect.orders} orders")
        elif not times and effect.status in ("applied", "compensated"):
            found.broken.append(f"{name} is {effect.status}, and was never done")
        elif times and effect.status == "failed":
            found.broken.append(f"{name} is reported as failed, but was done")
        elif effect.status in ("unknown", "intended"):
            found.unknown.append(f"{name} is {effect.status}; the receiver has it {times} times")
    known = {f"{effect.run}/{effect.key}" for effect in evidence.database.effects}
    found.broken += [
        f"{name} was done, but no worker had begun it" for name in evidence.truth.done if name not in known
    ]
    return found


def every_unknown_has_an_owner(evidence: Evidence) -> Finding:
    doubted = {(event.run, event.effect) for event in evidence.database.events if event.type == "effect.unknown"}
    unknown = [effect for effect in evidence.database.effects if effect.status == "unknown"]
    alone = [effect for effect in unknown if not effect.owned]
    reported = sum(call.ok and call.about["status"] == "unknown" for call in evidence.of("report"))
    return Finding(
        n=max(len(doubted), reported), broken=[f"{it.run}/{it.key} is unknown and has no owner" for it in alone]
    )


def compensations_are_applied_once_newest_first(evidence: Evidence) -> Finding:
    runs = {run.id: run for run in evidence.database.runs}
    undos = {effect.undoes: effect for effect in evidence.database.effects if effect.undoes}
    by_run: dict[str, list[Effect]] = defaultdict(list)
    found = Finding()
    for effect in evidence.database.effects:
        if effect.undoes or not effect.compensated_by:
            continue
        undo = undos.get(effect.id)
        ended = runs[effect.run].status if effect.run in runs else ""
        if effect.status == "compensated":
            found.n += 1
            by_run[effect.run].append(effect)
            if undo is None or not evidence.arrived(undo):
                found.broken.append(f"{effect.run}/{effect.key} is reported as compensated, but was not")
        elif effect.status == "applied" and ended in TAKEN_BACK and not effect.let_stay:
            found.broken.append(f"{effect.run} is {ended}, and {effect.key} was not compensated")
        if undo is not None and len(evidence.arrived(undo)) > 1 + undo.orders:
            found.broken.append(f"{effect.run}/{effect.key} was compensated {len(evidence.arrived(undo))} times")
    for run, undone in by_run.items():
        newest_first = sorted(undone, key=lambda it: -it.begun_at)
        done_at = [
            evidence.arrived(undos[it.id])[0]
            for it in newest_first
            if it.id in undos and evidence.arrived(undos[it.id])
        ]
        if done_at != sorted(done_at):
            found.broken.append(f"{run} was not compensated newest first")
    return found


def nothing_begins_in_a_pause(evidence: Evidence) -> Finding:
    found = Finding()
    resumed, begun = list(evidence.of("resume")), list(evidence.of("begin"))
    for pause in evidence.of("pause"):
        if not pause.ok or pause.ended is None:
            continue
        found.n += 1
        run = pause.about["run"]
        until = min(
            (it.began for it in resumed if it.about["run"] == run and it.began > pause.began), default=float("inf")
        )
        for call in begun:
            is_new = call.status == 201 and call.told.get("perform") and not call.about.get("undoes")
            if is_new and call.about["run"] == run and pause.ended < call.began and (call.ended or call.began) < until:
                found.broken.append(f"{call.about['effect']} of {run} began after its pause was acknowledged")
    found.broken += _begun_between_pause_and_resume(evidence.database)
    return found


def _begun_between_pause_and_resume(database: Database) -> list[str]:
    broken, paused = [], set()
    for event in sorted(database.events, key=lambda it: (it.run, it.seq)):
        if event.type == "run.pause_asked":
            paused.add(event.run)
        elif event.type in ("run.resumed", "run.ending", "run.restarted"):
            paused.discard(event.run)
        elif event.type == "effect.begun" and event.run in paused:
            broken.append(f"event {event.seq} of {event.run}: {event.effect} began in a pause")
    return broken
