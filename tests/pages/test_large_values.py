"""What one page may cost: however large the stored value, a page draws a bounded number of members and bytes."""

from __future__ import annotations

import gzip
import json
import re
from typing import Any

import pytest
from django.http import HttpResponse, StreamingHttpResponse
from django.test import Client, RequestFactory

from ledger import exact_json
from reviewqueue.middleware import CompressionMiddleware
from reviewqueue.pages.schema_forms import build_edit_form, build_form
from reviewqueue.text import json_values
from runs.facts import RequestedFact
from runs.models import Decision
from tests import builders
from tests.pages import desk

pytestmark = pytest.mark.django_db

PAGE_BYTES = 1024 * 1024
PAGE_NODES = 12_000
TICK = "seen-rest-approve"

LARGEST: dict[str, Any] = {
    "members": {f"{number:05d}": 1 for number in range(90_000)},
    "objects": {"lines": [{"article": number, "note": "x", "amount": "2.00"} for number in range(20_000)]},
    "lists": {f"l{number}": [1] * 20 for number in range(15_000)},
    "depth": {f"d{number}": json.loads("[" * 50 + "]" * 50) for number in range(8_000)},
    "long text": {"text": "x" * 900_000},
    "quotation marks": {"text": '"' * 450_000},
    "hidden characters": {"text": "a\u202e" * 200_000},
    "hidden names": {"\u202e" * 3 + str(number): "\u202e" for number in range(30_000)},
    "look-alike letters": {"text": "h\u043eists " * 100_000},
}


def nodes(html: bytes) -> int:
    return len(re.findall(rb"<[a-z]", html))


@pytest.mark.slow
@pytest.mark.parametrize("kind", LARGEST)
def test_no_page_of_a_request_grows_with_its_call(kind: str):
    call = {"name": "order", "arguments": LARGEST[kind]}
    interrupt = desk.an_order(proposal=call)
    client = desk.signed_in(desk.lena())
    whole = f"/interrupts/{interrupt.public_id}"
    pages = {path: client.get(path).content for path in (whole, f"{whole}/call", "/")}
    for path, html in pages.items():
        assert len(html) <= PAGE_BYTES, path
        assert nodes(html) <= PAGE_NODES, path
    page = pages[whole].decode()
    assert "This call is longer than this page shows:" in page
    assert f'name="{TICK}"' in page


def test_a_call_that_is_not_shown_whole_is_approved_only_with_a_confirmation():
    call = {"name": "order", "arguments": {"lines": ["x"] * 3_000, "amount": "5.00"}}
    interrupt = desk.an_order(proposal=call)
    client = desk.signed_in(desk.lena())
    form = desk.form_of(client, interrupt, verdict="approve", act="approve")
    refused = desk.post(client, interrupt, form)
    assert refused.status_code == 422
    assert "Confirm that you have read the part of the call that this page does not show." in refused.content.decode()
    assert not Decision.objects.exists()
    older = desk.post(client, interrupt, form | {TICK: "rq1:of-an-older-call"})
    assert older.status_code == 422
    accepted = desk.post(client, interrupt, form | {TICK: interrupt.content_digest})
    assert accepted.status_code == 302
    assert Decision.objects.get().status == "accepted"


@pytest.mark.parametrize("part", ["message", "facts", "evidence"])
def test_what_an_approval_rests_on_is_confirmed_where_it_is_not_shown_whole(part: str):
    asked = {
        "message": {"message": "word " * 40_000},
        "facts": {"facts": [RequestedFact(name="stock", value=list(range(900)), on_change="note")]},
        "evidence": {"evidence": [{"label": f"Rows {n}", "value": list(range(200)), "source": ""} for n in range(5)]},
    }
    interrupt = desk.an_order(**asked[part])
    client = desk.signed_in(desk.lena())
    html = client.get(f"/interrupts/{interrupt.public_id}").content.decode()
    assert f'<a href="/interrupts/{interrupt.public_id}/values/{part}">the {part}</a>' in html
    form = desk.form_of(client, interrupt, verdict="approve", act="approve")
    refused = desk.post(client, interrupt, form)
    assert refused.status_code == 422
    said = f"Confirm that you have read the part of the {part} that this page does not show."
    assert said in refused.content.decode()
    assert not Decision.objects.exists()
    assert desk.post(client, interrupt, form | {TICK: interrupt.content_digest}).status_code == 302


def test_a_rejection_needs_no_confirmation_of_what_is_not_shown():
    interrupt = desk.an_order(message="word " * 40_000)
    client = desk.signed_in(desk.lena())
    form = desk.form_of(client, interrupt, verdict="reject", act="reject", **{"message-reject": "Too dear."})
    assert desk.post(client, interrupt, form).status_code == 302


