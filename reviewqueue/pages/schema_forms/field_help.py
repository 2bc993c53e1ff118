"""Help texts of fields: rules from the schema, labels of choices and branches, why a box takes JSON.

Texts of the agent (titles, descriptions) are shown unchanged, up to a maximum length.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from django.template.defaultfilters import filesizeformat
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, gettext_noop, ngettext

from ledger import exact_json
from reviewqueue.pages.schema_forms.fields import (
    ABSENT,
    CHECKS,
    CHOICE,
    DATE,
    DATE_TIME,
    ENTRIES,
    FILE,
    FIXED,
    INTEGER,
    JSON,
    LINE,
    LINES,
    LIST,
    NUMBER,
    TIME,
    UNCHANGEABLE,
)
from reviewqueue.text.numbers import number_label
from reviewqueue.text.problem_texts import translate_kind
from runs import schemas
from runs.schemas.attachments import rule_of
from runs.schemas.error_messages import FORMAT_LABELS

_MAX_LABEL = 200
_MAX_HINT = 1_000
_MAX_REMARK = 80
_OTHER_PATTERN = gettext_noop("in a certain form, which is checked when you send it")

INPUT_MODES = {"email": "email", "uri": "url"}

ANYTHING = gettext_noop("it accepts any value")
ANY_NAMES = gettext_noop("its members can have any names")
ANY_ENTRIES = gettext_noop("its entries can have any type")
TOO_DEEP = gettext_noop("it is nested too deeply for fields of its own")
TOO_MANY = gettext_noop("it has too many fields for a form")
OTHER_KIND = gettext_noop("the value shown has another type than the schema asks for")
FREE_RULES = gettext_noop("its schema has rules that a field cannot show")
CONDITIONAL = gettext_noop("only with some of the other answers")
OTHER_TYPES = gettext_noop("its schema names no type, so that a value of another type can be valid")
WHOLE_ANSWER = gettext_noop("it is sent instead of the fields above")
NOTHING_TO_FILL = gettext_noop("it has no fields: it can only be sent or left out")

_TYPE_LABELS = {
    "string": gettext_lazy("Text"),
    "number": gettext_lazy("Number"),
    "integer": gettext_lazy("Whole number"),
    "boolean": gettext_lazy("Yes or no"),
    "array": gettext_lazy("List"),
    "object": gettext_lazy("Several fields"),
    "null": gettext_lazy("Nothing (null)"),
}


def truncate(text: Any, limit: int = _MAX_LABEL) -> str:
    """Return at most ``limit`` characters of a text; an ellipsis marks a truncated one."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def hint(schema: Any) -> str:
    """Return the agent's description of a field."""
    return truncate(schema.get("description", ""), _MAX_HINT) if isinstance(schema, dict) else ""


def value_label(value: Any) -> str:
    """Return the label of a single value: a text as it is, any other value and the empty text as JSON."""
    return value_labels([value])[0]


def value_labels(values: Sequence[Any]) -> list[str]:
    """Return the labels of values: the texts if all are texts, else JSON, so that "1" and 1 differ."""
    bare = all(isinstance(value, str) and value.strip() for value in values)
    return [value if bare else exact_json.dumps(value) for value in values]


def sent_as(title: str, value: Any) -> str:
    """Return the exact value behind a title of the agent, so that reviewers see what they send; empty where both agree."""
    return exact_json.dumps(value) if title and title != value else ""


def branch_label(schema: Any, *, kind: str, number: int) -> tuple[str, bool]:
    """Return the label of a branch (its title, else its constant or type), and whether the product chose it."""
    if isinstance(schema, dict) and schema.get("title"):
        return truncate(schema["title"]), False
    if isinstance(schema, dict) and "const" in schema:
        return truncate(value_label(schema["const"])), False
    types = schema.get("type", kind) if isinstance(schema, dict) else kind
    name = types if isinstance(types, str) else ""
    if name in _TYPE_LABELS:
        return str(_TYPE_LABELS[name]), True
    return _("One of several values") if kind == CHOICE else _("Option {number}").format(number=number), True


