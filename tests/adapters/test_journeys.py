"""The examples: decided, killed in between and continued, a late and a duplicate answer, an expiry, a cancel."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.adapters.world import KILLED, World, a_world

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with a_world(tmp_path_factory.mktemp("world")) as world:
        yield world


def the_journey(world: World, program: str, *, kill_at: str) -> None:
    """Carry four runs through one example: decided, rejected, expired and cancelled.

    The program is killed while all requests are open, and again at ``kill_at`` after the decision.
    """
    name = program.partition("/")[0]
    decided, rejected, expired, cancelled = keys = [f"{name}-{place}" for place in range(1, 5)]
    with world.running(program, expired, DEADLINE="PT3S"):
        late = world.request(f"Order {expired}")
    with world.running(program, decided, rejected, cancelled):
        requests = {key: world.request(f"Order {key}") for key in (decided, rejected, cancelled)}

    assert world.decide(requests[decided]) == "decided"
    with world.running(program, decided, kill_at=kill_at) as process:
        assert process.wait(timeout=60) == KILLED
    assert world.decide(requests[decided], "reject") == "already_decided"
    assert world.decide(requests[rejected], "reject", message="Too expensive.") == "decided"
    world.cancel(requests[cancelled])
    assert world.closed(late) == "expired"
    assert world.decide(late) == "expired"

    with world.running(program, *keys) as process:
        assert world.outcomes(process) == {
            decided: {"order": f"PO-{decided}", "amount": "184000.00"},
            rejected: "Too expensive.",
            expired: "not ordered",
            cancelled: "not ordered: cancelled",
        }
    assert [order["key"] for order in world.orders() if order["key"] in keys] == [decided]


def test_langchain(world: World):
    title = "Call issue_purchase_order"  # of LangChain's requests
    with world.running("langchain/agent.py", "langchain-1"):
        request = world.request(title)
    edited = {"supplier": "S-17", "item": "Hoist", "amount": "180000.00"}
    assert world.decide(request, "edit", arguments=edited) == "decided"
    with world.running("langchain/agent.py", "langchain-1", kill_at="after PUT effects/.*") as process:
        assert process.wait(timeout=60) == KILLED
    assert world.decide(request, "reject") == "already_decided"

    with world.running("langchain/agent.py", "langchain-2", DEADLINE="PT2S") as second:
        late = world.request(title)
        assert world.closed(late) == "expired"
        assert world.decide(late) == "expired"
        assert "rejected" in world.outcomes(second)["langchain-2"]
    with world.running("langchain/agent.py", "langchain-3") as third:
        world.cancel(world.request(title))
        with world.running("langchain/agent.py", "langchain-1") as process:
            result = world.outcomes(process)["langchain-1"]  # LangChain tells the model about the edit
        assert result.endswith('{"order": "PO-langchain-1", "amount": "180000.00"}')
        assert world.outcomes(third) == {"langchain-3": "not ordered: cancelled"}
    assert [order["amount"] for order in world.orders() if "langchain" in order["key"]] == ["180000.00"]


def test_langgraph(world: World):
    the_journey(world, "langgraph/agent.py", kill_at="before POST effects/.*/outcome")
