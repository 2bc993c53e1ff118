"""Scenes of runs: started, ended, paused, resumed, restarted, with parents, on hold after a restore, erased."""

from __future__ import annotations

import itertools
from datetime import timedelta

from ledger import clock
from reviewqueue import permissions
from runs import kill_switch
from runs.models import Run
from runs.use_cases import (
    complete_run,
    control_child_runs,
    control_run,
    erase_snapshots,
    hold_after_restore,
    release_lease,
    start_run,
)
from runs.use_cases.start_run import NewAsk, NewRun, StartedRun
from tests import builders
from tests.crashes.use_cases import Act, verb
from tests.runs.test_compensation import a_cancelled_run
from tests.runs.test_external_signals import an_event

_numbers = itertools.count(10_000)


def any_actor(run: Run) -> None:
    """Every actor has the permission."""


def ask_of(run: Run) -> dict[str, object]:
    return {"run_id": run.public_id, "actor": "person:olga@example.org", "reason": "why not", "check": any_actor}


def held_by(started: StartedRun) -> dict[str, object]:
    assert started.lease is not None
    return {"agent": started.run.agent, "run_id": started.run.public_id, "token": started.lease.token}


def cancelled(started: StartedRun) -> Run:
    return control_run.cancel_run(**ask_of(started.run))


# --- begun and ended --------------------------------------------------------------------------------------------------


@verb("runs.use_cases.start_run.start_run")
def a_run_is_started() -> Act:
    agent, key = builders.an_agent(), f"run-{next(_numbers)}"
    return lambda: builders.a_running_run(agent, key=key)


@verb("runs.use_cases.start_run.start_run")
def a_run_is_started_for_any_worker() -> Act:
    agent, key = builders.an_agent(), f"run-{next(_numbers)}"
    return lambda: builders.a_running_run(agent, key=key, lease_seconds=0)


@verb("runs.use_cases.start_run._ask")
def a_run_consists_of_one_interrupt() -> Act:
    agent, wait = builders.an_agent(), builders.a_wait()
    request = NewRun(key=f"run-{next(_numbers)}", body_digest="rq1:body", title="A purchase")
    ask = NewAsk(request=request, wait=wait, state={"offers": 2})
    return lambda: start_run.create_ask(agent=agent, ask=ask, check_assignees=permissions.check_assignees)


@verb("runs.use_cases.start_run.create_asks")
def several_runs_consist_of_one_interrupt_each() -> Act:
    agent, wait, checks = builders.an_agent(), builders.a_wait(), {"check_assignees": permissions.check_assignees}
    requests = [NewRun(key=f"run-{next(_numbers)}", body_digest="rq1:body", title="A purchase") for _ in range(2)]
    asks = [NewAsk(request=request, wait=wait, state={"offers": 2}) for request in requests]
    return lambda: start_run.create_asks(agent=agent, asks=asks, **checks, check_key=lambda: None)


@verb("runs.use_cases.complete_run._complete_run")
def a_run_completes() -> Act:
    started = builders.a_running_run()
    return lambda: complete_run.complete_run(**held_by(started), result={"ordered": True})


@verb("runs.use_cases.complete_run._complete_run")
def a_child_completes_and_wakes_its_parent() -> Act:
    parent = builders.a_running_run()
    child = builders.a_running_run(parent=parent.run.public_id)
    builders.suspend_run(parent, an_event("child", correlation=f"run:{child.run.public_id}"))
    return lambda: complete_run.complete_run(**held_by(child), result=None)


@verb("runs.use_cases.complete_run._fail_run")
def a_run_fails() -> Act:
    started = builders.a_running_run()
    return lambda: complete_run.fail_run(**held_by(started), error={"why": "it broke"})


# --- pause and resume -------------------------------------------------------------------------------------------------


@verb("runs.use_cases.control_run.pause_run")
def a_working_run_is_asked_to_pause() -> Act:
    run = builders.a_running_run().run
    return lambda: control_run.pause_run(**ask_of(run))


@verb("runs.use_cases.control_run.pause_run")
def a_waiting_run_is_paused() -> Act:
    run = builders.a_waiting_interrupt().run
    return lambda: control_run.pause_run(**ask_of(run))


@verb("runs.use_cases.control_run.resume_run")
def a_waiting_run_is_resumed_and_its_deadline_moves() -> Act:
    builders.a_policy(pause_stops_deadline=True)
    run = builders.a_waiting_interrupt().run
    control_run.pause_run(**ask_of(run))
    return lambda: control_run.resume_run(**ask_of(run))


@verb("runs.use_cases.control_run.resume_run")
def a_run_paused_at_a_checkpoint_without_interrupts_is_resumed() -> Act:
    started = builders.a_running_run()
    control_run.pause_run(**ask_of(started.run))
    builders.commit(started)
    return lambda: control_run.resume_run(**ask_of(started.run))


