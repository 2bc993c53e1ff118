"""Files that reviewers attach: what is accepted, who can name and read them, and when they are erased."""

from __future__ import annotations

import io
import re
import zlib
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.files.storage import default_storage
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from ledger import clock
from reviewqueue import permissions
from reviewqueue.api.binary_bodies import content_digest_header
from reviewqueue.operations.doctor import records
from reviewqueue.pages.schema_forms import Field, build_form, parse_submission
from reviewqueue.pages.schema_forms.fields import LINE, all_nodes
from reviewqueue.queries import evidence_export
from runs import attachments
from runs.attachment_content import clean_name, recognize
from runs.errors import AlreadyDecided, AttachmentRefused, InputInvalid, InterruptCancelled
from runs.file_storage import spool_upload
from runs.models import Attachment, Decision, Event, Interrupt
from runs.states import DecisionStatus, FileStatus
from runs.use_cases import erase_snapshots
from runs.use_cases.attach_file import attach_file
from tests import builders
from tests.api.calls import Caller, a_reviewer_client, a_worker, the_approval, the_wait
from tests.pages import desk

pytestmark = pytest.mark.django_db

PDF = b"%PDF-1.7\n1 0 obj\n<< /Type /Catalog >>\nendobj\ntrailer << /Root 1 0 R >>\n%%EOF\n"
PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + b"\x00" * 17 + b"\x00\x00\x00\x00IEND\xae\x42\x60\x82"
SCAN = b"\xff\xda\x00\x08" + b"\x00" * 6 + b"\x12\xff\x00\x34"
JPEG = b"\xff\xd8\xff\xe0\x00\x10JFIF" + b"\x00" * 10 + SCAN + b"\xff\xd9"
ZIP = b"PK\x03\x04" + zlib.compress(b"\x00" * 10_000_000) + b"PK\x05\x06" + b"\x00" * 18
END_OF_ZIP = b"PK\x05\x06" + b"\x00" * 16
HTML, SVG = b"<html><script>alert(1)</script></html>", b'<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>'

SCHEMA = {
    "type": "object",
    "required": ["certificate"],
    "properties": {
        "certificate": {
            "title": "Certificate",
            "type": "string",
            "format": "attachment",
            "contentMediaType": "application/pdf",
            "maxBytes": 10_000,
        },
        "photos": {"type": "array", "maxItems": 2, "items": {"type": "string", "format": "attachment"}},
        "remark": {"type": "string"},
    },
}


@pytest.fixture(autouse=True)
def _storage(settings: Any, tmp_path: Path) -> None:
    settings.MEDIA_ROOT = tmp_path


def a_request(schema: Any = SCHEMA) -> Interrupt:
    started = builders.a_running_run(builders.an_agent())
    [interrupt] = builders.suspend_run(started, builders.an_input_wait(input_schema=schema)).interrupts
    return interrupt


def attach(interrupt: Interrupt, person: User, content: bytes = PDF, name: str = "LT-2026.pdf") -> Attachment:
    sent = spool_upload([content])
    with sent.file:
        return attach_file(interrupt, person, name=name, sent=sent, why_not=permissions.why_not_decide).attachment


def answer(interrupt: Interrupt, person: User, digest: str, **more: Any) -> Any:
    return builders.decide(interrupt, person, "answer", input={"certificate": digest, **more})


