"""Elicitations of MCP servers: what a server asks its client's user becomes a request, and people answer it.

`ElicitationRequests` is the `elicitation_callback` of an MCP client, for forms and URLs. Revisions 2025-11-25, where the
server waits for the answer, and 2026-07-28, where the client repeats the call with the answer.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import Any, cast
from urllib.parse import urlsplit

from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    ElicitRequestFormParams,
    ElicitRequestParams,
    ElicitRequestURLParams,
    ElicitResult,
    ErrorData,
)
from reviewqueue_client import exact_json
from reviewqueue_client._async.client import AsyncClient
from reviewqueue_client._async.delivery import AsyncAnswers
from reviewqueue_client._async.platform import sleep
from reviewqueue_client.delivery import Outcome
from reviewqueue_client.errors import Refused, Unreachable
from reviewqueue_client.values import Request

#: Types of the members of a form (`PrimitiveSchemaDefinition` of the specification).
PRIMITIVES = frozenset({"string", "number", "integer", "boolean", "array"})
OPENED = {"type": "boolean", "title": "I opened the address and finished there", "const": True}


class ElicitationRequests:
    """The `elicitation_callback` of an MCP client for one task of an agent.

    ``server`` is the name of the MCP server that people see. ``key`` is the same in every execution of the task: the same
    elicitation, asked for the n-th time, then finds the same request again. ``defaults``: other members of the requests,
    such as `deadline_in`. After a deadline the action is `cancel`.
    """

    def __init__(
        self,
        client: AsyncClient,
        *,
        server: str,
        key: str,
        queue: str,
        reason: str = "question",
        defaults: dict[str, Any] | None = None,
        code_version: str = "mcp-elicitation",
        wait: int = 20,
    ) -> None:
        self._answers = AsyncAnswers(client, code_version=code_version)
        self._server, self._key, self._wait = server, key, wait
        self._defaults = {"queue": queue, "reason": reason, **(defaults or {})}
        self._asked: Counter[str] = Counter()

    async def __call__(self, context: Any, params: ElicitRequestParams) -> ElicitResult | ErrorData:
        """Ask people, and wait for their answer. A request that cannot be asked is refused with an error."""
        problem = _problem_of(params)
        if problem:
            return ErrorData(code=INVALID_PARAMS, message=problem)
        try:
            run = (await self._answers.create(self.request_of(params)))["run"]["id"]
            outcome, idle = await self._answers.outcome(run, wait=self._wait), 0
            while outcome is None:
                await sleep(min(2.0, 0.1 * 1.5 ** min(idle, 20)))  # a paused run, for example, returns at once
                outcome, idle = await self._answers.outcome(run, wait=self._wait), idle + 1
        except (Refused, Unreachable) as error:
            final = isinstance(error, Refused) and error.is_final
            return ErrorData(code=INVALID_PARAMS if final else INTERNAL_ERROR, message=str(error))
        return _result_of(outcome, has_content=isinstance(params, ElicitRequestFormParams))

    def request_of(self, params: ElicitRequestParams) -> Request:
        """Return the request for an elicitation. Each call counts as one more time that the server asked it."""
        asked: dict[str, Any] = {"message": params.message}
        evidence: list[dict[str, Any]] = [{"label": "Asked by", "value": self._server}]
        if isinstance(params, ElicitRequestURLParams):
            asked |= {"url": params.url}
            evidence += [
                {"label": "Host", "value": urlsplit(params.url).hostname},
                {"label": "Address", "value": params.url},
            ]
            title, schema = f"Open an address of {self._server}", OPENED
        else:
            asked |= {"schema": params.requested_schema}
            title, schema = f"Question of {self._server}", params.requested_schema
        digest = hashlib.sha256(exact_json.dumps(asked)).hexdigest()[:16]
        self._asked[digest] += 1
        request: dict[str, Any] = {"title": title, **self._defaults, "message": params.message, "input_schema": schema}
        request |= {"key": f"{self._key}:{digest}:{self._asked[digest]}", "evidence": evidence}
        return cast(Request, request)


def _problem_of(params: ElicitRequestParams) -> str:
    """Return why people cannot be asked this; empty if they can."""
    if isinstance(params, ElicitRequestURLParams):
        try:
            parts = urlsplit(params.url)
        except ValueError:  # such as https://[
            return "url must be an address."
        is_local = parts.hostname in ("localhost", "127.0.0.1", "::1")
        if parts.hostname and (parts.scheme == "https" or (parts.scheme == "http" and is_local)):
            return ""
        return "url must begin with https://, or with http:// on this machine."
    schema = params.requested_schema
    members = schema.get("properties")
    if schema.get("type") != "object" or not isinstance(members, dict):
        return "requestedSchema must be an object with properties."
    nested = [name for name, one in members.items() if not isinstance(one, dict) or one.get("type") not in PRIMITIVES]
    if nested:
        return f"requestedSchema must have primitive members only (got {', '.join(nested)})."
    return ""


def _result_of(outcome: Outcome, *, has_content: bool) -> ElicitResult | ErrorData:
    verdict = outcome.answer.verdict if outcome.answer is not None else None
    if verdict == "decline":
        return ElicitResult(action="decline")
    if verdict != "answer" or outcome.answer is None:
        return ElicitResult(action="cancel")
    if not has_content:
        return ElicitResult(action="accept")
    try:
        content = exact_json.without_decimals(outcome.answer.input)
    except ValueError as error:
        return ErrorData(code=INTERNAL_ERROR, message=str(error))
    return ElicitResult(action="accept", content=content)
