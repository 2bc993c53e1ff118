"""The audit log: operators read every change, owners those of their agents and queues."""

from __future__ import annotations

from datetime import datetime

from rest_framework.request import Request
from rest_framework.response import Response

from ledger.datetimes import InvalidDatetime, parse_datetime
from reviewqueue.api.authentication import person_of
from reviewqueue.api.base_view import (
    PERSON,
    ApiView,
    Operation,
    choice_parameter,
    invalid_query,
    slug_parameter,
    text_parameter,
)
from reviewqueue.api.pagination import LIMIT, PAGE, ListPage
from reviewqueue.api.responses.administration import AuditLogResponse
from reviewqueue.queries import audit_log
from reviewqueue.queries.audit_log import AuditFilters
from runs.configuration_history import KIND_LABELS

KIND = choice_parameter("kind", "What was changed.", KIND_LABELS)
AGENT = slug_parameter("agent", "Slug of an agent.")
QUEUE = slug_parameter("queue", "Slug of a queue.")
ACTOR = text_parameter("actor", "Part of the actor, such as an address.")
SINCE = text_parameter("since", "Time (RFC 3339) of the earliest change.")
UNTIL = text_parameter("until", "Time (RFC 3339) before which the changes were made.")
QUERY = (KIND, AGENT, QUEUE, ACTOR, SINCE, UNTIL, *PAGE)


class AuditLogView(ApiView):
    """The audit log."""

    @Operation(
        id="list_audit_log",
        summary="List administrative changes, newest first",
        description="Operators read every change, owners those of their agents and queues.",
        who=PERSON,
        responses={200: AuditLogResponse},
        query=QUERY,
    )
    def get(self, request: Request) -> Response:
        query = self.validated_query(request)
        person = person_of(request)
        filters = AuditFilters(
            kind=query.get("kind", ""),
            agent=query.get("agent", ""),
            queue=query.get("queue", ""),
            actor=query.get("actor", ""),
            since=_time(query, "since"),
            until=_time(query, "until"),
        )
        rows = audit_log.filter_records(audit_log.visible_records(person), filters)
        if "next" in query:
            older = audit_log.older_than(rows, query["next"])
            if older is None:
                raise invalid_query("next", "must be the `next` of an earlier page")
            rows = older
        limit = LIMIT.read(query)
        found = list(rows[: limit + 1])
        more = audit_log.record_id(found[limit - 1]) if len(found) > limit else None
        return Response(AuditLogResponse.serialize(ListPage(rows=found[:limit], next=more)))


def _time(query: dict[str, str], name: str) -> datetime | None:
    if name not in query:
        return None
    try:
        return parse_datetime(query[name])
    except InvalidDatetime as fault:
        raise invalid_query(name, str(fault)) from None