def size(value: Any) -> str:
    """Return the size of a value that no control shows."""
    number = len(exact_json.dumps(value))
    return ngettext("{number} character", "{number} characters", number).format(number=number_label(number))


def remark(schema: Any, proposed: Any, initial: Any) -> str:
    """Return whether a field with a default shows the proposed value, the default, or neither."""
    if not isinstance(schema, dict) or "default" not in schema:
        return ""
    default = truncate(exact_json.dumps(schema["default"]), _MAX_REMARK)
    if proposed is not ABSENT:
        return _("shows the proposed value; the default is {default}").format(default=default)
    if initial is not ABSENT:
        return _("filled in with the default")
    return _("the default, {default}, is not filled in").format(default=default)


def rule(schema: Any, widget: str, *, why_json: str = "") -> str:
    """Return what a field requires beyond its type, such as "at least 1, at most 5"."""
    if isinstance(schema, dict) and "enum" in schema and widget in (LINE, LINES, NUMBER):
        return _("one of {number} listed values").format(number=number_label(len(schema["enum"])))
    if widget == JSON:
        return _("JSON, because {reason}").format(reason=_(why_json or ANYTHING))
    if not isinstance(schema, dict) or widget in (CHOICE, FIXED, UNCHANGEABLE):
        return ""
    if widget in (LIST, ENTRIES, CHECKS):
        return _list_rule(schema, widget)
    rules = [_(text).format(limit=exact_json.dumps(schema[keyword])) for keyword, text in _LIMITS if keyword in schema]
    if schema.get("minLength", 0) > 1:
        rules.append(_("at least {number} characters").format(number=schema["minLength"]))
    if "maxLength" in schema:
        text = ngettext("at most {number} character", "at most {number} characters", int(schema["maxLength"]))
        rules.append(text.format(number=schema["maxLength"]))
    if widget == INTEGER:
        rules.insert(0, _("a whole number"))
    if widget == FILE:
        rules.append(_file_rule(schema))
    elif "format" in schema and widget not in (DATE, DATE_TIME, TIME):
        rules.append(translate_kind(FORMAT_LABELS[schema["format"]]))
    if "pattern" in schema:
        rules += _pattern_rule(schema)
    return ", ".join(rules)


def _file_rule(schema: dict[str, Any]) -> str:
    """Return the types and the size that a file can have, such as "a PDF file of at most 4.8 MB"."""
    allowed = rule_of(schema)
    types = [media_type.rpartition("/")[2].upper() for media_type in allowed.media_types]
    size = filesizeformat(allowed.max_bytes).replace("\N{NO-BREAK SPACE}", " ")
    return _("a {types} file of at most {size}").format(types=_(" or ").join(types), size=size)


def _pattern_rule(schema: dict[str, Any]) -> list[str]:
    """Return an example of a text that matches: the agent's, or, where the agent describes nothing, one of ours. The
    pattern itself is never shown.
    """
    rules = {word: schema[word] for word in ("pattern", "minLength", "maxLength") if word in schema}
    texts = [one for one in schema.get("examples", ()) if isinstance(one, str)]
    example = next((one for one in texts if not schemas.validate(rules, one)), None)
    if example is not None:
        return [_("such as {example}").format(example=truncate(example, _MAX_REMARK))]
    if "description" in schema:
        return []
    text, example = pattern_example(schema["pattern"]) or ("", "")
    checked = rules if text == WHOLE_EXAMPLE else {"pattern": schema["pattern"]}
    is_valid = bool(example) and not schemas.validate(checked, example)
    return [_(text).format(example=example) if is_valid else _(_OTHER_PATTERN)]


