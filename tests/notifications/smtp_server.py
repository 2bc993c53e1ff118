"""A mail server as a process of its own, so that a test can kill it: `python -m tests.notifications.smtp_server PORT FILE`.

It appends the Message-ID of each mail to FILE before it accepts the mail. A kill between the two leads to a duplicate.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from email import message_from_bytes
from pathlib import Path

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, Envelope, Session
from django.conf import settings

from tests.own_processes import eventually


class RecordingHandler:
    """Accepts every mail, and refuses recipients whose address begins with ``gone``."""

    def __init__(self, file: Path) -> None:
        self.file = file

    async def handle_RCPT(  # noqa: N802  aiosmtpd's name
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if address.startswith("gone"):
            return "550 5.1.1 no such user"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
        assert isinstance(envelope.content, bytes)
        message = message_from_bytes(envelope.content)
        with self.file.open("a") as kept:
            kept.write(f"{message['Message-ID']}\n")
        return "250 OK"


def received(file: Path) -> list[str]:
    return file.read_text().split() if file.exists() else []


@contextlib.contextmanager
def mail_server(port: int, file: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run the server. ``kill`` of the process is a crash."""
    command = [sys.executable, "-m", "tests.notifications.smtp_server", str(port), str(file)]
    process = subprocess.Popen(command, cwd=settings.ROOT, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        eventually(process.stdout.readline, within=30)
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


if __name__ == "__main__":
    server = Controller(RecordingHandler(Path(sys.argv[2])), hostname="127.0.0.1", port=int(sys.argv[1]))
    server.start()
    os.write(1, b"ready\n")
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    threading.Event().wait()
