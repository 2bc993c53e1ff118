"""An agent process: starts runs, reserves two things, asks for an approval, continues ready runs, compensates.

`python -m tests.nemesis.agents SCRIPT`. It follows the agent guide: every call has a key, an effect is performed only
when instructed, and an outcome it does not know is reported as unknown. It can be killed or stopped at any time, and a
new process continues.
"""

from __future__ import annotations

import http.client
import json
import sys
import time
from datetime import datetime
from typing import Any
from urllib.parse import quote

from tests.nemesis.clients import Client, Script
from tests.nemesis.history import OK, REFUSED, UNKNOWN
from tests.nemesis.receiver import PATIENCE

LEASE = 5
RETRIES = 3


class Lost(Exception):
    """This process cannot continue the run: it was refused, or never got a response."""


class Agent(Client):
    def live(self) -> None:
        """Start runs until the time is over, and continue ready ones."""
        while True:
            try:
                if not self.over() and self.chance.random() < 0.5:
                    self.start()
                else:
                    self.take_up()
            except Lost:
                time.sleep(0.1)

    # --- the work of a run --------------------------------------------------------------------------------------------

    def start(self) -> None:
        key = self.new_key()
        body = {"key": key, "title": "An order", "code_version": "1", "lease_seconds": LEASE}
        started = self.known("create", "POST", "runs", body, about={"key": key}, tell=lambda it: {"run": it["id"]})
        if started["lease"] and started["checkpoint"] == 0:
            self.prepare(started["id"], started["lease"])

    def take_up(self) -> None:
        wanted = {"code_version": "1", "max": 1, "wait": 1, "lease_seconds": LEASE}
        taken = self.known(
            "claim", "POST", "continuations/claim", wanted, tell=_of_claim, Idempotency_Key=self.new_key()
        )
        for claimed in taken:
            self.go_on(claimed)

    def go_on(self, claimed: dict[str, Any]) -> None:
        run, lease = claimed["run"]["id"], claimed["lease"]
        if claimed["kind"] == "compensate":
            for undo in claimed["compensations"]:
                self.act(run, lease, undo["key"], name=undo["name"], undoes=undo["undoes"])
        elif claimed["checkpoint"]["number"] == 0:
            self.prepare(run, lease)
        else:
            self.finish(run, lease, claimed)

    def prepare(self, run: str, lease: dict[str, Any]) -> None:
        for which in ("first", "second"):
            key = f"reserve-{which}"
            probe = {"connection": "erp", "path": f"/done/{run}/{key}", "pointer": "/done", "applied": [True]}
            declared = {"compensation": {"name": "release", "arguments": {"of": which}}, "probe": probe}
            self.act(run, lease, key, name="reserve", arguments={"what": which}, **declared)
        self.suspend(run, lease)

    def suspend(self, run: str, lease: dict[str, Any]) -> None:
        check = {"connection": "erp", "path": "/specification", "pointer": "/specification"}
        wait = {
            "key": "order",
            "reason": "approval.action",
            "queue": "purchasing",
            "title": "Order it",
            "proposal": {"name": "issue_order", "arguments": {"of": run}},
            "facts": [{"name": "specification", "value": 7, "check": check}] if self.chance.random() < 0.4 else [],
            **({"deadline_in": "PT5S"} if self.chance.random() < 0.25 else {}),
        }
        asked = {"after": 0, "checkpoint": {"step": "ask", "state": {}}, "interrupts": [wait]}
        self.known(
            "suspend",
            "POST",
            f"runs/{run}/interrupts",
            asked,
            about={"run": run, "number": 1, **_of_lease(lease)},
            tell=lambda it: {"interrupts": [wait["id"] for wait in it["interrupts"]]},
            Run_Lease=lease["token"],
        )

    def finish(self, run: str, lease: dict[str, Any], claimed: dict[str, Any]) -> None:
        answer = claimed["answers"].get("order") or {}
        if answer.get("verdict") == "approve":
            [permit] = [permit["id"] for permit in claimed["permits"]][:1] or [None]
            named = {"name": "issue_order", **({"permit": permit} if permit else {})}
            if not self.act(run, lease, "order", **named):
                self.end(run, lease, "fail", {"error": "The order was not taken."})
                return
        self.end(run, lease, "complete", {"result": answer.get("verdict")})

    def end(self, run: str, lease: dict[str, Any], verb: str, body: dict[str, Any]) -> None:
        about = {"run": run, **_of_lease(lease)}
        self.known(verb, "POST", f"runs/{run}/{verb}", body, about=about, Run_Lease=lease["token"])

    # --- an effect ----------------------------------------------------------------------------------------------------

    def act(self, run: str, lease: dict[str, Any], key: str, *, undoes: str = "", **declared: Any) -> bool:
        """Return whether the effect is done. Raises ``Lost`` if that is unknown, or if another worker must continue."""
        about = {"run": run, "effect": key, "undoes": undoes, **_of_lease(lease)}
        path = f"runs/{run}/effects/{quote(key, safe='')}"
        for _ in range(RETRIES):
            begun = self.known(
                "begin",
                "PUT",
                path,
                declared,
                about=about,
                tell=lambda it: {"perform": it["perform"], "status": it["status"], "attempt": it["attempt"]},
                Run_Lease=lease["token"],
                Idempotency_Key=self.new_key(),
            )
            if not begun["perform"]:
                if begun["status"] in ("applied", "failed"):
                    return bool(begun["status"] == "applied")
                raise Lost(begun["status"])
            if time.time() > about["until"]:
                raise Lost("too late: by now an owner may have been asked")
            outcome = self.perform(run, key)
            body = {"attempt_token": begun["attempt_token"], "status": outcome}
            body |= {"retryable": True, "error": "It was not taken."} if outcome == "failed" else {}
            said = {**about, "status": outcome, "attempt": begun["attempt"]}
            self.known("report", "POST", f"{path}/outcome", body, about=said)
            if outcome == "applied":
                return True
            if outcome == "unknown":
                raise Lost(outcome)
        return False

    def perform(self, run: str, key: str) -> str:
        """Perform the effect once; return what is known of it afterwards."""
        number = self.record.begin("perform", {"run": run, "effect": key})
        connection = http.client.HTTPConnection("127.0.0.1", self.script.receiver, timeout=PATIENCE)
        try:
            connection.request("POST", f"/do/{run}/{quote(key, safe='')}", b"{}")
            reply = connection.getresponse()
            status, said = reply.status, reply.read(10_000)
            known = "applied" if status == 200 and "number" in json.loads(said) else "unknown"
            known = "failed" if status in (302, 429) else known
        except (OSError, http.client.HTTPException, ValueError, TypeError):
            known = "unknown"
        finally:
            connection.close()
        self.record.end(number, outcome=UNKNOWN if known == "unknown" else OK, told={"status": known})
        return known

    def known(self, verb: str, method: str, path: str, body: Any = None, **more: Any) -> Any:
        answer = self.call(verb, method, path, body, **more)
        if answer.outcome != OK:
            raise Lost(answer.code if answer.outcome == REFUSED else UNKNOWN)
        return answer.body


def _of_lease(lease: dict[str, Any]) -> dict[str, Any]:
    return {"fence": lease["fence"], "until": datetime.fromisoformat(lease["expires_at"]).timestamp()}


def _of_claim(taken: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "claimed": [
            {"run": it["run"]["id"], "fence": it["lease"]["fence"], "number": it["checkpoint"]["number"]}
            for it in taken
        ]
    }


if __name__ == "__main__":
    Agent(Script.read(sys.argv[1])).live()
