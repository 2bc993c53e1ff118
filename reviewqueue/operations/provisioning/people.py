"""People and their roles, with a record of each change of an account."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.models import AbstractUser, Group
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import transaction

from reviewqueue.accounts import second_factors
from reviewqueue.notifications.account_mail import create_account_notification
from reviewqueue.notifications.kinds import NotificationKind
from reviewqueue.operations import audit_log
from reviewqueue.operations.api_keys import create_personal_token
from reviewqueue.operations.provisioning.names import (
    SYSTEM,
    ProvisioningError,
    find_agent,
    find_or_add_group,
    find_queue,
)
from reviewqueue.permissions import OPERATORS
from runs.configuration_history import Subject, lock_head, record_administration

STAFF_ROLES = {"owner", "operator"}
RECONCILIATION_GIVEN = "reconciliation given"
QUEUE_ROLES = {"reviewer": "reviewers", "lead": "leads", "auditor": "auditors"}
ROLES = (*QUEUE_ROLES, "owner", "operator")


@dataclass(frozen=True, kw_only=True)
class AddedPerson:
    """A person with a new role. ``password`` and ``token`` are set only for a new person, and cannot be read later."""

    person: AbstractUser
    group: Group
    password: str | None
    token: str | None
    is_invited: bool = False


@transaction.atomic
def add_person(
    address: str, *, role: str, queue: str = "", agent: str = "", invite: bool = False, actor: str = SYSTEM
) -> AddedPerson:
    """Give a person a role, and create the person if the address is new. A role of owners gives access to reconciliation,
    also to a person who is in the group already.

    ``invite``: a new person gets a mail with a link to choose a password, instead of a password and a token.
    """
    address = address.strip().lower()
    try:
        validate_email(address)
    except ValidationError:
        raise ProvisioningError(f"{address} is not an e-mail address.") from None
    people = get_user_model().objects
    known = people.select_for_update(of=("self",), no_key=True).filter(username=address).first()
    lock_head()
    known = known or people.filter(username=address).first()  # added while this transaction waited
    group = group_of_role(role, queue=queue, agent=agent)
    has_role = known is not None and known.groups.filter(pk=group.pk).exists()
    if known is not None and has_role and (known.is_staff or role not in STAFF_ROLES):
        raise ProvisioningError(f"{address} has this role already.")
    if invite and not settings.EMAIL_HOST:
        raise ProvisioningError("This installation sends no mail, because EMAIL_HOST is not set.")
    before = {} if known is None else account_state(known)
    password = None if known or invite else secrets.token_urlsafe(12)
    person = known or people.create_user(username=address, email=address, password=password)
    person.groups.add(group)
    if role in STAFF_ROLES and not person.is_staff:
        person.is_staff = True
        person.save(update_fields=["is_staff"])
    token = None if known or invite else create_personal_token(person, name="first token")
    action = RECONCILIATION_GIVEN if has_role else "role added" if known else "added"
    record_change(person, actor=actor, action=action, before=before)
    if token is not None:
        audit_log.record(token.key, actor=actor)
    if invite and known is None:
        create_account_notification(person, NotificationKind.INVITED)
    return AddedPerson(
        person=person,
        group=group,
        password=password,
        token=None if token is None else token.text,
        is_invited=invite and known is None,
    )


def lock_members(group: str) -> list[AbstractUser]:
    """Lock and return the active members of a group who have no access to reconciliation.

    Changes of an account lock it before the head of the audit log, so this does too.
    """
    members = get_user_model().objects.filter(groups__name=group, is_active=True, is_staff=False).order_by("pk")
    return list(members.select_for_update(of=("self",), no_key=True))


def give_reconciliation(people: list[AbstractUser], *, actor: str) -> None:
    """Give access to reconciliation to people whose group owns an agent now."""
    for person in people:
        before = account_state(person)
        person.is_staff = True
        person.save(update_fields=["is_staff"])
        record_change(person, actor=actor, action=RECONCILIATION_GIVEN, before=before)


def account_state(person: AbstractUser) -> dict[str, Any]:
    """Return what a record of a change shows: whether the account is active, its second factors and its groups."""
    return {
        "active": person.is_active,
        "reconciliation": person.is_staff,
        "superuser": person.is_superuser,
        "second_factors": second_factors.factors_of([person.pk]).get(person.pk, []),
        "groups": list(person.groups.order_by("name").values_list("name", flat=True)),
    }


@transaction.atomic
def record_change(person: AbstractUser, *, actor: str, action: str, before: dict[str, Any]) -> None:
    """Record a change of a person's account with the state before and after in the audit log."""
    subject = Subject(kind="person", pk=person.pk, name=person.get_username())
    record_administration(subject, actor=actor, action=action, before=before or None, after=account_state(person))


def group_of_role(role: str, *, queue: str, agent: str) -> Group:
    """Return the group that gives a role of a queue or agent. Raises ``ProvisioningError``."""
    if role == "operator":
        if queue or agent:
            raise ProvisioningError("The role operator applies everywhere.", hint="Omit --queue and --agent.")
        return find_or_add_group(OPERATORS)
    if role == "owner":
        if not agent or queue:
            raise ProvisioningError("The role owner needs an agent and no queue.", hint="Add --agent NAME.")
        return find_agent(agent).owner
    if not queue or agent:
        raise ProvisioningError(f"The role {role} needs a queue and no agent.", hint="Add --queue NAME.")
    found: Group = getattr(find_queue(queue), QUEUE_ROLES[role])
    return found
