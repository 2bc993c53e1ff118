"""A person's process: a reviewer who decides requests, or an operator who pauses, resumes and cancels runs.

`python -m tests.nemesis.people SCRIPT reviewer|operator`.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from tests.nemesis.clients import Client, Script
from tests.nemesis.history import OK


class Reviewer(Client):
    def live(self) -> None:
        while True:
            looked = self.call("look", "GET", "interrupts?status=waiting&limit=20", tries=1)
            waits = looked.body["interrupts"] if looked.outcome == OK else []
            for wait in self.chance.sample(waits, min(3, len(waits))):
                self.decide(wait)
            time.sleep(self.chance.uniform(0.05, 0.4))

    def decide(self, wait: dict[str, Any]) -> None:
        verdict = "approve" if self.chance.random() < 0.75 else "reject"
        self.call(
            "decide",
            "POST",
            f"interrupts/{wait['id']}/decisions",
            {"state_version": wait["state_version"], "verdict": verdict},
            about={"interrupt": wait["id"], "verdict": verdict, "deadline": wait["deadline"]},
            tell=lambda it: {"decision": it["decision"], "status": it["status"]},
            Idempotency_Key=self.new_key(),
        )


class Operator(Client):
    def live(self) -> None:
        while True:
            if self.over():
                self.resume_all()
            else:
                self.interfere()
            time.sleep(self.chance.uniform(0.5, 1.5))

    def resume_all(self) -> None:
        listed = self.call("look", "GET", "runs?status=paused&limit=100", tries=1)
        for run in listed.body["runs"] if listed.outcome == OK else []:
            self.call("resume", "POST", f"runs/{run['id']}/resume", {}, about={"run": run["id"]})

    def interfere(self) -> None:
        listed = self.call("look", "GET", "runs?limit=50", tries=1)
        runs = listed.body["runs"] if listed.outcome == OK else []
        going = [run["id"] for run in runs if run["status"] in ("running", "waiting", "ready", "revalidating")]
        if not going:
            return
        run = self.chance.choice(going)
        about = {"run": run}
        if self.chance.random() < 0.35:
            self.call("cancel", "POST", f"runs/{run}/cancel", {"reason": "Not any more."}, about=about)
            return
        self.call("pause", "POST", f"runs/{run}/pause", {"reason": "One minute."}, about=about)
        time.sleep(self.chance.uniform(0.5, 3))
        self.call("resume", "POST", f"runs/{run}/resume", {}, about=about, tries=60)


if __name__ == "__main__":
    kind = {"reviewer": Reviewer, "operator": Operator}[sys.argv[2]]
    kind(Script.read(sys.argv[1])).live()
