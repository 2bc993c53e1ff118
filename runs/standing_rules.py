"""Standing rules: what a rule covers, its creation and revocation, and the count of the decisions that it made.

The only writer of rules and their uses. Who may make a rule is checked by the caller, as for decisions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from django.contrib.auth.models import AbstractUser
from django.db.models import OuterRef, QuerySet, Subquery

from ledger import row_digests
from ledger.actors import person_actor
from ledger.digests import digest
from ledger.errors import PayloadInvalid
from ledger.exact_json import ABSENT
from ledger.json_pointer import is_pointer, value_at
from ledger.public_ids import new_id
from ledger.transactions import assert_in_transaction
from ledger.write_batch import insert_later
from runs.configuration_history import (
    KINDS,
    changed_columns,
    lock_head,
    record_configuration,
)
from runs.errors import RecordChanged
from runs.models import Agent, ConfigurationRecord, Decision, Queue, StandingRule, StandingRuleUse
from runs.verification import find_changed

#: ``Decision.door`` of a decision that a standing rule made.
BY_RULE = "rule"
MAX_USES = 1_000
MAX_LENGTH = timedelta(days=31)
MAX_BOUNDS = 20
MAX_CALL = 200  # characters of the call's name
MAX_TEXT = 300  # characters of a note, and of a pointer
MAX_VALUE = 300  # characters of a bound's value
#: How a member is compared with a bound's value: those of numbers, and equality of any value.
NUMBER_TESTS = ("below", "at_most", "at_least", "above")
TESTS = (*NUMBER_TESTS, "equals")
REVOKED = "revoked"
_NUMBER = re.compile(r"-?[0-9]{1,30}(\.[0-9]{1,30})?")


@dataclass(frozen=True, kw_only=True)
class Bound:
    """A limit of one member of the proposal. ``value``: the text of a number; with ``equals`` any JSON scalar."""

    pointer: str
    test: str
    value: Any

    def allows(self, proposal: dict[str, Any]) -> bool:
        """Tell whether the member has a value within the bound. A missing member has none."""
        found = value_at(proposal, self.pointer)
        if found is ABSENT:
            return False
        if self.test == "equals":
            return digest(found) == digest(self.value)
        number, limit = read_number(found), read_number(self.value)
        if number is None or limit is None:
            return False
        results = {
            "below": number < limit,
            "at_most": number <= limit,
            "at_least": number >= limit,
            "above": number > limit,
        }
        return results[self.test]


def read_number(value: Any) -> Decimal | None:
    """Return a JSON number, or the number that a text consists of; ``None`` for any other value."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | Decimal):
        return Decimal(value)
    return Decimal(value) if isinstance(value, str) and _NUMBER.fullmatch(value) else None


@dataclass(frozen=True, kw_only=True)
class RuleTerms:
    """What a lead wants to approve in advance. ``call``: the exact name; ``bounds`` must all allow the proposal."""

    queue: Queue
    agent: Agent
    reason: str
    call: str
    bounds: tuple[Bound, ...]
    max_uses: int
    ends_at: datetime
    note: str


def check_terms(terms: RuleTerms, *, now: datetime) -> None:
    """Refuse terms that are not valid. Raises ``PayloadInvalid`` with the member."""
    if not 1 <= terms.max_uses <= MAX_USES:
        raise PayloadInvalid.at("/max_uses", f"must be from 1 to {MAX_USES}")
    if terms.ends_at <= now:
        raise PayloadInvalid.at("/ends_at", "must be in the future")
    if terms.ends_at > now + MAX_LENGTH:
        raise PayloadInvalid.at("/ends_at", f"must be at most {MAX_LENGTH.days} days from now")
    if not terms.note.strip():
        raise PayloadInvalid.at("/note", "is missing: say why you make the rule")
    for name, text, most in (("call", terms.call, MAX_CALL), ("note", terms.note, MAX_TEXT)):
        if len(text) > most:
            raise PayloadInvalid.at(f"/{name}", f"must have at most {most} characters")
    if len(terms.bounds) > MAX_BOUNDS:
        raise PayloadInvalid.at("/bounds", f"must have at most {MAX_BOUNDS} bounds")
    for place, bound in enumerate(terms.bounds):
        _check_bound(bound, at=f"/bounds/{place}")


def _check_bound(bound: Bound, *, at: str) -> None:
    if not bound.pointer.startswith("/arguments/") or not is_pointer(bound.pointer):
        raise PayloadInvalid.at(
            f"{at}/pointer", "must be a JSON Pointer into the proposal that begins with /arguments/"
        )
    if len(bound.pointer) > MAX_TEXT:
        raise PayloadInvalid.at(f"{at}/pointer", f"must have at most {MAX_TEXT} characters")
    if bound.test not in TESTS:
        raise PayloadInvalid.at(f"{at}/test", f"must be one of: {', '.join(TESTS)}")
    if isinstance(bound.value, str) and len(bound.value) > MAX_VALUE:
        raise PayloadInvalid.at(f"{at}/value", f"must have at most {MAX_VALUE} characters")
    if bound.test in NUMBER_TESTS and read_number(bound.value) is None:
        raise PayloadInvalid.at(f"{at}/value", f"must be a number for {bound.test}")
    if isinstance(bound.value, dict | list):
        raise PayloadInvalid.at(f"{at}/value", "must be a text, a number, true, false or null")


