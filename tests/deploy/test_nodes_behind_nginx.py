"""Two web nodes behind the real nginx: requests pass through it, and nodes that are restarted under load fail none."""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import figures, own_processes
from tests.deploy.cache_server import started_cache
from tests.deploy.nginx import started_nginx
from tests.deploy.two_nodes import Load, Node, assert_nothing_failed, two_nodes

pytestmark = [pytest.mark.django_db(transaction=True)]

MEBIBYTE = 1024 * 1024
GUESSES = 5  # FAILED_KEYS_PER_MINUTE of the nodes


@pytest.fixture(scope="module")
def behind_nginx(tmp_path_factory: pytest.TempPathFactory, django_db_blocker) -> Iterator[tuple[list[Node], str, str]]:
    """Two nodes, the key of an agent, and the address of nginx, with shorter times than documented.

    The nodes share a cache that is away until a test starts it.
    """
    folder = tmp_path_factory.mktemp("nodes")
    own = {"SHUTDOWN_DELAY": "2", "FAILED_KEYS_PER_MINUTE": str(GUESSES)}
    own["CACHE_URL"] = f"redis://127.0.0.1:{own_processes.free_port()}/0"
    with (
        django_db_blocker.unblock(),
        two_nodes(folder, own_processes.make_migrated_database(folder), **own) as (nodes, key),
        started_nginx(folder, [it.address for it in nodes], idle="1s") as address,
    ):
        yield nodes, key, address


def test_two_nodes_share_one_limit_and_count_alone_while_the_cache_is_away(
    tmp_path: Path, behind_nginx: tuple[list[Node], str, str]
) -> None:
    nodes, _, _ = behind_nginx  # they have not missed the cache yet, after which they would leave it alone for 5 s
    with started_cache(tmp_path, url=nodes[0].environment["CACHE_URL"]) as (_, cache):
        statuses = [guess(node) for _ in range(GUESSES) for node in nodes]
        assert statuses == [401] * GUESSES + [429] * GUESSES
        cache.kill()
        cache.wait()
        statuses = [guess(node) for node in nodes for _ in range(GUESSES + 1)]
        assert statuses == ([401] * GUESSES + [429]) * 2


def test_a_large_file_an_id_and_a_long_poll_pass_through_nginx(
    behind_nginx: tuple[list[Node], str, str], request: pytest.FixtureRequest
) -> None:
    _, key, address = behind_nginx
    connection = http.client.HTTPConnection(address, timeout=60)
    request.addfinalizer(connection.close)
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    connection.request("POST", "/api/v1/runs", json.dumps({"key": "PR-1", "title": "Buy"}), headers)
    run = json.loads(connection.getresponse().read())
    leased = headers | {"Run-Lease": run["lease"]["token"], "Content-Type": "application/octet-stream"}
    connection.request("PUT", f"/api/v1/runs/{run['id']}/checkpoints/1/file", b"x" * 3 * MEBIBYTE, leased)
    stored = connection.getresponse()
    assert stored.status in (200, 201), stored.read()
    assert json.loads(stored.read())["size"] == 3 * MEBIBYTE
    assert re.fullmatch(r"[0-9a-f]{32}", stored.headers["X-Request-ID"])  # nginx's own id
    poll = json.dumps({"code_version": "1", "wait": 1})
    connection.request("POST", "/api/v1/continuations/claim", poll, headers)
    assert connection.getresponse().status == 200


def guess(node: Node) -> int:
    """Call with an invalid key, and return the status."""
    connection = http.client.HTTPConnection(node.address, timeout=60)
    with contextlib.closing(connection):
        connection.request("GET", "/api/v1/agents/me", headers={"Authorization": "Bearer rq_guess"})
        return connection.getresponse().status


def restart_under_load(nodes: list[Node], key: str, address: str, *, restarts: int) -> Load:
    load = Load(address=address, key=key)
    with load.running():
        for node in itertools.islice(itertools.cycle(nodes), restarts):
            load.wait_for(5)
            node.restart()
    assert_nothing_failed(load, nodes[0].environment["DATABASE_URL"])
    return load


@pytest.mark.slow
def test_a_restarted_node_fails_no_request(behind_nginx: tuple[list[Node], str, str]) -> None:
    load = restart_under_load(*behind_nginx, restarts=1)
    assert load.sent > len(load.created) > 0


@pytest.mark.long
@pytest.mark.proves(1)
def test_a_rolling_restart_with_the_documented_times_fails_no_request(tmp_path: Path) -> None:
    with (
        two_nodes(tmp_path, own_processes.make_migrated_database(tmp_path), SHUTDOWN_DELAY="10") as (nodes, key),
        started_nginx(tmp_path, [it.address for it in nodes]) as address,
    ):
        load = restart_under_load(nodes, key, address, restarts=8)
    figures.count("requests during restarts of one of two web nodes behind nginx", "0 failed", n=load.sent)
