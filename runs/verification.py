"""Verification: compare stored rows with the digests that the events of their run recorded, before anything relies on them.

The ``find_...`` functions return the name of a changed row or part, as ``Event.row_digests`` has it, or an empty text.
Rows from before the run's events recorded digests are only compared with each other.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.db.models import OuterRef, Q, QuerySet, Value
from django.db.models.functions import Concat, StrIndex

from ledger import prepared_queries
from ledger.digests import digest
from ledger.exact_json import ABSENT, dumps
from ledger.prepared_queries import PreparedQuery
from ledger.row_digests import CoveredRow, digest_row_part, part_name
from runs.decisions import Answer, list_accepted_votes
from runs.interrupt_requests import call_digest, stored_content_digest
from runs.models import Decision, Event, Fact, Interrupt, Permit, Run


def find_changed_permit(run: Run, permit: Permit, *, effect: str, is_new: bool) -> str:
    """Compare a permit with its call, decision, votes and request, and with the events that recorded them.

    ``effect`` is the key of the effect to begin; the permit must not have begun one of another key. ``is_new``: no
    effect of this key is stored, so no event must record that one began.
    """
    decision = permit.decision
    interrupt = decision.interrupt
    if not is_permit_as_decided(permit):
        return permit.covered_as
    if not is_decision_as_recorded(decision):
        return decision.covered_as
    if not has_its_call_digest(interrupt):
        return f"{interrupt.covered_as}.content"
    votes = list(list_accepted_votes(interrupt)) if interrupt.quorum > 1 else []
    for vote in votes:
        if not is_decision_as_recorded(vote):
            return vote.covered_as
    if len(votes) + 1 < interrupt.quorum:
        return interrupt.covered_as  # a vote is missing
    return find_changed(
        run,
        [permit, decision, interrupt, *votes],
        new_effect=effect if is_new else "",
        spent_on=(permit.public_id, effect),
    )


def find_changed_request(run: Run, interrupt: Interrupt, *, facts: list[Fact], events: list[Event]) -> str:
    """Compare a request with its own digests and the events that recorded it (``request_events``)."""
    if not is_content_as_recorded(interrupt, facts):
        return f"{interrupt.covered_as}.content"
    return find_changed(run, [interrupt], events=events)


#: The fields of an event that a comparison needs.
EVENT_FIELDS = ("seq", "type", "actor", "at", "refs", "row_digests", "prev", "digest")


def request_events() -> QuerySet[Event]:
    """Return, in a query of interrupts, the events that recorded each."""
    name = Concat(Value('"interrupt:'), OuterRef("public_id"))
    own = Event.objects.filter(run=OuterRef("run"), seq__lte=OuterRef("run__timeline_seq"))
    return own.alias(place=StrIndex("row_digests", name)).filter(place__gt=0).order_by("seq")


def is_permit_as_decided(permit: Permit) -> bool:
    """Tell whether the permit's call is the one that its decision approved, with the edited arguments if there are any."""
    decision, proposal = permit.decision, permit.decision.interrupt.proposal
    if proposal is None or decision.content_digest != decision.interrupt.content_digest:
        return False
    arguments = proposal["arguments"] if decision.arguments is None else decision.arguments
    approved = digest({"name": proposal["name"], "arguments": arguments})
    return approved == permit.digest == digest(permit.call)


def is_decision_as_recorded(decision: Decision) -> bool:
    """Tell whether a decision's content has its digest. A NULL input means no input, or JSON null."""
    arguments = ABSENT if decision.arguments is None else decision.arguments
    inputs = [ABSENT, None] if decision.input is None else [decision.input]
    verdict, message = decision.verdict, decision.message
    possible = [Answer(verdict=verdict, arguments=arguments, message=message, input=given) for given in inputs]
    return decision.digest in {answer.digest() for answer in possible}


def is_content_as_recorded(interrupt: Interrupt, facts: list[Fact] | None = None) -> bool:
    """Tell whether what a request shows has its content digest, and its proposal the digest of the call."""
    return interrupt.content_digest == stored_content_digest(interrupt, facts) and has_its_call_digest(interrupt)


