"""The payload corpus through every form and query of the pages: a readable answer, never a server error."""

from __future__ import annotations

import os
from collections.abc import Callable
from html.parser import HTMLParser
from urllib.parse import quote

import pytest
from django.http import QueryDict
from django.test import Client

from tests.attack.page_routes import PAGES, PageWorld
from tests.pages import desk
from tests.pages.hostile import HIDDEN, MARKUP

# On PostgreSQL only: it refuses texts and numbers that SQLite takes, and the pages are the same.
pytestmark = [pytest.mark.django_db, pytest.mark.postgresql]

#: Every value in every place takes minutes; in the short form each place gets every fifth, in turn.
EVERY_VALUE = os.environ.get("REVIEWQUEUE_LONG") == "1"

#: As bytes of a form: what no browser sends is among it.
HOSTILE: dict[str, str] = {
    "nothing": "",
    "a NUL": "%00",
    "a NUL inside": "a%00b",
    "half a surrogate pair": "%ED%A0%BD",
    "not UTF-8": "%FF%FE",
    "a line end": "a%0Ab",
    "very long": "x" * 300_000,
    "a large number": "9" * 5_000,
    "digits of another script": quote("٣٤"),
    "JSON": quote('{"a": [1, {"b": null}]}'),
    "deep JSON": quote("[" * 2_000),
    "a wildcard": quote("%_\\'\"--"),
    "a pattern": quote("(" * 50 + "a*" * 50),
    "a template": quote("{{ 7*7 }}{% csrf_token %}"),
    "markup": quote("".join(MARKUP)),
    "hidden characters": quote("".join(HIDDEN).replace("\x00", "")),
}


class Forms(HTMLParser):
    """Collects the POST forms of a page: their URL, and each field with its value."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str]]] = []
        self.is_inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        drawn = dict(attrs)
        if tag == "form":
            self.is_inside = (drawn.get("method") or "").lower() == "post"
            if self.is_inside:
                self.found.append((drawn.get("action") or "", {}))
        elif self.is_inside and tag in ("input", "textarea", "select", "button") and drawn.get("name"):
            self.found[-1][1].setdefault(str(drawn["name"]), drawn.get("value") or "")

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self.is_inside = False


def forms_of(client: Client, address: str) -> list[tuple[str, dict[str, str]]]:
    forms = Forms()
    forms.feed(client.get(address).content.decode())
    return [(action or address, fields) for action, fields in forms.found if "logout" not in action]


def sent(client: Client, address: str, fields: dict[str, str], name: str, value: str) -> int:
    """Send the form with one field as hostile bytes, twice where a browser sends it once."""
    rest = QueryDict(mutable=True)
    rest.update({key: text for key, text in fields.items() if key not in (name, "csrfmiddlewaretoken")})
    body = f"{rest.urlencode()}&{quote(name)}={value}&{quote(name)}={value}"
    response = client.generic("POST", address, body.encode(), content_type="application/x-www-form-urlencoded")
    return response.status_code


def with_a_question(world: PageWorld) -> list[str]:
    """Return the addresses of the forms of the world with two more requests."""
    question = desk.a_question()
    edited = desk.an_order()
    waits = [f"/interrupts/{it.public_id}" for it in (world.wait, question, edited)]
    together = f"/together?interrupt={world.wait.public_id}"
    return [*waits, together, "/", "/agents", f"/runs/{world.wait.run.public_id}", "/account/password/"]


def some(turn: int) -> list[str]:
    """Return which values come to this place: all of them in the long form, else every fifth, in turn."""
    return list(HOSTILE) if EVERY_VALUE else list(HOSTILE)[turn % 5 :: 5]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["reviewer", "owner"])
def test_no_value_in_any_field_of_a_form_is_a_server_error(kind, world):
    addresses = with_a_question(world)
    client, turn = world.browser_of(kind), 0
    tried: set[tuple[str, frozenset[str]]] = set()  # a form that several pages have is one form
    for address in addresses:
        for action, fields in forms_of(client, address):
            form = (action, frozenset(fields))
            for name in fields if form not in tried else ():
                for what in some(turn):
                    assert sent(client, action, fields, name, HOSTILE[what]) < 500, (action, name, what)
                turn += 1
            tried.add(form)
    assert turn > 5


READING = [
    route for route, page in PAGES.items() if page.reads is not None and route not in ("healthz", "readyz", "metrics")
]
NAMES = (
    "view",
    "queue",
    "reason",
    "risk",
    "agent",
    "q",
    "text",
    "after",
    "status",
    "of",
    "days",
    "so_far",
    "next",
    "from",
)


def names_read(client: Client, address: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names that the page reads from its query: any other name changes nothing."""
    asked: set[str] = set()

    def noting(read: Callable[..., object]) -> Callable[..., object]:
        def noted(query: QueryDict, name: object, *more: object) -> object:
            asked.add(str(name))
            return read(query, name, *more)

        return noted

    with monkeypatch.context() as patched:
        for method in ("get", "getlist", "__getitem__", "__contains__"):
            patched.setattr(QueryDict, method, noting(getattr(QueryDict, method)))
        for value in ("", "1", "all"):
            client.get(f"{address}?{'&'.join(f'{name}={value}' for name in NAMES)}")
        client.get(address)
    return [name for name in NAMES if name in asked]


@pytest.mark.parametrize("route", READING)
def test_no_query_of_a_page_is_a_server_error(route, world, monkeypatch):
    client, address = world.browser_of("operator"), PAGES[route].address(world)
    for turn, name in enumerate(names_read(client, address, monkeypatch)):
        for what in some(turn):
            value = HOSTILE[what][:2_000]
            assert client.get(f"{address}?{name}={value}").status_code < 500, (name, what)
    for what, value in HOSTILE.items():
        every = "&".join(f"{name}={value[:2_000]}" for name in (*NAMES, value[:200]))
        assert client.get(f"{address}?{every}").status_code < 500, what


def test_malformed_forms_get_a_readable_answer(world):
    addresses = with_a_question(world)
    client = world.browser_of("reviewer")
    for address in addresses:
        for kind, body in (
            ("application/json", b'{"verdict": "approve"}'),
            ("multipart/form-data; boundary=x", b"--x\r\nbroken"),
            ("multipart/form-data", b"--x"),
            ("text/plain", b"verdict=approve"),
            ("application/x-www-form-urlencoded", b"&".join(b"a%d=1" % n for n in range(2_000))),
            ("application/x-www-form-urlencoded; charset=utf-7", b"verdict=approve"),
        ):
            assert client.generic("POST", address, body, content_type=kind).status_code < 500, (address, kind)
