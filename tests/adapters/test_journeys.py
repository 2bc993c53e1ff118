"""The examples: decided, killed in between and continued, a late and a duplicate answer, an expiry, a cancel."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import time
from collections.abc import Iterator

import httpx
import pytest
from django.conf import settings

from tests import own_processes
from tests.adapters.environment import python, restate_server
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
        world.cancel(world.event("sale-2"))
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


#: A delivery, the same again, and one without a correlation id; then what is in the stream of dead letters.
OTHER_SYSTEM = """
import asyncio, json, os, nats

async def main():
    broker = await nats.connect(os.environ["NATS"])
    stream = broker.jetstream()
    body, headers = json.dumps({"crates": 12}).encode(), {"Nats-Msg-Id": "goods-in-1", "Correlation-Id": "PO-2231"}
    for _ in range(2):
        await stream.publish("signals.delivered", body, headers=headers)
    await stream.publish("signals.delivered", body, headers={"Nats-Msg-Id": "goods-in-2"})
    dead = await stream.subscribe("dead")
    message = await dead.next_msg(timeout=60)
    print(json.dumps({"dead": message.headers["Reason"], "body": json.loads(message.data)}))
    await broker.close()

asyncio.run(main())
"""


@pytest.mark.long
def test_nats(world: World):
    """The broker is stopped while a run waits for its answer, and started after the answer."""
    port = own_processes.free_port()
    address = {"NATS": f"nats://127.0.0.1:{port}"}
    command = [
        "--jetstream",
        "--addr",
        "127.0.0.1",
        "--port",
        str(port),
        "--store_dir",
        str(world.folder / "jetstream"),
    ]
    broker = python().with_name("nats-server")
    with world.engine(broker, *command, port=port):
        the_journey(
            world,
            "nats/agent.py",
            kill_at="before POST complete",  # the outcome is published, and is published again
            expired_as="not ordered: expired",
            expires_first=True,
            **address,
        )
    with contextlib.ExitStack() as stack:
        with world.engine(broker, *command, port=port):
            process = stack.enter_context(world.running("nats/agent.py", "nats-5", **address))
            request = world.request("Order nats-5")
            delivery = {"key": "delivery", "kind": "event", "reason": "event", "title": "Delivery"}
            asked = world.server.call("POST", "asks", delivery | {"correlation": "PO-2231"}, key=world.server.key)
            (world.folder / "other_system.py").write_text(OTHER_SYSTEM)
            with world.running(str(world.folder / "other_system.py"), **address) as other:
                dead = world.outcomes(other)
            assert dead == {"dead": "the header 'Correlation-Id' is missing", "body": {"crates": 12}}
            assert world.closed(asked["interrupt"]["id"]) == "answered"
        assert world.decide(request) == "decided"  # while no broker runs
        with world.engine(broker, *command, port=port):
            assert world.outcomes(process) == {"nats-5": {"order": "PO-nats-5", "amount": "184000.00"}}
    signals = world.server.call("GET", "signals?correlation=PO-2231", key=world.server.key)["signals"]
    assert [signal["status"] for signal in signals] == ["used"]
    assert [order["key"] for order in world.orders()].count("nats-5") == 1
