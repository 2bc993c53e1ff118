"""Single sign-on: which person the claims of an OpenID Connect provider name, and which roles they give.

The provider's groups are mapped to roles by `OIDC_ROLES`. At each sign-in the person's roles that any entry of the mapping
can give are made those that the claims give now; other roles stay. An unknown person gets an account only with a mapped
group and a verified address.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.models import AbstractUser, Group
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import transaction

from reviewqueue import permissions
from reviewqueue.operations.provisioning.names import ProvisioningError
from reviewqueue.operations.provisioning.people import account_state, group_of_role, record_change
from runs.models import Agent

#: The actor of recorded changes.
ACTOR = "system:sign-on"
_logger = logging.getLogger(__name__)


class SignOnRefused(Exception):
    """The provider's claims open no account. The message is a sentence for the person who signs in."""


@transaction.atomic
def admit(claims: Mapping[str, Any], *, known: AbstractUser | None, is_linked: bool) -> AbstractUser:
    """Return the person with the roles that the claims give, and create the person if that is allowed.

    ``known``: the person of this subject or of this address; ``is_linked``: the subject is theirs already. Raises
    ``SignOnRefused``; then only roles that are gone were removed.
    """
    granted = _granted_groups(claims)
    if known is None:
        if not granted:
            raise SignOnRefused("You have no account here, and none of your groups has a role here.")
        known = _create_person(verified_address(claims))
    elif not known.is_active:
        return known
    elif not is_linked:
        verified_address(claims)
    apply_groups(known, granted)
    return known


def has_any_role(person: AbstractUser) -> bool:
    """Return whether the person is in any group, or manages the installation."""
    return person.is_superuser or person.groups.exists()


def verified_address(claims: Mapping[str, Any]) -> str:
    """Return the verified e-mail address of the claims. Raises ``SignOnRefused`` if there is none."""
    address = claims.get("email")
    # Lower-casing turns some letters of other scripts into ASCII, and so names another person.
    if not isinstance(address, str) or not address.isascii() or len(address) > 150:
        address = ""
    address = address.strip().lower()
    try:
        validate_email(address)
    except ValidationError:
        raise SignOnRefused("Your sign-on provider does not name your e-mail address.") from None
    if claims.get("email_verified") is not True and not settings.OIDC_TRUST_EMAIL:
        raise SignOnRefused("Your sign-on provider has not verified your e-mail address.")
    return address


def apply_groups(person: AbstractUser, granted: list[Group]) -> None:
    """Give the person these groups, and remove every other group of the mapping."""
    before, mapped = account_state(person), {group.pk for group in _mapped_groups().values()}
    wanted = {group.pk for group in granted}
    present = set(person.groups.values_list("pk", flat=True))
    lost, gained = (present & mapped) - wanted, wanted - present
    if not lost and not gained:
        return
    person.groups.remove(*lost)
    person.groups.add(*gained)
    is_staff = permissions.is_operator(person) or Agent.objects.filter(owner__in=person.groups.all()).exists()
    if person.is_staff != is_staff and not person.is_superuser:
        person.is_staff = is_staff
        person.save(update_fields=["is_staff"])
    record_change(person, actor=ACTOR, action="roles by sign-on", before=before)


def _granted_groups(claims: Mapping[str, Any]) -> list[Group]:
    named = claims.get(settings.OIDC_GROUPS_CLAIM)
    if isinstance(named, str):
        named = [named]
    theirs = {name for name in named if isinstance(name, str)} if isinstance(named, list) else set()
    groups = {group.pk: group for (name, _, _), group in _mapped_groups().items() if name in theirs}
    return list(groups.values())


def _mapped_groups() -> dict[tuple[str, str, str], Group]:
    """Return the group of each entry of the mapping. An entry for a queue or agent that does not exist gives nothing."""
    found = {}
    for entry in settings.OIDC_ROLES:
        _, role, of = entry
        named = {"agent": of, "queue": ""} if role == "owner" else {"agent": "", "queue": of}
        try:
            found[entry] = group_of_role(role, **named)
        except ProvisioningError as refused:
            _logger.error("OIDC_ROLES: an entry gives no role. %s", refused)
    return found


def _create_person(address: str) -> AbstractUser:
    person: AbstractUser = get_user_model().objects.create_user(username=address, email=address)
    record_change(person, actor=ACTOR, action="added", before={})
    return person
