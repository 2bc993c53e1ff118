"""Concurrent uploads beside the checkpoint that includes one: every acknowledged file is stored."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.files.storage import default_storage

from runs import file_storage
from runs.checkpoint_files import delete_unwanted_files
from runs.checkpoints import Snapshot
from runs.models import Checkpoint, Run
from runs.states import FileStatus
from runs.use_cases import commit_checkpoint, transfer_file
from tests import builders, figures
from tests.races import guards
from tests.races.invariants import breaches, deadlocks, forbidden_responses
from tests.races.race_runner import ROUNDS, Move, Race, first_breach, racers

pytestmark = [pytest.mark.postgresql, pytest.mark.django_db(transaction=True)]


def a_sender(sent_bytes: bytes) -> Move:
    def send(wanted: dict[str, Any]) -> dict[str, Any]:
        sent = file_storage.spool_upload([sent_bytes])
        with sent.file:
            offered = transfer_file.upload_file(agent=builders.an_agent(), number=1, sent=sent, **wanted)
        return {"digest": offered.file.digest, "created": offered.created}

    return send


def commit(wanted: dict[str, Any]) -> dict[str, Any]:
    snapshot = Snapshot(step="trained", state={})
    reached = commit_checkpoint.commit_checkpoint(
        agent=builders.an_agent(), after=0, snapshot=snapshot, facts=[], **wanted
    )
    return {"number": reached.checkpoint.number}


MOVES: dict[str, Move] = {
    "one": a_sender(b"one"),
    "the same": a_sender(b"one"),
    "another": a_sender(b"another"),
    "the checkpoint": commit,
}


def send_at_once(race: Race) -> list[str]:
    started = builders.a_running_run()
    assert started.lease is not None
    told = race.round(run_id=started.run.public_id, token=started.lease.token)
    run = Run.objects.get(pk=started.run.pk)
    wrong = [*forbidden_responses(told), *breaches(run.pk)]
    checkpoint = Checkpoint.objects.select_related("file").filter(run=run, number=1).first()
    if checkpoint is None:
        return [*wrong, "no checkpoint"]
    kept = {racer.result["digest"] for racer in told if racer.done and "digest" in racer.result}
    late = {racer.refused for racer in told if not racer.done}
    if late - {"stale_version"}:
        wrong.append(f"refused as {late}")
    if kept and checkpoint.file is None:
        wrong.append("promised as stored, but the checkpoint came without it")
    if checkpoint.file is not None and checkpoint.file.digest not in kept:
        wrong.append("the checkpoint has a file that no client was promised")
    if run.files.filter(status=FileStatus.OFFERED).exists():
        wrong.append("a file that waits for a checkpoint that has been")
    delete_unwanted_files(limit=10)
    there = {file.name for file in run.files.all() if default_storage.exists(file.name)}
    if there != ({checkpoint.file.name} if checkpoint.file else set()):
        wrong.append(f"{len(there)} files are left")
    return wrong


@pytest.mark.proves(1)
def test_of_files_sent_beside_their_checkpoint_one_goes_with_it_or_all_hear_that_they_are_late():
    before = deadlocks()
    with racers(MOVES) as race:
        for _ in range(ROUNDS):
            assert send_at_once(race) == []
            figures.count(
                "races of three files and their checkpoint", "no client was promised a file that is not stored"
            )
    assert deadlocks() == before


@pytest.mark.proves(1)
def test_without_row_locks_a_file_is_promised_and_not_kept():
    wrong = first_breach(MOVES, send_at_once, without=guards.without_row_locks)
    assert wrong
