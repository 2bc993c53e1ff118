# Derived from `_async` by make_sync.py; change that instead.
"""Requests without a worker: creates them, and gets or delivers what became of them."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reviewqueue_client._sync.platform import Function, sleep
from reviewqueue_client._sync.platform import call as call_function
from reviewqueue_client._sync.run import approved_call
from reviewqueue_client.delivery import ENDED, Outcome, read_cursor, write_cursor
from reviewqueue_client.errors import Refused, ReviewQueueError
from reviewqueue_client.retries import seconds_of
from reviewqueue_client.values import Answer, Request, unpack_state

if TYPE_CHECKING:
    from reviewqueue_client._sync.client import Client

log = logging.getLogger("reviewqueue_client")

#: The claim is another process's, or the run has changed since.
NOT_NOW = frozenset({"already_claimed", "not_ready", "not_found", "agent_halted", "lease_lost", "run_finished"})


class Answers:
    """Requests that another system waits for, such as a workflow engine. Each is a run without a worker of its own.

    ``code_version`` keeps these runs apart from the agent's others. ``lease_seconds``: the longest time of one delivery.
    """

    def __init__(self, client: Client, *, code_version: str, lease_seconds: int = 30) -> None:
        self._client, self.code_version, self._lease_seconds = client, code_version, lease_seconds

    def create(self, request: Request, *, target: Any = None) -> dict[str, Any]:
        """Create the request, or find the one with this key. Returns its interrupt, its run and the page's URL.

        ``target``: what ``deliver`` gets with the outcome, a JSON value, such as the id of a workflow.
        """
        state = {"request": dict(request), "target": target}
        body = {**request, "state": state, "code_version": self.code_version}
        asked: dict[str, Any] = self._client.call("POST", "asks", body)
        return asked

    def outcome(self, run: str, *, wait: int = 0) -> Outcome | None:
        """Return what became of the request of this run, or None while people decide.

        The first call after the answer completes the run; later calls return the same. ``wait``: seconds to wait for the
        answer, at most 30.
        """
        found = self._client.call("GET", f"runs/{run}")
        if wait and found["status"] == "waiting":
            page = self._client.call("GET", f"runs/{run}/interrupts")
            for interrupt in page["interrupts"]:
                if interrupt["status"] == "waiting":
                    path = f"interrupts/{interrupt['id']}?wait={wait}"
                    _, headers = self._client.exchange("GET", path, wait=wait)
                    sleep(seconds_of(headers.get("Retry-After")))
            found = self._client.call("GET", f"runs/{run}")
        if found["status"] in ENDED:
            return Outcome.of_ended(found)
        if found["continuation"] is None or found["lease"] is not None:
            return None
        wanted = {"lease_seconds": self._lease_seconds, "code_version": self.code_version}
        key = str(uuid.uuid4())
        path = f"continuations/{found['continuation']}/claim"
        try:
            [claim] = self._client.call("POST", path, wanted, idempotency_key=key)
            outcome = self._outcome_of(claim)
            if outcome is not None:
                self._complete(claim, outcome)
        except Refused as refused:
            if refused.code in NOT_NOW:
                return None
            raise
        return outcome

    # --- deliveries ---------------------------------------------------------------------------------------------------

    def deliver(self, function: Function, *, cursor: Path | str, wait: int = 5) -> None:
        """Deliver every outcome, without end: call ``function`` with the target of the request and its outcome.

        A process that dies in between delivers again: ``function`` must drop an outcome whose `id` it has seen. An
        exception of it is logged, and the delivery is repeated. ``cursor``: the file that keeps the place in the event
        feed, from which runs are read that ended without an answer. ``wait``: seconds until such an end is noticed.
        """
        failures = 0
        while True:
            try:
                self.deliver_once(function, cursor=cursor, wait=wait)
                failures = 0
            except Exception as error:
                if isinstance(error, Refused) and error.is_final and error.code not in NOT_NOW:
                    raise
                failures += 1
                log.exception("a delivery failed and is repeated")
                sleep(self._client.retries.delay(failures))

    def deliver_once(self, function: Function, *, cursor: Path | str, wait: int = 0) -> int:
        """Deliver what is there now. Returns the number of outcomes. An exception of ``function`` is raised."""
        wanted = {"max": 1, "lease_seconds": self._lease_seconds, "code_version": self.code_version, "wait": wait}
        key = str(uuid.uuid4())
        claims = self._client.call("POST", "continuations/claim", wanted, idempotency_key=key, wait=wait)
        delivered = 0
        for claim in claims:
            outcome = self._outcome_of(claim)
            if outcome is None:
                continue
            try:
                call_function(function, claim["checkpoint"]["state"]["target"], outcome)
            except BaseException as error:
                self._release(claim, error)
                raise
            self._complete(claim, outcome)
            delivered += 1
        return delivered + self.deliver_ends(function, cursor=cursor)

    def deliver_ends(self, function: Function, *, cursor: Path | str) -> int:
        """Deliver the runs that ended without an answer since the place of the cursor. Returns their number."""
        cursor, delivered, more = Path(cursor), 0, True
        while more:
            page = self._client.call("GET", f"events?after={read_cursor(cursor)}&limit=100")
            for event in page["events"]:
                if event["type"] not in ("run.cancelled", "run.expired", "run.failed"):
                    continue
                found = self._client.call("GET", f"runs/{event['run']}")
                if found["code_version"] != self.code_version or found["status"] not in ENDED:
                    continue
                try:
                    reached = self._client.call("GET", f"runs/{found['id']}/checkpoints/{found['checkpoint']}")
                except Refused as refused:
                    if refused.code == "snapshot_erased":
                        continue
                    raise
                try:
                    target = self.target_of(reached)
                except LookupError as error:  # it keeps no other end from its receiver
                    log.error("the end of %s is not delivered: %s", found["key"], error)
                    continue
                call_function(function, target, Outcome.of_ended(found))
                delivered += 1
            if page["events"]:
                write_cursor(cursor, page["next"])
            more = page["more"]
        return delivered

    @staticmethod
    def target_of(checkpoint: Mapping[str, Any]) -> Any:
        """Return the target of a request from a checkpoint of its run.

        Raises ``LookupError`` if the run is another program's, with the same code version.
        """
        state = unpack_state(checkpoint)[0]
        if not isinstance(state, Mapping) or "target" not in state:
            raise LookupError("its run has no target, because another program created it")
        return state["target"]

    # --- one run ------------------------------------------------------------------------------------------------------

    def _outcome_of(self, claim: Mapping[str, Any]) -> Outcome | None:
        """Return the outcome of a claim. Create the request again if its answer no longer counts, as after a restart."""
        request = claim["checkpoint"]["state"]["request"]
        given = claim["answers"].get(request["key"])
        if given is not None:
            answer = Answer.of(request["key"], given)
            call = approved_call(self._client, claim["run"]["id"], answer)
            return Outcome.of_answer(claim["run"], answer, arguments=None if call is None else call["arguments"])
        checkpoint = {"step": claim["checkpoint"]["step"], "state": claim["checkpoint"]["state"]}
        body = {"after": claim["checkpoint"]["number"], "checkpoint": checkpoint, "interrupts": [request]}
        path, lease = f"runs/{claim['run']['id']}/interrupts", claim["lease"]["token"]
        self._client.call("POST", path, body, lease=lease)
        return None

    def _complete(self, claim: Mapping[str, Any], outcome: Outcome) -> None:
        path, lease = f"runs/{claim['run']['id']}/complete", claim["lease"]["token"]
        self._client.call("POST", path, {"result": outcome.as_json()}, lease=lease)

    def _release(self, claim: Mapping[str, Any], error: BaseException) -> None:
        path, lease = f"runs/{claim['run']['id']}/lease/release", claim["lease"]["token"]
        try:
            body = {"reason": "retry", "detail": f"the delivery failed: {type(error).__name__}"}
            self._client.call("POST", path, body, lease=lease)
        except ReviewQueueError:
            log.warning("the run %s was not released; its lease ends by itself", claim["run"]["key"])
