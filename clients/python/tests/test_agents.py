"""Agents on the fake server: what is executed again after a kill, and what people's wishes lead to."""

from __future__ import annotations

import asyncio
import json
import time
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest
from reviewqueue_client import (
    Answers,
    AsyncClient,
    AsyncRun,
    Attachment,
    Client,
    DigestMismatch,
    EffectFailed,
    NotPerformed,
    Refused,
    Request,
    Run,
    RunEnded,
    Unreachable,
)
from reviewqueue_client.testing import FakeServer

PROPOSAL: Any = {"name": "issue_order", "arguments": {"supplier": "S-17", "amount": "184000.00"}}


class Killed(BaseException):
    """Represents the end of the process."""


class Buyer:
    """The agent of these tests. ``die_at`` names the place where its process ends, once."""

    def __init__(self, die_at: str = "") -> None:
        self.die_at = die_at
        self.looked_up: list[str] = []
        self.ordered: list[Any] = []

    def reach(self, place: str) -> None:
        if place == self.die_at:
            self.die_at = ""
            raise Killed

    def find_offer(self) -> Any:
        self.reach("in a step")
        self.looked_up.append("offer")
        return {"supplier": "S-17", "amount": "184000.00", "score": Decimal("0.10")}

    def issue_order(self, arguments: Any) -> Any:
        self.ordered.append(arguments)
        self.reach("in an effect")
        return {"order": "PO-2231"}

    def __call__(self, run: Run) -> Any:
        offer = run.step("offer", self.find_offer)
        self.reach("after a step")
        answer = run.ask("order", reason="approval.action", title="Order the hoist", proposal=PROPOSAL)
        self.reach("after the answer")
        if not answer.approved:
            return {"ordered": False}
        receipt = run.effect("order:PR-1", self.issue_order, name="issue_order", permit=answer.permit, repeat="by_key")
        self.reach("after an effect")
        return {"receipt": receipt, "score": offer["score"]}


@pytest.fixture
def server() -> FakeServer:
    return FakeServer()


def die_and_start_again(server: FakeServer, agent: Buyer) -> Any:
    with server.client() as client, pytest.raises(Killed):
        client.run("PR-1").execute(agent)
    server.lose_lease("PR-1")
    with server.client() as client:
        return client.run("PR-1").execute(agent)


def test_an_agent_works_asks_and_ends_with_its_result(server: FakeServer):
    server.answer("order")
    agent = Buyer()
    with server.client() as client:
        result = client.run("PR-1", title="Buy a hoist").execute(agent)
    assert result == {"receipt": {"order": "PO-2231"}, "score": Decimal("0.10")}
    assert (agent.looked_up, agent.ordered) == (["offer"], [PROPOSAL["arguments"]])
    assert server.runs["PR-1"].status == "completed"


def test_an_agent_that_is_started_again_after_the_end_gets_the_result(server: FakeServer):
    server.answer("order")
    agent = Buyer()
    with server.client() as client:
        first = client.run("PR-1").execute(agent)
        assert client.run("PR-1").execute(agent) == first
    assert agent.looked_up == ["offer"]


@pytest.mark.parametrize("place", ["in a step", "after a step", "after the answer", "after an effect"])
def test_a_killed_agent_repeats_nothing_that_was_recorded(server: FakeServer, place: str):
    server.answer("order")
    agent = Buyer(die_at=place)
    result = die_and_start_again(server, agent)
    assert result["receipt"] == {"order": "PO-2231"}
    assert (agent.looked_up, len(agent.ordered)) == (["offer"], 1)


def test_a_call_whose_outcome_is_unknown_is_repeated_only_where_the_receiver_drops_repeats(server: FakeServer):
    server.answer("order")
    agent = Buyer(die_at="in an effect")
    assert die_and_start_again(server, agent)["receipt"] == {"order": "PO-2231"}
    assert server.runs["PR-1"].effects["order:PR-1"].attempt == 2


