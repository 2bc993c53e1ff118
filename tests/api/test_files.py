"""Files of checkpoints by API: sent as they are, shown where their checkpoint is, read by the agent's keys alone."""

from __future__ import annotations

import base64
import hashlib

import pytest
from django.core.files.storage import default_storage

from runs.models import CheckpointFile
from tests.api.calls import Caller, Reply, a_reviewer_client, a_started_run, a_worker, the_approval, the_suspend

pytestmark = pytest.mark.django_db

BYTES = bytes(range(256)) * 300
STATED = f"sha-256=:{base64.b64encode(hashlib.sha256(BYTES).digest()).decode()}:"
MARK = {"digest": f"sha256:{hashlib.sha256(BYTES).hexdigest()}", "size": len(BYTES)}


def offer(worker: Caller, run: str, sent: bytes = BYTES, *, number: int = 1, **headers: str) -> Reply:
    named = {"Content_Type": "application/octet-stream", **headers}
    return worker.call("PUT", f"runs/{run}/checkpoints/{number}/file", raw=sent, **named)


def test_a_file_is_returned_as_it_was_sent_and_listed_with_its_checkpoint():
    worker = a_worker()
    run, lease = a_started_run(worker)
    assert worker.get(f"runs/{run}")["file"] is None
    offered = offer(worker, run, Run_Lease=lease, Content_Digest=STATED)
    assert (offered.status, offered.body) == (201, {"number": 1, **MARK})
    assert worker.get(f"runs/{run}")["file"] is None

    suspended = worker.post(f"runs/{run}/interrupts", the_suspend(the_approval()), Run_Lease=lease)
    assert suspended["checkpoint"]["file"] == MARK
    assert worker.get(f"runs/{run}")["file"] == MARK
    assert worker.get(f"runs/{run}/checkpoints/1")["file"] == MARK
    assert "file" not in worker.get(f"runs/{run}/checkpoints/0").body

    answer = {"state_version": 1, "verdict": "approve"}
    a_reviewer_client().post(f"interrupts/{suspended['interrupts'][0]['id']}/decisions", answer)
    [taken] = worker.post("continuations/claim").body
    assert taken["checkpoint"]["file"] == MARK
    read = worker.get(f"runs/{run}/checkpoints/1/file")
    assert (read.status, read.body) == (200, BYTES)
    next_one = {"after": 1, "step": "ordered", "state": None}
    reached = worker.post(f"runs/{run}/checkpoints", next_one, Run_Lease=taken["lease"]["token"])
    assert "file" not in reached.body
    assert worker.get(f"runs/{run}")["file"] is None


def test_it_comes_with_its_digest_for_no_browser_and_no_cache():
    worker = a_worker()
    run, lease = a_started_run(worker)
    offer(worker, run, Run_Lease=lease)
    reached = worker.post(f"runs/{run}/checkpoints", {"after": 0, "step": "a", "state": 1}, Run_Lease=lease)
    assert reached["file"] == MARK
    headers = worker.get(f"runs/{run}/checkpoints/1/file").headers
    assert headers["Content-Digest"] == STATED
    assert headers["ETag"] == f'"{MARK["digest"]}"'
    assert headers["Content-Length"] == str(len(BYTES))
    assert headers["Content-Type"] == "application/octet-stream"
    assert headers["Content-Disposition"] == f'attachment; filename="{run}-1.bin"'
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cache-Control"] == "no-store"


def test_the_same_again_is_200_and_other_bytes_for_what_is_committed_are_409():
    worker = a_worker()
    run, lease = a_started_run(worker)
    assert [offer(worker, run, Run_Lease=lease).status for _ in range(2)] == [201, 200]
    worker.post(f"runs/{run}/checkpoints", {"after": 0, "step": "a", "state": 1}, Run_Lease=lease)
    assert offer(worker, run, Run_Lease=lease).status == 200
    refused = offer(worker, run, b"other", Run_Lease=lease)
    assert (refused.status, refused["code"], refused["checkpoint"]) == (409, "stale_version", 1)


def test_people_and_other_agents_do_not_read_it():
    worker = a_worker()
    run, lease = a_started_run(worker)
    offer(worker, run, Run_Lease=lease)
    worker.post(f"runs/{run}/interrupts", the_suspend(the_approval()), Run_Lease=lease)
    ana = a_reviewer_client()
    assert ana.get(f"runs/{run}").status == 200
    assert ana.get(f"runs/{run}/checkpoints/1/file")["code"] == "not_permitted"
    assert Caller().get(f"runs/{run}/checkpoints/1/file").status == 401


def test_a_damaged_file_is_refused_and_the_run_shows_its_hold():
    worker = a_worker()
    run, lease = a_started_run(worker)
    offer(worker, run, Run_Lease=lease)
    worker.post(f"runs/{run}/checkpoints", {"after": 0, "step": "a", "state": 1}, Run_Lease=lease)
    default_storage.delete(CheckpointFile.objects.get().name)
    refused = worker.get(f"runs/{run}/checkpoints/1/file")
    assert (refused.status, refused["code"], refused["digest"]) == (409, "file_spoilt", MARK["digest"])
    worker.post(f"runs/{run}/lease/release", {"reason": "retry"}, Run_Lease=lease)
    shown = worker.get(f"runs/{run}")
    assert (shown["status"], shown["holds"][0]["kind"]) == ("blocked", "checkpoint_spoilt")


def test_the_limits_have_the_size_of_a_file(settings):
    settings.CHECKPOINT_FILE_BYTES = 4097  # as it is now, not as it was when the first call was answered
    assert a_worker().get("agents/me")["limits"]["file_bytes"] == settings.CHECKPOINT_FILE_BYTES
