"""Find words that this project has replaced by terms of the field: ``python tests/language.py PATH...``.

Reads the comments, docstrings and sentences in string literals of Python files, the text of templates and Markdown,
comments and strings of scripts and style sheets, and the names of modules, templates, classes, functions and constants.
Identifiers in backticks, code blocks and single words in string literals (codes, keys) are not texts.
"""

from __future__ import annotations

import ast
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

_NOUN = r"(?:an?|the|this|these|those|each|every|one|another|other|any|its|all|no|open|expired|answered|ended|own|of)"


@dataclass(frozen=True)
class Replaced:
    """A pattern for a text, the words to use instead, and the contexts in which the word is the right one."""

    pattern: str
    use: str
    unless: tuple[str, ...] = ()
    only_in: str = ""

    def regex(self) -> re.Pattern[str]:
        return re.compile(rf"(?<![\w-])(?:{self.pattern})(?![\w-])", re.IGNORECASE)


TEXTS = (
    # Sentences: the actor has a name, a requirement is "must", a reference has an antecedent.
    Replaced(r"(?:is|are|was) nobody'?s?", "name the actor: no reviewer, no user, cannot"),
    Replaced(r"nobody(?:'s)?", "name the actor: no reviewer, no worker, no user"),
    Replaced(r"whoever|whosoever", "name the actor: the reviewer who, the user who, the worker that"),
    Replaced(r"somebody(?:'s)?", "name the actor: a reviewer, a user, another worker"),
    Replaced(r"stands?|stood|standing", "is, remains, applies, is valid", (r"stands? for", r"standing[- ]rules?")),
    Replaced(r"go(?:es)? on|went on|going on|gone on", "continue, continues, continued", (r"what is going on",)),
    Replaced(r"told", "notified, shown, reported, listed"),
    Replaced(r"tells? of|telling|tellings", "lists, reports; delivery attempt"),
    Replaced(
        r"words?",
        "text, label, message, term, decision, answer",
        (
            r"(?:key|reserved|replaced|whole|quoted|common|stop|split into|\d|per)[ -]words?",
            r"words? (?:boundar|count|per|list|length|wrap|break)\w*",
            r"word (?:for|by) word",
        ),
    ),
    Replaced(r"said", "reported, answered, recorded", (r"that said",)),
    Replaced(r"(?:to|of) which", "start a new sentence with a subject", (r"(?:the|an?) \w+ (?:to|of) which",)),
    Replaced(r"(?:has|have|had) to be", "must be"),
    Replaced(r"may not", "cannot, must not"),
    Replaced(r"(?:is|are) to be", "must be"),
    Replaced(
        r"called by", "delete it: git grep lists callers", (r"(?:be|is|are|was|not|been|function|method) called by",)
    ),
    Replaced(r"anew", "again, a new one"),
    Replaced(r"(?:is|are) all there (?:is|are)", "name what there is"),
    # Terms: one concept, one word.
    Replaced(
        r"(?:tak(?:e|es|en|ing)|took) (?:\w+ )?back|taking-back", "compensate, compensation (effects); undo (decisions)"
    ),
    Replaced(r"giv(?:e|es|en|ing) (?:it |them )?back|gave back", "return, release"),
    Replaced(r"desks?(?:'s)?", "inbox; reconciliation admin; reviewer actions", (r"help desk",)),
    Replaced(r"bells?", "notification, notify"),
    Replaced(r"rungs?|ladders?|climb(?:s|ed|ing)?", "escalation level, escalate"),
    Replaced(
        r"letters?",
        "delivery attempt, event, dead letter",
        (
            r"dead[- ]letters?",
            r"letters? (?:and|or) digits",
            r"(?:capital|lower|upper|small|look-alike|latin|cyrillic|greek|accented|single|first|other|of) letters?",
        ),
        r"webhook|deliver|outbox|dead_letter",
    ),
    Replaced(r"doubts?|doubtful|doubted", "unknown outcome"),
    Replaced(r"(?:its|his|her|their|whose) turn", "lease (of a worker); when it is due", (r"in its turn",)),
    Replaced(r"heard", "notified, received", (r"heard of",)),
    Replaced(r"put(?:s|ting)? off", "defer, next attempt at"),
    Replaced(r"voices?", "vote"),
    Replaced(r"lineage", "child runs"),
    Replaced(r"famil(?:y|ies)", "parent and child runs", (r"(?:address|font|socket|type)[ -]famil(?:y|ies)",)),
    Replaced(r"poses? as|posing as", "look-alike of"),
    Replaced(r"alphabets?", "scripts, confusables"),
    Replaced(
        r"typed",
        "entered; unsent input; draft",
        (r"(?:un|keyword-only, |fully |statically |strongly |is )typed (?:dict|value|argument)",),
    ),
    Replaced(r"moments?", "time, datetime", (r"(?:a|at the|same|very|present|last|any) moments?",)),
    Replaced(
        rf"{_NOUN} waits?(?:'s)?|waits'|wait's",
        "interrupt (code, API), request (pages)",
        (r"(?:this|each|one|another|other|all|no) waits (?:for|until|on|in|at|behind|there|here|longer|too)",),
    ),
    Replaced(
        rf"{_NOUN} questions?(?:'s)?|questions'|question's",
        "interrupt (code, API), request (pages)",
        (
            r"(?:review|follow-up|frequently asked|in|without|out of|beyond) questions?",
            r"in question",
            r"ask\w* (?:\w+ )?\w+ questions?",
        ),
    ),
    Replaced(r"(?:runs?|it|they) (?:is|are|was|were) held|held back", "is on hold; can be undone for"),
    Replaced(r"looks? again|looked again|looking again", "revalidate, check again"),
    Replaced(r"announc(?:e|es|ed|ing|ements?)", "publish, outbox, event"),
    Replaced(r"doors?", "entry point, endpoint"),
    Replaced(r"stor(?:y|ies)(?:'s)?", "timeline, history", (r"user stor(?:y|ies)",)),
    Replaced(r"levers?", "action, control"),
    Replaced(r"foresee(?:n|s|ing)?|foresaw", "plan, predict"),
    Replaced(
        r"drawn?",
        "rendered, shown",
        (
            r"drawn? (?:at|by|from|again)",
            r"drawn?\b.{0,40}(?:random|chance|seed)",
            r"(?:random|chance|seed).{0,40}\bdrawn?",
        ),
    ),
    Replaced(r"(?:comes?|came) second", "the request that arrives later, the losing request"),
    Replaced(r"more than nothing", "greater than zero"),
    Replaced(r"how it came here", "History"),
)

