"""Scenes of a checkpoint's file: on its way, arrived, given up, found damaged, erased."""

from __future__ import annotations

from datetime import timedelta

from django.core.files.storage import default_storage

from ledger import clock
from runs import files, lifecycle, offering, retention, returning, storing
from runs.lifecycle import Started
from runs.models import CheckpointFile
from tests import builders
from tests.crashes.verbs import Act, verb
from tests.crashes.verbs.of_runs import held_by

BYTES = b"\x80 a pickled graph"


def offer(started: Started) -> None:
    sent = storing.spool([BYTES])
    with sent.file:
        offering.offer_file(**held_by(started), number=1, sent=sent)


def begin(started: Started, sent_bytes: bytes = BYTES) -> offering.Offered:
    sent = storing.spool([sent_bytes])
    with sent.file:
        return offering._begin_offer(**held_by(started), number=1, digest=sent.digest, size=sent.size)


def a_run_with_a_file() -> Started:
    started = builders.a_running_run()
    offer(started)
    builders.commit(started)
    return started


@verb("runs.offering._begin_offer", another=True)
def a_file_is_on_its_way() -> Act:
    started = builders.a_running_run()
    return lambda: begin(started)


@verb("runs.offering._finish_offer")
def a_file_has_arrived() -> Act:
    started = builders.a_running_run()
    file = begin(started).file
    return lambda: offering._finish_offer(**held_by(started), file_pk=file.pk)


@verb("runs.offering._finish_offer")
def a_file_takes_the_place_of_another() -> Act:
    started = builders.a_running_run()
    offer(started)
    file = begin(started, b"other bytes").file
    return lambda: offering._finish_offer(**held_by(started), file_pk=file.pk)


@verb("runs.safe_points.commit_checkpoint")
def a_boundary_takes_its_file_along() -> Act:
    started = builders.a_running_run()
    offer(started)
    return lambda: builders.commit(started, after=0)


@verb("runs.files.give_up_file")
def a_file_that_did_not_arrive_is_given_up() -> Act:
    file = begin(builders.a_running_run()).file
    return lambda: files.give_up_file(file.pk)


@verb("runs.offering._refuse_spoilt", says="file_spoilt")
def a_damaged_file_holds_its_run() -> Act:
    run = a_run_with_a_file().run
    default_storage.delete(CheckpointFile.objects.get(run=run).name)
    return lambda: offering.fetch_file(agent=run.agent, run_id=run.public_id, number=1)


@verb("runs.files._claim_unwanted")
def the_file_of_a_lost_worker_is_deleted() -> Act:
    started = builders.a_running_run()
    offer(started)
    returning.hand_back(**held_by(started), reason="retry", detail="")
    return lambda: files.delete_unwanted_files(limit=10)


@verb("runs.files._forget_bytes")
def the_files_of_an_old_run_are_erased() -> Act:
    started = a_run_with_a_file()
    lifecycle.complete_run(**held_by(started), result=None)
    retention.erase_old_snapshots(ended_before=clock.now() + timedelta(days=1), limit=10)
    return lambda: files.delete_unwanted_files(limit=10)