def test_an_unknown_outcome_waits_for_its_owner(server: FakeServer):
    sent: list[Any] = []

    def send(arguments: Any) -> Any:
        sent.append(arguments)
        raise TimeoutError("no reply")

    def agent(run: Run) -> Any:
        return run.effect("mail:1", send, arguments={"to": "S-17"})

    with server.client() as client:
        with pytest.raises(TimeoutError):
            client.run("PR-1").execute(agent)
        assert server.runs["PR-1"].status == "blocked"
        server.resolve("PR-1", "mail:1", applied=True, receipt={"id": 7})
        assert client.run("PR-1").execute(agent) == {"id": 7}
    assert len(sent) == 1


CIRCULAR: list[Any] = []
CIRCULAR.append(CIRCULAR)


@pytest.mark.parametrize(
    ("receipt", "reason"),
    [
        (datetime(2026, 12, 1, tzinfo=UTC), "TypeError: datetime is not a JSON value"),
        (Decimal("NaN"), "ValueError: NaN is not a JSON number"),
        ("\ud800", "UnicodeEncodeError: "),
        (CIRCULAR, "ValueError: Circular reference"),
        ("x" * 1024 * 1024, "The body must have at most 1048576 bytes"),
    ],
    ids=["datetime", "NaN", "surrogate", "circular", "too large"],
)
def test_a_call_whose_receipt_cannot_be_recorded_is_applied(server: FakeServer, receipt: Any, reason: str):
    sent: list[Any] = []
    returned: list[Any] = []

    def send(arguments: Any) -> Any:
        sent.append(arguments)
        return receipt

    def agent(run: Run) -> Any:
        returned.append(run.effect("mail:1", send, arguments={"to": "S-17"}))
        if len(returned) == 1:
            raise Killed
        return "done"

    with server.client() as client:
        with pytest.raises(Killed):
            client.run("PR-1").execute(agent)
        effect = server.runs["PR-1"].effects["mail:1"]
        assert (effect.status, list(effect.receipt)) == ("applied", ["receipt_not_recorded"])
        assert effect.receipt["receipt_not_recorded"].startswith(reason)
        assert client.run("PR-1").execute(agent) == "done"
    assert len(sent) == 1
    assert returned[0] is receipt
    assert returned[1] == effect.receipt


def test_a_receipt_that_a_proxy_refuses_is_replaced_by_the_reason(server: FakeServer):
    def send(arguments: Any) -> Any:
        server.fail_next(1, status=413)
        return "large"

    with server.client() as client:
        assert client.run("PR-1").execute(lambda run: run.effect("mail:1", send)) == "large"
    effect = server.runs["PR-1"].effects["mail:1"]
    assert effect.status == "applied"
    assert effect.receipt["receipt_not_recorded"].endswith("HTTP status 413")


def test_a_receipt_is_not_replaced_while_the_server_is_unreachable(server: FakeServer):
    def send(arguments: Any) -> Any:
        server.fail_next(8, status=0)
        return "sent"

    with server.client() as client, pytest.raises(Unreachable):
        client.run("PR-1").execute(lambda run: run.effect("mail:1", send))
    assert server.runs["PR-1"].effects["mail:1"].status == "unknown"


@pytest.mark.parametrize("status", [0, 413])
def test_an_exception_of_a_call_is_raised_when_it_cannot_be_reported(server: FakeServer, status: int):
    def send(arguments: Any) -> Any:
        server.fail_next(8 if status == 0 else 1, status=status)
        raise LookupError("no such supplier")

    with server.client() as client, pytest.raises(LookupError, match="no such supplier"):
        client.run("PR-1").execute(lambda run: run.effect("mail:1", send))
    assert server.runs["PR-1"].effects["mail:1"].status == "unknown"


def test_an_exception_whose_text_the_server_would_refuse_is_reported(server: FakeServer):
    def send(arguments: Any) -> Any:
        raise NotPerformed("no file \udcff\0")

    with server.client() as client, pytest.raises(NotPerformed):
        client.run("PR-1").execute(lambda run: run.effect("mail:1", send))
    effect = server.runs["PR-1"].effects["mail:1"]
    assert (effect.status, effect.error) == ("failed", "no file \\udcff\\x00")


