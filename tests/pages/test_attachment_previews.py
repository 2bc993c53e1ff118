"""Previews of attached files, in which nothing can run, and the scan of files before they are stored."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from ledger.errors import Busy
from reviewqueue.operations.doctor import configuration
from reviewqueue.pages import pdf_pictures
from runs import attachment_scan
from runs.errors import AttachmentRefused
from runs.models import Attachment, Event
from runs.use_cases import attach_file
from tests import builders
from tests.pages.test_attachments import PDF, PNG, a_request, attach

pytestmark = pytest.mark.django_db

CERTIFICATE = (Path(__file__).parents[2] / "reviewqueue" / "demo" / "load-test-certificate.pdf").read_bytes()
OPTIONAL = {"type": "object", "properties": {"file": {"type": "string", "format": "attachment"}}}


@pytest.fixture(autouse=True)
def _storage(settings: Any, tmp_path: Path) -> None:
    settings.MEDIA_ROOT = tmp_path


def attached(content: bytes, name: str) -> tuple[Client, str]:
    """Attach a file, and return the browser of the person and the address of the file."""
    interrupt, person = a_request(OPTIONAL), builders.a_reviewer()
    browser = Client()
    browser.force_login(person)
    file = attach(interrupt, person, content, name)
    return browser, f"/interrupts/{interrupt.public_id}/attachments/{file.digest}"


def test_a_page_of_a_pdf_is_shown_as_a_picture_in_which_nothing_runs():
    browser, address = attached(CERTIFICATE, "certificate.pdf")
    page = browser.get(f"{address}/preview")
    assert "Page 1 of 1" in page.content.decode()
    assert f'src="{address}/picture?page=1"' in page.content.decode()
    picture = browser.get(f"{address}/picture?page=1")
    assert picture["Content-Type"] == "image/png"
    assert picture.content.startswith(PNG[:8])
    assert picture["X-Content-Type-Options"] == "nosniff"
    assert "sandbox" in picture["Content-Security-Policy"]
    assert [browser.get(f"{address}/{kind}?page={page}").status_code for page in ("2", "0", "x", "²") for kind in
            ("preview", "picture")] == [404] * 8  # fmt: skip


def test_a_picture_is_shown_as_it_is():
    browser, address = attached(PNG, "photo.png")
    picture = browser.get(f"{address}/picture")
    assert (picture["Content-Type"], picture.content) == ("image/png", PNG)
    assert "sandbox" in picture["Content-Security-Policy"]


def test_a_pdf_that_cannot_be_rendered_is_explained():
    browser, address = attached(PDF, "damaged.pdf")
    assert "Download it to read it" in browser.get(f"{address}/preview").content.decode()
    assert browser.get(f"{address}/picture").status_code == 422


def test_the_page_of_a_preview_only_counts_the_pages(monkeypatch: pytest.MonkeyPatch):
    browser, address = attached(CERTIFICATE, "certificate.pdf")
    run, rendered = pdf_pictures._run, []
    monkeypatch.setattr(pdf_pictures, "_run", lambda content, page: rendered.append(run(content, page)) or rendered[-1])
    assert "Page 1 of 1" in browser.get(f"{address}/preview").content.decode()
    assert [done.stdout for done in rendered] == [b"1\n"]


def test_a_machine_without_room_for_a_process_is_busy(monkeypatch: pytest.MonkeyPatch):
    browser, address = attached(CERTIFICATE, "certificate.pdf")

    def fail(*_: Any, **__: Any) -> None:
        raise BlockingIOError("Resource temporarily unavailable")

    monkeypatch.setattr(pdf_pictures.subprocess, "run", fail)
    picture = browser.get(f"{address}/picture?page=1")
    assert (picture.status_code, picture["Retry-After"]) == (503, "2")
    assert browser.get(f"{address}/preview").status_code == 503


def test_only_who_can_download_a_file_sees_its_preview():
    _, address = attached(CERTIFICATE, "certificate.pdf")
    other = Client()
    other.force_login(builders.a_reviewer("ben@example.org"))  # of the same queue; no decision names the file yet
    assert [other.get(f"{address}/{kind}").status_code for kind in ("preview", "picture")] == [404, 404]


def scan_with(settings: Any, program: str) -> None:
    settings.ATTACHMENT_SCAN = f"{sys.executable} -c '{program}'"


def test_a_file_in_which_the_scan_finds_something_is_refused(settings: Any):
    interrupt, person = a_request(OPTIONAL), builders.a_reviewer()
    scan_with(settings, 'import sys; sys.exit(b"%PDF" in sys.stdin.buffer.read())')
    with pytest.raises(AttachmentRefused, match="found something harmful"):
        attach(interrupt, person, PDF)
    assert not Attachment.objects.exists()
    assert not Event.objects.filter(type="attachment.added").exists()
    assert attach(interrupt, person, PNG, "photo.png").media_type == "image/png"


@pytest.mark.parametrize("command", ["no-such-program", "'", f"{sys.executable} -c 'import sys; sys.exit(2)'"])
def test_without_a_result_of_the_scan_nothing_is_stored(settings: Any, command: str):
    settings.ATTACHMENT_SCAN = command
    with pytest.raises(Busy, match="could not be scanned"):
        attach(a_request(OPTIONAL), builders.a_reviewer())
    assert not Attachment.objects.exists()


def test_known_and_surplus_files_are_not_scanned(settings: Any, monkeypatch: pytest.MonkeyPatch):
    interrupt, person = a_request(OPTIONAL), builders.a_reviewer()
    first = attach(interrupt, person, PNG, "photo.png")
    settings.ATTACHMENT_SCAN = "no-such-program"
    assert attach(interrupt, person, PNG, "photo.png") == first
    monkeypatch.setattr(attach_file, "MAX_ATTACHMENTS", 1)
    with pytest.raises(AttachmentRefused, match="more are not stored"):
        attach(interrupt, person, PDF)


def test_a_scan_waits_for_a_place_and_then_is_busy(settings: Any, monkeypatch: pytest.MonkeyPatch):
    scan_with(settings, "")
    monkeypatch.setattr(attachment_scan, "SECONDS_TO_WAIT", 0)
    monkeypatch.setattr(attachment_scan, "_places", threading.BoundedSemaphore(1))
    interrupt, person = a_request(OPTIONAL), builders.a_reviewer()
    with attachment_scan._places, pytest.raises(Busy, match="Other files are being scanned"):
        attach(interrupt, person, PDF)
    attach(interrupt, person, PDF)
    attach(interrupt, person, PNG, "photo.png")


def test_the_scan_gets_no_secret(settings: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SECRET_KEY", "of the installation")
    monkeypatch.setenv("LANG", "C.UTF-8")
    scan_with(settings, 'import os, sys; sys.exit("SECRET_KEY" in os.environ or os.environ["LANG"] != "C.UTF-8")')
    attach(a_request(OPTIONAL), builders.a_reviewer())


@pytest.mark.parametrize(
    ("command", "fault"), [("scan '", "cannot be parsed"), ("no-such-program -", "not found: no-such-program")]
)
def test_the_doctor_reports_a_scan_that_cannot_run(settings: Any, command: str, fault: str):
    settings.ATTACHMENT_SCAN = command
    [message] = [it.message for it in configuration.unsafe_settings() if "ATTACHMENT_SCAN" in it.message]
    assert fault in message
    settings.ATTACHMENT_SCAN = f"{sys.executable} -c ''"
    assert not [it for it in configuration.unsafe_settings() if "ATTACHMENT_SCAN" in it.message]
