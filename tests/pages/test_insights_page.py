"""The page of the measures and its sheet: the figures of the queries as text, and only over what the reader may see."""

from __future__ import annotations

import csv
import io
import re
from html.parser import HTMLParser

import pytest
from django.contrib.auth.models import User
from django.test import Client

from ledger import clock
from reviewqueue import permissions
from reviewqueue.pages.insights.chart_captions import _steps_finding
from reviewqueue.queries.insights import Insights, read_insights
from reviewqueue.queries.insights.csv_export import Figure, csv_text, figures_of
from reviewqueue.queries.insights.scope import insights_scope
from reviewqueue.text.times import duration_label
from runs.use_cases.complete_run import complete_run
from tests import builders
from tests.reviewqueue.a_busy_quarter import FOREIGN, Quarter, a_reader
from tests.runs.test_external_signals import an_event

pytestmark = pytest.mark.django_db


class Tables(HTMLParser):
    """The cells of every table of a page, by the title before it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tables: dict[str, list[list[str]]] = {}
        self.titles: list[str] = []
        self.inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs) -> None:
        self.inside = tag if tag in {"h2", "td"} else self.inside if tag in {"span", "i"} else ""
        if tag == "h2":
            self.titles.append("")
        if tag == "tr":
            self.tables.setdefault(self.titles[-1], []).append([])
        if tag == "td":
            self.tables[self.titles[-1]][-1].append("")

    def handle_endtag(self, tag: str) -> None:
        self.inside = "" if tag == self.inside else self.inside

    def handle_data(self, data: str) -> None:
        if self.inside == "h2":
            self.titles[-1] += data
        if self.inside == "td":
            self.tables[self.titles[-1]][-1][-1] += data


@pytest.fixture
def reader() -> User:
    return a_reader()


@pytest.fixture
def busy(reader: User, monkeypatch: pytest.MonkeyPatch) -> Quarter:
    rows = Quarter(now=clock.now(), decided=400, open_waits=50)
    rows.write()
    monkeypatch.setattr(clock, "now", lambda: rows.now)  # page and query use one time
    return rows


def signed_in(person: User) -> Client:
    client = Client()
    client.force_login(person)
    return client


def read(reader: User, *, days: int = 30, queue: str = "", agent: str = "") -> Insights:
    return read_insights(
        insights_scope(visible=permissions.read_scope(reader), days=days, now=clock.now(), queue=queue, agent=agent)
    )


def rows_of(tables: Tables, words: str) -> list[list[str]]:
    """The table below this title, without its line of names."""
    (title,) = (title for title in tables.titles if words in title)
    return [row for row in tables.tables[title] if row]


def test_the_tables_of_the_page_are_the_figures_of_the_queries(reader: User, busy: Quarter):
    found = read(reader, days=90)
    tables = Tables(signed_in(reader).get("/insights?days=90").text)

    waits = rows_of(tables, f"{found.waiting.ages.number} open requests")
    assert [(int(row[1]), int(row[2])) for row in waits] == list(found.waiting.bands.values())
    risks = {row[0].lower(): row[1:] for row in rows_of(tables, "-risk requests are decided")}
    for risk, lengths in found.deciding.risks.items():
        shown = [
            duration_label(it) for it in (lengths.p10, lengths.p50, lengths.p90, lengths.longest) if it is not None
        ]
        assert risks[risk] == [str(lengths.number), *shown]
    refused = {(row[1], row[0]): int(row[2]) for row in rows_of(tables, "decisions were refused")}
    assert refused == found.refused.codes
    resumed = rows_of(tables, "of resumed runs completed")
    assert [int(row[1]) for row in resumed] == [part.get("completed", 0) for part in found.resumed.parts.values()]
    spared = rows_of(tables, "steps were not done a second time")
    assert [tuple(map(int, row[1:])) for row in spared] == list(found.spared.parts.values())
    load = rows_of(tables, "Load per reviewer")
    assert [(int(row[1]), int(row[2])) for row in load] == [(it.decided, it.high_risk) for it in found.load]


def test_titles_are_findings_that_the_figures_bear(reader: User, busy: Quarter):
    found = read(reader)
    titles = " ".join(Tables(signed_in(reader).get("/insights").text).titles)
    kept, redone, _ = found.spared.totals()
    assert f"{found.refused.total} of {found.refused.submitted} decisions were refused" in titles
    assert f"{kept} of {kept + redone} steps were not done a second time" in titles
    completed, ended = (
        found.resumed.number("completed"),
        found.resumed.number("completed", "failed", "cancelled", "expired"),
    )
    assert f"resumed runs completed: {completed} of {ended} that ended" in titles
    assert f"Half of the high-risk requests are decided in {duration_label(found.deciding.risks['high'].p50)}" in titles


def test_a_period_a_queue_and_an_agent_can_be_chosen(reader: User, busy: Quarter):
    client = signed_in(reader)
    page = client.get("/insights?days=7&queue=purchasing&agent=mail-desk").text
    for chosen in ('value="7" selected', 'value="purchasing" selected', 'value="mail-desk" selected'):
        assert chosen in page
    assert 'href="/insights.csv?days=7&amp;queue=purchasing&amp;agent=mail-desk"' in page
    found = read(reader, days=7, queue="purchasing", agent="mail-desk")
    assert re.search(rf"<dd>\s*{found.waiting.ages.number}\s*<small>", page)
    assert f'value="{FOREIGN}"' not in page


def test_a_foreign_queue_is_an_empty_one(reader: User, busy: Quarter):
    client = signed_in(reader)
    foreign, missing = (client.get(f"/insights?queue={slug}").text for slug in (FOREIGN, "nowhere"))
    assert "No open requests" in foreign
    assert "No open requests" in missing
    assert "otto@example.org" not in foreign
    assert "otto@example.org" not in client.get("/insights?days=90").text


@pytest.mark.parametrize(
    "query",
    ["days=0", "days=1e9", "days=%00", "queue=%00", "queue='%22<script>", "agent=%F0%9F%98%80", "days=7&days=x"],
)
def test_a_choice_that_is_not_offered_is_ignored(reader: User, query: str):
    response = signed_in(reader).get(f"/insights?{query}")
    assert response.status_code == 200
    assert "<script>'" not in response.text
    assert signed_in(reader).get(f"/insights.csv?{query}").status_code == 200


def test_an_empty_installation_says_so_and_shows_no_chart(reader: User):
    page = signed_in(reader).get("/insights").text
    for words in (
        "No open requests",
        "No decisions in this period",
        "No decisions were submitted",
        "No run was resumed",
    ):
        assert words in page
    assert 'role="img"' not in page


def test_the_page_takes_a_bounded_number_of_statements(reader: User, busy: Quarter, django_assert_max_num_queries):
    client = signed_in(reader)
    with django_assert_max_num_queries(45):
        client.get("/insights?days=90")


def test_nothing_on_the_page_has_a_style_or_a_script_of_its_own(reader: User, busy: Quarter):
    main = signed_in(reader).get("/insights").text.partition("<main")[2]
    assert not re.search(r"\sstyle=|<style|<script|\son\w+=", main)
    assert main.count("<svg viewBox") == 6


def test_insights_need_a_sign_in(client: Client):
    for path in ("/insights", "/insights.csv"):
        assert client.get(path).headers["Location"].startswith("/account/login/")
        assert client.post(path).status_code in {302, 403, 405}


def test_the_sheet_has_every_figure_once(reader: User, busy: Quarter):
    response = signed_in(reader).get("/insights.csv?days=90")
    assert response["Content-Type"].startswith("text/csv")
    assert re.fullmatch(r'attachment; filename="insights-\d{4}-\d\d-\d\d-90-days.csv"', response["Content-Disposition"])
    lines = list(csv.reader(io.StringIO(response.text)))
    assert lines[0] == ["measure", "part", "figure", "unit", "value"]
    figures = {tuple(line[:3]): line[4] for line in lines[1:]}
    assert len(figures) == len(lines) - 1
    assert figures == {
        (it.measure, it.part, it.figure): "" if it.value is None else str(it.value)
        for it in figures_of(read(reader, days=90))
    }


@pytest.mark.parametrize(
    "address", ["=cmd|'/c calc'!A0", "+1@example.org", "-2@example.org", "@sum(a1)", "\t=1", "\r=1"]
)
def test_a_cell_that_would_be_a_formula_is_a_text(address: str):
    sheet = csv_text([Figure(measure="load", part=address, figure="decided", unit="number", value=3)])
    (_, line) = csv.reader(io.StringIO(sheet, newline=""))
    assert line[1] == f"'{address}"


def test_a_person_with_a_formula_for_an_address_is_inert_in_the_sheet(reader: User):
    plus = builders.a_reviewer("+ana@example.org")
    builders.decide(builders.a_waiting_interrupt(), plus)
    assert "load,'+ana@example.org,decided,number,1" in signed_in(reader).get("/insights.csv").text


def two_resumed_runs(person: User) -> None:
    """One request without a queue is open, two others were approved, and one of their runs completed."""
    builders.a_waiting_interrupt(an_event())
    for _ in range(2):
        builders.decide(builders.a_waiting_interrupt(), person)
    claimed = builders.claim(builders.an_agent(), limit=2)
    complete_run(agent=builders.an_agent(), run_id=claimed[0].run.public_id, token=claimed[0].lease.token, result=None)


def test_few_rows_have_no_percentages_and_contradict_each_other_nowhere():
    person = builders.a_person("ana@example.org", "engineering-reviewers", "agent-owners")
    builders.a_queue("engineering")
    two_resumed_runs(person)
    response = signed_in(person).get("/insights")
    page = " ".join(re.sub(r"<[^>]*>", " ", response.text).split())
    for words in (
        "The one open request is younger than 1 h",
        "2 medium-risk requests were decided, the slowest in",
        "2 decisions",
        "None of 2 decisions was refused",
        "The one resumed run that ended completed",
        "Resumed runs completed 1 of 1 that ended",
        "1 not ended",
        "The one step before a resume was not done a second time",
    ):
        assert words in page, words
    assert "90 % under" not in page
    assert "90 % within" not in page
    assert "100 % of resumed runs" not in page
    assert "No run was resumed" not in page
    assert "1 decisions" not in page


@pytest.mark.parametrize(
    ("kept", "redone", "resumed_runs", "words"),
    [
        (0, 0, 0, "No run was resumed from a checkpoint"),
        (0, 0, 1, "1 resumed run has not reached a checkpoint yet"),
        (0, 0, 64, "64 resumed runs have not reached a checkpoint yet"),
        (1, 0, 1, "The one step before a resume was not done a second time"),
        (0, 1, 1, "The one step before a resume was done a second time"),
        (2, 0, 1, "None of 2 steps was done a second time"),
        (1, 1, 1, "1 of 2 steps was not done a second time"),
        (110, 2, 9, "110 of 112 steps were not done a second time"),
    ],
)
def test_the_finding_on_steps_is_right_for_any_number(kept: int, redone: int, resumed_runs: int, words: str):
    assert _steps_finding(kept, redone, resumed_runs=resumed_runs) == words
