"""Files in a bucket of an S3-compatible server: written, verified on the way out, found changed."""

from __future__ import annotations

import http.server
import subprocess
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from django.core.files.storage import default_storage, storages

from reviewqueue.operations import environment
from reviewqueue.operations.doctor import checkpoint_files
from runs.models import Attachment, CheckpointFile
from tests import builders, own_processes
from tests.adapters.environment import python
from tests.api.calls import a_reviewer_client, a_started_run, a_worker
from tests.api.test_files import BYTES, MARK, offer
from tests.pages.test_attachments import PDF, SCHEMA

pytestmark = pytest.mark.django_db(transaction=True)
URL = "s3://files/of-tests?endpoint_url={}&region_name=eu-central-1&addressing_style=path"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """An emulator of S3 with the bucket `files`; yields its address."""
    port = own_processes.free_port()
    command = [python().with_name("moto_server"), "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    address = f"http://127.0.0.1:{port}"
    try:
        own_processes.eventually(lambda: _is_made(address), within=60)
        yield address
    finally:
        process.kill()
        process.wait()


def _is_made(address: str) -> bool:
    try:
        return httpx.put(f"{address}/files", timeout=5).status_code == 200
    except httpx.HTTPError:
        return False


@pytest.fixture
def bucket(server: str, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the files of this test in the bucket."""
    use(server, settings, monkeypatch)


def use(address: str, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("FILES_URL", URL.format(address))
    settings.STORAGES = settings.STORAGES | {"default": environment.file_storage("FILES_URL")}


def change(name: str, content: bytes) -> None:
    """Change an object, as someone with access to the bucket could."""
    default_storage.bucket.Object(f"of-tests/{name}").put(Body=content)


@pytest.mark.long
def test_a_checkpoint_file_is_verified_on_the_way_out_and_a_changed_object_holds_its_run(bucket: None):
    worker = a_worker()
    run, lease = a_started_run(worker)
    assert offer(worker, run, Run_Lease=lease).body == {"number": 1, **MARK}
    worker.post(f"runs/{run}/checkpoints", {"after": 0, "step": "a", "state": 1}, Run_Lease=lease)
    assert worker.get(f"runs/{run}/checkpoints/1/file").body == BYTES
    stored = CheckpointFile.objects.get()
    assert list(checkpoint_files.stored_files()) == []
    change(stored.name, bytes(len(BYTES)))
    refused = worker.get(f"runs/{run}/checkpoints/1/file")
    assert (refused.status, refused["code"]) == (409, "file_spoilt")
    worker.post(f"runs/{run}/lease/release", {"reason": "retry"}, Run_Lease=lease)
    assert [hold["kind"] for hold in worker.get(f"runs/{run}")["holds"]] == ["checkpoint_spoilt"]
    default_storage.delete(stored.name)
    default_storage.delete(stored.name)  # a missing object is no error
    assert [it.check for it in checkpoint_files.stored_files()] == ["storage"]


@pytest.mark.long
def test_an_attachment_is_verified_on_the_way_out_and_a_changed_object_is_refused(bucket: None):
    started = builders.a_running_run()
    [interrupt] = builders.suspend_run(started, builders.an_input_wait(input_schema=SCHEMA)).interrupts
    ana = a_reviewer_client()
    path = f"interrupts/{interrupt.public_id}/attachments"
    sent = ana.call("POST", f"{path}?name=LT-2026.pdf", raw=PDF, Content_Type="application/octet-stream")
    assert sent.status == 201, sent.body
    stored = Attachment.objects.get()
    assert ana.get(f"{path}/{stored.digest}").body == PDF
    change(stored.stored_as, PDF.replace(b"%PDF-1", b"%PDF-2"))
    refused = ana.get(f"{path}/{stored.digest}")
    assert (refused.status, refused["code"]) == (409, "file_spoilt")


class Dribbling(http.server.BaseHTTPRequestHandler):
    """A server of objects whose bytes stop coming."""

    def do_HEAD(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "100")
        self.send_header("ETag", '"1"')
        self.end_headers()

    def do_GET(self) -> None:
        self.do_HEAD()
        self.wfile.write(b"some")

    def log_message(self, *_: object) -> None:
        pass


def test_a_download_that_breaks_off_is_a_fault_of_the_storage(settings: Any, monkeypatch: pytest.MonkeyPatch):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Dribbling) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        use(f"http://127.0.0.1:{server.server_port}", settings, monkeypatch)
        with pytest.raises(OSError, match="did not answer"):
            default_storage.open("a")
        server.shutdown()


def test_an_object_is_not_overwritten(settings: Any, monkeypatch: pytest.MonkeyPatch):
    use(f"http://127.0.0.1:{own_processes.free_port()}", settings, monkeypatch)
    storage = storages["default"]
    monkeypatch.setattr(storage, "exists", lambda name: name == "a")
    assert storage.get_available_name("b") == "b"
    assert storage.get_available_name("a") != "a", "`store_file` reports a new name as a fault"


def test_a_server_that_is_away_refuses_only_files_and_for_a_while(settings: Any, monkeypatch: pytest.MonkeyPatch):
    worker, folder = a_worker(), settings.STORAGES
    run, lease = a_started_run(worker)
    use(f"http://127.0.0.1:{own_processes.free_port()}", settings, monkeypatch)
    refused = offer(worker, run, Run_Lease=lease)
    assert (refused.status, refused["code"], refused["retryable"]) == (503, "busy", True)
    assert worker.get(f"runs/{run}").status == 200
    settings.STORAGES = folder
    assert offer(worker, run, Run_Lease=lease).status == 201