def test_a_receipt_of_an_asynchronous_call_that_is_not_json_is_replaced_by_the_reason(server: FakeServer):
    async def send(arguments: Any) -> Any:
        await asyncio.sleep(0)
        return {1, 2}

    async def agent(run: AsyncRun) -> Any:
        return sorted(await run.effect("mail:1", send))

    async def main() -> Any:
        async with server.async_client() as client:
            return await (await client.run("PR-1")).execute(agent)

    assert asyncio.run(main()) == [1, 2]
    assert server.runs["PR-1"].effects["mail:1"].status == "applied"


def test_a_call_that_surely_did_not_happen_is_tried_again(server: FakeServer):
    tries: list[int] = []

    def send(arguments: Any) -> Any:
        tries.append(1)
        if len(tries) == 1:
            raise NotPerformed("the receiver is closed")
        return "sent"

    with server.client() as client:
        with pytest.raises(NotPerformed):
            client.run("PR-1").execute(lambda run: run.effect("mail:1", send))
        assert client.run("PR-1").execute(lambda run: run.effect("mail:1", send)) == "sent"


def test_a_failed_call_that_cannot_be_repeated_is_an_error(server: FakeServer):
    def send(arguments: Any) -> Any:
        raise NotPerformed("refused for good", retryable=False)

    with server.client() as client:
        with pytest.raises(NotPerformed):
            client.run("PR-1").execute(lambda run: run.effect("mail:1", send))
        with pytest.raises(EffectFailed, match="refused for good"):
            client.run("PR-1").execute(lambda run: run.effect("mail:1", send))


def test_an_edited_call_is_performed_as_it_was_approved(server: FakeServer):
    server.answer("order", "edit", arguments={"supplier": "S-17", "amount": "180000.00"})
    agent = Buyer()
    with server.client() as client:
        client.run("PR-1").execute(agent)
    assert agent.ordered == [{"supplier": "S-17", "amount": "180000.00"}]


def test_numbers_stay_exact(server: FakeServer):
    exact = {"cents": Decimal("1.10"), "large": 2**80 + 1, "small": Decimal("1E-30")}
    with server.client() as client:
        result = client.run("PR-1").execute(lambda run: run.step("numbers", lambda: exact))
    assert result == exact
    assert str(result["cents"]) == "1.10"


def test_a_value_that_is_no_json_is_refused(server: FakeServer):
    with server.client() as client:
        with pytest.raises(ValueError, match="NaN is not a JSON number"):
            client.run("PR-1").execute(lambda run: run.step("numbers", lambda: Decimal("NaN")))
        with pytest.raises(TypeError, match="set is not a JSON value"):
            client.run("PR-1").execute(lambda run: run.step("numbers", lambda: {1, 2}))


def test_the_name_of_a_step_is_used_once(server: FakeServer):
    def agent(run: Run) -> None:
        for page in range(2):
            run.step("page", lambda page=page: page)

    with server.client() as client, pytest.raises(ValueError, match="Number the steps of a loop"):
        client.run("PR-1").execute(agent)


def test_one_of_several_answers_can_be_enough(server: FakeServer):
    asked: list[Request] = [
        {"key": "engineer", "reason": "question", "title": "Is it safe?"},
        {"key": "buyer", "reason": "question", "title": "Is it cheap?"},
    ]
    server.answer("buyer", "answer", input=False)
    with server.client() as client:
        result = client.run("PR-1").execute(
            lambda run: {key: it.input for key, it in run.ask_all(asked, any_of=True).items()}
        )
    assert result == {"buyer": False}


def test_a_failed_run_raises_its_error(server: FakeServer):
    with server.client() as client, pytest.raises(RunEnded) as ended:
        client.run("PR-1").execute(lambda run: run.fail({"why": "no crew"}))
    assert (ended.value.status, ended.value.outcome) == ("failed", {"why": "no crew"})


# --- what people want -------------------------------------------------------------------------------------------------


