"""Drafts: what a reviewer entered in a decision form and has not sent, one for each person and open request.

A draft fills in the form when its author opens the request again, and is never sent by itself. It is a row of
``TypedAnswer``, limited in size, number and age, and deleted when the request closes. If the session expires before the form
is sent, the draft is kept in the browser's session until its author has signed in; other people cannot see it.

A draft has a version. A tab overwrites a draft only if it saved the newest version itself, or was opened with it. Otherwise
it says so, and the reviewer chooses which text stays.

A draft has only fields of the decision form, and none that is named like a secret or has JSON with such a member: those
are sent with the decision only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.models import AbstractUser
from django.db import models
from django.db.models import Q
from django.http import HttpRequest, QueryDict
from django.utils.crypto import constant_time_compare, get_random_string, salted_hmac
from django.utils.translation import gettext as _

from ledger import clock, exact_json
from ledger.errors import NotFound, PayloadInvalid, Refusal
from ledger.transactions import use_case
from reviewqueue import permissions
from reviewqueue.models import TypedAnswer
from runs.states import InterruptStatus, Verdict

MAX_LENGTH = 200_000  # characters of the URL-encoded form
MAX_DRAFTS = 100  # per person; the oldest is deleted
LIFETIME = timedelta(days=7)
SESSION_KEY = "draft"
SESSION_LIFETIME = timedelta(hours=12)

# --- fields of a draft --------------------------------------------------------------------------------------------------

_VERDICTS = "|".join(Verdict.values)
#: The fields of an input schema, and the arguments of an edited call.
_INPUT = re.compile(rf"(?:input(?:-(?:{_VERDICTS}))?|arguments)(?:\..*)?", re.DOTALL)
#: What a reviewer fills in: those, and a message.
_ENTERED = re.compile(rf"message-(?:{_VERDICTS})|{_INPUT.pattern}", re.DOTALL)
#: What else a draft has: the chosen verdict, the confirmations, the version that was read.
_STATE = re.compile(
    rf"verdict|since|state_version|content_digest|request_key|who|draft|edit|seen-[a-z0-9]+-(?:{_VERDICTS})"
)

_NAME_PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_SECRET = frozenset({
    "apikey", "credential", "credentials", "cvc", "cvv", "otp", "passcode", "passphrase", "passwd", "password", "passwords",
    "pin", "pwd", "secret", "secrets", "token", "totp",
})  # fmt: skip
#: "key" and "code" name a secret alone, or after one of the parts below.
_SECRET_ALONE = frozenset({"key", "code"})
_BEFORE_SECRET = frozenset({
    "access", "api", "auth", "authentication", "authorization", "backup", "encryption", "login", "mfa", "private",
    "recovery", "secret", "security", "signing", "ssh", "time", "verification",
})  # fmt: skip


def is_field_of_decision(name: str) -> bool:
    """Return whether a control of the decision form can have this name."""
    return bool(_ENTERED.fullmatch(name) or _STATE.fullmatch(name))


def is_named_like_a_secret(name: str) -> bool:
    """Return whether a segment of a control's name is password, token, key, code or the like."""
    return any(is_secret_name(segment) for segment in name.split(".")[1:] or [name])


def is_secret_name(name: str) -> bool:
    """Return whether the name of one member is password, token, key, code or the like."""
    parts = [part.lower() for part in _NAME_PART.findall(name)]
    if _SECRET & set(parts):
        return True
    if not parts or parts[-1] not in _SECRET_ALONE:
        return False
    return len(parts) == 1 or parts[-2] in _BEFORE_SECRET


def _has_secret_member(text: str) -> bool:
    """Return whether a text is JSON with a member named like a secret, or is no JSON and quotes such a name."""
    if '"' not in text:
        return False
    try:
        return _names_a_secret(exact_json.parse(text))
    except PayloadInvalid:  # a JSON box with a mistake, or a text that is not meant as JSON
        return any(is_secret_name(quoted) for quoted in text.split('"')[1:-1])


def _names_a_secret(value: Any) -> bool:
    if isinstance(value, list):
        return any(map(_names_a_secret, value))
    if not isinstance(value, dict):
        return False
    return any(is_secret_name(name) or _names_a_secret(inner) for name, inner in value.items())


def _can_be_stored(name: str, texts: list[str]) -> bool:
    if not is_field_of_decision(name) or is_named_like_a_secret(name):
        return False
    # A control's name does not say whether it is a JSON box. Messages are texts for people.
    return not _INPUT.fullmatch(name) or not any(map(_has_secret_member, texts))


