"""Planted requests: reviewers cannot recognise one before they decide it, nothing follows from it, and it is on record."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.db import IntegrityError, transaction

from ledger import clock
from ledger.errors import NotFound, PayloadInvalid, Refusal
from reviewqueue import permissions, reviewer_actions
from reviewqueue.models import Delivery, Notification
from reviewqueue.notifications import derivation
from reviewqueue.operations import rule_sweep
from reviewqueue.operations.doctor.row_consistency import inconsistent_runs
from reviewqueue.permissions import VisibleScope
from reviewqueue.queries import audit_log
from reviewqueue.queries.evidence_export import evidence_of_decision, evidence_of_run
from reviewqueue.queries.inbox_filters import InboxFilters, apply_filters, named_keys
from reviewqueue.queries.insights import read_insights
from reviewqueue.queries.insights.decisions import count_refused
from reviewqueue.queries.insights.scope import insights_scope
from reviewqueue.queries.insights.stored_cells import read_cells
from reviewqueue.review_quality import planted_requests
from reviewqueue.webhooks import outbox
from runs import timeline
from runs.errors import NotPermitted, RecordChanged, UndoTooLate
from runs.models import (
    Assignee,
    Checkpoint,
    ConfigurationRecord,
    Continuation,
    Decision,
    Event,
    Feed,
    Interrupt,
    Permit,
    PlantedRequest,
    Run,
)
from runs.use_cases.control_run import restart_run
from runs.use_cases.expire import expire_due_interrupts
from tests import builders
from tests.api.calls import a_reviewer_client, a_worker
from tests.pages import desk
from tests.planted_builders import FAULT, FAULTY, a_planted_request, an_example, written
from tests.standing_rule_builders import a_decided_refund, a_lead, a_refund, a_standing_rule
from tests.unguarded import without_triggers

pytestmark = pytest.mark.django_db

#: What differs between two requests of the agent, too.
_OWN = {
    "interrupt": {"id", "public_id", "run_id", "checkpoint_id", "request_digest", "content_digest", "call_digest"}
    | {"proposal", "created_at", "deadline", "remind_at"},
    "run": {"id", "public_id", "key", "body_digest", "created_at", "timeline_head", "planted", "expires_at"},
}


def _columns(row, kind):
    return {field.attname for field in row._meta.concrete_fields} - _OWN[kind]


def test_a_copy_has_the_rows_of_a_request_of_the_agent():
    example = an_example()
    planted = a_planted_request(copy_of=example).interrupt
    planted = Interrupt.objects.select_related("run").get(pk=planted.pk)
    example.refresh_from_db()
    for name in _columns(planted, "interrupt"):
        assert getattr(planted, name) == getattr(example, name), name
    for name in _columns(planted.run, "run"):
        assert getattr(planted.run, name) == getattr(example.run, name), name
    events, like = (list(run.events.order_by("seq")) for run in (planted.run, example.run))
    assert [(event.type, event.actor, sorted(event.refs)) for event in events] == [
        (event.type, event.actor, sorted(event.refs)) for event in like
    ]
    assert planted.deadline - planted.created_at == timedelta(hours=4) or planted.policy.deadline_default
    assert planted.proposal == example.proposal | {"arguments": FAULTY}


def test_the_audit_log_has_only_a_digest_until_the_request_is_closed():
    row = a_planted_request()
    [record] = ConfigurationRecord.objects.filter(kind="planted_request")
    assert record.content == {"commitment": row.commitment}
    text = str([record.covered(), record.name])
    assert row.interrupt.public_id not in text
    assert FAULT not in text


@pytest.mark.parametrize(("verdict", "outcome"), [("approve", "missed"), ("reject", "caught"), ("respond", "caught")])
def test_a_decision_discloses_it_and_nothing_follows(verdict, outcome):
    row = a_planted_request()
    builders.an_agent()
    receipt = builders.decide(row.interrupt, builders.a_reviewer(), verdict, door="page", message="Why?")
    row.refresh_from_db()
    run = Run.objects.get(pk=row.interrupt.run_id)
    assert (row.outcome, row.decision) == (outcome, receipt.decision)
    assert (receipt.permit, receipt.continuation) == (None, None)
    assert not Permit.objects.exists()
    assert not Continuation.objects.filter(run=run).exists()
    assert (run.status, run.open_waits) == ("cancelled", 0)
    assert timeline.find_broken_event(run) == ""
    disclosed = run.events.get(type="interrupt.planted")
    assert disclosed.refs["commitment"] == row.commitment
    assert FAULT not in str(disclosed.refs)
    assert disclosed.actor == "person:lea@example.org"
    last = ConfigurationRecord.objects.filter(kind="planted_request").order_by("-seq").first()
    assert last.content["interrupt"] == row.interrupt.public_id
    assert "outcome" not in last.content


def test_no_agent_gets_it():
    row = a_planted_request()
    agent = row.interrupt.agent
    builders.decide(row.interrupt, builders.a_reviewer(), "approve", door="page")
    assert builders.claim(agent) == []
    outbox.publish_events(seconds=5)
    assert not Event.objects.filter(run=row.interrupt.run_id).exclude(announced_seq=None).exists()
    numbers = Event.objects.filter(agent=agent).values_list("announced_seq", flat=True)
    assert sorted(numbers) == list(range(1, Feed.objects.get().last_seq + 1))
    assert not Delivery.objects.exists()


def test_its_decision_cannot_be_undone_and_its_run_cannot_be_restarted():
    row = a_planted_request()
    ana = builders.a_reviewer()
    receipt = builders.decide(row.interrupt, ana, "approve", door="page")
    receipt.decision.interrupt = Interrupt.objects.get(pk=row.interrupt_id)
    assert reviewer_actions.get_undo_deadline(receipt.decision) is None
    with pytest.raises(UndoTooLate):
        reviewer_actions.undo_decision(responder=ana, interrupt_id=row.interrupt.public_id)
    with pytest.raises(Exception, match="planted"):
        restart_run(run_id=row.interrupt.run.public_id, person=ana, reason="again", check=lambda _: None)


def test_one_vote_decides_it_also_with_a_quorum():
    builders.a_policy(quorum=2)
    builders.a_reviewer("bea@example.org")
    row = a_planted_request()
    receipt = builders.decide(row.interrupt, builders.a_reviewer(), "approve")
    assert receipt.decision.status == "accepted"
    row.refresh_from_db()
    assert row.outcome == "missed"


def test_its_lead_cannot_decide_it_and_another_lead_does_not_see_it_in_the_list():
    lead, other = a_lead(), a_lead("leo@example.org")
    row = a_planted_request(lead)
    with pytest.raises(NotPermitted):
        builders.decide(row.interrupt, lead, "reject", message="I know.")
    assert [it.pk for it in planted_requests.visible_planted(lead)] == [row.pk]
    assert not planted_requests.visible_planted(other).exists()
    with pytest.raises(NotFound):
        planted_requests.withdraw(other, row.public_id)
    assert permissions.why_not_decide(other, Interrupt.objects.get(pk=row.interrupt_id)) is None


def test_it_is_withdrawn_by_its_lead_and_at_its_deadline():
    lead = a_lead()
    first, second = a_planted_request(lead), a_planted_request(lead)
    assert planted_requests.withdraw(lead, first.public_id).outcome == "withdrawn"
    builders.move_deadline(second.interrupt, clock.now() - timedelta(seconds=1))
    assert expire_due_interrupts(limit=10) == 1
    second.refresh_from_db()
    assert second.outcome == "expired"
    closed = Interrupt.objects.filter(run__planted=True).values_list("status", "run__status")
    assert set(closed) == {("withdrawn", "cancelled")}
    assert not Decision.objects.exists()
    assert not Continuation.objects.exists()
    assert not Event.objects.filter(type__in=["interrupt.escalated", "interrupt.expired"]).exists()


def test_a_standing_rule_that_covers_it_withdraws_it_and_never_decides_it():
    lead = a_lead()
    builders.a_reviewer()
    builders.a_policy(standing_rules="medium")
    example = a_refund("900")
    row = a_planted_request(lead, copy_of=example, arguments={"amount": "12.50", "currency": "EUR"})
    rule = a_standing_rule(lead)
    assert rule_sweep.apply_rules(limit=10) == 0
    with pytest.raises(PayloadInvalid, match="standing rule"):
        a_planted_request(lead, copy_of=example, arguments={"amount": "13.50", "currency": "EUR"})
    assert rule.made_by == lead
    row.refresh_from_db()
    assert row.outcome == "withdrawn"
    assert not Decision.objects.filter(interrupt=row.interrupt_id).exists()


@pytest.mark.parametrize(
    ("change", "member"),
    [
        ({"arguments": builders.CALL["arguments"]}, "/arguments"),
        ({"fault": " "}, "/fault"),
        ({"expected": []}, "/expected"),
        ({"expected": ["approve"]}, "/expected"),
        ({"queue": "finance"}, "/queue"),
    ],
)
def test_what_a_lead_writes_is_checked(change, member):
    with pytest.raises(PayloadInvalid) as refused:
        a_planted_request(**change)
    assert [it.pointer for it in refused.value.errors] == [member]


def test_a_copy_that_reviewers_would_recognise_is_refused():
    builders.a_reviewer()
    started = builders.a_running_run()
    builders.a_rule()
    builders.commit(started)
    example = builders.a_waiting_interrupt(started=started, after=1)
    with pytest.raises(PayloadInvalid, match="recognise"):
        a_planted_request(copy_of=example)


def test_a_lead_writes_one_without_an_example():
    an_example()
    row = planted_requests.plant(a_lead(), **written())
    assert row.interrupt.proposal == {"name": "issue_purchase_order", "arguments": FAULTY}
    with pytest.raises(NotFound):
        planted_requests.plant(builders.a_reviewer(), **written())


def test_a_mark_that_was_changed_in_the_database_stops_the_decision():
    row = a_planted_request()
    with without_triggers():
        PlantedRequest.objects.filter(pk=row.pk).update(fault="Nothing is wrong.")
    with pytest.raises(RecordChanged):
        builders.decide(row.interrupt, builders.a_reviewer(), "approve")


def test_the_database_refuses_a_permit_and_a_continuation_of_it():
    row = a_planted_request()
    interrupt = Interrupt.objects.select_related("run", "checkpoint").get(pk=row.interrupt_id)
    builders.decide(interrupt, builders.a_reviewer(), "approve", door="page")
    run, now = interrupt.run, clock.now()
    continuation = Continuation(
        public_id="cnt_1", run=run, agent=run.agent, checkpoint=interrupt.checkpoint, status="ready", not_before=now
    )
    permit = Permit(
        public_id="prm_1", run=run, decision=Decision.objects.get(), call={}, digest="rq1:", valid_until=now
    )
    for refused in (continuation, permit):
        with pytest.raises(IntegrityError, match="planted"), transaction.atomic():
            refused.save(force_insert=True)


def test_a_failed_batch_of_planted_requests_stops_no_other_notifications(settings, monkeypatch):
    settings.EMAIL_HOST = "localhost"
    example = an_example()
    outbox.publish_events(seconds=5)

    def fail():
        raise ValueError

    monkeypatch.setattr(derivation, "derive_planted_batch", fail)
    derivation.derive_notifications(seconds=5)
    assert Notification.objects.filter(interrupt=example).exists()


def test_a_planted_request_that_is_assigned_to_its_lead_has_people_who_can_decide_it():
    lead, other = a_lead(), a_lead("lia@example.org")
    row = a_planted_request(lead)
    Assignee.objects.create(interrupt=row.interrupt, person=lead)
    interrupt = Interrupt.objects.get(pk=row.interrupt_id)
    assert permissions.why_not_decide(other, interrupt) is None
    assert "lia@example.org" in permissions.who_can_decide(interrupt)


def test_a_copy_has_the_checkpoint_the_deadline_and_the_expiry_of_its_model():
    builders.a_reviewer()
    example = builders.a_waiting_interrupt()
    with without_triggers():
        Interrupt.objects.filter(pk=example.pk).update(deadline=example.created_at + timedelta(hours=3))
        Checkpoint.objects.filter(pk=example.checkpoint_id).update(format="json", replay_from="plan")
    planted = a_planted_request(copy_of=example).interrupt
    planted = Interrupt.objects.select_related("checkpoint").get(pk=planted.pk)
    assert planted.deadline - planted.created_at == timedelta(hours=3)
    assert planted.checkpoint.replay_from == "plan"
    assert bool(planted.checkpoint.request_digest) == bool(planted.checkpoint.number)


def test_models_that_no_copy_can_imitate_are_refused():
    example = an_example()
    assigned = Assignee.objects.create(interrupt=example, person=builders.a_reviewer())
    with pytest.raises(PayloadInvalid, match="assigned"):
        a_planted_request(copy_of=example)
    with without_triggers():
        assigned.delete()
    Run.objects.filter(pk=example.run_id).update(created_at=example.created_at - timedelta(minutes=1))
    with pytest.raises(PayloadInvalid, match="within 5 seconds"):
        a_planted_request(copy_of=example)


def test_the_key_that_is_shown_finds_it():
    row = a_planted_request()
    key = row.run_key
    assert key
    asked = InboxFilters(text=key)
    found = apply_filters(Interrupt.objects.all(), asked, order=("id",))
    assert row.interrupt_id in found.values_list("pk", flat=True)
    assert row.interrupt_id in named_keys([key]).values_list("pk", flat=True)


def test_the_audit_log_shows_it_to_others_when_it_is_closed():
    lead, operator = a_lead(), builders.a_person("ops@example.org", "operators")
    row = a_planted_request(lead)
    kind = {"kind": "planted_request"}
    assert not audit_log.visible_records(operator).filter(**kind).exists()
    planted_requests.withdraw(lead, row.public_id)
    assert audit_log.visible_records(operator).filter(**kind).count() == 2


# --- figures, and who reads them ---------------------------------------------------------------------------------------


def _figures(person):
    scope = insights_scope(visible=permissions.read_scope(person), days=7, now=clock.now())
    return [(row.address, row.planted, row.caught) for row in read_insights(scope).judgement or []]


def _decided_by_two():
    lead, ana, bea = a_lead(), builders.a_reviewer(), builders.a_reviewer("bea@example.org")
    builders.decide(a_planted_request(lead).interrupt, ana, "approve", door="page")
    builders.decide(a_planted_request(lead).interrupt, bea, "reject", door="page", message="No.")
    return lead, ana, bea


def test_only_the_reviewer_and_the_leads_of_the_queue_read_the_figures():
    lead, ana, bea = _decided_by_two()
    of_ana, of_bea = ("ana@example.org", 1, 0), ("bea@example.org", 1, 1)
    assert _figures(lead) == [of_ana, of_bea]
    assert _figures(ana) == [of_ana]
    assert _figures(bea) == [of_bea]
    for address, *groups in (
        ("ops@example.org", "operators"),
        ("own@example.org", "agent-owners", "engineering-owners"),
        ("aud@example.org", "engineering-auditors"),
        ("leo@example.org", "finance-leads"),
    ):
        assert _figures(builders.a_person(address, *groups)) == []


def test_people_see_refused_decisions_on_it_and_agents_do_not():
    lead, ana = a_lead(), builders.a_reviewer()
    row = a_planted_request(lead)
    with pytest.raises(Refusal):
        builders.decide(row.interrupt, ana, "approve", version=7, door="page")
    assert Decision.objects.get().status == "stale"
    agent = VisibleScope(agents=frozenset([row.interrupt.agent_id]))
    for visible, number in ((permissions.read_scope(ana), 1), (agent, 0)):
        scope = insights_scope(visible=visible, days=7, now=clock.now())
        assert count_refused(scope, read_cells(scope)).total == number


def test_page_api_and_csv_have_the_figures_of_their_reader_only(client):
    lead, ana, _ = _decided_by_two()
    operator = builders.a_person("ops@example.org", "operators")
    for person, seen in ((lead, {"ana@example.org", "bea@example.org"}), (ana, {"ana@example.org"}), (operator, set())):
        client.force_login(person)
        page = client.get("/insights").content.decode().partition('id="judgement"')[2]
        csv = [line for line in client.get("/insights.csv").content.decode().splitlines() if line.startswith("judg")]
        rows = a_reviewer_client(person).get("insights")["judgement"]
        assert {row["person"] for row in rows} == seen
        assert {line.split(",")[1].split()[0] for line in csv} == seen
        assert {address for address in ("ana@example.org", "bea@example.org") if address in page} == seen
    assert a_worker().get("insights")["judgement"] is None


def test_an_agent_finds_no_trace_of_it_by_api():
    worker = a_worker()
    row = a_planted_request()
    seen = [row.interrupt.public_id, row.interrupt.run.public_id, row.public_id]
    before = worker.get("insights")
    assert (before["waiting"]["number"], before["ended"]["closed"]) == (1, 0)
    for _ in range(2):
        assert worker.get(f"interrupts/{seen[0]}").status == 404
        assert worker.get(f"runs/{seen[1]}").status == 404
        lists = str([worker.get(path).body for path in ("interrupts", "runs", "runs?status=waiting")])
        assert not any(name in lists for name in seen)
        if row.interrupt.status == "waiting":
            builders.decide(row.interrupt, builders.a_reviewer(), "approve", door="page")
            outbox.publish_events(seconds=5)
    after = worker.get("insights")
    assert (after["ended"], after["deciding"], after["refused"]) == (
        before["ended"],
        before["deciding"],
        before["refused"],
    )


def test_reviewers_get_the_same_members_and_counts_as_for_a_request_of_the_agent(client):
    example = an_example()
    row = a_planted_request(copy_of=example)
    ana = builders.a_reviewer()
    caller = a_reviewer_client(ana)
    planted, like = (caller.get(f"interrupts/{it.public_id}") for it in (row.interrupt, example))
    assert planted.body.keys() == like.body.keys()
    for name in ("status", "kind", "risk", "title", "policy", "queue", "verdicts", "quorum", "may_decide", "agent"):
        assert planted.body.get(name) == like.body.get(name), name
    run, like_run = (caller.get(f"runs/{it.run.public_id}") for it in (row.interrupt, example))
    assert run.body.keys() == like_run.body.keys()
    assert bool(run["key"]) == bool(like_run["key"])
    assert caller.get("insights")["waiting"]["number"] == len(caller.get("interrupts")["interrupts"]) == 2
    client.force_login(ana)
    pages = [client.get(f"/interrupts/{it.public_id}").content.decode() for it in (row.interrupt, example)]
    assert all("planted" not in page.lower() for page in pages)


def test_the_reviewer_sees_at_once_what_it_was_and_others_only_the_mark(client):
    row = a_planted_request()
    ana, bea = builders.a_reviewer(), builders.a_reviewer("bea@example.org")
    client.force_login(ana)
    form = desk.form_of(client, row.interrupt) | {"verdict": "approve", "act": "approve"}
    answer = client.post(f"/interrupts/{row.interrupt.public_id}", form)
    row.refresh_from_db()
    assert answer.status_code == 302
    assert answer.headers["Location"].startswith(f"/decisions/{row.decision.public_id}")
    page = client.get(answer.headers["Location"]).content.decode()
    assert FAULT in page
    assert "You did not catch it." in page
    assert "undo" not in page.partition('id="so-far"')[2].partition("<section")[0].lower()
    client.force_login(bea)
    page = client.get(f"/decisions/{row.decision.public_id}").content.decode()
    assert "This was a planted request" in page
    assert FAULT not in page
    assert "catch it." not in page


def test_an_evidence_file_has_the_mark_and_is_verified(tmp_path):
    row = a_planted_request()
    receipt = builders.decide(row.interrupt, builders.a_reviewer(), "approve", door="page")
    for number, file in enumerate(
        (evidence_of_run(None, row.interrupt.run.public_id), evidence_of_decision(None, receipt.decision))
    ):
        path = tmp_path / f"{number}.jsonl"
        path.write_bytes(b"".join(file.pieces()))
        assert f'"planted_request:{row.public_id}"' in path.read_text()
        assert FAULT not in path.read_text()
        verified = subprocess.run(
            [sys.executable, "static/verify_evidence.py", str(path)], capture_output=True, text=True, check=False
        )
        assert verified.returncode == 0, verified.stdout + verified.stderr


def test_reviewers_are_notified_as_about_other_requests(settings):
    settings.EMAIL_HOST = "localhost"
    example = an_example()
    outbox.publish_events(seconds=5)
    derivation.derive_notifications(seconds=5)
    row = a_planted_request(copy_of=example)
    outbox.publish_events(seconds=5)
    derivation.derive_notifications(seconds=5)
    sent = Notification.objects.filter(interrupt=row.interrupt).values_list("person__username", "kind")
    like = Notification.objects.filter(interrupt=example).values_list("person__username", "kind")
    assert set(like) <= set(sent)
    assert not derivation.any_event_to_read()
    derivation.derive_notifications(seconds=5)
    assert Notification.objects.filter(interrupt=row.interrupt).count() == len(sent)


def test_a_lead_plants_and_withdraws_one_by_command():
    lead, example, out = a_lead(), an_example(), io.StringIO()
    options = {"copy_of": example.public_id, "arguments": json.dumps(FAULTY), "fault": FAULT, "queue": "engineering"}
    call_command("plant_request", lead=lead.username, stdout=out, **options)
    row = PlantedRequest.objects.get()
    assert row.public_id in out.getvalue()
    call_command("plant_request", lead=lead.username, withdraw=row.public_id, stdout=out)
    row.refresh_from_db()
    assert row.outcome == "withdrawn"
    with pytest.raises(CommandError, match="leads no such queue"):
        call_command("plant_request", lead=builders.a_reviewer().username, **options)


def test_the_page_plants_what_the_lead_writes_and_says_what_is_missing(client):
    lead, example = a_lead(), an_example()
    client.force_login(lead)
    page = client.get(f"/planted/new?copy_of={example.public_id}").content.decode()
    assert example.public_id in page
    stated = written(example.public_id)
    form = stated | {"arguments": json.dumps(FAULTY)}
    assert client.post("/planted/new", form | {"fault": ""}).status_code == 422
    assert "must be a JSON object" in client.post("/planted/new", form | {"arguments": "{"}).content.decode()
    assert client.post("/planted/new", form).status_code == 302
    row = PlantedRequest.objects.get()
    assert FAULT in client.get("/planted").content.decode()
    assert client.post(f"/planted/{row.public_id}/withdraw").status_code == 302
    row.refresh_from_db()
    assert row.outcome == "withdrawn"
    client.force_login(builders.a_reviewer())
    assert client.get("/planted").status_code == 404


def test_the_doctor_finds_nothing_wrong_with_one_and_finds_a_removed_mark():
    open_one, decided = a_planted_request(), a_planted_request()
    builders.decide(decided.interrupt, builders.a_reviewer(), "approve")
    assert [it.message for it in inconsistent_runs(newest=None)] == []
    Run.objects.filter(pk=open_one.interrupt.run_id).update(planted=None)
    assert "mark as planted was removed" in str([it.message for it in inconsistent_runs(newest=None)])


def test_the_doctor_finds_nothing_wrong_with_the_use_of_a_standing_rule():
    a_decided_refund()
    assert [it.message for it in inconsistent_runs(newest=None)] == []
