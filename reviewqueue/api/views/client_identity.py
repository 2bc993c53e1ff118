"""Who am I: what a key is good for, and the limits that its holder will meet."""

from __future__ import annotations

from django.conf import settings
from rest_framework.request import Request
from rest_framework.response import Response

from ledger.exact_json import MAX_DEPTH
from reviewqueue.api import responses
from reviewqueue.api.authentication import caller_of
from reviewqueue.api.pagination import MOST, query_of
from reviewqueue.api.parsers import BODY_LIMIT
from reviewqueue.api.serializers import run_serializers
from reviewqueue.api.views.base import ApiView
from runs.facts import MAX_FACT_CHECKS
from runs.leases import LONGEST, SHORTEST
from runs.models import Agent

LIMITS = {
    "body_bytes": BODY_LIMIT,
    "depth": MAX_DEPTH,
    "lease_seconds": {"least": SHORTEST, "most": LONGEST, "default": 60},
    "wait_seconds": run_serializers.LONGEST_POLL,
    "claim": run_serializers.MOST_CLAIMED,
    "checks": MAX_FACT_CHECKS,
    "page": MOST,
}


def _effects(agent: Agent) -> responses.Reply:
    rules = agent.effect_rules.order_by("name_pattern")
    return {
        "mode": agent.effect_mode,
        "rules": [{"name": rule.name_pattern, "action": rule.action, "reason": rule.reason or None} for rule in rules],
    }


class Me(ApiView):
    """The caller."""

    def get(self, request: Request) -> Response:
        """Say who it is."""
        query_of(request)
        caller = caller_of(request)
        key = {"prefix": f"rq_{caller.key.prefix}", "name": caller.key.name, "scopes": caller.key.scopes}
        return Response(
            {
                "agent": None
                if caller.agent is None
                else {"slug": caller.agent.slug, "owner": caller.agent.owner.name, "effects": _effects(caller.agent)},
                "person": None if caller.person is None else caller.person.get_username(),
                "key": key | {"expires_at": responses.moment(caller.key.expires_at)},
                "limits": LIMITS | {"file_bytes": settings.CHECKPOINT_FILE_BYTES},
            }
        )
