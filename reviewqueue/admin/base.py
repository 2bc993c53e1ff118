"""Base class of the admin pages: rows of one's own groups (all for operators), read-only, hidden characters visible."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import simplejson
from django.contrib import admin
from django.contrib.auth.models import User
from django.db.models import Model, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from ledger.actors import actor_label
from ledger.models import Effect
from reviewqueue.pages.interrupt.value_browser import Source, show_values
from reviewqueue.pages.rendering import PageRequest
from reviewqueue.permissions import is_operator
from reviewqueue.text.hidden_characters import render_exact, render_within
from reviewqueue.text.json_values import append_omitted_note
from runs.models import Agent

#: Bytes of HTML per stored value on a page.
MAX_JSON_BYTES = 32 * 1024


def text_column(field: str, label: str = "") -> Callable[[Model], SafeString]:
    """Return a column for a text of agents, on one line with hidden characters visible."""

    @admin.display(description=label or field.replace("_", " "), ordering=field)
    def column(row: Model) -> SafeString:
        return render_exact(str(getattr(row, field)), one_line=True)

    return column


def actor_column(field: str) -> Callable[[Model], SafeString]:
    """Return a column for an actor, in readable form."""

    @admin.display(description=field.replace("_", " "), ordering=field)
    def column(row: Model) -> SafeString:
        return render_exact(actor_label(str(getattr(row, field))), one_line=True)

    return column


def json_column(field: str) -> Callable[[Model], SafeString]:
    """Return a read-only field for a JSON value, as exact, indented text."""

    @admin.display(description=field)
    def shown(row: Model) -> SafeString:
        return render_json_text(getattr(row, field), more=values_url(row, field))

    return shown


def render_json_text(value: Any, *, more: str, size: int = MAX_JSON_BYTES) -> SafeString:
    """Return the first ``size`` bytes of a JSON value, one member per line.

    ``more`` is the URL of the page with the whole value.
    """
    text = simplejson.dumps(value, use_decimal=True, ensure_ascii=False, indent=2)
    head, end = render_within(text, size)
    shown = mark_safe(head)  # noqa: S308  ``fitting`` escapes
    return format_html("<pre>{}</pre>{}", shown, append_omitted_note("", end, len(text), more=more))


def values_url(row: Model, part: str) -> str:
    """Return the URL of the page with every value of a part of a row."""
    meta = row._meta
    return reverse(f"admin:{meta.app_label}_{meta.model_name}_values", args=[row.pk, part])


@dataclass(frozen=True, kw_only=True)
class AdminScope:
    """Which rows a person can see: all, or those of their groups."""

    sees_all: bool
    owns: bool
    groups: list[int]

    @property
    def any(self) -> bool:
        return self.sees_all or self.owns


NO_SCOPE = AdminScope(sees_all=False, owns=False, groups=[])


def scope_of(request: HttpRequest) -> AdminScope:
    """Return the person's scope. Cached on the request, because the site checks every model."""
    scope: AdminScope | None = getattr(request, "admin_scope", None)
    if scope is None:
        scope = _read_scope(person_of(request))
        request.admin_scope = scope  # type: ignore[attr-defined]
    return scope


def _read_scope(person: User) -> AdminScope:
    if not person.is_active or not person.is_staff:
        return NO_SCOPE
    groups = list(person.groups.values_list("pk", flat=True))
    owns = Agent.objects.filter(owner__in=groups).exists() or Effect.objects.filter(owner__in=groups).exists()
    return AdminScope(sees_all=person.is_superuser or is_operator(person), owns=owns, groups=groups)


def person_of(request: HttpRequest) -> User:
    """Return the user of the request, who can be anonymous on the sign-in page."""
    return cast(User, request.user)


class ReadOnlyAdmin(admin.ModelAdmin):
    """Read-only pages. ``owner`` is the lookup from a row to its owner group; empty: for operators only.

    ``shows`` lists the fields of a row's page; empty: every field.
    """

    owner: str = ""
    shows: Sequence[Any] = ()
    #: Large parts of a row, by name, with a function that reads them. Each has a page with every value.
    parts: Mapping[str, Callable[[Any], Any]] = {}
    actions = None
    list_per_page = 50
    show_full_result_count = False

    class Media:
        css = {"all": ["admin.css"]}

    def get_queryset(self, request: HttpRequest) -> QuerySet:
        """Return the rows of the person's groups, or all."""
        rows, scope = self.model._default_manager.all(), scope_of(request)
        if scope.sees_all:
            return rows
        return rows.filter(**{f"{self.owner}__in": scope.groups}) if self.owner else rows.none()

    def get_urls(self) -> list[Any]:
        """Add the URL of the page with every value of a part."""
        name = f"{self.opts.app_label}_{self.opts.model_name}_values"
        own = path("<int:object_id>/values/<slug:part>/", self.admin_site.admin_view(self.values_view), name=name)
        return [own, *super().get_urls()] if self.parts else super().get_urls()

    def values_view(self, request: HttpRequest, object_id: int, part: str) -> HttpResponse:
        """Show every value of a part of a row, with pagination."""
        row = self.get_queryset(request).filter(pk=object_id).first() if object_id < 2**63 else None
        if row is None or part not in self.parts or not self.has_view_permission(request):
            raise Http404
        back = reverse(f"admin:{self.opts.app_label}_{self.opts.model_name}_change", args=[row.pk])
        title, name = f"{part} of", f"{self.opts.verbose_name} {getattr(row, 'public_id', row.pk)}"
        source = Source(value=self.parts[part](row), title=title, name=name, back=back, back_label="Reconciliation")
        return show_values(cast(PageRequest, request), source, section="")

    def get_fields(self, request: HttpRequest, obj: Model | None = None) -> Any:
        return self.shows or super().get_fields(request, obj)

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> Any:
        return self.shows or super().get_readonly_fields(request, obj)

    def has_module_permission(self, request: HttpRequest) -> bool:
        return scope_of(request).any

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        scope = scope_of(request)
        if obj is None:
            return scope.sees_all or (scope.any and bool(self.owner))
        return self.get_queryset(request).filter(pk=obj.pk).exists()

    def has_add_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False
