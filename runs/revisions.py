"""What a wait showed before it was amended: kept when it changes, asked for by whoever had opened it then.

Called by ``amending`` and by the votes that change a call, under the run's and the interrupt's lock, and by the pages. A
revision is written once.
"""

from __future__ import annotations

from ledger import clock
from ledger.transactions import assert_open
from runs.models import Fact, Interrupt, Revision


def keep_revision(interrupt: Interrupt) -> Revision:
    """Keep what the locked wait shows, before it is changed."""
    assert_open()
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


def revision_seen(interrupt: Interrupt, state_version: int) -> Revision | None:
    """Return what the wait showed at a version, or ``None`` where it shows the same now.

    Versions also rise when a question is asked anew with the same words, so the next one that was kept is what was shown.
    """
    later = Revision.objects.filter(interrupt=interrupt, state_version__gte=state_version)
    return later.order_by("state_version").first()
