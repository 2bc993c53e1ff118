"""Texts of pages and mails are marked, and the catalogues have a translation of each in every offered language."""

from __future__ import annotations

import ast
import contextlib
import re
from pathlib import Path
from string import Formatter

import pytest
from django.conf import settings
from django.template.loader import render_to_string
from django.test import Client
from django.utils import translation
from django.utils.translation import trans_real

from ledger.errors import PayloadInvalid
from reviewqueue.models import NotificationPreferences
from reviewqueue.text.numbers import number_label
from reviewqueue.text.problem_texts import refusal_text, translate_problem
from runs.errors import AlreadyDecided, Expired
from runs.schemas import error_messages
from tests import builders, translations
from tests.pages import desk
from tests.pseudo_locale import brackets, texts_outside_brackets

OFFERED_LATER: set[str] = set()


@pytest.fixture(scope="module")
def marked() -> set[translations.Text]:
    return translations.marked_texts()


def catalogues() -> list[translations.Catalogue]:
    return [translations.read_catalogue(path) for path in translations.CATALOGUES]


@pytest.mark.parametrize("catalogue", catalogues(), ids=lambda catalogue: catalogue.language)
def test_a_catalogue_has_exactly_the_marked_texts_and_is_compiled(catalogue, marked):
    run = "run `.venv/bin/python -m tests.translations`"
    assert catalogue.flagged == [], "a fuzzy or obsolete entry"
    assert catalogue.path.read_text() == catalogue.source(), f"a duplicate or another layout: {run}"
    assert set(catalogue.translations) - marked == set(), f"no longer marked: {run}"
    assert marked - set(catalogue.translations) == set(), f"not in the catalogue: {run}"
    assert catalogue.path.with_suffix(".mo").read_bytes() == catalogue.compiled(), run
    if catalogue.language in dict(settings.LANGUAGES):
        assert [text for text, forms in catalogue.translations.items() if not all(forms)] == [], "no translation"


@pytest.mark.parametrize("catalogue", catalogues(), ids=lambda catalogue: catalogue.language)
def test_a_translation_has_the_values_and_the_markup_of_its_text(catalogue):
    wrong = {
        form: text.text
        for text, forms in catalogue.translations.items()
        for form in forms
        if form and _members(form) != _members(text.text) and _members(form) != _members(text.plural or text.text)
    }
    assert wrong == {}


def _members(text: str) -> list[str]:
    """Return the placeholders and the tags of a text: %(name)s, {name}, <b>."""
    found = re.findall(r"%\(\w+\)s|%%|</?[a-z]+[^>]*>", text)
    with contextlib.suppress(ValueError):  # a brace of a text that is not formatted
        found += [f"{{{name}}}" for _, name, _, _ in Formatter().parse(text) if name is not None]
    return sorted(found)


def test_a_compiled_catalogue_reads_as_its_source():
    for catalogue in catalogues():
        compiled = translations.compiled_texts(catalogue.path.with_suffix(".mo"))
        for text, forms in catalogue.translations.items():
            if all(forms):
                key = text.key.partition("\0")[0]
                assert (
                    [compiled[(key, number)] for number in range(2)] == forms
                    if text.plural
                    else compiled[key] == forms[0]
                )


def test_every_offered_language_has_a_catalogue_and_formats():
    codes = {catalogue.language for catalogue in catalogues()}
    assert set(dict(settings.LANGUAGES)) - {"en"} <= codes <= OFFERED_LATER | set(dict(settings.LANGUAGES))
    for code in codes:
        assert (translations.ROOT / "reviewqueue" / "formats" / code / "formats.py").is_file()


