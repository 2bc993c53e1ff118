"""The page of the audit log, with filters, and its export as CSV or JSON."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from tempfile import SpooledTemporaryFile
from typing import Any

from django.http import FileResponse, HttpResponse, HttpResponseBase, QueryDict
from django.urls import reverse
from django.utils.translation import gettext
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from ledger.errors import NotFound
from reviewqueue import permissions
from reviewqueue.pages.empty_state import EmptyState
from reviewqueue.pages.rendering import PageRequest, not_found_if_invisible, render_page
from reviewqueue.queries import audit_log
from reviewqueue.queries.audit_log import AuditFilters, ChangedMember
from runs.configuration_history import KIND_LABELS
from runs.models import ConfigurationRecord

NAMES = ("kind", "agent", "queue", "actor", "since", "until")
MAX_LENGTH = 150
IN_MEMORY = 1024 * 1024  # bytes


@dataclass(frozen=True, kw_only=True)
class ShownRecord:
    """One change with the members that differ."""

    record: ConfigurationRecord
    id: str
    kind: str
    name: str
    members: list[ChangedMember]


@dataclass(frozen=True, kw_only=True)
class AskedList:
    """The filters as texts of the form, the same as values, and what was ignored."""

    texts: dict[str, str]
    filters: AuditFilters
    ignored: list[str]

    def query(self, **more: str) -> str:
        query = QueryDict(mutable=True)
        query.update({name: value for name, value in {**self.texts, **more}.items() if value})
        return query.urlencode()


@require_safe
@not_found_if_invisible
def audit_page(request: PageRequest) -> HttpResponse:
    """List the changes that the reader can see, newest first."""
    _refuse_others(request)
    asked, after = read_asked(request.GET), request.GET.get("after", "")
    records = audit_log.filter_records(audit_log.visible_records(request.user), asked.filters)
    older = audit_log.older_than(records, after)
    found = list((records if older is None else older)[: audit_log.PAGE_SIZE + 1])
    shown = found[: audit_log.PAGE_SIZE]
    last = audit_log.record_id(shown[-1]) if len(found) > len(shown) else ""
    context = {
        "section": "agents",
        "records": [_shown(record) for record in shown],
        "asked": asked,
        "kinds": [(kind, gettext(label)) for kind, label in KIND_LABELS.items()],
        "agents": _slugs(permissions.owned_agents(request.user), asked.texts["agent"]),
        "queues": _slugs(permissions.owned_queues(request.user), asked.texts["queue"]),
        "most": audit_log.MAX_EXPORTED,
        "first_url": _address(asked.query()),
        "next_url": _address(asked.query(after=last)) if last else "",
        "is_continued": older is not None,
        "empty": None if shown else _empty(asked),
    }
    return render_page(request, "audit_log/page.html", context)


@require_safe
@not_found_if_invisible
def audit_csv(request: PageRequest) -> HttpResponseBase:
    """Send the listed changes as CSV."""
    return _file(audit_log.csv_lines(_records_asked(request)), kind="text/csv; charset=utf-8", name="audit.csv")


@require_safe
@not_found_if_invisible
def audit_json(request: PageRequest) -> HttpResponseBase:
    """Send the listed changes as a JSON list."""
    return _file(audit_log.json_parts(_records_asked(request)), kind="application/json", name="audit.json")


def _records_asked(request: PageRequest) -> Any:
    _refuse_others(request)
    return audit_log.filter_records(audit_log.visible_records(request.user), read_asked(request.GET).filters)


def _file(parts: Iterable[str], *, kind: str, name: str) -> HttpResponseBase:
    """Send a download. A large one is on the disk, so that it needs neither memory nor the database while it is sent."""
    content = SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115  the response closes it
    for part in parts:
        content.write(part.encode())
    is_small = content.tell() <= IN_MEMORY
    content.seek(0)
    if not is_small:
        return FileResponse(content, as_attachment=True, filename=name, content_type=kind)
    with content:
        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
        return HttpResponse(content.read(), content_type=kind, headers=headers)


def _refuse_others(request: PageRequest) -> None:
    if not audit_log.can_read(request.user):
        raise NotFound


def read_asked(query: QueryDict) -> AskedList:
    """Parse the query. A filter that is not valid is ignored and named."""
    texts = {name: query.get(name, "").replace("\0", "")[:MAX_LENGTH].strip() for name in NAMES}
    ignored = []
    if texts["kind"] and texts["kind"] not in KIND_LABELS:
        ignored.append("kind")
    since, until = _day(texts["since"], timedelta()), _day(texts["until"], timedelta(days=1))
    ignored += [name for name, found in (("since", since), ("until", until)) if texts[name] and found is None]
    texts |= dict.fromkeys(ignored, "")
    filters = AuditFilters(
        kind=texts["kind"],
        agent=texts["agent"],
        queue=texts["queue"],
        actor=texts["actor"],
        since=since,
        until=until,
    )
    return AskedList(texts=texts, filters=filters, ignored=ignored)


def _day(text: str, extra: timedelta) -> datetime | None:
    """Return the beginning of a day in UTC, ``extra`` later."""
    try:
        return datetime.combine(date.fromisoformat(text), time(), tzinfo=UTC) + extra
    except (ValueError, OverflowError):
        return None


def _shown(record: ConfigurationRecord) -> ShownRecord:
    return ShownRecord(
        record=record,
        id=audit_log.record_id(record),
        kind=gettext(KIND_LABELS[record.kind]) if record.kind in KIND_LABELS else record.kind,
        name=record.name or _name_of_old(record),
        members=audit_log.changed_members(record),
    )


def _name_of_old(record: ConfigurationRecord) -> str:
    """Return a name for a record of an older version, which has none."""
    known = (str(record.content.get(member, "")) for member in ("reason", "name_pattern"))
    return next(filter(None, known), _("number {number}").format(number=record.subject))


def _slugs(rows: Any, chosen: str) -> list[str]:
    found = list(rows.order_by("slug").values_list("slug", flat=True))
    return found if not chosen or chosen in found else [*found, chosen]


def _address(query: str) -> str:
    return reverse("audit-log") + (f"?{query}" if query else "")


def _empty(asked: AskedList) -> EmptyState:
    if any(asked.texts.values()):
        return EmptyState(
            picture="no-match",
            heading=_("No change matches"),
            text=_("Remove a filter to see more changes."),
            url=reverse("audit-log"),
            button=_("Remove all filters"),
        )
    return EmptyState(
        picture="none-waiting",
        heading=_("No changes"),
        text=_("Every change of people, agents, queues and policies is here."),
    )
