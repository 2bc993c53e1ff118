"""Texts and names use the terms of the field; the words that were replaced stay out (``tests/language.py``)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import language

ROOT = Path(__file__).resolve().parent.parent
CHECKED = ["ledger", "runs", "reviewqueue", "templates", "static", "docs", "tests"]
CHECKED += ["README.md", "CHANGELOG.md", "manage.py"]
CHECKED += ["clients/python", "clients/typescript/src", "clients/typescript/test", "clients/typescript/README.md"]

#: Not rewritten: names of columns and codes, and a transcript of the output of a trial.
NOT_YET = [
    "reviewqueue/models.py",
    "runs/run_status.py",
    "tests/api/test_every_code.py",
    "tests/attack/attempts.md",
    "tests/pages/desk.py",
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
