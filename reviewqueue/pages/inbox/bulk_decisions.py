"""The pages of a bulk decision: the same verdict for each selected request, submitted one by one through the gateway.

A GET lists the requests that can be decided and the excluded ones with the reason. The POST checks each request again and
submits one decision each. An idempotency key for each request makes a second submit return the same decisions. The result
page can undo all of them, each on its own.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal, localcontext

from django.contrib.auth.models import AbstractUser
from django.http import HttpResponse, QueryDict
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop
from django.views.decorators.http import require_http_methods, require_POST

from ledger import clock
from ledger.errors import NotFound, Refusal
from reviewqueue import resume_gateway, reviewer_actions
from reviewqueue.pages import code_labels
from reviewqueue.pages.inbox.bulk_eligibility import TOGETHER
from reviewqueue.pages.inbox.inbox_list import ShownRow, shown_rows
from reviewqueue.pages.inbox.list_request import address, read_list_text
from reviewqueue.pages.rendering import PageRequest, render_page
from reviewqueue.queries import inbox
from reviewqueue.resume_gateway import ShownVersion
from reviewqueue.text.problem_texts import refusal_text
from runs.decisions import MESSAGE_LIMIT, Answer
from runs.models import Decision
from runs.states import DecisionStatus, Verdict
from runs.use_cases.end_run import ends_run_on_verdict

MOST = 100
_EXACT = 2_000  # digits: a sum of storable numbers has at most as many, so it is never rounded
_ID = re.compile(r"[a-z]{1,8}_[a-z0-9]{1,40}")
_KEY = re.compile(r"[A-Za-z0-9_-]{8,60}")
_MISSING = gettext_noop("This request does not exist, or you cannot see it.")


@dataclass(frozen=True, kw_only=True)
class SelectedRequest:
    """One selected request. ``row`` is ``None`` if the reader cannot see it; ``why`` is the reason for its exclusion."""

    interrupt_id: str
    row: ShownRow | None
    why: str
    key: str


@dataclass(frozen=True, kw_only=True)
class BulkResult:
    """The result for one request."""

    selected: SelectedRequest
    text: str
    decision: Decision | None = None
    undo_until: datetime | None = None
    is_undone: bool = False

    @property
    def done(self) -> str:
        """Return what was done to the request; the call that it allows is not made yet."""
        if self.is_undone:
            return _("undone")
        if self.decision is None:
            return _("not decided")
        if self.decision.status == DecisionStatus.COUNTED:
            return _("vote counted")
        return code_labels.verdict_done(self.decision.verdict)


@require_http_methods(["GET", "HEAD", "POST"])
def together(request: PageRequest) -> HttpResponse:
    """List the selected requests; by POST, decide them."""
    asked = request.POST if request.method == "POST" else request.GET
    now = clock.now()
    ids = [one for one in dict.fromkeys(asked.getlist("interrupt")) if _ID.fullmatch(one)]
    selected = _select(request.user, ids[:MOST], asked, now=now)
    verdict, message, wrong = "", "", ""
    if request.method == "POST":
        verdict, message = asked.get("verdict", ""), asked.get("message", "").replace("\r\n", "\n")
        wrong = _fault(asked.get("act", ""), verdict, message)
        if not wrong and ids:
            results = [_decide(one, verdict, message, asked, reader=request.user) for one in selected]
            done = sum(1 for one in results if one.decision)
            return _show_results(
                request, results, title=_("{done} of {number} decided").format(done=done, number=len(results))
            )
    able = [one for one in selected if not one.why]
    context = {
        "section": "inbox",
        "now": now,
        "able": able,
        "left": [one for one in selected if one.why],
        "too_many": len(ids) - MOST if len(ids) > MOST else 0,
        "total": _total(able),
        "ended": sum(
            1 for one in able if one.row is not None and ends_run_on_verdict(one.row.interrupt, Verdict.REJECT)
        ),
        "verdict": verdict if verdict in TOGETHER else "",
        "message": message,
        "wrong": wrong,
        "list": asked.get("list", "")[:1000],
        "back": _back(asked),
    }
    return render_page(request, "inbox/bulk_decision.html", context, status=422 if wrong else 200)


def _show_results(request: PageRequest, results: list[BulkResult], *, title: str) -> HttpResponse:
    undoable = [one for one in results if one.undo_until]
    context = {
        "section": "inbox",
        "now": clock.now(),
        "results": results,
        "title": title,
        "undoable": undoable if len(undoable) > 1 else [],
        "undo_until": max((one.undo_until for one in undoable if one.undo_until), default=None),
        "list": request.POST.get("list", "")[:1000],
        "back": _back(request.POST),
    }
    return render_page(request, "inbox/bulk_result.html", context)


@require_POST
def undo_together(request: PageRequest) -> HttpResponse:
    """Undo the reader's decisions that the form names, each on its own, and list the results."""
    named = [one for one in dict.fromkeys(request.POST.getlist("decision")) if _ID.fullmatch(one)][:MOST]
    found = Decision.objects.filter(public_id__in=named, by=request.user.pk).values_list(
        "public_id", "interrupt__public_id"
    )
    decided = dict(found)
    ids = list(dict.fromkeys(decided[one] for one in named if one in decided))
    results = [_undo(one, reader=request.user) for one in _select(request.user, ids, QueryDict(), now=clock.now())]
    done = sum(1 for one in results if one.is_undone)
    return _show_results(request, results, title=_("{done} of {number} undone").format(done=done, number=len(results)))