# --- what is accepted -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (HTML, "certificate.pdf"),
        (SVG, "certificate.pdf"),
        (SVG, "photo.png"),
        (b"", "empty.pdf"),
        (ZIP, "bomb.pdf"),
        (PDF + ZIP, "polyglot.pdf"),
        (PDF.rstrip() + b"\nPK\x05\x06" + b"\x00" * 18 + b"%%EOF", "archive-with-comment.pdf"),
        (PDF + HTML, "trailing.pdf"),
        (HTML + PDF, "leading.pdf"),
        (b"%PDF-1.7\n", "cut off.pdf"),
        (PNG + ZIP, "polyglot.png"),
        (PNG + HTML, "trailing.png"),
        (PNG[:-4], "cut off.png"),
        (JPEG + HTML, "trailing.jpg"),
        (PNG + END_OF_ZIP + b"\x0c\x00" + PNG[-12:], "archive-with-the-end-of-a-picture.png"),
        (JPEG + END_OF_ZIP + b"\x02\x00" + JPEG[-2:], "archive-with-the-end-of-a-picture.jpg"),
        (PNG[:-12] + b"\x00\x00\x00\x16zipZ" + END_OF_ZIP + b"\x10\x00" + PNG[-16:], "archive-in-a-chunk.png"),
        (PNG + PNG[-12:], "chunk-after-the-end.png"),
        (JPEG + b"\x00" * 9 + b"\xff\xd9", "trailing-zeros.jpg"),
        (JPEG[:4] + HTML + JPEG[-2:], "no-segments.jpg"),
        (JPEG[:20] + JPEG[-2:], "no-data.jpg"),
        (JPEG[:-2], "cut off.jpg"),
        (b"GIF89a" + b"\x00" * 20, "picture.png"),
        (b"MZ" + b"\x00" * 200, "setup.pdf"),
    ],
)
def test_a_file_that_is_not_only_of_an_allowed_type_is_refused_and_nothing_is_stored(content, name):
    interrupt, person = a_request(), builders.a_reviewer()
    with pytest.raises(AttachmentRefused):
        attach(interrupt, person, content, name)
    assert not Attachment.objects.exists()
    assert not default_storage.exists("attachments")


def test_pictures_of_many_parts_are_recognized():
    chunks = b"\x00\x00\x00\x05tEXthello\x00\x00\x00\x00" * 100
    long_scan = JPEG[:-2] + b"\x11" * 20_000 + b"\xff\xd0\x22\xff\xff\xd9"
    for content, media_type in (
        (PNG[:-12] + chunks + PNG[-12:], "image/png"),
        (JPEG + JPEG, "image/jpeg"),  # as phones store a photo with its depth
        (JPEG[:-2] + b"\xff\xc4\x00\x04\x00\x00" + SCAN + JPEG[-2:], "image/jpeg"),  # progressive
        (long_scan, "image/jpeg"),
    ):
        assert recognize(io.BytesIO(content), len(content)) == media_type


def test_types_sizes_and_counts_are_those_of_the_schema():
    interrupt, person = a_request(), builders.a_reviewer()
    assert {attach(interrupt, person, one).media_type for one in (PDF, PNG, JPEG)} == set(attachments_types())
    large = PDF.replace(b"%%EOF", b" " * 20_000 + b"%%EOF")  # for a photo of any type, but not for the certificate
    attached = attach(interrupt, person, large)
    with pytest.raises(InputInvalid) as refused:
        answer(interrupt, person, attached.digest)
    assert [(it.pointer, it.message) for it in refused.value.errors] == [
        ("/input/certificate", f"must have at most 10000 bytes, not {len(large)}")
    ]
    picture = Attachment.objects.get(media_type="image/png")
    with pytest.raises(InputInvalid):
        answer(interrupt, person, picture.digest)
    only_small = a_request({"type": "string", "format": "attachment", "maxBytes": 10})
    with pytest.raises(AttachmentRefused, match="at most 10 bytes"):
        attach(only_small, person)
    with pytest.raises(AttachmentRefused, match="asks for no file"):
        attach(a_request({"type": "string"}), person)


def attachments_types() -> list[str]:
    return ["application/pdf", "image/jpeg", "image/png"]


def test_a_person_can_attach_a_bounded_number_of_files(monkeypatch):
    monkeypatch.setattr("runs.use_cases.attach_file.MAX_ATTACHMENTS", 2)
    interrupt, person = a_request(), builders.a_reviewer()
    for number in range(2):
        attach(interrupt, person, PDF.replace(b"Catalog", b"Catalo%d" % number))
    with pytest.raises(AttachmentRefused, match="more are not stored"):
        attach(interrupt, person)
    assert attach(interrupt, person, PDF.replace(b"Catalog", b"Catalo0")).pk == Attachment.objects.earliest("pk").pk