def test_what_a_page_draws_of_facts_and_evidence_is_what_its_confirmation_is_judged_by():
    evidence = [{"label": f"Rows {n}", "value": list(range(187)), "source": ""} for n in range(4)]
    for facts, is_whole in (([], True), ([RequestedFact(name="stock", value=[1, 2, 3], on_change="note")], False)):
        interrupt = desk.an_order(evidence=evidence, facts=facts)
        html = desk.signed_in(desk.lena()).get(f"/interrupts/{interrupt.public_id}").content.decode()
        assert ("not shown here" not in html and "Showing 1 to" not in html) is is_whole
        assert (TICK not in html) is is_whole


def test_a_call_that_is_shown_whole_asks_for_no_confirmation():
    html = desk.signed_in(desk.lena()).get(f"/interrupts/{desk.an_order().public_id}").content.decode()
    assert "seen-rest" not in html
    assert "longer than this page shows" not in html


def test_a_call_that_is_not_shown_whole_is_no_part_of_a_bulk():
    interrupt = desk.a_refund(1, proposal={"name": "refund_order", "arguments": {"lines": ["x"] * 3_000}})
    html = desk.signed_in(desk.lena()).get(f"/together?interrupt={interrupt.public_id}").content.decode()
    assert "Its call is too long for a list" in html
    assert "None of these requests can be decided in bulk" in html


def test_the_pages_of_a_value_have_every_part_of_it_once():
    text = "".join(f"{number:06d}\u202e " for number in range(20_000))
    value = {"first": [1, 2], "text": text, "last": "end"}
    interrupt = desk.an_order(proposal={"name": "order", "arguments": value})
    client = desk.signed_in(desk.lena())
    address, seen, pages = f"/interrupts/{interrupt.public_id}/call", "", 0
    query = "?"
    while query:
        html = client.get(address + query).content.decode()
        assert len(html) <= PAGE_BYTES
        seen += html
        pages += 1
        after = re.search(r'rel="next" href="([^"]+)"', html)
        query = after[1].replace("&amp;", "&") if after else ""
    assert 1 < pages < 40
    assert [int(found) for found in re.findall(r"(?<![0-9])([0-9]{6})<span", seen)] == list(range(20_000))
    assert "/last" in seen


def test_a_page_begins_at_the_path_of_its_link_and_the_whole_is_a_download():
    value = {"lines": [{"n": number} for number in range(5_000)], "after": "end"}
    interrupt = desk.an_order(proposal={"name": "order", "arguments": value})
    client = desk.signed_in(desk.lena())
    html = client.get(f"/interrupts/{interrupt.public_id}/call?at=/lines/4999").content.decode()
    assert "Showing 5,000 to 5,001 of 5,001 values" in html
    assert "/lines/4998/n" not in html
    download = client.get(f"/interrupts/{interrupt.public_id}/call?as=json")
    assert download.content.decode() == exact_json.dumps(value)
    assert download["Content-Disposition"].startswith("attachment")


@pytest.mark.parametrize("part", ["evidence", "facts", "message", "comments"])
def test_each_large_part_of_a_request_has_a_page_of_its_own(part: str):
    interrupt = desk.an_order(
        evidence=[{"label": "Rows", "value": [{"n": number} for number in range(2_000)], "source": "x"}] * 20,
        message="word " * 20_000,
    )
    client = desk.signed_in(desk.lena())
    client.post(f"/interrupts/{interrupt.public_id}/comment", {"comment": "Looks right."})
    html = client.get(f"/interrupts/{interrupt.public_id}").content
    assert len(html) <= PAGE_BYTES
    assert nodes(html) <= PAGE_NODES
    assert client.get(f"/interrupts/{interrupt.public_id}/values/{part}").status_code == 200
    stranger = desk.signed_in(builders.a_person("eve@company.example"))
    assert stranger.get(f"/interrupts/{interrupt.public_id}/values/{part}").status_code == 404


def test_a_value_too_large_for_a_field_is_sent_as_it_is_and_not_rendered():
    arguments = {"amount": "5.00", "body": "x" * 400_000}
    interrupt = desk.an_order(proposal={"name": "send", "arguments": arguments})
    client = desk.signed_in(desk.lena())
    html = client.get(f"/interrupts/{interrupt.public_id}").content.decode()
    assert "too large to change on this page" in html
    changed = {"arguments.amount": "6.00", "seen-rest-edit": interrupt.content_digest}
    form = desk.form_of(client, interrupt, verdict="edit", act="edit", **changed)
    review = desk.post(client, interrupt, form)
    assert "What will happen with your changes" in review.content.decode()
    edited = re.search(r'name="edited" value="([^"]+)"', review.content.decode())[1]
    assert desk.post(client, interrupt, form | {"act": "edit-approve", "edited": edited}).status_code == 302
    assert Decision.objects.get().arguments == {"amount": "6.00", "body": "x" * 400_000}


