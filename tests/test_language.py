"""Texts and names use the terms of the field; the words that were replaced stay out (``tests/language.py``)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import language

ROOT = Path(__file__).resolve().parent.parent
CHECKED = ["ledger", "runs", "reviewqueue", "templates", "static", "docs", "tests"]
CHECKED += ["README.md", "CHANGELOG.md", "manage.py"]

#: Folders and files that are not rewritten yet. It only shrinks.
NOT_YET = [
    "CHANGELOG.md",
    "docs/api.md",
    "docs/decisions",
    "docs/operations.md",
    "docs/owners.md",
    "docs/refusals.md",
    "docs/reviewers.md",
    "docs/webhooks.md",
    "ledger/actors.py",
    "ledger/datetimes.py",
    "ledger/effect_names.py",
    "ledger/effects.py",
    "ledger/errors.py",
    "ledger/exact_json.py",
    "ledger/prepared_queries.py",
    "manage.py",
    "reviewqueue/api/__init__.py",
    "reviewqueue/api/authentication.py",
    "reviewqueue/api/binary_bodies.py",
    "reviewqueue/api/long_poll.py",
    "reviewqueue/api/openapi",
    "reviewqueue/api/pagination.py",
    "reviewqueue/api/parsers.py",
    "reviewqueue/api/pg_listener.py",
    "reviewqueue/api/problems.py",
    "reviewqueue/api/responses",
    "reviewqueue/api/scoped_querysets.py",
    "reviewqueue/api/serializers",
    "reviewqueue/api/views",
    "reviewqueue/demo",
    "reviewqueue/drafts.py",
    "reviewqueue/gateway.py",
    "reviewqueue/migrations",
    "reviewqueue/models.py",
    "reviewqueue/operations/doctor",
    "reviewqueue/operations/health.py",
    "reviewqueue/pages/call_labels.py",
    "reviewqueue/pages/code_labels.py",
    "reviewqueue/pages/insights",
    "reviewqueue/pages/interrupt",
    "reviewqueue/pages/live_updates.py",
    "reviewqueue/pages/receipt",
    "reviewqueue/pages/runs",
    "reviewqueue/pages/schema_forms",
    "reviewqueue/pages/unsent_input.py",
    "reviewqueue/permission_sweep.py",
    "reviewqueue/permissions.py",
    "reviewqueue/queries/dead_letters.py",
    "reviewqueue/queries/inbox.py",
    "reviewqueue/queries/inbox_counts.py",
    "reviewqueue/queries/insights",
    "reviewqueue/tasks.py",
    "reviewqueue/templatetags",
    "reviewqueue/text",
    "reviewqueue/webhooks",
    "runs/child_runs.py",
    "runs/continuations.py",
    "runs/deadlines.py",
    "runs/decisions.py",
    "runs/external_signals.py",
    "runs/interrupts.py",
    "runs/leases.py",
    "runs/migrations",
    "runs/permits.py",
    "runs/policies.py",
    "runs/run_status.py",
    "runs/schemas",
    "runs/states.py",
    "runs/unclaimed_continuations.py",
    "runs/use_cases",
    "runs/verification.py",
    "static/app.css",
    "templates/403_csrf.html",
    "templates/_hidden_characters_warning.html",
    "templates/forms",
    "templates/interrupt",
    "templates/runs",
    "tests/api",
    "tests/attack",
    "tests/benchmarks",
    "tests/browser",
    "tests/cases.md",
    "tests/crashes",
    "tests/docs_session.py",
    "tests/journeys",
    "tests/ledger",
    "tests/many_waits.py",
    "tests/mutation",
    "tests/nemesis",
    "tests/outbound",
    "tests/pages",
    "tests/planted",
    "tests/postgresql.py",
    "tests/races",
    "tests/reviewqueue",
    "tests/running_desk.py",
    "tests/runs",
    "tests/serving",
    "tests/test_cases.py",
    "tests/test_docs.py",
    "tests/test_docs_of_operations.py",
    "tests/test_door.py",
    "tests/test_guides.py",
    "tests/test_house.py",
    "tests/webhooks",
]


def test_no_replaced_word_is_used() -> None:
    files = [path for path in language.files_under([ROOT / name for name in CHECKED]) if not is_not_yet(path)]
    hits = [str(hit) for path in files for hit in language.hits_in(path, path.relative_to(ROOT).as_posix())]
    assert not hits, "\n".join(["", *hits])


def is_not_yet(path: Path) -> bool:
    relative = path.relative_to(ROOT)
    return any(relative.is_relative_to(name) for name in NOT_YET)


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("a.py", '"""Nobody is\ntold."""\n', ["1 Nobody", "2 told"]),
        ("a.py", 'x = 1  # what the word\n# stands for, `told`\n# and whoever\n', ["1 word", "3 whoever"]),
        ("a.py", 'CODE = "told"\nf"{told} may not"\nf"/told/{x}"\n', ["2 may not"]),
        ("a.py", "def tell_all(): ...\nclass OwnersDesk: ...\n", ["1 tell_all", "2 OwnersDesk"]),
        ("a.py", "def test_nobody_is_asked(): ...\nWORDS = {}\n", ["1 nobody", "2 WORDS"]),
        ("a.py", "import keyword\n'a keyword and a password'\n", []),
        ("a.md", "# The wait\n\n```\nnobody\n```\n`told`, [told](told.md)\n", ["1 The wait", "6 told"]),
        ("a.html", '{# told #}<p class="word" title="a desk">\n{{ word }}said', ["1 told", "1 desk", "2 said"]),
        ("b.html", '{% if word %}{% show "a desk" %}{% endif %}<script>told</script>', ["1 desk"]),
        ("a.css", ".desk { color: red } /* the desk */\n", ["1 desk"]),
        ("a.js", 'const told = "who told"; // anew\n', ["1 told", "1 anew"]),
        ("desk.css", "", ["1 desk"]),
        ("webhooks.md", "a letter, a dead letter\n", ["1 letter"]),
    ],
)  # fmt: skip
def test_it_finds_replaced_words_in_texts_and_names(tmp_path: Path, name: str, text: str, found: list[str]) -> None:
    path = tmp_path / name
    path.write_text(text)
    assert [f"{hit.line} {hit.word}" for hit in language.hits_in(path, name)] == found