def has_its_call_digest(interrupt: Interrupt) -> bool:
    """Tell whether a proposal has the digest of its call; earlier versions stored none."""
    return interrupt.call_digest in {"", call_digest(interrupt.proposal)}


def find_changed(
    run: Run,
    rows: Iterable[CoveredRow],
    *,
    new_effect: str = "",
    spent_on: tuple[str, str] = ("", ""),
    events: list[Event] | None = None,
) -> str:
    """Compare rows of the locked run with the last event that recorded each of their parts.

    ``events``: the events that name the rows, if they were read.

    No event must record that ``new_effect`` began, or that the permit of ``spent_on`` (its id, the key of its effect)
    began an effect of another key.
    """
    rows = list(rows)
    if not rows:
        return ""
    permit, its_effect = spent_on
    names = {f"row_{place}": f'"{row.covered_as}' for place, row in enumerate(rows)}
    recorded: dict[str, str] = {}
    if new_effect:
        names["begun"] = f'"effect":{dumps(new_effect)}'
    if permit:
        names["permit"] = f'"permit":{dumps(permit)}'
    if events is None:
        naming = _naming(len(rows), new_effect=bool(new_effect), permit=bool(permit))
        events = naming.all(run=run.pk, last=run.timeline_seq, **names)
    for event in events:
        if digest(event.covered()) != event.digest:
            return f"event:{event.seq}"
        if event.type == "effect.begun" and _must_not_have_begun(event.refs, new_effect, permit, its_effect):
            return f"effect:{event.refs['effect']}"
        recorded |= event.row_digests or {}
    since = functools.cache(functools.partial(time_of_last_event_without_digest, run))
    return next(iter(list_changed_parts(rows, recorded, since=since)), "")


def _must_not_have_begun(begun: dict[str, Any], new_effect: str, permit: str, its_effect: str) -> bool:
    key: str = begun["effect"]
    return key == new_effect or (bool(permit) and begun.get("permit") == permit and key != its_effect)


def list_changed_parts(rows: Iterable[CoveredRow], recorded: dict[str, str], *, since: Any) -> Iterable[str]:
    """Yield the names of the parts that differ from their recorded digest, or have none.

    ``since()`` returns the time until which the run's events recorded no digests, if any. Rows created until then need
    none.
    """
    for row in rows:
        for part in row.covered_parts:
            name = part_name(row, part)
            kept = recorded.get(name)
            if kept is None:
                until = since()
                if until is None or _created_at(row) > until:
                    yield name
            elif kept != digest_row_part(row, part):
                yield name


def time_of_last_event_without_digest(run: Run) -> datetime | None:
    """Return the time of the run's last event without row digests; ``None`` when there is none.

    An event whose row digests were erased does not match its own digest, so it exempts no row.
    """
    last = run.events.filter(row_digests=None).order_by("-seq").first()
    return last.at if last and digest(last.covered()) == last.digest else None


def _created_at(row: Any) -> datetime:
    if isinstance(row, Permit):
        row = row.decision
    at: datetime = row.at if hasattr(row, "at") else row.created_at
    return at


@functools.cache
def _naming(count: int, *, new_effect: bool, permit: bool) -> PreparedQuery[Event]:
    """Return the query of a run's events that recorded one of so many rows, or are about an effect or a permit."""

    def events() -> Any:
        places: dict[str, Any] = {
            f"row_{place}": StrIndex("row_digests", prepared_queries.text_parameter(f"row_{place}"))
            for place in range(count)
        }
        if new_effect:
            places["begun"] = StrIndex("refs", prepared_queries.text_parameter("begun"))
        if permit:
            places["permit"] = StrIndex("refs", prepared_queries.text_parameter("permit"))
        named = functools.reduce(operator.or_, [Q(**{f"at_{name}__gt": 0}) for name in places])
        own = Event.objects.filter(
            run=prepared_queries.int_parameter("run"), seq__lte=prepared_queries.int_parameter("last")
        )
        return own.alias(**{f"at_{name}": place for name, place in places.items()}).filter(named).order_by("seq")

    return PreparedQuery(events)
