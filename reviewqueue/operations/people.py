"""People and their roles, changed by operators: invite, disable, enable, remove a role, send a password link.

A role is a Django group, read at each request, so that a change applies at once. Every change is recorded with the state
before and after in the audit log. An operator cannot remove their own role, so one operator always stays.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.models import AbstractUser, Group
from django.db import transaction
from django.db.models import Q
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from ledger.actors import person_actor
from ledger.errors import NotFound
from reviewqueue import permissions
from reviewqueue.accounts import second_factors, sessions
from reviewqueue.notifications.account_mail import create_account_notification
from reviewqueue.notifications.kinds import NotificationKind
from reviewqueue.operations.installation import PROGRAM
from reviewqueue.operations.provisioning.names import SYSTEM, ProvisioningError
from reviewqueue.operations.provisioning.people import (
    QUEUE_ROLES,
    AddedPerson,
    account_state,
    add_person,
    record_change,
)
from reviewqueue.permissions import OPERATORS
from runs.models import Agent, ConfigurationRecord, Queue

MAX_LISTED = 100
MAX_CHANGES = 50


@dataclass(frozen=True, kw_only=True)
class Role:
    """One group of a person, and every role that it gives: roles that share a group are removed together."""

    group_pk: int
    label: str


@dataclass(frozen=True, kw_only=True)
class ListedPerson:
    """A person with their roles."""

    person: AbstractUser
    roles: list[Role]
    last_seen: datetime | None
    second_factors: list[str]


def list_people(*, search: str = "") -> tuple[list[ListedPerson], bool]:
    """Return up to ``MAX_LISTED`` people by address, and whether there are more."""
    rows = get_user_model().objects.order_by("username").prefetch_related("groups")
    if search:
        rows = rows.filter(Q(username__icontains=search) | Q(groups__name__icontains=search)).distinct()
    found, labels = list(rows[: MAX_LISTED + 1]), _labels()
    pks = [person.pk for person in found]
    seen, factors = sessions.last_seen(pks), second_factors.factors_of(pks)
    listed = [
        ListedPerson(
            person=person,
            roles=[
                Role(group_pk=group.pk, label=", ".join(labels[group.pk]))
                for group in person.groups.all()
                if group.pk in labels
            ],
            last_seen=max(filter(None, (seen.get(person.pk), person.last_login)), default=None),
            second_factors=[str(second_factors.FACTOR_LABELS[kind]) for kind in factors.get(person.pk, [])],
        )
        for person in found[:MAX_LISTED]
    ]
    return listed, len(found) > MAX_LISTED


def recent_changes() -> list[ConfigurationRecord]:
    """Return the newest changes of all people in the audit log."""
    return list(ConfigurationRecord.objects.filter(kind="person").order_by("-seq")[:MAX_CHANGES])


def labels_of_group(group_pk: int) -> list[str]:
    """Return every role that a group gives."""
    return _labels().get(group_pk, [])


_ROLE_LABELS = {
    "reviewer": gettext_noop("reviewer of {name}"),
    "lead": gettext_noop("lead of {name}"),
    "auditor": gettext_noop("auditor of {name}"),
    "owner": gettext_noop("owner of {name}"),
}


def _labels() -> dict[int, list[str]]:
    """Return what each group allows, such as "reviewer of purchasing"."""
    labels: dict[int, list[str]] = {}
    for queue in Queue.objects.order_by("slug"):
        for role, column in QUEUE_ROLES.items():
            labels.setdefault(getattr(queue, f"{column}_id"), []).append(_(_ROLE_LABELS[role]).format(name=queue.slug))
    for agent in Agent.objects.order_by("slug"):
        labels.setdefault(agent.owner_id, []).append(_(_ROLE_LABELS["owner"]).format(name=agent.slug))
    for group in Group.objects.filter(name=OPERATORS):
        labels.setdefault(group.pk, []).append(_("operator"))
    return labels


def _refuse_unless_operator(operator: AbstractUser) -> None:
    """Refuse a person who is no operator now: the row of a request can be older than a lock that it waited for."""
    current = get_user_model().objects.filter(pk=operator.pk).first()
    if current is None or not permissions.is_operator(current):
        raise NotFound


def add_or_invite(operator: AbstractUser, address: str, *, role: str, queue: str, agent: str) -> AddedPerson:
    """Give a person a role. A new person is invited by mail. Raises ``NotFound``, ``ProvisioningError``."""
    _refuse_unless_operator(operator)
    if address.strip().lower() == operator.get_username():
        raise ProvisioningError("You cannot give a role to yourself. Another operator can.")
    is_known = get_user_model().objects.filter(username=address.strip().lower()).exists()
    if not is_known and not settings.EMAIL_HOST:
        raise ProvisioningError(
            "This installation sends no mail, so a new person cannot be invited. "
            f"{PROGRAM} add_person prints a password."
        )
    return add_person(address, role=role, queue=queue, agent=agent, invite=not is_known, actor=person_actor(operator))


@transaction.atomic
def set_active(operator: AbstractUser, address: str, *, active: bool) -> AbstractUser:
    """Enable or disable an account. A disabled person's sessions end, and their tokens are refused."""
    person = _lock(operator, address)
    if person.is_active == active:
        raise ProvisioningError(f"{address} is {'enabled' if active else 'disabled'} already.")
    before = account_state(person)
    if not active:
        _refuse_oneself(operator, person)
    person.is_active = active
    person.save(update_fields=["is_active"])
    if not active:
        sessions.end_sessions(person)
    record_change(person, actor=person_actor(operator), action="enabled" if active else "disabled", before=before)
    return person