def test_a_paused_run_stops_at_its_next_safe_point_and_loses_nothing(server: FakeServer):
    done: list[str] = []

    def work(name: str) -> None:
        done.append(name)
        if len(done) == 1:
            server.pause("PR-1")

    def agent(run: Run) -> str:
        for name in ("first", "second"):
            run.step(name, lambda name=name: work(name))
        return "done"

    client = server.client()
    worker = client.worker()
    worker.every_step(agent)
    client.run("PR-1")
    assert worker.run_once(wait=0) == 1
    assert (server.runs["PR-1"].status, done) == ("paused", ["first"])
    assert worker.run_once(wait=0) == 0
    server.resume("PR-1")
    assert worker.run_once(wait=0) == 1
    assert (server.runs["PR-1"].result, done) == ("done", ["first", "second"])


def test_a_cancelled_run_is_compensated(server: FakeServer):
    released: list[Any] = []

    def agent(run: Run) -> None:
        run.effect(
            "reserve:1",
            lambda day: {"reservation": 12},
            name="reserve_hoist",
            arguments={"day": "2026-12-01"},
            compensation={"name": "release_hoist", "arguments": {"day": "2026-12-01"}},
        )
        server.cancel("PR-1")
        run.step("after", lambda: None)

    with server.client() as client, pytest.raises(RunEnded, match="cancelled"):
        client.run("PR-1").execute(
            agent, compensations={"release_hoist": lambda day, receipt: released.append((day, receipt))}
        )
    assert released == [({"day": "2026-12-01"}, {"reservation": 12})]


def test_a_heartbeat_brings_what_people_want(server: FakeServer):
    def work() -> str:
        server.pause("PR-1")
        beats = server.runs["PR-1"].heartbeats
        until = time.monotonic() + 10
        while server.runs["PR-1"].heartbeats < beats + 2 and time.monotonic() < until:
            time.sleep(0.01)
        return "worked"

    client = server.client()
    worker = client.worker(lease_seconds=0.06)  # type: ignore[arg-type]  # the fake server has no shortest lease
    worker.every_step(lambda run: run.step("long", work))
    client.run("PR-1")
    worker.run_once(wait=0)
    assert server.runs["PR-1"].status == "paused"
    assert server.runs["PR-1"].checkpoint["state"]["steps"] == {"long": "worked"}


def test_a_worker_that_lost_its_lease_writes_nothing(server: FakeServer):
    def agent(run: Run) -> str:
        server.lose_lease("PR-1")
        run.step("late", lambda: "late")
        raise AssertionError("not reached")

    client = server.client()
    worker = client.worker()
    worker.every_step(agent)
    client.run("PR-1")
    worker.run_once(wait=0)
    assert (server.runs["PR-1"].status, server.runs["PR-1"].steps) == ("ready", {})


# --- the worker loop --------------------------------------------------------------------------------------------------


def test_a_worker_calls_the_function_of_the_step(server: FakeServer):
    client = server.client()
    worker = client.worker(code_version="1")

    @worker.step("start")
    def compare(run: Run) -> None:
        run.checkpoint("ask", {"best": "S-17"})

    @worker.step("ask")
    def ask(run: Run) -> Any:
        answer = run.ask("order", reason="approval.action", title="Order", proposal=PROPOSAL)
        return {"best": run.state["best"], "verdict": answer.verdict}

    client.run("PR-1", code_version="1")
    worker.run_once(wait=0)
    assert server.runs["PR-1"].status == "waiting"
    server.answer("order", "reject")
    worker.run_once(wait=0)
    assert server.runs["PR-1"].result == {"best": "S-17", "verdict": "reject"}
    assert worker.run_once(wait=0) == 0


def test_a_checkpoint_at_the_same_step_calls_its_function_again(server: FakeServer):
    client = server.client()
    worker = client.worker()
    pages: list[int] = []

    @worker.step("start")
    def start(run: Run) -> None:
        run.checkpoint("page", 1)

    @worker.step("page")
    def page(run: Run) -> Any:
        pages.append(run.state)
        if run.state == 3:
            return {"pages": len(pages)}
        return run.checkpoint("page", run.state + 1)

    client.run("PR-1")
    assert worker.run_once(wait=0) == 1
    assert (server.runs["PR-1"].status, server.runs["PR-1"].result, pages) == ("completed", {"pages": 3}, [1, 2, 3])