def test_the_tool_finds_marked_texts(tmp_path: Path):
    page = tmp_path / "page.html"
    page.write_text(
        "{% load i18n %}{% translate 'One' %}{% blocktranslate trimmed count number=n %}\n {{ number }} run{% plural %}\n"
        '{{ number }} runs{% endblocktranslate %}{% include "x" with text=_("It\'s a \\"note\\".") %}'
        '{% translate "May" context "month" as month %}{% blocktranslate with a=b %}100% of {{ a }}{% endblocktranslate %}'
    )
    module = tmp_path / "code.py"
    module.write_text(
        "from gettext import gettext as _\n_('A'\n  ' and b')\nngettext('a', 'b', 3)\npgettext_lazy('c', 'd')\n"
    )
    assert set(translations.texts_of(page)) == {
        translations.Text("One"),
        translations.Text("%(number)s run", plural="%(number)s runs"),
        translations.Text('It\'s a "note".'),
        translations.Text("May", "month"),
        translations.Text("100%% of %(a)s"),
    }
    assert translations.texts_of(module) == [
        translations.Text("A and b"),
        translations.Text("a", plural="b"),
        translations.Text("d", "c"),
    ]


def test_the_tool_finds_what_is_not_marked(tmp_path: Path):
    page = tmp_path / "page.html"
    page.write_text(
        '{# A comment #}{% load i18n %}<p class="lead">{% translate "Yes" %} Not <b>marked</b></p>\n<img alt="A hoist">'
        '<a title="{{ title }}">{{ name }}</a>{% include "a.html" with text="Nor this" tone="warn" only %}'
        '{{ a|default:"Never" }}{% blocktranslate %}Marked{% endblocktranslate %}\n'
    )
    assert [text for _, text in translations.unmarked_texts(page)] == [
        "Not    marked",
        "Never",
        "Nor this",
        'alt="A hoist"',
    ]
    module = tmp_path / "code.py"
    module.write_text('"""A module."""\nX = "A sentence of it"\nY = _("A marked sentence")\nZ = "a-code"\n')
    assert [text for _, text in translations.unmarked_in_code(module)] == ["A sentence of it"]


#: Templates of the API, and attributes without their element.
ENGLISH = ("api_docs.html", "problem.html", "forms/_aria_attributes.html")


def test_every_text_of_a_template_is_marked():
    folder = translations.ROOT / "templates"
    names = [path.relative_to(folder).as_posix() for path in sorted(folder.rglob("*")) if path.is_file()]
    found = [
        f"{name}:{line}: {text}"
        for name in names
        if not name.startswith(ENGLISH)
        for line, text in translations.unmarked_texts(folder / name)
        if text != "rq_"  # the beginning of a key
    ]
    assert not found, "\n".join(["see docs/development.md, Mark and translate texts", *found])


#: What pages show that is not translated: the data of the tests, names, and texts that are not marked yet.
DATA = re.compile(
    r"Review queue|UTC|[a-z]+\.[a-z_]+|[\w.-]+@[\w.-]+|purchase-requests|refunds|engineering|Engineering|Refunds"
    r"|Lena Brandt|Issue purchase order to S-17 for 184000.00 EUR|Issue purchase order to|^for$"
    r"|Refund order|S-17|R-2|Three suppliers.*|two answered|. S-17 is.*|After specif.*"
    r"|EUR|[\d:]+|[-“”:·,. ]"
)
NOT_YET = re.compile(r"Run started|worker released|checkpoint \d")  # the timeline


@pytest.mark.django_db
def test_what_main_pages_show_is_data_or_translated(client: Client):
    client.force_login(desk.lena())
    order = desk.an_order()
    desk.a_refund(2)
    addresses = ["/", "/?view=open", "/?view=decided", "/?view=mine&q=zzz", "/?view=x&risk=y", "/account/sessions/"]
    addresses += [f"/interrupts/{order.public_id}", f"/interrupts/{order.public_id}/call", "/no-such-page"]
    with brackets():
        found = {
            text: address
            for address in addresses
            for text in texts_outside_brackets(client.get(address).content.decode())
            if not NOT_YET.search(text) and re.search("[a-z]{2}", DATA.sub("", text))
        }
    assert found == {}


