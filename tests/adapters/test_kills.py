"""Examples killed at random, again and again: every order arrives once, and every run ends with its receipt."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests import figures
from tests.adapters.world import KILLED, World, a_world

KILLS, KILLS_EACH, AT_ONCE = 200, 4, 4
#: The longest time from the first request of a process to its kill, in seconds.
SLOWEST = 2.0
PROGRAMS = [f"{name}/agent.py" for name in ("langgraph", "langchain", "openai_agents", "pydantic_ai", "dbos")]


def kill_and_finish(world: World, program: str, key: str, delays: list[float]) -> int:
    """Kill the program after each delay, then let it end. Return how many kills hit it."""
    hits = 0
    for delay in delays:
        with world.running(program, key, kill_at=f"{delay:.2f} s") as process:
            _, errors = process.communicate(timeout=600)
            assert process.returncode in (0, KILLED), f"{key}: {errors[-3000:]}"
            hits += process.returncode == KILLED
    with world.running(program, key) as process:
        assert f"PO-{key}" in str(world.outcomes(process)[key])
    return hits


@pytest.mark.long
@pytest.mark.parametrize("program", PROGRAMS)
def test_two_hundred_kills_lose_and_repeat_nothing(program: str, tmp_path: Path):
    dice, keys, hits = random.Random(figures.SEED), [], 0
    with a_world(tmp_path) as world, world.approving(), ThreadPoolExecutor(AT_ONCE) as pool:
        while hits < KILLS:
            some = {f"K-{len(keys) + n}": [dice.uniform(0, SLOWEST) for _ in range(KILLS_EACH)] for n in range(AT_ONCE)}
            keys += some
            hits += sum(pool.map(lambda key, delays: kill_and_finish(world, program, key, delays), some, some.values()))
        orders = [order["key"] for order in world.orders()]
    print(f"{program}: {hits} kills of {len(keys)} runs")  # noqa: T201  shown by -s and in a failure
    assert sorted(orders) == sorted(keys)