#: Parts of names (split at underscores and capitals) and what to use instead.
NAMES = {
    part: use
    for parts, use in {
        "nobody": "no reviewer, unassigned",
        "whoever somebody": "name the actor: reviewer, worker, user",
        "anybody everybody": "any_user, all_users",
        "anew": "again",
        "stands standing stood": "status, is_current, applies",
        "told tell tells heard": "notified, reported",
        "telling tellings letter letters": "delivery_attempt",
        "word words saying phrases": "label, text, message",
        "say says said": "render, report, answered",
        "desk": "inbox, reviewer_actions, reconciliation",
        "bell": "notify, notification",
        "rung rungs ladder climb climbed": "escalation_level, escalate",
        "doubt doubts": "unknown_outcome",
        "voice voices": "vote",
        "lineage family": "child_runs",
        "alphabet alphabets": "script",
        "typed kept keeping": "draft, stored",
        "moment moments": "datetime",
        "picking picked": "bulk, selected",
        "story stories": "timeline, history",
        "door": "entry_point",
        "house": "project",
        "lever levers": "run_actions",
        "drawn": "rendered",
        "wrong": "validation_error, invalid",
        "foresee foreseen": "plan, planned",
        "announce announced announcement announcements announcing": "outbox, event, publish",
        "screens": "page_queries",
        "undoing": "compensating",
        "waits": "interrupts",
        "pull": "perform",
        "beat": "heartbeat",
        "plots": "charts",
        "shape shapes": "serializer, schema",
        "sheet": "csv",
    }.items()
    for part in parts.split()
}

#: Names that contain such a part and are right: a term of the field, or a name of another library.
RIGHT_NAMES = re.compile(
    r"standing_?rules?|dead_?letters?|keywords?|passwords?|font_family|socket_family|get_words|reserved_words|stop_words|case_letter|PUBLIC_ID_ALPHABET|^ALPHABET$"
    r"|look_?alike_letters?|confusable_letters?|thousands?_sep|user_stor(?:y|ies)|wrong_(?:password|key|origin|secret|type)",
    re.IGNORECASE,
)

