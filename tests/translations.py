"""The translations: which texts are marked in templates and code, and what the catalogues say about them.

    .venv/bin/python -m tests.translations            add new texts to each catalogue, drop old ones, compile it
    .venv/bin/python -m tests.translations --empty    also print the texts without a translation
    .venv/bin/python -m tests.translations --unmarked templates/inbox reviewqueue/pages/inbox
                                                      print what looks like a text and is not marked

Needs no gettext tools. A catalogue is sorted by its texts, so that two changes of it merge.
"""

from __future__ import annotations

import argparse
import ast
import gettext
import re
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from django.template.base import BLOCK_TAG_END, BLOCK_TAG_START, COMMENT_TAG_END, COMMENT_TAG_START
from django.utils.translation.template import templatize

ROOT = Path(__file__).resolve().parent.parent
CATALOGUES = sorted((ROOT / "reviewqueue" / "locale").glob("*/LC_MESSAGES/django.po"))
#: The number of leading texts of each function: context, singular, plural.
_FUNCTIONS = {
    **dict.fromkeys(("_", "gettext", "gettext_lazy", "gettext_noop"), ("text",)),
    **dict.fromkeys(("ngettext", "ngettext_lazy"), ("text", "plural")),
    **dict.fromkeys(("pgettext", "pgettext_lazy"), ("context", "text")),
    **dict.fromkeys(("npgettext", "npgettext_lazy"), ("context", "text", "plural")),
}
_CONTEXT_END = "\x04"
_PLURAL_END = "\x00"


@dataclass(frozen=True, order=True)
class Text:
    """A text that is translated. ``plural`` is empty for a text without a number."""

    text: str
    context: str = ""
    plural: str = field(default="", compare=False)

    @property
    def key(self) -> str:
        """The text as a compiled catalogue names it."""
        whole = f"{self.context}{_CONTEXT_END}{self.text}" if self.context else self.text
        return f"{whole}{_PLURAL_END}{self.plural}" if self.plural else whole


# --- texts of templates and code ----------------------------------------------------------------------------------------


def marked_texts() -> set[Text]:
    """Return every marked text of the templates and of the product's code. Raises ``SyntaxError`` with the file's name."""
    found: dict[Text, str] = {}
    for path in [*sorted((ROOT / "templates").rglob("*")), *_code()]:
        if path.suffix not in (".html", ".txt", ".py"):
            continue
        for text in texts_of(path):
            plural = found.setdefault(text, text.plural)
            if plural != text.plural and plural and text.plural:
                raise SyntaxError(f"{path}: {text.text!r} has two plurals: {plural!r} and {text.plural!r}")
            found[text] = plural or text.plural
    return {Text(text.text, text.context, plural) for text, plural in found.items()}


def _code() -> list[Path]:
    return [path for folder in ("ledger", "runs", "reviewqueue") for path in sorted((ROOT / folder).rglob("*.py"))]


def texts_of(path: Path) -> list[Text]:
    """Return the marked texts of a template or a module."""
    source = path.read_text()
    if path.suffix != ".py":
        if "i18n" not in source:
            return []
        source = _as_code(source, str(path))
    elif "gettext" not in source:
        return []
    calls = [node for node in ast.walk(ast.parse(source, str(path))) if isinstance(node, ast.Call)]
    return [text for call in calls if (text := _text_of(call, path)) is not None]


def _as_code(source: str, origin: str) -> str:
    """Return the marked texts of a template as calls of gettext, one per line."""
    code = templatize(source, origin=origin)
    calls = re.findall(r"""n?p?gettext\((?:u?(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"),? ?)+(?:,? ?count)?\)""", code)
    calls += re.findall(r"""\b_\((?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")\)""", code)
    return "\n".join(call.replace("\n", "\\n") for call in calls)


def _text_of(call: ast.Call, path: Path) -> Text | None:
    name = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
    members = _FUNCTIONS.get(name)
    if members is None:
        return None
    texts = [argument.value for argument in call.args[: len(members)] if isinstance(argument, ast.Constant)]
    if len(texts) != len(members) or not all(isinstance(text, str) for text in texts):
        if (call.args and isinstance(call.args[0], ast.JoinedStr | ast.BinOp)) or path.suffix != ".py":
            raise SyntaxError(f"{path}:{call.lineno}: {name}() must be called with a text, not with an expression")
        return None  # the text of a constant, marked with gettext_noop
    return Text(**dict(zip(members, map(str, texts), strict=True)))