@transaction.atomic
def remove_role(operator: AbstractUser, address: str, *, group_pk: int) -> AbstractUser:
    """Remove a person from a group. Without a role of an owner or operator, Reconciliation is closed to them too."""
    person = _lock(operator, address)
    group = person.groups.filter(pk=group_pk).first()
    if group is None:
        raise ProvisioningError(f"{address} does not have this role.")
    before = account_state(person)
    if group.name == OPERATORS:
        _refuse_oneself(operator, person)
    person.groups.remove(group)
    is_staff = permissions.is_operator(person) or Agent.objects.filter(owner__in=person.groups.all()).exists()
    if person.is_staff and not is_staff and not person.is_superuser:
        person.is_staff = False
        person.save(update_fields=["is_staff"])
    record_change(person, actor=person_actor(operator), action="role removed", before=before)
    return person


@transaction.atomic
def send_password_link(operator: AbstractUser, address: str) -> AbstractUser:
    """Send a person a link to choose a new password. The present password stays valid until they use it."""
    person = _lock(operator, address)
    if not settings.EMAIL_HOST:
        raise ProvisioningError(f"This installation sends no mail. Run: {PROGRAM} changepassword")
    if not person.is_active:
        raise ProvisioningError(f"{address} is disabled.")
    create_account_notification(person, NotificationKind.RESET)
    record_change(person, actor=person_actor(operator), action="password link", before=account_state(person))
    return person


@transaction.atomic
def end_sessions(operator: AbstractUser, address: str) -> AbstractUser:
    """Sign a person out everywhere."""
    person = _lock(operator, address)
    before = account_state(person)
    if not sessions.end_sessions(person):
        raise ProvisioningError(f"{address} is not signed in anywhere.")
    record_change(person, actor=person_actor(operator), action="sessions ended", before=before)
    return person


@transaction.atomic
def reset_second_factors(operator: AbstractUser, address: str) -> AbstractUser:
    """Remove a person's second factors and recovery codes, after a loss. The person's sessions end."""
    person = _lock(operator, address)
    if person.pk == operator.pk:
        raise ProvisioningError("You cannot reset your own second factor here. Another operator can.")
    _reset_factors(person, actor=person_actor(operator))
    return person


@transaction.atomic
def reset_second_factors_by_command(address: str) -> AbstractUser:
    """Do the same from a command, for an operator without a colleague. Raises ``ProvisioningError``."""
    person = get_user_model().objects.filter(username=address.strip().lower()).first()
    if person is None:
        raise ProvisioningError(f"There is no person {address}.")
    _reset_factors(person, actor=SYSTEM)
    return person


def _reset_factors(person: AbstractUser, *, actor: str) -> None:
    before = account_state(person)
    if not second_factors.remove_second_factors(person):
        raise ProvisioningError(f"{person.get_username()} has no second factor.")
    sessions.end_sessions(person)
    record_change(person, actor=actor, action="second factor reset", before=before)


def _lock(operator: AbstractUser, address: str) -> AbstractUser:
    """Lock the group of operators, so that two operators cannot remove each other at once. Raises ``NotFound``."""
    Group.objects.select_for_update(of=("self",), no_key=True).filter(name=OPERATORS).first()
    _refuse_unless_operator(operator)
    person = get_user_model().objects.filter(username=address).first()
    if person is None:
        raise NotFound
    return person


def _refuse_oneself(operator: AbstractUser, person: AbstractUser) -> None:
    if person.pk == operator.pk:
        raise ProvisioningError(
            "You cannot disable yourself or remove your own role of operator. Another operator can."
        )
