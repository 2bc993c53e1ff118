"""How an answer counts where several people have to approve: whether it decides, or is one vote of several.

Called by the gateway inside its transaction, after it found nothing against the answer. Who may vote is ``authority``'s; how
votes read is told by ``runs.votes``.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.contrib.auth.models import AbstractUser

from ledger.actors import by_person
from ledger.digests import digest
from reviewqueue import permissions
from runs.decisions import Answer, move_decisions
from runs.interrupts import change_call
from runs.models import Decision, Interrupt, Run
from runs.run_status import store
from runs.states import APPROVING, DecisionStatus, Verdict
from runs.timeline import note
from runs.votes import counted_votes, tally


@dataclass(frozen=True, kw_only=True)
class Weighed:
    """How an answer counts, and the votes that it overtook."""

    status: DecisionStatus
    overtaken: list[Decision]


def weigh(interrupt: Interrupt, answer: Answer) -> Weighed:
    """Say whether the answer decides, or is one vote of several: under the locks, so that two last votes are one.

    A vote is judged again when it is counted: who lost the right meanwhile does not help to decide. A changed call needs
    everybody's vote anew.
    """
    if interrupt.quorum == 1 or answer.verdict not in APPROVING:
        return Weighed(status=DecisionStatus.ACCEPTED, overtaken=[])
    if answer.verdict == Verdict.EDIT and digest(answer.arguments) != digest(interrupt.proposal["arguments"]):
        return Weighed(status=DecisionStatus.COUNTED, overtaken=change_call(interrupt, answer.arguments))
    votes = list(counted_votes(interrupt))
    for vote in votes:
        vote.interrupt = interrupt
    lost = [vote for vote in votes if not permissions.vote_stands(vote)]
    if lost:
        move_decisions(interrupt, "revoke", only=lost)
    if len(votes) - len(lost) + 1 < interrupt.quorum:
        return Weighed(status=DecisionStatus.COUNTED, overtaken=[])
    move_decisions(interrupt, "accept")
    return Weighed(status=DecisionStatus.ACCEPTED, overtaken=[])


def tell_vote(
    run: Run, interrupt: Interrupt, decision: Decision, overtaken: list[Decision], *, by: AbstractUser, now: datetime
) -> None:
    """Tell of a vote that others have to join; the wait goes on, and its deadline with it."""
    so_far = tally(interrupt)
    note(
        run,
        "decision.counted",
        actor=by_person(by),
        at=now,
        interrupt=interrupt.public_id,
        decision=decision.public_id,
        verdict=decision.verdict,
        digest=decision.digest,
        counted=so_far.counted,
        needed=so_far.needed,
        votes_overtaken=[vote.public_id for vote in overtaken],
    )
    store(run, now)
