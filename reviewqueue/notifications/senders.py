"""Senders: mail by SMTP, over one connection per turn, and chat messages by Apprise.

The call runs in a thread that uses no database and has a time limit, so that a server that answers one byte at a time cannot
occupy the worker. A failure of the server ends the turn: the channel rests, and its messages stay due.
"""

from __future__ import annotations

import contextlib
import logging
import os
import smtplib
import socket
import ssl
import time
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Protocol

from django.core.mail import EmailMultiAlternatives, get_connection
from django.core.mail.backends.base import BaseEmailBackend

from ledger.transactions import assert_no_transaction
from reviewqueue.models import NotificationMessage
from reviewqueue.notifications import messages
from reviewqueue.notifications.content import render_chat, render_mail
from reviewqueue.notifications.messages import Channel, SendResult

log = logging.getLogger(__name__)

#: For one message; a turn of ``seconds`` ends at most this much later.
SECONDS_PER_MESSAGE = 15.0
_SUBJECT_OF_CHAT = "Review queue"
#: Replies that concern one recipient or message, not the server.
_FINAL_CODES = range(500, 600)
#: RFC 1870: the reply to MAIL FROM if the declared size of the message exceeds the limit of the server.
_TOO_LARGE = 552


class Sender(Protocol):
    """Renders and sends the messages of one channel."""

    def prepare(self, message: NotificationMessage) -> bool:
        """Render the message; False if nothing of it concerns its recipient any more."""

    def send(self) -> SendResult:
        """Send what was prepared, without the database. Faults are returned."""

    def abort(self) -> None:
        """End a call that takes too long, from another thread."""

    def close(self) -> None: ...


class MailSender:
    """Sends mail over one connection."""

    def __init__(self) -> None:
        self._connection: BaseEmailBackend = get_connection()
        self._mail: EmailMultiAlternatives | None = None

    def prepare(self, message: NotificationMessage) -> bool:
        self._mail = render_mail(message)
        return self._mail is not None

    def send(self) -> SendResult:
        assert self._mail is not None  # noqa: S101  prepared
        try:
            self._connection.open()
            self._connection.send_messages([self._mail])
        except smtplib.SMTPRecipientsRefused as refused:
            code, reply = next(iter(refused.recipients.values()))
            return SendResult(trouble=_reply(code, reply), is_final=code in _FINAL_CODES)
        except smtplib.SMTPSenderRefused as refused:
            trouble = _reply(refused.smtp_code, refused.smtp_error)
            if refused.smtp_code == _TOO_LARGE:
                return SendResult(trouble=trouble, is_final=True)
            self.close()
            return SendResult(trouble=trouble, is_server_fault=True)
        except smtplib.SMTPDataError as refused:
            return SendResult(
                trouble=_reply(refused.smtp_code, refused.smtp_error), is_final=refused.smtp_code in _FINAL_CODES
            )
        except (smtplib.SMTPException, OSError, ssl.SSLError) as fault:
            self.close()
            return SendResult(
                trouble=f"The mail server does not accept mail ({type(fault).__name__}).", is_server_fault=True
            )
        return SendResult()

    def abort(self) -> None:
        server = getattr(self._connection, "connection", None)
        with contextlib.suppress(OSError, AttributeError):
            if server is not None:
                server.sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with contextlib.suppress(smtplib.SMTPException, OSError):
            self._connection.close()


class ChatSender:
    """Sends chat messages. The address is read from the environment at each call and never stored or logged."""

    def __init__(self) -> None:
        self._variable = self._text = ""

    def prepare(self, message: NotificationMessage) -> bool:
        text = render_chat(message)
        self._text, self._variable = text or "", message.chat.variable if message.chat is not None else ""
        return text is not None

    def send(self) -> SendResult:
        import apprise  # takes a second, and processes that send no chat message need none of it

        room, address = apprise.Apprise(), os.environ.get(self._variable, "")
        if not address or not room.add(address):
            fault = "is not set" if not address else "is not an address that Apprise knows"
            return SendResult(trouble=f"The environment variable {self._variable} {fault}.")
        if room.notify(body=self._text, title=_SUBJECT_OF_CHAT, body_format=apprise.NotifyFormat.TEXT):
            return SendResult()
        return SendResult(trouble="The chat service did not accept the message.")

    def abort(self) -> None:
        """Apprise has timeouts of its own, of four seconds."""

    def close(self) -> None: ...


SENDERS: dict[str, type[MailSender] | type[ChatSender]] = {Channel.MAIL: MailSender, Channel.CHAT: ChatSender}


def send_due_messages(channel: str, *, seconds: float) -> int:
    """Send the due messages of a channel, if no other worker does. Starts none after ``seconds``. Returns the number."""
    turn = messages.take_turn(channel)
    if turn is None:
        return 0
    until, sent, is_server_fault = time.monotonic() + seconds, 0, False
    sender = SENDERS[channel]()
    executor = ThreadPoolExecutor(max_workers=1)
    try:
        while not is_server_fault and time.monotonic() < until:
            pk = messages.next_due(channel)
            if pk is None:
                break
            result = _send_one(pk, sender, executor)
            if result is not None:
                sent += not result.trouble
                is_server_fault = result.is_server_fault
    finally:
        sender.close()
        executor.shutdown(wait=False, cancel_futures=True)
        messages.end_turn(channel, turn, is_server_fault=is_server_fault)
    return sent


def _send_one(pk: int, sender: Sender, executor: ThreadPoolExecutor) -> SendResult | None:
    message = messages.begin_attempt(pk)
    if message is None:
        return None
    try:
        if not sender.prepare(message):
            messages.void_message(message)
            return None
    except Exception as fault:
        log.exception("a notification could not be rendered", extra={"message_id": message.public_id})
        result = SendResult(trouble=f"It could not be rendered ({type(fault).__name__}).")
    else:
        result = _call(sender, executor)
    messages.close_attempt(message, result)
    return result


def _call(sender: Sender, executor: ThreadPoolExecutor) -> SendResult:
    assert_no_transaction()
    call = executor.submit(sender.send)
    try:
        return call.result(timeout=SECONDS_PER_MESSAGE)
    except FutureTimeout:
        sender.abort()
        return SendResult(trouble=f"No answer within {SECONDS_PER_MESSAGE:.0f} seconds.", is_server_fault=True)
    except Exception as fault:  # noqa: BLE001  after any fault the attempt must be closed
        return SendResult(trouble=f"It could not be sent ({type(fault).__name__}).")


def _reply(code: int, reply: bytes | str) -> str:
    """Return a reply of the mail server on one line, with unprintable characters escaped."""
    text = reply.decode("utf-8", errors="backslashreplace") if isinstance(reply, bytes) else str(reply)
    return f"The mail server answered {code}: " + "".join(
        sign if sign.isprintable() else ascii(sign)[1:-1] for sign in text
    )