@pytest.mark.parametrize(
    ("name", "media_type", "shown"),
    [
        ("../../etc/passwd", "application/pdf", "passwd.pdf"),
        ("C:\\temp\\LT 1.PDF", "application/pdf", "LT 1.PDF"),
        ("invoice\u202efdp.exe", "application/pdf", "invoicefdp.exe.pdf"),
        ("a\x00b\r\nSet-Cookie: x\u2028.png", "image/png", "abSet-Cookie x.png"),
        ("photo.jpeg", "image/jpeg", "photo.jpeg"),
        ("photo.svg", "image/png", "photo.svg.png"),
        ("...", "application/pdf", "file.pdf"),
        ("", "application/pdf", "file.pdf"),
        ("x" * 500, "application/pdf", "x" * 120 + ".pdf"),
        ("Prüfung 起重机.pdf", "application/pdf", "Prüfung 起重机.pdf"),
        ('"><img src=x>.pdf', "application/pdf", "img src=x.pdf"),
    ],
)
def test_a_name_has_no_path_no_hidden_characters_and_ends_as_its_type(name, media_type, shown):
    assert clean_name(name, media_type) == shown


# --- who can name a file ----------------------------------------------------------------------------------------------


def test_the_decision_binds_the_digest_and_the_chain_the_file():
    interrupt, person = a_request(), builders.a_reviewer()
    attached = attach(interrupt, person)
    event = Event.objects.get(type="attachment.added")
    assert event.refs["digest"] == attached.digest
    assert f"attachment:{attached.public_id}" in event.row_digests
    receipt = answer(interrupt, person, attached.digest)
    assert receipt.decision.input == {"certificate": attached.digest}
    attached.refresh_from_db()
    assert attached.status == FileStatus.KEPT
    assert records.find_changed_records(interrupt.run) == ""
    lines = b"".join(evidence_export.evidence_of_decision(None, receipt.decision).pieces())
    assert b'"name":"attachment:' in lines
    assert attached.digest.encode() in lines


def test_a_file_of_another_person_or_of_another_request_cannot_be_named():
    interrupt, other = a_request(), a_request()
    ana, ben = builders.a_reviewer(), builders.a_reviewer("ben@example.org")
    attached = attach(interrupt, ana)
    for request, person in ((interrupt, ben), (other, ana)):
        with pytest.raises(InputInvalid) as refused:
            answer(request, person, attached.digest)
        assert refused.value.errors[0].message == "must be the digest of a file that you attached here"
    with pytest.raises(InputInvalid):
        answer(interrupt, ana, attached.digest, photos=[f"sha256:{'0' * 64}"])
    assert Attachment.objects.get().status == FileStatus.OFFERED


@pytest.mark.parametrize("other", [{"const": "none"}, {"type": "null"}, {"type": "string", "maxLength": 20}])
def test_an_answer_that_names_no_file_is_valid_where_the_schema_allows_another_value(other):
    schema = {"anyOf": [{"type": "string", "format": "attachment"}, other]}
    value = None if other == {"type": "null"} else "none"
    interrupt = a_request({"type": "object", "properties": {"certificate": schema}})
    assert builders.decide(interrupt, builders.a_reviewer(), "answer", input={"certificate": value}).decision
    left_out = a_request({"type": "object", "properties": {"certificate": schema}})
    assert builders.decide(left_out, builders.a_reviewer(), "answer", input={}).decision


def test_a_file_that_no_decision_names_is_only_for_the_person_who_attached_it():
    interrupt, ana, ben = a_request(), builders.a_reviewer(), builders.a_reviewer("ben@example.org")
    unsent = attach(interrupt, ana)
    page, api = (
        f"{at}/attachments/{unsent.digest}"
        for at in (f"/interrupts/{interrupt.public_id}", f"interrupts/{interrupt.public_id}")
    )
    for person, status in ((ana, 200), (ben, 404)):
        browser = Client()
        browser.force_login(person)
        read = browser.get(page)
        assert (read.status_code, b"".join(read) == PDF) == (status, status == 200)
        assert a_reviewer_client(person).get(api).status == status
    Path(default_storage.path(unsent.stored_as)).write_bytes(b"damaged")
    answer(interrupt, ben, attach(interrupt, ben).digest)
    for person in (ana, ben):
        assert a_reviewer_client(person).get(api).body == PDF  # the copy that the decision names


