"""What is done to one run, request, file or key changes no other one."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import transaction

from ledger import clock
from ledger.effects import EffectDeclaration
from ledger.errors import PayloadInvalid
from ledger.models import Effect
from reviewqueue import reviewer_actions
from reviewqueue.models import ApiKey
from reviewqueue.operations.api_keys import create_agent_key, verify_key
from runs import checkpoint_files, file_storage
from runs.child_runs import run_tree
from runs.external_signals import SignalRequest, receive_signal
from runs.models import CallLabel, Checkpoint, CheckpointFile, Decision, Hold, Interrupt, Outcome, Permit, Run, Signal
from runs.states import FileStatus
from runs.use_cases import expire, transfer_file
from runs.use_cases.complete_run import complete_run, fail_run
from runs.use_cases.control_run import cancel_run, pause_run, restart_run, resume_run
from tests import builders
from tests.runs import leased_run_builders
from tests.unguarded import without_triggers

pytestmark = pytest.mark.django_db

BY = {"actor": "person:olga@example.org", "reason": "look", "check": lambda run: None}


def offer(started, sent: bytes = b"graph", number: int = 1) -> CheckpointFile:
    spooled = file_storage.spool_upload(iter([sent]))
    of_run = {"agent": started.run.agent, "run_id": started.run.public_id, "token": started.lease.token}
    with spooled.file:
        return transfer_file.upload_file(**of_run, number=number, sent=spooled).file


# --- files ------------------------------------------------------------------------------------------------------------


def test_an_offered_file_takes_the_place_of_no_file_of_another_run():
    first, second = builders.a_running_run(), builders.a_running_run()
    of_first, replaced = offer(first, b"one"), offer(second, b"two")
    of_second = offer(second, b"three")
    statuses = dict(CheckpointFile.objects.values_list("pk", "status"))
    assert statuses == {
        of_first.pk: FileStatus.OFFERED,
        replaced.pk: FileStatus.UNWANTED,
        of_second.pk: FileStatus.OFFERED,
    }
    builders.commit(second)
    assert Checkpoint.objects.get(run=second.run, number=1).file == of_second
    assert CheckpointFile.objects.get(pk=of_first.pk).status == FileStatus.OFFERED


def test_bytes_that_still_arrive_or_are_offered_under_the_lease_are_not_deleted():
    started = builders.a_running_run()
    offered = offer(started)
    without_lease = builders.a_running_run(lease_seconds=0).run
    with transaction.atomic():
        arriving = checkpoint_files.create_file_row(
            without_lease, number=1, digest="sha256:aa", size=1, now=clock.now()
        )
    assert checkpoint_files.delete_unwanted_files(limit=9) == 0
    checkpoint_files._forget_bytes(arriving.pk)
    assert set(CheckpointFile.objects.values_list("pk", flat=True)) == {offered.pk, arriving.pk}
    CheckpointFile.objects.filter(pk=arriving.pk).update(
        created_at=clock.now() - checkpoint_files.BYTES_ARRIVE_WITHIN - timedelta(seconds=1)
    )
    assert checkpoint_files.delete_unwanted_files(limit=9) == 1
    assert set(CheckpointFile.objects.values_list("pk", flat=True)) == {offered.pk}


@pytest.mark.parametrize("last", [True, False])
def test_a_spoilt_file_holds_the_run_only_if_it_would_continue_from_it(last):
    started = builders.a_running_run()
    offer(started)
    builders.commit(started)
    if not last:
        builders.commit(started, after=1)
    file = CheckpointFile.objects.get()
    file_storage.delete_stored_file(file.name)
    with pytest.raises(transfer_file.FileDamaged):
        transfer_file.download_file(agent=started.run.agent, run_id=started.run.public_id, number=1)
    assert [hold.kind for hold in Hold.objects.all()] == (["checkpoint_spoilt"] if last else [])


def test_a_spoilt_file_does_not_hold_a_run_that_has_ended():
    started = builders.a_running_run()
    offer(started)
    builders.commit(started)
    complete_run(agent=started.run.agent, run_id=started.run.public_id, token=started.lease.token, result=None)
    file_storage.delete_stored_file(CheckpointFile.objects.get().name)
    with pytest.raises(transfer_file.FileDamaged):
        transfer_file.download_file(agent=started.run.agent, run_id=started.run.public_id, number=1)
    assert not Hold.objects.exists()


# --- keys, parent and child runs ---------------------------------------------------------------------------------------


def test_the_use_of_one_key_is_recorded_on_that_key():
    used, unused = (create_agent_key(builders.an_agent()) for _ in range(2))
    assert verify_key(used.text) is not None
    assert ApiKey.objects.get(pk=used.key.pk).last_used_at is not None
    assert ApiKey.objects.get(pk=unused.key.pk).last_used_at is None


def test_runs_belong_together_below_one_parent_only():
    top, other = builders.a_running_run(), builders.a_running_run()
    child = builders.a_running_run(parent=top.run.public_id)
    grandchild = builders.a_running_run(parent=child.run.public_id)
    builders.a_running_run(parent=other.run.public_id)
    together = {top.run.pk, child.run.pk, grandchild.run.pk}
    for started in (top, child, grandchild):
        run = Run.objects.get(pk=started.run.pk)
        assert set(run_tree(run).values_list("pk", flat=True)) == together


# --- answers and permits ----------------------------------------------------------------------------------------------


def test_a_claim_is_given_the_answers_of_its_own_run_and_records_their_delivery_only():
    ana = builders.a_reviewer()
    first, second = (builders.a_waiting_interrupt(builders.a_wait(key)) for key in ("first", "second"))
    for interrupt in (first, second):
        builders.decide(interrupt, ana)
    [claimed] = builders.claim(first.agent)
    assert [decision.interrupt.key for decision in claimed.answers] == ["first"]
    assert [permit.run for permit in claimed.permits] == [first.run]
    delivered = {it.interrupt.key: it.delivered_at is not None for it in Decision.objects.select_related("interrupt")}
    assert delivered == {"first": True, "second": False}


def test_an_undo_voids_the_permit_of_its_own_request_only():
    ana = builders.a_reviewer()
    waits = [builders.a_wait("first"), builders.a_wait("second")]
    first, second = builders.suspend_run(builders.a_running_run(), *waits).interrupts
    for interrupt in (first, second):
        builders.decide(interrupt, ana, door="page")
    reviewer_actions.undo_decision(responder=ana, interrupt_id=first.public_id)
    void = {it.decision.interrupt_id: it.void_at is not None for it in Permit.objects.select_related("decision")}
    assert void == {first.pk: True, second.pk: False}


def test_rules_and_labels_of_another_agent_guard_no_effect_of_this_one():
    other = builders.an_agent("invoices")
    builders.a_rule("issue_*", other)
    CallLabel.objects.create(agent=other, name="issue-purchase-order", sentence="Issue an order")
    run = leased_run_builders.a_leased_run(builders.an_agent())
    assert leased_run_builders.begin(run).perform
    assert Effect.objects.get().permit_ref is None


# --- signals ----------------------------------------------------------------------------------------------------------


def an_event(key: str, correlation: str, **asked):
    wanted = {"kind": "event", "reason": "event", "proposal": None, "correlation": correlation, **asked}
    return builders.a_wait(key, wish={"queue": None}, **wanted)


def test_a_signal_is_kept_again_only_for_the_answer_that_is_overtaken():
    agent = builders.an_agent()
    fact = builders.a_checked_fact(on_change="renew")
    relies = builders.a_waiting_interrupt(an_event("relies", "PO-1", facts=[fact]))
    builders.a_waiting_interrupt(an_event("other", "PO-2"))
    for number in (1, 2):
        told = SignalRequest(sender_id=f"evt-{number}", correlation=f"PO-{number}", type="delivered", body={})
        receive_signal(agent=agent, told=told)
    assert Signal.objects.filter(used_by=None).count() == 0
    [continuation_id] = expire.list_due_revalidations(limit=5)
    builders.check(continuation_id, found=8)
    relies.refresh_from_db()
    assert relies.round == 2
    assert list(Signal.objects.filter(used_by=None).values_list("sender_id", flat=True)) == ["evt-1"]


# --- ends -------------------------------------------------------------------------------------------------------------


def test_the_same_end_reported_again_is_that_of_the_present_epoch():
    olga = builders.a_person("olga@example.org", "agent-owners")
    started = builders.a_running_run()
    of_run = {"agent": started.run.agent, "run_id": started.run.public_id}
    fail_run(**of_run, token=started.lease.token, error="broke")
    restart_run(run_id=started.run.public_id, person=olga, reason="again", check=lambda run: None)
    [continuation_id] = expire.list_due_revalidations(limit=5)
    builders.check(continuation_id)
    [claimed] = builders.claim(started.run.agent)
    complete_run(**of_run, token=claimed.lease.token, result={"done": 1})
    assert complete_run(**of_run, token=claimed.lease.token, result={"done": 1}).status == "completed"
    assert list(Outcome.objects.order_by("epoch").values_list("epoch", "kind")) == [(1, "failed"), (2, "completed")]


# --- what is declared -------------------------------------------------------------------------------------------------


def test_a_probe_names_a_connection_of_its_own_agent():
    builders.a_connection("erp")
    builders.a_connection("bank", builders.an_agent("invoices"))
    run = leased_run_builders.a_leased_run(builders.an_agent())
    probe = {"path": "/orders", "pointer": "/state", "applied": ["sent"], "failed": [], "conclusive": True}
    for name in ("bank", "nowhere"):
        with pytest.raises(PayloadInvalid) as refused:
            leased_run_builders.begin(run, declared=EffectDeclaration(probe={"connection": name, **probe}))
        assert [problem.pointer for problem in refused.value.errors] == ["/probe/connection"]
    assert leased_run_builders.begin(run, declared=EffectDeclaration(probe={"connection": "erp", **probe})).perform


# --- what the sweep looks for -----------------------------------------------------------------------------------------


def test_each_kind_of_due_row_alone_is_due():
    ana = builders.a_reviewer()
    started = builders.a_running_run()
    assert not expire.has_due_rows()
    now = clock.now()

    Run.objects.update(stop_by=now)
    assert expire.has_due_rows()
    Run.objects.update(stop_by=None, lease_until=now)
    assert expire.has_due_rows()
    Run.objects.update(lease_until=now + timedelta(hours=1))
    assert not expire.has_due_rows()

    child = builders.a_running_run(parent=started.run.public_id)
    assert not expire.has_due_rows()
    pause_run(run_id=started.run.public_id, **BY)
    assert expire.has_due_rows()
    pause_run(run_id=child.run.public_id, **{**BY, "actor": f"parent:{started.run.public_id}"})
    assert not expire.has_due_rows()
    resume_run(run_id=started.run.public_id, **BY)
    assert expire.has_due_rows()
    resume_run(run_id=child.run.public_id, **BY)
    assert not expire.has_due_rows()

    interrupt = builders.a_waiting_interrupt(builders.a_wait(facts=[builders.a_checked_fact()]))
    assert not expire.has_due_rows()
    for changed, due in (({"deadline": now}, True), ({"deadline": now + timedelta(hours=1), "remind_at": now}, True)):
        Interrupt.objects.filter(pk=interrupt.pk).update(**changed)
        assert expire.has_due_rows() is due
    Interrupt.objects.filter(pk=interrupt.pk).update(remind_at=None)
    assert not expire.has_due_rows()
    Run.objects.filter(pk=interrupt.run_id).update(expires_at=now)
    assert expire.has_due_rows()
    Run.objects.filter(pk=interrupt.run_id).update(expires_at=now + timedelta(hours=1))
    builders.decide(interrupt, ana)
    assert expire.has_due_rows()
    for continuation_id in expire.list_due_revalidations(limit=5):
        builders.check(continuation_id, found=7)
    assert not expire.has_due_rows()

    with without_triggers():
        Run.objects.filter(pk=child.run.pk).update(tells_parent=True)
    assert expire.has_due_rows()
    Run.objects.filter(pk=child.run.pk).update(tells_parent=False)
    assert not expire.has_due_rows()
    cancel_run(run_id=started.run.public_id, **BY)
    assert expire.has_due_rows()
