"""The owners' desk: Django's admin site, read-only but for effects whose outcome is in question and for holds.

For staff: operators see everything, owners what belongs to their groups, everybody else nothing. History is never added
to, changed or deleted here; what an owner says goes through `runs.settling`, like every other move. No rule lives here.
Agents' words are drawn with their hidden characters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import simplejson
from django.contrib import admin, messages
from django.contrib.auth.models import User
from django.db.models import Model, OuterRef, QuerySet, Subquery
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from ledger.errors import Refusal
from ledger.models import Effect
from ledger.states import EffectStatus
from reviewqueue.authority import is_operator
from reviewqueue.models import ApiKey, UnknownOutcome
from reviewqueue.owners_desk import HoldForm, SettlingForm, Word, lift, say, word_for_hold, words_for
from reviewqueue.pages.words import seen
from runs.models import Agent, CallLabel, Connection, EffectRule, Event, Fact, Hold, Policy, Queue, Run
from runs.states import HoldKind

admin.site.site_header = "Review Queue: owners’ desk"
admin.site.site_title = "Review Queue"
admin.site.index_title = "What you own"


def drawn(field: str, label: str = "") -> Callable[[Model], SafeString]:
    """Return a column that shows a text of agents on one line, every hidden character drawn."""

    @admin.display(description=label or field.replace("_", " "), ordering=field)
    def column(row: Model) -> SafeString:
        return seen(str(getattr(row, field)), one_line=True)

    return column


def json_text(field: str) -> Callable[[Model], SafeString]:
    """Return a read-only field that shows a JSON value exactly, as indented text."""

    @admin.display(description=field)
    def shown(row: Model) -> SafeString:
        return as_json(getattr(row, field))

    return shown


def as_json(value: Any) -> SafeString:
    """Return a JSON value as it is stored, one member a line."""
    return format_html("<pre>{}</pre>", seen(simplejson.dumps(value, use_decimal=True, ensure_ascii=False, indent=2)))


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
    actions = None
    list_per_page = 50
    show_full_result_count = False

    class Media:
        css = {"all": ["desk.css"]}

    def get_queryset(self, request: HttpRequest) -> QuerySet:
        """Return the rows that belong to the person's groups."""
        rows, rights = self.model._default_manager.all(), rights_of(request)
        if rights.sees_all:
            return rows
        return rows.filter(**{f"{self.owner}__in": rights.groups}) if self.owner else rows.none()

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


class MineFilter(admin.SimpleListFilter):
    """An operator sees all effects; this narrows them to those that are theirs to settle first."""

    title = "owner"
    parameter_name = "owner"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("mine", "my groups")]

    def queryset(self, request: HttpRequest, queryset: QuerySet) -> QuerySet:
        mine = self.value() == "mine"
        return queryset.filter(owner__in=rights_of(request).groups) if mine else queryset


@admin.display(description="run", ordering="scope")
def run_of(effect: Effect) -> SafeString:
    if effect.run_pk is None:  # type: ignore[attr-defined]  # annotated by EffectDesk.get_queryset
        return format_html("{}", effect.scope)
    address = reverse("admin:runs_run_change", args=[effect.run_pk])  # type: ignore[attr-defined]
    return format_html('<a href="{}">{}</a>', address, seen(effect.run_title, one_line=True))  # type: ignore[attr-defined]


@admin.display(description="unknown since", ordering="changed_at")
def since(effect: Effect) -> str:
    return f"{effect.changed_at:%Y-%m-%d %H:%M} UTC"