# --- catalogues ---------------------------------------------------------------------------------------------------------


@dataclass
class Catalogue:
    """A parsed ``.po`` file: its head (comments and header entry) and the translations of each text."""

    path: Path
    head: str
    translations: dict[Text, list[str]]
    flagged: list[str]

    @property
    def language(self) -> str:
        return self.path.parent.parent.name

    def compiled(self) -> bytes:
        """Return the ``.mo`` file: texts without a translation are left out."""
        header = "".join(_strings(self.head.partition('msgstr ""')[2]))
        entries = {"": header} | {
            text.key: _PLURAL_END.join(forms) for text, forms in self.translations.items() if all(forms)
        }
        keys = sorted(entries, key=str.encode)
        offset, index, blob = 28 + 16 * len(keys), b"", b""
        values = [*keys, *(entries[key] for key in keys)]
        for value in values:
            encoded = value.encode()
            index += struct.pack("<II", len(encoded), offset + len(blob))
            blob += encoded + b"\0"
        return struct.pack("<7I", 0x950412DE, 0, len(keys), 28, 28 + 8 * len(keys), 0, offset) + index + blob

    def source(self) -> str:
        entries = [_entry(text, forms) for text, forms in sorted(self.translations.items())]
        return "\n".join([self.head.rstrip("\n") + "\n", *entries])


def read_catalogue(path: Path) -> Catalogue:
    """Parse a ``.po`` file as ``Catalogue.source`` writes it: comments only in its head, and ``#, `` flags.

    Of a text that occurs twice, as after a merge conflict, the translated entry counts. Marks of a conflict are skipped.
    """
    source = re.sub(r"^(<{7}|={7}|>{7}|\|{7}).*\n", "", path.read_text(), flags=re.M)
    head, _, body = source.partition("\n\n")
    translations: dict[Text, list[str]] = {}
    flagged = re.findall(r"^#[,~|].*", body, re.M)
    members: dict[str, str] = {}
    name = ""
    for line in [*body.splitlines(), "msgid "]:
        match = re.match(r"(msg\w+(?:\[\d\])?) ", line)
        if match:
            name = match[1]
            if name == "msgctxt" or (name == "msgid" and "msgid" in members):
                _add(members, translations)
                members = {}
        members[name] = members.get(name, "") + "".join(_strings(line))
    return Catalogue(path, head + "\n", translations, flagged)


def _add(members: dict[str, str], translations: dict[Text, list[str]]) -> None:
    forms = [value for key, value in members.items() if key.startswith("msgstr")]
    if "msgid" in members and forms:
        text = Text(members["msgid"], members.get("msgctxt", ""), members.get("msgid_plural", ""))
        if text not in translations or not all(translations[text]):
            translations[text] = forms


def _strings(source: str) -> Iterator[str]:
    for quoted in re.findall(r'"(?:[^"\\]|\\.)*"', source):
        yield ast.literal_eval(quoted)


def _quoted(text: str) -> str:
    if "\n" in text.rstrip("\n"):
        return '""\n' + "\n".join(_quoted(line) for line in text.splitlines(keepends=True))
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{escaped}"'


def _entry(text: Text, forms: list[str]) -> str:
    lines = [f"msgctxt {_quoted(text.context)}"] if text.context else []
    lines.append(f"msgid {_quoted(text.text)}")
    if text.plural:
        lines.append(f"msgid_plural {_quoted(text.plural)}")
        lines += [f"msgstr[{number}] {_quoted(form)}" for number, form in enumerate(forms)]
    else:
        lines.append(f"msgstr {_quoted(forms[0])}")
    return "\n".join(lines) + "\n"


def update(catalogue: Catalogue, texts: set[Text]) -> list[Text]:
    """Give the catalogue exactly these texts, write and compile it. Returns the texts without a translation."""
    known = catalogue.translations
    catalogue.translations = {}
    for text in texts:
        forms = known.get(text, [""])
        number = 2 if text.plural else 1
        catalogue.translations[text] = forms if len(forms) == number else [""] * number
    catalogue.path.write_text(catalogue.source())
    catalogue.path.with_suffix(".mo").write_bytes(catalogue.compiled())
    return sorted(text for text, forms in catalogue.translations.items() if not all(forms))


def compiled_texts(path: Path) -> dict[str, str]:
    """Return what a program reads from a compiled catalogue."""
    with path.open("rb") as file:
        return gettext.GNUTranslations(file)._catalog  # type: ignore[attr-defined]


