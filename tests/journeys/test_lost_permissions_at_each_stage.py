"""Each way to lose the permission to decide, at each stage from the open page to a child run: docs/permissions.md.

A row is a permission that is lost, a column is when; a cell says what happens then. Every row is played and compared with
the page, so the page cannot go stale; where they differ, the failure shows the row as it should read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction

from ledger import clock
from ledger.errors import NotFound
from ledger.models import Effect
from reviewqueue import permissions, reviewer_actions
from runs.decisions import tally_votes
from runs.errors import AlreadyDecided, ApprovalLost, ApprovalRequired, NotPermitted, SelfReview
from runs.models import Continuation, Permit, Policy, Queue, Run
from runs.use_cases import control_run, expire
from runs.use_cases.start_run import StartedRun
from tests import builders
from tests.runs.leased_run_builders import a_rule, begin, report

pytestmark = [pytest.mark.django_db, pytest.mark.proves(13)]

PAGE = settings.ROOT / "docs" / "permissions.md"
CALL = builders.CALL
NEVER = "–"

VALID, RECORDED, REFUSED = "valid", "recorded", "refused"
REOPENED, ASKS_AGAIN, VOTE_LOST = "reopened", "asks again", "vote lost"


class CannotHappen(Exception):
    """At this stage the permission cannot be lost in this way."""


@dataclass
class Scene:
    """One request for the approval of one call, in a run of its own, and who may decide it."""

    quorum: int = 1
    initiated_by_ana: bool = False
    assigned_to_ana: bool = False
    by_default: bool = False
    ask_in: str = "engineering"
    row: str = ""
    parent: StartedRun | None = None
    facts: list[Any] = field(default_factory=list)

    def open(self) -> None:
        self.ana, self.ben, self.cem = [builders.a_reviewer(f"{name}@example.org") for name in ("ana", "ben", "cem")]
        self.lea = builders.a_person("lea@example.org", "engineering-leads")
        self.agent = builders.an_agent()
        a_rule(agent=self.agent)
        request: dict[str, Any] = {"initiator": self.ana} if self.initiated_by_ana else {}
        if self.parent is not None:
            request = {"parent": self.parent.run.public_id}
        wish: dict[str, Any] = {"quorum": self.quorum}
        if self.by_default:
            wish["on_expiry"] = {"do": "default", "verdict": "approve"}
        asked = builders.a_wait(
            wish=wish, facts=self.facts, assignees=["ana@example.org"] if self.assigned_to_ana else []
        )
        self.interrupt = builders.a_waiting_interrupt(asked, started=builders.a_running_run(self.agent, **request))

    @property
    def run(self) -> Run:
        return Run.objects.select_related("agent__owner").get(pk=self.interrupt.run_id)

    @property
    def permit(self) -> Permit:
        return Permit.objects.get(decision__interrupt=self.interrupt)

    def approve(self) -> None:
        if self.by_default:
            builders.move_deadline(self.interrupt, clock.now())
            assert expire.expire_due_interrupts(limit=9) == 1
            return
        for person in (self.ana, self.ben)[: self.quorum]:
            builders.decide(self.interrupt, person)

    def claim(self) -> str:
        for continuation in Continuation.objects.filter(run=self.run, status="checking"):
            builders.check(continuation.public_id, found=7)
        claimed = [taken for taken in builders.claim(self.agent) if taken.run.pk == self.interrupt.run_id]
        self.claimed = claimed[0] if claimed else None
        return self.claimed.lease.token if self.claimed else ""

    def suspend_again(self, token: str) -> None:
        [self.next] = builders.suspend_by(self.run, token, builders.an_input_wait()).interrupts

    def answer_the_next(self) -> None:
        builders.decide(self.next, self.cem, "answer", input={"certificate_no": "LT-1"})

    def act(self, token: str, **named: Any) -> str:
        """Begin the effect and say what came of it; a refusal must have left nothing that could begin it later."""
        named = named or {"permit": self.permit.public_id}
        before = self.permit.void_at
        try:
            begun = begin(self.run, token=token, name=CALL["name"], arguments=CALL["arguments"], **named)
        except ApprovalLost:
            self.is_reopened()
            assert self.run.lease_until is None
            return REOPENED
        except ApprovalRequired:
            self.permit.refresh_from_db()
            assert self.permit.void_at is not None
            assert self.run.status == "running"
            if before is None:
                asked = builders.a_wait(wish={"queue": self.ask_in})
                [again] = builders.suspend_by(self.run, token, asked).interrupts
                assert (again.key, again.round) == (self.interrupt.key, 2)
            return ASKS_AGAIN
        assert begun.perform
        return VALID

    def is_reopened(self) -> str:
        self.interrupt.refresh_from_db()
        assert (self.interrupt.status, self.interrupt.round) == ("waiting", 2)
        assert self.run.status == "waiting"
        assert all(permit.void_at for permit in Permit.objects.filter(decision__interrupt=self.interrupt))
        return REOPENED


# --- rows: what is lost -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Loss:
    """One way to lose a permission: how the scene is set, and how it is lost."""

    lose: Callable[[Scene], None]
    scene: dict[str, Any] = field(default_factory=dict)
    policy: dict[str, Any] = field(default_factory=dict)
    new_policy: dict[str, Any] = field(default_factory=dict)


def removed(scene: Scene) -> None:
    scene.ana.groups.clear()


def deactivated(scene: Scene) -> None:
    User.objects.filter(pk=scene.ana.pk).update(is_active=False)


def restored(scene: Scene) -> None:
    removed(scene)
    deactivated(scene)
    User.objects.filter(pk=scene.ana.pk).update(is_active=True)
    scene.ana.groups.add(builders.a_group("engineering-reviewers"))


def assigned_to_another(scene: Scene) -> None:
    try:
        others = [scene.ben, scene.cem][: scene.quorum]
        reviewer_actions.assign_request(responder=scene.lea, interrupt_id=scene.interrupt.public_id, people=others)
    except AlreadyDecided:
        raise CannotHappen from None


def reviewers_are_another_group(scene: Scene) -> None:
    """Ana is in the old group only; Ben and Cem are in the new one too."""
    for person in (scene.ben, scene.cem):
        person.groups.add(builders.a_group("second-line"))
    Queue.objects.filter(slug="engineering").update(reviewers=builders.a_group("second-line"))


def queue_is_closed(scene: Scene) -> None:
    Queue.objects.filter(slug="engineering").update(accepts_new=False)


def escalated(scene: Scene) -> None:
    scene.interrupt.refresh_from_db()
    if scene.interrupt.status != "waiting":
        raise CannotHappen
    builders.a_reviewer("ben@example.org", "directors")
    builders.move_deadline(scene.interrupt, clock.now())
    assert expire.expire_due_interrupts(limit=9) == 1


def queue_is_not_allowed_any_more(scene: Scene) -> None:
    """From now on only directors decide; the agent asks again there."""
    builders.a_reviewer("cem@example.org", "directors")
    builders.a_policy(queue=builders.a_queue("directors"))
    scene.ask_in = "directors"


def policy_is_changed(scene: Scene) -> None:
    """A child keeps to the policies of its parent's agent."""
    loss = ROWS[scene.row]
    of = {} if scene.parent is None else {"agent": scene.parent.run.agent}
    builders.a_policy(**of, **loss.new_policy)


