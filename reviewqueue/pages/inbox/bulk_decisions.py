"""Several waits decided with one press: exactly those that were selected, each by the ordinary gateway, a word for each.

Reached from the inbox. The page lists what would be decided and what is left out, and why; a GET decides nothing. The POST
looks at every wait again and hands one answer for each to ``gateway.submit_decision``: there is no other way in here. A key
for each wait makes a second press the same decision.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal, localcontext

from django.contrib.auth.models import AbstractUser
from django.http import HttpResponse, QueryDict
from django.views.decorators.http import require_http_methods

from ledger import clock
from ledger.errors import Refusal
from reviewqueue import gateway, reviewer_actions
from reviewqueue.gateway import Seen
from reviewqueue.pages import code_labels
from reviewqueue.pages.inbox.bulk_eligibility import TOGETHER
from reviewqueue.pages.inbox.inbox_list import ShownRow, shown_rows
from reviewqueue.pages.inbox.list_request import address, read_list
from reviewqueue.pages.rendering import PageRequest, show
from reviewqueue.queries import inbox
from runs.decisions import MESSAGE_LIMIT, Answer
from runs.models import Decision
from runs.states import DecisionStatus, Verdict
from runs.use_cases.end_run import would_end_run

MOST = 100
_EXACT = 2_000  # digits: no sum of numbers that may be stored has more, so none is rounded
_ID = re.compile(r"[a-z]{1,8}_[a-z0-9]{1,40}")
_KEY = re.compile(r"[A-Za-z0-9_-]{8,60}")


@dataclass(frozen=True, kw_only=True)
class Picked:
    """One selected wait; ``row`` is missing where the person may see none of that name. ``why``: why it is left out."""

    interrupt_id: str
    row: ShownRow | None
    why: str
    key: str


@dataclass(frozen=True, kw_only=True)
class Told:
    """What became of one wait."""

    picked: Picked
    words: str
    decision: Decision | None = None
    undo_until: datetime | None = None

    @property
    def done(self) -> str:
        """Return what was done to the wait itself: nothing that it allows is done yet."""
        if self.decision is None:
            return "left waiting"
        if self.decision.status == DecisionStatus.COUNTED:
            return "vote counted"
        return code_labels.VERDICT_DONE.get(self.decision.verdict, "answered")


@require_http_methods(["GET", "HEAD", "POST"])
def together(request: PageRequest) -> HttpResponse:
    """List the selected waits; by POST, decide them."""
    asked = request.POST if request.method == "POST" else request.GET
    now = clock.now()
    ids = [one for one in dict.fromkeys(asked.getlist("interrupt")) if _ID.fullmatch(one)]
    picked = _picked(request.user, ids[:MOST], asked, now=now)
    verdict, message, wrong = "", "", ""
    if request.method == "POST":
        verdict, message = asked.get("verdict", ""), asked.get("message", "").replace("\r\n", "\n")
        wrong = _fault(asked.get("act", ""), verdict, message)
        if not wrong and ids:
            told = [_decide(one, verdict, message, asked, reader=request.user) for one in picked]
            context = {"told": told, "done": sum(1 for one in told if one.decision), "back": _back(asked)}
            return show(request, "inbox/bulk_result.html", context | {"section": "inbox", "now": clock.now()})
    able = [one for one in picked if not one.why]
    context = {
        "section": "inbox",
        "now": now,
        "able": able,
        "left": [one for one in picked if one.why],
        "too_many": len(ids) - MOST if len(ids) > MOST else 0,
        "total": _total(able),
        "ended": sum(1 for one in able if one.row is not None and would_end_run(one.row.interrupt, Verdict.REJECT)),
        "verdict": verdict if verdict in TOGETHER else "",
        "message": message,
        "wrong": wrong,
        "list": asked.get("list", "")[:1000],
        "back": _back(asked),
    }
    return show(request, "inbox/bulk_decision.html", context, status=422 if wrong else 200)


def _picked(reader: AbstractUser, ids: list[str], asked: QueryDict, *, now: datetime) -> list[Picked]:
    """Return the selected waits in the inbox's order, then those that nobody of that name can be shown."""
    rows = shown_rows(inbox.pick_waits(reader, ids, now=now), reader=reader, now=now)
    found = {row.interrupt.public_id: row for row in rows}
    missing = "There is no such wait, or it is not yours to see."
    return [
        Picked(
            interrupt_id=one,
            row=found.get(one),
            why=found[one].why_alone if one in found else missing,
            key=_key(asked.get(f"key-{one}", "")),
        )
        for one in [*found, *(one for one in ids if one not in found)]
    ]


def _key(sent: str) -> str:
    return sent if _KEY.fullmatch(sent) else secrets.token_urlsafe(16)


def _fault(act: str, verdict: str, message: str) -> str:
    """Say why nothing was decided, where the form is not complete."""
    if verdict not in TOGETHER:
        return "Choose what you decide first. Nothing was sent."
    if act != verdict:
        return f"You chose “{verdict}”. Press its own button to do that; nothing was sent."
    if len(message) > MESSAGE_LIMIT:
        return f"The note is longer than {MESSAGE_LIMIT} characters. Nothing was sent."
    return "The note holds a character that cannot be stored. Nothing was sent." if "\x00" in message else ""


def _decide(one: Picked, verdict: str, message: str, asked: QueryDict, *, reader: AbstractUser) -> Told:
    row = one.row
    if row is not None and row.decision is not None and row.decision.request_key == one.key:
        return _told(one, row.decision)  # pressed twice: the first press decided it
    if row is None or one.why:
        return Told(picked=one, words=one.why)
    version = asked.get(f"version-{one.interrupt_id}", "")
    seen = Seen(
        state_version=int(version) if version.isascii() and version.isdigit() and len(version) < 10 else 0,
        content_digest=asked.get(f"digest-{one.interrupt_id}", "")[:80],
    )
    try:
        receipt = gateway.submit_decision(
            responder=reader,
            interrupt_id=one.interrupt_id,
            answer=Answer(verdict=verdict, message=message),
            seen=seen,
            door="page",
            request_key=one.key,
        )
    except Refusal as refusal:
        return Told(picked=one, words=f"Not decided: {refusal.detail}")
    return _told(one, receipt.decision)


def _told(one: Picked, decision: Decision) -> Told:
    done = code_labels.VERDICT_DONE.get(decision.verdict, "answered").capitalize()
    if decision.status == DecisionStatus.COUNTED:
        return Told(picked=one, words=f"{done}: your vote counts, others have to join.", decision=decision)
    until = reviewer_actions.undo_deadline(decision)
    undo_until = until if until is not None and clock.now() < until else None
    since = " A change has overtaken it since." if decision.status == DecisionStatus.OVERTAKEN else ""
    return Told(picked=one, words=f"{done}.{since}", decision=decision, undo_until=undo_until)


def _total(able: list[Picked]) -> tuple[Decimal, str] | None:
    """Return the sum of all amounts, where every wait has one in the same unit."""
    amounts = [one.row.amount for one in able if one.row is not None and one.row.amount is not None]
    if len(amounts) != len(able) or len({amount.unit for amount in amounts}) != 1:
        return None
    with localcontext(prec=_EXACT):
        return sum((Decimal(str(amount.value)) for amount in amounts), Decimal(0)), amounts[0].unit


def _back(asked: QueryDict) -> str:
    """Return the list that the person came from."""
    before = read_list(QueryDict(asked.get("list", "")[:1000]))
    return address(before.view, before.filters, before.after)
