"""AWS Step Functions: a task waits with its token (`.waitForTaskToken`), and the answer is sent to it once."""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Unpack, cast

from botocore.exceptions import BotoCoreError, ClientError, ParamValidationError
from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from reviewqueue_client import exact_json
from reviewqueue_client._sync.client import Client
from reviewqueue_client._sync.delivery import Answers
from reviewqueue_client._sync.run import Run, approved_call
from reviewqueue_client.delivery import Outcome
from reviewqueue_client.errors import EffectFailed, NotPerformed, Refused, ReviewQueueError, Stopped
from reviewqueue_client.values import Question, Request

log = logging.getLogger("reviewqueue_client")

#: Errors of the API that mean that no task waits with this token: it got a result, timed out, or was never issued.
CLOSED = frozenset({"TaskTimedOut", "TaskDoesNotExist", "InvalidToken"})
#: The error for a result of more than 256 KiB.
TOO_LARGE = "InvalidOutput"
#: Errors of the API that are about the request itself. Any other, such as of credentials or keys, can be mended and is
#: not about the task: the request is repeated.
INVALID = frozenset({TOO_LARGE, "ValidationException", "ValidationError"})
#: Errors of the API that mean that an execution has no history, or none that this process may read.
NO_HISTORY = frozenset({"ExecutionDoesNotExist", "InvalidArn", "AccessDeniedException", "AccessDenied"})
#: Statuses of runs whose task must get heartbeats.
OPEN = ("waiting", "revalidating", "ready", "blocked", "paused")
#: Looks into the history of an execution, one a second, and its pages of 1000 events.
LOOKS, PAGES = 3, 5


class NotReached(ReviewQueueError):
    """The API cannot be used now. The text is the error's code only: its message can have the token."""


class TokenCipher:
    """Encrypts task tokens before they leave this process. The server stores only the ciphertext and has no key.

    ``keys``: Fernet keys, the newest first; it encrypts, and all decrypt. Raises ``ValueError`` for a key that is not one.
    """

    def __init__(self, keys: Iterable[str]) -> None:
        self._fernet = MultiFernet([Fernet(key.strip()) for key in keys])

    def encrypt(self, token: str) -> str:
        return self._fernet.encrypt(token.encode()).decode()

    def decrypt(self, encrypted: str) -> str:
        """Return the token. Raises ``ValueError`` if it was encrypted with another key."""
        try:
            return self._fernet.decrypt(encrypted).decode()
        except InvalidToken:
            raise ValueError("The task token was encrypted with a key that this process does not have.") from None


class TaskRequests:
    """Creates one request for each task token, in the function or the queue consumer that receives the token."""

    def __init__(self, client: Client, cipher: TokenCipher, *, code_version: str = "step-functions") -> None:
        self._client, self._cipher = client, cipher
        self._answers = Answers(client, code_version=code_version)

    def create(
        self, token: str, *, execution: str = "", heartbeat: bool = False, **question: Unpack[Question]
    ) -> dict[str, Any]:
        """Create the request of a task, or find it: a token that is received twice is one request. Returns its interrupt.

        ``execution``: the ARN of the execution (`$$.Execution.Id`). With it a repeated result is recognized in its history.
        ``heartbeat``: whether the task has `HeartbeatSeconds`.
        """
        key = f"task:{hashlib.sha256(token.encode()).hexdigest()[:32]}"
        target = {"task_token": self._cipher.encrypt(token), "execution": execution, "heartbeat": heartbeat}
        try:
            created: dict[str, Any] = self._answers.create(cast(Request, {**question, "key": key}), target=target)[
                "interrupt"
            ]
        except Refused as refused:
            if refused.code != "key_reused":
                raise
            # The key is the token's, whose ciphertext is another one each time.
            page = self._client.call("GET", f"runs/{refused.problem['run']}/interrupts?limit=100")
            created = page["interrupts"][0]
        return created