def _undo(one: SelectedRequest, *, reader: AbstractUser) -> BulkResult:
    try:
        reviewer_actions.undo_decision(responder=reader, interrupt_id=one.interrupt_id)
    except NotFound:
        return BulkResult(selected=one, text=_("Not undone: {detail}").format(detail=_(_MISSING)))
    except Refusal as refusal:
        return BulkResult(selected=one, text=_("Not undone: {detail}").format(detail=refusal_text(refusal)))
    return BulkResult(selected=one, text=_("Undone. The request is open again."), is_undone=True)


def _select(reader: AbstractUser, ids: list[str], asked: QueryDict, *, now: datetime) -> list[SelectedRequest]:
    """Return the selected requests in the order of the inbox, then those that the reader cannot see."""
    rows = shown_rows(inbox.list_selected_requests(reader, ids, now=now), reader=reader, now=now)
    found = {row.interrupt.public_id: row for row in rows}
    return [
        SelectedRequest(
            interrupt_id=one,
            row=found.get(one),
            why=found[one].why_alone if one in found else _(_MISSING),
            key=_key(asked.get(f"key-{one}", "")),
        )
        for one in [*found, *(one for one in ids if one not in found)]
    ]


def _key(sent: str) -> str:
    return sent if _KEY.fullmatch(sent) else secrets.token_urlsafe(16)


def _fault(act: str, verdict: str, message: str) -> str:
    """Return why nothing was decided, if the form is incomplete."""
    if verdict not in TOGETHER:
        return _("Choose a verdict first. Nothing was submitted.")
    if act != verdict:
        return _("You chose “{verdict}”. Press its button to submit it. Nothing was submitted.").format(verdict=verdict)
    if len(message) > MESSAGE_LIMIT:
        return _("The note must have at most {message_limit} characters. Nothing was submitted.").format(
            message_limit=MESSAGE_LIMIT
        )
    return _("The note must not contain the character U+0000. Nothing was submitted.") if "\x00" in message else ""


def _decide(one: SelectedRequest, verdict: str, message: str, asked: QueryDict, *, reader: AbstractUser) -> BulkResult:
    row = one.row
    if row is not None and row.decision is not None and row.decision.request_key == one.key:
        return _result(one, row.decision)  # submitted twice: the first submit decided it
    if row is None or one.why:
        return BulkResult(selected=one, text=one.why)
    version = asked.get(f"version-{one.interrupt_id}", "")
    seen = ShownVersion(
        state_version=int(version) if version.isascii() and version.isdigit() and len(version) < 10 else 0,
        content_digest=asked.get(f"digest-{one.interrupt_id}", "")[:80],
    )
    try:
        receipt = resume_gateway.submit_decision(
            responder=reader,
            interrupt_id=one.interrupt_id,
            answer=Answer(verdict=verdict, message=message),
            seen=seen,
            door="page",
            request_key=one.key,
        )
    except Refusal as refusal:
        return BulkResult(selected=one, text=_("Not decided: {detail}").format(detail=refusal_text(refusal)))
    return _result(one, receipt.decision)


def _result(one: SelectedRequest, decision: Decision) -> BulkResult:
    done = code_labels.verdict_done(decision.verdict).capitalize()
    if decision.status == DecisionStatus.COUNTED:
        return BulkResult(
            selected=one,
            text=_("{done}: your vote is counted, more approvals are needed.").format(done=done),
            decision=decision,
        )
    until = reviewer_actions.get_undo_deadline(decision)
    undo_until = until if until is not None and clock.now() < until else None
    since = " " + _("A later change has superseded it.") if decision.status == DecisionStatus.OVERTAKEN else ""
    return BulkResult(selected=one, text=f"{done}.{since}", decision=decision, undo_until=undo_until)


def _total(able: list[SelectedRequest]) -> tuple[Decimal, str] | None:
    """Return the sum of all amounts, if every request has one in the same unit."""
    amounts = [one.row.amount for one in able if one.row is not None and one.row.amount is not None]
    if len(amounts) != len(able) or len({amount.unit for amount in amounts}) != 1:
        return None
    with localcontext(prec=_EXACT):
        return sum((Decimal(str(amount.value)) for amount in amounts), Decimal(0)), amounts[0].unit


def _back(asked: QueryDict) -> str:
    """Return the address of the list that the reader came from."""
    before = read_list_text(asked.get("list", ""))
    return address(before.view, before.filters, before.after)
