"""Runs an example, and kills its process: `killed_at.py PLACE PROGRAM ARGUMENTS...`.

``PLACE`` is a pattern for `before` or `after`, the method and the end of the path, such as `after PUT effects/order.*`; or
a time after the first request, such as `1.25 s`, so that no kill hits a process that only imports its libraries.
"""

from __future__ import annotations

import os
import re
import runpy
import signal
import sys
import threading
from pathlib import Path

import httpx

place, program, *arguments = sys.argv[1:]
send = httpx.HTTPTransport.handle_request
send_async = httpx.AsyncHTTPTransport.handle_async_request


timed = re.fullmatch(r"([\d.]+) s", place)
timer = threading.Timer(float(timed[1]), os.kill, [os.getpid(), signal.SIGKILL]) if timed else None


def reach(reached: str) -> None:
    if timer is not None and timer.ident is None:
        timer.daemon = True
        timer.start()
    if re.fullmatch(place, reached):
        os.kill(os.getpid(), signal.SIGKILL)


def name_of(request: httpx.Request) -> str:
    path = re.sub(r"^/api/v1/((runs|continuations|interrupts)/\w{3}_\w+/?)?", "", request.url.path)
    return f"{request.method} {path}"


def send_and_reach(transport: httpx.HTTPTransport, request: httpx.Request) -> httpx.Response:
    reach(f"before {name_of(request)}")
    response = send(transport, request)
    response.read()
    reach(f"after {name_of(request)}")
    return response


async def send_and_reach_async(transport: httpx.AsyncHTTPTransport, request: httpx.Request) -> httpx.Response:
    reach(f"before {name_of(request)}")
    response = await send_async(transport, request)
    await response.aread()
    reach(f"after {name_of(request)}")
    return response


httpx.HTTPTransport.handle_request = send_and_reach  # type: ignore[method-assign]
httpx.AsyncHTTPTransport.handle_async_request = send_and_reach_async  # type: ignore[method-assign]
sys.argv = [program, *arguments]
sys.path.insert(0, str(Path(program).parent))  # as Python does for a script
runpy.run_path(program, run_name="__main__")