def bounds_of(rule: StandingRule) -> list[Bound]:
    return [Bound(**bound) for bound in rule.bounds]


def covers_proposal(call: str, bounds: Iterable[Bound], proposal: Any) -> bool:
    """Tell whether a proposal is the rule's call, by its exact name, and within all bounds."""
    if not isinstance(proposal, dict) or proposal.get("name") != call:
        return False
    return all(bound.allows(proposal) for bound in bounds)


def add_rule(terms: RuleTerms, *, by: AbstractUser, now: datetime) -> StandingRule:
    """Store a rule with its record in the audit log."""
    assert_in_transaction()
    lock_head()
    rule = StandingRule.objects.create(
        public_id=new_id("rul"),
        queue=terms.queue,
        agent=terms.agent,
        reason=terms.reason,
        call=terms.call,
        bounds=[{"pointer": it.pointer, "test": it.test, "value": it.value} for it in terms.bounds],
        max_uses=terms.max_uses,
        ends_at=terms.ends_at,
        note=terms.note,
        made_by_id=by.pk,
        created_at=now,
    )
    record_configuration(rule, actor=person_actor(by))
    return rule


def revoke_rule(rule: StandingRule, *, actor: str, reason: str, now: datetime) -> StandingRule:
    """Revoke a rule at once, once. Its decisions lose their permits until their effects begin."""
    assert_in_transaction()
    lock_head()
    locked = _locked(rule.pk)
    if locked.revoked_at is None:
        locked.revoked_at, locked.revoked_by, locked.revoke_reason = now, actor[:300], reason[:300]
        locked.save(update_fields=["revoked_at", "revoked_by", "revoke_reason"])
        record_configuration(locked, actor=actor, action=REVOKED)
    return locked


def _locked(pk: int) -> StandingRule:
    rules = StandingRule.objects.select_for_update(of=("self",), no_key=True)
    return rules.select_related("queue", "agent", "made_by").get(pk=pk)


def rules_in_time(*, now: datetime) -> QuerySet[StandingRule]:
    """Return the rules that were not revoked and have not ended, oldest first."""
    rules = StandingRule.objects.filter(revoked_at=None, ends_at__gt=now)
    return rules.select_related("queue", "agent", "made_by").order_by("id")


def has_ended(rule: StandingRule, *, now: datetime) -> bool:
    return rule.revoked_at is not None or rule.ends_at <= now


def lock_rule(pk: int) -> StandingRule:
    """Lock a rule after the run and the request that it decides, and return it.

    Nothing is joined: queue, agent and person are read later, because this statement may have waited.
    """
    assert_in_transaction()
    return StandingRule.objects.select_for_update(of=("self",), no_key=True).get(pk=pk)


def next_number(rule: StandingRule) -> int:
    """Return the number of the locked rule's next decision. Raises ``RecordChanged`` if it differs from its record."""
    assert_in_transaction()
    # A new statement, which sees every use that was committed before the lock was granted.
    used = StandingRuleUse.objects.filter(rule=rule.pk).order_by("-number").values_list("number", flat=True).first()
    _refuse_changed_rule(rule)
    return (used or 0) + 1


def record_use(rule: StandingRule, decision: Decision, *, number: int) -> StandingRuleUse:
    """Record which decision the locked rule made."""
    assert_in_transaction()
    use = insert_later(StandingRuleUse(rule=rule, decision=decision, number=number))
    row_digests.collect_written_row(decision.interrupt.run.public_id, use)
    return use


def find_use(decision: Decision) -> StandingRuleUse | None:
    """Return the use behind a decision, with its rule; ``None`` if no rule made it."""
    if decision.door != BY_RULE:
        return None
    uses = StandingRuleUse.objects.select_related("rule__queue", "rule__agent", "rule__made_by", "decision")
    return uses.filter(decision=decision.pk).first()


def rule_id_of(decision: Decision) -> str:
    """Return the id of the rule that made the decision; empty for a decision of a person."""
    use = find_use(decision)
    return "" if use is None else use.rule.public_id


def find_verified_rule(decision: Decision) -> StandingRule | None:
    """Return the rule behind a decision if it was not revoked; ``None`` if it was, or if its record is missing.

    Its end and its count do not matter: they limit new decisions. Raises ``RecordChanged`` if a row was changed.
    """
    use = find_use(decision)
    if use is None or use.rule.revoked_at is not None or use.rule.made_by_id != decision.by_id:
        return None
    changed = find_changed(decision.interrupt.run, [use])
    if changed:
        raise RecordChanged(record=changed)
    _refuse_changed_rule(use.rule)
    return use.rule


def _refuse_changed_rule(rule: StandingRule) -> None:
    records = ConfigurationRecord.objects.filter(kind=KINDS[StandingRule], subject=rule.pk).order_by("-seq")
    content = records.values_list("content", flat=True).first()
    if content is None or changed_columns(rule, content):
        name = f"standing rule {rule.public_id}"
        raise RecordChanged(f"The {name} differs from its record.", record=name)


def used_count() -> Subquery:
    """Return the annotation with the number of decisions that a rule has made; ``None`` for none."""
    uses = StandingRuleUse.objects.filter(rule=OuterRef("pk")).order_by("-number")
    return Subquery(uses.values("number")[:1])
