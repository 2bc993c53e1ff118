"""Examples killed at random, again and again: every order arrives once, and every run ends with its receipt."""

from __future__ import annotations

import random
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests import figures
from tests.adapters.world import KILLED, World, a_world

KEYS, KILLS_EACH, AT_ONCE = 40, 6, 4
#: Program -> the longest time in seconds until it is killed: a little more than it needs to its end.
PROGRAMS = {
    f"{name}/agent.py": 5.0 for name in ("langgraph", "langchain", "openai_agents", "pydantic_ai", "mcp", "dbos")
}


def killed(world: World, program: str, key: str, delays: list[float]) -> int:
    """Kill the program after each delay, then let it end. Return how many kills hit it."""
    hits = 0
    for delay in delays:
        with world.running(program, key) as process:
            try:
                process.wait(timeout=delay)
            except subprocess.TimeoutExpired:
                process.kill()
                hits += process.wait() == KILLED
            else:
                break
    with world.running(program, key) as process:
        assert f"PO-{key}" in str(world.outcomes(process)[key])
    return hits


@pytest.mark.long
@pytest.mark.parametrize("program", PROGRAMS)
def test_two_hundred_kills_lose_and_repeat_nothing(program: str, tmp_path: Path):
    dice = random.Random(figures.SEED)
    runs = {f"K-{n}": [dice.uniform(0.2, PROGRAMS[program]) for _ in range(KILLS_EACH)] for n in range(KEYS)}
    with a_world(tmp_path) as world, world.approving(), ThreadPoolExecutor(AT_ONCE) as pool:
        hits = sum(pool.map(lambda key: killed(world, program, key, runs[key]), runs))
        orders = [order["key"] for order in world.orders()]
    print(f"{program}: {hits} kills")  # noqa: T201  shown by -s and in a failure
    assert sorted(orders) == sorted(runs)
    assert hits >= 200
