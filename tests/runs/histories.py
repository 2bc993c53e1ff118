"""The history of one run as agents, reviewers, owners, sweeps and receivers produce it, one action at a time.

``RunHistory`` acts by the product's public functions and records what no row contains: which calls were made and
succeeded, which leases were granted, what reviewers saw when they approved. A refusal is a valid result; any other
exception is a fault. ``test_histories`` chooses the actions at random and checks the promises after each one.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from ledger import clock, compensation
from ledger.digests import digest
from ledger.effects import EffectDeclaration
from ledger.errors import Refusal
from ledger.models import Effect, Order
from ledger.states import CompensateOn
from reviewqueue import permissions, reviewer_actions
from runs import external_signals, kill_switch
from runs.checkpoints import Snapshot
from runs.continuations import find_open_continuation
from runs.facts import RequestedFact
from runs.interrupt_requests import RequestedInterrupt
from runs.models import Continuation, HandBack, Hold, Interrupt, Run
from runs.use_cases import (
    amend_interrupt,
    begin_effect,
    commit_checkpoint,
    complete_run,
    expire,
    extend_lease,
    reconcile_facts,
    reconcile_outcomes,
    release_lease,
    report_effect,
)
from runs.use_cases import control_run as control
from runs.use_cases.amend_interrupt import Amendment
from runs.use_cases.claim_continuation import ClaimedRun
from runs.use_cases.reconcile_facts import FetchedFact
from runs.use_cases.reconcile_outcomes import RETRIABLE_HOLDS
from tests import builders
from tests.runs.test_external_signals import a_signal, a_timer, an_event

#: What the agent does outside: under which name, and whether the receiver drops repeats. ``issue_*`` needs an approval.
CALLS = {"letter": ("send_letter", "never"), "order": (builders.CALL["name"], "never"), "note": ("take_note", "by_key")}
HANDS_BACK = ("retry", "incompatible", "unknown_checkpoint")
_numbers = itertools.count(1)


@dataclass(frozen=True, kw_only=True)
class Try:
    """One attempt that a worker must perform."""

    key: str
    attempt: int
    token: str


class Broken(AssertionError):
    """A violated promise that only the receivers can detect."""


class RunHistory:
    """One run with its agent, people and receivers, and what really happened."""

    def __init__(self) -> None:
        number = next(_numbers)
        self.agent = builders.an_agent(f"agent-{number}")
        builders.a_rule(agent=self.agent)
        builders.a_connection("erp", self.agent)
        self.people = [builders.a_reviewer("ana@example.org"), builders.a_reviewer("ben@example.org")]
        self.olga = builders.a_person("olga@example.org", "agent-owners")
        self.started = builders.a_running_run(self.agent, key=f"run-{number}")
        assert self.started.lease is not None
        self.leases = [self.started.lease.token]
        self.stock = 7
        self.asked, self.requests = 0, 0
        self.at_hand: list[Try] = []
        self.performed: dict[Try, bool] = {}
        self.landed: Counter[str] = Counter()
        self.approved: set[str] = set()
        self.delivered_by: dict[tuple[int, int], set[int]] = defaultdict(set)

    @property
    def run(self) -> Run:
        return Run.objects.select_related("agent").get(pk=self.started.run.pk)

    def _by(self, lease: int) -> dict[str, Any]:
        """The arguments of a worker with the newest lease, or with an earlier one."""
        token = self.leases[-1 - lease % len(self.leases)]
        return {"agent": self.agent, "run_id": self.started.run.public_id, "token": token}

    def interrupts(self, **lookups: Any) -> list[Interrupt]:
        return list(Interrupt.objects.filter(run=self.started.run, **lookups).order_by("id"))

    # --- workers

    def claim(self) -> None:
        """Claim by workers of the next version if this one handed the run back, also before a later checkpoint."""
        before = self.run
        version = HandBack.objects.filter(run=before).count()
        for claimed in builders.claim(self.agent, code_version=f"v{version}"):
            if before.pause_asked_at or before.ended_at or kill_switch.is_halted(self.agent.pk):
                raise Broken("claimed although the run must not continue")
            self.leases.append(claimed.lease.token)
            self._note_answers(claimed)

    def _note_answers(self, claimed: ClaimedRun) -> None:
        """Record that one continuation only delivers an answer, however many workers of it are lost."""
        first = claimed.continuation
        while first.of is not None:
            first = first.of
        for answer in claimed.answers:
            if answer.interrupt.checkpoint_id == claimed.checkpoint.pk:
                self.delivered_by[answer.pk, claimed.run.epoch].add(first.pk)

    def commit(self, lease: int) -> None:
        run = self.run
        snapshot = Snapshot(step="step", state=None, request_digest=f"rq1:{next(_numbers)}")
        after = run.checkpoint_number
        commit_checkpoint.commit_checkpoint(**self._by(lease), after=after, snapshot=snapshot, facts=[])
        self._refuse_stale(lease, run)

    def heartbeat(self, lease: int) -> None:
        before = self.run
        extend_lease.record_heartbeat(**self._by(lease), progress=None)
        self._refuse_stale(lease, before)

    def hand_back(self, lease: int, reason: str) -> None:
        before = self.run
        release_lease.hand_back_run(**self._by(lease), reason=reason, detail="")
        self._refuse_stale(lease, before)

    def complete(self, lease: int) -> None:
        before = self.run
        complete_run.complete_run(**self._by(lease), result={"number": lease})
        if not before.ending and not before.ended_at:  # a repeated request gets the first response
            self._refuse_stale(lease, before)

    def fail(self, lease: int) -> None:
        before = self.run
        complete_run.fail_run(**self._by(lease), error={"why": "it broke"})
        if not before.ending and not before.ended_at:  # a repeated request gets the first response
            self._refuse_stale(lease, before)

    def _refuse_stale(self, lease: int, before: Run) -> None:
        if before.lease_until is None or before.lease_until <= clock.now() - timedelta(seconds=1):
            raise Broken("a write was taken from a worker without a lease")
        if lease % len(self.leases):
            raise Broken("a write was taken under an older lease")

    def suspend(self, lease: int, kinds: list[str], resume_when: str, do: str, quorum: int, on_change: str) -> None:
        run = self.run
        if run.ended_at or run.lease_until is None:
            return
        waits = [self._wait(kind, do=do, quorum=quorum, on_change=on_change) for kind in kinds]
        builders.suspend_by(run, self._by(lease)["token"], *waits, resume_when=resume_when)
        self._refuse_stale(lease, run)

    def _wait(self, kind: str, *, do: str, quorum: int, on_change: str) -> RequestedInterrupt:
        self.asked += 1
        key = f"wait-{self.asked}"
        if kind == "timer":
            return a_timer(key)
        if kind == "event":
            return an_event(key, correlation=f"{self.agent.slug}-{self.asked % 2}", wish={"on_expiry": {"do": do}})
        if kind == "input":
            return builders.an_input_wait(key, wish={"on_expiry": {"do": do}})
        fact = RequestedFact(
            name="stock", value=7, check_by="connection", connection="erp", path="/s", pointer="/s", on_change=on_change
        )
        arguments = {"supplier": "S-17", "amount": f"{self.asked}.00"}
        proposal = {"name": CALLS["order"][0], "arguments": arguments}
        wish = {"on_expiry": {"do": do}, "quorum": quorum}
        return builders.a_wait(key, proposal=proposal, wish=wish, facts=[fact] if on_change else [])

    # --- effects

    def begin(self, lease: int, key: str, *, again: bool, lost: bool) -> None:
        """Begin an effect. ``lost``: the reply is lost, so that nothing is performed. ``again``: with the same request
        key.
        """
        before = self.run
        self.requests += not again
        name, repeat = CALLS[key]
        fields: dict[str, Any] = {"key": key, "name": name, "repeat": repeat, "request_key": f"r-{self.requests}"}
        permit = before.permits.filter(void_at=None).order_by("-id").first() if key == "order" else None
        fields |= {"arguments": {"about": key}} if permit is None else {"permit": permit.public_id}
        declared = EffectDeclaration(
            compensation={"name": "undo_it", "arguments": key}, compensate_on=tuple(CompensateOn.values)
        )
        begun = builders.begin_effect(
            still_may_decide=permissions.still_may_decide, **self._by(lease), **fields, declared=declared
        )
        if not begun.perform:
            return
        self._refuse_stale(lease, before)
        if before.pause_asked_at or before.ending or before.ended_at or kill_switch.is_halted(self.agent.pk):
            raise Broken(f"{key} was begun in a run that is {before.status}")
        if key == "order" and digest(begun.effect.call) not in self.approved:
            raise Broken("a call began without an approval")
        self._take_up(begun, lost=lost)

    def undo_newest(self, lease: int, *, lost: bool) -> None:
        run = self.run
        due = compensation.list_due_compensations(run.public_id, on=run.ending_on) if run.ending else []
        if due:
            self.requests += 1
            key, request_key = compensation.compensation_key(due[0]), f"r-{self.requests}"
            begun = builders.begin_effect(
                still_may_decide=permissions.still_may_decide,
                **self._by(lease),
                key=key,
                name="undo_it",
                request_key=request_key,
            )
            if begun.perform:
                self._take_up(begun, lost=lost)

    def _take_up(self, begun: begin_effect.BegunEffect, *, lost: bool) -> None:
        assert begun.attempt_token is not None
        effect = begun.effect
        one = Try(key=effect.key, attempt=effect.attempt, token=begun.attempt_token)
        if not lost and one not in self.at_hand and one not in self.performed:
            self.at_hand.append(one)

    def perform(self, which: int, *, lands: bool) -> None:
        """Make the call, with or without the lease; it succeeds or not."""
        if self.at_hand:
            one = self.at_hand.pop(which % len(self.at_hand))
            self.performed[one] = lands
            self.landed[one.key] += lands

    def report(self, which: int, *, knows: bool, retryable: bool) -> None:
        """Report truthfully, at once or later."""
        if not self.performed:
            return
        one, lands = list(self.performed.items())[which % len(self.performed)]
        status = ("applied" if lands else "failed") if knows else "unknown"
        fields = {"agent": self.agent, "run_id": self.started.run.public_id, "key": one.key}
        report_effect.report_effect(
            **fields, attempt_token=one.token, status=status, retryable=retryable and status == "failed"
        )

    # --- owners

    def settle(self) -> None:
        """Resolve an unknown outcome truthfully, as its owner."""
        effect = self._effects(status="unknown").first()
        if effect is not None:
            outcome = "applied" if self.landed[effect.key] else "failed"
            reconcile_outcomes.resolve_unknown_outcome(
                effect_id=effect.pk, outcome=outcome, person=self.olga, reason="I looked"
            )

    def order_again(self, which: int) -> None:
        effects = list(self._effects().order_by("id"))
        if effects:
            effect_id = effects[which % len(effects)].pk
            reconcile_outcomes.order_effect_again(effect_id=effect_id, person=self.olga, reason="once more")

    def lift(self, *, stays: bool) -> None:
        hold = Hold.objects.filter(run=self.started.run, lifted_at=None).exclude(kind="unknown_effect").first()
        if hold is None:
            return
        if hold.kind == "contradiction":
            effect = self._effects(key=hold.subject).get()
            reconcile_outcomes.confirm_recorded_outcome(effect_id=effect.pk, person=self.olga, reason="I looked")
        elif hold.kind == "undo_failed" and stays:
            reconcile_outcomes.waive_compensation(hold_id=hold.pk, person=self.olga, reason="keep it")
        elif hold.kind in RETRIABLE_HOLDS:
            reconcile_outcomes.retry_held_run(hold_id=hold.pk, person=self.olga, reason="try again")

    def _effects(self, **standing: Any) -> Any:
        return Effect.objects.filter(scope=self.started.run.public_id, **standing)

    def orders(self, key: str) -> int:
        return Order.objects.filter(effect__scope=self.started.run.public_id, effect__key=key).count()

    # --- people

    def answer(self, which: int, who: int, verdict: str, *, stale: bool, late: bool, door: str) -> None:
        waits = self.interrupts(status="waiting", queue__isnull=False)
        if not waits:
            return
        wait = waits[which % len(waits)]
        if late:
            builders.move_deadline(wait, clock.now())
        said: dict[str, Any] = {}
        if wait.kind == "input":
            verdict, said = "answer", {"input": {"certificate_no": "C-1"}}
        elif verdict == "edit":
            said = {"arguments": {"supplier": "S-18", "amount": f"{which}.50"}}
        version = wait.state_version - 1 if stale and wait.state_version > 1 else wait.state_version
        receipt = builders.decide(wait, self.people[who % 2], verdict, version=version, door=door, **said)
        if receipt.replayed:  # the same answer again has its first receipt again, however late it comes
            return
        if late:
            raise Broken("an answer counted at its deadline or later")
        if version != wait.state_version:
            raise Broken("an answer to what was shown before counted")
        if verdict in {"approve", "edit"} and receipt.permit is not None:
            self.approved.add(digest({**wait.proposal, **said}))

    def take_back(self, which: int, who: int) -> None:
        waits = self.interrupts(status__in=["answered", "waiting"])
        if waits:
            reviewer_actions.undo_decision(
                responder=self.people[who % 2], interrupt_id=waits[which % len(waits)].public_id
            )

    def control(self, verb: Any) -> None:
        verb(run_id=self.started.run.public_id, actor="person:olga@example.org", reason="", check=lambda run: None)

    def restart(self, choice: str) -> None:
        ended = {"failed", "compensated"}
        choices = {effect.key: choice for effect in self._effects(undoes=None) if effect.status in ended}
        fields: dict[str, Any] = {"person": self.olga, "reason": "again", "check": lambda run: None, "choices": choices}
        control.restart_run(run_id=self.started.run.public_id, **fields)

    def halt(self, *, lift: bool) -> None:
        verb = kill_switch.lift_halts if lift else kill_switch.halt_agents
        verb(slugs=[self.agent.slug], actor="person:olga@example.org", reason="")

    # --- the agent, without a lease

    def amend(self, which: int) -> None:
        waits = self.interrupts(status="waiting")
        if waits:
            wait = waits[which % len(waits)]
            changed: dict[str, Any] = {"title": f"Changed {wait.state_version}"}
            if wait.kind == "approval":
                arguments = {"supplier": "S-19", "amount": f"{wait.state_version}.99"}
                changed["proposal"] = {"name": CALLS["order"][0], "arguments": arguments}
            fields = {"agent": self.agent, "interrupt_id": wait.public_id}
            amend_interrupt.amend_open_interrupt(**fields, amendment=Amendment(**changed))

    def withdraw(self, which: int) -> None:
        waits = self.interrupts(status="waiting")
        if waits:
            interrupt_id = waits[which % len(waits)].public_id
            amend_interrupt.withdraw_open_interrupt(agent=self.agent, interrupt_id=interrupt_id, reason="settled")

    def signal(self, number: int) -> None:
        fields = a_signal(f"evt-{number}", correlation=f"{self.agent.slug}-{number % 2}")
        external_signals.receive_signal(agent=self.agent, told=fields)

    # --- time

    def lease_lapses(self) -> None:
        Run.objects.filter(pk=self.started.run.pk, lease_until__isnull=False).update(lease_until=clock.now())

    def deadline_comes(self, which: int) -> None:
        waits = self.interrupts(status="waiting")
        if waits:
            builders.move_deadline(waits[which % len(waits)], clock.now())

    def end_comes(self) -> None:
        over: datetime = clock.now() - timedelta(seconds=1)
        Run.objects.filter(pk=self.started.run.pk, lease_until=None).update(expires_at=over)

    def undo_time_is_over(self) -> None:
        Continuation.objects.filter(run=self.started.run).update(not_before=clock.now() - timedelta(seconds=1))

    def sweep(self) -> None:
        """Run the sweeps, with the current values of the facts."""
        expire.release_lapsed_leases(limit=9)
        expire.expire_due_interrupts(limit=9)
        external_signals.match_due_signals(limit=9)
        expire.expire_due_runs(limit=9)
        expire.mark_overdue_effects_unknown(limit=9)
        self.check()

    def check(self) -> None:
        continuation = find_open_continuation(self.run)
        if continuation is not None and continuation.status == "checking":
            Continuation.objects.filter(pk=continuation.pk).update(check_due_at=clock.now())
            reconcile_facts.revalidate_continuation(
                continuation_id=continuation.public_id, fetch=lambda fact: FetchedFact(value=self.stock)
            )


def refused(move: Any, *values: Any, **named: Any) -> str:
    """Act, and return the code of the refusal or an empty text."""
    try:
        move(*values, **named)
    except Refusal as refusal:
        return refusal.code
    return ""
