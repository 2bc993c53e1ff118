"""The sample agent: buys a hoist and asks people twice. Standard-library Python.

    python3 purchase_agent.py start PR-4711     starts a run, asks an engineer for a certificate, exits
    python3 purchase_agent.py continue          claims a decided run, continues to the next request, exits

It stores nothing: while a person decides, no process of it exists. The claim returns everything it needs to continue: its
checkpoint, the decisions, changed facts, and the effects it has applied. Each process ends with a request
(`ask_certificate`, `ask_order`) or with the end of the run. The environment names the two servers:

    REVIEW_QUEUE   http://localhost:8000      REVIEW_QUEUE_KEY   the agent's key, from `manage.py add_agent`
    RECORDS        http://127.0.0.1:8001      RECORDS_TOKEN      if the records need one
    WAIT           how many seconds a claim waits for a run (20)
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import urllib.error
import urllib.request

CODE_VERSION = "purchase-agent-1"  # a claim returns only runs that this version can continue

STEPS = {"ask-certificate", "ask-order"}
STATE = {"request", "asked"}  # members of the state of each step

CERTIFICATE = {  # JSON Schema: the page renders a form from it, and every answer is validated
    "type": "object",
    "required": ["number", "issuer", "valid_until", "document"],
    "additionalProperties": False,
    "properties": {
        "number": {"type": "string", "title": "Certificate number", "minLength": 3, "maxLength": 40},
        "issuer": {"type": "string", "title": "Issued by", "minLength": 2, "maxLength": 80},
        "valid_until": {"type": "string", "format": "date", "title": "Valid until"},
        "document": {
            "type": "string",
            "format": "attachment",
            "title": "Certificate as a PDF",
            "contentMediaType": "application/pdf",
            "maxBytes": 5_000_000,
        },
    },
}


# --- one run under one lease ------------------------------------------------------------------------------------------


class Work:
    """A run leased by this process: its lease, its last checkpoint, and the state for the next process."""

    def __init__(self, run, lease, checkpoint, state):
        self.run, self.lease, self.checkpoint, self.state = run, lease, checkpoint, state

    def call(self, method, path, body):
        return ask_queue(method, f"/runs/{self.run['id']}{path}", body, {"Run-Lease": self.lease["token"]})

    def do_once(self, key, name, call, permit=None):
        """Perform an effect once. The queue records it before and after the call, so that no process repeats it blindly.

        The receiver gets the same idempotency key and ignores repeats (`by_key`). If this process dies between the call and
        the report, the next one can repeat the call.
        """
        wanted = {"name": name, "repeat": "by_key"} | ({"permit": permit} if permit else {"arguments": call})
        effect = self.call("PUT", f"/effects/{key}", wanted)
        if not effect["perform"]:
            return effect["receipt"]  # an earlier process performed it; this is its receipt
        receipt = ask_records("POST", {"ask_offer": "/offers"}.get(name, "/orders"), effect["arguments"], key)
        report = {"attempt_token": effect["attempt_token"], "status": "applied", "receipt": receipt}
        self.call("POST", f"/effects/{key}/outcome", report)
        return receipt

    def suspend(self, step, interrupt):
        """Store the state, create the request, and release the lease, in one call. The run then needs no process."""
        specification = {
            "name": "specification",
            "value": self.state["specification"],
            "on_change": "replan",  # report the change, and this agent repeats what depends on it
            "check": {"connection": "erp", "path": f"/purchase-requests/{self.state['request']}",
                      "pointer": "/specification/version"},
        }  # fmt: skip
        self.state["asked"] = interrupt["key"]
        checkpoint = {"step": step, "state": self.state, "code_version": CODE_VERSION}
        interrupt |= {"facts": [specification], "metadata": {"purchase_request": self.state["request"]}}
        body = {"after": self.checkpoint, "checkpoint": checkpoint, "interrupts": [interrupt]}
        [asked] = self.call("POST", "/interrupts", body)["interrupts"]
        print_line(f"asked for {asked['key']} and released the lease: {asked['url']}")

    def hand_back(self, step):
        """Release a run that another program must continue; this code version is not offered it again."""
        self.call("POST", "/lease/release", {"reason": "unknown_checkpoint", "detail": f"not a purchase: {step}"[:300]})
        print_line(f"handed back {self.run['title']}: its step {step} is not a step of a purchase")

    def finish(self, **result):
        self.call("POST", "/complete", {"result": result})
        print_line(f"finished: {result}")


# --- the work, from request to request ---------------------------------------------------------------------------------


def start(request):
    """Start a run. Its key makes a second start of the same purchase request return the same run."""
    body = {"key": request, "title": f"Purchase request {request}", "code_version": CODE_VERSION}
    run = ask_queue("POST", "/runs", body | {"metadata": {"purchase_request": request}})
    if run["continuation"]:  # an earlier process died, or the request is decided
        wanted = {"code_version": CODE_VERSION}
        [claimed] = ask_queue("POST", f"/continuations/{run['continuation']}/claim", wanted)
        return continue_run(claimed)
    if run["lease"] is None or run["checkpoint"]:
        return print_line(f"{request} is under way: {run['status']}")
    work = Work(run, run["lease"], run["checkpoint"], {"request": request})
    compare_offers(work)
    return ask_certificate(work, key="certificate")


def compare_offers(work):
    """Read the purchase request and ask every registered supplier for an offer. Both depend on the specification."""
    record = ask_records("GET", f"/purchase-requests/{work.state['request']}")
    version = record["specification"]["version"]
    known = [supplier for supplier in ask_records("GET", "/suppliers")["suppliers"] if supplier["in_register"]]
    offers = []
    for supplier in known:
        call = {"supplier": supplier["id"], "specification": version}
        offers.append(work.do_once(f"offer:{work.state['request']}:v{version}:{supplier['id']}", "ask_offer", call))
    best = min(offers, key=lambda offer: float(offer["amount"]))
    work.state |= {"item": record["item"], "specification": version, "offers": offers, "best": best}


def ask_certificate(work, key, why=""):
    """Ask an engineer for an input that fits a JSON Schema."""
    best = work.state["best"]
    work.suspend("ask-certificate", {
        "key": key, "kind": "input", "reason": "evidence.missing", "queue": "engineering", "risk": "high",
        "title": f"Load test certificate: {work.state['item']}",
        "message": f"{why}Supplier **{best['supplier']}** offers it for {best['amount']} EUR. Please enter the load test "
                   f"certificate that fits version {work.state['specification']} of the specification.",
        "input_schema": CERTIFICATE,
        "evidence": [{"label": f"Supplier check {offer['supplier']}", "value": "in the register",
                      "source": "supplier register"} for offer in work.state["offers"]],
    })  # fmt: skip


def ask_order(work, key="order"):
    """Ask for the approval of one exact call. The agent performs exactly what the reviewer approved or edited."""
    best, certificate = work.state["best"], work.state["certificate"]
    arguments = {"supplier": best["supplier"], "item": work.state["item"], "amount": best["amount"],
                 "certificate": certificate["number"]}  # fmt: skip
    amount = {"type": "string", "pattern": "^[0-9]+[.][0-9]{2}$"}
    bounds = {"type": "object", "required": list(arguments), "properties": {"amount": amount}}
    work.suspend("ask-order", {
        "key": key, "kind": "approval", "reason": "approval.action", "queue": "purchasing", "risk": "high",
        "title": f"Order {work.state['item']} from {best['supplier']}",
        "message": f"All {len(work.state['offers'])} offers are compared, and the certificate is available.",
        "proposal": {"name": "issue_purchase_order", "arguments": arguments, "schema": bounds},
        "evidence": [{"label": label, "value": certificate[member], "source": work.state["answered_by"]}
                     for label, member in (("Certificate", "number"), ("Digest of its PDF", "document"))],
    })  # fmt: skip


def continue_run(claimed):
    """Continue from the step of the checkpoint. `overtaken` has the answers that a changed fact made obsolete."""
    work = Work(claimed["run"], claimed["lease"], claimed["checkpoint"]["number"], claimed["checkpoint"]["state"])
    if not is_own(claimed):
        return work.hand_back(claimed["checkpoint"]["step"])
    if claimed["checkpoint"]["step"] == "start":
        work.state = {"request": claimed["run"]["key"]}
        compare_offers(work)
        return ask_certificate(work, key="certificate")
    if claimed["overtaken"]:
        return replan(work, claimed)
    answer = claimed["answers"].get(work.state["asked"])
    if answer is None:
        return ask_again(work, claimed["checkpoint"]["step"])
    if claimed["checkpoint"]["step"] == "ask-certificate":
        if answer["verdict"] != "answer":
            return work.finish(ordered=False, why="no certificate", by=answer["decided_by"])
        size = len(read_attachment(answer, answer["input"]["document"]))
        print_line(f"received certificate {answer['input']['number']}: {size} bytes")
        work.state |= {"certificate": answer["input"], "answered_by": answer["decided_by"]}
        return ask_order(work)
    if answer["verdict"] == "respond":  # the reviewer requested changes: ask again under another key
        return ask_order(work, key=f"order-{len(claimed['answers'])}")
    if answer["verdict"] == "reject":
        return work.finish(ordered=False, why=answer["message"], by=answer["decided_by"])
    key = f"order:{work.state['request']}"
    receipt = work.do_once(key, "issue_purchase_order", None, permit=answer["permit"])
    return work.finish(ordered=True, receipt=receipt)


def is_own(claimed):
    """Tell whether this program wrote the checkpoint: other programs can have the same agent, and so the same key."""
    if claimed["checkpoint"]["step"] == "start":
        return claimed["run"]["metadata"].get("purchase_request") == claimed["run"]["key"]
    state = claimed["checkpoint"]["state"]
    return claimed["checkpoint"]["step"] in STEPS and isinstance(state, dict) and set(state) >= STATE


def replan(work, claimed):
    """The specification changed meanwhile: compare offers again, and ask for a renewed review.

    An overtaken certificate is requested again under its own key, in the next round; the first answer remains as evidence.
    If the order was overtaken, its certificate no longer fits either, so the agent asks for another one.
    """
    [change] = [fact for fact in claimed["changed"] if fact["name"] == "specification"]
    print_line(f"the specification changed from {change['value']} to {change['now']}: comparing offers again")
    compare_offers(work)
    version = work.state["specification"]
    key = next(iter(claimed["overtaken"])) if work.state.get("certificate") is None else f"certificate-v{version}"
    work.state.pop("certificate", None)
    why = f"The specification changed from version {change['value']} to {version}. "
    return ask_certificate(work, key=key, why=why)


def ask_again(work, step):
    """After a restart no decision since this checkpoint counts. Compare offers again, and ask the same question."""
    before = work.state["specification"]
    compare_offers(work)
    if step == "ask-order" and work.state["specification"] == before:
        return ask_order(work, key=work.state["asked"])
    work.state.pop("certificate", None)
    key = work.state["asked"] if step == "ask-certificate" else f"certificate-v{work.state['specification']}"
    return ask_certificate(work, key=key)


# --- two servers, by HTTP ---------------------------------------------------------------------------------------------


class Refused(Exception):
    """The server refused the request. `code` is part of the API's contract; the sentence is for people."""

    def __init__(self, problem):
        super().__init__(problem.get("detail") or problem.get("error"))
        self.code = problem.get("code", "")


