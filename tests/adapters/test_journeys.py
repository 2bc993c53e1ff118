"""The examples: decided, killed in between and continued, a late and a duplicate answer, an expiry, a cancel."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import json
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from django.conf import settings

from tests import own_processes
from tests.adapters.environment import installed, python, restate_server
from tests.adapters.world import KILLED, World, a_world, is_open

MCP_SERVER = settings.ROOT / "clients/python/src/reviewqueue_client/adapters/mcp_server.py"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with a_world(tmp_path_factory.mktemp("world")) as world:
        yield world


def the_journey(
    world: World, program: str, *, kill_at: str, expired_as: str, expires_first: bool = False, **environment: str
) -> None:
    """Carry four runs through one example: decided, rejected, expired and cancelled.

    The program is killed while all requests are open, and again at ``kill_at`` after the decision. ``expires_first``: the
    program that expires is not killed, because it would create its request again with another deadline.
    """
    name = program.partition("/")[0]
    decided, rejected, expired, cancelled = keys = [f"{name}-{place}" for place in range(1, 5)]
    with world.running(program, expired, DEADLINE="PT3S", **environment) as process:
        late = world.request(f"Order {expired}")
        if expires_first:
            assert world.outcomes(process) == {expired: expired_as}
            keys = [decided, rejected, cancelled]
    with world.running(program, decided, rejected, cancelled, **environment):
        requests = {key: world.request(f"Order {key}") for key in (decided, rejected, cancelled)}

    assert world.decide(requests[decided]) == "decided"
    with world.running(program, decided, kill_at=kill_at, **environment) as process:
        assert process.wait(timeout=300) == KILLED
    assert world.decide(requests[decided], "reject") == "already_decided"
    assert world.decide(requests[rejected], "reject", message="Too expensive.") == "decided"
    world.cancel(requests[cancelled])
    assert world.closed(late) == "expired"
    assert world.decide(late) == "expired"

    with world.running(program, *keys, **environment) as process:
        outcomes = {
            decided: {"order": f"PO-{decided}", "amount": "184000.00"},
            rejected: "Too expensive.",
            expired: expired_as,
            cancelled: "not ordered: cancelled",
        }
        assert world.outcomes(process) == {key: outcomes[key] for key in keys}
    assert [order["key"] for order in world.orders() if order["key"] in keys] == [decided]


@pytest.mark.long
def test_ag_ui(world: World):
    expired_as = "not ordered: no answer"
    the_journey(world, "ag_ui/agent.py", kill_at="before PUT steps/turn-2", expired_as=expired_as)


@pytest.mark.long
def test_a2a(world: World):
    expired_as = "not ordered: expired"
    the_journey(world, "a2a/agent.py", kill_at="before POST effects/.*/outcome", expired_as=expired_as)


@pytest.mark.long
def test_incoming_webhooks(world: World):
    port, program = own_processes.free_port(), "incoming_webhooks/agent.py"
    own = {"PORT": str(port), "STRIPE_SECRET": "whsec_test"}
    paid = {"id": "evt_1", "type": "payment_intent.succeeded"}
    paid |= {"data": {"object": {"amount": 18400000, "metadata": {"order": "sale-1"}}}}

    def send(signed_by: str = "whsec_test") -> int:
        body = json.dumps(paid).encode()
        sent_at = int(time.time())
        made = hmac.new(signed_by.encode(), f"{sent_at}.".encode() + body, hashlib.sha256).hexdigest()
        headers = {"Stripe-Signature": f"t={sent_at},v1={made}"}
        return httpx.post(f"http://127.0.0.1:{port}/stripe", content=body, headers=headers).status_code

    with world.running(program, "sale-1", **own):
        request = world.event("sale-1")
        own_processes.eventually(lambda: is_open(port), within=300)
        assert send("whsec_other") == 401
        assert world.status(request) == "waiting"
        assert send() == 204
        assert world.closed(request) == "answered"
    with world.running(program, "sale-1", "sale-2", **own) as process:
        own_processes.eventually(lambda: is_open(port), within=300)
        assert send() == 204  # again
        world.event("sale-2")
        [other] = world.server.call("GET", "runs?key=sale-2", key=world.server.key)["runs"]
        world.server.call("POST", f"runs/{other['id']}/cancel", {"reason": "Not sold."}, key=world.server.key)
        printed, _ = process.communicate(timeout=300)
        assert json.loads(printed) == {"sale-1": {"paid": 18400000, "event": "stripe:evt_1"}}
    signals = world.server.call("GET", "signals?correlation=sale-1", key=world.server.key)["signals"]
    assert [signal["status"] for signal in signals] == ["used"]


ELICIT_A_URL = """
import asyncio
from mcp_types import ElicitRequestFormParams, ElicitRequestURLParams
from reviewqueue_client import AsyncClient
from reviewqueue_client.adapters.mcp_elicitation import ElicitationRequests

