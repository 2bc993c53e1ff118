"""`manage.py mark_restored`: after restoring a backup, put every open run on hold until its owner has checked it."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import CommandParser

from ledger import clock
from ledger.errors import Refusal
from reviewqueue.management.command_base import ProvisioningCommand
from reviewqueue.operations import rollback_detection
from reviewqueue.operations.doctor.sqlite_integrity import damaged_pages
from reviewqueue.operations.health import MAX_HEARTBEAT_AGE, heartbeat_age
from reviewqueue.operations.installation import PROGRAM
from reviewqueue.operations.provisioning.names import ProvisioningError
from runs.models import Agent, Hold
from runs.states import HoldKind
from runs.use_cases.hold_after_restore import hold_after_restore
from runs.use_cases.reconcile_outcomes import retry_held_run


class Command(ProvisioningCommand):
    help = (
        "After restoring a backup: end every lease, put every open run on hold (`restored`), and mark effects under way as "
        "unknown. With --lift-holds, an owner or operator lets the runs of one agent continue."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--nothing-lost", action="store_true", help="accept a promoted standby that lacks nothing; hold no run"
        )
        parser.add_argument("--lift-holds", metavar="AGENT", help="lift the holds of this agent's runs instead")
        parser.add_argument("--by", metavar="ADDRESS", help="the owner or operator who has checked the runs")
        parser.add_argument("--reason", default="", help="what the check found; recorded in the timelines")

    def change(self, options: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
        """Open or lift the holds; refuse both in a damaged database file."""
        for finding in damaged_pages():
            raise ProvisioningError(
                f"{finding.message}. Nothing was changed. Restore the backup again, without -wal and -shm files beside it."
            )
        if options["nothing_lost"]:
            return _accept_promotion()
        return _lift_holds(options) if options["lift_holds"] else _open_holds()


def _open_holds() -> tuple[dict[str, Any], list[str]]:
    silence = heartbeat_age(now=clock.now())
    if silence is not None and silence <= MAX_HEARTBEAT_AGE:
        raise ProvisioningError(
            f"A worker sent a heartbeat {silence.total_seconds():.0f} seconds ago. Stop every worker first."
        )
    held = hold_after_restore()
    rollback_detection.reset_high_water()
    lines = [
        f"Open runs on hold: {held.runs}. Leases ended: {held.leases}. Effects now unknown: {held.effects}.",
        "Check what each agent did after the backup and resolve its unknown outcomes. Then, for each agent:",
        f'  {PROGRAM} mark_restored --lift-holds AGENT --by ADDRESS --reason "..."',
    ]
    return {"runs": held.runs, "leases": held.leases, "effects": held.effects}, lines


def _accept_promotion() -> tuple[dict[str, Any], list[str]]:
    rollback = rollback_detection.find_rollback()
    if rollback is not None:
        raise ProvisioningError(f"Something was lost. {rollback.message}, without --nothing-lost.")
    rollback_detection.reset_high_water()
    return {"runs": 0, "leases": 0, "effects": 0}, ["The database is accepted as it is. No run is on hold for it."]


def _lift_holds(options: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    agent = Agent.objects.filter(slug=options["lift_holds"]).first()
    person = get_user_model().objects.filter(username=(options["by"] or "").strip().lower()).first()
    if agent is None:
        raise ProvisioningError(f"There is no agent {options['lift_holds']}.")
    if person is None:
        raise ProvisioningError("Name the owner or operator who checked the runs: --by ADDRESS")
    rollback = rollback_detection.find_rollback()
    if rollback is not None:
        raise ProvisioningError(f"No hold was lifted. {rollback.message} first, without --lift-holds.")
    holds = Hold.objects.filter(kind=HoldKind.RESTORED, lifted_at=None, run__agent=agent).order_by("pk")
    if not holds.exists():
        line = f"No run of {agent.slug} is on hold: the holds are lifted, or `mark_restored` has not run yet."
        return {"agent": agent.slug, "runs": 0}, [line]
    lifted = 0
    for pk in list(holds.values_list("pk", flat=True)):
        try:
            retry_held_run(hold_id=pk, person=person, reason=options["reason"])
        except Refusal as refused:
            raise ProvisioningError(f"Holds lifted: {lifted}. Then one was refused: {refused.detail}") from None
        lifted += 1
    return {"agent": agent.slug, "runs": lifted}, [
        f"Holds lifted of agent {agent.slug}: {lifted}. Its workers can claim these runs."
    ]