def ask_queue(method, path, body=None, headers=None):
    return send(method, f"{os.environ['REVIEW_QUEUE']}/api/v1{path}", body, queue_headers() | (headers or {}))


def ask_records(method, path, body=None, key=None):
    token = os.environ.get("RECORDS_TOKEN")
    headers = ({"Authorization": f"Bearer {token}"} if token else {}) | ({"Idempotency-Key": key} if key else {})
    return send(method, os.environ["RECORDS"] + path, body, headers)


def read_attachment(answer, digest):
    """Return the bytes of a file that the reviewer attached. The answer names them by their digest."""
    [path] = [file["url"] for file in answer["attachments"] if file["digest"] == digest]
    content = request_bytes("GET", os.environ["REVIEW_QUEUE"] + path, None, queue_headers())
    if f"sha256:{hashlib.sha256(content).hexdigest()}" != digest:
        raise ValueError(f"{path} does not have the bytes that the answer names")
    return content


def queue_headers():
    return {"Authorization": f"Bearer {os.environ['REVIEW_QUEUE_KEY']}"}


def send(method, url, body, headers):
    body = None if body is None else json.dumps(body).encode()
    headers = headers | ({"Content-Type": "application/json"} if body else {})
    return json.loads(request_bytes(method, url, body, headers))


def request_bytes(method, url, body, headers):
    request = urllib.request.Request(url, body, headers, method=method)  # noqa: S310  both addresses are from our own settings
    try:
        with urllib.request.urlopen(request, timeout=60) as reply:  # noqa: S310
            return reply.read()
    except urllib.error.HTTPError as error:
        raise Refused(json.load(error)) from None


def print_line(text):
    print(f"agent {os.getpid()}: {text}", flush=True)  # noqa: T201  output of a process


def main(arguments):
    if arguments[:1] == ["start"] and len(arguments) == 2:
        return start(arguments[1])
    if arguments == ["continue"]:
        wanted = {"code_version": CODE_VERSION, "wait": int(os.environ.get("WAIT", "20"))}
        for claimed in ask_queue("POST", "/continuations/claim", wanted):
            print_line(f"claimed {claimed['run']['title']} at {claimed['checkpoint']['step']} ({claimed['cause']})")
            continue_run(claimed)
        return None
    return sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
