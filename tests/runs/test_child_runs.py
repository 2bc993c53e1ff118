"""Child runs: a parent waits for its child, a child inherits policy and initiator, a parent's end reaches its children."""

from __future__ import annotations

import pytest

from ledger.errors import PayloadInvalid
from reviewqueue import permissions, tasks
from runs import child_runs
from runs.errors import RunCancelled, RunFinished, SelfReview, TooDeep
from runs.models import Event, Interrupt, Run, Signal
from runs.use_cases import complete_run as complete_run_module
from runs.use_cases import control_child_runs, expire
from runs.use_cases.complete_run import complete_run, fail_run
from runs.use_cases.control_run import cancel_run, pause_run, resume_run
from tests import builders
from tests.runs.test_external_signals import an_event

pytestmark = pytest.mark.django_db


def no_checks(run):
    return None


def a_child(parent, agent=None, **request):
    return builders.a_running_run(agent, parent=parent.run.public_id, **request)


def complete(started, result=None):
    run = started.run
    complete_run(agent=run.agent, run_id=run.public_id, token=started.lease.token, result=result)


def cancel(started):
    cancel_run(run_id=started.run.public_id, actor="person:olga", reason="not needed", check=no_checks)


def status(started):
    return Run.objects.get(pk=started.run.pk).status


def wait_for(parent, child):
    return builders.suspend_run(parent, an_event("child", correlation=f"run:{child.run.public_id}")).interrupts[0]


def test_a_parent_waits_for_its_child_and_learns_how_it_ended():
    parent = builders.a_running_run()
    child = a_child(parent)
    wait_for(parent, child)
    complete(child)
    assert not expire.has_due_rows()
    [claimed] = builders.claim(parent.run.agent)
    [answer] = claimed.answers
    assert (claimed.run, answer.cause) == (parent.run, "signal")
    assert answer.input == {"run": child.run.public_id, "status": "completed", "epoch": 1}


def test_the_sweep_tells_a_parent_what_a_process_had_no_time_to_tell(monkeypatch):
    parent = builders.a_running_run()
    child = a_child(parent)
    wait_for(parent, child)
    monkeypatch.setattr(complete_run_module, "continue_parent", lambda run: False)
    complete(child)
    assert (status(parent), expire.has_due_rows()) == ("waiting", True)
    tasks.sweep()
    assert (status(parent), expire.has_due_rows()) == ("ready", False)


def test_a_child_that_ended_before_its_parent_waited_is_not_missed():
    parent = builders.a_running_run()
    child = a_child(parent)
    fail_run(agent=child.run.agent, run_id=child.run.public_id, token=child.lease.token, error="broke")
    wait = wait_for(parent, child)
    assert wait.status == "answered"
    assert wait.decisions.get().input["status"] == "failed"
    assert Signal.objects.get().keep_until is None


def test_the_answer_to_a_childs_question_resumes_the_child_alone():
    """CASES C193."""
    ana = builders.a_reviewer()
    parent = builders.a_running_run()
    child = a_child(parent)
    wait_for(parent, child)
    wait = builders.a_waiting_interrupt(started=child)
    builders.decide(wait, ana)
    assert (status(parent), status(child)) == ("waiting", "ready")


def test_the_ancestors_of_an_interrupts_run_are_listed_from_the_top_with_their_agents():
    """CASES C196."""
    top = builders.a_running_run(builders.an_agent("planner"))
    middle = a_child(top, builders.an_agent("buyer"))
    bottom = a_child(middle, builders.an_agent("searcher"))
    wait = builders.a_waiting_interrupt(started=bottom)
    above = child_runs.list_ancestors(wait.run)[::-1]
    assert ([run.agent.slug for run in above], wait.agent.slug) == (["planner", "buyer"], "searcher")
    assert (bottom.run.depth, bottom.run.root) == (3, top.run)


def test_a_child_inherits_the_policy_of_the_agent_above():
    """CASES C194."""
    builders.a_reviewer()
    builders.a_reviewer("ben@example.org")
    planner, buyer = builders.an_agent("planner"), builders.an_agent("buyer")
    strict = builders.a_policy("approval.action", agent=planner, quorum=2)
    parent = builders.a_running_run(planner)
    assert builders.a_waiting_interrupt(started=a_child(parent, buyer)).policy == strict
    assert builders.a_waiting_interrupt(started=builders.a_running_run(buyer)).quorum == 1
    own = builders.a_policy("approval.action", agent=buyer, version=9)
    assert builders.a_waiting_interrupt(started=a_child(parent, buyer)).policy == own


def test_a_child_inherits_the_initiator_so_that_no_person_reviews_their_own_run():
    ana = builders.a_reviewer()
    parent = builders.a_running_run(initiator=ana)
    child = a_child(parent)
    assert child.run.initiator == ana
    with pytest.raises(SelfReview):
        builders.decide(builders.a_waiting_interrupt(started=child), ana)
    with pytest.raises(PayloadInvalid):
        a_child(parent, initiator=builders.a_reviewer("ben@example.org"))


def test_cancelling_a_parent_cancels_its_children_and_waits_for_them():
    parent = builders.a_running_run(lease_seconds=0)
    child = a_child(parent, lease_seconds=0)
    grandchild = a_child(child)
    wait = builders.a_waiting_interrupt(started=grandchild)
    cancel(parent)
    assert status(parent) == "cancelling"
    for _ in range(3):
        tasks.sweep()
    assert [status(it) for it in (grandchild, child, parent)] == ["cancelled"] * 3
    wait.refresh_from_db()
    assert wait.status == "cancelled"
    assert "Its parent" in Event.objects.filter(type="run.ending", run=child.run).get().refs["reason"]
    assert not expire.has_due_rows()