ROWS: dict[str, Loss] = {
    "removed from the queue's group": Loss(lose=removed),
    "account deactivated": Loss(lose=deactivated),
    "assigned to another person": Loss(lose=assigned_to_another, scene={"assigned_to_ana": True}),
    "one of two voters removed": Loss(lose=removed, scene={"quorum": 2}),
    "the queue's reviewers are another group": Loss(lose=reviewers_are_another_group),
    "the queue takes nothing new": Loss(lose=queue_is_closed),
    "escalated to another queue": Loss(lose=escalated, policy={"on_expiry": "escalate"}),
    "policy: self-review forbidden": Loss(
        lose=policy_is_changed,
        scene={"initiated_by_ana": True},
        policy={"self_review": True},
        new_policy={"self_review": False},
    ),
    "policy: quorum raised": Loss(lose=policy_is_changed, new_policy={"quorum": 2}),
    "policy: second factor required": Loss(lose=policy_is_changed, new_policy={"second_factor": "always"}),
    "policy: queue not allowed any more": Loss(lose=queue_is_not_allowed_any_more, policy={"any_queue": True}),
    "policy: approval by default forbidden": Loss(
        lose=policy_is_changed,
        scene={"by_default": True},
        policy={"default_may_approve": True, "on_expiry_allowed": ["cancel", "default"]},
        new_policy={"default_may_approve": False},
    ),
    "lost, and restored before the next check": Loss(lose=restored),
}


# --- columns: when ----------------------------------------------------------------------------------------------------


def page_open(scene: Scene, lose: Callable[[Scene], None]) -> str:
    if scene.by_default:
        raise CannotHappen
    scene.open()
    lose(scene)
    return answered_by(scene, scene.ana)


def answered_by(scene: Scene, person: User) -> str:
    try:
        builders.decide(scene.interrupt, person)
    except (NotFound, NotPermitted, SelfReview):
        assert scene.run.status == "waiting"
        return REFUSED
    return VALID


def answer_submitted(scene: Scene, lose: Callable[[Scene], None]) -> str:
    """The answer waits for the check of a fact."""
    scene.facts = [builders.a_checked_fact()]
    scene.open()
    scene.approve()
    assert scene.run.status == "revalidating"
    lose(scene)
    return claimed_and_acted(scene)


def claimed_and_acted(scene: Scene) -> str:
    token = scene.claim()
    if not token:
        return scene.is_reopened()
    found = scene.act(token)
    assert (found == VALID) == bool(scene.claimed and scene.claimed.permits)
    return found


