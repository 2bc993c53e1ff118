"""What every desk has alike: rows of one's own groups, nothing to add or delete, agents' words with hidden characters drawn.

Called by the desks of this package. An operator sees everything.
"""

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

from ledger.actors import in_words
from ledger.models import Effect
from reviewqueue.pages.interrupt.value_browser import Source, show_values
from reviewqueue.pages.rendering import PageRequest
from reviewqueue.permissions import is_operator
from reviewqueue.text.agent_text import seen
from reviewqueue.text.hidden_characters import fitting
from reviewqueue.text.json_values import text_in_part
from runs.models import Agent

#: Bytes of HTML of one stored value on a page of this site.
BYTES_SHOWN = 32 * 1024


def drawn(field: str, label: str = "") -> Callable[[Model], SafeString]:
    """Return a column that shows a text of agents on one line, every hidden character drawn."""

    @admin.display(description=label or field.replace("_", " "), ordering=field)
    def column(row: Model) -> SafeString:
        return seen(str(getattr(row, field)), one_line=True)

    return column


def by_whom(field: str) -> Callable[[Model], SafeString]:
    """Return a column that names who did it as a sentence does."""

    @admin.display(description=field.replace("_", " "), ordering=field)
    def column(row: Model) -> SafeString:
        return seen(in_words(str(getattr(row, field))), one_line=True)

    return column


def json_text(field: str) -> Callable[[Model], SafeString]:
    """Return a read-only field that shows a JSON value exactly, as indented text."""

    @admin.display(description=field)
    def shown(row: Model) -> SafeString:
        return as_json(getattr(row, field), more=values_address(row, field))

    return shown


def as_json(value: Any, *, more: str, size: int = BYTES_SHOWN) -> SafeString:
    """Return the first ``size`` bytes of a JSON value as it is stored, one member a line.

    ``more``: the address of the page with every value of it.
    """
    text = simplejson.dumps(value, use_decimal=True, ensure_ascii=False, indent=2)
    head, end = fitting(text, size)
    shown = mark_safe(head)  # noqa: S308  ``fitting`` escapes
    return format_html("<pre>{}</pre>{}", shown, text_in_part("", end, len(text), more=more))


def values_address(row: Model, part: str) -> str:
    """Return the address of the page with every value of a part of a row."""
    meta = row._meta
    return reverse(f"admin:{meta.app_label}_{meta.model_name}_values", args=[row.pk, part])


@dataclass(frozen=True, kw_only=True)
class Rights:
    """What the desk has for a person: everything, or what their groups own."""

    sees_all: bool
    owns: bool
    groups: list[int]

    @property
    def any(self) -> bool:
        return self.sees_all or self.owns


NONE = Rights(sees_all=False, owns=False, groups=[])


def rights_of(request: HttpRequest) -> Rights:
    """Return the rights of who asks: read once for each request, since the site asks for every kind of row."""
    rights: Rights | None = getattr(request, "desk_rights", None)
    if rights is None:
        rights = _rights(person_of(request))
        request.desk_rights = rights  # type: ignore[attr-defined]
    return rights


def _rights(person: User) -> Rights:
    if not person.is_active or not person.is_staff:
        return NONE
    groups = list(person.groups.values_list("pk", flat=True))
    owns = Agent.objects.filter(owner__in=groups).exists() or Effect.objects.filter(owner__in=groups).exists()
    return Rights(sees_all=person.is_superuser or is_operator(person), owns=owns, groups=groups)


def person_of(request: HttpRequest) -> User:
    """Return who asks; also a stranger, whom the sign-in page asks for, and who is not active."""
    return cast(User, request.user)


class Desk(admin.ModelAdmin):
    """Rows that may be read. ``owner`` is the way from a row to the group that owns it; empty: operators only.

    ``shows`` lists what a row's page shows; empty: every column.
    """

    owner: str = ""
    shows: Sequence[Any] = ()
    #: Parts of a row that may be large, each with how it is read from the row; each has a page with every value.
    parts: Mapping[str, Callable[[Any], Any]] = {}
    actions = None
    list_per_page = 50
    show_full_result_count = False

    class Media:
        css = {"all": ["admin.css"]}

    def get_queryset(self, request: HttpRequest) -> QuerySet:
        """Return the rows that belong to the person's groups."""
        rows, rights = self.model._default_manager.all(), rights_of(request)
        if rights.sees_all:
            return rows
        return rows.filter(**{f"{self.owner}__in": rights.groups}) if self.owner else rows.none()

    def get_urls(self) -> list[Any]:
        """Return the addresses of the site, and that of every value of a part of a row."""
        name = f"{self.opts.app_label}_{self.opts.model_name}_values"
        own = path("<int:object_id>/values/<slug:part>/", self.admin_site.admin_view(self.values_view), name=name)
        return [own, *super().get_urls()] if self.parts else super().get_urls()

    def values_view(self, request: HttpRequest, object_id: int, part: str) -> HttpResponse:
        """Show every value of a part of a row, page by page."""
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
        return rights_of(request).any

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        rights = rights_of(request)
        if obj is None:
            return rights.sees_all or (rights.any and bool(self.owner))
        return self.get_queryset(request).filter(pk=obj.pk).exists()

    def has_add_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False
