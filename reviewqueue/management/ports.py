"""Is the port free that we want to listen on? Asked by `up`, `web` and `demo`, before anything starts.

The server itself would not notice: it shares its port among its processes, and so with any other server of its kind. Two
versions would then answer by turns. Nothing here keeps the port; who starts in between is not seen.
"""

from __future__ import annotations

import errno
import socket

from django.core.management.base import CommandError


def refuse_busy_port(host: str, port: int, advice: str) -> None:
    """Say in a sentence that somebody listens there already."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as trying:
        trying.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trying.bind((host, port))
        except OSError as fault:
            if fault.errno != errno.EADDRINUSE:
                raise CommandError(f"Nothing can listen on {host}:{port}: {fault.strerror}.") from None
            raise CommandError(f"The port {port} is taken: {advice}") from None
