"""Check that a port is free before a server starts.

The server itself would not notice: its processes share one port, so a second server could share it too, and two versions
would answer in turn. The check does not reserve the port.
"""

from __future__ import annotations

import errno
import socket

from django.core.management.base import CommandError


def refuse_busy_port(host: str, port: int, advice: str) -> None:
    """Raise ``CommandError`` if another process listens on the port. ``advice`` is a command that would work."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as fault:
            if fault.errno != errno.EADDRINUSE:
                raise CommandError(f"Cannot listen on {host}:{port}: {fault.strerror}.") from None
            raise CommandError(f"Port {port} is in use. {advice}") from None
