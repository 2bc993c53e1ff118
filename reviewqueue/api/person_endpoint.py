"""Views of the API that call one function for a person and return what it returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from ledger.errors import PayloadInvalid, Problem
from reviewqueue.api.authentication import person_of
from reviewqueue.api.base_view import PERSON, ApiView, Operation
from reviewqueue.api.response_serializers import ResponseSerializer
from reviewqueue.api.serializers.fields import RequestSerializer
from reviewqueue.operations.provisioning.names import ProvisioningError

OWNERS = "For owners of the agent and operators; another agent is not found."


def endpoint(
    action: Callable[..., Any],
    *,
    id: str,  # noqa: A002  the operation's member has this name
    summary: str,
    returns: type[ResponseSerializer],
    description: str = OWNERS,
    request: type[RequestSerializer] | None = None,
    status: int = 200,
    refusals: tuple[str, ...] = ("not_found",),
) -> Callable[..., Response]:
    """Return the method of a view: it calls ``action`` with the person, the names in the path and the members of the
    body (``request``), and returns what that returns.

    A refusal of ``action`` (``ProvisioningError``) becomes a problem of the rule that it names, or of the whole body.
    """

    def method(view: ApiView, sent: Request, **path: str) -> Response:
        person = person_of(sent)
        members = {} if request is None else view.validated_body(sent)
        try:
            made = action(person, **path, **members)
        except ProvisioningError as refused:
            pointer = f"/rules/{refused.rule}" if refused.rule else ""
            raise PayloadInvalid(str(refused), errors=[Problem(pointer, str(refused))]) from None
        return Response(returns.serialize(made), status=status)

    operation = Operation(
        id=id,
        summary=summary,
        description=description,
        who=PERSON,
        request=request,
        responses={status: returns},
        refusals=refusals,
    )
    return operation(method)
