"""Checks of creates, decisions, interrupts, leases and responses."""

from __future__ import annotations

from collections import Counter, defaultdict

from tests.nemesis.evidence import Interrupt
from tests.nemesis.history import REFUSED, Call
from tests.nemesis.verdicts import ACCEPTED, CLOCK, FINAL, PATIENCE, Evidence, Finding

# --- creates ----------------------------------------------------------------------------------------------------------


def no_create_is_lost(evidence: Evidence) -> Finding:
    kept = {run.id for run in evidence.database.runs}
    told = [call for call in evidence.of("create") if call.ok]
    lost = [call for call in told if call.told["run"] not in kept]
    words = [f"{call.client} got {call.told['run']}, which is not there" for call in lost]
    return Finding(n=len({call.told["run"] for call in told}), broken=words)


def no_create_is_doubled(evidence: Evidence) -> Finding:
    rows = Counter(run.key for run in evidence.database.runs)
    told: dict[str, set[str]] = defaultdict(set)
    for call in evidence.of("create"):
        if call.ok:
            told[call.about["key"]].add(call.told["run"])
    found = Finding(n=len(rows))
    found.broken += [f"{key} is there {number} times" for key, number in rows.items() if number > 1]
    found.broken += [f"of {key} clients got {sorted(ids)}" for key, ids in told.items() if len(ids) > 1]
    return found


# --- answers ----------------------------------------------------------------------------------------------------------


def one_interrupt_has_one_outcome(evidence: Evidence) -> Finding:
    closing = Counter(
        (it.interrupt, it.round) for it in evidence.database.decisions if it.closes and it.status == "accepted"
    )
    kept = {it.id: it for it in evidence.database.decisions}
    won: dict[str, set[str]] = defaultdict(set)
    for it in evidence.database.decisions:
        if it.closes and it.status in ACCEPTED:
            won[it.interrupt].add(it.id)
    found = Finding(n=len(closing))
    found.broken += [f"{wait} has {number} accepted answers" for (wait, _), number in closing.items() if number > 1]
    for call in evidence.of("decide"):
        wait = call.about["interrupt"]
        if call.ok and call.told["status"] == "accepted":
            given = kept.get(call.told["decision"])
            if given is None or given.status not in ACCEPTED:
                found.broken.append(
                    f"{call.client} got the response that {call.told['decision']} counts for {wait}; it does not"
                )
        winner = (call.told.get("winner") or {}).get("decision")
        if winner and winner not in won[wait]:
            found.broken.append(f"{call.client} got the response that {winner} won {wait}, which it did not")
    return found


def every_decision_is_continued(evidence: Evidence) -> Finding:
    runs = {run.id: run for run in evidence.database.runs}
    gone_on = {(it.run, it.checkpoint) for it in evidence.database.continuations}
    answered = [it for it in evidence.database.interrupts if it.status == "answered"]
    found = Finding(n=len(answered))
    for wait in answered:
        run = runs.get(wait.run)
        if run is None or run.status in FINAL:
            continue
        where = f"{wait.id} was answered, and its run {run.id} is {run.status}"
        if (wait.run, wait.checkpoint) not in gone_on or not run.held:
            found.broken.append(where)
        else:
            found.unknown.append(f"{where}, held for its owner")
    return found


def no_late_answer_counts(evidence: Evidence) -> Finding:
    waits = {wait.id: wait for wait in evidence.database.interrupts}
    counted = [it for it in evidence.database.decisions if it.status in ACCEPTED and it.by_a_person]
    late = [it for it in counted if it.at >= waits[it.interrupt].deadline]
    found = Finding(
        n=len(counted), broken=[f"{it.id} was accepted after the deadline of {it.interrupt}" for it in late]
    )
    for call in evidence.of("decide"):
        wait = waits.get(call.about["interrupt"])
        if (
            wait
            and call.ok
            and call.told["status"] == "accepted"
            and call.status == 201
            and call.began > wait.deadline + CLOCK
        ):
            found.broken.append(f"{call.client} answered {wait.id} after its deadline, but got a success")
    return found


# --- waits ------------------------------------------------------------------------------------------------------------


