"""Browse a large stored value: every leaf with its path, paged and searched on the server, without JavaScript.

Other pages show large values in part and link here. A page has at most ``ROWS`` leaves and ``BYTES`` bytes of HTML; a longer
text continues on the next page. The same address with ``?as=json`` returns the exact JSON text as a download.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any
from urllib.parse import urlencode

from django.http import Http404, HttpResponse
from django.urls import reverse
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop
from django.views.decorators.http import require_safe

from ledger import exact_json
from reviewqueue import resume_gateway
from reviewqueue.pages.rendering import PageRequest, not_found_if_invisible, render_page
from reviewqueue.queries import dead_letters, page_queries
from reviewqueue.text.hidden_characters import render_within
from reviewqueue.text.json_values import Budget, render_json, size_label
from reviewqueue.text.numbers import number_label
from runs.models import Comment, Fact, Interrupt
from runs.schemas.traversal import join_pointer

ROWS = 100
BYTES = 64 * 1024
LONGEST_SEARCH = 200
LONGEST_PATH = 500
_SMALL_TEXT = 1_000


#: The beginning of a heading that names the part of a request or of a decision.
_TITLES = {
    "evidence": gettext_noop("evidence of"),
    "facts": gettext_noop("facts of"),
    "message": gettext_noop("message of"),
    "comments": gettext_noop("comments of"),
    "answer": gettext_noop("answer of"),
    "edit": gettext_noop("edit of"),
    "call": gettext_noop("call of"),
}


@dataclass(frozen=True, kw_only=True)
class Leaf:
    """One value that is not a non-empty object or list, with its JSON Pointer (RFC 6901)."""

    pointer: str
    value: Any

    def contains(self, term: str) -> bool:
        """Return whether the path or the value contains a case-folded search term."""
        text = self.value if isinstance(self.value, str) else exact_json.dumps(self.value)
        return term in self.pointer.casefold() or term in text.casefold()


@dataclass(frozen=True, kw_only=True)
class Row:
    """A leaf, or a piece of a long text. ``piece``: the range of characters of a piece, else empty."""

    pointer: str
    path: str
    html: SafeString
    piece: str = ""


@dataclass(frozen=True, kw_only=True)
class Page:
    """``next``: where the next page begins, as (leaf, character); ``None`` on the last page."""

    rows: list[Row]
    next: tuple[int, int] | None


@dataclass(frozen=True, kw_only=True)
class Source:
    """A stored value with its title and the page that links to it."""

    value: Any
    title: str
    name: str
    back: str
    back_label: str


@require_safe
@not_found_if_invisible
def call(request: PageRequest, interrupt_id: str) -> HttpResponse:
    """Show the arguments of the call of a request."""
    interrupt = resume_gateway.get_visible_interrupt(request.user, interrupt_id)
    if interrupt.proposal is None:
        raise Http404
    return show_values(
        request, _of_request(interrupt, interrupt.proposal["arguments"], "", str(interrupt.proposal["name"]))
    )


@require_safe
@not_found_if_invisible
def of_request(request: PageRequest, interrupt_id: str, part: str) -> HttpResponse:
    """Show the evidence, the facts, the message or the comments of a request."""
    interrupt = resume_gateway.get_visible_interrupt(request.user, interrupt_id)
    readers = {"evidence": _evidence, "facts": _facts, "message": _message, "comments": _comments}
    if part not in readers:
        raise Http404
    return show_values(request, _of_request(interrupt, readers[part](interrupt), _(_TITLES[part]), _("the request")))


@require_safe
@not_found_if_invisible
def of_decision(request: PageRequest, decision_id: str, part: str) -> HttpResponse:
    """Show the call or the answer of a decision."""
    screen = page_queries.get_receipt_page(request.user, decision_id)
    decision, permit = screen.decision, screen.permit
    allowed = permit.call if permit is not None else screen.interrupt.proposal
    values = {"answer": decision.input, "edit": decision.arguments, "call": (allowed or {}).get("arguments")}
    if values.get(part) is None:
        raise Http404
    back = reverse("decision", args=[decision.public_id])
    return show_values(
        request,
        Source(value=values[part], title=_(_TITLES[part]), name=_("the decision"), back=back, back_label=_("Receipt")),
    )


@require_safe
@not_found_if_invisible
def of_effect(request: PageRequest, run_id: str, effect_id: str) -> HttpResponse:
    """Show the call of an effect, its receipt and its error."""
    effect = page_queries.get_effect(request.user, run_id, effect_id)
    value = {"call": effect.call, "receipt": effect.receipt, "error": effect.error}
    back = reverse("run", args=[run_id])
    return show_values(
        request, Source(value=value, title=_("effect"), name=effect.key, back=back, back_label=_("The run"))
    )


@require_safe
@not_found_if_invisible
def of_result(request: PageRequest, run_id: str) -> HttpResponse:
    """Show the result of a run."""
    outcome = page_queries.get_outcome(request.user, run_id)
    back = reverse("run", args=[run_id])
    return show_values(
        request,
        Source(value=outcome.result, title=_("result of"), name=_("the run"), back=back, back_label=_("The run")),
    )


@require_safe
@not_found_if_invisible
def of_signal(request: PageRequest, signal_id: str) -> HttpResponse:
    """Show the body of a signal."""
    found = dead_letters.get_dead_signal(request.user, signal_id)
    back = reverse("dead-letter", args=[found.signal.public_id])
    source = Source(value=found.body, title=_("body of"), name=found.signal.type, back=back, back_label=_("The signal"))
    return show_values(request, source, section="agents")


def _of_request(interrupt: Interrupt, value: Any, title: str, name: str) -> Source:
    back = reverse("interrupt", args=[interrupt.public_id])
    return Source(value=value, title=title, name=name, back=back, back_label=_("The request"))


def _evidence(interrupt: Interrupt) -> Any:
    return interrupt.evidence


def _message(interrupt: Interrupt) -> Any:
    return interrupt.message


def _facts(interrupt: Interrupt) -> Any:
    facts = Fact.objects.filter(checkpoint=interrupt.checkpoint_id, interrupt=interrupt.pk).order_by("id")
    shared = Fact.objects.filter(checkpoint=interrupt.checkpoint_id, interrupt=None).order_by("id")
    return [{"name": fact.name, "value": fact.value, "found": fact.last_value} for fact in [*shared, *facts]]


def _comments(interrupt: Interrupt) -> Any:
    comments = Comment.objects.filter(interrupt=interrupt).select_related("person").order_by("id")
    return [
        {"at": it.created_at.isoformat(), "by": it.person.get_username(), "text": it.text} for it in comments.iterator()
    ]


def show_values(request: PageRequest, source: Source, *, section: str = "inbox") -> HttpResponse:
    """Return one page of the value, or all of it as a download."""
    if request.GET.get("as") == "json":
        return _download(source)
    term = request.GET.get("find", "")[:LONGEST_SEARCH]
    at = request.GET.get("at", "")[:LONGEST_PATH]
    found = list(enumerate(leaves(source.value)))
    if term:
        wanted = term.casefold()
        found = [(place, leaf) for place, leaf in found if leaf.contains(wanted)]
    first, character = _number(request.GET.get("from", "")), _number(request.GET.get("character", ""))
    if at:
        first = next((row for row, (__, leaf) in enumerate(found) if _is_at(leaf.pointer, at)), 0)
    page = _page([leaf for __, leaf in found], first, character)
    context = {
        "section": section,
        "source": source,
        "size": size_label(source.value),
        "find": term,
        "number": len(found),
        "page": page,
        "first_label": f"{first + 1:,}",
        "last_label": f"{min(first + len(page.rows), len(found)):,}",
        "number_label": f"{len(found):,}",
        "is_later": bool(first or character),
        "start": _address(term),
        "after": "" if page.next is None else _address(term, *page.next),
        "before": _address(term, max(0, first - ROWS)) if first else "",
    }
    return render_page(request, "interrupt/values.html", context)


def _page(found: list[Leaf], first: int, character: int) -> Page:
    """Return the rows that fit on one page, from a leaf and a character in it on."""
    rows: list[Row] = []
    left = BYTES
    for row, leaf in islice(enumerate(found), first, first + ROWS):
        start = character if row == first and isinstance(leaf.value, str) else 0
        path = leaf.pointer if len(leaf.pointer) <= LONGEST_PATH else f"{leaf.pointer[:LONGEST_PATH]}…"
        if not (isinstance(leaf.value, str) and (start or len(leaf.value) > _SMALL_TEXT)):
            html = render_json(leaf.value, budget=Budget(members=0, size=left))
            rows.append(Row(pointer=leaf.pointer[:LONGEST_PATH], path=path, html=html))
            left -= len(html) + 2 * len(path) + 200
        else:
            text, length = render_within(leaf.value[start:], max(left, 2_000))
            if length == 0 and start < len(leaf.value):
                length = 1
                text, __ = render_within(leaf.value[start : start + 1], 2_000)
            end, whole = start + length, len(leaf.value)
            piece = (
                ""
                if not start and end == whole
                else _("characters {number} to {end} of {whole}").format(
                    number=number_label(start + 1), end=number_label(end), whole=number_label(whole)
                )
            )
            html = mark_safe(f'<span class="value text"><bdi class="exact">{text}</bdi></span>')  # noqa: S308  escaped by fitting
            rows.append(Row(pointer=leaf.pointer[:LONGEST_PATH], path=path, html=html, piece=piece))
            left -= len(html) + 2 * len(path) + 200
            if end < whole:
                return Page(rows=rows, next=(row, end))
        if left <= 0:
            return Page(rows=rows, next=(row + 1, 0) if row + 1 < len(found) else None)
    after = first + len(rows)
    return Page(rows=rows, next=(after, 0) if rows and after < len(found) else None)


def _download(source: Source) -> HttpResponse:
    response = HttpResponse(exact_json.dumps(source.value), content_type="application/json; charset=utf-8")
    response["Content-Disposition"] = 'attachment; filename="value.json"'
    return response


def leaves(value: Any, pointer: str = "") -> Iterator[Leaf]:
    """Yield the leaves of a value in stored order; an empty object or list is a leaf."""
    waiting: list[tuple[str, Any]] = [(pointer, value)]
    while waiting:
        at, found = waiting.pop()
        if isinstance(found, dict) and found:
            waiting += [(join_pointer(at, name), member) for name, member in reversed(found.items())]
        elif isinstance(found, list) and found:
            waiting += [(join_pointer(at, place), found[place]) for place in range(len(found) - 1, -1, -1)]
        else:
            yield Leaf(pointer=at, value=found)


def _is_at(pointer: str, at: str) -> bool:
    return pointer == at or pointer.startswith(at + "/")


def _address(term: str, first: int = 0, character: int = 0) -> str:
    query = {"find": term, "from": first or "", "character": character or ""}
    return "?" + urlencode({name: value for name, value in query.items() if value != ""})


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 8 else 0