def test_only_who_can_decide_an_open_request_attaches_a_file():
    interrupt = a_request()
    with pytest.raises(Exception, match="not a reviewer"):
        attach(interrupt, builders.a_person("aud@example.org", "engineering-auditors"))
    person = builders.a_reviewer()
    attached = attach(interrupt, person)
    Interrupt.objects.filter(pk=interrupt.pk).update(status="cancelled", closed_at=clock.now())
    with pytest.raises(InterruptCancelled):
        attach(interrupt, person, PNG)
    assert attachments.delete_unwanted_attachments(limit=9) == 0  # an undone decision can still open it again
    Interrupt.objects.filter(pk=interrupt.pk).update(closed_at=clock.now() - timedelta(hours=2))
    assert attachments.delete_unwanted_attachments(limit=9) == 1
    attached.refresh_from_db()
    assert (attached.status, default_storage.exists(attached.stored_as)) == (FileStatus.ERASED, False)


def test_an_answer_with_an_erased_file_to_a_closed_request_is_a_duplicate():
    interrupt, ana, ben = a_request(), builders.a_reviewer(), builders.a_reviewer("ben@example.org")
    of_ana, of_ben = attach(interrupt, ana), attach(interrupt, ben, PDF.replace(b"1.7", b"1.6"))
    answer(interrupt, ana, of_ana.digest)
    Interrupt.objects.filter(pk=interrupt.pk).update(closed_at=clock.now() - timedelta(hours=2))
    assert attachments.delete_unwanted_attachments(limit=9) == 1
    with pytest.raises(AlreadyDecided):
        answer(interrupt, ben, of_ben.digest)
    assert Decision.objects.get(by=ben).status == DecisionStatus.DUPLICATE


@pytest.mark.parametrize("key", ["k", ""])
def test_a_repeated_decision_returns_its_receipt_after_its_file_was_erased(key: str):
    interrupt, person = a_request(), builders.a_reviewer()
    given = {"input": {"certificate": attach(interrupt, person).digest}, "request_key": key}
    first = builders.decide(interrupt, person, "answer", **given)
    attachments.mark_attachments_for_deletion(interrupt.run)
    assert attachments.delete_unwanted_attachments(limit=9) == 1
    repeated = builders.decide(interrupt, person, "answer", **given)
    assert (repeated.replayed, repeated.decision.pk) == (True, first.decision.pk)


def test_an_answer_with_an_erased_file_to_an_open_request_is_invalid_and_keeps_no_other_file():
    interrupt, person = a_request(), builders.a_reviewer()
    erased, other = attach(interrupt, person), attach(interrupt, person, PNG)
    Attachment.objects.filter(pk=erased.pk).update(status=FileStatus.ERASED)
    with pytest.raises(InputInvalid, match="Attach it again"):
        answer(interrupt, person, erased.digest, photos=[other.digest])
    assert Decision.objects.get().status == DecisionStatus.INVALID
    other.refresh_from_db()
    assert other.status == FileStatus.OFFERED
    answer(interrupt, person, attach(interrupt, person).digest)  # the same bytes again


# --- pages ------------------------------------------------------------------------------------------------------------


def fields_of(browser: Client, interrupt: Interrupt) -> tuple[str, str]:
    page = browser.get(f"/interrupts/{interrupt.public_id}").content.decode()
    found = re.search(r'name="(input[^"]*certificate)"', page), re.search(r'name="(input[^"]*remark)"', page)
    assert all(found), page
    return found[0][1], found[1][1]


def test_a_file_is_attached_and_the_answer_sent_without_a_script():
    interrupt, person = a_request(), builders.a_reviewer()
    browser = Client()
    browser.force_login(person)
    form = desk.form_of(browser, interrupt)
    field, remark = fields_of(browser, interrupt)
    file = SimpleUploadedFile("../LT\u202e.pdf", PDF, content_type="text/html")
    address = f"/interrupts/{interrupt.public_id}"
    attached = browser.post(f"{address}/attachments?field={field}", form | {remark: "Seen.", f"file:{field}": file})
    assert attached.status_code == 200
    stored = Attachment.objects.get()
    for page in (attached.content.decode(), browser.get(address).content.decode()):
        assert f'value="{stored.digest}" selected' in page
        assert "Seen." in page  # what was entered is a draft
    assert stored.name == "LT.pdf"
    entered = {field: stored.digest, remark: "Seen.", rows_of(field): ""}
    form = desk.form_of(browser, interrupt)
    decided = browser.post(address, form | entered | {"verdict": "answer", "act": "answer"})
    assert decided.status_code == 302, decided.content.decode()[:2000]
    decision = Decision.objects.get()
    assert decision.input == {"certificate": stored.digest, "remark": "Seen."}
    assert stored.name in browser.get(f"/decisions/{decision.public_id}").content.decode()