# --- texts that are not marked ------------------------------------------------------------------------------------------

_TAGS = re.compile(
    rf"{re.escape(BLOCK_TAG_START)}.*?{re.escape(BLOCK_TAG_END)}|{{{{.*?}}}}"
    rf"|{re.escape(COMMENT_TAG_START)}.*?{re.escape(COMMENT_TAG_END)}",
    re.S,
)
_MARKED = re.compile(
    r"{%\s*blocktrans(?:late)?\b.*?{%\s*endblocktrans(?:late)?\s*%}|{%\s*comment\b.*?{%\s*endcomment\s*%}", re.S
)
_SHOWN_ATTRIBUTES = re.compile(r"""\b(?:aria-label|title|placeholder|alt|label|data-confirm)=("[^"]*"|'[^']*')""")
_MARKUP = re.compile(r"<(script|style|kbd|code)\b.*?</\1>|<(?:[^<>\"']|\"[^\"]*\"|'[^']*')*>|&[a-z#0-9]+;", re.S)
_HAS_TEXT = re.compile(r"[A-Za-z]{2,}")
_ARGUMENT = re.compile(
    r"""(?<![\w(=])(\w+)=("[^"]*"|'[^']*')|\|(?:default|yesno|default_if_none|add):("[^"]*"|'[^']*')"""
)


def unmarked_texts(path: Path) -> list[tuple[int, str]]:
    """Return the line and the text of what a template shows and does not mark."""
    source = path.read_text()

    def blank(match: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", match[0])

    source = _MARKED.sub(blank, source)
    found = []
    for tag in _TAGS.finditer(source):
        for argument in _ARGUMENT.finditer(tag[0]):
            text = (argument[2] or argument[3])[1:-1]
            if _is_sentence(text):
                found.append((source.count("\n", 0, tag.start() + argument.start()) + 1, text))
    source = _TAGS.sub(blank, source)
    for attribute in _SHOWN_ATTRIBUTES.finditer(source):
        if _HAS_TEXT.search(attribute[1]):
            found.append((source.count("\n", 0, attribute.start()) + 1, attribute[0]))
    source = re.sub(r"Review\s+queue", blank, _MARKUP.sub(blank, source))
    for number, line in enumerate(source.splitlines(), 1):
        if _HAS_TEXT.search(line):
            found.append((number, line.strip()))
    return sorted(found)


def _is_sentence(text: str) -> bool:
    """Return whether an argument of a template tag is a text to be read, not a name, a class or a path."""
    return bool(re.search(r"[A-Z][a-z]", text) or re.search(r"[a-z] [a-z]", text)) and "/" not in text


def unmarked_in_code(path: Path) -> list[tuple[int, str]]:
    """Return the line and the text of sentences in a module that are neither marked nor documentation."""
    tree = ast.parse(path.read_text(), str(path))
    skipped: set[int] = set()
    for node in ast.walk(tree):
        is_marked = isinstance(node, ast.Call) and _name_of(node.func) in {*_FUNCTIONS, "warning", "info", "error"}
        if is_marked or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            skipped.update(id(inner) for inner in ast.walk(node))
    found = []
    for node in ast.walk(tree):
        if id(node) not in skipped and isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
            if re.search(r"[A-Z][a-z]+( |$)|[a-z]{2} [a-z]{2}", text) and "<" not in text[:1]:
                found.append((node.lineno, text))
    return sorted(found)


def _name_of(function: ast.expr) -> str:
    return function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--empty", action="store_true", help="print the texts without a translation")
    parser.add_argument("--unmarked", nargs="+", type=Path, metavar="PATH", help="print what is not marked, and stop")
    chosen = parser.parse_args(arguments)
    for root in chosen.unmarked or []:
        for path in sorted(root.rglob("*")) if root.is_dir() else [root]:
            if path.suffix not in (".html", ".txt", ".py"):
                continue
            for line, text in unmarked_in_code(path) if path.suffix == ".py" else unmarked_texts(path):
                print(f"{path}:{line}: {text}")
    if chosen.unmarked:
        return 0
    texts = marked_texts()
    for path in CATALOGUES:
        empty = update(read_catalogue(path), texts)
        print(f"{path.relative_to(ROOT)}: {len(texts)} texts, {len(empty)} without a translation")
        for text in empty if chosen.empty else []:
            print(f"  {text.text!r}" + (f" ({text.context})" if text.context else ""))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