@admin.register(Effect)
class EffectDesk(Desk):
    """The ledger. A row's page shows the exact call and every word said of it, and takes the owner's."""

    owner = "owner"
    list_display = ["public_id", drawn("name"), drawn("key"), "status", "attempt", run_of, "owner", "changed_at"]
    list_filter = [MineFilter, "status", "repeat"]
    search_fields = ["=public_id", "=key", "=name", "=scope"]
    list_select_related = ["owner"]
    ordering = ["-changed_at"]

    def get_queryset(self, request: HttpRequest) -> QuerySet:
        runs = Run.objects.filter(public_id=OuterRef("scope"))
        return (
            super()
            .get_queryset(request)
            .annotate(run_pk=Subquery(runs.values("pk")[:1]), run_title=Subquery(runs.values("title")[:1]))
        )

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show one effect; a POST says what became of it, and is told in one sentence what followed."""
        effect = self.find(request, object_id)
        form = SettlingForm(request.POST if request.method == "POST" else None)
        if request.method == "POST" and form.is_valid():
            try:
                messages.success(request, say(effect, form, person=person_of(request)))
            except Refusal as refused:
                messages.error(request, refused.detail)
                return HttpResponseRedirect(request.path)
            return HttpResponseRedirect(reverse("admin:reviewqueue_unknownoutcome_changelist"))
        return TemplateResponse(request, "admin/effect.html", self.shown(request, effect, form))

    def find(self, request: HttpRequest, object_id: str) -> Effect:
        """Return the effect if it is the person's to see; foreign and missing look the same."""
        if not self.has_view_permission(request) or not object_id.isdecimal():
            raise Http404
        effect = EffectDesk.get_queryset(self, request).select_related("owner").filter(pk=int(object_id[:18])).first()
        if effect is None:
            raise Http404
        return effect

    def shown(self, request: HttpRequest, effect: Effect, form: SettlingForm) -> dict[str, Any]:
        """Return what the page shows: the call, what was said, whom it holds, and what may be said now."""
        run = Run.objects.filter(public_id=effect.scope).first()
        reports = effect.reports.order_by("id")
        orders = effect.orders.select_related("person").order_by("id")
        return {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": "Unknown outcome" if effect.status == EffectStatus.UNKNOWN else "Effect",
            "effect": effect,
            "name": seen(effect.name, one_line=True),
            "key": seen(effect.key, one_line=True),
            "error": seen(effect.error),
            "arguments": as_json(effect.call["arguments"]),
            "receipt": as_json(effect.receipt),
            "run": run,
            "run_title": seen(run.title, one_line=True) if run else "",
            "holds": run.holds.filter(lifted_at=None).order_by("id") if run else [],
            "reports": [(report, as_json(report.body)) for report in reports],
            "orders": [(order, seen(order.reason)) for order in orders],
            "form": form,
            "words": list(words_for(effect, run)),
        }


@admin.register(UnknownOutcome)
class UnknownOutcomeDesk(EffectDesk):
    """What waits for its owner: nobody knows whether it happened. The oldest first."""

    list_display = [drawn("name"), since, run_of, drawn("key"), "attempt", "owner"]
    list_filter = [MineFilter]
    ordering = ["changed_at"]

    def get_queryset(self, request: HttpRequest) -> QuerySet:
        return super().get_queryset(request).filter(status=EffectStatus.UNKNOWN)


@admin.register(Run)
class RunDesk(Desk):
    owner = "agent__owner"
    list_display = ["public_id", drawn("title"), "agent", "status", "initiator", "created_at"]
    list_filter = ["status", ("agent", admin.RelatedOnlyFieldListFilter)]  # not the names of others' agents
    search_fields = ["=public_id", "=key"]
    list_select_related = ["agent", "initiator"]
    ordering = ["-created_at"]
    shows = [
        "public_id", "timeline", "agent", drawn("key"), drawn("title"), "initiator", drawn("code_version"), "status",
        "ending", drawn("ending_reason"), "ended_at", "epoch", "checkpoint_number", "fence", "lease_until", "attempts",
        "pause_asked_at", "pause_asked_by", drawn("pause_reason"), "open_holds", "open_continuation", "open_waits",
        "expires_at", "created_at",
    ]  # fmt: skip

    @admin.display(description="timeline")
    def timeline(self, run: Run) -> SafeString:
        address = reverse("admin:runs_event_changelist")
        return format_html(
            '<a href="{}?run__public_id__exact={}">{} events</a>', address, run.public_id, run.timeline_seq
        )


