"""Which submitted fields may be stored as a draft or shown again: an allow-list of the decision form's own names.

Whatever else a request holds (a password, a field that another form or a script added) is never stored or echoed. A field of
the decision form that is named like a secret is left out too: it travels with the decision and is in no draft.
"""

from __future__ import annotations

import re

from django.http import QueryDict

from runs.states import Verdict

_VERDICTS = "|".join(Verdict.values)
#: What a person fills in: a message, the fields of an input schema, the arguments of an edited call.
_ANSWER = re.compile(rf"message-(?:{_VERDICTS})|(?:input(?:-(?:{_VERDICTS}))?|arguments)(?:\..*)?", re.DOTALL)
#: What a draft stores besides: the choice, the ticks, the version that was read.
_STATE = re.compile(rf"verdict|since|state_version|content_digest|request_key|who|seen-[a-z0-9]+-(?:{_VERDICTS})")

_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_SECRET_WORDS = frozenset(
    {
        *("apikey", "credential", "credentials", "cvc", "cvv", "otp", "passcode", "passphrase", "passwd", "password"),
        *("passwords", "pin", "pwd", "secret", "secrets", "token", "totp"),
    }
)
#: "key" and "code" are secrets alone, or after one of these.
_SECRET_ALONE = frozenset({"key", "code"})
_BEFORE_SECRET = frozenset(
    {
        *(
            "access",
            "api",
            "auth",
            "authentication",
            "authorization",
            "backup",
            "encryption",
            "login",
            "mfa",
            "private",
        ),
        *("recovery", "secret", "security", "signing", "ssh", "time", "verification"),
    }
)


def is_field_of_decision(name: str) -> bool:
    """Tell whether a control of the decision form can have this name."""
    return bool(_ANSWER.fullmatch(name) or _STATE.fullmatch(name))


def is_named_like_a_secret(name: str) -> bool:
    """Return whether a segment of a control's name is password, token, key, code or the like."""
    return any(_says_secret(segment) for segment in name.split(".")[1:] or [name])


def _says_secret(segment: str) -> bool:
    words = [word.lower() for word in _WORD.findall(segment)]
    if _SECRET_WORDS & set(words):
        return True
    if not words or words[-1] not in _SECRET_ALONE:
        return False
    return len(words) == 1 or words[-2] in _BEFORE_SECRET


def submitted_fields(post: QueryDict) -> list[tuple[str, str]]:
    """Return the fields of the decision form with their texts, for the page that submits them once more.

    ``list`` names the list that the reviewer came from.
    """
    sent = [(name, text) for name, texts in post.lists() for text in texts]
    return [(name, text) for name, text in sent if name == "list" or is_field_of_decision(name)]


def draft_of(post: QueryDict) -> QueryDict:
    """Return what of a submitted decision form may be stored."""
    draft = QueryDict(mutable=True)
    for name, texts in post.lists():
        if is_field_of_decision(name) and not is_named_like_a_secret(name):
            draft.setlist(name, texts)
    return draft


def typed_texts(post: QueryDict) -> list[tuple[str, str]]:
    """Return the texts that a person typed into the decision form, for showing them as text to copy."""
    return [
        (name, text)
        for name, texts in draft_of(post).lists()
        for text in texts
        if _ANSWER.fullmatch(name) and text.strip()
    ]
