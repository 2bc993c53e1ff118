"""Every page for people with who reads it and who changes something by its POST. A page without an entry fails.

`PAGES` is held against the URL map; the authority matrix of pages and their payload corpus start from here. The world has
one open request, one decided, one expired and one ended run, all of one agent and one queue.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from ledger import clock
from ledger.models import Effect
from reviewqueue.models import MessageStatus, NotificationMessage
from reviewqueue.operations.queue_administration import state_token
from reviewqueue.webhooks.models import Delivery, DeliveryStatus, WebhookEndpoint
from runs.external_signals import SignalRequest, receive_signal
from runs.holds import open_hold
from runs.locks import locked_runs
from runs.models import Agent, Decision, Event, Interrupt, PlantedRequest, Queue, Run, Signal, StandingRule
from runs.run_status import save_status
from runs.states import HoldKind
from runs.use_cases.complete_run import fail_run
from runs.use_cases.expire import expire_due_interrupts
from tests import builders
from tests.pages import desk
from tests.planted_builders import a_planted_request, written
from tests.runs.leased_run_builders import a_leased_run, begin, let_go, report
from tests.standing_rule_builders import a_rule_of

#: Who comes. The initiator started the run that waits; a disabled one is still signed in by an old session.
KINDS = ("nobody", "disabled", "stranger", "reviewer", "lead", "auditor", "initiator", "owner", "operator")
SIGNED_IN = KINDS[2:]


@dataclass
class PageWorld:
    """What there is to see."""

    wait: Interrupt
    receipt: Decision
    ended: Run
    effect: Effect
    unknown: Effect
    expired: Interrupt
    signal: Signal
    message: Delivery
    notification: NotificationMessage
    rule: StandingRule
    people: dict[str, User]

    def browser_of(self, kind: str) -> Client:
        client = Client()
        if kind in self.people:
            client.force_login(self.people[kind])
        if kind == "disabled":
            User.objects.filter(pk=self.people[kind].pk).update(is_active=False)
        return client


def a_page_world() -> PageWorld:
    builders.a_queue()
    people = {
        "disabled": builders.a_person("gone@example.org", "engineering-reviewers", "operators"),
        "stranger": builders.a_person("zoe@example.org"),
        "reviewer": builders.a_reviewer("ana@example.org"),
        "lead": builders.a_person("lea@example.org", "engineering-leads"),
        "auditor": builders.a_person("aud@example.org", "engineering-auditors"),
        "initiator": builders.a_person("tom@example.org"),
        "owner": builders.a_person("own@example.org", "agent-owners"),
        "operator": builders.a_person("ops@example.org", "operators"),
    }
    for kind in ("owner", "operator"):
        people[kind].is_staff = True
        people[kind].save()
    started = [builders.a_running_run(initiator=people["initiator"]) for _ in range(4)]
    decided = builders.a_waiting_interrupt(started=started[1])
    builders.decide(decided, builders.a_reviewer("ben@example.org"))
    lost = started[2]
    fail_run(agent=lost.run.agent, run_id=lost.run.public_id, token=lost.lease.token, error=None)
    expired = builders.a_waiting_interrupt(started=started[3])
    builders.move_deadline(expired, clock.now())
    expire_due_interrupts(limit=1)
    wait = builders.a_waiting_interrupt(started=started[0])
    return PageWorld(
        wait=wait,
        receipt=Decision.objects.get(),
        ended=lost.run,
        effect=_an_effect(wait.run),
        unknown=an_unknown_effect_of_a_held_run(people["initiator"]),
        expired=expired,
        signal=_a_dead_signal(wait.agent),
        message=_a_dead_message(wait),
        notification=a_dead_notification(people["reviewer"]),
        rule=a_rule_of(people["lead"]),
        people=people,
    )


def _a_dead_signal(agent: Agent) -> Signal:
    told = SignalRequest(sender_id="evt-1", correlation="PO-2231", type="delivered", body={"flight": "LH 400"})
    signal = receive_signal(agent=agent, told=told).signal
    Signal.objects.filter(pk=signal.pk).update(keep_until=clock.now())
    return signal


def _a_dead_message(wait: Interrupt) -> Delivery:
    """A dead letter, written as rows: no test here calls a receiver."""
    now = clock.now()
    endpoint = WebhookEndpoint.objects.create(
        public_id="end_1", agent=wait.agent, key="k", url="https://desk.example/hook", events=[], created_at=now
    )
    event = Event.objects.filter(run=wait.run).earliest("seq")
    ended = {"status": DeliveryStatus.DEAD, "give_up_at": now, "ended_at": now, "created_at": now, "body": "{}"}
    return Delivery.objects.create(public_id="dlv_1", endpoint=endpoint, event=event, type=event.type, **ended)


def a_dead_notification(person: User) -> NotificationMessage:
    now = clock.now()
    ended = {"status": MessageStatus.DEAD, "give_up_at": now, "ended_at": now, "created_at": now}
    return NotificationMessage.objects.create(public_id="ntf_1", channel="mail", person=person, **ended)


def an_unknown_effect_of_a_held_run(initiator: User) -> Effect:
    """An effect whose outcome its worker reported as unknown, of a run that is also held because workers gave up."""
    run = a_leased_run(builders.an_agent(), initiator=initiator)
    begin(run)
    report(run, "unknown", error="no reply in 30 s")
    let_go(run)
    with transaction.atomic():
        held, now = locked_runs().get(pk=run.pk), clock.now()
        open_hold(held, HoldKind.GAVE_UP, owner_id=run.agent.owner_id, reason="Five workers claimed it.", now=now)
        save_status(held, now)
    return Effect.objects.get(scope=run.public_id)


def _an_effect(run: Run) -> Effect:
    now, call = clock.now(), {"name": "notify", "arguments": {}}
    words = {"name": "notify", "call": call, "call_digest": "rq1:call", "status": "applied", "fence": 1}
    return Effect.objects.create(
        public_id="eff_1", scope=run.public_id, key="k", owner=run.agent.owner, created_at=now, changed_at=now, **words
    )


@dataclass
class Page:
    """One address. ``reads`` says what each signed-in kind gets (``None``: it is not for GET), ``fields`` what a good POST
    holds, ``changes`` who changes something by it; everybody else changes nothing."""

    address: Callable[[PageWorld], str]
    reads: dict[str, int] | None = None
    fields: Callable[[PageWorld, str], dict[str, str]] | None = None
    changes: frozenset[str] = frozenset()
    is_open: bool = False
    asks_by_itself: bool = False  # by script: no redirect away from unsent input, so a stranger gets 403


ALL_READ = dict.fromkeys(SIGNED_IN, 200)
SEES = ALL_READ | {"stranger": 404}
OWNERS_READ = dict.fromkeys(SIGNED_IN, 404) | dict.fromkeys(("owner", "operator"), 200)


def _wait(end: str = "") -> Callable[[PageWorld], str]:
    return lambda world: f"/interrupts/{world.wait.public_id}{end}"


def _run(end: str = "") -> Callable[[PageWorld], str]:
    return lambda world: f"/runs/{world.wait.run.public_id}{end}"


def _with(**fields: str) -> Callable[[PageWorld, str], dict[str, str]]:
    return lambda world, kind: fields


def _rejection(world: PageWorld, kind: str) -> dict[str, str]:
    """What this person's form would send, or a reviewer's form if the person has none."""
    drawn_for = kind if kind in ("reviewer", "lead") else "reviewer"
    form = desk.form_of(world.browser_of(drawn_for), world.wait)
    return form | {"verdict": "reject", "act": "reject", "message-reject": "Too dear"}


def _assigned(world: PageWorld, kind: str) -> dict[str, str]:
    return {"people": str(world.people["reviewer"].pk)}


def _approved_together(world: PageWorld, kind: str) -> dict[str, str]:
    """A request with low risk among the selected ones."""
    wait = world.wait
    seen = {f"version-{wait.public_id}": "1", f"digest-{wait.public_id}": wait.content_digest}
    return seen | {"interrupt": wait.public_id, "verdict": "approve", "act": "approve"}


def _undone_together(world: PageWorld, kind: str) -> dict[str, str]:
    """The decision of another person."""
    return {"decision": world.receipt.public_id}


def _closed_queue(world: PageWorld, kind: str) -> dict[str, str]:
    return {"seen": state_token(Queue.objects.get(slug="engineering"))}


def _new_version(world: PageWorld, kind: str) -> dict[str, str]:
    """What an operator's form would send after the preview."""
    page = world.browser_of("operator").get("/policies/edit?reason=approval.action")
    named = {"reason": "approval.action", "agent": "", "based_on": str(page.context["based_on"]), "act": "save"}
    return page.context["texts"] | named | {"queue": "engineering", "any_queue": "", "quorum": "2"}


