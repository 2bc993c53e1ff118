"""The agent that the kill tests kill, written with the Python client.

Environment: `REVIEW_QUEUE`, `REVIEW_QUEUE_KEY`; `RECEIVER`, the address of the receiver of effects; `RUN`, the key of the
run; `AS`, `script` or `worker`; `KILL_AT`, a place such as `after PUT steps/offer` at which the process kills itself, or
empty. Prints the result of the run.
"""

from __future__ import annotations

import json
import os
import re
import signal
import time
import urllib.request
import uuid
from typing import Any

import httpx
from reviewqueue_client import Client, Run, RunEnded

RECEIVER, KEY, KILL_AT = os.environ["RECEIVER"], os.environ["RUN"], os.environ.get("KILL_AT", "")


def reach(place: str) -> None:
    if KILL_AT and re.fullmatch(KILL_AT, place):
        os.kill(os.getpid(), signal.SIGKILL)


class Killing(httpx.HTTPTransport):
    """Kills this process before or after a request, named by its method and the end of its path."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        path = re.sub(r"^/api/v1/((runs|continuations)/\w{3}_\w+/)?", "", request.url.path)
        reach(f"before {request.method} {path}")
        response = super().handle_request(request)
        response.read()
        reach(f"after {request.method} {path}")
        return response


def post_to_receiver(path: str, body: Any) -> Any:
    request = urllib.request.Request(f"{RECEIVER}{path}", json.dumps(body).encode(), method="POST")
    with urllib.request.urlopen(request, timeout=20) as reply:
        return json.load(reply)


def work(run: Run) -> Any:
    """Look up an offer, mail the supplier, ask for an approval, place the order. One checkpoint lies in between."""
    if run.step_name == "start":
        offer = run.step("offer", lambda: {"amount": "184000.00", "quote": str(uuid.uuid4())})
        run.step("second", lambda: post_to_receiver(f"/executed/{run.key}", {"quote": offer["quote"]}))
        run.effect(f"mail:{run.key}", perform(f"mail:{run.key}"), name="mail", arguments=offer, repeat="by_key")
        run.checkpoint("order", offer)
    proposal: Any = {"name": "issue_order", "arguments": run.state}
    answer = run.ask("order", reason="approval.action", queue="purchasing", title=f"Order {run.key}", proposal=proposal)
    note = run.step("note", lambda: str(uuid.uuid4()))
    key = f"order:{run.key}"
    receipt = run.effect(key, perform(key), name="issue_order", permit=answer.permit, repeat="by_key")
    return {"receipt": receipt, "quote": run.state["quote"], "note": note}


def perform(key: str) -> Any:
    """Return the function that sends a call to the receiver, which drops repeats by their key."""

    def send(arguments: Any) -> Any:
        reach(f"before effect {key.partition(':')[0]}")
        receipt = post_to_receiver(f"/effects/{key}", arguments)
        reach(f"after effect {key.partition(':')[0]}")
        return receipt

    return send


def main() -> None:
    with Client(transport=Killing()) as client:
        handle = client.run(KEY)
        if os.environ.get("AS") != "worker":
            print(json.dumps(handle.execute(work, lease_seconds=5)))
            return
        worker = client.worker(lease_seconds=5)
        worker.every_step(work)
        while (found := handle.details())["status"] not in ("completed", "failed", "cancelled", "expired"):
            if not worker.run_once(wait=1):
                time.sleep(0.1)
        if found["status"] != "completed":
            raise RunEnded(handle.id, found["status"])
        print(json.dumps(found["outcome"]["result"]))


if __name__ == "__main__":
    main()
