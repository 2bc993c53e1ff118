"""Two web nodes behind the real nginx are restarted one after the other, under load: no request fails, and none is lost."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from tests import figures, own_processes
from tests.deploy.nginx import started_nginx
from tests.deploy.two_nodes import Load, assert_nothing_failed, two_nodes

pytestmark = [pytest.mark.django_db(transaction=True)]


def restart_under_load(folder: Path, *, restarts: int, idle: str, delay: int) -> Load:
    database = own_processes.make_migrated_database(folder)
    with (
        two_nodes(folder, database, SHUTDOWN_DELAY=str(delay)) as (nodes, key),
        started_nginx(folder, [it.address for it in nodes], idle=idle) as address,
    ):
        load = Load(address=address, key=key)
        with load.running():
            for node in itertools.islice(itertools.cycle(nodes), restarts):
                load.wait_for(5)
                node.restart()
        assert_nothing_failed(load, database)
    return load


@pytest.mark.slow
def test_a_restarted_node_behind_nginx_fails_no_request(tmp_path: Path):
    load = restart_under_load(tmp_path, restarts=1, idle="1s", delay=2)
    assert load.sent > len(load.created) > 0


@pytest.mark.long
@pytest.mark.proves(1)
def test_a_rolling_restart_with_the_documented_times_fails_no_request(tmp_path: Path):
    load = restart_under_load(tmp_path, restarts=8, idle="", delay=10)
    figures.count("requests during restarts of one of two web nodes behind nginx", "0 failed", n=load.sent)