#: The list itself, data that is not ours, generated pages whose source is checked, and recorded old versions.
IGNORED = re.compile(
    r"(^|/)(\.venv|\.git|node_modules|upgrades|__pycache__)(/|$)|tests/(?:test_)?language\.py$|\.lock$|confusables\.txt$|LICENSE$"
)
TEXT_SUFFIXES = {".py", ".html", ".txt", ".md", ".js", ".css"}
VISIBLE_ATTRIBUTES = re.compile(r'\b(?:title|aria-label|placeholder|alt|content|data-confirm|label)="([^"]*)"')

_REGEXES = [
    (entry, entry.regex(), [re.compile(text.replace(" ", r"\s+"), re.IGNORECASE | re.DOTALL) for text in entry.unless])
    for entry in TEXTS
]
#: One pass over a text in which nothing was replaced, in place of one for each entry.
_ANY = Replaced("|".join(f"(?:{entry.pattern})" for entry in TEXTS), "").regex()


@dataclass(frozen=True, order=True)
class Hit:
    path: str
    line: int
    word: str = field(compare=False)
    use: str = field(compare=False)
    kind: str = field(compare=False)

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.kind}: {self.word} -> {self.use}"


def hits_in(path: Path, shown: str) -> list[Hit]:
    """Return what is replaced in one file, in the order of its lines."""
    found = [Hit(shown, 1, word, use, "file name") for word, use in replaced_in_name(path.stem.strip("_"))]
    text = path.read_text(encoding="utf-8", errors="replace")
    if path.suffix == ".py":
        found += names_in(text, shown)
    for line, words, kind in texts_of(path, text):
        for offset, word, use in replaced_in_text(words, shown):
            found.append(Hit(shown, line + words.count("\n", 0, offset), word, use, kind))
    return sorted(found)


def texts_of(path: Path, text: str) -> Iterator[tuple[int, str, str]]:
    if path.suffix == ".py":
        yield from texts_of_python(text)
    elif path.suffix == ".md":
        yield 1, without_code(text), "text"
    elif path.suffix in (".html", ".txt"):
        yield 1, visible_in_template(text), "template"
    else:
        yield 1, comments_and_strings(text), "script"


def replaced_in_text(text: str, shown: str) -> Iterator[tuple[int, str, str]]:
    if not _ANY.search(text):
        return
    taken: list[tuple[int, int]] = []  # a longer pattern comes first in the table and covers a shorter one
    for entry, regex, exceptions in _REGEXES:
        if entry.only_in and not re.search(entry.only_in, shown):
            continue
        for match in regex.finditer(text):
            start, end = match.span()
            if any(start < until and end > since for since, until in taken):
                continue
            since, until = max(0, start - 60), min(len(text), end + 60)
            right = (other for exception in exceptions for other in exception.finditer(text, since, until))
            if any(start < other.end() and end > other.start() for other in right):
                continue
            taken.append((start, end))
            yield start, " ".join(match.group().split()), entry.use


def replaced_in_name(name: str) -> Iterator[tuple[str, str]]:
    remaining = RIGHT_NAMES.sub("", name)
    for part in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", remaining):
        if use := NAMES.get(part.lower()):
            yield name, use


def names_in(source: str, shown: str) -> Iterator[Hit]:
    """Classes, functions and constants of modules. A test's name is a sentence, and is checked as one."""
    tree = ast.parse(source)
    for node in definitions_in(tree):
        if node.name.startswith("test_"):
            for _offset, word, use in replaced_in_text(node.name.removeprefix("test_").replace("_", " "), shown):
                yield Hit(shown, node.lineno, word, use, "test name")
        else:
            for name, use in replaced_in_name(node.name):
                yield Hit(shown, node.lineno, name, use, "name")
    for statement in tree.body:
        targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
        for target in targets:
            if isinstance(target, ast.Name):
                for name, use in replaced_in_name(target.id):
                    yield Hit(shown, statement.lineno, name, use, "name")