async def main():
    people = ElicitationRequests(AsyncClient(), server="bank", key="url", queue="purchasing", defaults={"title": "Bank"})
    nested = {"type": "object", "properties": {"crew": {"type": "object"}}}
    unsupported = {"type": "object", "properties": {"day": {"type": "string", "patern": "x"}}}
    for asked in (
        ElicitRequestFormParams(message="Who?", requested_schema=nested),
        ElicitRequestFormParams(message="Who?", requested_schema=unsupported),
        ElicitRequestURLParams(message="Pay", url="javascript:alert(1)"),
        ElicitRequestURLParams(message="Pay", url="https://bank.example/pay"),
        ElicitRequestURLParams(message="Pay", url="https://bank.example/pay"),
    ):
        result = await people(None, asked)
        print(getattr(result, "action", None) or result.message, getattr(result, "content", None))

asyncio.run(main())
"""


@pytest.mark.long
def test_mcp_elicitation(world: World):
    program, keys = "mcp_elicitation/agent.py", [f"crew-{place}" for place in range(1, 4)]
    answered, declined, cancelled = keys
    with world.running(program, "crew-4", DEADLINE="PT2S") as process:
        late = world.request("Crew of crew-4")
        assert world.closed(late) == "expired"
        assert world.outcomes(process) == {"crew-4": "not planned: cancel"}
    with world.running(program, *keys, MODE="2026-07-28"):
        requests = {key: world.request(f"Crew of {key}") for key in keys}
    crew = {"day": "2026-12-03", "people": 3}
    assert world.decide(requests[answered], "answer", input=crew | {"people": 7}) == "input_invalid"
    assert world.decide(requests[answered], "answer", input=crew) == "decided"
    assert world.decide(requests[answered], "decline") == "already_decided"
    assert world.decide(requests[declined], "decline", message="No crew is free.") == "decided"
    world.cancel(requests[cancelled])
    expected = dict(zip(keys, ["3 people from 2026-12-03", "not planned: decline", "not planned: cancel"], strict=True))
    for _ in range(2):
        with world.running(program, *keys, MODE="2026-07-28") as process:
            assert world.outcomes(process) == expected
    with world.running(program, "crew-5", MODE="legacy") as process:
        assert world.decide(world.request("Crew of crew-5"), "answer", input=crew) == "decided"
        assert world.outcomes(process) == {"crew-5": "3 people from 2026-12-03"}


@pytest.mark.long
def test_mcp_elicitation_of_urls_and_of_what_people_cannot_be_asked(world: World):
    script = world.folder / "elicit_a_url.py"
    script.write_text(ELICIT_A_URL)
    with world.running(str(script)) as process:
        first = world.request("Bank")
        assert world.decide(first, "answer", input=False) == "input_invalid"
        assert world.decide(first, "answer", input=True) == "decided"
        second = own_processes.eventually(lambda: world.waiting().get("Bank"), within=60)
        assert world.decide(second, "decline") == "decided"
        printed, errors = process.communicate(timeout=120)
    nested, unsupported, scheme, accepted, refused = printed.splitlines()
    assert nested == "requestedSchema must have primitive members only (got crew). None", errors
    assert unsupported.startswith("The request is not valid") or "patern" in unsupported
    assert scheme == "url must begin with https://, or with http:// on this machine. None"
    assert (accepted, refused) == ("accept None", "decline None")


@pytest.mark.long
def test_mcp(world: World):
    keys = [f"mcp-{place}" for place in range(1, 4)]
    port = own_processes.free_port()
    command = [str(MCP_SERVER), "--queue", "purchasing", "--transport", "streamable-http", "--port", str(port)]
    over_http = {"MCP_URL": f"http://127.0.0.1:{port}/mcp"}
    with (
        world.running("mcp/agent.py", "mcp-2", DEADLINE="PT2S") as second,
        world.running("mcp/agent.py", "mcp-3") as third,
    ):
        late, cancelled = world.request("Order mcp-2"), world.request("Order mcp-3")
        world.cancel(cancelled)
        assert world.closed(late) == "expired"
        assert world.decide(late) == "expired"
        assert world.outcomes(second) == {"mcp-2": "not ordered: expired"}
        assert world.outcomes(third) == {"mcp-3": "not ordered: cancelled"}
    with world.running(*command, kill_at="after POST claim") as server:  # it received the answer, and tells no client
        own_processes.eventually(lambda: is_open(port), within=300)
        with world.running("mcp/agent.py", "mcp-1", **over_http):
            request = world.request("Order mcp-1")
            assert world.decide(request) == "decided"
            assert world.decide(request, "reject") == "already_decided"
            assert server.wait(timeout=300) == KILLED
    with world.running(*command), world.running("mcp/agent.py", "mcp-1") as agent:  # over stdio
        own_processes.eventually(lambda: is_open(port), within=300)
        assert world.outcomes(agent)["mcp-1"] == {"order": "PO-mcp-1", "amount": "184000.00"}
        with world.running("mcp/agent.py", "mcp-1", **over_http) as again:  # the answer is the same later
            assert world.outcomes(again)["mcp-1"] == {"order": "PO-mcp-1", "amount": "184000.00"}
    assert [order["key"] for order in world.orders() if order["key"] in keys] == ["mcp-1"]


#: Program -> what its result contains if the deadline passed.
TOOL_APPROVALS = {
    "langchain/agent.py": "rejected",
    "openai_agents/agent.py": "before its deadline",
    "pydantic_ai/agent.py": "before its deadline",
}


@pytest.mark.long
@pytest.mark.parametrize("program", TOOL_APPROVALS)
def test_approvals_of_tool_calls(world: World, program: str):
    title = "Call issue_purchase_order"  # of these requests, so one is open at a time
    name = program.partition("/")[0]
    decided, expired, cancelled = keys = [f"{name}-{place}" for place in range(1, 4)]
    with world.running(program, decided):
        request = world.request(title)
    can_edit = name != "openai_agents"
    edited = {"supplier": "S-17", "item": "Hoist", "amount": "180000.00"}
    assert world.decide(request, **({"verdict": "edit", "arguments": edited} if can_edit else {})) == "decided"
    with world.running(program, decided, kill_at="after PUT effects/.*") as process:
        assert process.wait(timeout=300) == KILLED
    assert world.decide(request, "reject") == "already_decided"

    with world.running(program, expired, DEADLINE="PT2S") as second:
        late = world.request(title)
        assert world.closed(late) == "expired"
        assert world.decide(late) == "expired"
        assert TOOL_APPROVALS[program] in world.outcomes(second)[expired]
    with world.running(program, cancelled) as third:
        world.cancel(world.request(title))
        with world.running(program, decided) as process:
            result = world.outcomes(process)[decided]  # LangChain reports the edit to the model
        amount = "180000.00" if can_edit else "184000.00"
        assert result.endswith(f'{{"order": "PO-{decided}", "amount": "{amount}"}}')
        assert world.outcomes(third) == {cancelled: "not ordered: cancelled"}
    assert [order["amount"] for order in world.orders() if order["key"] in keys] == [amount]


@pytest.mark.slow
def test_langgraph(world: World):
    the_journey(world, "langgraph/agent.py", kill_at="before POST effects/.*/outcome", expired_as="not ordered")


@pytest.mark.slow
def test_session_store(world: World):
    """A message that arrives before the run continues overtakes the approval; reviewer and agent see what changed."""
    program = "session_store/agent.py"
    with world.running(program, "chat-1"):
        first = world.request("Order chat-1")
    assert world.decide(first) == "decided"
    with world.running("session_store/customer.py", "chat-1", "Order 2 hoists.") as customer:
        assert customer.wait(timeout=60) == 0
    with world.running(program, "chat-1", kill_at="after POST facts") as process:
        assert process.wait(timeout=300) == KILLED
    with world.running(program, "chat-1"):
        second = world.request("Order chat-1")
        shown = world.server.call("GET", f"interrupts/{second}")
        assert shown["proposal"]["arguments"]["amount"] == "368000.00"
        [drift] = [one["value"] for one in shown["evidence"] if one["label"] == "Changed since the last decision"]
        assert drift == "Added messages: 1\n\nuser: Order 2 hoists."
        assert world.decide(first) != "decided"
    assert world.decide(second, state_version=shown["state_version"]) == "decided"
    with world.running(program, "chat-1") as process:
        assert world.outcomes(process) == {"chat-1": {"order": "PO-chat-1", "amount": "368000.00"}}
    assert [order["amount"] for order in world.orders() if order["key"] == "chat-1"] == ["368000.00"]


@pytest.mark.long
def test_session_store_without_a_change(world: World):
    the_journey(world, "session_store/agent.py", kill_at="before POST complete", expired_as="not ordered")


@pytest.mark.long
def test_process_image(world: World):
    """Journeys with images; then the catalogue changes while people decide, and a credential that is not valid."""
    program = "process_image/agent.py"
    the_journey(world, program, kill_at="before POST effects/.*/outcome", expired_as="not ordered")
    with world.running(program, "image-1"):
        first = world.request("Order image-1")
    run = world.run_of(first)
    assert world.decide(first) == "decided"
    with world.running(program, "image-1", PRICE="190000.00"):  # the image is stale
        second = world.request("Order image-1")
        shown = world.server.call("GET", f"interrupts/{second}")
        assert shown["proposal"]["arguments"]["amount"] == "190000.00"
        [stale] = [one["value"] for one in shown["evidence"] if one["label"] == "Changed since the last decision"]
        assert stale == "connection catalogue: hoists 184000.00 → hoists 190000.00"
    assert world.decide(second, state_version=shown["state_version"]) == "decided"
    with world.running(program, "image-1", PRICE="190000.00", CREDENTIAL="2020-01-01"):
        own_processes.eventually(lambda: "lease.handed_back" in events_of(world, run), within=120)
        assert "image-1" not in [order["key"] for order in world.orders()]
    with world.running(program, "image-1", PRICE="190000.00") as process:
        assert world.outcomes(process) == {"image-1": {"order": "PO-image-1", "amount": "190000.00"}}
    assert [order["key"] for order in world.orders()].count("image-1") == 1


def events_of(world: World, run: str) -> list[str]:
    return [event["type"] for event in world.server.call("GET", f"runs/{run}/timeline?limit=100")["events"]]


@pytest.mark.long
def test_dbos(world: World):
    the_journey(world, "dbos/agent.py", kill_at="before POST complete", expired_as="not ordered: expired")


@pytest.mark.long
def test_temporal(world: World):
    port, ui = own_processes.free_port(), own_processes.free_port()
    server = ["server", "start-dev", "--headless", "--port", str(port), "--http-port", str(ui), "--db-filename", "t.db"]
    with world.engine(python().with_name("temporal"), *server, port=port):
        the_journey(
            world,
            "temporal/agent.py",
            kill_at="before POST complete",  # the workflow has its signal, and gets it again
            expired_as="not ordered: expired",
            TEMPORAL=f"127.0.0.1:{port}",
        )


@pytest.mark.long
def test_restate(world: World):
    ingress, admin, fabric, service = (own_processes.free_port() for _ in range(4))
    options = {
        "RESTATE_INGRESS__BIND_PORT": str(ingress),
        "RESTATE_ADMIN__BIND_PORT": str(admin),
        "RESTATE_BIND_PORT": str(fabric),
        "RESTATE_BIND_IP": "127.0.0.1",
        "RESTATE_DISABLE_TELEMETRY": "true",
        "RESTATE_LISTEN_MODE": "tcp",
        "RESTATE_BASE_DIR": str(world.folder / "restate"),
    }
    with world.engine(restate_server(), port=ingress, **options):
        own_processes.eventually(lambda: is_open(admin), within=300)
        the_journey(
            world,
            "restate/agent.py",
            kill_at="before POST complete",  # the awakeable is resolved, and is resolved again
            expired_as="not ordered: expired",
            RESTATE_INGRESS=f"http://127.0.0.1:{ingress}",
            RESTATE_ADMIN=f"http://127.0.0.1:{admin}",
            PORT=str(service),
        )


@contextlib.contextmanager
def step_functions(world: World) -> Iterator[dict[str, str]]:
    """Run an emulator of Step Functions and SQS, and return the environment of its users."""
    port = own_processes.free_port()
    address = f"http://127.0.0.1:{port}"
    command = ["-H", "127.0.0.1", "-p", str(port)]
    with world.engine(python().with_name("moto_server"), *command, port=port, MOTO_PORT=str(port)):
        executes = {"stepfunctions": {"execute_state_machine": True}}
        httpx.post(f"{address}/moto-api/config", json=executes, timeout=60).raise_for_status()
        yield {
            "AWS_ENDPOINT_URL": address,
            "AWS_DEFAULT_REGION": "eu-central-1",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "REVIEW_QUEUE_TOKEN_KEYS": base64.urlsafe_b64encode(bytes(range(32))).decode(),
        }


def aws(environment: dict[str, str], action: str, **body: Any) -> Any:
    """Call Step Functions. The emulator reads only the region of the signature."""
    signature = "AWS4-HMAC-SHA256 Credential=test/20260101/eu-central-1/states/aws4_request"
    headers = {"X-Amz-Target": f"AWSStepFunctions.{action}", "Authorization": signature}
    headers["Content-Type"] = "application/x-amz-json-1.0"
    return httpx.post(environment["AWS_ENDPOINT_URL"], content=json.dumps(body), headers=headers, timeout=60).json()


@pytest.mark.long
def test_step_functions(world: World):
    with step_functions(world) as environment:
        the_journey(
            world,
            "step_functions/agent.py",
            kill_at="before POST effects/.*/outcome",  # the task has its result, which its history shows later
            expired_as="not ordered: expired",
            **environment,
        )


@pytest.mark.long
def test_heartbeats_keep_a_task_of_step_functions_and_its_owner_learns_of_a_lost_one(world: World):
    with step_functions(world) as environment:
        often = environment | {"HEARTBEAT": "2"}
        execution = "arn:aws:states:eu-central-1:123456789012:execution:Purchase-2:"

        def status_of(key: str) -> str:
            return str(aws(environment, "DescribeExecution", executionArn=execution + key)["status"])

        with world.running("step_functions/agent.py", "aws-0", kill_at="after POST asks", **environment) as process:
            assert process.wait(timeout=300) == KILLED  # the token comes again, and is the same request
        with world.running("step_functions/agent.py", "aws-0", **environment) as process:
            request, until = world.request("Order aws-0"), time.monotonic() + 7
            own_processes.eventually(lambda: time.monotonic() > until, within=60)
            assert world.decide(request) == "decided"
            assert world.outcomes(process) == {"aws-0": {"order": "PO-aws-0", "amount": "184000.00"}}
        with world.running("step_functions/agent.py", "aws-1", **often):
            request, until = world.request("Order aws-1"), time.monotonic() + 5
            own_processes.eventually(lambda: time.monotonic() > until, within=60)
            assert status_of("aws-1") == "RUNNING"
        own_processes.eventually(lambda: status_of("aws-1") != "RUNNING", within=60)  # nothing sends heartbeats
        assert world.decide(request) == "decided"

        run = world.run_of(request)
        with world.running("step_functions/agent.py", "aws-2", **often):
            own_processes.eventually(lambda: world.run(run)["status"] == "blocked", within=120)
            [hold] = world.run(run)["holds"]
            assert (hold["kind"], hold["subject"]) == ("unknown_effect", "task-result-confirmed")
            said = {"resolution": "failed", "attempt": 1, "reason": "The execution has timed out."}
            path = f"runs/{run}/effects/task-result-confirmed/resolve"
            world.server.call("POST", path, said, key=world.owner_token())
            own_processes.eventually(lambda: world.run(run)["status"] == "failed", within=120)
            assert world.run(run)["outcome"]["result"]["code"] == "task_closed"
            second = world.request("Order aws-2")
        own_processes.eventually(lambda: status_of("aws-2") != "RUNNING", within=60)
        with world.running("step_functions/agent.py", "aws-3", **often):
            assert world.closed(second) == "cancelled"  # people do not decide in vain

        history = json.dumps(aws(environment, "GetExecutionHistory", executionArn=execution + "aws-1"))
        [token] = set(re.findall(r"token\W+([0-9a-f-]{36})", history))
        checkpoint = world.server.call("GET", f"runs/{run}/checkpoints/0", key=world.server.key)
        assert checkpoint["state"]["target"]["task_token"].startswith("gAAAA")
        files = [path for path in world.folder.rglob("*") if path.is_file() and path.name != "moto_server.log"]
        assert not [path.name for path in files if token.encode() in path.read_bytes()]
    assert [order["key"] for order in world.orders() if order["key"].startswith("aws-")] == ["aws-0"]


#: A delivery, the same again, and one without a correlation id; then what is in the stream of dead letters.
OTHER_NATS = """
import asyncio, json, os, nats