def every_interrupt_ends_once(evidence: Evidence) -> Finding:
    by_wait: dict[str, list[str]] = defaultdict(list)
    for it in evidence.database.decisions:
        if it.status in ACCEPTED and it.by_a_person and it.closes:
            by_wait[it.interrupt].append(it.id)
    due = [wait for wait in evidence.database.interrupts if wait.deadline < evidence.database.now - PATIENCE]
    found = Finding(n=len(evidence.database.interrupts))
    found.broken += [f"{wait.id} waits on after its deadline" for wait in due if wait.status == "waiting"]
    for wait in evidence.database.interrupts:
        if wait.status == "expired" and by_wait[wait.id]:
            found.broken.append(f"{wait.id} expired, and {by_wait[wait.id]} was accepted")
    return found


def nothing_ends_early(evidence: Evidence) -> Finding:
    """A clock that runs ahead would expire interrupts and leases early."""
    expired = [wait for wait in evidence.database.interrupts if wait.status == "expired"]
    found = Finding(n=len(expired))
    found.broken += [f"{wait.id} expired before its deadline" for wait in expired if _is_early(wait)]
    for call in evidence.of("begin", "suspend"):
        if call.outcome == REFUSED and call.code == "lease_lost" and call.ended and "until" in call.about:
            found.n += 1
            if call.ended < call.about["until"] - CLOCK and not _let_go(evidence, call):
                found.broken.append(f"{call.client} lost its lease of {call.about['run']} before its end")
    return found


def _is_early(wait: Interrupt) -> bool:
    return wait.closed_at is not None and wait.closed_at < wait.deadline


def _let_go(evidence: Evidence, refused: Call) -> bool:
    """Tell whether the lease ended in another way: the run was suspended, ended or stopped."""
    run, began = refused.about["run"], refused.began
    return any(
        call.about.get("run") == run and call.began < (refused.ended or began)
        for call in evidence.of("suspend", "complete", "fail", "cancel", "pause")
        if call is not refused
    )


# --- leases -----------------------------------------------------------------------------------------------------------


def no_stale_lease_writes(evidence: Evidence) -> Finding:
    by_run: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for point in evidence.database.checkpoints:
        by_run[point.run].append((point.number, point.fence))
    found = Finding(n=len(evidence.database.checkpoints))
    for run, points in by_run.items():
        fences = [fence for _, fence in sorted(points)]
        if fences != sorted(fences):
            found.broken.append(f"the checkpoints of {run} were written under the fences {fences}")
    learnt: dict[str, list[tuple[float, int]]] = defaultdict(list)
    for call in evidence.of("claim"):
        for claimed in call.told.get("claimed", ()):
            learnt[claimed["run"]].append((call.ended or call.began, claimed["fence"]))
    for call in evidence.of("suspend", "begin"):
        newer = [fence for at, fence in learnt[call.about["run"]] if at < call.began and fence > call.about["fence"]]
        if call.status == 201 and newer:
            written = f"{call.client} wrote to {call.about['run']} under fence {call.about['fence']}"
            found.broken.append(f"{written} after another had claimed it under {max(newer)}")
    return found


# --- the rest ---------------------------------------------------------------------------------------------------------


def no_client_gets_a_server_error(evidence: Evidence) -> Finding:
    answered = [call for call in evidence.calls if call.status]
    bad = [call for call in answered if call.status >= 500 and call.status != 503]
    return Finding(n=len(answered), broken=[f"{it.client} met {it.status} {it.code} at {it.verb}" for it in bad])


def every_delivered_message_arrived(evidence: Evidence) -> Finding:
    messages = {message.id: message for message in evidence.database.messages}
    found = Finding(n=len(messages))
    for message in messages.values():
        if message.status == "delivered" and not evidence.truth.messages.get(message.id):
            found.broken.append(f"{message.id} is reported as delivered, but never arrived")
        elif message.status == "due":
            found.unknown.append(f"{message.id} is still on its way")
    found.broken += [f"{it} arrived, but was not sent" for it in evidence.truth.messages if it not in messages]
    return found


def no_half_states(evidence: Evidence) -> Finding:
    return Finding(n=len(evidence.database.runs), broken=list(evidence.database.breaches))