def _list_rule(schema: dict[str, Any], widget: str) -> str:
    rules = [_("one entry per line")] if widget == ENTRIES else []
    if schema.get("minItems"):
        text = ngettext("at least {number} entry", "at least {number} entries", int(schema["minItems"]))
        rules.append(text.format(number=schema["minItems"]))
    if "maxItems" in schema:
        text = ngettext("at most {number} entry", "at most {number} entries", int(schema["maxItems"]))
        rules.append(text.format(number=schema["maxItems"]))
    if schema.get("uniqueItems") and widget != CHECKS:
        rules.append(_("no duplicates"))
    inner = schema.get("items")
    if widget == ENTRIES and isinstance(inner, dict):
        each = rule(inner, INTEGER if inner.get("type") == "integer" else "line")
        rules += [_("each {rule}").format(rule=each)] if each else []
    return ", ".join(rules)


_LIMITS = (
    ("minimum", gettext_noop("at least {limit}")),
    ("exclusiveMinimum", gettext_noop("more than {limit}")),
    ("maximum", gettext_noop("at most {limit}")),
    ("exclusiveMaximum", gettext_noop("less than {limit}")),
    ("multipleOf", gettext_noop("a multiple of {limit}")),
)


# --- examples of patterns ---------------------------------------------------------------------------------------------

# A reviewer cannot be expected to read a regular expression. Only sequences of characters, classes and counts are read,
# such as `^LT-[0-9]{4}$`. Callers check each example with the schema, so a pattern that means something else gives no
# example instead of a wrong one.

_ATOM = re.compile(r"\\(.)|\[((?:\\.|[^\]\\])+)\]|([^\\\[\](){}|^$*+?.])")
_COUNT = re.compile(r"\{([0-9]{1,2})(?:,[0-9]*)?\}|([*+?])")
_MAX_LENGTH = 40
WHOLE_EXAMPLE = gettext_noop("such as {example}")
_EXAMPLES = {
    (True, True): WHOLE_EXAMPLE,
    (True, False): gettext_noop("beginning with {example}"),
    (False, True): gettext_noop("ending with {example}"),
    (False, False): gettext_noop("containing {example}"),
}
_DIGITS, _UPPER, _LOWER = "1234567890", "ABCDEFGHJK", "abcdefghjk"
_CLASSES = {"d": _DIGITS, "w": _LOWER, "s": " "}
_RANGES = (("0-9", _DIGITS), ("\\d", _DIGITS), ("A-Z", _UPPER), ("a-z", _LOWER), ("\\w", _LOWER))


def pattern_example(pattern: str) -> tuple[str, str] | None:
    """Return what an example is ("such as {example}" ...) and the example; ``None`` for other patterns."""
    begins, ends = pattern.startswith("^"), pattern.endswith("$") and not pattern.endswith("\\$")
    inner = pattern[begins : len(pattern) - ends]
    text, at = "", 0
    while at < len(inner):
        atom = _ATOM.match(inner, at)
        characters = "" if atom is None else _characters(atom)
        if atom is None or not characters:
            return None
        count = _COUNT.match(inner, atom.end())
        at = atom.end() if count is None else count.end()
        number = 1 if count is None else int(count[1]) if count[1] else int(count[2] == "+")
        start = sum(char in characters for char in text)
        text += "".join(characters[(start + place) % len(characters)] for place in range(number))
        if len(text) > _MAX_LENGTH:
            return None
    if not text.strip():
        return None
    return _EXAMPLES[begins, ends], text


def _characters(atom: re.Match[str]) -> str:
    """Return characters that the atom matches; empty if they are not known."""
    escaped, members, literal = atom.groups()
    if literal:
        return str(literal)
    if escaped:
        return _CLASSES.get(escaped, "" if escaped.isalnum() else escaped)
    if members.startswith("^"):
        return ""
    return next(
        (characters for name, characters in _RANGES if name in members), members[0] if members[0] != "\\" else ""
    )