def submitted_fields(post: QueryDict) -> list[tuple[str, str]]:
    """Return names and texts of the decision form's fields, for the page that submits them once more.

    ``list`` names the list that the reviewer came from, ``opened`` the time at which they opened the request.
    """
    sent = [(name, text) for name, texts in post.lists() for text in texts]
    return [(name, text) for name, text in sent if name in ("list", "opened") or is_field_of_decision(name)]


def draft_of(post: QueryDict) -> QueryDict:
    """Return the fields of a submitted decision form that can be stored."""
    draft = QueryDict(mutable=True)
    for name, texts in post.lists():
        if _can_be_stored(name, texts):
            draft.setlist(name, texts)
    return draft


def entered_texts(post: QueryDict) -> list[tuple[str, str]]:
    """Return names and texts that the reviewer entered in the decision form, to be shown as text to copy."""
    return [
        (name, text)
        for name, texts in draft_of(post).lists()
        for text in texts
        if _ENTERED.fullmatch(name) and text.strip()
    ]


# --- the author of a form -----------------------------------------------------------------------------------------------


def author_token(person: AbstractUser) -> str:
    """Return what a form has in its field ``who`` to identify its author. It gives no access."""
    return _author_token(str(person.pk))


def _author_token(pk: str) -> str:
    return f"{pk}.{salted_hmac('reviewqueue.kept', pk).hexdigest()[:24]}"


def _author_of(form: QueryDict) -> str:
    """Return the author token of a form that this server rendered, else ""."""
    token = form.get("who", "")[:60]
    return token if constant_time_compare(token, _author_token(token.partition(".")[0])) else ""


def is_for_another_person(form: QueryDict, person: AbstractUser) -> bool:
    """Return whether this server rendered a form for another person than its sender: two people use one browser."""
    author = _author_of(form)
    return bool(author) and not constant_time_compare(author, author_token(person))


# --- drafts of signed-in reviewers --------------------------------------------------------------------------------------


class NewerDraft(Exception):
    """Another tab of the same person has saved a newer version of the draft."""


@dataclass(frozen=True, kw_only=True)
class DraftOrigin:
    """Where a form comes from: the version of the draft that it was opened or saved with, its tab, and the time of its last
    edit in that tab (milliseconds). Field ``draft`` of a form has version and tab, field ``edit`` the time.
    """

    version: int = 0
    tab: str = ""
    edit: int = 0

    @property
    def token(self) -> str:
        return f"{self.version}.{self.tab}"


#: The greatest version that is taken over from a form; a draft was deleted while the form was open. The next versions must
#: match ``_ORIGIN`` too.
MAX_SENT_VERSION = 99_999_999
_ORIGIN = re.compile(r"([0-9]{1,9})\.([A-Za-z0-9]{8,40})")


def origin_of(form: QueryDict) -> DraftOrigin:
    """Return the origin of a submitted or stored form; a form without one gets a tab of its own."""
    found = _ORIGIN.fullmatch(form.get("draft", ""))
    edit = form.get("edit", "")
    if found is None:
        return DraftOrigin(tab=get_random_string(16))
    is_number = edit.isascii() and edit.isdigit() and len(edit) < 16
    return DraftOrigin(version=int(found[1]), tab=found[2], edit=int(edit) if is_number else 0)


def new_origin(draft: Draft | None) -> DraftOrigin:
    """Return the origin of a form that is opened now."""
    return DraftOrigin(version=0 if draft is None else draft.version, tab=get_random_string(16))


@use_case
def save_draft(
    *, person: AbstractUser, interrupt_id: str, form: QueryDict, overwrite: bool = False
) -> TypedAnswer | None:
    """Store the fields of a form as a draft. Returns ``None`` if the request is closed: nothing is stored.

    Raises ``NewerDraft``, unless ``overwrite``: the reviewer chose this text.
    """
    interrupt = permissions.visible_interrupt(person, interrupt_id)
    if interrupt is None:
        raise NotFound
    if interrupt.status != InterruptStatus.WAITING:
        TypedAnswer.objects.filter(person=person.pk, interrupt=interrupt).delete()
        return None
    origin, fields = origin_of(form), draft_of(form)
    last = TypedAnswer.objects.select_for_update().filter(person=person.pk, interrupt=interrupt).first()
    if last is not None:
        stored = QueryDict(last.form)
        saved = origin_of(stored)
        if saved.tab == origin.tab and origin.edit < saved.edit:
            return last  # an older text of the same tab, which arrived late
        if not overwrite and origin.tab != saved.tab and origin.version != last.version:
            raise NewerDraft
        _keep_other_form(stored, fields)
    version = max(min(origin.version, MAX_SENT_VERSION), 0 if last is None else last.version) + 1
    fields["draft"] = DraftOrigin(version=version, tab=origin.tab).token
    text = fields.urlencode()
    if len(text) > MAX_LENGTH:
        raise PayloadInvalid(
            _("The form has more than {max_length} characters, so no draft of it is saved.").format(
                max_length=MAX_LENGTH
            )
        )
    draft, created = TypedAnswer.objects.update_or_create(
        person_id=person.pk,
        interrupt=interrupt,
        defaults={"form": text, "saved_at": clock.now(), "version": version},
    )
    if created:
        newest = TypedAnswer.objects.filter(person=person.pk).order_by("-saved_at").values("pk")[:MAX_DRAFTS]
        TypedAnswer.objects.filter(person=person.pk).exclude(pk__in=list(newest.values_list("pk", flat=True))).delete()
    return draft


