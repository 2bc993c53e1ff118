# Derived from `_async` by make_sync.py; change that instead.
"""A run in the hands of this process: its steps, effects, requests and checkpoints."""

from __future__ import annotations

import contextlib
import logging
import uuid
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Unpack
from urllib.parse import quote

import httpx
from reviewqueue_client import exact_json
from reviewqueue_client._sync.platform import Function, Heartbeat, call, sleep
from reviewqueue_client.errors import (
    EffectFailed,
    NotPerformed,
    Refused,
    ReviewQueueError,
    RunEnded,
    Stopped,
    Unreachable,
)
from reviewqueue_client.retries import seconds_of
from reviewqueue_client.values import (
    STATE_FORMAT,
    Answer,
    Attachment,
    Compensation,
    InFlight,
    Question,
    Repeat,
    Request,
    pack_state,
    unpack_state,
)

if TYPE_CHECKING:
    from reviewqueue_client._sync.client import Client

log = logging.getLogger("reviewqueue_client")

#: The lease has ended: another worker continues, or none does.
LOST = frozenset({"lease_lost", "facts_changed", "approval_lost", "run_finished"})
#: A person must act before any worker can continue; the lease is released.
BLOCKED = frozenset({"agent_halted", "in_doubt", "was_compensated", "record_changed", "file_spoilt"})
#: The server's own stop: a checkpoint ends the lease.
STOPPING = frozenset({"run_paused", "run_cancelled"})
ENDED = frozenset({"completed", "failed", "cancelled", "expired"})


def approved_call(client: Client, run: str, answer: Answer) -> dict[str, Any] | None:
    """Return name and arguments of the call that an answer of a run approved, including edits; None without one."""
    if not answer.approved:
        return None
    page = client.call("GET", f"runs/{run}/interrupts?limit=100")
    [found] = [one["id"] for one in page["interrupts"] if one["key"] == answer.key and one["status"] == "answered"][-1:]
    asked = client.call("GET", f"interrupts/{found}")
    proposed = asked["proposal"]
    return {"name": proposed["name"], "arguments": answer.arguments or proposed["arguments"]}


