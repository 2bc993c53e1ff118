"""Many open requests in SQLite or PostgreSQL: copies of one that the use cases have created.

`python -m tests.many_interrupts COUNT SECONDS` creates them on DATABASE_URL, due one after the other within so many seconds
(0: all at once). For tests with a worker of their own; benchmarks copy inside PostgreSQL, by the hundred thousand.
"""

from __future__ import annotations

import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runs.models import Interrupt


def copy_interrupt(template: Interrupt, count: int, *, within: timedelta) -> None:
    """Copy run, checkpoint and interrupt ``count`` times; the copies' deadlines spread over ``within`` from now on."""
    from ledger import clock
    from ledger.digests import digest
    from runs.models import Checkpoint, Event, Interrupt, Run

    now, places = clock.now(), range(1, count + 1)
    runs = [_copy(template.run, public_id=f"run_copy{place}", key=f"copy-{place}") for place in places]
    Run.objects.bulk_create(runs, batch_size=500)
    checkpoints = [_copy(template.checkpoint, run=run) for run in runs]
    Checkpoint.objects.bulk_create(checkpoints, batch_size=500)
    interrupts = [
        _copy(
            template,
            public_id=f"int_copy{place}",
            run=checkpoint.run,
            checkpoint=checkpoint,
            deadline=now + within * place / count,
        )
        for place, checkpoint in zip(places, checkpoints, strict=True)
    ]
    Interrupt.objects.bulk_create(interrupts, batch_size=500)
    # As by a version without row digests: the template's events do not describe the copies.
    events = [Event(run=run, agent_id=run.agent_id, seq=1, type="run.suspended", at=now, refs={}) for run in runs]
    for event in events:
        event.digest = digest(event.covered())
        event.run.timeline_seq, event.run.timeline_head = 1, event.digest
    Event.objects.bulk_create(events, batch_size=500)
    Run.objects.bulk_update(runs, ["timeline_seq", "timeline_head"], batch_size=500)


def _copy(row: Any, **changed: Any) -> Any:
    columns = {field.name: getattr(row, field.name) for field in row._meta.concrete_fields if not field.primary_key}
    return type(row)(**columns | changed)


def main(count: int, seconds: float) -> None:
    import django

    django.setup()
    from tests import builders

    template = builders.a_waiting_interrupt(builders.a_wait(wish={"on_expiry": {"do": "resume"}}))
    copy_interrupt(template, count, within=timedelta(seconds=seconds))


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
