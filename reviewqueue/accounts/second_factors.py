"""Second factors: who must have one, who has one, and whether a session has proved one.

The factors are rows of django-allauth: an authenticator app (TOTP), passkeys and recovery codes. A session records each
method by which its person has authenticated in it; `mfa` is a second factor, also a passkey used for sign-in.
"""

from __future__ import annotations

from collections.abc import Iterable

from allauth.account.authentication import get_authentication_records
from allauth.account.internal.flows.login import record_authentication
from allauth.mfa.models import Authenticator
from django.conf import settings
from django.contrib.auth.models import AbstractUser
from django.http import HttpRequest
from django.utils.translation import gettext_lazy

from reviewqueue import permissions
from runs.models import Agent, Queue

#: Recovery codes replace a lost factor; alone they are none.
FACTORS = (Authenticator.Type.TOTP, Authenticator.Type.WEBAUTHN)
FACTOR_LABELS = {
    "totp": gettext_lazy("authenticator app"),
    "webauthn": gettext_lazy("passkey"),
    "recovery_codes": gettext_lazy("recovery codes"),
}


def must_have_second_factor(person: AbstractUser) -> bool:
    """Return whether ``REQUIRE_SECOND_FACTOR`` names everybody or a role of the person."""
    required = set(settings.REQUIRE_SECOND_FACTOR) - {"none"}
    return bool(required) and ("all" in required or bool(required & roles_of(person)))


def roles_of(person: AbstractUser) -> set[str]:
    """Return the names of the person's roles in any queue or agent."""
    groups = list(person.groups.values_list("pk", flat=True))
    found = {
        "reviewer": Queue.objects.filter(reviewers__in=groups),
        "lead": Queue.objects.filter(leads__in=groups),
        "auditor": Queue.objects.filter(auditors__in=groups),
        "owner": Agent.objects.filter(owner__in=groups),
    }
    roles = {role for role, rows in found.items() if rows.exists()}
    if Queue.objects.filter(owner__in=groups).exists():
        roles.add("owner")
    return roles | ({"operator"} if person.is_superuser or permissions.is_operator(person) else set())


def has_second_factor(person: AbstractUser) -> bool:
    """Return whether the person has an authenticator app or a passkey."""
    return Authenticator.objects.filter(user=person.pk, type__in=FACTORS).exists()


def factors_of(people: Iterable[int]) -> dict[int, list[str]]:
    """Return the kinds of second factors of each person, by primary key: `totp`, `webauthn`."""
    found: dict[int, list[str]] = {}
    rows = Authenticator.objects.filter(user__in=list(people), type__in=FACTORS).order_by("type", "pk")
    for person, kind in rows.values_list("user", "type"):
        kinds = found.setdefault(person, [])
        if kind not in kinds:
            kinds.append(kind)
    return found


def has_proved_second_factor(request: HttpRequest) -> bool:
    """Return whether the person has used a second factor in this session."""
    return any(record.get("method") == "mfa" for record in get_authentication_records(request, request.user))


def record_proof(request: HttpRequest, kind: str) -> None:
    """Record that the person has just used a second factor in this session: a new one, which they set up.

    Uses allauth's internal function; it has no public one.
    """
    record_authentication(request, request.user, "mfa", type=kind)


def remove_second_factors(person: AbstractUser) -> int:
    """Remove every factor of the person, recovery codes too; return how many factors there were."""
    rows = Authenticator.objects.filter(user=person.pk)
    factors = rows.filter(type__in=FACTORS).count()
    rows.delete()
    return factors