async def main():
    broker = await nats.connect(os.environ["NATS"])
    stream = broker.jetstream()
    body, correlation = json.dumps({"crates": 12}).encode(), os.environ["CORRELATION"]
    headers = {"Nats-Msg-Id": f"{correlation}-1", "Correlation-Id": correlation}
    for _ in range(2):
        await stream.publish("signals.delivered", body, headers=headers)
    await stream.publish("signals.delivered", body, headers={"Nats-Msg-Id": "goods-in-2"})
    dead = await stream.subscribe("dead")
    message = await dead.next_msg(timeout=60)
    print(json.dumps({"dead": message.headers["Reason"], "body": json.loads(message.data)}))
    await broker.close()

asyncio.run(main())
"""


Broker = Callable[[], contextlib.AbstractContextManager[Any]]


def the_broker_journey(world: World, program: str, other_system: str, broker: Broker, **address: str) -> None:
    """The journey; then the broker is stopped while a run waits for its answer, and is started after the answer.

    ``other_system``: sends a signal twice, and one without a correlation id, which is a dead letter.
    """
    name = program.partition("/")[0]
    key, correlation = f"{name}-5", f"PO-{name}"
    with broker():
        the_journey(
            world,
            program,
            kill_at="before POST complete",  # the outcome is published, and is published again
            expired_as="not ordered: expired",
            expires_first=True,
            **address,
        )
    with contextlib.ExitStack() as stack:
        with broker():
            process = stack.enter_context(world.running(program, key, **address))
            request = world.request(f"Order {key}")
            delivery = {"key": f"delivery-{name}", "kind": "event", "reason": "event", "title": "Delivery"}
            asked = world.server.call("POST", "asks", delivery | {"correlation": correlation}, key=world.server.key)
            script = world.folder / f"other_system_{name}.py"
            script.write_text(other_system)
            with world.running(str(script), CORRELATION=correlation, **address) as other:
                dead = world.outcomes(other)
            assert "is missing" in dead["dead"]
            assert dead["body"] == {"crates": 12}
            assert world.closed(asked["interrupt"]["id"]) == "answered"
        assert world.decide(request) == "decided"  # while no broker runs
        with broker():
            assert world.outcomes(process) == {key: {"order": f"PO-{key}", "amount": "184000.00"}}
    signals = world.server.call("GET", f"signals?correlation={correlation}", key=world.server.key)["signals"]
    assert [signal["status"] for signal in signals] == ["used"]
    assert [order["key"] for order in world.orders()].count(key) == 1


@pytest.mark.long
def test_nats(world: World):
    port = own_processes.free_port()
    own = ["--addr", "127.0.0.1", "--port", str(port), "--store_dir", str(world.folder / "jetstream")]
    server = python().with_name("nats-server")
    address = f"nats://127.0.0.1:{port}"
    the_broker_journey(
        world, "nats/agent.py", OTHER_NATS, lambda: world.engine(server, "--jetstream", *own, port=port), NATS=address
    )


OTHER_REDIS = """
import asyncio, json, os
from redis.asyncio import Redis