@verb("runs.use_cases.control_run.cancel_run")
def a_waiting_run_is_cancelled() -> Act:
    run = builders.a_waiting_interrupt().run
    return lambda: control_run.cancel_run(**ask_of(run))


@verb("runs.use_cases.control_run.cancel_run", another=True)  # each press while it is being ended is noted
def a_working_run_is_cancelled() -> Act:
    started = builders.a_running_run()
    return lambda: cancelled(started)


@verb("runs.use_cases.control_run.restart_run", then="run_active")
def a_cancelled_run_is_restarted() -> Act:
    run = builders.a_waiting_interrupt().run
    control_run.cancel_run(**ask_of(run))
    ana = builders.a_person()
    words = {"run_id": run.public_id, "person": ana, "reason": "it was a mistake", "check": any_actor}
    return lambda: control_run.restart_run(**words)


@verb("runs.use_cases.control_run.restart_run", then="run_active")
def a_compensated_run_is_restarted_and_repeats_its_effect() -> Act:
    run = compensated()
    ana = builders.a_person()
    words = {"run_id": run.public_id, "person": ana, "reason": "once more", "check": any_actor}
    return lambda: control_run.restart_run(**words, choices={"first": "redo"})


@verb("runs.use_cases.control_run.retag_run")
def a_run_is_retagged_for_another_version() -> Act:
    started = builders.a_running_run(code_version="1")
    release_lease.hand_back_run(**held_by(started), reason="incompatible", detail="it wants v2")
    return lambda: control_run.retag_run(**ask_of(started.run), code_version="2")


def compensated() -> Run:
    from tests.runs.test_compensation import claim, take_back

    run = a_cancelled_run("first")
    take_back(claim(run), "first")
    return Run.objects.get(pk=run.pk)


# --- child runs -------------------------------------------------------------------------------------------------------


@verb("runs.use_cases.control_child_runs._cancel_orphan")
def a_child_is_ended_with_its_parent() -> Act:
    parent = builders.a_running_run()
    child = builders.a_running_run(parent=parent.run.public_id)
    builders.suspend_run(child, builders.a_wait())
    cancelled(parent)
    return lambda: control_child_runs.cancel_orphaned_child_runs(limit=10)


@verb("runs.use_cases.control_child_runs._finish_parent")
def a_parent_ends_after_its_last_child() -> Act:
    parent = builders.a_running_run()
    child = builders.a_running_run(parent=parent.run.public_id)
    builders.suspend_run(child, builders.a_wait())
    builders.suspend_run(parent, builders.a_wait("other"))
    cancelled(parent)
    control_child_runs.cancel_orphaned_child_runs(limit=10)
    return lambda: control_child_runs.continue_parents(limit=10)


@verb("runs.use_cases.control_run.pause_run")
def a_child_is_paused_with_its_parent() -> Act:
    parent = builders.a_running_run()
    builders.a_running_run(parent=parent.run.public_id)
    control_run.pause_run(**ask_of(parent.run))
    return lambda: control_child_runs.propagate_pauses(limit=10)


# --- all of an agent, all of a database -------------------------------------------------------------------------------


@verb("runs.kill_switch._store_halts")
def an_agent_is_halted() -> Act:
    agent = builders.a_running_run().run.agent
    return lambda: kill_switch.halt_agents(slugs=[agent.slug], actor="person:olga@example.org", reason="stop it")


@verb("runs.kill_switch._pass_through")
def a_halt_locks_out_the_workers() -> Act:
    agent = builders.a_running_run().run.agent
    kill_switch.halt_agents(slugs=[agent.slug], actor="person:olga@example.org", reason="stop it")
    return lambda: kill_switch.halt_agents(slugs=[agent.slug], actor="person:olga@example.org", reason="stop it")


@verb("runs.kill_switch.lift_halts")
def a_halt_is_lifted() -> Act:
    agent = builders.an_agent()
    kill_switch.halt_agents(slugs=[agent.slug], actor="person:olga@example.org", reason="stop it")
    return lambda: kill_switch.lift_halts(slugs=[agent.slug], actor="person:olga@example.org", reason="mended")


@verb("runs.use_cases.hold_after_restore._hold_run", another=True)  # a second restoration is one
def every_open_run_is_held_after_a_restore() -> Act:
    builders.a_running_run()
    builders.a_waiting_interrupt()
    return hold_after_restore.hold_after_restore


@verb("runs.use_cases.hold_after_restore._increase_fences_and_feeds", another=True)
def the_fences_of_ended_runs_increase_after_a_restore() -> Act:
    started = builders.a_running_run()
    complete_run.complete_run(**held_by(started), result=None)
    return hold_after_restore.hold_after_restore


@verb("runs.use_cases.erase_snapshots._erase")
def the_states_of_an_old_run_are_erased() -> Act:
    started = builders.a_running_run()
    builders.commit(started)
    complete_run.complete_run(**held_by(started), result=None)
    after = clock.now() + timedelta(days=1)
    return lambda: erase_snapshots.erase_old_snapshots(ended_before=after, limit=10)