def test_attaching_a_file_loses_no_input_and_keeps_the_list():
    """A field named like a secret and a long form are in no draft; the form itself still has them."""
    schema = {**SCHEMA, "properties": {**SCHEMA["properties"], "pin": {"type": "string"}}}
    interrupt, person = a_request(schema), builders.a_reviewer()
    browser = Client()
    browser.force_login(person)
    form = desk.form_of(browser, interrupt) | {"list": "view=open&q=crane"}
    field, remark = fields_of(browser, interrupt)
    entered = {"input.pin": "secret-4711", remark: "x" * 250_000, f"file:{field}": SimpleUploadedFile("LT.pdf", PDF)}
    page = browser.post(f"/interrupts/{interrupt.public_id}/attachments?field={field}", form | entered).content.decode()
    assert "secret-4711" in page
    assert "x" * 250_000 in page
    assert 'name="list" value="view=open&amp;q=crane"' in page
    assert re.search(f'name="{re.escape(field)}"[^>]*autofocus', page), "the field takes the focus"
    assert 'data-attached="LT.pdf"' in page


def test_attaching_a_file_does_not_replace_the_newer_draft_of_another_tab():
    interrupt, person = a_request(), builders.a_reviewer()
    browser = Client()
    browser.force_login(person)
    field, remark = fields_of(browser, interrupt)
    address = f"/interrupts/{interrupt.public_id}"
    old, new = desk.form_of(browser, interrupt), desk.form_of(browser, interrupt)
    browser.post(f"{address}/typed", new | {remark: "Newer."}, headers={"HX-Request": "true"})
    file = {f"file:{field}": SimpleUploadedFile("LT.pdf", PDF)}
    page = browser.post(f"{address}/attachments?field={field}", old | {remark: "Older."} | file).content.decode()
    assert "Older." in page
    assert "Newer." in browser.get(address).content.decode()


def test_a_file_sent_after_the_session_expired_leads_back_to_the_request_with_the_input():
    interrupt, person = a_request(), builders.a_reviewer()
    browser = Client()
    browser.force_login(person)
    form = desk.form_of(browser, interrupt)
    field, remark = fields_of(browser, interrupt)
    address = f"/interrupts/{interrupt.public_id}"
    browser.session.flush()
    file = {f"file:{field}": SimpleUploadedFile("LT.pdf", PDF)}
    refused = browser.post(f"{address}/attachments?field={field}", form | {remark: "Seen."} | file)
    assert refused["Location"] == f"/account/login/?next={address}"
    browser.force_login(person)
    assert "Seen." in browser.get(address).content.decode()
    assert not Attachment.objects.exists()


def test_a_file_for_a_request_that_closed_meanwhile_is_refused_and_the_input_shown_to_copy():
    interrupt, person = a_request(), builders.a_reviewer()
    browser = Client()
    browser.force_login(person)
    form = desk.form_of(browser, interrupt)
    field, remark = fields_of(browser, interrupt)
    Interrupt.objects.filter(pk=interrupt.pk).update(status="cancelled", closed_at=clock.now())
    entered = {"verdict": "answer", remark: "Seen.", f"file:{field}": SimpleUploadedFile("LT.pdf", PDF)}
    shown = browser.post(f"/interrupts/{interrupt.public_id}/attachments?field={field}", form | entered)
    assert shown.status_code == 410 or shown.status_code == 409
    assert "Seen." in shown.content.decode()
    assert not Attachment.objects.exists()