def test_brackets_show_what_is_not_translated():
    html = '<p>⟦Yes⟧ No <b title="Not this">⟦a <i>b</i> c⟧</b></p><code>rq_1</code><img alt="⟦A⟧">'
    assert texts_outside_brackets(html) == ["No", "Not this"]


# --- the language of a reader --------------------------------------------------------------------------------------------


@pytest.fixture
def german_offered(settings):
    settings.LANGUAGES = [("en", "English"), ("de", "Deutsch")]
    forget_languages()
    yield
    forget_languages()


def forget_languages() -> None:
    trans_real.get_languages.cache_clear()
    trans_real._get_supported_language_variant.cache_clear()


def language_of(client: Client, **headers: str) -> str:
    html = client.get("/notifications", headers=headers).content.decode()
    match = re.search(r'<html lang="([a-z]+)"', html)
    assert match, html[:500]
    return match[1]


@pytest.mark.django_db
def test_pages_follow_the_browser_until_a_person_chooses(client: Client, german_offered):
    ana = builders.a_reviewer("ana@example.org")
    client.force_login(ana)
    assert language_of(client) == "en"
    assert language_of(client, accept_language="fr, de-AT;q=0.8, en;q=0.5") == "de"
    choose(client, "en")
    assert language_of(client, accept_language="de") == "en"
    choose(client, "")
    assert language_of(client, accept_language="de") == "de"


@pytest.mark.django_db
def test_a_chosen_language_applies_after_the_next_sign_in_and_to_mail(client: Client, german_offered):
    ana = builders.a_reviewer("ana@example.org")
    client.force_login(ana)
    choose(client, "de")
    assert "Ihre Benachrichtigungseinstellungen sind gespeichert." in client.get("/notifications").content.decode()
    other = Client()
    other.force_login(ana)
    assert language_of(other) == "de"
    assert NotificationPreferences.objects.get(person=ana).language == "de"


@pytest.mark.django_db
def test_a_language_that_is_not_offered_is_refused_and_never_used(client: Client):
    ana = builders.a_reviewer("ana@example.org")
    client.force_login(ana)
    answer = client.post("/notifications", form("fr"))
    assert answer.status_code == 422
    assert not NotificationPreferences.objects.exists()
    NotificationPreferences.objects.create(person=ana, language="fr")
    other = Client()
    other.force_login(ana)
    assert language_of(other, accept_language="fr") == "en"


@pytest.mark.django_db
def test_an_api_call_is_answered_in_english(client: Client, german_offered):
    english = client.get("/api/v1/interrupts")
    assert (
        client.get("/api/v1/interrupts", headers={"accept-language": "de"}).json()["detail"] == english.json()["detail"]
    )


def choose(client: Client, code: str) -> None:
    answer = client.post("/notifications", form(code))
    assert answer.status_code == 302, answer.content.decode()


def form(code: str) -> dict[str, str]:
    return {"by_mail": "1", "frequency": "at_once", "daily_at": "08:00", "time_zone": "Europe/Berlin", "language": code}


def test_numbers_are_grouped_as_the_language_does():
    assert number_label(1234567) == "1,234,567"
    with translation.override("de"):
        assert number_label(1234567) == "1.234.567"


def test_code_that_marks_texts_gives_the_name_of_the_marker_to_nothing_else():
    """`_, rest = ...` makes `_` a local name, and `_("...")` in the same function an error."""
    for path in sorted(
        p for package in ("ledger", "runs", "reviewqueue") for p in (settings.ROOT / package).rglob("*.py")
    ):
        nodes = list(ast.walk(ast.parse(path.read_text())))
        imported = [name.asname for node in nodes if isinstance(node, ast.ImportFrom) for name in node.names]
        if "_" not in imported:
            continue
        bound = [
            node.lineno
            for node in nodes
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id == "_"
        ]
        assert bound == [], path


