"""A large call: its size is shown, every value is found by path or text without JavaScript, the page stays fast."""

from __future__ import annotations

import pytest

from reviewqueue.pages.interrupt.value_browser import leaves
from tests import builders
from tests.pages import desk
from tests.pages.hostile import MARKUP

pytestmark = pytest.mark.django_db

LINES = [{"part": f"Part {number}", "amount": f"{number}.00", "note": "x" * 40} for number in range(2_000)]
CALL = {"name": "order", "arguments": {"supplier": "S-17", "lines": LINES, "empty": [], "odd/na~me": None}}


def page(interrupt, query: str = "", person=None) -> str:
    response = desk.signed_in(person or desk.lena()).get(f"/interrupts/{interrupt.public_id}/call{query}")
    assert response.status_code == 200
    return response.content.decode()


def test_the_size_is_marked_and_leads_to_every_value():
    interrupt = desk.an_order(proposal=CALL)
    client = desk.signed_in(desk.lena())
    client.get(f"/interrupts/{interrupt.public_id}")
    html = client.get(f"/interrupts/{interrupt.public_id}").content.decode()
    assert " of 8,004 members, " in html
    middle = desk.an_order(proposal={"name": "order", "arguments": {"lines": LINES[:110]}})
    assert " KB; long parts are folded." in client.get(f"/interrupts/{middle.public_id}").content.decode()
    assert f'href="/interrupts/{interrupt.public_id}/call"' in html
    small = client.get(f"/interrupts/{desk.an_order().public_id}").content.decode()
    assert "long parts are folded" not in small


def test_every_value_is_there_page_by_page():
    interrupt = desk.an_order(proposal=CALL)
    html = page(interrupt)
    assert "Showing 1 to 100 of 6,003 values" in html
    assert "/lines/0/part" in html
    assert "/lines/1999/note" not in html
    assert "/lines/1999/note" in page(interrupt, "?from=6000")


def test_a_value_is_found_by_its_text_and_by_its_path():
    interrupt = desk.an_order(proposal=CALL)
    html = page(interrupt, "?find=part+1999")
    assert "Showing 1 to 1 of 1 value" in html
    assert "/lines/1999/part" in html
    assert "/odd~1na~0me" in page(interrupt, "?find=ODD")
    assert "No values with" in page(interrupt, "?find=nowhere")


@pytest.mark.parametrize(
    "query", ["?from=-1", "?from=x", "?from=99999999999", "?find=%00", "?find=" + "y" * 500, "?from=9999999"]
)
def test_any_address_is_answered(query: str):
    page(desk.an_order(proposal=CALL), query)


def test_hostile_ways_and_values_start_nothing():
    arguments = {text: text for text in MARKUP}
    html = page(desk.an_order(proposal={"name": "order", "arguments": arguments}))
    assert "<script>alert" not in html


def test_a_foreign_call_and_a_request_without_one_look_missing():
    interrupt = desk.an_order(proposal=CALL)
    stranger = desk.signed_in(builders.a_person("eve@company.example"))
    assert stranger.get(f"/interrupts/{interrupt.public_id}/call").status_code == 404
    assert desk.signed_in(desk.lena()).get(f"/interrupts/{desk.a_question().public_id}/call").status_code == 404


def test_leaves_are_listed_in_stored_order_each_once():
    value = {"b": [1, {"a": "x"}], "a": {}, "c": []}
    assert [(leaf.pointer, leaf.value) for leaf in leaves(value)] == [
        ("/b/0", 1),
        ("/b/1/a", "x"),
        ("/a", {}),
        ("/c", []),
    ]
    assert [(leaf.pointer, leaf.value) for leaf in leaves("x")] == [("", "x")]