class AnswerSender:
    """Sends answers to waiting tasks, and heartbeats until then. Run one or more.

    ``engine``: a boto3 client of `stepfunctions`. Effect rules must allow the agent `send_task_result` and
    `confirm_task_result`. ``lease_seconds``: the longest time until another process sends what a killed one has claimed.
    """

    def __init__(
        self,
        client: Client,
        engine: Any,
        cipher: TokenCipher,
        *,
        code_version: str = "step-functions",
        lease_seconds: int = 30,
    ) -> None:
        self._client, self._engine, self._cipher = client, engine, cipher
        self._code_version = code_version
        self._answers = Answers(client, code_version=code_version)
        self._worker = client.worker(code_version=code_version, lease_seconds=lease_seconds)
        self._worker.every_step(self.send)
        self._heartbeats: dict[str, str] = {}

    def run(self, *, cursor: str, every: float = 10.0) -> None:
        """Send until the process gets SIGTERM or SIGINT.

        ``cursor``: the file that keeps the place in the event feed, where requests are found that ended without an answer.
        ``every``: seconds between two heartbeats of a task, less than half of its `HeartbeatSeconds`.
        """
        self._start(self.send_heartbeats, every)
        self._start(lambda: self._answers.deliver_ends(self._send_end, cursor=cursor), min(every, 2.0))
        self._worker.run()

    def _start(self, function: Callable[[], Any], every: float) -> None:
        def repeat() -> None:
            while True:
                try:
                    function()
                except NotReached as error:
                    log.warning("Step Functions cannot be used (%s); this is repeated in %.1f s", error, every)
                except Exception:
                    log.exception("this is repeated in %.1f s", every)
                time.sleep(every)

        threading.Thread(target=repeat, daemon=True).start()

    # --- results ------------------------------------------------------------------------------------------------------

    def send(self, run: Run) -> Any:
        """Send the answer of one run to its task: the function of a worker.

        If the API refuses it and the history does not show this result, its owner must say what the workflow got: the
        outcome of the effect `confirm_task_result` is unknown. If it got nothing, the run fails.
        """
        request, task = run.state["request"], run.state["target"]
        answer = run.ask_all([request])[request["key"]]
        call = approved_call(run.client, run.id, answer)
        arguments = None if call is None else call["arguments"]
        outcome = Outcome.of_answer({"id": run.id, "epoch": run.epoch}, answer, arguments=arguments)
        described = {"execution": task["execution"], "outcome": outcome.id, "status": outcome.status}
        token, code = self._token_of(run, task), ""

        def send(_: Any) -> Any:
            if refused := self._result_of(token, task["execution"], outcome, run=run):
                raise NotPerformed(refused, retryable=False)
            return {"accepted": True}

        try:
            run.effect("task-result", send, name="send_task_result", arguments=described, repeat="by_key")
        except NotPerformed as error:
            code = str(error)
        except EffectFailed as error:
            code = error.error or "unknown"
        if code == TOO_LARGE:  # the task learns it as the end of the run
            run.fail({"code": "task_result_refused", "detail": code})
            return None
        if code:
            try:
                run.effect(
                    "task-result-confirmed",
                    _ask_owner,
                    name="confirm_task_result",
                    arguments=described | {"error": code},
                )
            except EffectFailed as error:
                run.fail({"code": "task_closed", "detail": f"{code}: {error}"})
                return None
        return outcome.as_json()

    def _token_of(self, run: Run, task: Mapping[str, Any]) -> str:
        """Return the token. A run whose token needs another key is released as incompatible, and its owner sees it."""
        try:
            return self._cipher.decrypt(task["task_token"])
        except ValueError as error:
            run.release("incompatible", str(error))
            raise Stopped("incompatible") from error

    def _result_of(self, token: str, execution: str, outcome: Outcome, *, run: Run | None = None) -> str:
        """Send the result, again while the API is not reached. Return "" if the task has it, or the error's code."""
        failures = 0
        while True:
            try:
                if outcome.status == "answered":
                    self._engine.send_task_success(taskToken=token, output=_text(outcome.as_json()))
                else:
                    error = f"ReviewQueue.{outcome.status.capitalize()}"
                    self._engine.send_task_failure(taskToken=token, error=error, cause=_text({"id": outcome.id}))
            except (ClientError, BotoCoreError) as problem:
                code = _code_of(problem)
                if code in CLOSED and self._has_result(execution, outcome, run=run):
                    return ""
                if not _is_transient(problem):
                    return code
                failures += 1
                self._wait(code, failures, run)
            else:
                return ""

    def _wait(self, code: str, failures: int, run: Run | None) -> None:
        """Wait until the next attempt. Without a run the end is delivered again later."""
        if run is None:
            raise NotReached(code) from None
        delay = self._client.retries.delay(failures)
        log.warning("Step Functions cannot be used (%s); next attempt in %.1f s", code, delay)
        time.sleep(delay)
        run.progress(f"Waiting for Step Functions ({code})")  # ends here if the lease is lost

    def _has_result(self, execution: str, outcome: Outcome, *, run: Run | None) -> bool:
        """Return whether the history of the execution has this result: an earlier attempt arrived, and was not recorded."""
        if not execution:
            return False
        looks = failures = 0
        while looks < LOOKS:
            try:
                if any(outcome.id == id_ for id_ in self._results(execution)):
                    return True
            except (ClientError, BotoCoreError) as error:
                if _is_transient(error) and _code_of(error) not in NO_HISTORY:
                    failures += 1
                    self._wait(_code_of(error), failures, run)
                    continue
                log.warning("the history of %s cannot be read: %s", execution, _code_of(error))
                return False
            looks += 1
            if looks < LOOKS:
                time.sleep(1)
        return False

    def _results(self, execution: str) -> Iterator[Any]:
        """Return the ids of outcomes in the history of an execution, the newest first."""
        more: dict[str, str] = {}
        for _ in range(PAGES):
            page = self._engine.get_execution_history(
                executionArn=execution, reverseOrder=True, maxResults=1000, **more
            )
            for event in page["events"]:
                text = event.get("taskSucceededEventDetails", {}).get("output")
                text = text or event.get("taskFailedEventDetails", {}).get("cause")
                try:
                    found = exact_json.loads((text or "null").encode())
                except ValueError:  # another task's text
                    continue
                if isinstance(found, Mapping):
                    yield found.get("id")
            if not page.get("nextToken"):
                return
            more = {"nextToken": page["nextToken"]}

    def _send_end(self, task: Any, outcome: Outcome) -> None:
        """Let a task fail whose run ended without an answer. Raises ``ValueError`` without the key of its token.

        A run without a token, such as another program's with the same code version, is logged: no key makes one of it.
        """
        if not isinstance(task, Mapping) or not isinstance(task.get("task_token"), str):
            log.error("the end of %s is not sent: its run has no task token", outcome.key)
            return
        code = self._result_of(self._cipher.decrypt(task["task_token"]), task.get("execution") or "", outcome)
        if code:
            log.warning("no task waits for the end of %s (%s); it is not sent", outcome.key, code)

    # --- heartbeats ---------------------------------------------------------------------------------------------------

    def send_heartbeats(self) -> int:
        """Send one heartbeat for each open run whose task needs them, and return their number.

        A run whose task no longer waits is cancelled, so that people do not decide in vain.
        """
        open_runs = {run["id"]: run for run in self._open_runs()}
        self._heartbeats = {run: token for run, token in self._heartbeats.items() if run in open_runs}
        sent = 0
        for run in open_runs.values():
            try:
                sent += self._send_heartbeat(run)
            except (ClientError, BotoCoreError) as error:
                log.warning("a heartbeat of the run %s was not sent: %s", run["id"], _code_of(error))
            except Exception:
                log.exception("a heartbeat of the run %s was not sent", run["id"])
        return sent

    def _send_heartbeat(self, run: Mapping[str, Any]) -> int:
        """Send the heartbeat of one run, and return how many were sent. Cancel the run if its task no longer waits."""
        if run["id"] not in self._heartbeats:
            reached = self._client.call("GET", f"runs/{run['id']}/checkpoints/{run['checkpoint']}")
            self._heartbeats[run["id"]] = self._token_for_heartbeats(Answers.target_of(reached))
        token = self._heartbeats[run["id"]]
        if not token:
            return 0
        closed = ""
        try:
            self._engine.send_task_heartbeat(taskToken=token)
        except ClientError as error:
            closed = _code_of(error)
            if closed not in CLOSED:
                raise
        if closed:
            self._cancel(run["id"], closed)
        return 0 if closed else 1

    def _token_for_heartbeats(self, task: Mapping[str, Any]) -> str:
        """Return the token, or "" if the task needs no heartbeats or this process does not have the key."""
        try:
            return self._cipher.decrypt(task["task_token"]) if task["heartbeat"] else ""
        except ValueError:
            log.exception("a task gets no heartbeats")
            return ""

    def _cancel(self, run: str, code: str) -> None:
        if self._client.call("GET", f"runs/{run}")["status"] == "waiting":  # otherwise its answer is being sent
            reason = f"The task of Step Functions no longer waits ({code})."
            self._client.call("POST", f"runs/{run}/cancel", {"reason": reason})

    def _open_runs(self) -> Iterator[dict[str, Any]]:
        for status in OPEN:
            more = ""
            while True:
                page = self._client.call("GET", f"runs?status={status}&limit=100{more}")
                yield from (run for run in page["runs"] if run["code_version"] == self._code_version)
                if page["next"] is None:
                    break
                more = f"&next={page['next']}"


def _ask_owner(_: Any) -> None:
    raise RuntimeError("The API refused the result, and the history of the execution does not show it")


def _text(value: Any) -> str:
    return exact_json.dumps(value).decode()


def _code_of(error: Exception) -> str:
    return str(error.response["Error"]["Code"]) if isinstance(error, ClientError) else type(error).__name__


def _is_transient(error: Exception) -> bool:
    return not isinstance(error, ParamValidationError) and _code_of(error) not in CLOSED | INVALID