# --- scripts, problems and refusals --------------------------------------------------------------------------------------


def test_scripts_take_their_texts_from_the_page():
    """A script has no text of its own, and selects nothing by a text, which has another form in another language."""
    template = (translations.ROOT / "templates" / "_script_texts.html").read_text()
    offered = set(re.findall(r'data-name="([a-z-]+)"', template))
    used: set[str] = set()
    for path in sorted((translations.ROOT / "static").glob("*.js")):
        if path.name == "api-docs.js":
            continue
        source = re.sub(r"^\s*//.*|\s// .*", "", path.read_text(), flags=re.M)
        assert "aria-label^=" not in source, path.name
        texts = re.findall(r'"([A-Z][a-z]+[ .][^"\n]*|[A-Z][a-z]+ed)"|`([A-Z][a-z]+ [^`\n]*)`', source)
        assert texts == [], path.name
        used |= set(re.findall(r'"([a-z-]+)"', source)) & offered
    assert offered - used - {f"{name}-one" for name in used} == set()


def test_the_texts_of_scripts_are_on_each_page_in_the_language_of_the_reader(german_offered):
    with translation.override("de"):
        html = render_to_string("base.html")
    texts = html.partition('<template id="script-texts">')[2].partition("</template>")[0]
    assert "Der Server ist nicht erreichbar." in texts
    assert "The server" not in texts


@pytest.mark.parametrize(
    ("message", "german"),
    [
        ("is missing", "fehlt"),
        ("must be a number or null", "muss eine Zahl oder null sein"),
        ("must have at least 1 entry, has 0", "muss mindestens 1 Eintrag haben, hat 0"),
        ("must have at most 5 characters, has 9", "darf höchstens 5 Zeichen haben, hat 9"),
        ("must be one of 1, 2 and 3 more", "muss einer dieser Werte sein: 1, 2 und 3 weitere"),
        ("must be one of the choices", "muss eine der Möglichkeiten sein"),
        ("must be a date such as 2026-11-30", "muss ein Datum wie 2026-11-30 sein"),
        ('must be an object, such as {"name": "value"}', 'muss ein Objekt sein, wie {"name": "value"}'),
        ('must match the pattern ^{text}$"\n', 'muss dem Muster ^{text}$"\n entsprechen'),
        ("has a problem {that} is not known", "has a problem {that} is not known"),
    ],
)
def test_a_problem_is_translated_where_a_page_shows_it(message: str, german: str):
    assert translate_problem(message) == message
    with translation.override("de"):
        assert translate_problem(message) == german


def test_the_problems_of_a_schema_are_all_translated():
    formats = {name: {"format": name} for name in error_messages.FORMAT_LABELS}
    types = {name: {"type": name} for name in error_messages._TYPES}
    schemas = [*formats.values(), *types.values(), {"const": 1}, {"enum": [1, 2]}, False, {"not": {}}]
    schemas += [{"minLength": 90}, {"maxLength": 1}, {"pattern": "^a$"}, {"oneOf": [True, True]}]
    with translation.override("de"):
        for schema in schemas:
            for value in ("bc", 3, None):
                for problem in error_messages.list_problems(schema, value, matches=lambda *_: False):
                    assert translate_problem(problem.message) != problem.message, problem


def test_a_refusal_is_translated_where_a_page_shows_it():
    refusals = [
        AlreadyDecided("ana@example.org has already decided this: reject."),
        Expired(),
        PayloadInvalid.at("/note", "must not be empty"),
    ]
    assert [refusal_text(one) for one in refusals] == [one.detail for one in refusals]
    with translation.override("de"):
        assert [refusal_text(one) for one in refusals] == [
            "ana@example.org hat bereits entschieden: abgelehnt.",
            "Die Frist dieser Anfrage ist abgelaufen. Es ist nichts geschehen.",
            "/note darf nicht leer sein.",
        ]