def test_the_asynchronous_worker_calls_the_same_step_again(server: FakeServer):
    pages: list[int] = []

    async def agent(run: AsyncRun) -> Any:
        pages.append(run.state or 1)
        if pages[-1] < 3:
            return await run.checkpoint("start", pages[-1] + 1)
        return "done"

    async def main() -> Any:
        async with server.async_client() as client:
            return await (await client.run("PR-1")).execute(agent)

    assert (asyncio.run(main()), pages) == ("done", [1, 2, 3])


def test_a_step_without_a_function_is_released(server: FakeServer):
    client = server.client()
    client.run("PR-1")
    client.worker().run_once(wait=0)
    assert server.runs["PR-1"].status == "ready"
    assert not server.runs["PR-1"].leased


def test_an_error_of_a_function_releases_the_run(server: FakeServer, caplog: pytest.LogCaptureFixture):
    client = server.client()
    worker = client.worker()
    tries: list[int] = []

    @worker.every_step
    def agent(run: Run) -> str:
        tries.append(1)
        if len(tries) < 3:
            raise OSError("no disk")
        return "done"

    client.run("PR-1")
    for _ in range(3):
        worker.run_once(wait=0)
    assert server.runs["PR-1"].result == "done"
    assert "no disk" in caplog.text


def test_code_that_takes_another_way_is_incompatible(server: FakeServer, caplog: pytest.LogCaptureFixture):
    agent = Buyer(die_at="after a step")
    with server.client() as client, pytest.raises(Killed):
        client.run("PR-1").execute(agent)
    server.lose_lease("PR-1")
    with server.client() as client, pytest.raises(Refused) as refused:
        client.run("PR-1").execute(lambda run: run.step("another", lambda: 1))
    assert refused.value.code == "step_mismatch"
    assert ("POST", f"runs/{server.runs['PR-1'].id}/lease/release") in server.calls


def test_a_worker_that_shuts_down_releases_its_run(server: FakeServer):
    client = server.client()
    worker = client.worker()

    @worker.every_step
    def agent(run: Run) -> None:
        run.step("first", lambda: 1)
        worker.stop()
        run.step("second", lambda: 2)

    client.run("PR-1")
    worker.run_once(wait=0)
    assert (server.runs["PR-1"].status, list(server.runs["PR-1"].steps)) == ("ready", ["first"])


# --- requests ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [0, 429, 502, 503])
def test_a_request_is_sent_again_after_a_fault_that_passes(server: FakeServer, status: int):
    client = server.client()
    server.fail_next(3, status=status)
    assert client.run("PR-1").key == "PR-1"
    assert len(server.calls) == 4


def test_a_request_waits_as_long_as_the_server_says(server: FakeServer, monkeypatch: pytest.MonkeyPatch):
    slept: list[float] = []
    monkeypatch.setattr("reviewqueue_client._sync.client.sleep", slept.append)
    server.fail_next(1, status=429, retry_after=7)
    server.client().run("PR-1")
    assert slept == [7.0]


@pytest.mark.parametrize("retry_after", ["Wed, 21 Oct 2026 07:28:00 GMT", "soon", ""])
def test_a_retry_after_that_is_a_date_does_not_end_the_run(retry_after: str):
    class AnsweredWhileWaiting(FakeServer):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            is_long_poll = "/interrupts/" in request.url.path
            if is_long_poll:
                self.answer("order")
            response = super().handle_request(request)
            if is_long_poll:
                response.headers["Retry-After"] = retry_after
            return response

    with AnsweredWhileWaiting().client() as client:
        assert client.run("PR-1").execute(Buyer())["receipt"] == {"order": "PO-2231"}


def test_a_server_that_stays_away_is_unreachable(server: FakeServer):
    server.fail_next(8, status=0)
    with pytest.raises(Unreachable, match="ConnectError"):
        server.client().run("PR-1")