def test_a_choice_of_thousands_is_a_text_field_and_still_validated():
    schema = {"type": "object", "properties": {"code": {"enum": [f"C{number}" for number in range(5_000)]}}}
    form = build_form(schema)
    assert form.root.members["code"].widget == "lines"
    assert form.root.members["code"].rule == "one of 5,000 listed values"
    few = build_form({"type": "object", "properties": {"code": {"enum": ["a", "b"]}}})
    assert few.root.members["code"].widget == "choice"


def test_many_fields_share_the_listed_values_that_a_page_has_room_for():
    some = {"$defs": {"code": {"enum": [f"C{number}" for number in range(900)]}}, "type": "object"}
    schema = some | {"properties": {f"f{number}": {"$ref": "#/$defs/code"} for number in range(100)}}
    form = build_form(schema)
    assert sum(len(node.options) for node in form.root.members.values()) <= 2_200


def test_a_part_that_became_json_uses_up_no_listed_values():
    code = {"enum": [f"C{number}" for number in range(50)]}
    large = {"type": "object", "properties": {f"f{number}": code for number in range(300)}}
    form = build_form({"type": "object", "properties": {"large": large, "code": code}})
    assert form.root.members["large"].widget == "json"
    assert form.root.members["code"].widget == "choice"


def test_the_work_of_a_form_and_a_panel_does_not_grow_with_the_square_of_the_members(monkeypatch):
    calls = {"drawn": 0}
    sound = json_values.render_exact

    def counted(*words: Any, **named: Any) -> Any:
        calls["drawn"] += 1
        return sound(*words, **named)

    monkeypatch.setattr(json_values, "render_exact", counted)
    found = []
    for number in (10_000, 20_000):
        calls["drawn"] = 0
        arguments = {f"m{place}": "x" for place in range(number)}
        json_values.render_mapping(arguments)
        found.append(calls["drawn"])
        assert build_edit_form(arguments).root is not None
    assert found[0] == found[1] <= 2 * json_values.MAX_MEMBERS


def test_pages_are_compressed_and_a_compressed_list_is_still_asked_for_by_its_tag():
    interrupt = desk.an_order()
    client = desk.signed_in(desk.lena())
    plain = client.get(f"/interrupts/{interrupt.public_id}")
    packed = client.get(f"/interrupts/{interrupt.public_id}", headers={"accept-encoding": "gzip"})
    assert packed["Content-Encoding"] == "gzip"
    assert len(packed.content) < len(plain.content) / 3
    assert b"What will happen if you approve" in gzip.decompress(packed.content)
    asked = {"hx-request": "true", "hx-target": "list", "accept-encoding": "gzip"}
    first = client.get("/", headers=asked)
    assert first["Content-Encoding"] == "gzip"
    assert first["ETag"].startswith("W/")
    assert client.get("/", headers=asked | {"if-none-match": first["ETag"]}).status_code == 304


def test_the_length_of_a_compressed_page_is_not_that_of_its_text(client: Client):
    """BREACH: each response has another mask of the CSRF token, and a random number of bytes."""
    interrupt = desk.an_order()
    client.force_login(desk.lena())
    packed = [
        client.get(f"/interrupts/{interrupt.public_id}", headers={"accept-encoding": "gzip"}).content for _ in range(6)
    ]
    tokens = {re.search(rb'name="csrf-token" content="([^"]+)"', gzip.decompress(page))[1] for page in packed}
    assert len(tokens) == 6
    assert len({len(page) for page in packed}) > 1


def test_static_files_are_compressed_for_browsers_that_accept_it(client: Client):
    plain = client.get("/static/app.css")
    style = b"".join(plain.streaming_content)
    packed = client.get("/static/app.css", headers={"accept-encoding": "gzip, br"})
    assert packed["Content-Encoding"] == "gzip"
    assert packed["Content-Length"] == str(len(packed.content))
    assert len(packed.content) < len(style) / 3
    assert gzip.decompress(packed.content) == style
    assert plain["Vary"] == packed["Vary"] == "Accept-Encoding"
    assert packed["Content-Type"] == plain["Content-Type"]
    again = client.get("/static/app.css", headers={"accept-encoding": "gzip", "if-none-match": packed.get("ETag", "")})
    since = {"accept-encoding": "gzip", "if-modified-since": packed["Last-Modified"]}
    assert 304 in (again.status_code, client.get("/static/app.css", headers=since).status_code)
    part = client.get("/static/app.css", headers={"accept-encoding": "gzip", "range": "bytes=0-9"})
    assert not part.has_header("Content-Encoding")
    assert b"".join(part.streaming_content) == style[:10]


def test_what_is_streamed_is_not_compressed():
    request = RequestFactory().get("/", headers={"accept-encoding": "gzip"})
    streamed = StreamingHttpResponse([b"x" * 100_000], content_type="text/plain")
    bytes_of_a_file = HttpResponse(b"x" * 100_000, content_type="application/octet-stream")
    for response in (streamed, bytes_of_a_file):
        assert not CompressionMiddleware(lambda _, of=response: of)(request).has_header("Content-Encoding")