def _new_rule(world: PageWorld, kind: str) -> dict[str, Any]:
    builders.a_policy(standing_rules="low")
    bounds = {"pointer": ["/arguments/amount", ""], "test": ["below", "equals"], "value": ["20", ""]}
    named = {"queue": "engineering", "agent": "purchase-requests", "reason": "approval.action", "call": "refund"}
    ends_at = f"{clock.now() + timedelta(days=3):%Y-%m-%dT%H:%M}"
    return named | bounds | {"max_uses": "5", "ends_at": ends_at, "note": "Small refunds.", "act": "save"}


def _withdrawal_address(world: PageWorld) -> str:
    """Return the address of the lead's planted request, which the form below makes; without it, of none."""
    ids = PlantedRequest.objects.filter(outcome="").values_list("public_id", flat=True)
    return f"/planted/{ids.first() or 'plt_0'}/withdraw"


def _withdrawal(world: PageWorld, kind: str) -> dict[str, str]:
    if not PlantedRequest.objects.exists():
        a_planted_request(world.people["lead"], copy_of=builders.a_waiting_interrupt())
    return {}


def _planted(world: PageWorld, kind: str) -> dict[str, Any]:
    stated = written(builders.a_waiting_interrupt().public_id)
    return stated | {"arguments": json.dumps(stated["arguments"])}


