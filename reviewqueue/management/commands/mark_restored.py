"""`manage.py restored`: after restoring a backup, hold everything until owners have compared it with the world."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import CommandParser

from ledger import clock
from ledger.errors import Refusal
from reviewqueue.management.command_base import AddingCommand
from reviewqueue.operations import rollback_detection
from reviewqueue.operations.doctor.sqlite_integrity import damage
from reviewqueue.operations.health import LONGEST_SILENCE, silence_of_workers
from reviewqueue.operations.provisioning import NotAdded
from runs.models import Agent, Hold
from runs.states import HoldKind
from runs.use_cases.hold_after_restore import hold_after_restore
from runs.use_cases.reconcile_outcomes import retry_held_run


class Command(AddingCommand):
    help = (
        "After a backup was restored: end every lease, hold every open run (hold `restored`) and mark what was under way as "
        "unknown. With --go-on, an owner or operator lets the held runs of one agent go on."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--go-on", metavar="AGENT", help="lift the holds of this agent's runs, instead of holding")
        parser.add_argument("--by", metavar="ADDRESS", help="who has compared them with the world")
        parser.add_argument("--reason", default="", help="what was found; kept in the timelines")

    def add(self, options: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
        """Hold, or let go on; neither in a file that was put together from two."""
        for finding in damage():
            raise NotAdded(
                f"Nothing was changed: {finding.words}. Put the backup back anew, without a -wal and -shm beside it."
            )
        return _let_go_on(options) if options["go_on"] else _hold()


def _hold() -> tuple[dict[str, Any], list[str]]:
    silence = silence_of_workers(now=clock.now())
    if silence is not None and silence <= LONGEST_SILENCE:
        raise NotAdded(f"A worker was heard of {silence.total_seconds():.0f} seconds ago: stop every worker first.")
    held = hold_after_restore()
    rollback_detection.begin_anew()
    lines = [
        f"{held.runs} open runs are held; {held.leases} leases ended; {held.effects} effects are unknown now.",
        "Compare what was done outside since the backup, settle the unknown effects, then for each agent:",
        '  python3 manage.py restored --go-on AGENT --by ADDRESS --reason "..."',
    ]
    return {"runs": held.runs, "leases": held.leases, "effects": held.effects}, lines


def _let_go_on(options: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    agent = Agent.objects.filter(slug=options["go_on"]).first()
    person = get_user_model().objects.filter(username=(options["by"] or "").strip().lower()).first()
    if agent is None:
        raise NotAdded(f"There is no agent {options['go_on']}.")
    if person is None:
        raise NotAdded("Say who has looked: --by ADDRESS, of an owner of the agent or of an operator.")
    gone_back = rollback_detection.look()
    if gone_back is not None:
        raise NotAdded(f"Nothing goes on yet: {gone_back.words}, without --go-on.")
    holds = Hold.objects.filter(kind=HoldKind.RESTORED, lifted_at=None, run__agent=agent).order_by("pk")
    if not holds.exists():
        words = (
            f"No run of {agent.slug} is held as restored: what was held has been let go, or `restored` has not run yet."
        )
        return {"agent": agent.slug, "runs": 0}, [words]
    lifted = 0
    for pk in list(holds.values_list("pk", flat=True)):
        try:
            retry_held_run(hold_id=pk, person=person, reason=options["reason"])
        except Refusal as refused:
            raise NotAdded(f"{lifted} runs may go on. Then: {refused.detail}") from None
        lifted += 1
    return {"agent": agent.slug, "runs": lifted}, [f"{lifted} runs of {agent.slug} may go on."]