def test_a_refusal_is_raised_at_once_with_its_code(server: FakeServer):
    client = server.client()
    client.run("PR-1", title="One")
    with pytest.raises(Refused) as refused:
        client.run("PR-1", title="Another")
    assert (refused.value.code, refused.value.status) == ("key_reused", 409)


def test_the_fake_server_says_which_answer_is_missing(server: FakeServer):
    with server.client() as client, pytest.raises(AssertionError, match="The request 'order' has no answer"):
        client.run("PR-1").execute(Buyer())


# --- attachments ------------------------------------------------------------------------------------------------------


def read_certificates(run: Run) -> Any:
    schema = {"type": "object", "properties": {"certificate": {"type": "string", "format": "attachment"}}}
    answer = run.ask("load test", reason="evidence", title="Attach the certificate", input_schema=schema)
    return [[file.name, file.media_type, file.size, run.download(file).decode()] for file in answer.attachments]


def test_an_attached_file_comes_with_the_answer_that_names_it(server: FakeServer):
    digest = server.attach("LT-2026.pdf", b"%PDF-1.7")
    server.attach("other.pdf", b"%PDF-1.4")
    server.answer("load test", "respond", input={"certificate": digest})
    with server.client() as client:
        assert client.run("PR-1").execute(read_certificates) == [["LT-2026.pdf", "application/pdf", 8, "%PDF-1.7"]]


def test_an_answer_without_a_file_has_no_attachments(server: FakeServer):
    server.attach("LT-2026.pdf", b"%PDF-1.7")
    server.answer("load test", "respond", input={"certificate": "to follow"})
    with server.client() as client:
        assert client.run("PR-1").execute(read_certificates) == []


SENT_FILE: dict[str, Any] = {
    "digest": "sha256:b94d27b9934d3e08a52e52d7da7dabfac484efe37a5380ee9088f7ace2efcde9",  # of "hello world"
    "name": "note.pdf",
    "media_type": "application/pdf",
    "size": 11,
    "url": "/api/v1/interrupts/int_1/attachments/sha256:b94d",
    "a later member": True,
}


def sending(content: bytes) -> tuple[list[str], httpx.MockTransport]:
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(str(request.url))
        return httpx.Response(503) if len(asked) == 1 else httpx.Response(200, content=content)

    return asked, httpx.MockTransport(answer)


def test_a_download_is_repeated_like_any_other_request_and_verified(server: FakeServer):
    asked, transport = sending(b"hello world")
    client = Client("http://desk.example", "rq_1", transport=transport, retries=server.client().retries)
    assert client.download(Attachment.of(SENT_FILE)) == b"hello world"
    assert asked == ["http://desk.example/api/v1/interrupts/int_1/attachments/sha256:b94d"] * 2


def test_other_bytes_than_those_of_the_digest_are_refused(server: FakeServer):
    _, transport = sending(b"hello worlt")
    client = AsyncClient("http://desk.example", "rq_1", transport=transport, retries=server.client().retries)
    with pytest.raises(DigestMismatch, match="the answer names sha256:b94d27b9934d3e08"):
        asyncio.run(client.download(Attachment.of(SENT_FILE)))


@pytest.mark.parametrize(
    "url",
    [
        "https://other.example/file",
        "//other.example/api/v1/interrupts/int_1/attachments/sha256:b94d",
        "/api/v1/https://other.example/interrupts/int_1/attachments/sha256:b94d",
        "/api/v1///other.example/interrupts/int_1/attachments/sha256:b94d",
        "/api/v1/interrupts/../attachments/sha256:b94d",
        "/api/v1/interrupts/int_1/../../runs/attachments/sha256:b94d",
        "/api/v1/interrupts/int_1?x=/attachments/sha256:b94d",
        "/api/v1/interrupts/int_1/attachments/sha256:b94d/../../../agents/me",
        "/api/v1/interrupts/int_1/attachments/sha256:b94d\n",
    ],
)
def test_the_key_is_sent_to_no_other_place(url: str):
    asked, transport = sending(b"hello world")
    client = Client("http://desk.example", "rq_1", transport=transport)
    with pytest.raises(ValueError, match="must be /api/v1/interrupts/ID/attachments/DIGEST"):
        client.download(Attachment.of(SENT_FILE | {"url": url}))
    assert asked == []


