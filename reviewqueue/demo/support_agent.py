"""A second sample agent, the short way: whoever asked is long gone, and this only does what was decided.

    python3 support_agent.py     claims what was answered, does it, exits

Its questions came by `POST asks` (a run with one wait and no worker): from a cron job, a ticket system, or curl. The
environment is that of `purchase_agent`. An approval leaves a permit behind: the exact call, to be done once. The arguments
come back from there, so nothing has to be written down anywhere else. The state that came with the ask is the question
itself: after a restart nothing that was said before counts, and it is asked anew.
"""

from __future__ import annotations

import json
import os
import urllib.request

PLACES = {"refund_order": "/refunds", "send_mail": "/mails", "pay_invoice": "/payments"}


def go_on(claimed):
    """Do the approved call once, or nothing, and end the run; ask anew where nobody has answered yet."""
    run, lease = claimed["run"], {"Run-Lease": claimed["lease"]["token"]}
    if not claimed["answers"]:
        return ask_anew(claimed, lease)
    for permit in claimed["permits"]:
        key = f"{permit['name']}:{run['key']}"
        wanted = {"name": permit["name"], "permit": permit["id"], "repeat": "by_key"}
        effect = ask_queue("PUT", f"/runs/{run['id']}/effects/{key}", wanted, lease)
        if effect["perform"]:
            receipt = ask_records(PLACES[permit["name"]], effect["arguments"], key)
            report = {"attempt_token": effect["attempt_token"], "status": "applied", "receipt": receipt}
            ask_queue("POST", f"/runs/{run['id']}/effects/{key}/outcome", report)
    said = {key: answer["verdict"] for key, answer in claimed["answers"].items()}
    if "respond" in said.values():  # a question back, and whoever could answer it is long gone
        end(run, lease, "/fail", {"error": "Somebody asked back, and this agent has no more to say."})
    else:  # the call was done, or a person (or the end of their time) said no: the result tells which
        end(run, lease, "/complete", {"result": {"answers": said, "done": [it["name"] for it in claimed["permits"]]}})
    return say(run, ", ".join(map(str, said.values())))


def ask_anew(claimed, lease):
    """Ask what was asked, with its whole time again: the run was restarted, and there is no answer that counts."""
    run, state = claimed["run"], claimed["checkpoint"]["state"]
    if not state:
        end(run, lease, "/fail", {"error": "It was started again, and its question was not kept."})
        return say(run, "failed")
    checkpoint = {"step": "ask", "state": state}
    body = {"after": claimed["checkpoint"]["number"], "checkpoint": checkpoint, "interrupts": [state["wait"]]}
    ask_queue("POST", f"/runs/{run['id']}/interrupts", body, lease)
    return say(run, "asked anew")


def end(run, lease, how, body):
    ask_queue("POST", f"/runs/{run['id']}{how}", body, lease)


def say(run, words):
    print(f"agent {os.getpid()}: {run['title']}: {words}", flush=True)  # noqa: T201  a process speaks


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
