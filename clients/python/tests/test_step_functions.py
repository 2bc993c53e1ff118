"""What errors of the API of Step Functions lead to, without AWS. Skipped without its library."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest
from reviewqueue_client import Refused
from reviewqueue_client.delivery import Outcome

pytest.importorskip("botocore")
exceptions = pytest.importorskip("botocore.exceptions")
fernet = pytest.importorskip("cryptography.fernet")
step_functions = pytest.importorskip("reviewqueue_client.adapters.step_functions")
OUTCOME = Outcome(id="o-1", key="K-1", status="cancelled", answer=None)
TOKEN = "secret-token"  # noqa: S105


def refused(code: str, status: int = 400) -> Exception:
    response = {"Error": {"Code": code, "Message": TOKEN}, "ResponseMetadata": {"HTTPStatusCode": status}}
    error: Exception = exceptions.ClientError(response, "SendTaskFailure")
    return error


class Engine:
    """Raises these errors, one at each call of a function, and succeeds after them."""

    def __init__(self, **errors: list[Exception]) -> None:
        self.errors, self.calls = errors, []  # type: ignore[var-annotated]

    def _call(self, name: str) -> None:
        self.calls.append(name)
        if self.errors.get(name):
            raise self.errors[name].pop(0)

    def send_task_failure(self, **_: Any) -> None:
        self._call("failure")

    def send_task_heartbeat(self, *, taskToken: str) -> None:  # noqa: N803
        self._call(f"heartbeat_{taskToken[-1]}")

    def get_execution_history(self, **_: Any) -> Any:
        self._call("history")
        return {"events": [{"taskFailedEventDetails": {"cause": '{"id": "o-1"}'}}]}


class Run:
    def __init__(self) -> None:
        self.progressed = 0

    def progress(self, _: str) -> None:
        self.progressed += 1


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_functions.time, "sleep", lambda _: None)


def sender_of(engine: Engine, call: Any = None, keys: int = 1) -> Any:
    cipher = step_functions.TokenCipher([fernet.Fernet.generate_key().decode() for _ in range(keys)])
    worker = SimpleNamespace(every_step=lambda _: None)
    retries = SimpleNamespace(delay=lambda _: 0.0)
    client = SimpleNamespace(call=call, retries=retries, worker=lambda **_: worker)
    return step_functions.AnswerSender(client, engine, cipher)


@pytest.mark.parametrize(
    "error",
    [
        refused("ExpiredTokenException"),
        refused("AccessDeniedException"),
        refused("ThrottlingException"),
        refused("KmsThrottlingException"),
        refused("InternalFailure", 500),
        exceptions.NoCredentialsError(),
        exceptions.EndpointConnectionError(endpoint_url="https://states"),
    ],
)
def test_an_error_that_is_not_about_the_task_is_repeated(error: Exception):
    engine, run = Engine(failure=[error, error]), Run()
    assert sender_of(engine)._result_of(TOKEN, "", OUTCOME, run=run) == ""
    assert engine.calls == ["failure"] * 3
    assert run.progressed == 2
    with pytest.raises(step_functions.NotReached):  # an end is delivered again
        sender_of(Engine(failure=[error]))._result_of(TOKEN, "", OUTCOME)


@pytest.mark.parametrize("code", ["TaskTimedOut", "TaskDoesNotExist", "InvalidOutput", "ValidationException"])
def test_an_error_about_the_task_is_final(code: str):
    engine = Engine(failure=[refused(code)])
    assert sender_of(engine)._result_of(TOKEN, "", OUTCOME, run=Run()) == code
    invalid = exceptions.ParamValidationError(report=TOKEN)
    assert sender_of(Engine(failure=[invalid]))._result_of(TOKEN, "", OUTCOME, run=Run()) == "ParamValidationError"


def test_a_history_that_cannot_be_read_now_is_read_again():
    unread = [refused("ThrottlingException"), exceptions.ReadTimeoutError(endpoint_url="https://states")]
    engine = Engine(failure=[refused("TaskTimedOut")], history=unread)
    assert sender_of(engine)._result_of(TOKEN, "arn", OUTCOME, run=Run()) == ""
    assert engine.calls == ["failure", "history", "history", "history"]


def test_one_failed_heartbeat_does_not_stop_the_others(caplog: pytest.LogCaptureFixture):
    runs = [{"id": f"r-{n}", "checkpoint": 1, "code_version": "step-functions"} for n in range(1, 6)]

    def call(method: str, path: str, *_: Any) -> Any:
        if path.startswith("runs?"):
            return {"runs": runs if "status=waiting" in path else [], "next": None}
        number = path[len("runs/r-")]
        if method == "POST":
            raise Refused(409, {"detail": "not now"})
        if "checkpoints" not in path:
            return {"status": "waiting"}
        target = {"task_token": sender._cipher.encrypt(f"{TOKEN}-{number}"), "heartbeat": True}
        return {"state": {"request": {}, "target": {} if number == "3" else target}}

    engine = Engine(
        heartbeat_1=[refused("ThrottlingException")],
        heartbeat_2=[refused("TaskTimedOut")],
        heartbeat_4=[exceptions.ReadTimeoutError(endpoint_url="https://states")],
    )
    sender = sender_of(engine, call)
    with caplog.at_level(logging.WARNING):
        assert sender.send_heartbeats() == 1
    assert engine.calls == ["heartbeat_1", "heartbeat_2", "heartbeat_4", "heartbeat_5"]
    assert TOKEN not in caplog.text


def test_an_end_whose_token_needs_another_key_is_not_dropped():
    task = {"task_token": sender_of(Engine())._cipher.encrypt(TOKEN), "execution": ""}
    with pytest.raises(ValueError, match="key that this process does not have"):
        sender_of(Engine())._send_end(task, OUTCOME)


@pytest.mark.parametrize("task", [None, {}, {"task_token": None}, "token"])
def test_an_end_without_a_token_is_logged_and_keeps_no_other_end(task: Any, caplog: pytest.LogCaptureFixture):
    engine = Engine()
    sender_of(engine)._send_end(task, OUTCOME)
    assert engine.calls == []
    assert "the end of K-1 is not sent" in caplog.text
