"""An error report names what was sent and holds no value of it, by the settings of production."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import settings
from django.test import RequestFactory
from django.utils.module_loading import import_string
from sentry_sdk.transport import Transport

from ledger.log_context import log_context
from reviewqueue.operations import processes
from reviewqueue.operations.sentry import SentryHandler, scrub_event
from reviewqueue.serving.request_ids import AddRequestId

MARKER = "Zq7marker0secret0Zq7"


def a_report(*, html: bool) -> str:
    """Return the report of a fault in a view that has everything in its local variables."""
    request = RequestFactory().post(
        f"/interrupts/int_1?token={MARKER}",
        {"message-reject": MARKER, "password": MARKER, "csrfmiddlewaretoken": MARKER},
        headers={
            "Authorization": f"Bearer {MARKER}",
            "Run-Lease": MARKER,
            "X-CSRFToken": MARKER,
            "Referer": f"/?code={MARKER}",
            "User-Agent": "agent/1.0",
        },
    )
    request.COOKIES |= {"sessionid": MARKER, "other": MARKER}
    request.resolver_match = None
    try:
        posted, lease = request.POST.copy(), request.headers["Run-Lease"]
        raise RuntimeError(f"planted after {len(posted) + len(lease)} characters")
    except RuntimeError:
        reporter = import_string(settings.DEFAULT_EXCEPTION_REPORTER)(request, *sys.exc_info(), is_email=True)
    text: str = reporter.get_traceback_html() if html else reporter.get_traceback_text()
    return text


def test_a_report_holds_names_and_no_value_that_was_sent():
    for html in (False, True):
        text = a_report(html=html)
        assert MARKER not in text
        for name in ("planted after", "HTTP_RUN_LEASE", "password", "message-reject", "sessionid", "agent/1.0"):
            assert name in text, (html, name)


def test_a_report_holds_the_route_in_place_of_a_path_with_a_token():
    request = RequestFactory().get(f"/account/password/reset/key/1a-{MARKER}/")
    for html in (False, True):
        try:
            raise RuntimeError("planted")
        except RuntimeError:
            reporter = import_string(settings.DEFAULT_EXCEPTION_REPORTER)(request, *sys.exc_info(), is_email=True)
        text = reporter.get_traceback_html() if html else reporter.get_traceback_text()
        assert "planted" in text
        assert "account/password/reset/key/" in text
        assert MARKER not in text


def test_a_report_holds_no_setting():
    for html in (False, True):
        text = a_report(html=html)
        assert settings.SECRET_KEY not in text
        assert str(settings.DATABASES["default"]["NAME"]) not in text


def test_no_setting_of_its_own_holds_the_address_of_the_database():
    """An address with its password would be printed by `diffsettings`, whose filter goes by names."""
    from reviewqueue import settings as product

    assert not [
        name for name in vars(product) if "DATABASE" in name.upper() and isinstance(getattr(product, name), str)
    ]


# --- Sentry -------------------------------------------------------------------------------------------------------------


class CollectingTransport(Transport):
    """Keeps each envelope as it would be sent."""

    sent: list[dict[str, Any]] = []

    def capture_envelope(self, envelope: Any) -> None:
        self.sent += [item.get_event() for item in envelope.items]


@pytest.fixture
def sent() -> Iterator[list[dict[str, Any]]]:
    handler = SentryHandler(dsn="https://key@sentry.example.org/1", transport=CollectingTransport)
    handler.addFilter(AddRequestId())
    logging.getLogger("reviewqueue.x").addHandler(handler)
    CollectingTransport.sent.clear()
    yield CollectingTransport.sent
    logging.getLogger("reviewqueue.x").removeHandler(handler)


def test_a_report_to_sentry_has_traceback_and_ids_and_no_value_that_was_sent(sent):
    with log_context(request_id="req_1", run="run_1"):
        try:
            password, headers = MARKER, {"Run-Lease": MARKER}
            raise RuntimeError(f"planted after {len(password) + len(headers)} characters")
        except RuntimeError:
            logging.getLogger("reviewqueue.x").exception("%s failed", f"/key/{MARKER}", extra={"token": MARKER})
    [event] = sent
    assert MARKER not in json.dumps(event, default=str)
    assert event["tags"] == {"request_id": "req_1", "run": "run_1"}
    assert event["logentry"] == {"message": "%s failed"}
    [error] = event["exception"]["values"]
    assert (error["type"], error["value"]) == ("RuntimeError", f"planted after {len(MARKER) + 1} characters")
    assert "raise RuntimeError" in error["stacktrace"]["frames"][-1]["context_line"]


def test_a_refused_request_is_not_reported_to_sentry(sent):
    log = logging.getLogger("reviewqueue.x")
    log.error(f"Invalid HTTP_HOST header: '{MARKER}'", extra={"status_code": 400})
    assert sent == []
    log.error("failed", extra={"status_code": 500})
    assert len(sent) == 1


def test_a_forked_child_sends_its_reports_before_it_ends(sent, monkeypatch):
    flushed: list[float] = []
    [handler] = [it for it in logging.getLogger("reviewqueue.x").handlers if isinstance(it, SentryHandler)]
    logging.getLogger("reviewqueue.x").error("failed")
    monkeypatch.setattr(handler._client, "flush", lambda timeout: flushed.append(timeout))
    monkeypatch.setattr(logging.getLogger(), "handlers", [handler])
    processes._flush_output()
    assert len(flushed) == 1


def test_the_hook_removes_what_integrations_of_sentry_collect():
    frame = {"function": "f", "lineno": 3, "vars": {"token": MARKER}}
    event = {
        "level": "error",
        "request": {"url": f"/?token={MARKER}", "data": MARKER, "cookies": MARKER, "headers": {"Run-Lease": MARKER}},
        "user": {"email": MARKER},
        "extra": {"sys.argv": [MARKER]},
        "breadcrumbs": {"values": [{"message": MARKER}]},
        "contexts": {"x": MARKER},
        "transaction": f"/key/{MARKER}",
        "logentry": {"message": "%s", "params": [MARKER], "formatted": MARKER},
        "threads": {"values": [{"stacktrace": {"frames": [frame]}}]},
        "exception": {"values": [{"type": "E", "value": "v", "raw": MARKER, "stacktrace": {"frames": [frame]}}]},
    }
    kept = scrub_event(event, {})
    assert MARKER not in json.dumps(kept)
    assert kept["exception"]["values"][0]["stacktrace"]["frames"] == [{"function": "f", "lineno": 3}]
