"""A test message of an endpoint is signed like every other message, and its reply is reported."""

from __future__ import annotations

import base64
import hashlib
import hmac
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from reviewqueue.operations.provisioning.agents import add_agent
from reviewqueue.webhooks import endpoints
from reviewqueue.webhooks.models import Delivery
from reviewqueue.webhooks.sender import send_test_message

pytestmark = pytest.mark.django_db


class Receiver:
    """A server that keeps the last request. ``/ok`` answers 204, ``/json`` a JSON object, every other path 418."""

    def __init__(self, server: HTTPServer) -> None:
        self.url = f"http://127.0.0.1:{server.server_port}"
        self.headers: dict[str, str] = {}
        self.body = b""

    def verify(self, secret: str) -> None:
        key = base64.b64decode(secret.removeprefix("whsec_"))
        signed = f"{self.headers['webhook-id']}.{self.headers['webhook-timestamp']}.".encode() + self.body
        expected = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
        assert f"v1,{expected}" in self.headers["webhook-signature"].split(" ")


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            kept.headers = dict(self.headers)
            kept.body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            status, body = {"/ok": (204, b""), "/json": (200, b'{"a": 1}')}.get(self.path, (418, b"short and stout"))
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST  # noqa: N815  the names that the base class calls

        def log_message(self, *args: object) -> None:
            """Print nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    kept = Receiver(server)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield kept
    server.shutdown()
    server.server_close()


def test_a_test_message_is_signed_and_not_stored(receiver, settings):
    settings.OUTBOUND_ALLOW = ["127.0.0.0/8"]
    agent, _ = add_agent("payer", owner="finance")
    wanted = endpoints.EndpointRequest(key="k", body_digest="", url=f"{receiver.url}/ok", events=["run.started"])
    made = endpoints.register_endpoint(agent=agent, request=wanted)
    assert made.secret is not None
    assert send_test_message(made.endpoint).status == 204
    receiver.verify(made.secret)
    assert not Delivery.objects.exists()
