"""Texts and names use the terms of the field; the words that were replaced stay out (``tests/language.py``)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import language

ROOT = Path(__file__).resolve().parent.parent
CHECKED = ["ledger", "runs", "reviewqueue", "templates", "static", "docs", "tests"]
CHECKED += ["README.md", "CHANGELOG.md", "manage.py"]
CHECKED += ["clients/python", "clients/typescript/src", "clients/typescript/test", "clients/typescript/README.md"]

#: Folders and files that are not rewritten yet. It only shrinks.
NOT_YET = [
    "docs/decisions/2026-11-29-quorum-signals-child-runs.md",
    "docs/operations.md",
    "docs/owners.md",
    "docs/reviewers.md",
    "ledger/actors.py",
    "ledger/datetimes.py",
    "ledger/effect_names.py",
    "ledger/effects.py",
    "ledger/errors.py",
    "ledger/prepared_queries.py",
    "reviewqueue/demo/purchase_agent.py",
    "reviewqueue/demo/support_agent.py",
    "reviewqueue/gateway.py",
    "reviewqueue/models.py",
    "reviewqueue/operations/doctor/row_consistency.py",
    "reviewqueue/operations/health.py",
    "reviewqueue/pages/call_labels.py",
    "reviewqueue/pages/code_labels.py",
    "reviewqueue/pages/live_updates.py",
    "reviewqueue/pages/runs/timeline_text.py",
    "reviewqueue/pages/runs/unclaimed_text.py",
    "reviewqueue/permission_sweep.py",
    "reviewqueue/permissions.py",
    "reviewqueue/queries/dead_letters.py",
    "reviewqueue/queries/inbox.py",
    "reviewqueue/queries/inbox_counts.py",
    "reviewqueue/tasks.py",
    "reviewqueue/templatetags/live_updates.py",
    "reviewqueue/templatetags/times.py",
    "reviewqueue/text/hidden_characters.py",
    "reviewqueue/text/json_values.py",
    "reviewqueue/text/times.py",
    "reviewqueue/webhooks/deliveries.py",
    "reviewqueue/webhooks/event_types.py",
    "reviewqueue/webhooks/outbox.py",
    "runs",
    "static/app.css",
    "templates/403_csrf.html",
    "templates/_hidden_characters_warning.html",
    "templates/interrupt/_history.html",
    "templates/runs/_timeline.html",
    "tests/api/calls.py",
    "tests/api/test_every_code.py",
    "tests/attack/attempts.md",
    "tests/attack/outputs.py",
    "tests/attack/routes.py",
    "tests/attack/test_activity_of_others.py",
    "tests/benchmarks/__main__.py",
    "tests/browser/test_deciding.py",
    "tests/browser/test_owners_desk_narrow.py",
    "tests/browser/test_reviewing.py",
    "tests/browser/test_runs.py",
    "tests/cases.md",
    "tests/crashes/use_cases/effects.py",
    "tests/crashes/use_cases/interrupts.py",
    "tests/journeys/test_demo.py",
    "tests/journeys/test_langchain_formats.py",
    "tests/journeys/test_langgraph.py",
    "tests/journeys/test_sample_agents_restarted.py",
    "tests/ledger/test_effect_query_edges.py",
    "tests/ledger/test_value_edges.py",
    "tests/mutation/line_coverage.py",
    "tests/mutation/test_mutants.py",
    "tests/nemesis/fault_schedule.py",
    "tests/nemesis/receiver.py",
    "tests/nemesis/test_many_interrupts.py",
    "tests/nemesis/test_nemesis.py",
    "tests/nemesis/test_receiver.py",
    "tests/nemesis/world.py",
    "tests/pages",
    "tests/planted/faults.py",
    "tests/races/race_runner.py",
    "tests/races/test_idempotent_creates.py",
    "tests/reviewqueue",
    "tests/running_server.py",
    "tests/runs",
    "tests/webhooks/webhook_builders.py",
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