class WithFiles(FakeServer):
    """Keeps the files of checkpoints."""

    def __init__(self) -> None:
        super().__init__()
        self.files: dict[str, bytes] = {}

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if not request.url.path.endswith("/file"):
            return super().handle_request(request)
        if request.method == "PUT":
            self.files[request.url.path] = request.read()
            return httpx.Response(200, json={})
        if request.url.path in self.files:
            headers = {"Content-Type": "application/octet-stream"}
            return httpx.Response(200, headers=headers, content=self.files[request.url.path])
        problem = {"code": "not_found", "retryable": False}
        return httpx.Response(404, headers={"Content-Type": "application/problem+json"}, json=problem)


found_files: list[bytes | None] = []


def keep_a_file(run: Run) -> None:
    if run.step_name == "without a file":  # called again, because a checkpoint continues at its step
        return
    found_files.append(run.get_file())
    run.put_file(b"image")
    run.checkpoint("with a file")
    found_files.append(run.get_file())
    run.checkpoint("without a file")
    found_files.append(run.get_file())


def test_the_file_of_a_checkpoint_can_be_read_in_the_same_execution():
    found_files.clear()
    with WithFiles().client() as client:
        client.run("PR-1").execute(keep_a_file)
    assert found_files == [None, b"image", None]


def test_an_end_without_a_target_keeps_no_other_end_from_its_receiver(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    states = {"r-1": None, "r-2": {"request": {}}, "r-3": {"request": {}, "target": "workflow-3"}}

    def answer(request: httpx.Request) -> httpx.Response:
        path = request.url.path.removeprefix("/api/v1/")
        run = path.removeprefix("runs/").partition("/")[0]
        if path == "events":
            events = [{"type": "run.cancelled", "run": id_} for id_ in states]
            return httpx.Response(200, json={"events": events, "next": 3, "more": False})
        if "checkpoints" in path:
            return httpx.Response(200, json={"state": states[run], "format": "json"})
        ended = {"id": run, "key": f"K-{run}", "epoch": 1, "status": "cancelled", "code_version": "v", "checkpoint": 0}
        return httpx.Response(200, json=ended)

    delivered: list[Any] = []
    with Client("http://fake", "rq_fake", transport=httpx.MockTransport(answer)) as client:
        ends = Answers(client, code_version="v")
        assert (
            ends.deliver_ends(lambda target, end: delivered.append((target, end.key)), cursor=tmp_path / "place") == 1
        )
    assert delivered == [("workflow-3", "K-r-3")]
    assert (tmp_path / "place").read_text() == "3"
    assert "the end of K-r-1 is not delivered" in caplog.text


# --- asyncio ----------------------------------------------------------------------------------------------------------


def test_the_asynchronous_client_does_the_same(server: FakeServer):
    server.answer("order")
    sent: list[Any] = []

    async def find_offer() -> Any:
        await asyncio.sleep(0)
        return Decimal("184000.00")

    async def issue_order(arguments: Any) -> Any:
        sent.append(arguments)
        return "PO-2231"

    async def agent(run: AsyncRun) -> Any:
        offer = await run.step("offer", find_offer)
        answer = await run.ask("order", reason="approval.action", title="Order", proposal=PROPOSAL)
        return [offer, await run.effect("order:PR-1", issue_order, permit=answer.permit)]

    async def main() -> Any:
        async with server.async_client() as client:
            return await (await client.run("PR-1")).execute(agent)

    assert asyncio.run(main()) == [Decimal("184000.00"), "PO-2231"]
    assert sent == [PROPOSAL["arguments"]]


def test_a_batch_of_asks_has_a_result_for_each() -> None:
    asks: list[dict[str, Any]] = [
        {"key": key, "title": "Order the hoist", "reason": "approval.action", "state": {"row": 7}} for key in "ab"
    ]
    results = [{"status": 201, "ask": {"run": {"id": "run_1"}}}, {"status": 422, "problem": {"code": "policy_refuses"}}]

    def answer(request: httpx.Request) -> httpx.Response:
        assert (request.url.path, json.loads(request.content)) == ("/api/v1/asks/batch", {"asks": asks})
        return httpx.Response(207, json={"asks": results})

    client = Client("http://desk.example", "rq_1", transport=httpx.MockTransport(answer))
    assert client.ask_batch(asks) == results


# --- claims that do not list everything ---------------------------------------------------------------------------------

CLAIMED: dict[str, Any] = {
    "id": "con_1", "kind": "resume", "cause": "person", "attempt": 1,
    "run": {"id": "run_1", "key": "PR-1", "title": "One", "epoch": 1, "metadata": {}},
    "lease": {"token": "lse_1"}, "checkpoint": {"number": 1, "step": "start", "state": None, "format": "json"},
    "answers": {}, "overtaken": {}, "changed": [], "facts": [], "compensations": [],
}  # fmt: skip


def scripted(replies: dict[str, list[Any]], sent: list[str]) -> httpx.MockTransport:
    """Answer each path with its replies, one after the other; the last one again."""

    def answer(request: httpx.Request) -> httpx.Response:
        path = request.url.raw_path.decode().removeprefix("/api/v1/")
        sent.append(f"{request.method} {path}")
        known = replies[path]
        return httpx.Response(200, json=known.pop(0) if len(known) > 1 else known[0])

    return httpx.MockTransport(answer)


def test_the_answers_that_a_claim_does_not_list_are_read_page_by_page() -> None:
    listed = [
        {"key": "old", "new": False, "overtaken": False, "verdict": "approve"},
        {"key": "new", "new": True, "overtaken": False, "verdict": "reject"},
        {"key": "moved", "new": False, "overtaken": True, "verdict": "answer"},
    ]
    claimed = CLAIMED | {"answers": {"new": listed[1]}, "more_answers": "http://desk.example/api/v1/runs/run_1/answers"}
    sent: list[str] = []
    replies: dict[str, list[Any]] = {
        "continuations/claim": [[claimed]],
        "runs/run_1/answers?limit=100": [{"answers": listed[:1], "next": "dec_1"}],
        "runs/run_1/answers?limit=100&next=dec_1": [{"answers": listed[1:], "next": None}],
        "runs/run_1/complete": [{"status": "completed"}],
    }
    client = Client("http://desk.example", "rq_1", transport=scripted(replies, sent))
    worker, seen = client.worker(), []

    @worker.every_step
    def work(run: Run) -> None:
        seen.append(({key: it.verdict for key, it in run.answers.items()}, list(run.overtaken)))

    assert worker.run_once(wait=0) == 1
    assert seen == [({"new": "reject", "old": "approve"}, ["moved"])]


def test_the_compensations_that_a_claim_does_not_list_follow_the_listed_ones() -> None:
    def due(key: str) -> dict[str, Any]:
        return {"key": f"undo:{key}", "undoes": key, "name": "release", "arguments": {}, "receipt": key}

    paths = [f"runs/run_1/effects/undo%3A{key}" for key in "cba"]
    begun = {"perform": True, "attempt_token": "att_1", "arguments": {}}
    more = "http://desk.example/api/v1/runs/run_1/compensations"
    claimed = CLAIMED | {"kind": "compensate", "compensations": [due("c")], "more_compensations": more}
    replies: dict[str, list[Any]] = {
        "continuations/claim": [[claimed]],
        "runs/run_1/compensations": [
            {"compensations": [due("b")], "more": True},
            {"compensations": [due("a")], "more": False},
        ],
    }
    replies |= {path: [begun] for path in paths} | {f"{path}/outcome": [{}] for path in paths}
    client = Client("http://desk.example", "rq_1", transport=scripted(replies, []))
    worker, undone = client.worker(), []
    worker.compensation("release")(lambda arguments, receipt: undone.append(receipt))
    assert worker.run_once(wait=0) == 1
    assert undone == ["c", "b", "a"]
