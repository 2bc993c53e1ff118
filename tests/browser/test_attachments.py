"""Files that a reviewer attaches in a browser: chosen, dropped, pasted, and without JavaScript."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from runs.models import Attachment, Decision
from tests import builders
from tests.browser.test_reviewing import lenas, without_script  # noqa: F401  fixtures
from tests.pages.test_attachments import PDF, SCHEMA

CARRY = """([kind, name, content, ...others]) => {
  const files = new DataTransfer();
  for (const each of [name, ...others]) files.items.add(new File([content], each));
  const field = document.querySelector(".dnd");
  const event = kind === "paste"
    ? new ClipboardEvent("paste", {clipboardData: files, bubbles: true, cancelable: true})
    : new DragEvent("drop", {dataTransfer: files, bubbles: true, cancelable: true});
  field.dispatchEvent(event);
}"""


PASTE_A_TABLE = """(selector) => {
  const clipboard = new DataTransfer();
  clipboard.setData("text/plain", "S-17\\t184000.00");
  clipboard.items.add(new File(["picture of the cells"], "image.png", {type: "image/png"}));
  const event = new ClipboardEvent("paste", {clipboardData: clipboard, bubbles: true, cancelable: true});
  return document.querySelector(selector).dispatchEvent(event);
}"""


@pytest.fixture(autouse=True)
def _storage(settings: Any, tmp_path: Path) -> None:
    settings.MEDIA_ROOT = tmp_path


def open_request(page: Page) -> None:
    started = builders.a_running_run()
    wait = builders.an_input_wait(title="Certificate for crane 14", input_schema=SCHEMA)
    [interrupt] = builders.suspend_run(started, wait).interrupts
    page.goto(f"/interrupts/{interrupt.public_id}")


def shown_digest(page: Page) -> None:
    expect(page.locator("#main").get_by_text("sha256:")).to_be_visible()
    stored = Attachment.objects.latest("pk")
    expect(page.get_by_label("Certificate", exact=True).first).to_have_value(stored.digest)
    expect(page.locator("#main").get_by_text(stored.digest)).to_be_visible()


@pytest.mark.parametrize("kind", ["choose", "drop", "paste"])
def test_row_15_a_file_is_attached_and_its_digest_answered(lenas: Page, kind: str):  # noqa: F811
    open_request(lenas)
    lenas.get_by_label("remark").fill("Seen by me.")
    file = {"name": "LT-2026.pdf", "mimeType": "application/pdf", "buffer": PDF}
    if kind == "choose":
        lenas.locator(".dnd input[type=file]").first.set_input_files(file)
    else:
        lenas.evaluate(CARRY, [kind, "LT-2026.pdf", PDF.decode()])
    shown_digest(lenas)
    expect(lenas.get_by_label("remark")).to_have_value("Seen by me.")
    lenas.get_by_role("button", name="Send this answer").click()
    expect(lenas.get_by_role("button", name="Send this answer")).to_have_count(0)
    assert Decision.objects.get().input == {"certificate": Attachment.objects.get().digest, "remark": "Seen by me."}


@pytest.mark.parametrize("place", ["textarea", "body"])
def test_row_15_a_table_is_pasted_as_text_although_the_clipboard_has_a_picture_of_it(lenas: Page, place: str):  # noqa: F811
    open_request(lenas)
    assert lenas.evaluate(PASTE_A_TABLE, place), "the browser pastes the text"
    assert lenas.locator(".dnd input[type=file]").first.evaluate("it => it.files.length") == 0


def test_row_15_one_of_several_dropped_files_is_attached_and_the_page_says_so(lenas: Page):  # noqa: F811
    open_request(lenas)
    lenas.evaluate(CARRY, ["drop", "LT-2026.pdf", PDF.decode(), "second.pdf"])
    shown_digest(lenas)
    expect(lenas.get_by_text("only LT-2026.pdf was taken")).to_be_visible()
    expect(lenas.locator("#says")).to_have_text("Attached LT-2026.pdf")


def test_row_15_a_refused_file_is_explained_at_once(lenas: Page):  # noqa: F811
    open_request(lenas)
    file = {"name": "LT-2026.pdf", "mimeType": "application/pdf", "buffer": b"<html><script>alert(1)</script>"}
    lenas.locator(".dnd input[type=file]").first.set_input_files(file)
    expect(lenas.get_by_text("The content of the file is not, or not only, of the type").first).to_be_visible()
    assert not Attachment.objects.exists()


def test_row_15_and_25_a_file_is_attached_without_javascript(without_script: Page):  # noqa: F811
    open_request(without_script)
    file = {"name": "LT-2026.pdf", "mimeType": "application/pdf", "buffer": PDF}
    without_script.locator(".dnd input[type=file]").first.set_input_files(file)
    without_script.get_by_role("button", name="Attach").first.press("Enter")
    shown_digest(without_script)
    expect(without_script.get_by_label("Certificate", exact=True).first).to_be_focused()
    without_script.get_by_role("button", name="Send this answer").click()
    expect(without_script.get_by_role("button", name="Send this answer")).to_have_count(0)
    assert Decision.objects.count() == 1