#: Everyone who can see a request can comment on it.
WHO_SEE = frozenset(SIGNED_IN) - {"stranger"}
WHO_DECIDE = frozenset({"reviewer", "lead"})
WHO_ANSWER = frozenset({"owner", "operator"})

#: A form of the notification settings.
NOTIFICATION_SETTINGS = {"frequency": "hourly", "daily_at": "08:00", "time_zone": "UTC", "by_mail": "1"}

PAGES: dict[str, Page] = {
    "": Page(lambda _: "/", ALL_READ),
    "interrupts/<slug:interrupt_id>": Page(_wait(), SEES, _rejection, WHO_DECIDE),
    "interrupts/<slug:interrupt_id>/standing": Page(_wait("/standing"), SEES),
    "interrupts/<slug:interrupt_id>/next": Page(_wait("/next"), dict.fromkeys(SIGNED_IN, 302) | {"stranger": 404}),
    "interrupts/<slug:interrupt_id>/attachments": Page(_wait("/attachments?field=input"), None, _with()),
    "interrupts/<slug:interrupt_id>/attachments/<str:digest>": Page(
        _wait(f"/attachments/sha256:{'0' * 64}"), dict.fromkeys(SIGNED_IN, 404)
    ),
    "interrupts/<slug:interrupt_id>/attachments/<str:digest>/preview": Page(
        _wait(f"/attachments/sha256:{'0' * 64}/preview"), dict.fromkeys(SIGNED_IN, 404)
    ),
    "interrupts/<slug:interrupt_id>/attachments/<str:digest>/picture": Page(
        _wait(f"/attachments/sha256:{'0' * 64}/picture"), dict.fromkeys(SIGNED_IN, 404)
    ),
    "interrupts/<slug:interrupt_id>/call": Page(_wait("/call"), SEES),
    "interrupts/<slug:interrupt_id>/values/<slug:part>": Page(_wait("/values/evidence"), SEES),
    "interrupts/<slug:interrupt_id>/claim": Page(_wait("/claim"), None, _with(), WHO_DECIDE),
    "interrupts/<slug:interrupt_id>/release": Page(_wait("/release"), None, _with()),
    "interrupts/<slug:interrupt_id>/comment": Page(_wait("/comment"), None, _with(comment="Who knows?"), WHO_SEE),
    "interrupts/<slug:interrupt_id>/assign": Page(_wait("/assign"), None, _assigned, frozenset({"lead", "operator"})),
    "interrupts/<slug:interrupt_id>/extend": Page(
        _wait("/extend"), None, _with(by="3600"), frozenset({"lead", "operator"})
    ),
    "interrupts/<slug:interrupt_id>/skip": Page(_wait("/skip"), None, _with(reason="Not my field"), WHO_SEE),
    "interrupts/<slug:interrupt_id>/snooze": Page(_wait("/snooze"), None, _with(**{"for": "900"}), WHO_DECIDE),
    "filters/<slug:verb>": Page(
        lambda _: "/filters/save",
        None,
        _with(name="Urgent", queue="engineering", list="risk=high"),
        frozenset({"lead"}),
    ),
    "interrupts/<slug:interrupt_id>/typed": Page(_wait("/typed"), None, _rejection, WHO_DECIDE, asks_by_itself=True),
    "interrupts/<slug:interrupt_id>/typed/discard": Page(_wait("/typed/discard"), None, _with()),
    "together": Page(lambda _: "/together", ALL_READ, _approved_together, WHO_DECIDE),
    "together/undo": Page(lambda _: "/together/undo", None, _undone_together),
    "interrupts/<slug:interrupt_id>/undo": Page(_wait("/undo"), None, _with()),
    "decisions/<slug:decision_id>": Page(lambda world: f"/decisions/{world.receipt.public_id}", SEES),
    "decisions/<slug:decision_id>/values/<slug:part>": Page(
        lambda world: f"/decisions/{world.receipt.public_id}/values/call", SEES
    ),
    "decisions/<slug:decision_id>/evidence": Page(lambda world: f"/decisions/{world.receipt.public_id}/evidence", SEES),
    "dead-letters": Page(lambda _: "/dead-letters", ALL_READ),
    "dead-letters/messages/<slug:delivery_id>": Page(
        lambda world: f"/dead-letters/messages/{world.message.public_id}", None, _with(), WHO_ANSWER
    ),
    "dead-letters/notifications/<slug:message_id>": Page(
        lambda world: f"/dead-letters/notifications/{world.notification.public_id}",
        None,
        _with(),
        frozenset({"operator"}),
    ),
    "dead-letters/<slug:signal_id>": Page(
        lambda world: f"/dead-letters/{world.signal.public_id}",
        dict.fromkeys(SIGNED_IN, 404) | dict.fromkeys(WHO_ANSWER, 200),
    ),
    "dead-letters/<slug:signal_id>/body": Page(
        lambda world: f"/dead-letters/{world.signal.public_id}/body",
        dict.fromkeys(SIGNED_IN, 404) | dict.fromkeys(WHO_ANSWER, 200),
    ),
    "dead-letters/<slug:signal_id>/<slug:verb>": Page(
        lambda world: f"/dead-letters/{world.signal.public_id}/dismiss", None, _with(reason="sent twice"), WHO_ANSWER
    ),
    "expired": Page(lambda _: "/expired", ALL_READ),
    "expired/<slug:interrupt_id>/restart": Page(
        lambda world: f"/expired/{world.expired.public_id}/restart",
        None,
        _with(reason="ask again"),
        WHO_ANSWER,
    ),
    "insights": Page(lambda _: "/insights", ALL_READ),
    "insights.csv": Page(lambda _: "/insights.csv", ALL_READ),
    "notifications": Page(lambda _: "/notifications", ALL_READ, _with(**NOTIFICATION_SETTINGS), frozenset(SIGNED_IN)),
    "people": Page(lambda _: "/people", dict.fromkeys(SIGNED_IN, 404) | {"operator": 200}),
    "people/add": Page(
        lambda _: "/people/add",
        None,
        _with(email="zoe@example.org", role="auditor", queue="engineering"),
        frozenset({"operator"}),
    ),
    "people/<slug:move>": Page(
        lambda _: "/people/disable", None, _with(person="zoe@example.org"), frozenset({"operator"})
    ),
    "outcomes": Page(lambda _: "/outcomes", OWNERS_READ),
    "outcomes/effects/<slug:effect_id>": Page(
        lambda world: f"/outcomes/effects/{world.unknown.public_id}",
        None,
        _with(resolution="applied", reason="The supplier confirmed it.", attempt="1"),
        WHO_ANSWER,
    ),
    "outcomes/holds/<slug:run_id>": Page(
        lambda world: f"/outcomes/holds/{world.unknown.scope}",
        None,
        _with(kind="gave_up", subject="", resolution="retry", reason="The worker is repaired."),
        WHO_ANSWER,
    ),
    "queues": Page(lambda _: "/queues", OWNERS_READ),
    "queues/add": Page(lambda _: "/queues/add", None, _with(name="invoices", owner="finance"), frozenset({"operator"})),
    "queues/<slug:slug>/<slug:verb>": Page(
        lambda _: "/queues/engineering/close", None, _closed_queue, frozenset({"operator"})
    ),
    "replies": Page(lambda _: "/replies", ALL_READ),
    "replies/<slug:verb>": Page(
        lambda _: "/replies/save",
        None,
        _with(name="Receipt", text="Send the receipt first.", queue="engineering"),
        frozenset({"lead"}),
    ),
    "rules": Page(lambda _: "/rules", ALL_READ),
    "rules/new": Page(
        lambda _: "/rules/new", dict.fromkeys(SIGNED_IN, 404) | {"lead": 200}, _new_rule, frozenset({"lead"})
    ),
    "rules/<slug:rule_id>": Page(lambda world: f"/rules/{world.rule.public_id}", SEES | {"initiator": 404}),
    "rules/<slug:rule_id>/revoke": Page(
        lambda world: f"/rules/{world.rule.public_id}/revoke",
        None,
        _with(reason="It is too wide."),
        frozenset({"lead", "owner", "operator"}),
    ),
    "planted": Page(lambda _: "/planted", dict.fromkeys(SIGNED_IN, 404) | {"lead": 200}),
    "planted/new": Page(
        lambda _: "/planted/new", dict.fromkeys(SIGNED_IN, 404) | {"lead": 200}, _planted, frozenset({"lead"})
    ),
    "planted/<slug:planted_id>/withdraw": Page(_withdrawal_address, None, _withdrawal, frozenset({"lead"})),
    "policies/edit": Page(
        lambda _: "/policies/edit?reason=approval.action",
        dict.fromkeys(SIGNED_IN, 404) | {"operator": 200},
        _new_version,
        frozenset({"operator"}),
    ),
    "audit": Page(lambda _: "/audit", OWNERS_READ),
    "audit.csv": Page(lambda _: "/audit.csv", OWNERS_READ),
    "audit.json": Page(lambda _: "/audit.json", OWNERS_READ),
    "agents": Page(lambda _: "/agents", ALL_READ),
    "agents/add": Page(
        lambda _: "/agents/add",
        None,
        _with(name="payer", owner="finance", effects="listed"),
        frozenset({"operator"}),
    ),
    "agents/<slug:slug>": Page(lambda _: "/agents/purchase-requests", OWNERS_READ),
    "agents/<slug:slug>/<slug:subject>/<slug:verb>": Page(
        lambda _: "/agents/purchase-requests/keys/add", None, _with(name="bank", scope="run"), WHO_ANSWER
    ),
    "agents/<slug:slug>/<slug:move>": Page(
        lambda _: "/agents/purchase-requests/halt", None, _with(reason="look"), frozenset({"owner", "operator"})
    ),
    "runs": Page(lambda _: "/runs", ALL_READ),
    "runs/<slug:run_id>": Page(_run(), SEES),
    "runs/<slug:run_id>/evidence": Page(_run("/evidence"), SEES),
    "runs/<slug:run_id>/result": Page(
        lambda world: f"/runs/{world.ended.public_id}/result",
        dict.fromkeys(SIGNED_IN, 404) | dict.fromkeys(("initiator", "owner", "operator"), 200),
    ),
    "runs/<slug:run_id>/effects/<slug:effect_id>": Page(
        lambda world: f"/runs/{world.wait.run.public_id}/effects/{world.effect.public_id}", SEES
    ),
    "runs/<slug:run_id>/<slug:verb>": Page(
        _run("/cancel"), None, _with(reason="not needed"), frozenset({"initiator", "owner", "operator"})
    ),
    "api/docs/": Page(lambda _: "/api/docs/", ALL_READ, is_open=True),
    "problems/<slug:code>": Page(lambda _: "/problems/stale_version", ALL_READ, is_open=True),
    "account/login/": Page(lambda _: "/account/login/", dict.fromkeys(SIGNED_IN, 302), is_open=True),
    "account/logout/": Page(lambda _: "/account/logout/", ALL_READ),
    "account/password/": Page(lambda _: "/account/password/", ALL_READ),
    "account/confirm/": Page(lambda _: "/account/confirm/", ALL_READ),
    "account/password/reset/": Page(lambda _: "/account/password/reset/", ALL_READ, is_open=True),
    "account/password/reset/done/": Page(lambda _: "/account/password/reset/done/", ALL_READ, is_open=True),
    "account/^password/reset/key/(?P<uidb36>[0-9A-Za-z]+)-(?P<key>[^/]+)/$": Page(
        lambda _: "/account/password/reset/key/1-wrong/", ALL_READ, is_open=True
    ),
    "account/password/reset/key/done/": Page(lambda _: "/account/password/reset/key/done/", ALL_READ, is_open=True),
    "account/inactive/": Page(lambda _: "/account/inactive/", ALL_READ, is_open=True),
    "account/sign-on/": Page(lambda _: "/account/sign-on/", dict.fromkeys(SIGNED_IN, 404), is_open=True),
    "account/sign-on/callback/": Page(
        lambda _: "/account/sign-on/callback/", dict.fromkeys(SIGNED_IN, 404), is_open=True
    ),
    "account/sessions/": Page(lambda _: "/account/sessions/", ALL_READ),
    "account/second-factor/": Page(lambda _: "/account/second-factor/", ALL_READ),
    "account/second-factor/use/": Page(
        lambda _: "/account/second-factor/use/", dict.fromkeys(SIGNED_IN, 302), is_open=True
    ),
    "account/second-factor/confirm/": Page(lambda _: "/account/second-factor/confirm/", dict.fromkeys(SIGNED_IN, 302)),
    "account/second-factor/app/": Page(lambda _: "/account/second-factor/app/", dict.fromkeys(SIGNED_IN, 302)),
    "account/second-factor/app/remove/": Page(
        lambda _: "/account/second-factor/app/remove/", dict.fromkeys(SIGNED_IN, 404)
    ),
    "account/second-factor/codes/": Page(lambda _: "/account/second-factor/codes/", dict.fromkeys(SIGNED_IN, 404)),
    "account/second-factor/codes/new/": Page(
        lambda _: "/account/second-factor/codes/new/", dict.fromkeys(SIGNED_IN, 302)
    ),
    "account/passkeys/": Page(lambda _: "/account/passkeys/", ALL_READ),
    "account/passkeys/add/": Page(lambda _: "/account/passkeys/add/", dict.fromkeys(SIGNED_IN, 302)),
    "account/passkeys/confirm/": Page(lambda _: "/account/passkeys/confirm/", dict.fromkeys(SIGNED_IN, 302)),
    "account/passkeys/sign-in/": Page(lambda _: "/account/passkeys/sign-in/", ALL_READ, is_open=True),  # JSON
    "account/passkeys/<int:pk>/remove/": Page(lambda _: "/account/passkeys/1/remove/", dict.fromkeys(SIGNED_IN, 302)),
    "account/passkeys/<int:pk>/rename/": Page(lambda _: "/account/passkeys/1/rename/", dict.fromkeys(SIGNED_IN, 302)),
    "healthz": Page(lambda _: "/healthz", ALL_READ, is_open=True),
    "readyz": Page(lambda _: "/readyz", dict.fromkeys(SIGNED_IN, 503), is_open=True),
    "metrics": Page(lambda _: "/metrics", ALL_READ, is_open=True),
}


def pages_of_the_map() -> Iterator[str]:
    """Yield every address that is no part of the API and none of the admin site, which has its own matrix."""
    for route in _walk(get_resolver().url_patterns, ""):
        if not route.startswith(("api/v1/", "^api/", "admin/")):
            yield route


def admin_addresses() -> Iterator[str]:
    """Yield the addresses of the admin site, with a row that is not there where one is named."""
    for route in _walk(get_resolver().url_patterns, ""):
        if route.startswith("admin/") and not route.startswith("admin/^"):
            yield "/" + route.replace("<path:object_id>", "1").replace("<int:content_type_id>", "1").replace(
                "<path:url>", ""
            ).replace("<path:app_label>", "runs").replace("<str:id>", "1").replace("<int:object_id>", "1").replace(
                "<slug:part>", "call"
            )


def _walk(patterns: list[URLPattern | URLResolver], before: str) -> Iterator[str]:
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            yield from _walk(pattern.url_patterns, before + str(pattern.pattern))
        else:
            yield before + str(pattern.pattern)
