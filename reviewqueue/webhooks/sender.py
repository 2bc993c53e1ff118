"""Sends due webhook messages: many at once, but one at a time per endpoint, so that a slow endpoint delays only itself.

The main thread begins and closes attempts; worker threads make the calls and use no database. The sender continues to look
for due messages while slow calls are pending. The status of the reply alone decides whether a message was delivered; of a
failure, the beginning of the body is stored for operators.
"""

from __future__ import annotations

import logging
import re
import time
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime

import httpcore

from ledger import clock
from ledger.datetimes import format_datetime
from ledger.exact_json import dumps
from ledger.public_ids import new_id
from ledger.transactions import assert_no_transaction
from reviewqueue.outbound import address_policy, http_client
from reviewqueue.webhooks import signing
from reviewqueue.webhooks.deliveries import (
    GONE,
    MAX_RETRY_AFTER,
    AttemptResult,
    DueMessage,
    StartedAttempt,
    begin_attempt,
    close_attempt,
    due_messages,
    postpone_message,
)
from reviewqueue.webhooks.endpoints import live_secrets
from reviewqueue.webhooks.message_formats import render_message, source_of
from reviewqueue.webhooks.models import WebhookEndpoint

log = logging.getLogger(__name__)

TEST_TYPE = "webhook.test"

CALL_SECONDS = 10.0
MAX_CONCURRENT_CALLS = 16
POLL_SECONDS = 0.25
MAX_EXCERPT_LENGTH = 300
_STATUSES_WITH_RETRY_AFTER = {429, 503}


def deliver_due_messages(*, seconds: float) -> int:
    """Send due messages, also those that become due meanwhile. Returns the number of calls.

    Starts no call after ``seconds``, and returns when the last call has ended, at most ten seconds later.
    """
    until, calls = time.monotonic() + seconds, 0
    with ThreadPoolExecutor(max_workers=MAX_CONCURRENT_CALLS) as threads:
        under_way: dict[Future[AttemptResult], StartedAttempt] = {}
        while True:
            free = MAX_CONCURRENT_CALLS - len(under_way)
            dues = due_messages(limit=free) if time.monotonic() < until else []
            for letter in filter(None, map(_begin, dues)):
                under_way[threads.submit(make_call, letter)] = letter
                calls += 1
            if not under_way and not dues:
                return calls
            ended, _ = wait(under_way, timeout=POLL_SECONDS, return_when=FIRST_COMPLETED)
            for call in ended:
                _close(under_way.pop(call), call.result())


def _begin(due: DueMessage) -> StartedAttempt | None:
    try:
        return begin_attempt(due)
    except Exception:
        log.exception("a webhook attempt could not be started", extra={"delivery": due.delivery_pk})
        postpone_message(due.delivery_pk)
        return None


def _close(letter: StartedAttempt, ending: AttemptResult) -> None:
    try:
        close_attempt(letter, ending)
    except Exception:
        # The attempt was counted before the call; the message is due again after UNDER_WAY.
        log.exception("a webhook attempt could not be closed", extra={"delivery": letter.delivery_pk})


def make_call(letter: StartedAttempt) -> AttemptResult:
    """Make the call. Faults are returned, never raised."""
    assert_no_transaction()
    try:
        return _carry(letter)
    except http_client.NoReply as why:
        return AttemptResult(trouble=str(why))
    except signing.SecretUnreadable:
        return AttemptResult(
            trouble="The signing secret cannot be decrypted, because SECRET_KEY was changed. Rotate the secret."
        )
    except Exception as error:  # noqa: BLE001  after any fault the attempt must be closed
        return AttemptResult(trouble=f"The call failed ({type(error).__name__}).")


def send_test_message(endpoint: WebhookEndpoint) -> AttemptResult:
    """Send one signed message of the type ``webhook.test``, which is not stored. Faults are returned, never raised."""
    now = clock.now()
    body = {"type": TEST_TYPE, "timestamp": format_datetime(now), "data": {"webhook": endpoint.public_id}}
    sealed = list(live_secrets(endpoint, now=now).values_list("sealed", flat=True))
    return make_call(
        StartedAttempt(
            endpoint_pk=endpoint.pk,
            delivery_pk=0,
            attempt=1,
            message_id=new_id("msg"),
            url=endpoint.url,
            body=dumps(body),
            format=endpoint.format,
            source=source_of(endpoint.agent),
            sealed=sealed,
            began_at=now,
        )
    )


def _carry(letter: StartedAttempt) -> AttemptResult:
    message = render_message(letter.format, message_id=letter.message_id, source=letter.source, plain=letter.body)
    signed = signing.signed_headers(
        message_id=letter.message_id, body=message.body, at=letter.began_at, sealed=letter.sealed
    )
    with http_client.open_call(
        method="POST",
        url=letter.url,
        resolve=lambda: address_policy.check_webhook_url(letter.url),
        headers=[*message.headers, ("Content-Length", str(len(message.body))), *signed],
        content=message.body,
        seconds=CALL_SECONDS,
    ) as response:
        if 200 <= response.status < 300:
            return AttemptResult(status=response.status)
        return AttemptResult(
            status=response.status,
            trouble=_fault_of(response.status),
            excerpt=_escaped(http_client.read_excerpt(response, max_bytes=MAX_EXCERPT_LENGTH)),
            retry_after=_retry_after(response, now=letter.began_at),
        )


def _fault_of(status: int) -> str:
    if 300 <= status < 400:
        return f"The reply is a redirect ({status}), which is not followed."
    if status == GONE:
        return "The endpoint answered 410 Gone and is disabled."
    return f"The reply has the status {status}."


def _retry_after(response: httpcore.Response, *, now: datetime) -> timedelta | None:
    """Return the delay that the endpoint asks for (RFC 9110: seconds or a date), at most six hours."""
    if response.status not in _STATUSES_WITH_RETRY_AFTER:
        return None
    headers = {name.lower(): value for name, value in response.headers}
    text = headers.get(b"retry-after", b"").decode("latin-1").strip()
    if re.fullmatch("[0-9]{1,9}", text):
        return min(timedelta(seconds=int(text)), MAX_RETRY_AFTER)
    try:
        asked = parsedate_to_datetime(text) - now
    except (TypeError, ValueError):  # no date, or one without an offset
        return None
    return max(min(asked, MAX_RETRY_AFTER), timedelta())


def _escaped(body: bytes) -> str:
    """Return the beginning of a reply on one line, with unprintable characters escaped."""
    text = body.decode("utf-8", errors="backslashreplace")
    return "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in text)[:MAX_EXCERPT_LENGTH]
