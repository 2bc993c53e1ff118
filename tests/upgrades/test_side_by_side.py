"""An upgrade without a stop: old and new code beside each other on one database under load, and back to the old code."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest
from django.conf import settings

from tests import figures, own_processes
from tests.deploy.nginx import started_nginx
from tests.deploy.two_nodes import Load, assert_nothing_failed, two_nodes

pytestmark = [
    pytest.mark.postgresql,
    pytest.mark.django_db(transaction=True),
    pytest.mark.long,
    pytest.mark.proves(1, 22),
]


@pytest.fixture
def old_code(tmp_path: Path) -> Path:
    """The tree of the release before this one: of REVIEWQUEUE_OLD_COMMIT, else of the last tag."""
    git = shutil.which("git")
    if git is None or not (settings.ROOT / ".git").exists():
        pytest.skip("needs the history of the repository")
    describe = [git, "describe", "--tags", "--abbrev=0", "HEAD~1"]
    commit = (
        os.environ.get("REVIEWQUEUE_OLD_COMMIT")
        or subprocess.run(describe, cwd=settings.ROOT, capture_output=True, text=True, check=False).stdout.strip()
    )
    if not commit:
        pytest.skip("no release is tagged yet: set REVIEWQUEUE_OLD_COMMIT")
    archive = tmp_path / "old.tar"
    subprocess.run([git, "archive", f"--output={archive}", commit], cwd=settings.ROOT, check=True)
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path / "old", filter="data")
    return tmp_path / "old"


def test_an_upgrade_and_the_way_back_fail_no_request_and_lose_none(old_code: Path, tmp_path: Path):
    database = own_processes.make_own_database(tmp_path)
    environment = own_processes.environment_for(database)
    own_processes.run_command("migrate", environment=environment, root=old_code)
    new_code = settings.ROOT
    with (
        two_nodes(tmp_path, database, root=old_code, SHUTDOWN_DELAY="10") as (nodes, key),
        started_nginx(tmp_path, [node.address for node in nodes]) as address,
    ):
        # Long polls are shorter than the time that a node has to finish what is under way.
        load = Load(address=address, key=key, wait=5)
        with load.running():
            load.wait_for(10)
            own_processes.run_command("migrate", environment=environment, root=new_code)
            load.wait_for(10)
            for code in (new_code, old_code):
                for node in nodes:
                    node.restart(code)
                    load.wait_for(10)
        assert_nothing_failed(load, database)
    figures.count("requests during an upgrade of two nodes and the way back", "0 failed, 0 lost", n=load.sent)