def test_a_chosen_file_that_was_not_attached_is_a_problem_at_its_field():
    interrupt, person = a_request(), builders.a_reviewer()
    browser = Client()
    browser.force_login(person)
    field, _ = fields_of(browser, interrupt)
    form = desk.form_of(browser, interrupt) | {"verdict": "answer", "act": "answer", rows_of(field): ""}
    attached = attach(interrupt, person).digest
    for chosen in ({f"file:{field}": "LT.pdf", field: ""}, {f"file:{field}": "other.pdf", field: attached}):
        shown = browser.post(f"/interrupts/{interrupt.public_id}", form | chosen)
        assert shown.status_code == 422
        page = shown.content.decode()
        assert "the chosen file is not attached; press “Attach” first" in page
        assert "1 answer must be corrected" in page
        [control] = re.findall(f'id="([^"]+)"\\s+name="{re.escape(field)}"', page)
        assert f'href="#{control}"' in page
    assert not Decision.objects.exists()
    sent = browser.post(f"/interrupts/{interrupt.public_id}", form | {f"file:{field}": "", field: attached})
    assert sent.status_code == 302
    assert Decision.objects.count() == 1


def rows_of(field: str) -> str:
    return f"{field.replace('certificate', 'photos')}.-rows"


def test_a_digest_in_a_call_is_edited_as_a_text():
    """No file belongs to a call. The digest is shown, an unchanged one is kept, and the page needs no attached file."""
    schema = {"type": "object", "properties": {"f": {"type": "string", "format": "attachment"}}}
    digests = [f"sha256:{letter * 64}" for letter in "ab"]
    form = build_form(schema, proposed={"f": digests[0]}, prefix="arguments")
    assert {node.widget for node in all_nodes(form.root) if isinstance(node, Field)} >= {LINE}
    for digest in digests:
        assert parse_submission(form, {"arguments.f": digest}).value == {"f": digest}
    proposal = {"name": "file_it", "arguments": {"f": digests[0]}}
    interrupt = builders.a_waiting_interrupt(builders.a_wait(proposal=proposal))
    Interrupt.objects.filter(pk=interrupt.pk).update(proposal=proposal | {"schema": schema})
    browser = Client()
    browser.force_login(builders.a_reviewer())
    page = browser.get(f"/interrupts/{interrupt.public_id}")
    assert page.status_code == 200
    assert f'value="{digests[0]}"' in page.content.decode()


def test_a_refused_file_is_explained_and_nothing_entered_is_lost():
    interrupt, person = a_request(), builders.a_reviewer()
    browser = Client()
    browser.force_login(person)
    form = desk.form_of(browser, interrupt)
    field, remark = fields_of(browser, interrupt)
    address = f"/interrupts/{interrupt.public_id}/attachments?field={field}"
    for file in ({f"file:{field}": SimpleUploadedFile("x.pdf", HTML)}, {}):
        shown = browser.post(address, form | {remark: "Seen."} | file)
        assert shown.status_code == 422
        assert "Seen." in shown.content.decode()
    assert not Attachment.objects.exists()


def test_a_file_is_a_download_in_which_nothing_runs_and_its_bytes_are_verified():
    interrupt, person = a_request(), builders.a_reviewer()
    attached = attach(interrupt, person)
    browser = Client()
    browser.force_login(person)
    address = f"/interrupts/{interrupt.public_id}/attachments/{attached.digest}"
    read = browser.get(address)
    assert b"".join(read.streaming_content) == PDF
    assert read["Content-Disposition"] == 'attachment; filename="LT-2026.pdf"'
    assert read["Content-Type"] == "application/octet-stream"
    assert read["X-Content-Type-Options"] == "nosniff"
    assert "sandbox" in read["Content-Security-Policy"]
    stranger = Client()
    stranger.force_login(builders.a_person("zoe@example.org"))
    assert stranger.get(address).status_code == 404
    assert browser.get(f"{address[:-1]}x").status_code == 404
    Path(default_storage.path(attached.stored_as)).write_bytes(PDF.replace(b"1.7", b"1.4"))
    swapped = browser.get(address)
    assert swapped.status_code == 500 or b"does not match its digest" in swapped.content
    assert PDF[:8] not in swapped.content
    default_storage.delete(attached.stored_as)
    assert b"not in the storage" in browser.get(address).content


