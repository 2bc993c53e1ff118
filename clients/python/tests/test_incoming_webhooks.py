"""Webhooks of others as signals: signatures as their senders publish them, the mapping, and what the sender is answered."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import httpx
import pytest
from reviewqueue_client import AsyncClient, Retries
from reviewqueue_client.adapters.incoming_webhooks import (
    BODY_LIMIT,
    GitHub,
    IncomingWebhooks,
    NotGenuine,
    Source,
    Stripe,
    resolve_pointer,
)

SENT_AT = 1796040000
#: Computed with Stripe's library for Python 16.1.0.
STRIPE_BODY = b'{"id":"evt_1","type":"payment_intent.succeeded"}'
STRIPE_SIGNATURE = "b39c8dcc9e7c09fd5b51a7c96cfe9cc7476981656f207b7969268ddc767b96a6"


def stripe(*secrets: str, now: float = SENT_AT) -> Stripe:
    return Stripe(*(secrets or ("whsec_test",)), clock=lambda: now)


@pytest.mark.parametrize(
    ("header", "now", "accepted"),
    [
        (f"t={SENT_AT},v1={STRIPE_SIGNATURE}", SENT_AT, True),
        (f"t={SENT_AT}, v0=aa,v1=ffff,v1={STRIPE_SIGNATURE}", SENT_AT + 299, True),
        (f"t={SENT_AT},v1={STRIPE_SIGNATURE}", SENT_AT + 301, False),
        (f"t={SENT_AT + 1},v1={STRIPE_SIGNATURE}", SENT_AT, False),
        (f"t={SENT_AT},v0={STRIPE_SIGNATURE}", SENT_AT, False),
        (f"t={SENT_AT},v1=ä", SENT_AT, False),
        (f"v1={STRIPE_SIGNATURE}", SENT_AT, False),
        (f"t=-1,v1={STRIPE_SIGNATURE}", SENT_AT, False),
        ("", SENT_AT, False),
    ],
)
def test_a_signature_of_stripe(header: str, now: float, accepted: bool):
    sender = stripe("whsec_new", "whsec_test", now=now)
    if accepted:
        sender.verify({"stripe-signature": header}, STRIPE_BODY)
    else:
        with pytest.raises(NotGenuine):
            sender.verify({"stripe-signature": header}, STRIPE_BODY)


def test_a_signature_of_github():
    sender = GitHub("It's a Secret to Everybody")  # the example in GitHub's documentation
    given = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    sender.verify({"x-hub-signature-256": given}, b"Hello, World!")
    for header, body in ((given, b"Hello, World?"), (given[7:-1], b"Hello, World!"), ("", b"Hello, World!")):
        with pytest.raises(NotGenuine):
            sender.verify({"x-hub-signature-256": header}, body)


def test_a_sender_without_a_secret_is_refused():
    for make in (Stripe, GitHub):
        for secrets in ((), ("",), ("whsec_test", "")):
            with pytest.raises(ValueError, match="at least one secret"):
                make(*secrets)


@pytest.mark.parametrize(
    ("pointer", "value"),
    [("", {"a/b": [1, {"~": 2}], "": 3}), ("/a~1b/0", 1), ("/a~1b/1/~0", 2), ("/", 3)],
)
def test_a_json_pointer(pointer: str, value: Any):
    assert resolve_pointer({"a/b": [1, {"~": 2}], "": 3}, pointer) == value


@pytest.mark.parametrize("pointer", ["/b", "/a~1b/2", "/a~1b/-1", "/a~1b/00", "/a~1b/-", "/a~1b/0/x"])
def test_a_json_pointer_to_nothing(pointer: str):
    with pytest.raises(LookupError):
        resolve_pointer({"a/b": [1, {"~": 2}], "": 3}, pointer)


# --- the application --------------------------------------------------------------------------------------------------

PAID = {
    "id": "evt_1",
    "type": "payment_intent.succeeded",
    "data": {"object": {"amount": 1, "metadata": {"order": "PR-1"}}},
}
Answer = Callable[[httpx.Request], httpx.Response]


def recorded(_: httpx.Request) -> httpx.Response:
    return httpx.Response(201, json={"status": "used"})


def refused(status: int, code: str) -> Answer:
    headers = {"Content-Type": "application/problem+json"}
    return lambda _: httpx.Response(status, headers=headers, json={"code": code, "retryable": False})


def post(
    path: str, body: bytes, *, answer: Answer = recorded, method: str = "POST", **headers: str
) -> tuple[int, list[Any]]:
    """Send a message. Returns the status that its sender gets, and the signals that were sent."""
    signals: list[Any] = []

    def server(request: httpx.Request) -> httpx.Response:
        signals.append(json.loads(request.content, parse_float=Decimal))
        return answer(request)

    reviews = AsyncClient("http://desk", "rq_1", transport=httpx.MockTransport(server), retries=Retries(base=0))
    application = IncomingWebhooks(
        reviews,
        Source(path="/stripe", sender=stripe(), correlation="/data/object/metadata/order", body="/data/object"),
        Source(path="/github", sender=GitHub("s"), correlation="/pull_request/number", types={"pull_request.closed"}),
    )

    async def main() -> int:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        async with httpx.AsyncClient(transport=httpx.ASGITransport(application), base_url="http://hooks") as sender:
            return (await sender.request(method, path, content=body, headers=named)).status_code

    return asyncio.run(main()), signals


def from_stripe(content: Any, **more: Any) -> tuple[int, list[Any]]:
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    made = hmac.new(b"whsec_test", f"{SENT_AT}.".encode() + body, hashlib.sha256).hexdigest()
    return post("/stripe", body, Stripe_Signature=f"t={SENT_AT},v1={made}", **more)


def from_github(content: Any, event: str = "pull_request", **more: Any) -> tuple[int, list[Any]]:
    body = json.dumps(content).encode()
    made = hmac.new(b"s", body, hashlib.sha256).hexdigest()
    return post("/github", body, X_Hub_Signature_256=f"sha256={made}", X_GitHub_Event=event, **more)


def test_a_message_of_stripe_becomes_a_signal():
    body = json.dumps(PAID).replace('"amount": 1,', '"amount": 0.10,').encode()
    status, [signal] = from_stripe(body)
    assert status == 204
    assert signal == {
        "id": "stripe:evt_1",
        "correlation": "PR-1",
        "type": "payment_intent.succeeded",
        "body": {"amount": Decimal("0.10"), "metadata": {"order": "PR-1"}},
    }


def test_a_replay_with_another_id_is_the_same_signal_of_github():
    closed = {"action": "closed", "pull_request": {"number": 17}}
    (first, [signal]), (second, [again]) = (from_github(closed, X_GitHub_Delivery=id_) for id_ in ("a", "b"))
    assert (first, second) == (204, 204)
    assert signal == again
    assert (signal["correlation"], signal["type"], signal["body"]) == ("17", "pull_request.closed", closed)


@pytest.mark.parametrize(
    "content",
    [
        PAID | {"data": {"object": {"metadata": {}}}},
        PAID | {"data": {"object": {"metadata": {"order": None}}}},
        PAID | {"data": {"object": {"metadata": {"order": True}}}},
        {"type": "ping"},
        ["no object"],
    ],
)
def test_a_message_that_is_not_for_an_agent_is_accepted_and_dropped(content: Any):
    assert from_stripe(content) == (204, [])


def test_other_types_than_the_chosen_ones_are_dropped():
    assert from_github({"action": "opened", "pull_request": {"number": 17}}) == (204, [])


def test_a_message_without_a_right_signature_is_refused():
    assert post("/stripe", b"{}", Stripe_Signature="t=1,v1=aa") == (401, [])
    assert post("/github", b"{}") == (401, [])


def test_requests_that_are_no_message():
    assert post("/other", b"{}")[0] == 404
    assert post("/stripe", b"", method="GET")[0] == 405
    assert post("/stripe", b"x" * (BODY_LIMIT + 1))[0] == 413
    assert from_stripe(b"\xff")[0] == from_stripe(b"{")[0] == 400


@pytest.mark.parametrize(
    ("answer", "status", "calls"),
    [
        (refused(422, "input_invalid"), 204, 1),  # the server keeps it as a dead letter
        (refused(409, "key_reused"), 204, 1),
        (refused(413, "payload_invalid"), 204, 1),
        (refused(401, "not_authenticated"), 503, 1),
        (lambda _: httpx.Response(502), 503, 2),
    ],
)
def test_the_sender_repeats_what_can_be_mended(answer: Answer, status: int, calls: int):
    answered, signals = from_stripe(PAID, answer=answer)
    assert (answered, len(signals)) == (status, calls)


def test_a_pointer_that_is_none_is_refused_at_the_start():
    with pytest.raises(ValueError, match="must be empty or begin with /"):
        IncomingWebhooks(
            AsyncClient("http://desk", "rq_1"), Source(path="/x", sender=GitHub("s"), correlation="number")
        )


def test_a_signal_that_is_dropped_is_an_error_in_the_log(caplog: pytest.LogCaptureFixture):
    from_stripe(PAID, answer=refused(422, "key_invalid"))
    [message] = [record.message for record in caplog.records if record.levelname == "ERROR"]
    assert message.startswith("the signal stripe:evt_1 of /stripe is dropped")