def definitions_in(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    """Walk the statements alone: an expression defines nothing."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.expr):
            continue
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node
        yield from definitions_in(node)


def texts_of_python(source: str) -> Iterator[tuple[int, str, str]]:
    """Comments (those on successive lines as one text) and string literals that hold more than one word."""
    lines = iter(source.splitlines(keepends=True))
    comment_since, comment = 0, ""
    for token in tokenize.generate_tokens(lambda: next(lines, "")):
        if token.type == tokenize.COMMENT:
            if comment and token.start[0] == comment_since + comment.count("\n") + 1:
                comment += "\n" + token.string.lstrip("#: ")
            else:
                if comment:
                    yield comment_since, without_quoted_code(comment), "comment"
                comment_since, comment = token.start[0], token.string.lstrip("#: ")
        elif token.type == tokenize.STRING or tokenize.tok_name[token.type] == "FSTRING_MIDDLE":
            words = _literal(token)
            if " " in words.strip() or re.fullmatch(r"[A-Z][a-z]+\.?", words):
                yield token.start[0], without_quoted_code(words), "text"
    if comment:
        yield comment_since, without_quoted_code(comment), "comment"


def _literal(token: tokenize.TokenInfo) -> str:
    if token.type != tokenize.STRING:
        return token.string
    prefix, body = re.match(r"([A-Za-z]*)(.*)", token.string, re.DOTALL).groups()  # type: ignore[union-attr]
    quote = 3 if body.startswith(('"""', "'''")) else 1
    body = body[quote:-quote]
    return re.sub(r"\{[^{}]*\}", lambda part: "x" * len(part.group()), body) if "f" in prefix.lower() else body


def without_code(markdown: str) -> str:
    return without_quoted_code(re.sub(r"^( *)(```|~~~).*?^\1\2", _blank, markdown, flags=re.DOTALL | re.MULTILINE))


def without_quoted_code(text: str) -> str:
    """Blank code in backticks, tags except what a reader sees of them, and addresses and paths."""
    text = re.sub(r"(`+)(?:(?!\1).)+?\1", _blank, text, flags=re.DOTALL)
    text = re.sub(r"</?[a-z][^<>]*>", lambda tag: _keep(tag, VISIBLE_ATTRIBUTES), text)
    return re.sub(
        r"(?:https?:/|(?<![^\s(\"'])\.{0,2})/\S+|\]\([^)]*\)|\b[\w/-]+\.(?:md|py|html|css|js)\b", _blank, text
    )


def visible_in_template(text: str) -> str:
    """Blank what a reader does not see; strings in tags with more than one word are messages."""
    text = re.sub(r"\{%-?.*?%\}|\{\{.*?\}\}", lambda tag: _keep(tag, r'"([^"]*\s[^"]*)"'), text, flags=re.DOTALL)
    text = re.sub(r"<(script|style)\b.*?</\1>", _blank, text, flags=re.DOTALL)
    return re.sub(r"<[^!][^>]*>", lambda tag: _keep(tag, VISIBLE_ATTRIBUTES), text)


def comments_and_strings(text: str) -> str:
    kept = r"""/\*(.*?)\*/|(?<!:)//([^\n]*)|"([^"\n]*\s[^"\n]*)"|'([^'\n]*\s[^'\n]*)'|`([^`]*\s[^`]*)`"""
    whole = re.match(r".*", text, re.DOTALL)
    assert whole
    return _keep(whole, re.compile(kept, re.DOTALL))


def _keep(match: re.Match[str], wanted: str | re.Pattern[str]) -> str:
    whole, result = match.group(), list(_blank(match))
    for found in re.finditer(wanted, whole):
        for group in range(1, (found.lastindex or 0) + 1):
            if found.group(group) is not None:
                result[found.start(group) : found.end(group)] = found.group(group)
    return "".join(result)


def _blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", match.group())


def files_under(paths: list[Path]) -> list[Path]:
    found: list[Path] = []
    for path in paths:
        below = sorted(path.rglob("*")) if path.is_dir() else [path]
        found += [each for each in below if each.is_file() and each.suffix in TEXT_SUFFIXES]
    return [path for path in found if not IGNORED.search(path.as_posix())]


def main(arguments: list[str]) -> int:
    paths = [Path(argument) for argument in arguments] or [Path()]
    hits = [hit for path in files_under(paths) for hit in hits_in(path, path.as_posix())]
    folders: Counter[str] = Counter()
    for hit in hits:
        sys.stdout.write(f"{hit}\n")
        folders[str(Path(hit.path).parent)] += 1
    for folder, count in sorted(folders.items()):
        sys.stdout.write(f"{count:6} {folder}\n")
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(Counter(hit.kind for hit in hits).items()))
    sys.stdout.write(f"{len(hits):6} in all{f' ({kinds})' if kinds else ''}\n")
    return 1 if hits else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
