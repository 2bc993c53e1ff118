"""Django's own admin pages of users and groups, for superusers. Every change is recorded in the audit log."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.admin.utils import unquote
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.models import Group, User
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse

from ledger.actors import person_actor
from reviewqueue.admin.base import person_of
from reviewqueue.operations.provisioning.people import account_state, record_change
from runs.configuration_history import CHANGED, CREATED, REMOVED, Subject, record_administration

admin.site.unregister(User)
admin.site.unregister(Group)


def group_state(group: Group) -> dict[str, Any]:
    """Return the name of the group, and its members by address."""
    return {"name": group.name, "members": list(group.user_set.order_by("username").values_list("username", flat=True))}


@admin.register(User)
class AuditedUserAdmin(UserAdmin):
    """Accounts."""

    def save_model(self, request: HttpRequest, obj: User, form: Any, change: bool) -> None:
        """Save the row, and note its state before."""
        request.state_before = account_state(User.objects.get(pk=obj.pk)) if change else {}  # type: ignore[attr-defined]
        super().save_model(request, obj, form, change)

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        """Save the groups, and record the change."""
        super().save_related(request, form, formsets, change)
        before = request.state_before  # type: ignore[attr-defined]
        action = "changed" if change else "added"
        record_change(form.instance, actor=person_actor(person_of(request)), action=action, before=before)

    def has_delete_permission(self, request: HttpRequest, obj: User | None = None) -> bool:
        """Refuse: records name people, so a person is disabled and never deleted."""
        return False

    @transaction.atomic
    def user_change_password(self, request: HttpRequest, id: str, form_url: str = "") -> HttpResponse:  # noqa: A002
        """Set another person's password, and record that it was set."""
        person = self.get_object(request, unquote(id))
        before = None if person is None else person.password
        response: HttpResponse = super().user_change_password(request, id, form_url)
        changed = None if person is None else User.objects.filter(pk=person.pk).exclude(password=before).first()
        if changed is not None:
            state = account_state(changed)
            record_change(changed, actor=person_actor(person_of(request)), action="password set", before=state)
        return response


@admin.register(Group)
class AuditedGroupAdmin(GroupAdmin):
    """Groups, which are roles."""

    def save_model(self, request: HttpRequest, obj: Group, form: Any, change: bool) -> None:
        """Save the group, and record the change."""
        before = group_state(Group.objects.get(pk=obj.pk)) if change else None
        super().save_model(request, obj, form, change)
        _record_group(request, obj, action=CHANGED if change else CREATED, before=before)

    def delete_model(self, request: HttpRequest, obj: Group) -> None:
        _record_group(request, obj, action=REMOVED)
        super().delete_model(request, obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Group]) -> None:
        for group in queryset:
            _record_group(request, group, action=REMOVED)
        super().delete_queryset(request, queryset)


def _record_group(request: HttpRequest, group: Group, *, action: str, before: dict[str, Any] | None = None) -> None:
    subject = Subject(kind="group", pk=group.pk, name=group.name)
    actor = person_actor(person_of(request))
    record_administration(subject, actor=actor, action=action, before=before, after=group_state(group))
