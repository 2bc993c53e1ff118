"""Three months of a busy installation as rows, for insights: thousands of decisions in seconds, the same for one seed.

Rows are written as the verbs leave them, but in bulk; chains of events are left out, since no measure reads them. Times are
whole seconds, so that every database's arithmetic gives the same figure.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.models import User

from ledger.models import Effect, EffectReport
from runs.models import Agent, Checkpoint, Continuation, Decision, Interrupt, Policy, Queue, Run
from runs.states import RISK_RANK
from tests import builders

SEEN = ("engineering", "purchasing")
FOREIGN = "payroll"
RISKS = {"high": (0.25, 1500), "medium": (0.45, 780), "low": (0.3, 210)}
REFUSALS = {
    ("duplicate", "already_decided"): 0.04,
    ("stale", "stale_version"): 0.022,
    ("invalid", "input_invalid"): 0.018,
    ("late", "expired"): 0.012,
    ("denied", "self_review"): 0.006,
    ("denied", "claimed_by_other"): 0.004,
}
ENDS = {"completed": 0.93, "failed": 0.03, "cancelled": 0.02, "running": 0.02}


@dataclass(kw_only=True)
class Quarter:
    """Writes the rows; everything random comes from one seeded source."""

    now: datetime
    decided: int
    open_waits: int
    days: int = 180
    seed: int = 7
    chance: random.Random = field(init=False)
    rows: dict[type, list[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.now = self.now.replace(microsecond=0)
        self.chance = random.Random(self.seed)
        self.people = [
            a_colleague(name, queue)
            for name, queue in zip(("Lena", "Marek", "Yusuf", "Ines"), (*SEEN, *SEEN), strict=True)
        ]
        self.queues = {slug: builders.a_queue(slug) for slug in (*SEEN, FOREIGN)}
        self.stranger = a_colleague("Otto", FOREIGN)
        self.agents = [builders.an_agent("purchase-requests"), builders.an_agent("mail-desk")]
        self.policy = Policy.objects.filter(reason="approval.action").first() or builders.a_policy()

    def write(self) -> None:
        """Write all of it."""
        for number in range(self.decided):
            self.a_run_with_its_request(number, asked_at=self.now - self.some(timedelta(days=self.days)))
        for number in range(self.open_waits):
            age = timedelta(seconds=int(self.chance.lognormvariate(9.5, 1.5)))
            self.a_run_with_its_request(self.decided + number, asked_at=self.now - age, is_open=True)
        for model in (Run, Checkpoint, Interrupt, Decision, Continuation, Effect, EffectReport):
            model.objects.bulk_create(self.rows.get(model, []), batch_size=500)

    def some(self, longest: timedelta) -> timedelta:
        return timedelta(seconds=self.chance.randrange(int(longest.total_seconds())))

    def one_of(self, weights: dict[Any, float]) -> Any:
        return self.chance.choices([*weights], [*weights.values()])[0]

    def keep(self, row: Any) -> Any:
        self.rows.setdefault(type(row), []).append(row)
        return row

    def a_run_with_its_request(self, number: int, *, asked_at: datetime, is_open: bool = False) -> None:
        """Write one run with its request: open, or closed by a person or at its deadline, and what followed."""
        queue = self.queues[FOREIGN if number % 10 == 0 else SEEN[number % 2]]
        agent = self.agents[number % 3 == 0]
        ends = "expired" if not is_open and self.chance.random() < 0.03 else "answered"
        status = "waiting" if is_open else "expired" if ends == "expired" else self.one_of(ENDS)
        run = self.a_run(number, agent, status, asked_at)
        boundary = self.a_checkpoint(run, number=2, fence=1, step="ask", at=asked_at)
        risk = self.one_of({name: weight for name, (weight, _) in RISKS.items()})
        took = timedelta(seconds=int(self.chance.lognormvariate(0, 1.6) * RISKS[risk][1]) + 2)
        closed_at = min(asked_at + took, self.now)
        wait = self.a_wait(run, boundary, queue, risk, asked_at, None if is_open else closed_at, ends)
        if is_open:
            self.claim_some(wait)
        else:
            self.an_end(run, boundary, wait, ends, closed_at)

    def an_end(self, run: Run, boundary: Checkpoint, wait: Interrupt, ends: str, closed_at: datetime) -> None:
        person = self.stranger if wait.queue.slug == FOREIGN else self.chance.choice(self.people)
        for (status, code), rate in REFUSALS.items():
            if self.chance.random() < rate:
                self.a_decision(wait, self.chance.choice(self.people), status, closed_at, code=code)
        if ends == "expired":
            if self.chance.random() < 0.3:
                self.a_decision(wait, None, "accepted", closed_at, cause="system:expiry", verdict="reject")
            return
        self.a_decision(wait, person, self.one_of({"accepted": 0.97, "revoked": 0.03}), closed_at)
        claimed_at = min(closed_at + self.some(timedelta(minutes=5)), self.now)
        cause, fence = "person", 2
        if self.chance.random() < 0.05:
            lost = self.a_continuation(run, boundary, cause, "void", fence, claimed_at, skipped=0)
            claimed_at, cause, fence = min(claimed_at + timedelta(minutes=2), self.now), "lease_lost", 4
            assert lost.acknowledged_at is None
        skipped = self.one_of({0: 0.5, 1: 0.3, 2: 0.2})
        self.a_continuation(run, boundary, cause, "acknowledged", fence, claimed_at, skipped=skipped)
        self.a_checkpoint(run, number=3, fence=fence, step="order", at=claimed_at)
        if self.chance.random() < 0.03:
            self.a_continuation(run, boundary, "replan", "acknowledged", fence + 2, claimed_at, skipped=0)
            self.a_checkpoint(run, number=4, fence=fence + 2, step="ask", at=claimed_at)
        self.an_effect(run, fence, claimed_at)

    def a_run(self, number: int, agent: Agent, status: str, at: datetime) -> Run:
        live = status in {"waiting", "running"}
        return self.keep(
            Run(
                public_id=f"run_q{number}",
                agent=agent,
                title="A purchase",
                created_at=at,
                status=status,
                ended_at=None if live else self.now,
                ending=status if status in {"failed", "cancelled", "expired"} else "",
                open_waits=int(status == "waiting"),
                lease_until=self.now if status == "running" else None,
                checkpoint_number=3,
                fence=2,
            )
        )

    def a_checkpoint(self, run: Run, *, number: int, fence: int, step: str, at: datetime) -> Checkpoint:
        words = {"epoch": 1, "state": {}, "digest": "rq1:", "created_at": at}
        return self.keep(Checkpoint(run=run, number=number, fence=fence, step=step, **words))

    def a_wait(
        self,
        run: Run,
        boundary: Checkpoint,
        queue: Queue,
        risk: str,
        asked_at: datetime,
        closed_at: datetime | None,
        ends: str,
    ) -> Interrupt:
        return self.keep(
            Interrupt(
                public_id=run.public_id.replace("run", "int"),
                run=run,
                agent=run.agent,
                checkpoint=boundary,
                epoch=1,
                key="order",
                kind="approval",
                reason="approval.action",
                queue=queue,
                policy=self.policy,
                title="Order the hoist",
                proposal=builders.CALL,
                risk=risk,
                risk_rank=RISK_RANK[risk],
                status="waiting" if closed_at is None else ends,
                level=int(ends == "expired" and self.chance.random() < 0.5),
                deadline=(closed_at or self.now) + self.some(timedelta(hours=20)),
                on_expiry={"do": "cancel"},
                created_at=asked_at,
                closed_at=closed_at,
            )
        )

    def claim_some(self, wait: Interrupt) -> None:
        if self.chance.random() < 0.2:
            wait.claimed_by = self.chance.choice(self.people)
            wait.claimed_until = self.now + timedelta(minutes=self.chance.choice([-5, 10]))

    def a_decision(
        self,
        wait: Interrupt,
        by: User | None,
        status: str,
        at: datetime,
        *,
        code: str = "",
        cause: str = "person",
        verdict: str = "approve",
    ) -> Decision:
        return self.keep(
            Decision(
                public_id=f"dec_q{len(self.rows.get(Decision, []))}",
                interrupt=wait,
                round=1,
                state_version=1,
                by=by,
                cause=cause,
                verdict=verdict,
                status=status,
                code=code,
                closes=not code,
                created_at=at,
            )
        )

    def a_continuation(
        self, run: Run, boundary: Checkpoint, cause: str, status: str, fence: int, at: datetime, *, skipped: int
    ) -> Continuation:
        return self.keep(
            Continuation(
                public_id=f"con_q{len(self.rows.get(Continuation, []))}",
                run=run,
                agent=run.agent,
                checkpoint=boundary,
                status=status,
                cause=cause,
                not_before=at,
                fence=fence,
                leased_at=at,
                acknowledged_at=at if status == "acknowledged" else None,
                effects_skipped=skipped,
                created_at=at,
            )
        )

    def an_effect(self, run: Run, fence: int, at: datetime) -> None:
        number = len(self.rows.get(Effect, []))
        status = "unknown" if number % 700 == 3 else "applied"
        effect = self.keep(
            Effect(
                public_id=f"eff_q{number}",
                scope=run.public_id,
                key="order",
                name="issue_purchase_order",
                call=builders.CALL,
                status=status,
                fence=fence,
                owner=run.agent.owner,
                created_at=at,
                changed_at=at,
            )
        )
        for attempt in range(1, 3 if number % 900 == 5 else 2):
            self.keep(EffectReport(effect=effect, attempt=attempt, status=status, by="agent:x", at=at))


def a_colleague(name: str, queue: str) -> User:
    person = builders.a_reviewer(f"{name.lower()}@example.org", queue)
    User.objects.filter(pk=person.pk).update(first_name=name)
    person.refresh_from_db()
    return person


def a_reader() -> User:
    """A person who sees the two queues, but not the third."""
    for queue in SEEN:
        builders.a_queue(queue)
    reader = builders.a_person("vera@example.org", *(f"{queue}-leads" for queue in SEEN))
    User.objects.filter(pk=reader.pk).update(first_name="Vera")
    return reader