class Run:
    """A run that this process holds the lease of. A function gets it, and can be executed again from its beginning.

    Names of steps and keys of effects and requests must be the same in every execution.
    """

    def __init__(self, client: Client, claim: Mapping[str, Any], *, lease_seconds: int) -> None:
        run, checkpoint = claim["run"], claim["checkpoint"]
        self.client = client
        self.id: str = run["id"]
        self.key: str = run["key"]
        self.title: str = run["title"]
        self.epoch: int = run["epoch"]
        self.metadata: dict[str, Any] = run["metadata"]
        self.cause: str = claim["cause"]
        self.attempt: int = claim["attempt"]
        self.traceparent: str = claim.get("traceparent") or ""
        self.step_name: str = checkpoint["step"]
        self.state, self._carried = unpack_state(checkpoint)
        self.answers = {key: Answer.of(key, sent) for key, sent in claim["answers"].items()}
        self.overtaken = {key: Answer.of(key, sent) for key, sent in claim["overtaken"].items()}
        self._has_more_answers = bool(claim.get("more_answers"))
        self.changed: list[dict[str, Any]] = claim["changed"]
        self.facts: list[dict[str, Any]] = claim["facts"]
        self.compensated_since: list[str] = checkpoint.get("compensated_since", [])
        self.ended = False
        if self.overtaken:  # a fact changed: what was computed from it must be computed again
            self._carried = {}
        self._number: int = checkpoint["number"]
        self._can_have_file = checkpoint.get("file") is not None
        self._lease: str = claim["lease"]["token"]
        self._done: dict[str, Any] = {}
        self._used: set[str] = set()
        self._recorded: dict[str, Any] | None = {} if self.attempt <= 1 else None
        self._stop = ""
        self._heartbeat = Heartbeat(self._send_heartbeat, lease_seconds / 3)

    def read_more_answers(self) -> None:
        """Read the answers that the claim did not list, if there are any; `answers` and `overtaken` are whole then."""
        cursor: str | None = "" if self._has_more_answers else None
        while cursor is not None:
            more = f"&next={quote(cursor)}" if cursor else ""
            page = self.client.call("GET", f"runs/{self.id}/answers?limit=100{more}")
            for sent in page["answers"]:
                known = self.overtaken if sent["overtaken"] else self.answers
                known[sent["key"]] = Answer.of(sent["key"], sent)
            cursor = page["next"]
        self._has_more_answers = False
        if self.overtaken:
            self._carried = {}

    @property
    def checkpoint_number(self) -> int:
        """Return the number of the last checkpoint; each new one has a higher number."""
        return self._number

    # --- steps --------------------------------------------------------------------------------------------------------

    def step(self, name: str, function: Function) -> Any:
        """Return the recorded result of the step, or call ``function`` and record its result.

        The result is a JSON value; fractions are returned as `Decimal`. A step can be executed again if the process dies
        before its result is recorded, so calls to the outside world belong into ``effect``.
        """
        if name in self._used:
            raise ValueError(f"The step name {name!r} is used twice. Number the steps of a loop.")
        if name in self._carried:
            self._used.add(name)
            return self._carried[name]
        self._safe_point()
        recorded = self._recorded_steps()
        result = recorded[name] if name in recorded else call(function)
        reply = self._call("PUT", f"steps/{quote(name, safe='')}", {"result": result})
        self._used.add(name)
        self._done[name] = reply["result"]
        self._obey(reply)
        self._safe_point()
        return reply["result"]

    def _recorded_steps(self) -> dict[str, Any]:
        """Return the results that an earlier lease recorded after this checkpoint."""
        if self._recorded is None:
            found: dict[str, Any] = {}
            cursor: str | None = ""
            while cursor is not None:
                more = f"?next={quote(cursor)}" if cursor else ""
                page = self.client.call("GET", f"runs/{self.id}/steps{more}")
                found |= {step["name"]: step["result"] for step in page["steps"]}
                cursor = page["next"]
            self._recorded = found
        return self._recorded

    # --- effects ------------------------------------------------------------------------------------------------------

    def effect(
        self,
        key: str,
        function: Function,
        *,
        name: str = "",
        arguments: Any = None,
        permit: str | None = None,
        repeat: Repeat = "never",
        stable_key: bool = True,
        in_flight: InFlight = "await",
        compensation: Compensation | None = None,
        probe: Mapping[str, Any] | None = None,
    ) -> Any:
        """Perform a call to the outside world once, and return its receipt.

        ``function`` gets the arguments: with a ``permit`` those that people approved. An earlier execution's receipt is
        returned without a call. ``name`` is the function's name when left out. If the function raises ``NotPerformed`` or
        cannot connect, the effect is recorded as failed; after any other exception its outcome is unknown. A receipt that is
        not a JSON value, or that the server refuses, is returned now; recorded is ``{"receipt_not_recorded": reason}``.
        """
        self._safe_point()
        body: dict[str, Any] = {"name": name or getattr(function, "__name__", ""), "repeat": repeat}
        body |= {"arguments": {} if arguments is None else arguments} if permit is None or arguments is not None else {}
        body |= {"permit": permit} if permit is not None else {}
        body |= {} if stable_key else {"stable_key": False}
        body |= {} if in_flight == "await" else {"in_flight": in_flight}
        body |= {"compensation": dict(compensation)} if compensation else {}
        body |= {"probe": dict(probe)} if probe else {}
        return self._perform(key, body, function)

    def _perform(self, key: str, body: dict[str, Any], function: Function) -> Any:
        path = f"effects/{quote(key, safe='')}"
        begun = self._call("PUT", path, body, idempotency_key=str(uuid.uuid4()))
        if not begun["perform"]:
            if begun["status"] == "failed":
                raise EffectFailed(key, begun.get("error"))
            return begun.get("receipt")
        path, token = f"runs/{self.id}/{path}/outcome", begun["attempt_token"]
        try:
            receipt = call(function, begun["arguments"])
        except NotPerformed as error:
            self._report_error(path, error, attempt_token=token, status="failed", retryable=error.retryable)
            raise
        except (ConnectionRefusedError, httpx.ConnectError) as error:
            self._report_error(path, error, attempt_token=token, status="failed", retryable=True)
            raise
        except BaseException as error:
            self._report_error(path, error, attempt_token=token, status="unknown")
            raise
        self._report_applied(path, receipt, attempt_token=token)
        return receipt

    def _report_applied(self, path: str, receipt: Any, **outcome: Any) -> None:
        """Report the receipt; one that is not JSON or that the server refuses is replaced by the reason."""
        outcome["status"] = "applied"
        try:
            exact_json.dumps(receipt)
        except Exception as error:  # noqa: BLE001  # the call was made, so it must be recorded
            reason = f"{type(error).__name__}: {error}"
        else:
            try:
                self.client.call("POST", path, outcome | {"receipt": receipt})
            except (Refused, Unreachable) as problem:
                if not problem.is_final:
                    raise
                reason = str(problem)
            else:
                return
        log.warning("a receipt of the run %s was not recorded: %s", self.key, reason)
        self.client.call("POST", path, outcome | {"receipt": {"receipt_not_recorded": _plain(reason)}})

    def _report_error(self, path: str, error: BaseException, **outcome: Any) -> None:
        """Report the exception of a function. The function's exception is raised, so one of the report is logged."""
        try:
            text = _plain(f"{error}" if outcome["status"] == "failed" else f"{type(error).__name__}: {error}")
            self.client.call("POST", path, outcome | {"error": text})
        except Exception:
            log.exception("the outcome of a call of the run %s was not reported", self.key)

    # --- requests to people -------------------------------------------------------------------------------------------

    def ask(self, key: str, **question: Unpack[Question]) -> Answer:
        """Return the answer to the request with this key; without one, suspend the run until people answer."""
        asked: Request = {**question, "key": key}
        return (self.ask_all([asked]))[key]

    def ask_all(self, requests: Iterable[Request], *, any_of: bool = False) -> dict[str, Answer]:
        """Ask several requests at once and return the answers by key. ``any_of``: the first answer is enough."""
        asked = list(requests)
        keys = [request["key"] for request in asked]
        given = {key: self.answers[key] for key in keys if key in self.answers}
        if len(given) == len(asked) or (any_of and given):
            return given
        self._safe_point()
        body = {
            "after": self._number,
            "checkpoint": self._checkpoint(self.step_name, self.state),
            "interrupts": [request for request in asked if request["key"] not in given],
            "resume_when": "any" if any_of else "all",
        }
        reply = self._call("POST", "interrupts", body)
        if reply["run"]["status"] != "running":
            raise Stopped("suspended")
        self.answers |= {key: Answer.of(key, sent) for key, sent in reply["answers"].items()}
        return {key: self.answers[key] for key in keys if key in self.answers}

    def download(self, attachment: Attachment) -> bytes:
        """Return the verified bytes of a file that a reviewer attached (``Client.download``)."""
        return self.client.download(attachment)

    def report_facts(self, values: Mapping[str, Any]) -> str:
        """Report the facts that this worker checks. Returns `continue`, or `refresh` if a credential is not valid.

        If a changed fact sends the run back, the lease has ended and the function is executed again later.
        """
        reported = [{"name": name, "value": value} for name, value in values.items()]
        judged = self._call("POST", "facts", {"facts": reported})
        if judged["control"] in ("replan", "renew"):
            self._stop = "facts_changed"
            raise Stopped("facts_changed")
        return str(judged["control"])

    # --- checkpoints and the end --------------------------------------------------------------------------------------

    def checkpoint(self, step: str, state: Any = None, *, facts: Iterable[Mapping[str, Any]] = ()) -> None:
        """Commit a checkpoint: any process continues at ``step`` with ``state``. Results of earlier steps are dropped.

        A function of a worker returns after this, and the worker calls the function of ``step``.
        """
        self._commit(step, state, {}, facts=list(facts))
        self.step_name, self.state = step, state
        self._carried, self._done, self._used, self._recorded = {}, {}, set(), {}
        self._safe_point()

    def put_file(self, content: bytes) -> None:
        """Upload the file of the next checkpoint, which ``checkpoint`` or a request commits."""
        self._call("PUT", f"checkpoints/{self._number + 1}/file", content)

    def get_file(self) -> bytes | None:
        """Return the verified file of the last checkpoint; None without one."""
        if not self._can_have_file:
            return None
        try:
            content: bytes = self._call("GET", f"checkpoints/{self._number}/file", None)
        except Refused as refused:
            if refused.status == 404:
                return None
            raise
        return content

    def _commit(self, step: str, state: Any, steps: Mapping[str, Any], *, facts: list[Any] | None = None) -> None:
        content: dict[str, Any] = {"step": step, "state": pack_state(state, steps), "format": STATE_FORMAT}
        body = content | {"after": self._number} | ({"facts": facts} if facts else {})
        reached = self._call("POST", "checkpoints", body)
        self._number, self._can_have_file = reached["number"], True  # the reply does not name its file
        if reached["control"] != "continue":  # the run has stopped at this checkpoint, and the lease has ended
            self._stop = "stopped"
            raise Stopped(reached["control"])

    def _checkpoint(self, step: str, state: Any) -> dict[str, Any]:
        return {"step": step, "state": pack_state(state, self._carried | self._done), "format": STATE_FORMAT}

    def progress(self, text: str, *, done: int | None = None, of: int | None = None, spent: str | None = None) -> None:
        """Tell people what the run does now. This is also a heartbeat."""
        progress = {"text": text, "done": done, "of": of, "spent": spent}
        self._obey(self._call("POST", "lease", {"progress": progress}))
        self._safe_point()

    def complete(self, result: Any = None) -> None:
        """Complete the run. A function that returns does the same with its result."""
        self._call("POST", "complete", {"result": result})
        self.ended = True

    def fail(self, error: Any) -> None:
        """End the run as failed. Declared compensations follow."""
        self._call("POST", "fail", {"error": error})
        self.ended = True

    def release(self, reason: str = "retry", detail: str = "") -> None:
        """Return the run, so that another worker can claim it at once."""
        self._stop = "released"
        with contextlib.suppress(Refused):  # a lost lease needs no release
            self.client.call(
                "POST",
                f"runs/{self.id}/lease/release",
                {"reason": reason, "detail": _plain(detail)[:300]},
                lease=self._lease,
            )

    def compensate(self, due: Mapping[str, Any], function: Function) -> None:
        """Perform a compensation of a claim. ``function`` gets the arguments and the receipt of the effect."""

        def perform(arguments: Any) -> Any:
            return function(arguments, due["receipt"])

        self._perform(due["key"], {"name": due["name"]}, perform)

    # --- the lease ----------------------------------------------------------------------------------------------------

    def _call(self, method: str, path: str, body: Any, *, idempotency_key: str = "") -> Any:
        """Call under the lease. Raises ``Stopped`` for a refusal after which this process must not continue the run."""
        try:
            return self.client.call(
                method, f"runs/{self.id}/{path}", body, lease=self._lease, idempotency_key=idempotency_key
            )
        except Refused as refused:
            if refused.code in LOST:
                self._stop = refused.code
            elif refused.code in STOPPING:
                self._stop_here()
            elif refused.code in BLOCKED:
                self.release("retry", refused.code)
            else:
                raise
            raise Stopped(refused.code) from None

    def _stop_here(self) -> None:
        """Commit a checkpoint, which ends the lease of a run that people paused or cancelled."""
        content = self._checkpoint(self.step_name, self.state) | {"after": self._number}
        self._stop = "stopped"
        with contextlib.suppress(Refused):
            self.client.call("POST", f"runs/{self.id}/checkpoints", content, lease=self._lease)

    def _obey(self, reply: Mapping[str, Any]) -> None:
        if reply["control"] != "continue" and not self._stop:
            self._stop = reply["control"]

    def _safe_point(self) -> None:
        """Stop here if people, the server or this process want it."""
        if self._stop in ("pause", "cancel"):
            reason = self._stop
            self._stop_here()
            raise Stopped(reason)
        if self._stop == "shutdown":
            self.release("retry", "the worker shuts down")
            raise Stopped("shutdown")
        if self._stop:
            raise Stopped(self._stop)

    def stop(self) -> None:
        """Let the run stop at its next safe point and return it. Can be called from a signal handler."""
        self._stop = self._stop or "shutdown"

    def _send_heartbeat(self) -> bool:
        """Send a heartbeat; return whether to send more."""
        if self.ended or self._stop in LOST | {"stopped", "released"}:
            return False
        try:
            self._obey(self.client.call("POST", f"runs/{self.id}/lease", {}, lease=self._lease, attempts=2))
        except Refused as refused:
            if refused.code in LOST and not self.ended:
                self._stop = self._stop or refused.code
                return False
        except ReviewQueueError:
            pass  # the next heartbeat may get through; a lapsed lease is refused by the server
        return True

    def __enter__(self) -> Run:
        self._heartbeat.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._heartbeat.close()


