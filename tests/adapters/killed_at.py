"""Runs an example, and kills its process at a request: `killed_at.py PLACE PROGRAM ARGUMENTS...`.

``PLACE`` is a pattern for `before` or `after`, the method and the end of the path, such as `after PUT effects/order.*`.
"""

from __future__ import annotations

import os
import re
import runpy
import signal
import sys

import httpx

place, program, *arguments = sys.argv[1:]
send = httpx.HTTPTransport.handle_request


def reach(reached: str) -> None:
    if re.fullmatch(place, reached):
        os.kill(os.getpid(), signal.SIGKILL)


def send_and_reach(transport: httpx.HTTPTransport, request: httpx.Request) -> httpx.Response:
    path = re.sub(r"^/api/v1/((runs|continuations|interrupts)/\w{3}_\w+/?)?", "", request.url.path)
    reach(f"before {request.method} {path}")
    response = send(transport, request)
    response.read()
    reach(f"after {request.method} {path}")
    return response


httpx.HTTPTransport.handle_request = send_and_reach  # type: ignore[method-assign]
sys.argv = [program, *arguments]
runpy.run_path(program, run_name="__main__")
