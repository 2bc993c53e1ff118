"""Revisions: what an interrupt showed before it was amended. A revision is written once."""

from __future__ import annotations

from ledger import clock
from ledger.transactions import assert_in_transaction
from runs.models import Fact, Interrupt, Revision


def store_revision(interrupt: Interrupt) -> Revision:
    """Store what the locked interrupt shows, before it changes."""
    assert_in_transaction()
    facts = Fact.objects.filter(interrupt=interrupt).order_by("id")
    return Revision.objects.create(
        interrupt=interrupt,
        state_version=interrupt.state_version,
        title=interrupt.title,
        message=interrupt.message,
        proposal=interrupt.proposal,
        facts=[{"name": fact.name, "value": fact.value, "on_change": fact.on_change} for fact in facts],
        deadline=interrupt.deadline,
        replaced_at=clock.now(),
    )


def find_revision_shown(interrupt: Interrupt, state_version: int) -> Revision | None:
    """Return what the interrupt showed at a version, or ``None`` if it shows the same now.

    A new round raises the version without a revision, so the next stored revision is what was shown.
    """
    later = Revision.objects.filter(interrupt=interrupt, state_version__gte=state_version)
    return later.order_by("state_version").first()
