"""What people do around an answer: claim, release, assign, extend, undo, comment; and many answers in one call."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import AbstractUser
from rest_framework.request import Request
from rest_framework.response import Response

from ledger.errors import PayloadInvalid, Problem, Refusal
from reviewqueue import gateway, permissions, reviewer_actions
from reviewqueue.api import problems, responses
from reviewqueue.api.authentication import person_of
from reviewqueue.api.pagination import page, query_of
from reviewqueue.api.serializers import reviewer_action_serializers, run_serializers
from reviewqueue.api.serializers.fields import read
from reviewqueue.api.views.base import ApiView, body_of, request_key


class Claim(ApiView):
    """A reviewer's hold on a wait."""

    def post(self, request: Request, interrupt_id: str) -> Response:
        """Take it, or keep it for longer."""
        person = person_of(request)
        read(run_serializers.NothingShape, body_of(request))
        return Response(responses.claim_shown(reviewer_actions.claim(responder=person, interrupt_id=interrupt_id)))


class Release(ApiView):
    """The end of that hold."""

    def post(self, request: Request, interrupt_id: str) -> Response:
        """Let it go."""
        person = person_of(request)
        read(run_serializers.NothingShape, body_of(request))
        return Response(responses.claim_shown(reviewer_actions.release(responder=person, interrupt_id=interrupt_id)))


class Assign(ApiView):
    """Who decides a wait."""

    def post(self, request: Request, interrupt_id: str) -> Response:
        """Name them; nobody named gives it back to the queue."""
        person = person_of(request)
        named = read(reviewer_action_serializers.AssignShape, body_of(request))["people"]
        interrupt = reviewer_actions.assign(responder=person, interrupt_id=interrupt_id, people=_people(named))
        return Response(responses.claim_shown(interrupt) | {"assignees": named})


def _people(addresses: list[str]) -> list[AbstractUser]:
    found = {person.get_username(): person for person in get_user_model().objects.filter(username__in=addresses)}
    known = {address: found[address] for address in addresses if address in found}
    for place, address in enumerate(addresses):
        if address not in known:
            raise PayloadInvalid.at(f"/people/{place}", "is nobody here")
    return list(known.values())


class Extend(ApiView):
    """The time of a wait."""

    def post(self, request: Request, interrupt_id: str) -> Response:
        """Give it more."""
        person = person_of(request)
        by = read(reviewer_action_serializers.ExtendShape, body_of(request))["by"]
        return Response(
            responses.interrupt_mark(reviewer_actions.extend(responder=person, interrupt_id=interrupt_id, by=by))
        )


class Undo(ApiView):
    """One's own answer."""

    def post(self, request: Request, interrupt_id: str) -> Response:
        """Take it back, while nobody has it."""
        person = person_of(request)
        read(run_serializers.NothingShape, body_of(request))
        return Response(responses.interrupt_mark(reviewer_actions.undo(responder=person, interrupt_id=interrupt_id)))


class Comments(ApiView):
    """What people say to each other about a wait; the agent never sees it."""

    def get(self, request: Request, interrupt_id: str) -> Response:
        """List it, newest first."""
        query = query_of(request, "limit", "next")
        interrupt = gateway.find_visible(person_of(request), interrupt_id)
        return Response(
            page(
                interrupt.comments.select_related("person"), query, name="comments", row=responses.comment, sized="text"
            )
        )

    def post(self, request: Request, interrupt_id: str) -> Response:
        """Say something."""
        person = person_of(request)
        text = read(reviewer_action_serializers.CommentShape, body_of(request))["text"]
        said = reviewer_actions.comment(responder=person, interrupt_id=interrupt_id, text=text)
        return Response(responses.comment(said), status=201)


class ManyDecisions(ApiView):
    """Many answers in one call: each is judged by itself, and its own result is told (207)."""

    def post(self, request: Request) -> Response:
        """Answer them. An id that is missing, doubled or not to be seen refuses the whole call, and nothing is stored."""
        person, key = person_of(request), request_key(request)
        sent = read(reviewer_action_serializers.ManyDecisionsShape, body_of(request))["decisions"]
        _refuse_strangers(person, [decision["interrupt"] for decision in sent])
        return Response({"decisions": [_one_of_many(person, decision, key) for decision in sent]}, status=207)


def _refuse_strangers(person: AbstractUser, ids: list[str]) -> None:
    visible = permissions.visible_interrupts(person).filter(public_id__in=ids)
    known = set(visible.values_list("public_id", flat=True))
    strange = [
        Problem(f"/decisions/{place}/interrupt", "is not found") for place, it in enumerate(ids) if it not in known
    ]
    if strange:
        raise PayloadInvalid("Some of these waits are not found; nothing was stored.", errors=strange)


def _one_of_many(person: AbstractUser, sent: dict[str, Any], key: str) -> dict[str, Any]:
    try:
        receipt = gateway.submit_decision(
            responder=person,
            interrupt_id=sent["interrupt"],
            answer=reviewer_action_serializers.answer(sent),
            seen=reviewer_action_serializers.seen(sent),
            door="api",
            request_key=key,
        )
    except Refusal as refusal:
        problem = problems.body_of(refusal)
        return {"interrupt": sent["interrupt"], "status": problem["status"], "problem": problem}
    status = 200 if receipt.replayed else 201
    return {"interrupt": sent["interrupt"], "status": status, "receipt": responses.receipt(receipt)}
