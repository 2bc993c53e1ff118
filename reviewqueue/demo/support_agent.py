"""A second sample agent, the short way: whoever asked is long gone, and this only does what was decided.

    python3 support_agent.py     claims what was answered, does it, exits

Its questions came by `POST asks` (a run with one wait and no worker): from a cron job, a ticket system, or curl. The
environment is that of `purchase_agent`. An approval leaves a permit behind: the exact call, to be done once. The arguments
come back from there, so nothing has to be written down anywhere else.
"""

from __future__ import annotations

import json
import os
import urllib.request

PLACES = {"refund_order": "/refunds", "send_mail": "/mails", "pay_invoice": "/payments"}


def go_on(claimed):
    """Do the approved call once, or nothing, and end the run."""
    run, lease = claimed["run"], {"Run-Lease": claimed["lease"]["token"]}
    for permit in claimed["permits"]:
        key = f"{permit['name']}:{run['key']}"
        wanted = {"name": permit["name"], "permit": permit["id"], "repeat": "by_key"}
        effect = ask_queue("PUT", f"/runs/{run['id']}/effects/{key}", wanted, lease)
        if effect["perform"]:
            receipt = ask_records(PLACES[permit["name"]], effect["arguments"], key)
            report = {"attempt_token": effect["attempt_token"], "status": "applied", "receipt": receipt}
            ask_queue("POST", f"/runs/{run['id']}/effects/{key}/outcome", report)
    said = {key: answer["verdict"] for key, answer in claimed["answers"].items()}
    ask_queue("POST", f"/runs/{run['id']}/complete", {"result": {"answers": said}}, lease)
    print(f"agent {os.getpid()}: {run['title']}: {', '.join(map(str, said.values())) or 'settled'}", flush=True)  # noqa: T201


def ask_queue(method, path, body, headers=None):
    headers = {"Authorization": f"Bearer {os.environ['REVIEW_QUEUE_KEY']}"} | (headers or {})
    return send(method, f"{os.environ['REVIEW_QUEUE']}/api/v1{path}", body, headers)


def ask_records(path, body, key):
    return send("POST", os.environ["RECORDS"] + path, body, {"Idempotency-Key": key})


def send(method, url, body, headers):
    headers = headers | {"Content-Type": "application/json"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers, method=method)  # noqa: S310  our own setting
    with urllib.request.urlopen(request, timeout=60) as reply:  # noqa: S310
        return json.load(reply)


if __name__ == "__main__":
    for claimed in ask_queue("POST", "/continuations/claim", {"max": 5, "wait": int(os.environ.get("WAIT", "20"))}):
        go_on(claimed)
