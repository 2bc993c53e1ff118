"""The scope of the insights: the interrupts and runs that a reader may see, over the last days.

Days and weeks are those of UTC, so that readers in two time zones see the same figures.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TypeVar

from django.db.models import Exists, OuterRef, Q, QuerySet

from reviewqueue.permissions import VisibleScope
from runs.models import Agent, Interrupt, Queue, Run

M = TypeVar("M", Interrupt, Run)

PERIODS = (7, 30, 90)


@dataclass(frozen=True, kw_only=True)
class Scope:
    """What the reader may see, and the number of days up to ``now``, including today.

    ``queue`` and ``agent`` limit it to one queue and one agent; 0: an unknown one, which leaves nothing.
    """

    visible: VisibleScope
    now: datetime
    days: int
    queue: int | None = None
    agent: int | None = None

    @property
    def since(self) -> datetime:
        """Return the start of the first day."""
        today = self.now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        return today - timedelta(days=self.days - 1)

    @property
    def before(self) -> datetime:
        """Return the start of the period before, which is as long."""
        return self.since - timedelta(days=self.days)

    @property
    def by_week(self) -> bool:
        """Return whether the period is divided into weeks; a short one is divided into days."""
        return self.days > min(PERIODS)

    def cut_of(self, day: date) -> date:
        """Return the first day of a day's part of the period. A week begins on Monday."""
        return day - timedelta(days=day.weekday()) if self.by_week else day

    def cuts(self) -> list[date]:
        """Return the first day of each day or week. The first week can begin before the period."""
        step = timedelta(days=7 if self.by_week else 1)
        cut = self.cut_of(self.since.date())
        cuts = []
        while cut <= self.now.astimezone(UTC).date():
            cuts.append(cut)
            cut += step
        return cuts

    @property
    def is_everything(self) -> bool:
        """Tell whether every interrupt and run is in the scope."""
        return self.visible.everything and self.queue is None and self.agent is None

    def includes(self, agent: int, queues: frozenset[int]) -> bool:
        """Tell whether an interrupt or run of this agent and these queues is in the scope, for any initiator."""
        if self.agent not in (None, agent) or (self.queue is not None and self.queue not in queues):
            return False
        visible = self.visible
        if visible.everything or agent in visible.agents:
            return True
        asked = queues if self.queue is None else {self.queue}
        return bool(visible.queues & asked)

    @property
    def interrupts(self) -> QuerySet[Interrupt]:
        """Return the interrupts of the scope."""
        interrupts = self._narrowed(Interrupt.objects.order_by())
        interrupts = interrupts if self.queue is None else interrupts.filter(queue=self.queue)
        if self.visible.everything:
            return interrupts
        return interrupts.filter(_in_queues_or_of_agents(self.visible) | self._started())

    @property
    def runs(self) -> QuerySet[Run]:
        """Return the runs of the scope."""
        runs = self._narrowed(Run.objects.order_by())
        if self.queue is not None:
            return runs.filter(pk__in=self.interrupts.values("run"))
        if self.visible.everything:
            return runs
        return runs.filter(self._shared_runs() | Q(initiator=self._person))

    @property
    def own_interrupts(self) -> QuerySet[Interrupt]:
        """Return the interrupts that are in the scope only because the reader started the run."""
        interrupts = self._narrowed(Interrupt.objects.order_by()).filter(self._started())
        interrupts = interrupts if self.queue is None else interrupts.filter(queue=self.queue)
        return interrupts.exclude(_in_queues_or_of_agents(self.visible))

    @property
    def own_runs(self) -> QuerySet[Run]:
        """Return the runs that are in the scope only because the reader started them."""
        runs = self._narrowed(Run.objects.order_by()).filter(initiator=self._person)
        if self.queue is None:
            return runs.exclude(self._shared_runs())
        return runs.filter(pk__in=self.own_interrupts.values("run"))

    def has_own_runs(self) -> bool:
        """Tell whether the reader started a run."""
        own = self.visible.person is not None and not self.visible.everything
        return own and Run.objects.filter(initiator=self.visible.person).exists()

    @property
    def _person(self) -> int:
        return self.visible.person or 0

    def _started(self) -> Q:
        return Q(run__in=Run.objects.filter(initiator=self._person).values("pk"))

    def _shared_runs(self) -> Q:
        asked = Interrupt.objects.filter(run=OuterRef("pk"), queue__in=sorted(self.visible.queues))
        return Q(agent__in=sorted(self.visible.agents)) | Q(Exists(asked))

    def _narrowed(self, rows: QuerySet[M]) -> QuerySet[M]:
        return rows if self.agent is None else rows.filter(agent=self.agent)


def _in_queues_or_of_agents(visible: VisibleScope) -> Q:
    # Without the first condition, the negation would leave out interrupts without a queue.
    return Q(queue__isnull=False, queue__in=sorted(visible.queues)) | Q(agent__in=sorted(visible.agents))


def insights_scope(*, visible: VisibleScope, days: int, now: datetime, queue: str = "", agent: str = "") -> Scope:
    """Return the scope, limited to the queue and the agent with these slugs; an unknown one leaves nothing."""
    return Scope(
        visible=visible,
        days=days,
        now=now,
        queue=_find(Queue, queue) if queue else None,
        agent=_find(Agent, agent) if agent else None,
    )


def _find(model: type[Queue] | type[Agent], slug: str) -> int:
    return model._default_manager.filter(slug=slug).values_list("pk", flat=True).first() or 0
