"""Carries messages to their endpoints: many at once, one at a time to each, so that a slow one costs only itself.

A round begins attempts, lets threads make the calls, and closes each as it comes home; the threads touch no database. It
goes on looking for what becomes due while slow calls hang, so that no second worker is needed for that. A message is known
to be delivered by the status of its reply; the body is never waited for, and of a failure a short beginning is kept for
operators.
"""

from __future__ import annotations

import logging
import re
import time
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime

import httpcore

from ledger.transactions import assert_none_open
from reviewqueue.outbound import address_policy, http_client
from reviewqueue.webhooks import signing
from reviewqueue.webhooks.deliveries import (
    GONE,
    LONGEST_RETRY_AFTER,
    Due,
    Ending,
    Letter,
    begin_attempt,
    close_attempt,
    due_messages,
    put_off,
)

log = logging.getLogger(__name__)

SECONDS_OF_A_CALL = 10.0
CALLS_AT_ONCE = 16
SECONDS_BETWEEN_LOOKS = 0.25
LONGEST_EXCERPT = 300
ASK_FOR_QUIET = {429, 503}


def deliver_due_messages(*, seconds: float) -> int:
    """Deliver what is due, and what becomes due meanwhile; returns how many calls were made.

    Begins no call after ``seconds``, and ends when the last one has come home, ten seconds later at the most.
    """
    until, calls = time.monotonic() + seconds, 0
    with ThreadPoolExecutor(max_workers=CALLS_AT_ONCE) as threads:
        under_way: dict[Future[Ending], Letter] = {}
        while True:
            free = CALLS_AT_ONCE - len(under_way)
            dues = due_messages(most=free) if time.monotonic() < until else []
            for letter in filter(None, map(_begin, dues)):
                under_way[threads.submit(carry, letter)] = letter
                calls += 1
            if not under_way and not dues:
                return calls
            home, _ = wait(under_way, timeout=SECONDS_BETWEEN_LOOKS, return_when=FIRST_COMPLETED)
            for call in home:
                _close(under_way.pop(call), call.result())


def _begin(due: Due) -> Letter | None:
    try:
        return begin_attempt(due)
    except Exception:
        log.exception("a message could not be begun", extra={"delivery": due.delivery_pk})
        put_off(due.delivery_pk)
        return None


def _close(letter: Letter, ending: Ending) -> None:
    try:
        close_attempt(letter, ending)
    except Exception:
        # It was counted before the call, and is due again when the time of an attempt is over.
        log.exception("an attempt could not be closed", extra={"delivery": letter.delivery_pk})


def carry(letter: Letter) -> Ending:
    """Make the call. Whatever comes of it is told, never raised."""
    assert_none_open()
    try:
        return _carry(letter)
    except http_client.NoReply as why:
        return Ending(trouble=str(why))
    except signing.SecretUnreadable:
        return Ending(trouble="Its secret cannot be read any more (SECRET_KEY was changed); rotate it.")
    except Exception as error:  # noqa: BLE001  whatever it was, the attempt has to be closed
        return Ending(trouble=f"The call failed ({type(error).__name__}).")


def _carry(letter: Letter) -> Ending:
    body = letter.body.encode()
    signed = signing.signed_headers(message_id=letter.message_id, body=body, at=letter.began_at, sealed=letter.sealed)
    with http_client.calling(
        method="POST",
        url=letter.url,
        judge=lambda: address_policy.check_webhook_url(letter.url),
        headers=[("Content-Type", "application/json"), ("Content-Length", str(len(body))), *signed],
        content=body,
        seconds=SECONDS_OF_A_CALL,
    ) as response:
        if 200 <= response.status < 300:
            return Ending(status=response.status)
        return Ending(
            status=response.status,
            trouble=_trouble_of(response.status),
            excerpt=_escaped(http_client.read_beginning(response, most=LONGEST_EXCERPT)),
            retry_after=_retry_after(response, now=letter.began_at),
        )


def _trouble_of(status: int) -> str:
    if 300 <= status < 400:
        return f"The reply is a redirect ({status}); none is followed."
    if status == GONE:
        return "The endpoint is gone (410); it is disabled."
    return f"The reply has the status {status}."


def _retry_after(response: httpcore.Response, *, now: datetime) -> timedelta | None:
    """Return how long the endpoint asks us to wait, six hours at the most. RFC 9110: seconds, or a date."""
    if response.status not in ASK_FOR_QUIET:
        return None
    told = {name.lower(): value for name, value in response.headers}
    text = told.get(b"retry-after", b"").decode("latin-1").strip()
    if re.fullmatch("[0-9]{1,9}", text):
        return min(timedelta(seconds=int(text)), LONGEST_RETRY_AFTER)
    try:
        asked = parsedate_to_datetime(text) - now
    except (TypeError, ValueError):  # no date, or one without an offset
        return None
    return max(min(asked, LONGEST_RETRY_AFTER), timedelta())


def _escaped(body: bytes) -> str:
    """Return the beginning of a reply on one line, with everything unprintable written out."""
    text = body.decode("utf-8", errors="backslashreplace")
    return "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in text)[:LONGEST_EXCERPT]
