"""The two calls that ``tests.structure`` traces, each on a request of its own."""

from __future__ import annotations

import json
from collections.abc import Callable

from django.test import Client

from reviewqueue.operations.api_keys import create_personal_token
from tests import builders


def approve_by_api() -> Callable[[], None]:
    """A reviewer with a token approves a call."""
    ana = builders.a_reviewer()
    key = create_personal_token(ana).text
    interrupt = builders.a_waiting_interrupt()
    body = json.dumps({"state_version": 1, "verdict": "approve"})
    client = Client()

    def call() -> None:
        response = client.post(
            f"/api/v1/interrupts/{interrupt.public_id}/decisions",
            body,
            content_type="application/json",
            headers={"Authorization": f"Bearer {key}"},
        )
        assert response.status_code == 201, response.content

    return call


def show_request_page() -> Callable[[], None]:
    """A signed-in reviewer opens the page of a request."""
    client = Client()
    client.force_login(builders.a_reviewer())
    interrupt = builders.a_waiting_interrupt()

    def call() -> None:
        response = client.get(f"/interrupts/{interrupt.public_id}")
        assert response.status_code == 200, response.content

    return call
