"""The service of the peer Restate: a handler that waits for an answer or a timeout. Runs in an environment of its own.

`python restate_service.py PORT MARKS` appends to the file MARKS a line `h<number> <awakeable>` when a run waits and
`c<number> <answer>` when it continues, each with the monotonic time, which is one clock for all processes.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from datetime import timedelta
from typing import Any

import hypercorn.asyncio
import hypercorn.config
import restate

#: Bytes of the request that a waiting run shows, as in `peers.py`.
REQUEST_BYTES = 1024


def main(port: int, marks: str) -> None:
    file = os.open(marks, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def mark(name: str, value: str) -> None:
        os.write(file, f"{name} {value} {time.monotonic()}\n".encode())

    service = restate.Service("purchases", inactivity_timeout=timedelta(seconds=1))

    @service.handler()
    async def wait(ctx: restate.Context, run: dict[str, Any]) -> str:
        awakeable, answer = ctx.awakeable(type_hint=str)

        async def publish() -> str:
            mark(f"h{run['number']}", awakeable)
            return str(run["state"])[:REQUEST_BYTES]

        await ctx.run_typed("publish", publish)
        found, value = await restate.select(answer=answer, timeout=ctx.sleep(timedelta(seconds=run["timeout"])))
        mark(f"c{run['number']}", "answer" if found == "answer" else "timeout")
        return str(value)

    config = hypercorn.config.Config()
    config.bind = [f"127.0.0.1:{port}"]
    asyncio.run(hypercorn.asyncio.serve(restate.app([service]), config))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