def quorum_half_complete(scene: Scene, lose: Callable[[Scene], None]) -> str:
    if scene.by_default:
        raise CannotHappen
    scene.quorum, scene.assigned_to_ana = 2, False
    scene.open()
    builders.decide(scene.interrupt, scene.ana)
    lose(scene)
    try:
        closing = builders.decide(scene.interrupt, scene.ben)
    except NotPermitted:
        assert scene.run.status == "waiting"
        return REFUSED
    if closing.decision.status == "counted":
        scene.interrupt.refresh_from_db()
        assert (tally_votes(scene.interrupt).counted, scene.run.status) == (1, "waiting")
        return VOTE_LOST
    return claimed_and_acted(scene)


def continuation_ready(scene: Scene, lose: Callable[[Scene], None]) -> str:
    scene.open()
    scene.approve()
    assert scene.run.status == "ready"
    lose(scene)
    return claimed_and_acted(scene)


def claimed(scene: Scene, lose: Callable[[Scene], None]) -> str:
    scene.open()
    scene.approve()
    token = scene.claim()
    lose(scene)
    return scene.act(token)


def suspended_again(scene: Scene, lose: Callable[[Scene], None]) -> str:
    scene.open()
    scene.approve()
    scene.suspend_again(scene.claim())
    lose(scene)
    scene.answer_the_next()
    return claimed_and_acted(scene)


def claimed_again(scene: Scene, lose: Callable[[Scene], None]) -> str:
    scene.open()
    scene.approve()
    scene.suspend_again(scene.claim())
    scene.answer_the_next()
    token = scene.claim()
    lose(scene)
    return scene.act(token)


def effect_begun(scene: Scene, lose: Callable[[Scene], None]) -> str:
    """The person who approved sees what happened."""
    scene.open()
    scene.approve()
    assert scene.act(scene.claim()) == VALID
    lose(scene)
    report(scene.run)
    assert Effect.objects.get().status == "applied"
    return RECORDED


def effect_tried_again(scene: Scene, lose: Callable[[Scene], None]) -> str:
    scene.open()
    scene.approve()
    token = scene.claim()
    assert scene.act(token) == VALID
    report(scene.run, "failed", error="busy", retryable=True)
    lose(scene)
    return scene.act(token, request_key="the second try")


def restarted(scene: Scene, lose: Callable[[Scene], None]) -> str:
    """A restart asks again, also if the permission was restored."""
    scene.open()
    scene.approve()
    scene.claim()
    operator = builders.a_person("olga@example.org", permissions.OPERATORS)
    by = {"run_id": scene.run.public_id, "reason": "again", "check": lambda run: None}
    control_run.cancel_run(actor="person:olga@example.org", **by)
    builders.end_lease_now(scene.run, clock.now())
    expire.release_lapsed_leases(limit=9)
    lose(scene)
    control_run.restart_run(person=operator, **by)
    return scene.act(scene.claim(), request_key="after the restart")


def in_a_child_run(scene: Scene, lose: Callable[[Scene], None]) -> str:
    initiator = builders.a_reviewer() if scene.initiated_by_ana else None
    scene.parent = builders.a_running_run(builders.an_agent("parents"), initiator=initiator)
    return claimed(scene, lose)


COLUMNS: dict[str, Callable[[Scene, Callable[[Scene], None]], str]] = {
    "page open": page_open,
    "answer submitted": answer_submitted,
    "quorum half complete": quorum_half_complete,
    "continuation ready": continuation_ready,
    "claimed": claimed,
    "suspended again": suspended_again,
    "claimed again": claimed_again,
    "effect begun": effect_begun,
    "effect tried again": effect_tried_again,
    "restarted": restarted,
    "in a child run": in_a_child_run,
}


# --- the table --------------------------------------------------------------------------------------------------------


@contextmanager
def taken_back() -> Iterator[None]:
    """Play one cell, and leave the database as it was."""
    apart = transaction.atomic()
    apart._from_testcase = True  # type: ignore[attr-defined]  # the use cases open their own transactions in it
    with apart:
        try:
            yield
        finally:
            transaction.set_rollback(True)


def play(row: str, column: str) -> str:
    loss = ROWS[row]
    with taken_back():
        if loss.policy.get("on_expiry") == "escalate":
            builders.a_policy(**loss.policy, escalate_to=builders.a_queue("directors"))
        else:
            builders.a_policy(**loss.policy)
        scene = Scene(**loss.scene, row=row)
        try:
            return COLUMNS[column](scene, loss.lose)
        except CannotHappen:
            return NEVER
    raise AssertionError


def line(name: str, cells: list[str]) -> str:
    return f"| {name} | {' | '.join(cells)} |"


@pytest.mark.parametrize("row", ROWS)
def test_the_page_says_what_happens_when_a_permission_is_lost(row: str):
    assert Policy.objects.exists()
    wanted = line(row, [play(row, column) for column in COLUMNS])
    assert wanted in PAGE.read_text(), f"the page should say:\n{wanted}"


def test_the_page_has_these_rows_and_columns_and_no_others():
    _, _, table = PAGE.read_text().partition("| permission lost |")
    head, _, *rows = table.partition("\n\n")[0].splitlines()
    assert [name.strip() for name in head.strip("| ").split("|")] == list(COLUMNS)
    assert [re.split(r"\s*\|\s*", row)[1] for row in rows] == list(ROWS)
