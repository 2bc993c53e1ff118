"""The shutdown of `web`: how its processes know that it began, and how its socket stops accepting without losing a request.

A listening socket that closes resets the connections that it has not accepted yet. A proxy cannot repeat a POST that it has
sent on one of them. So new connections are refused first, at their first packet, when nothing was sent.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

#: The environment variable with the path of a file that exists while `web` is about to stop.
SHUTDOWN_MARKER = "REVIEWQUEUE_SHUTDOWN_MARKER"
#: The signal on which a process of `web` calls ``ignore_new_connections``.
IGNORE_NEW_CONNECTIONS = signal.SIGUSR1
#: For connections that are being opened. Less than a second, after which a client sends its first packet again.
SECONDS_FOR_OPENING_CONNECTIONS = 0.5

_SO_ATTACH_FILTER = 26
#: Classic BPF over a TCP segment, as (code, jump if true, jump if false, operand): drop the first packet of a connection.
_DROP_SYN = (
    (0x30, 0, 0, 13),  # load the byte of the flags
    (0x54, 0, 0, 0x12),  # and with SYN | ACK
    (0x15, 0, 1, 0x02),  # equal to SYN?
    (0x06, 0, 0, 0),  # drop
    (0x06, 0, 0, 0xFFFFFFFF),  # accept whole
)


def is_stopping() -> bool:
    """Return whether `web` got SIGTERM: no new work should be sent to this process."""
    marker = os.environ.get(SHUTDOWN_MARKER, "")
    return bool(marker) and os.path.exists(marker)  # noqa: PTH110  on every response; a Path costs four times as much


def ignore_new_connections() -> None:
    """Ignore attempts to connect to this process, on Linux. Connections that are open or being opened continue.

    A client that tries repeats its first packet after a second, and is refused if the socket is closed by then. Where a
    sandbox forbids it, nothing changes.
    """
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in _DROP_SYN))
    described = struct.pack("HP", len(_DROP_SYN), ctypes.addressof(program))
    for listener in _listening_sockets():
        with listener, contextlib.suppress(OSError):
            listener.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, described)


def _listening_sockets() -> Iterator[socket.socket]:
    """Yield a copy of each listening socket of this process. granian opens its own outside Python, one in each process."""
    if sys.platform != "linux":
        return
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # no socket, or closed meanwhile
            found = socket.socket(fileno=os.dup(int(descriptor.name)))
            if found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                yield found
            else:
                found.close()
