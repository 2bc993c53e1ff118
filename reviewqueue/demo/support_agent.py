"""A second, short sample agent: it performs approved calls of requests that another program created.

    python3 support_agent.py     claims decided requests, performs their calls, exits

Its requests come by `POST asks` (a run with one interrupt and no worker): from a cron job, a ticket system, or curl. The
environment is that of `purchase_agent`. An approval creates a permit for the exact call, to be used once; its arguments come
from there, so the agent stores nothing. The state of each run is the request itself: after a restart, earlier decisions do
not count, and the agent asks again.
"""

from __future__ import annotations

import json
import os
import urllib.request

PLACES = {"refund_order": "/refunds", "send_mail": "/mails", "pay_invoice": "/payments"}


def continue_run(claimed):
    """Perform the approved call once, if there is one, and end the run. Ask again if there is no decision."""
    run, lease = claimed["run"], {"Run-Lease": claimed["lease"]["token"]}
    if claimed["checkpoint"]["step"] != "ask" or any(it["name"] not in PLACES for it in claimed["permits"]):
        return hand_back(claimed, lease)
    if not claimed["answers"]:
        return ask_again(claimed, lease)
    done = [it["name"] for it in claimed["effects"] if it["status"] == "applied"]  # by a process before this one
    for permit in claimed["permits"]:
        key = f"{permit['name']}:{run['key']}"
        wanted = {"name": permit["name"], "permit": permit["id"], "repeat": "by_key"}
        effect = ask_queue("PUT", f"/runs/{run['id']}/effects/{key}", wanted, lease)
        if effect["perform"]:
            receipt = ask_records(PLACES[permit["name"]], effect["arguments"], key)
            report = {"attempt_token": effect["attempt_token"], "status": "applied", "receipt": receipt}
            ask_queue("POST", f"/runs/{run['id']}/effects/{key}/outcome", report)
        elif effect["status"] == "failed":  # its owner knows that it did not happen
            end(run, lease, "/fail", {"error": f"{permit['name']} did not happen."})
            return print_line(run, "failed")
        done.append(permit["name"])
    verdicts = {key: answer["verdict"] for key, answer in claimed["answers"].items()}
    if "respond" in verdicts.values():  # the reviewer requested changes, but the program that asked has exited
        end(run, lease, "/fail", {"error": "The reviewer requested changes, which this agent cannot make."})
    else:  # performed, or rejected by a person or at the deadline: the result has the verdict
        end(
            run,
            lease,
            "/complete",
            {"result": {"answers": verdicts, "done": sorted(set(done))}},
        )
    return print_line(run, ", ".join(map(str, verdicts.values())))


def hand_back(claimed, lease):
    """Release a run that another program of the same agent must continue."""
    detail = {"reason": "unknown_checkpoint", "detail": "not a request of POST asks with a call of this agent"}
    ask_queue("POST", f"/runs/{claimed['run']['id']}/lease/release", detail, lease)
    return print_line(claimed["run"], "handed back")


def ask_again(claimed, lease):
    """Create the same request with a new deadline: the run was restarted, and no decision counts."""
    run, state = claimed["run"], claimed["checkpoint"]["state"]
    if not state:
        end(run, lease, "/fail", {"error": "The run was restarted, but its state does not contain the request."})
        return print_line(run, "failed")
    checkpoint = {"step": "ask", "state": state}
    body = {"after": claimed["checkpoint"]["number"], "checkpoint": checkpoint, "interrupts": [state["request"]]}
    ask_queue("POST", f"/runs/{run['id']}/interrupts", body, lease)
    return print_line(run, "asked again")


def end(run, lease, how, body):
    ask_queue("POST", f"/runs/{run['id']}{how}", body, lease)


def print_line(run, text):
    print(f"agent {os.getpid()}: {run['title']}: {text}", flush=True)  # noqa: T201  output of a process


def ask_queue(method, path, body, headers=None):
    headers = {"Authorization": f"Bearer {os.environ['REVIEW_QUEUE_KEY']}"} | (headers or {})
    return send(method, f"{os.environ['REVIEW_QUEUE']}/api/v1{path}", body, headers)


def ask_records(path, body, key):
    return send("POST", os.environ["RECORDS"] + path, body, {"Idempotency-Key": key})


def send(method, url, body, headers):
    headers = headers | {"Content-Type": "application/json"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers, method=method)  # noqa: S310  from our own settings
    with urllib.request.urlopen(request, timeout=60) as reply:  # noqa: S310
        return json.load(reply)


if __name__ == "__main__":
    for claimed in ask_queue("POST", "/continuations/claim", {"max": 5, "wait": int(os.environ.get("WAIT", "20"))}):
        continue_run(claimed)