# --- the worker -------------------------------------------------------------------------------------------------------


def test_the_worker_gets_the_files_of_the_answer_by_url_and_digest_and_retention_erases_them():
    builders.a_queue()
    worker, reviewer = a_worker(), a_reviewer_client()
    interrupt, run = asked(worker)
    kind = {"Content_Type": "application/octet-stream"}
    attached = reviewer.call("POST", f"interrupts/{interrupt}/attachments?name=LT.pdf", raw=PDF, **kind)
    assert attached.status == 201
    address = attached["url"].removeprefix("/api/v1/")
    assert worker.get(address).status == 404  # no answer names it yet
    body = {"state_version": 1, "verdict": "answer", "input": {"certificate": attached["digest"]}}
    assert reviewer.post(f"interrupts/{interrupt}/decisions", body).status in {200, 201}
    [claimed] = worker.post("continuations/claim").body
    [file] = claimed["answers"]["certificate"]["attachments"]
    assert file == {
        "digest": attached["digest"],
        "name": "LT.pdf",
        "media_type": "application/pdf",
        "size": len(PDF),
        "url": attached["url"],
    }
    assert worker.get(address).body == PDF
    assert reviewer.get(address).body == PDF
    assert a_worker(builders.an_agent("other")).get(address).status == 404
    assert b"sha256:" not in str(worker.get(f"runs/{run}/timeline").body).encode()
    lease = {"Run_Lease": claimed["lease"]["token"]}
    worker.post(f"runs/{run}/complete", {}, **lease)
    erase_snapshots.erase_old_snapshots(ended_before=clock.now() + timedelta(hours=1), limit=5)
    assert attachments.delete_unwanted_attachments(limit=9) == 1
    assert worker.get(address)["code"] == "snapshot_erased"
    stored = Attachment.objects.get()
    assert not default_storage.exists(stored.stored_as)
    assert records.find_changed_records(stored.run) == ""


def test_the_worker_gets_the_named_file_although_another_reviewer_attached_the_same_bytes_first():
    builders.a_queue()
    worker = a_worker()
    public_id, _ = asked(worker)
    interrupt = Interrupt.objects.get(public_id=public_id)
    ana, ben = builders.a_reviewer(), builders.a_reviewer("ben@example.org")
    first, second = attach(interrupt, ana), attach(interrupt, ben)
    assert first.pk < second.pk
    answer(interrupt, ben, second.digest)
    Path(default_storage.path(first.stored_as)).write_bytes(b"damaged")
    read = worker.get(f"interrupts/{public_id}/attachments/{first.digest}")
    assert (read.status, read.body) == (200, PDF)


def test_repeated_bytes_are_no_new_file_and_are_compared_with_their_digest():
    interrupt, reviewer = a_request(), a_reviewer_client()
    address = f"interrupts/{interrupt.public_id}/attachments"
    digest = f"sha256:{sha256(PDF).hexdigest()}"
    kind = {"Content_Type": "application/octet-stream", "Content_Digest": content_digest_header(digest)}
    cut = reviewer.call("POST", address, raw=PDF[:-1], **kind)
    assert (cut.status, cut["code"]) == (422, "digest_mismatch")
    assert not Attachment.objects.exists()
    first, again = (reviewer.call("POST", address, raw=PDF, **kind) for _ in range(2))
    assert (first.status, again.status) == (201, 200)
    assert first.body == again.body
    assert first["digest"] == digest


