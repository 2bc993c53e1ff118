"""Refusals and problems of an answer in the reader's language.

Use cases and validators write English, for the API and for records. Pages translate what they show: a message that matches
none of these texts stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop, ngettext, pgettext_lazy

from ledger.errors import Refusal

_MESSAGES = (
    gettext_noop("is missing"),
    gettext_noop("choose one"),
    gettext_noop("is missing: {verdict} needs a reason"),
    gettext_noop("is missing: say why you make the rule"),
    gettext_noop("is missing: say why you revoke the rule"),
    gettext_noop("is not allowed here"),
    gettext_noop("is not allowed for verdict {verdict}"),
    gettext_noop("must be in the future"),
    gettext_noop("must be from 1 to {text}"),
    gettext_noop("must be at most {text} days from now"),
    gettext_noop("must have 1 to {text} printable characters"),
    gettext_noop("is missing: say what is wrong with the request"),
    gettext_noop("must be one or more of: {text}"),
    gettext_noop("is missing: it is needed without a request to copy"),
    gettext_noop("must be an approval request of {text}"),
    gettext_noop("must be the first request of its run, before any effect: reviewers would recognise the copy"),
    gettext_noop("must differ from those of the copied request"),
    gettext_noop("has no other person who could decide the request"),
    gettext_noop("has {text} open planted requests already; withdraw one, or wait"),
    gettext_noop("must be outside the standing rule {text}, which would approve such a request"),
    gettext_noop("must be a date and a time, such as {text}"),
    gettext_noop(
        "must not be a member that is named like a secret: the audit log and evidence files would show its value"
    ),
    gettext_noop("must have 1 to {text} characters"),
    gettext_noop("must have no NUL character"),
    gettext_noop("must have at most {text} bounds"),
    gettext_noop("is too long to be saved. Search for a shorter text"),
    gettext_noop("must be a queue that you lead"),
    gettext_noop("must be an agent that had a request in {text}"),
    gettext_noop("has a policy that lets no standing rule decide (standing_rules: never)"),
    gettext_noop("must end before the deadline of the request"),
    gettext_noop("must be the digest of a file that you attached here"),
    gettext_noop("must not be empty"),
    gettext_noop("must match the pattern {text}"),
    gettext_noop("is in the list more than once"),
    gettext_noop("is missing; it is required with {text}"),
    gettext_noop("has a name that is not allowed"),
    gettext_noop("is not a known member"),
    gettext_noop("must match exactly one of the allowed forms, matches {text}"),
    gettext_noop("must match one of the allowed forms"),
    gettext_noop("must not have this form"),
    gettext_noop("must have at least {count} of the required form, has {text}"),
    gettext_noop("must have at most {count} of the given form, has {text}"),
    gettext_noop("must have at least {count}, has {text}"),
    gettext_noop("must have at most {count}, has {text}"),
    gettext_noop("must have at least {count}"),
    gettext_noop("must have at most {count}"),
    gettext_noop("must be at least {text}"),
    gettext_noop("must be at most {text}"),
    gettext_noop("must be more than {text}"),
    gettext_noop("must be less than {text}"),
    gettext_noop("must be a multiple of {text}"),
    gettext_noop("must be one of the choices"),
    gettext_noop("must be among the choices"),
    gettext_noop("must be one of {text} and {number} more"),
    gettext_noop("must be one of {text}"),
    gettext_noop("must be of the type {text}"),
    gettext_noop("must have a decimal point and no separators, such as 1234.50"),
    gettext_noop("must be a date with a time such as {text}"),
    gettext_noop("must be a time such as {text}"),
    gettext_noop("must have a time zone of the list"),
    gettext_noop("is beyond the calendar of {text}; choose an offset"),
    gettext_noop("does not exist in {text}, because a clock change skips it"),
    gettext_noop("occurs twice in {text}, because of a clock change; choose {one} or {other}"),
    gettext_noop("has no offset in whole minutes in this zone; choose an offset"),
    gettext_noop('must be an object, such as {"name": "value"}'),
    gettext_noop("must not contain {text}: it has a field of its own"),
    gettext_noop("was not sent; reload the page"),
    gettext_noop("was sent twice; reload the page"),
    gettext_noop("does not match the form that was shown; reload the page"),
    gettext_noop("is empty; fill it in or remove it"),
    gettext_noop("is empty; fill it in"),
    gettext_noop("the chosen file is not attached; press “Attach” first"),
    gettext_noop("contains a character that cannot be stored"),
    gettext_noop("contains the character NUL"),
    gettext_noop("contains half of a surrogate pair"),
    gettext_noop("is nested deeper than {text} levels"),
    gettext_noop("contains a number that is too long"),
    gettext_noop("contains a number beyond 1e308"),
    gettext_noop("is a number that is too long"),
    gettext_noop("is a number beyond 1e308"),
    gettext_noop("contains {text}, which is not a JSON number"),
    gettext_noop("has a member twice in one object"),
    gettext_noop("is not JSON: {text}"),
    gettext_noop("must be exactly {text}"),
    gettext_noop("must not name another queue than {text}, with which it is shared"),
    gettext_noop("must be the number of a checkpoint of this run"),
    gettext_noop('must be a JSON object, such as {"amount": "12.50"}'),
    gettext_noop("must be true to approve this call"),
    gettext_noop("must be greater than zero"),
    gettext_noop("must be {kind}"),
)

_REFUSALS = (
    gettext_noop("The request was refused."),
    gettext_noop("The request does not have the expected shape."),
    gettext_noop("The database is busy. Nothing was changed. Send the request again."),
    gettext_noop("This key was used before for another request."),
    gettext_noop("The object has changed since you read it. Nothing was done. Read it again."),
    gettext_noop("You saw version {one}; the current version is {other}."),
    gettext_noop("Another decision was accepted first."),
    gettext_noop("{text} has already decided this: {verdict}."),
    gettext_noop("Your vote is already counted: {one} of {other}. Other people must cast the remaining votes."),
    gettext_noop("Your vote is already counted. Other people must cast the remaining votes."),
    gettext_noop("The deadline of this request has passed. Nothing was done."),
    gettext_noop("The agent withdrew this request. No decision is needed."),
    gettext_noop("Another answer made this request unnecessary."),
    gettext_noop("The run was cancelled, and this request with it."),
    gettext_noop("You do not have permission to do this."),
    gettext_noop("The policy requires a fresh second factor for this decision. Decide it on its page."),
    gettext_noop("The call has hidden or look-alike characters. Read it, then confirm that you have seen them."),
    gettext_noop("You started this run, so another person must decide."),
    gettext_noop("You planted this request, so another person must decide it."),
    gettext_noop("Another reviewer has claimed this request until {other} UTC."),
    gettext_noop("{text} has claimed this request until {other} UTC."),
    gettext_noop("Another reviewer has claimed this request."),
    gettext_noop("A response needs a message."),
    gettext_noop("The policy requires a reason."),
    gettext_noop("An edit needs the changed arguments."),
    gettext_noop("The answer needs an input."),
    gettext_noop("The person who approved this may no longer approve it. Ask again, for the reason {text}."),
    gettext_noop("The answer does not match the schema of the request."),
    gettext_noop("The policy of this reason does not allow this."),
    gettext_noop("No user can decide this request: its queue has no members, or all of them are excluded."),
    gettext_noop("Another worker has claimed this run."),
    gettext_noop("This run cannot continue yet."),
    gettext_noop("This decision can no longer be undone."),
    gettext_noop("The run is paused or will pause at its next safe point. No effect can begin."),
    gettext_noop("The run is ending and accepts no new work."),
    gettext_noop("The run has ended."),
    gettext_noop("The run has not ended. Only an ended run can be restarted."),
    gettext_noop("This run was restarted after its request expired."),
    gettext_noop("Too many requests, or too many refused attempts. Wait for the time in Retry-After."),
    gettext_noop("This file cannot be attached to the request."),
    gettext_noop("The file must have at most {one} bytes, not {other}."),
    gettext_noop("The file storage is not available, so nothing was stored. Attach the file again."),
    gettext_noop("The file storage is not available. Repeat the request."),
    gettext_noop("This request asks for no file."),
    gettext_noop("The file is empty."),
    gettext_noop("The content of the file is not, or not only, of the type {text}."),
    gettext_noop("You have attached {text} files to this request; more are not stored."),
    gettext_noop("The upload took too long and was discarded. Attach the file again."),
    gettext_noop("The scan of this installation found something harmful in the file."),
    gettext_noop("The file could not be scanned, so nothing was stored. Attach the file again."),
    gettext_noop("A file of the answer was erased meanwhile. Attach it again."),
    gettext_noop("The state or file was erased when its retention period ended. Only its record remains."),
    gettext_noop("The stored file is missing or was changed, so it cannot be returned."),
    gettext_noop("A person whom you chose no longer exists. Choose again. Nothing was changed."),
    gettext_noop("The text contains a character that cannot be stored."),
    gettext_noop("Other previews are being made. Try again in a moment."),
    gettext_noop("You own the agent {text}, so another lead must decide its requests."),
    gettext_noop("Leads and owners of the queue, owners of the agent and operators revoke a standing rule."),
    gettext_noop("Only leads of {text} can share a filter with it."),
    gettext_noop("Only leads of {text} can remove a filter that is shared with it."),
    gettext_noop("Only leads of {text} can share a reply with it."),
    gettext_noop("Only leads of {text} can remove a reply that is shared with it."),
    gettext_noop("You have {text} saved filters. Remove one first."),
    gettext_noop("{text} has {other} saved filters. Remove one first."),
    gettext_noop("You have {text} saved replies. Remove one first."),
    gettext_noop("{text} has {other} saved replies. Remove one first."),
    gettext_noop("Only the lead who planted the request can withdraw it."),
    gettext_noop("Only operators can keep a signal longer, because it can answer an interrupt."),
    gettext_noop("You started this run, so another owner must order its effects again."),
    gettext_noop("You started this run, so another owner must waive its compensations."),
    gettext_noop("Only owners of the hold and operators can lift it."),
    gettext_noop("Only owners of the effect and operators can waive its compensation."),
    gettext_noop("Only owners of the effect and operators can resolve it."),
)

#: What a value must be: the types and the formats of schemas.
_KINDS = (
    gettext_noop("text"),
    gettext_noop("a number"),
    gettext_noop("a whole number"),
    gettext_noop("true or false"),
    gettext_noop("null"),
    gettext_noop("an object"),
    gettext_noop("a list"),
    gettext_noop("the digest of an attached file, such as sha256:2c26b46b..."),
    gettext_noop("a date such as 2026-11-30"),
    gettext_noop("a time with its offset, such as 2026-11-30T14:00:00+01:00"),
    gettext_noop("a time of day with its offset, such as 14:00:00+01:00"),
    gettext_noop("a duration such as P3D or PT15M"),
    gettext_noop("an e-mail address"),
    gettext_noop("a host name"),
    gettext_noop("an IPv4 address such as 192.0.2.1"),
    gettext_noop("an IPv6 address such as 2001:db8::1"),
    gettext_noop("a complete web address or other URI"),
    gettext_noop("a UUID such as 2eb8aa08-aa98-11ea-b4aa-73b441d16380"),
)

#: Why a permit or a continuation is void, as it is stored.
_VOID_REASONS = (
    gettext_noop("the run is {status}"),
    gettext_noop("the run is completed"),
    gettext_noop("its worker released it"),
    gettext_noop("its lease was lost"),
    gettext_noop("it was handed back"),
    gettext_noop("nothing can be compensated now"),
    gettext_noop("authority was lost"),
    gettext_noop("a fact changed"),
    gettext_noop("undone"),
    gettext_noop("replaced by the permit {text}"),
)
_STATUSES = {
    "cancelled": pgettext_lazy("run", "cancelled"),
    "completed": pgettext_lazy("run", "completed"),
    "failed": pgettext_lazy("run", "failed"),
    "expired": pgettext_lazy("run", "expired"),
}
_COUNTED: dict[str, Callable[[int], str]] = {
    "character": lambda number: ngettext("{number} character", "{number} characters", number),
    "entr": lambda number: ngettext("{number} entry", "{number} entries", number),
    "member": lambda number: ngettext("{number} member", "{number} members", number),
}
_COUNT = r"[0-9]+ (?:characters?|entry|entries|members?)"
_KIND = "|".join(map(re.escape, sorted(_KINDS, key=len, reverse=True)))
_VERDICTS = {
    "approve": pgettext_lazy("decided", "approve"),
    "edit": pgettext_lazy("decided", "edit"),
    "reject": pgettext_lazy("decided", "reject"),
    "respond": pgettext_lazy("decided", "respond"),
    "answer": pgettext_lazy("decided", "answer"),
    "decline": pgettext_lazy("decided", "decline"),
}
_PARTS = {
    "verdict": "|".join(_VERDICTS),
    "status": "|".join(_STATUSES),
    "count": _COUNT,
    "kind": rf"(?:{_KIND})(?: or (?:{_KIND}))*",
}


def _pattern(message: str) -> re.Pattern[str]:
    """Return the expression that matches a message with any values."""
    parts = re.split(r"\{([a-z]+)\}", message)
    return re.compile(
        "".join(
            f"(?P<{part}>{_PARTS.get(part, '.+?')})" if at % 2 else re.escape(part) for at, part in enumerate(parts)
        ),
        re.DOTALL,
    )


_PATTERNS = [(message, _pattern(message)) for message in _MESSAGES]
_VOID_PATTERNS = [(reason, _pattern(reason)) for reason in _VOID_REASONS]
_REFUSAL_PATTERNS = [(sentence, _pattern(sentence)) for sentence in _REFUSALS]


def translate_problem(message: str) -> str:
    """Return a problem's message in the reader's language."""
    return _translate(message, _PATTERNS)


def refusal_text(refusal: Refusal) -> str:
    """Return the sentence of a refusal in the reader's language."""
    for problem in refusal.errors:
        if refusal.detail == f"{problem.pointer} {problem.message}.":
            return f"{problem.pointer} {translate_problem(problem.message)}."
    return _translate(refusal.detail, _REFUSAL_PATTERNS)


def void_reason_text(reason: str) -> str:
    """Return why a permit or a continuation is void, in the reader's language. A reason that a person gave stays."""
    return _translate(reason, _VOID_PATTERNS)


def _translate(message: str, patterns: list[tuple[str, re.Pattern[str]]]) -> str:
    for text, pattern in patterns:
        if found := pattern.fullmatch(message):
            return _filled(_(text), {name: _translated(name, value) for name, value in found.groupdict().items()})
    return message


def _filled(text: str, values: dict[str, str]) -> str:
    return re.sub(r"\{([a-z]+)\}", lambda part: values[part[1]], text)


def _translated(name: str, value: str) -> str:
    if name == "count":
        number, noun = value.split()
        form = next(form for stem, form in _COUNTED.items() if noun.startswith(stem))
        return form(int(number)).format(number=number)
    if name in ("verdict", "status"):
        return str((_VERDICTS if name == "verdict" else _STATUSES)[value])
    return translate_kind(value) if name == "kind" else value


def translate_kind(text: str) -> str:
    """Return "a number or null" in the reader's language."""
    kinds = re.findall(_KIND, text)
    return _(" or ").join(_(kind) for kind in kinds) if kinds else text
