"""The fault schedule of the nemesis, drawn by a seed: one fault after the other, and recovery at the end.

Faults are chosen in turns until each occurred once, so that a short run has them all. `recover` restarts every process,
lets people decide and an owner resolve, and waits until no run is open or its time is over.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator

from tests.nemesis.history import OK, Record
from tests.nemesis.world import HOUR, World, faketime_library

PAST_THE_LEASE = 7.0
RESTARTS = ("immediate restart of the database",) * 2  # it costs little, and every call meets it
Harm = Callable[[World, random.Random], None]


def kill_a_web(world: World, chance: random.Random) -> None:
    chance.choice(world.webs).again()


def kill_a_worker(world: World, chance: random.Random) -> None:
    chance.choice(world.workers).again()


def kill_an_agent(world: World, chance: random.Random) -> None:
    chance.choice(world.agents).again()


def stop_an_agent_past_its_lease(world: World, chance: random.Random) -> None:
    agent = chance.choice(world.agents)
    agent.stop()
    time.sleep(PAST_THE_LEASE)
    agent.wake()


def stop_a_web(world: World, chance: random.Random) -> None:
    web = chance.choice(world.webs)
    web.stop()
    time.sleep(chance.uniform(2, 4))
    web.wake()


def stop_all_sweeps(world: World, chance: random.Random) -> None:
    for worker in world.workers:
        worker.stop()
    time.sleep(chance.uniform(5, 8))
    for worker in world.workers:
        worker.wake()


def restart_the_database(world: World, chance: random.Random) -> None:
    world.server.restart_at_once()


def shift_the_clock_of_a_web(world: World, chance: random.Random) -> None:
    chance.choice(world.webs).again(wrong_by=chance.choice((HOUR, -HOUR)))


def shift_the_clock_of_a_worker(world: World, chance: random.Random) -> None:
    chance.choice(world.workers).again(wrong_by=chance.choice((HOUR, -HOUR)))


def harms() -> dict[str, Harm]:
    known: dict[str, Harm] = {
        "kill -9 of a web": kill_a_web,
        "kill -9 of a worker": kill_a_worker,
        "kill -9 of an agent": kill_an_agent,
        "an agent stopped past its lease": stop_an_agent_past_its_lease,
        "a web stopped for a while": stop_a_web,
        "all sweeps stopped for a while": stop_all_sweeps,
        "immediate restart of the database": restart_the_database,
    }
    if faketime_library():
        known |= {
            "a web with a clock an hour wrong": shift_the_clock_of_a_web,
            "a worker with a clock an hour wrong": shift_the_clock_of_a_worker,
        }
    return known


def rage(world: World, *, seconds: float, seed: int) -> Counter[str]:
    """Inject faults for a time and until each occurred once; returns how often each occurred."""
    record, chance, done = Record(world.folder, "nemesis"), random.Random(seed), Counter[str]()
    known = harms()
    order = _in_turns([*sorted(known), *RESTARTS], chance)
    world.weather("storm")
    for client in [*world.agents, *world.people]:
        client.start()
    time.sleep(3)
    until = time.monotonic() + seconds
    while time.monotonic() < until or len(done) < len(known):
        name = next(order)
        number = record.begin("harm", {"what": name})
        known[name](world, chance)
        record.end(number, outcome=OK, told={})
        done[name] += 1
        time.sleep(chance.uniform(0.5, 2.5))
    record.close()
    return done


def _in_turns(names: list[str], chance: random.Random) -> Iterator[str]:
    while True:
        chance.shuffle(names)
        yield from list(names)


def recover(world: World, *, within: float) -> int:
    """Restart everything and let open runs end; returns how many have not ended."""
    world.weather("calm")
    (world.folder / "stop").touch()
    for kept in [*world.webs, *world.workers]:
        if kept.wrong_by or not kept.runs():
            kept.again()
    for agent in world.agents:
        agent.again()  # the agent acts no more: only now can an owner resolve as never happened
    until = time.monotonic() + within
    while time.monotonic() < until and open_runs(world):
        world.do("settle")
        time.sleep(1)
    world.do("end_backoff")
    while time.monotonic() < until and messages_due(world):
        time.sleep(1)
    for (
        client
    ) in world.all_processes:  # evidence from two sources agrees only when nothing is being delivered between them
        client.kill()
    return open_runs(world)


def messages_due(world: World) -> int:
    [[number]] = world.rows("SELECT count(*) FROM reviewqueue_delivery WHERE status = 'due'")
    return int(number)


def open_runs(world: World) -> int:
    [[number]] = world.rows("SELECT count(*) FROM runs_run WHERE ended_at IS NULL")
    return int(number)