def _keep_other_form(stored: QueryDict, fields: QueryDict) -> None:
    """Add what was entered in the other form of the page: a request for input has one to answer and one to decline."""
    sent = {name.partition(".")[0] for name in fields}
    for name, texts in draft_of(stored).lists():
        if _ENTERED.fullmatch(name) and name.partition(".")[0] not in sent:
            fields.setlist(name, texts)


def save_submitted_draft(form: QueryDict, person: AbstractUser, interrupt_id: str) -> DraftOrigin:
    """Store a submitted form that is shown again or was refused; a form that cannot be stored is only shown.

    Returns its origin now. Raises ``NewerDraft``.
    """
    origin = origin_of(form)
    if form.get("who", "") != author_token(person):
        return origin
    try:
        draft = save_draft(person=person, interrupt_id=interrupt_id, form=form)
    except Refusal:
        return origin
    return origin if draft is None else DraftOrigin(version=draft.version, tab=origin.tab)


def delete_draft(request: HttpRequest, person: AbstractUser, interrupt_pk: int) -> None:
    TypedAnswer.objects.filter(person=person.pk, interrupt=interrupt_pk).delete()
    delete_session_draft(request)


def has_drafts_to_delete() -> bool:
    """Return whether a draft belongs to a closed request or is too old."""
    return _drafts_to_delete().exists()


def delete_old_drafts(*, limit: int) -> int:
    """Delete drafts of closed requests and drafts that are too old. Returns their number."""
    found = list(_drafts_to_delete().values_list("pk", flat=True)[:limit])
    return TypedAnswer.objects.filter(pk__in=found).delete()[0] if found else 0


def _drafts_to_delete() -> models.QuerySet[TypedAnswer]:
    closed = ~Q(interrupt__status=InterruptStatus.WAITING)
    return TypedAnswer.objects.filter(closed | Q(saved_at__lt=clock.now() - LIFETIME))


# --- drafts of expired sessions -----------------------------------------------------------------------------------------


def keep_in_session(request: HttpRequest, *, path: str) -> None:
    """Keep a form that was sent after its session expired, until its author signs in and opens its page at ``path``.

    Only a form that this server rendered is kept; otherwise strangers could fill the session table.
    """
    author, text = _author_of(request.POST), draft_of(request.POST).urlencode()
    if author and len(text) <= MAX_LENGTH:
        at = clock.now().isoformat()
        request.session[SESSION_KEY] = {"path": path, "who": author, "post": text, "at": at}


def delete_session_draft(request: HttpRequest) -> None:
    request.session.pop(SESSION_KEY, None)


@dataclass(frozen=True, kw_only=True)
class Draft:
    """``was_sent``: the author pressed a button, but the session had expired. ``version``: of the stored draft, or 0."""

    form: QueryDict
    saved_at: datetime
    was_sent: bool
    version: int = 0


def find_draft(request: HttpRequest, person: AbstractUser, interrupt_pk: int, *, now: datetime) -> Draft | None:
    """Return the person's newest draft of a request."""
    rows = TypedAnswer.objects.filter(person=person.pk, interrupt=interrupt_pk, saved_at__gt=now - LIFETIME)
    row, sent = rows.first(), _session_draft(request, person, now=now)
    if sent is not None and (row is None or row.saved_at <= sent.saved_at):
        return sent if row is None else replace(sent, version=row.version)
    if row is None:
        return None
    return Draft(form=QueryDict(row.form), saved_at=row.saved_at, was_sent=False, version=row.version)


def _session_draft(request: HttpRequest, person: AbstractUser, *, now: datetime) -> Draft | None:
    found = request.session.get(SESSION_KEY)
    if not isinstance(found, dict) or found.get("path") != request.path:
        return None
    saved_at = datetime.fromisoformat(found["at"])
    is_author = constant_time_compare(str(found.get("who")), author_token(person))
    if not is_author or saved_at <= now - SESSION_LIFETIME:
        return None
    return Draft(form=QueryDict(found["post"]), saved_at=saved_at, was_sent=True)
