"""The layout of every page, the shared partials, the content security policy of templates, the error pages."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from django.conf import settings
from django.contrib.auth.models import AnonymousUser, User
from django.contrib.messages.storage.base import Message
from django.http import HttpRequest
from django.template import Context, Template
from django.template.loader import get_template
from django.test import Client, RequestFactory

from reviewqueue.pages.empty_state import EmptyState
from reviewqueue.templatetags.icons import drawing

TEMPLATES = settings.ROOT / "templates"
ANY_TEMPLATE = sorted(TEMPLATES.rglob("*.html"))


def a_request(*, user: User | AnonymousUser | None = None, **cookies: str) -> HttpRequest:
    request = RequestFactory().get("/")
    request.user = user or User(username="lena@company.example", email="lena@company.example", first_name="Lena")
    request.COOKIES.update(cookies)
    return request


def page(request: HttpRequest | None, **context: object) -> str:
    return get_template("base.html").render(context, request)


def test_a_page_has_its_landmarks_and_a_way_past_them() -> None:
    html = page(a_request(), section="inbox", inbox_count=20)
    assert html.index('class="skip"') < html.index("<header") < html.index('<main id="main"')
    assert 'aria-label="Main"' in html
    assert 'aria-live="polite"' in html
    assert '<span class="faint num" id="inbox-count">20</span>' in html
    assert html.count('aria-current="page"') == 1


def test_signing_out_is_a_form_that_posts_with_its_token() -> None:
    html = page(a_request())
    form = re.search(r'<form method="post" action="/account/logout/">(.*?)</form>', html, re.DOTALL)
    assert form
    assert "csrfmiddlewaretoken" in form[1]


def test_the_link_to_reconciliation_is_shown_to_staff_alone() -> None:
    assert "Reconciliation" not in page(a_request())
    assert "Reconciliation" in page(a_request(user=User(username="ines@company.example", is_staff=True)))


def test_who_is_not_signed_in_sees_no_navigation() -> None:
    for request in (None, a_request(user=AnonymousUser())):
        html = page(request)
        assert "<nav" not in html
        assert "Sign out" not in html


def test_htmx_cannot_evaluate_code_nor_leave_this_origin_and_shows_refusals() -> None:
    found = re.search(r"name=\"htmx-config\"\s+content='([^']*)'", page(a_request()))
    assert found
    config = json.loads(found[1])
    assert config["allowEval"] is False
    assert config["selfRequestsOnly"] is True
    assert config["includeIndicatorStyles"] is False
    swapped = [rule["code"] for rule in config["responseHandling"] if rule["swap"]]
    assert swapped == ["[23]..", "(403|409|410|422)"]


@pytest.mark.parametrize(
    ("cookie", "theme"), [(None, "auto"), ("dark", "dark"), ("light", "light"), ('"><script>', "auto")]
)
def test_the_theme_is_the_browsers_choice_or_the_systems(cookie: str | None, theme: str) -> None:
    html = page(a_request(**({"theme": cookie} if cookie else {})))
    assert f'<html lang="en" data-theme="{theme}" dir="ltr">' in html
    assert re.search(rf'id="theme-{theme}"[^>]* checked>', html)
    assert len(re.findall(r'name="theme"[^>]* checked>', html)) == 1


def test_messages_are_notices_with_a_sign_and_their_tone() -> None:
    messages = [Message(25, "Kept <b>as</b> draft."), Message(40, "Not sent.")]
    html = page(a_request(), messages=messages)
    assert '<div class="notice good"' in html
    assert '<div class="notice bad"' in html
    assert "Kept &lt;b&gt;as&lt;/b&gt; draft." in html


@pytest.mark.parametrize("name", ["400", "403", "403_csrf", "404", "500"])
def test_an_error_page_needs_nothing_and_says_what_next(name: str) -> None:
    html = get_template(f"{name}.html").render({})
    assert "<h1>" in html
    assert "/static/app.css" in html
    assert "Go to the inbox" in html


@pytest.mark.django_db
def test_a_missing_page_has_the_layout_of_the_product(client: Client) -> None:
    client.force_login(User.objects.create_user("lena@company.example"))
    answer = client.get("/no/such/page")
    assert answer.status_code == 404
    assert "Page not found" in answer.content.decode()


@pytest.mark.parametrize("path", ANY_TEMPLATE, ids=lambda path: str(path.relative_to(TEMPLATES)))
def test_no_template_holds_what_the_content_policy_forbids(path: Path) -> None:
    source = path.read_text()
    if path.parent.name == "mail":
        return  # not a page
    assert not re.search(r"\sstyle\s*=", source)
    assert not re.search(r"\son[a-z]+\s*=", source)
    assert not re.search(r"hx-on|hx-vals=[\"']js:|javascript:", source)
    assert not re.search(r"<style|<script(?![^>]*\ssrc=)", source)
    assert not re.search(r"(src|href|action)=[\"'](https?:)?//", source)
    assert "|safe" not in source
    assert "autoescape" not in source


class Outline(HTMLParser):
    """Collects what HTML forbids although browsers repair it."""

    PHRASES = frozenset({"span", "p", "label", "small", "b", "button", "a", "h1", "h2", "h3"})
    WITHOUT_END = frozenset({"input", "br", "hr", "img", "meta", "link", "path", "circle", "rect", "wbr"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.faults: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = dict(attrs)
        if tag == "form" and self.PHRASES & set(self.open):
            self.faults.append(f"a form inside {self.open}")
        if tag == "input" and told.get("type") in ("radio", "checkbox") and "autocomplete" in told:
            self.faults.append(f"autocomplete on {told}")
        if tag not in self.WITHOUT_END:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self.open:
            while self.open.pop() != tag:
                pass


@pytest.mark.parametrize("path", ANY_TEMPLATE, ids=lambda path: str(path.relative_to(TEMPLATES)))
def test_no_template_has_a_form_inside_a_phrase_or_autocomplete_on_a_choice(path: Path) -> None:
    outline = Outline()
    outline.feed(re.sub(r"\{%.*?%\}|\{\{.*?\}\}", "", path.read_text()))
    assert outline.faults == []


@pytest.mark.parametrize("path", ANY_TEMPLATE, ids=lambda path: str(path.relative_to(TEMPLATES)))
def test_the_name_of_a_button_or_link_contains_its_visible_text(path: Path) -> None:
    """A person who speaks to the browser says the text of the button."""
    values = r'(?:"[^"]*"|[^>"])*?'
    labelled = re.compile(rf'<(button|a)\b{values}\baria-label="([^"]*)"{values}>(.*?)</\1>', re.DOTALL)
    for _, label, inner in labelled.findall(path.read_text()):
        assert "{% datetime" not in label, "its element would end the attribute"
        words = " ".join(re.sub(r"<kbd.*?</kbd>|<[^>]*>|\{%.*?%\}|\{\{.*?\}\}", "", inner, flags=re.DOTALL).split())
        assert words.lower() in label.lower()


def test_messages_are_in_a_landmark_of_their_own() -> None:
    html = page(a_request(), messages=[Message(25, "Kept as draft.")])
    assert re.search(r'<section class="notices" id="notices" aria-label="Messages">\s*<div class="notice good"', html)


@pytest.mark.parametrize("path", ANY_TEMPLATE, ids=lambda path: str(path.relative_to(TEMPLATES)))
def test_every_text_box_has_the_direction_of_its_text(path: Path) -> None:
    boxes = re.findall(r"<textarea\b[^>]*>", path.read_text())
    assert [box for box in boxes if 'dir="auto"' not in box and "mono" not in box] == []


@pytest.mark.parametrize("path", ANY_TEMPLATE, ids=lambda path: str(path.relative_to(TEMPLATES)))
def test_a_template_has_lines_of_at_most_120_characters(path: Path) -> None:
    long = [number for number, line in enumerate(path.read_text().splitlines(), start=1) if len(line) > 120]
    assert long == []


def test_no_name_of_an_icon_reaches_beyond_its_folder() -> None:
    for name in ("../base", "a/b", "", "Clock", "clock.html"):
        with pytest.raises(ValueError, match="not a valid icon name"):
            drawing(name)


@pytest.mark.parametrize(
    ("template", "context", "words"),
    [
        ("_risk.html", {"risk": "high"}, 'data-level="high"'),
        ("_risk.html", {"risk": "high"}, "High risk"),
        ("_effect_outcome.html", {"status": "unknown"}, 'data-is="unknown"'),
        ("_badge.html", {"label": "Round 2", "icon": "round", "tone": "act"}, 'class="tag tag-act"'),
        ("_person.html", {"person": "ana@example.org"}, ">A</i>"),
        ("_person.html", {"person": "a\u202eb"}, "U+202E"),
        (
            "_empty_state.html",
            {"empty": EmptyState(picture="no-queue", heading="You are not in a queue yet", text="…")},
            "<h2>You are",
        ),
        ("_notice.html", {"tone": "warn", "text": "Late.", "alert": True}, 'role="alert"'),
        ("_agent_text.html", {"text": "# Hi\n<b>x</b>", "heading": "t\u200b"}, "<strong>Hi</strong>"),
        ("_call_arguments.html", {"arguments": {}}, "no arguments"),
    ],
)
def test_a_part_draws_what_it_is_given(template: str, context: dict[str, object], words: str) -> None:
    assert words in get_template(template).render(context)


def test_hidden_characters_have_a_warning_and_a_badge_and_ordinary_text_has_none() -> None:
    template = Template(
        "{% load agent_text %}{% with warnings=value|warnings %}{% include '_hidden_characters_warning.html' %}"
        "{% include '_hidden_characters_badge.html' %}{% endwith %}"
    )
    html = template.render(Context({"value": {"to\u200b": "hоists"}}))
    assert "1 invisible character is shown" in " ".join(html.split())
    assert "U+043E" in html
    assert "1 hidden character</span>" in html
    assert template.render(Context({"value": {"to": "hoists"}})).strip() == ""