def _plain(text: str) -> str:
    """Return a text that the server accepts as an error: without lone surrogates and NUL, and not too long."""
    return text.encode(errors="backslashreplace").decode().replace("\0", "\\x00")[:2000]


class RunHandle:
    """A run that was started or found by its key. ``execute`` carries it to its end, in this process."""

    def __init__(self, client: Client, started: Mapping[str, Any], *, code_version: str) -> None:
        self._client, self._code_version = client, code_version
        self.id: str = started["id"]
        self.key: str = started["key"]

    def details(self) -> dict[str, Any]:
        """Return the run as the server describes it (`GET runs/{id}`)."""
        found: dict[str, Any] = self._client.call("GET", f"runs/{self.id}")
        return found

    def execute(
        self,
        function: Function,
        *,
        lease_seconds: int = 30,
        compensations: Mapping[str, Function] | None = None,
    ) -> Any:
        """Call ``function`` with the run until it returns, and return the result that the run was completed with.

        While people decide, this process waits. If it is killed, start it again: the function is executed from its
        beginning, and gets recorded results, answers and receipts instead of repeating work. Raises ``RunEnded`` if the
        run ended without a result.
        """
        worker = self._client.worker(code_version=self._code_version, lease_seconds=lease_seconds)
        worker.every_step(function)
        for name, undo in (compensations or {}).items():
            worker.compensation(name)(undo)
        idle = 0
        while True:
            found = self.details()
            status, continuation = found["status"], found["continuation"]
            if status in ENDED:
                outcome = (found["outcome"] or {}).get("result")
                if status == "completed":
                    return outcome
                raise RunEnded(self.id, status, outcome)
            claimed = None
            if continuation is not None and found["lease"] is None and status != "revalidating":
                claimed = self._claim(continuation, lease_seconds)
            if claimed is not None:
                idle = 0
                worker.perform(claimed)
            elif status == "waiting":
                self._wait_for_an_answer()
            else:
                idle += 1
                sleep(min(2.0, 0.1 * 1.5 ** min(idle, 20)))

    def _claim(self, continuation: str, lease_seconds: int) -> dict[str, Any] | None:
        body: dict[str, Any] = {"lease_seconds": lease_seconds}
        body |= {"code_version": self._code_version} if self._code_version else {}
        try:
            [claimed] = self._client.call(
                "POST", f"continuations/{continuation}/claim", body, idempotency_key=str(uuid.uuid4())
            )
        except Refused as refused:
            if refused.code in ("already_claimed", "not_ready", "not_found", "agent_halted"):
                return None
            raise
        found: dict[str, Any] = claimed
        return found

    def _wait_for_an_answer(self) -> None:
        """Wait until a request of the run is no longer open, for at most half a minute."""
        page = self._client.call("GET", f"runs/{self.id}/interrupts?limit=100")
        waiting = [interrupt["id"] for interrupt in page["interrupts"] if interrupt["status"] == "waiting"]
        if waiting:
            seconds = 30 if len(waiting) == 1 else 5
            _, headers = self._client.exchange("GET", f"interrupts/{waiting[0]}?wait={seconds}", wait=seconds)
            sleep(seconds_of(headers.get("Retry-After")))
