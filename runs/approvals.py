"""Which effects need a person's approval, and which permit of the run is one for this very call.

Effect rules know a call by its name, and the agent chooses the name: they read it as a person would. Called by ``acting``
before a try begins, under the run's lock; the permits themselves are ``permits``', and the people behind them are judged by
``revocation``. Nothing is written here.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any

from ledger.models import Effect
from runs.errors import ApprovalRequired, CallNotApproved, PermitExpired
from runs.models import Agent, EffectRule, Permit, Run
from runs.permits import approved_otherwise, approves_for, check_permit, find_permit, standing_permits
from runs.revocation import AUTHORITY_LOST, LostApproval, StillMayDecide, judge_permit, revoked_approval


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The call a worker wants to make, completed from its permit or from what is recorded, and the permit it rests on."""

    key: str
    call: dict[str, Any]
    digest: str
    permit: Permit | None


def find_approval(
    run: Run, asked: Asked, *, known: Effect | None, still_may_decide: StillMayDecide, now: datetime
) -> Permit | LostApproval | None:
    """Return the permit that lets the effect begin; ``None`` where none is needed and none was named.

    ``LostApproval``: a permit would allow it, but a person behind it may no longer decide; there is no other one.

    The one that was named counts alone. Without a name it is the one the key was begun with, else any good one of the
    same call. Under a rule only an approval for the rule's own reason counts: the agent chose under which reason, and so
    by whose policy, it asked.
    """
    rule = rule_for(run.agent, asked.call["name"])
    reason = rule.reason if rule else ""
    if asked.permit is not None:
        _refuse_revoked(asked.permit)
        check_permit(run, asked.permit, key=asked.key, call_digest=asked.digest, now=now)
        if not approves_for(asked.permit, reason):
            raise approval_required(reason)
        return judge_permit(asked.permit, still_may_decide) or asked.permit
    spent_on_it = find_permit(run, known.permit_ref) if known and known.permit_ref else None
    if rule is None and spent_on_it is None:
        return None
    if spent_on_it is not None and not approves_for(spent_on_it, reason):
        spent_on_it = None
    lost: LostApproval | None = None
    if spent_on_it is not None and spent_on_it.void_at is None and spent_on_it.valid_until > now:
        lost = judge_permit(spent_on_it, still_may_decide)
        if lost is None:
            return spent_on_it
    for permit in standing_permits(run, key=asked.key, call_digest=asked.digest, reason=reason, now=now):
        if lost is not None and permit.pk == lost.permit.pk:
            continue
        found = judge_permit(permit, still_may_decide)
        if found is None:
            return permit
        lost = lost or found
    if lost is not None:
        return lost
    if spent_on_it is not None:
        _refuse_revoked(spent_on_it)
        raise PermitExpired(permit=spent_on_it.public_id)
    otherwise = approved_otherwise(run, name=asked.call["name"], reason=reason, now=now)
    if otherwise is not None:
        raise CallNotApproved(permit=otherwise.public_id, approved=otherwise.digest, asked=asked.digest)
    raise approval_required(reason)


def _refuse_revoked(permit: Permit) -> None:
    if permit.void_reason == AUTHORITY_LOST:
        raise revoked_approval(permit.decision.interrupt.reason)


def approval_required(reason: str) -> ApprovalRequired:
    """Return the refusal that names the reason under which an approval counts."""
    return ApprovalRequired(f"This effect needs a person's approval first, for the reason {reason}.", reason=reason)


def rule_for(agent: Agent, name: str) -> EffectRule | None:
    """Return the rule of this name; of several the closest: a bare name, then the longest pattern.

    The agent chooses the name, so case, blanks, full width and characters that nobody sees do not lead past a rule; letters
    of another alphabet that look the same are refused (``name_disguised``).
    """
    bare = _bare(name)
    fitting = [rule for rule in EffectRule.objects.filter(agent=agent) if fnmatchcase(bare, _bare(rule.name_pattern))]
    return max(fitting, key=lambda rule: _closeness(rule.name_pattern), default=None)


def _bare(name: str) -> str:
    """Return a name without what two spellings of it may differ in and still look the same."""
    plain = unicodedata.normalize("NFKC", name).casefold()
    return "".join(sign for sign in plain if unicodedata.category(sign)[0] not in "CZ")


def _closeness(pattern: str) -> tuple[bool, int, str]:
    return not any(sign in pattern for sign in "*?["), len(pattern), pattern
