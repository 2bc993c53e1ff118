"""The pages of standing rules: the list, a rule with its decisions, and the form with its preview.

`reviewqueue.standing_rules.administration` checks the permissions.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.contrib import messages
from django.http import HttpResponse, QueryDict
from django.urls import reverse
from django.utils.translation import gettext, gettext_lazy
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from ledger import clock
from ledger.errors import NotFound, PayloadInvalid, Refusal
from ledger.exact_json import dumps, parse
from reviewqueue import permissions
from reviewqueue.pages.code_labels import verdict_done
from reviewqueue.pages.rendering import PageRequest, not_found_if_invisible, redirect_page, render_page
from reviewqueue.queries.pagination import find_primary_key
from reviewqueue.standing_rules import administration
from reviewqueue.text.problem_texts import refusal_text, translate_problem
from runs.models import Interrupt, StandingRule
from runs.standing_rules import MAX_BOUNDS, MAX_LENGTH, MAX_USES, NUMBER_TESTS, read_number
from runs.states import Kind

PAGE_SIZE, SHOWN_DECISIONS = 50, 50
MAX_SENT = 2_000  # characters of a field that are read; the rule's own limits are shorter
LEAST_ROWS = 4  # of bounds in the form, so that it works without JavaScript
TEST_LABELS = {
    "below": gettext_lazy("below"),
    "at_most": gettext_lazy("at most"),
    "at_least": gettext_lazy("at least"),
    "above": gettext_lazy("above"),
    "equals": gettext_lazy("equal to"),
}
FIELDS = ("queue", "agent", "reason", "call", "max_uses", "ends_at", "note")


@dataclass(frozen=True, kw_only=True)
class ShownRule:
    """A rule with the texts of its bounds and its status."""

    rule: StandingRule
    used: int
    bounds: list[str]
    status: str
    label: str


@dataclass(frozen=True, kw_only=True)
class BoundRow:
    """A row of bounds in the form, as texts, and what is wrong with it."""

    pointer: str = ""
    test: str = "at_most"
    value: str = ""
    fault: str = ""


def _shown(rule: Any, *, now: datetime) -> ShownRule:
    status = administration.status_of(rule, now=now)
    bounds = [f"{bound['pointer']} {TEST_LABELS[bound['test']]} {_value_text(**bound)}" for bound in rule.bounds]
    return ShownRule(
        rule=rule,
        used=rule.used or 0,
        bounds=bounds,
        status=status,
        label=gettext(administration.STATUS_LABELS[status]),
    )


def _value_text(test: str, value: Any, **_more: Any) -> str:
    """Return a number as it is, and the value of an equality as JSON: ``"20"`` is a text and ``20`` a number."""
    return value if isinstance(value, str) and test in NUMBER_TESTS else dumps(value)


# --- lists ------------------------------------------------------------------------------------------------------------


@require_safe
@not_found_if_invisible
def rules(request: PageRequest) -> HttpResponse:
    """List the rules that the reader can see, newest first."""
    found, now = administration.visible_rules(request.user), clock.now()
    after = request.GET.get("after", "")
    place = find_primary_key(StandingRule, after) if after else None
    rows = list((found.filter(pk__lt=place) if place else found)[: PAGE_SIZE + 1])
    context = {
        "section": "inbox",
        "now": now,
        "rules": [_shown(row, now=now) for row in rows[:PAGE_SIZE]],
        "next": rows[PAGE_SIZE - 1].public_id if len(rows) > PAGE_SIZE else "",
        "may_add": permissions.led_queues(request.user).exists(),
    }
    return render_page(request, "standing_rules/page.html", context)


@require_safe
@not_found_if_invisible
def rule(request: PageRequest, rule_id: str) -> HttpResponse:
    """Show a rule, its newest decisions, and the form that revokes it."""
    return _rule_page(request, administration.find_rule(request.user, rule_id))


def _rule_page(request: PageRequest, found: StandingRule, *, problem: str = "", status: int = 200) -> HttpResponse:
    now = clock.now()
    shown = _shown(found, now=now)
    context = {
        "section": "inbox",
        "now": now,
        "shown": shown,
        "rule": found,
        "decisions": administration.decisions_of(request.user, found, limit=SHOWN_DECISIONS),
        "may_revoke": found.revoked_at is None and administration.may_revoke(request.user, found),
        "problem": problem,
    }
    return render_page(request, "standing_rules/rule.html", context, status=status)


@require_POST
@not_found_if_invisible
def revoke(request: PageRequest, rule_id: str) -> HttpResponse:
    """Revoke a rule."""
    try:
        revoked = administration.revoke_rule(request.user, rule_id, reason=_text(request.POST, "reason"))
    except NotFound:
        raise
    except PayloadInvalid as refused:
        found = administration.find_rule(request.user, rule_id)
        problem = _("The reason {problem}.").format(problem=refused.errors[0].message)
        return _rule_page(request, found, problem=problem, status=422)
    except Refusal as refusal:
        found = administration.find_rule(request.user, rule_id)
        return _rule_page(request, found, problem=refusal_text(refusal), status=403)
    done = _("The standing rule {id} is revoked. People decide its requests again.")
    messages.success(request, done.format(id=revoked.public_id))
    return redirect_page(request, reverse("standing-rule", args=[revoked.public_id]))


# --- the form ---------------------------------------------------------------------------------------------------------


@require_http_methods(["GET", "HEAD", "POST"])
@not_found_if_invisible
def new_rule(request: PageRequest) -> HttpResponse:
    """Show the form of a rule, empty or filled in from a request; preview it; add it."""
    if not permissions.led_queues(request.user).exists():
        raise NotFound
    if request.method != "POST":
        texts, rows = _from_request(_example(request))
        return _form_page(request, texts, rows)
    texts = {name: _text(request.POST, name) for name in FIELDS}
    rows = _posted_rows(request.POST)
    try:
        terms = _read_terms(texts, rows)
        if request.POST.get("act") != "save":
            preview = administration.preview_rule(request.user, **terms)
            return _form_page(request, texts, rows, preview=preview)
        made = administration.add_rule(request.user, **terms)
    except NotFound:
        raise
    except PayloadInvalid as refused:
        faults = {problem.pointer.lstrip("/"): _fault_text(problem.message) for problem in refused.errors}
        return _form_page(request, texts, rows, faults=faults)
    except Refusal as refusal:
        return _form_page(request, texts, rows, problem=refusal_text(refusal))
    done = _("The standing rule {id} decides from now on. You can revoke it at any time.")
    messages.success(request, done.format(id=made.public_id))
    return redirect_page(request, reverse("standing-rule", args=[made.public_id]))


def _form_page(
    request: PageRequest,
    texts: dict[str, str],
    rows: list[BoundRow],
    *,
    preview: administration.RulePreview | None = None,
    faults: dict[str, str] | None = None,
    problem: str = "",
) -> HttpResponse:
    led, faults = list(permissions.led_queues(request.user)), faults or {}
    marked = [
        BoundRow(
            pointer=row.pointer,
            test=row.test,
            value=row.value,
            fault=" ".join(message for at, message in faults.items() if at.startswith(f"bounds/{place}/")),
        )
        for place, row in enumerate(row for row in rows if row.pointer or row.value)
    ]
    empty = [BoundRow() for __ in range(min(MAX_BOUNDS, max(LEAST_ROWS, len(marked) + 2)) - len(marked))]
    example = _example(request)
    context = {
        "section": "inbox",
        "example": example,
        "unbound": [] if example is None else _unbound(example, rows),
        "texts": texts,
        "rows": [*marked, *empty],
        "tests": list(TEST_LABELS.items()),
        "queues": [queue.slug for queue in led],
        "agents": list(administration.agents_of_queues(led).values_list("slug", flat=True)),
        "max_uses": MAX_USES,
        "max_days": MAX_LENGTH.days,
        "preview": preview,
        "verdicts": [] if preview is None else _verdict_texts(preview),
        "faults": faults,
        "problem": problem or (_("Some fields are not valid.") if faults else ""),
    }
    is_refused = bool(faults or problem)
    return render_page(request, "standing_rules/form.html", context, status=422 if is_refused else 200)


def _fault_text(message: str) -> str:
    """Return what is wrong with a field, as a sentence."""
    return _("It {problem}.").format(problem=translate_problem(message))


def _verdict_texts(preview: administration.RulePreview) -> list[str]:
    return [f"{count} {verdict_done(verdict)}" for verdict, count in preview.verdicts.items()]


def _example(request: PageRequest) -> Interrupt | None:
    """Return the request that the form was made from, if the reader can see it."""
    interrupt_id = _text(request.POST if request.method == "POST" else request.GET, "interrupt")
    interrupt = permissions.visible_interrupt(request.user, interrupt_id) if interrupt_id else None
    return None if interrupt is None or interrupt.kind != Kind.APPROVAL or interrupt.queue is None else interrupt


def _from_request(interrupt: Interrupt | None) -> tuple[dict[str, str], list[BoundRow]]:
    """Return the form for requests like this one: each member of its call is a bound that the lead can loosen."""
    ends_at = (clock.now() + timedelta(days=7)).replace(second=0, microsecond=0)
    texts = dict.fromkeys(FIELDS, "") | {"max_uses": "50", "ends_at": f"{ends_at.astimezone(UTC):%Y-%m-%dT%H:%M}"}
    if interrupt is None or interrupt.queue is None:
        return texts, []
    texts |= {"queue": interrupt.queue.slug, "agent": interrupt.agent.slug, "reason": interrupt.reason}
    texts["call"] = interrupt.proposal["name"]
    rows = [row for name, value in _members(interrupt).items() for row in _rows_of(name, value)]
    return texts, rows[:MAX_BOUNDS]


def _members(interrupt: Interrupt) -> dict[str, Any]:
    members = interrupt.proposal["arguments"]
    return members if isinstance(members, dict) else {}


def _unbound(interrupt: Interrupt, rows: list[BoundRow]) -> list[str]:
    """Return the names of the members of the call that no row limits."""
    limited = {row.pointer for row in rows}
    return [name for name in _members(interrupt) if _pointer_to(name) not in limited]


def _pointer_to(name: str) -> str:
    return f"/arguments/{name.replace('~', '~0').replace('/', '~1')}"


def _rows_of(name: str, value: Any) -> list[BoundRow]:
    """Return the rows for a member, two for a number that is not negative.

    None for an object or array, and for the value of a member that is named like a secret.
    """
    number = read_number(value)
    is_secret = number is None and administration.names_secret(_pointer_to(name))
    if is_secret or isinstance(value, dict | list):
        return []
    row = _row_of(name, value)
    least = number is not None and number >= 0
    return [row, BoundRow(pointer=row.pointer, test="at_least", value="0")] if least else [row]


def _row_of(name: str, value: Any) -> BoundRow:
    pointer = _pointer_to(name)
    number = read_number(value)
    if number is not None:
        return BoundRow(pointer=pointer, test="at_most", value=f"{number:f}")
    text = dumps(value)
    is_plain = isinstance(value, str) and value.isprintable() and _json_value(value) == value
    return BoundRow(pointer=pointer, test="equals", value=value if is_plain else text)


def _posted_rows(form: QueryDict) -> list[BoundRow]:
    pointers, tests, values = (form.getlist(name)[:MAX_BOUNDS] for name in ("pointer", "test", "value"))
    rows = [
        BoundRow(pointer=_clean(pointer), test=_clean(test), value=_clean(value))
        for pointer, test, value in zip(pointers, tests, values, strict=False)
    ]
    return [row for row in rows if row.pointer or row.value]


def _read_terms(texts: dict[str, str], rows: list[BoundRow]) -> administration.StatedTerms:
    """Return what the form states. Raises ``PayloadInvalid`` for a text that is no number or time."""
    uses, ends_at = texts["max_uses"], None
    if not (uses.isascii() and uses.isdecimal() and len(uses) < 6):
        raise PayloadInvalid.at("/max_uses", "must be a whole number")
    try:
        ends_at = datetime.strptime(texts["ends_at"], "%Y-%m-%dT%H:%M").replace(tzinfo=UTC)
    except ValueError:
        raise PayloadInvalid.at("/ends_at", "must be a date and a time, such as 2026-12-24T18:00") from None
    for name in ("reason", "call"):
        if not texts[name]:
            raise PayloadInvalid.at(f"/{name}", "is missing")
    return {
        "queue": texts["queue"],
        "agent": texts["agent"],
        "reason": texts["reason"],
        "call": texts["call"],
        "note": texts["note"],
        "bounds": [{"pointer": row.pointer, "test": row.test, "value": _bound_value(row)} for row in rows],
        "max_uses": int(uses),
        "ends_at": ends_at,
    }


def _bound_value(row: BoundRow) -> Any:
    return row.value.strip() if row.test in NUMBER_TESTS else _json_value(row.value)


def _json_value(text: str) -> Any:
    """Return the number, boolean, null or quoted text that the text is in JSON; otherwise the text itself."""
    try:
        value = parse(text)
    except PayloadInvalid:
        return text
    return text if isinstance(value, dict | list) else value


def _text(form: QueryDict, name: str) -> str:
    return _clean(form.get(name, "")).strip()


def _clean(text: str) -> str:
    return text.replace("\0", "")[:MAX_SENT]