@admin.register(Event)
class EventDesk(Desk):
    owner = "run__agent__owner"
    list_display = ["run", "seq", "type", drawn("actor"), "at"]
    list_filter = ["type"]
    search_fields = ["=run__public_id"]
    list_select_related = ["run"]
    ordering = ["-run_id", "seq"]
    shows = ["run", "seq", "type", drawn("actor"), "at", json_text("refs"), "prev", "digest"]

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest | None = None) -> bool:
        return lookup == "run__public_id__exact" or super().lookup_allowed(lookup, value, request)  # type: ignore[arg-type]


@admin.register(Hold)
class HoldDesk(Desk):
    owner = "owner"
    list_display = ["run", "kind", drawn("subject"), "owner", "opened_at", "lifted_at", "lifted_by"]
    list_filter = ["kind", ("lifted_at", admin.EmptyFieldListFilter)]
    list_select_related = ["run", "owner"]
    ordering = ["-opened_at"]
    shows = ["run", "kind", drawn("subject"), drawn("reason"), "owner", "opened_at", "lifted_at", "lifted_by"]

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show one hold; a POST is its owner's word that the run may go on."""
        found = self.get_queryset(request).select_related("run__agent", "owner")
        hold = found.filter(pk=int(object_id[:18])).first() if object_id.isdecimal() else None
        if hold is None or not self.has_view_permission(request):
            raise Http404
        word = word_for_hold(hold)
        form = HoldForm(request.POST if request.method == "POST" else None)
        if request.method == "POST" and word is not None and form.is_valid():
            try:
                messages.success(
                    request, lift(hold, word, person=person_of(request), reason=form.cleaned_data["reason"])
                )
            except Refusal as refused:
                messages.error(request, refused.detail)
            return HttpResponseRedirect(request.path)
        return TemplateResponse(request, "admin/hold.html", self.shown(request, hold, word, form))

    def shown(self, request: HttpRequest, hold: Hold, word: Word | None, form: HoldForm) -> dict[str, Any]:
        """Return what the page shows: what is held and why, the fact if it is one, and what may be said."""
        facts = Fact.objects.filter(
            checkpoint__run=hold.run, checkpoint__number=hold.run.checkpoint_number, name=hold.subject
        ).select_related("connection", "waived_by")
        return {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": "Hold",
            "hold": hold,
            "subject": seen(hold.subject, one_line=True),
            "reason": seen(hold.reason),
            "run_title": seen(hold.run.title, one_line=True),
            "facts": [
                (fact, as_json(fact.value), as_json(fact.last_value))
                for fact in (facts if hold.kind == HoldKind.FACT_UNAVAILABLE else [])
            ],
            "form": form,
            "word": word,
        }


@admin.register(Agent)
class AgentDesk(Desk):
    owner = "owner"
    list_display = ["slug", "owner", "max_attempts", "created_at"]


@admin.register(EffectRule)
class EffectRuleDesk(Desk):
    owner = "agent__owner"
    list_display = ["agent", "name_pattern", "reason"]


@admin.register(CallLabel)
class CallLabelDesk(Desk):
    owner = "agent__owner"
    list_display = ["agent", "name", "sentence"]


@admin.register(Connection)
class ConnectionDesk(Desk):
    owner = "agent__owner"
    list_display = ["agent", "name", "base_url"]


@admin.register(Queue)
class QueueDesk(Desk):
    owner = "owner"
    list_display = ["slug", "owner", "reviewers", "leads", "auditors", "accepts_new"]


@admin.register(Policy)
class PolicyDesk(Desk):
    """Rows are versions: the command `add_policy` makes the next one, nobody changes one."""

    list_display = ["reason", "version", "agent", "queue", "on_expiry", "deadline_default", "permit_ttl"]
    list_filter = ["reason"]


@admin.register(ApiKey)
class ApiKeyDesk(Desk):
    """Keys by their prefix; the secret is nowhere, and its hash is not shown."""

    list_display = ["__str__", "agent", "person", "name", "created_at", "expires_at", "revoked_at", "last_used_at"]
    shows = ["prefix", "agent", "person", "scopes", "name", "created_at", "expires_at", "revoked_at", "last_used_at"]


from reviewqueue.delivery import webhook_desk  # noqa: E402, F401  registers its desks; here, since it builds on Desk
