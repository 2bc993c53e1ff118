"""Checks of the set-up: settings and policies are safe; queues and owner groups have people who can act."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.auth.models import Group
from django.core import checks
from django.db import connection

from ledger.models import Effect
from ledger.states import EffectStatus
from reviewqueue.models import ChatChannel
from reviewqueue.operations.database_roles import excessive_powers
from reviewqueue.operations.doctor.findings import Finding
from reviewqueue.operations.environment import IDLE_IN_TRANSACTION_SECONDS, IDLE_TIMEOUT
from reviewqueue.operations.installation import PROGRAM
from reviewqueue.permissions import deciders_of, is_stuck
from reviewqueue.serving import shared_buckets
from runs.attachment_scan import find_scan_fault
from runs.models import Agent, EffectRule, Hold, Interrupt, Policy, Queue
from runs.policies import rules_with_any_queue
from runs.states import EffectMode, InterruptStatus, RuleAction

MIN_TOKEN_LENGTH = 16
_LOCAL_HOSTS = {"localhost", "127.0.0.1", "::1"}
#: Django's warnings about pages served over plain HTTP.
_PLAIN_HTTP_WARNINGS = {"security.W004", "security.W008", "security.W012", "security.W016"}


def unsafe_settings() -> Iterator[Finding]:
    """Find warnings of Django's deployment checks, and settings of our own that they do not know.

    Plain HTTP is only a note where BASE_URL is on this machine.
    """
    is_remote = urlsplit(settings.BASE_URL).hostname not in _LOCAL_HOSTS
    for found in checks.run_checks(include_deployment_checks=True):
        if found.level >= checks.WARNING and not found.is_silenced():
            is_wrong = is_remote or found.id not in _PLAIN_HTTP_WARNINGS
            yield Finding(check="settings", message=f"{' '.join(found.msg.split())} ({found.id})", is_wrong=is_wrong)
    if settings.METRICS_TOKEN and len(settings.METRICS_TOKEN) < MIN_TOKEN_LENGTH:
        yield Finding(check="settings", message=f"METRICS_TOKEN must have at least {MIN_TOKEN_LENGTH} characters.")
    yield from _pooled_connection()
    if fault := shared_buckets.find_fault():
        message = f"CACHE_URL does not answer ({fault}), so each web process counts its limits alone."
        yield Finding(check="settings", message=message)
    if fault := find_scan_fault():
        yield Finding(check="settings", message=f"ATTACHMENT_SCAN {fault}. No file can be attached.")
    if not settings.EMAIL_HOST:
        yield Finding(
            check="settings", message="EMAIL_HOST is not set, so no person is notified by mail.", is_wrong=False
        )


def hardening() -> Iterator[Finding]:
    """Find settings that are weaker than docs/threat-model.md assumes for an installation that others can reach."""
    for block in settings.OUTBOUND_ALLOW:
        if ipaddress.ip_network(block).prefixlen == 0:
            yield Finding(check="settings", message=f"OUTBOUND_ALLOW must not allow every address (got {block}).")
    if urlsplit(settings.BASE_URL).hostname in _LOCAL_HOSTS:
        return
    notes = []
    if settings.REQUIRE_SECOND_FACTOR == ["none"]:
        notes.append("REQUIRE_SECOND_FACTOR is none, so a password alone opens every account.")
    if settings.TRUSTED_PROXY_COUNT and not settings.SHUTDOWN_DELAY:
        notes.append("SHUTDOWN_DELAY is 0, so requests can fail when a node behind the proxy is restarted: set 10.")
    if is_readable_on_the_way(settings.DATABASES["default"]):
        notes.append(
            "DATABASE_URL has no sslmode=verify-full, so the connection to PostgreSQL can be read or diverted."
        )
    for message in notes:
        yield Finding(check="settings", message=message, is_wrong=False)


def is_readable_on_the_way(database: dict[str, Any]) -> bool:
    """Tell whether this database is on another machine, and its certificate is not verified."""
    hosts = str(database.get("HOST", "")).split(",")
    is_remote = any(host and not host.startswith("/") and host not in _LOCAL_HOSTS for host in hosts)
    return is_remote and database.get("OPTIONS", {}).get("sslmode") != "verify-full"


def chat_channels() -> Iterator[Finding]:
    """Find chat channels whose environment variable this process does not have."""
    for chat in ChatChannel.objects.filter(removed_at=None).select_related("queue").order_by("pk"):
        if not os.environ.get(chat.variable):
            message = f"The chat channel of queue {chat.queue.slug} needs the environment variable {chat.variable}."
            yield Finding(check="settings", message=message, is_wrong=False)


def _pooled_connection() -> Iterator[Finding]:
    """Find a role without the timeout that a pooled connection cannot set for itself."""
    if "direct" not in settings.DATABASES:
        return
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT setting FROM pg_settings WHERE name = '{IDLE_TIMEOUT}'")  # noqa: S608  a constant
        if cursor.fetchone() == ("0",):
            message = (
                f"Through the pooler, a frozen process keeps its locks. Run in PostgreSQL: ALTER ROLE CURRENT_USER "
                f"SET {IDLE_TIMEOUT} = '{IDLE_IN_TRANSACTION_SECONDS}s'"
            )
            yield Finding(check="settings", message=message)


def database_role() -> Iterator[Finding]:
    """Find powers of the database role that the application does not need."""
    for power in excessive_powers():
        message = (
            f"The database role of the application {power}. Use another one for web and worker: docs/operations.md, "
            "Database roles."
        )
        yield Finding(check="settings", message=message, is_wrong=False)


def policies() -> Iterator[Finding]:
    """Find current policies that let the agent choose the queue; wrong where an effect rule relies on one."""
    newest = {(policy.reason, policy.agent_id): policy for policy in Policy.objects.order_by("version")}
    for policy in newest.values():
        if policy.queue_id is None:
            message = f"Policy {policy.reason}, version {policy.version}, has no queue: each request must name one."
            yield Finding(check="policies", message=message, is_wrong=False)
        elif policy.any_queue:
            message = f"Policy {policy.reason}, version {policy.version}, lets a request name any queue."
            yield Finding(check="policies", message=message, is_wrong=False)
    for rule, policy in rules_with_any_queue():
        yield Finding(
            check="policies",
            message=f"Agent {rule.agent.slug} can ask any queue to approve {rule.name_pattern}, because policy "
            f"{policy.reason}, version {policy.version}, does not restrict its queues. "
            f"Run: {PROGRAM} add_policy {policy.reason} --no-any-queue",
        )


def effects() -> Iterator[Finding]:
    """Find agents that may begin effects without a rule for their name."""
    for agent in Agent.objects.filter(effect_mode=EffectMode.ANY).order_by("slug"):
        message = (
            f"Agent {agent.slug} may begin any effect. To allow only those with a rule, run: "
            f"{PROGRAM} set_effects {agent.slug} listed"
        )
        yield Finding(check="effects", message=message, is_wrong=False)
    allowing_rules = EffectRule.objects.filter(action=RuleAction.ALLOW, agent__effect_mode=EffectMode.LISTED)
    for rule in allowing_rules.select_related("agent").order_by("agent__slug"):
        if not rule.name_pattern.strip("*"):
            yield Finding(
                check="effects",
                message=f"Agent {rule.agent.slug} may begin any effect: its rule {rule.name_pattern} allows every name.",
                is_wrong=False,
            )


def missing_people() -> Iterator[Finding]:
    """Find queues without a person who may decide, requests without such an assignee, and owner groups without members."""
    for queue in Queue.objects.order_by("slug"):
        if not deciders_of(queue).exists():
            waiting = Interrupt.objects.filter(queue=queue, status=InterruptStatus.WAITING).count()
            message = (
                f"Queue {queue.slug} has no person who may decide, and {waiting} open {_plural(waiting, 'request')}. "
                f"Run: {PROGRAM} add_person EMAIL --role reviewer --queue {queue.slug}"
            )
            yield Finding(check="queues", message=message, is_wrong=waiting > 0)
    stuck = Interrupt.objects.filter(is_stuck(), status=InterruptStatus.WAITING).select_related("queue")
    for interrupt in stuck.order_by("id"):
        queue_name = "its queue" if interrupt.queue is None else interrupt.queue.slug
        message = (
            f"Request {interrupt.public_id} is assigned only to people who cannot decide it. "
            f"A lead of {queue_name} must assign it again."
        )
        yield Finding(check="queues", message=message)
    empty = Group.objects.exclude(user__is_active=True).order_by("name")
    for group in empty:
        holds = Hold.objects.filter(owner=group, lifted_at=None).count()
        unknown = Effect.objects.filter(owner=group, status=EffectStatus.UNKNOWN).count()
        if holds or unknown:
            message = (
                f"Group {group.name} has no active member, and owns {unknown} {_plural(unknown, 'unknown outcome')} "
                f"and {holds} {_plural(holds, 'hold')}. Add an owner of its agent: {PROGRAM} add_person"
            )
            yield Finding(check="owners", message=message)


def _plural(number: int, noun: str) -> str:
    return noun if number == 1 else f"{noun}s"