async def main():
    redis, correlation = Redis.from_url(os.environ["REDIS"]), os.environ["CORRELATION"]
    entry = {"type": "delivered", "body": json.dumps({"crates": 12})}
    for _ in range(2):
        await redis.xadd("signals", entry | {"message_id": f"{correlation}-1", "correlation_id": correlation})
    await redis.xadd("signals", entry | {"message_id": "goods-in-2"})
    [[_, [[_, dead]]]] = await redis.xread({"dead": "0"}, block=60_000)
    print(json.dumps({"dead": dead[b"reason"].decode(), "body": json.loads(dead[b"body"])}))
    await redis.aclose()

asyncio.run(main())
"""


@pytest.mark.long
def test_redis(world: World):
    port = own_processes.free_port()
    own = ["--port", str(port), "--bind", "127.0.0.1", "--dir", str(world.folder)]
    server = installed("valkey-server", "redis-server")
    durable = ["--appendonly", "yes", "--appendfsync", "always"]
    the_broker_journey(
        world,
        "redis/agent.py",
        OTHER_REDIS,
        lambda: world.engine(server, *own, *durable, port=port),
        REDIS=f"redis://127.0.0.1:{port}",
    )


OTHER_AMQP = """
import asyncio, json, os
import aio_pika

async def main():
    broker, correlation = await aio_pika.connect(os.environ["AMQP"]), os.environ["CORRELATION"]
    channel = await broker.channel()
    def message(id_, **more):
        body = json.dumps({"crates": 12}).encode()
        return aio_pika.Message(body, message_id=id_, type="delivered", delivery_mode=2, **more)
    for _ in range(2):
        await channel.default_exchange.publish(message(f"{correlation}-1", correlation_id=correlation), "signals")
    await channel.default_exchange.publish(message("goods-in-2"), "signals")
    queue = await channel.declare_queue("dead", durable=True)
    async with queue.iterator() as messages:
        async for dead in messages:
            print(json.dumps({"dead": dead.headers["reason"], "body": json.loads(dead.body)}))
            break
    await broker.close()

asyncio.run(main())
"""


@pytest.mark.long
def test_amqp(world: World):
    port, names, distribution = (own_processes.free_port() for _ in range(3))
    folder = world.folder / "rabbitmq"
    folder.mkdir()
    (folder / "plugins").write_text("[].")
    options = {
        "HOME": str(folder),
        "ERL_EPMD_PORT": str(names),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODENAME": "test@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_DIST_PORT": str(distribution),
        "RABBITMQ_MNESIA_BASE": str(folder / "data"),
        "RABBITMQ_LOG_BASE": str(folder / "logs"),
        "RABBITMQ_PID_FILE": str(folder / "pid"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
        "RUNNING_UNDER_SYSTEMD": "1",  # without a shell around it
    }
    server = installed("/usr/lib/rabbitmq/bin/rabbitmq-server")
    with world.engine(installed("epmd"), "-port", str(names), "-address", "127.0.0.1", port=names):
        the_broker_journey(
            world,
            "amqp/agent.py",
            OTHER_AMQP,
            lambda: world.engine(server, port=port, **options),
            AMQP=f"amqp://guest:guest@127.0.0.1:{port}/",
        )