def test_a_child_with_a_live_worker_is_asked_to_stop_and_its_parent_waits():
    parent = builders.a_running_run(lease_seconds=0)
    child = a_child(parent)
    cancel(parent)
    control_child_runs.cancel_orphaned_child_runs(limit=9)
    assert (status(child), status(parent)) == ("cancelling", "cancelling")
    assert Run.objects.get(pk=child.run.pk).stop_by is not None
    assert control_child_runs.cancel_orphaned_child_runs(limit=9) == 0
    builders.end_lease_now(child.run, Run.objects.get(pk=child.run.pk).created_at)
    tasks.sweep()
    tasks.sweep()
    assert (status(child), status(parent)) == ("cancelled", "cancelled")


def test_children_are_paused_and_resumed_with_their_parent():
    parent = builders.a_running_run(lease_seconds=0)
    child = a_child(parent, lease_seconds=0)
    grandchild = a_child(child, lease_seconds=0)
    own = a_child(parent, lease_seconds=0)
    pause_run(run_id=own.run.public_id, actor="person:olga", reason="", check=no_checks)
    pause_run(run_id=parent.run.public_id, actor="person:olga", reason="", check=no_checks)
    for _ in range(2):
        tasks.sweep()
    assert [status(it) for it in (parent, child, grandchild, own)] == ["paused"] * 4
    assert not expire.has_due_rows()
    resume_run(run_id=parent.run.public_id, actor="person:olga", reason="", check=no_checks)
    for _ in range(3):
        tasks.sweep()
    assert [status(it) for it in (parent, child, grandchild, own)] == ["ready"] * 3 + ["paused"]
    assert not expire.has_due_rows()


def test_a_child_that_cannot_be_ended_stops_no_other(monkeypatch):
    """PROMISES 20."""
    parent = builders.a_running_run(lease_seconds=0)
    children = [a_child(parent, lease_seconds=0) for _ in range(2)]
    cancel(parent)
    end, broken = control_child_runs.end_run, children[0].run.pk

    def breaks_for_one(run, *words, **more):
        if run.pk == broken:
            raise RuntimeError
        end(run, *words, **more)

    monkeypatch.setattr(control_child_runs, "end_run", breaks_for_one)
    assert (
        control_child_runs.cancel_orphaned_child_runs(limit=9),
        control_child_runs.cancel_orphaned_child_runs(limit=9),
    ) == (1, 0)
    assert [status(it) for it in children] == ["ready", "cancelled"]


def test_a_childs_own_cancel_never_touches_its_parent():
    parent = builders.a_running_run()
    child = a_child(parent, lease_seconds=0)
    cancel(child)
    tasks.sweep()
    assert (status(child), status(parent)) == ("cancelled", "running")


def test_nothing_is_started_under_a_run_that_ends_or_has_ended():
    parent = builders.a_running_run()
    a_child(parent)
    cancel(parent)
    with pytest.raises(RunCancelled):
        a_child(parent)
    done = builders.a_running_run()
    complete(done)
    with pytest.raises(RunFinished):
        a_child(done)


def test_runs_are_nested_eight_deep_at_the_most():
    run = builders.a_running_run()
    for _ in range(child_runs.MAX_DEPTH_OF_RUNS - 1):
        run = a_child(run)
    with pytest.raises(TooDeep):
        a_child(run)


def test_a_run_of_strangers_is_no_parent_and_looks_like_a_missing_one():
    foreign = builders.a_running_run(builders.an_agent("other", owner="others"))
    for run_id in (foreign.run.public_id, "run_0000"):
        with pytest.raises(PayloadInvalid) as refused:
            builders.a_running_run(parent=run_id)
        assert refused.value.errors[0].pointer == "/parent"


def test_the_same_call_in_parent_and_child_is_shown_on_both():
    builders.a_reviewer()
    parent = builders.a_running_run()
    child = a_child(parent)
    first = builders.a_waiting_interrupt(started=child)
    second = builders.suspend_run(parent, builders.a_wait("again", title="Order it, please")).interrupts[0]
    builders.a_waiting_interrupt()  # the same call in an unrelated run does not count
    assert list(child_runs.interrupts_with_same_call(first)) == [second]
    assert list(child_runs.interrupts_with_same_call(second)) == [first]
    builders.decide(second, permissions.deciders_of(first.queue)[0])
    assert list(child_runs.interrupts_with_same_call(first)) == []


def test_a_key_raised_again_after_its_decision_brings_the_decision_and_no_new_wait():
    """CASES C020."""
    ana = builders.a_reviewer()
    started = builders.a_running_run()
    wait = builders.suspend_run(started, builders.a_wait()).interrupts[0]
    builders.decide(wait, ana)
    [claimed] = builders.claim(started.run.agent)
    events = Event.objects.count()
    again = builders.suspend_by(claimed.run, claimed.lease.token, builders.a_wait())
    assert (again.created, [answer.by for answer in again.answers]) == (False, [ana])
    assert (Interrupt.objects.count(), Event.objects.count()) == (1, events)
    assert Run.objects.get().status == "running"