def test_a_file_that_cannot_be_attached_is_refused_before_its_bytes_are_stored(monkeypatch):
    interrupt, drained = a_request(), []

    def unexpected(*_: Any, **__: Any) -> None:
        raise AssertionError("the bytes were read")

    for view in ("reviewqueue.api.views.attachments", "reviewqueue.pages.interrupt.decision_views"):
        monkeypatch.setattr(f"{view}.spool_upload", unexpected)
    monkeypatch.setattr("reviewqueue.api.views.attachments.drain_rest", drained.append)
    auditor = a_reviewer_client(builders.a_person("aud@example.org", "engineering-auditors"))
    reviewer, kind = a_reviewer_client(), {"Content_Type": "application/octet-stream"}
    asks_for_none = a_request({"type": "string"})
    for caller, of, code in (
        (auditor, interrupt, "not_permitted"),
        (reviewer, asks_for_none, "attachment_refused"),
    ):
        refused = caller.call("POST", f"interrupts/{of.public_id}/attachments", raw=PDF, **kind)
        assert refused["code"] == code
    assert len(drained) == 2
    browser = Client()
    browser.force_login(builders.a_reviewer())
    form = desk.form_of(browser, interrupt)
    field, _ = fields_of(browser, interrupt)
    monkeypatch.setattr("runs.use_cases.attach_file.MAX_BYTES", 10)
    file = {"verdict": "answer", f"file:{field}": SimpleUploadedFile("LT.pdf", PDF)}
    page = browser.post(f"/interrupts/{interrupt.public_id}/attachments?field={field}", form | file)
    assert page.status_code == 422
    assert "must have at most 10 bytes" in page.content.decode()


def asked(worker: Caller) -> tuple[str, str]:
    wait = {"key": "certificate", "kind": "input", "reason": "evidence.missing", "queue": "engineering"}
    body = wait | {"title": "Certificate of crane 14", "input_schema": SCHEMA, "deadline_in": "P2D"}
    made = worker.post("asks", body)
    assert made.status == 201, made.body
    return made["interrupt"]["id"], made["run"]["id"]


def test_a_failed_or_interrupted_upload_leaves_nothing(monkeypatch):
    interrupt, person = a_request(), builders.a_reviewer()

    def full(*_: Any) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr("runs.use_cases.attach_file.store_file", full)
    with pytest.raises(Exception, match="storage is not available"):
        attach(interrupt, person)
    assert Attachment.objects.get().status == FileStatus.UNWANTED
    assert attachments.delete_unwanted_attachments(limit=9) == 1
    assert not Attachment.objects.exists()
    assert records.find_changed_records(interrupt.run) == ""


def test_a_schema_can_limit_only_attachments():
    agent = a_worker()
    builders.a_queue()
    for wrong in (
        {"type": "string", "contentMediaType": "application/pdf"},
        {"type": "string", "format": "attachment", "contentMediaType": "text/html"},
        {"type": "string", "format": "attachment", "maxBytes": 10**9},
        {"type": "string", "format": "attachment", "maxBytes": True},
    ):
        wait = {"key": "c", "kind": "input", "reason": "evidence.missing", "queue": "engineering", "title": "C"}
        assert agent.post("asks", wait | {"input_schema": wrong, "deadline_in": "P2D"})["code"] == "schema_unsupported"


def test_no_file_is_asked_for_where_no_reviewer_can_attach_one():
    """In a call, in a signal, and in an answer that the server gives at the deadline."""
    agent, file = a_worker(), {"type": "string", "format": "attachment"}
    of_file = {"type": "object", "properties": {"f": {"$ref": "#/definitions/f"}}, "definitions": {"f": file}}
    digest = f"sha256:{'0' * 64}"
    call = {"name": "file_it", "arguments": {"f": digest}, "schema": of_file}
    refused = agent.post("asks", the_approval(proposal=call, deadline_in="P2D"))
    assert (refused.status, refused["code"]) == (422, "schema_unsupported")
    assert [error["pointer"] for error in refused["errors"]] == ["/proposal/schema/definitions/f/format"]
    event = the_wait(kind="event", correlation="order-1", input_schema=of_file, deadline_in="P2D")
    refused = agent.post("asks", event)
    assert [error["pointer"] for error in refused["errors"]] == ["/input_schema/definitions/f/format"]
    builders.a_policy("evidence.missing", on_expiry_allowed=["cancel", "default"])
    default = {"do": "default", "verdict": "answer", "input": {"f": digest}}
    refused = agent.post("asks", the_wait(input_schema=of_file, on_expiry=default, deadline_in="P2D"))
    assert [error["pointer"] for error in refused["errors"]] == ["/on_expiry/input/f"]
    allowed = agent.post("asks", the_wait(input_schema=of_file, on_expiry={**default, "input": {}}, deadline_in="P2D"))
    assert allowed.status == 201, allowed.body
