"""Is it set up so that it is safe, and so that somebody can act? Settings, policies, queues, owners."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.auth.models import Group
from django.core import checks

from ledger.models import Effect
from ledger.states import EffectStatus
from reviewqueue.operations.doctor.findings import Finding
from reviewqueue.permissions import deciders_of, is_stuck
from runs.models import Agent, EffectRule, Hold, Interrupt, Policy, Queue
from runs.policies import rules_with_open_policies
from runs.states import EffectMode, InterruptStatus, RuleAction

SHORTEST_TOKEN = 16
HERE = {"localhost", "127.0.0.1", "::1"}
#: What Django warns of where pages come by plain http.
OF_PLAIN_HTTP = {"security.W004", "security.W008", "security.W012", "security.W016"}


def unsafe_settings() -> Iterator[Finding]:
    """Find what Django's deployment checks warn of, and what they do not know.

    Where people reach us on this machine only, plain http is no danger, and only told.
    """
    is_reached = urlsplit(settings.BASE_URL).hostname not in HERE
    for found in checks.run_checks(include_deployment_checks=True):
        if found.level >= checks.WARNING and not found.is_silenced():
            is_wrong = is_reached or found.id not in OF_PLAIN_HTTP
            yield Finding(check="settings", words=f"{' '.join(found.msg.split())} ({found.id})", is_wrong=is_wrong)
    if settings.METRICS_TOKEN and len(settings.METRICS_TOKEN) < SHORTEST_TOKEN:
        yield Finding(check="settings", words=f"METRICS_TOKEN has fewer than {SHORTEST_TOKEN} characters")
    if not settings.EMAIL_HOST:
        yield Finding(check="settings", words="EMAIL_HOST is not set: mail goes to the log only", is_wrong=False)


def policies() -> Iterator[Finding]:
    """Find the newest policies that leave the queue to the agent; it is wrong where an effect rule relies on them."""
    newest = {(policy.reason, policy.agent_id): policy for policy in Policy.objects.order_by("version")}
    for policy in newest.values():
        if policy.queue_id is None:
            words = f"{policy.reason} {policy.version} has no queue of its own: an agent has to name one"
            yield Finding(check="policies", words=words, is_wrong=False)
        elif policy.any_queue:
            words = f"{policy.reason} {policy.version} lets an agent name any queue"
            yield Finding(check="policies", words=words, is_wrong=False)
    for rule, policy in rules_with_open_policies():
        yield Finding(
            check="policies",
            words=f"{rule.agent.slug} may ask any queue to approve {rule.name_pattern}: "
            f"{policy.reason} {policy.version} does not bind its queues",
        )


def effects() -> Iterator[Finding]:
    """Find agents that may begin effects that no rule names."""
    for agent in Agent.objects.filter(effect_mode=EffectMode.ANY).order_by("slug"):
        words = f"{agent.slug} may begin any effect: manage.py set_effects {agent.slug} listed"
        yield Finding(check="effects", words=words, is_wrong=False)
    all_of_them = EffectRule.objects.filter(action=RuleAction.ALLOW, agent__effect_mode=EffectMode.LISTED)
    for rule in all_of_them.select_related("agent").order_by("agent__slug"):
        if not rule.name_pattern.strip("*"):
            yield Finding(
                check="effects",
                words=f"{rule.agent.slug} may begin any effect: its rule {rule.name_pattern} allows every name",
                is_wrong=False,
            )


def nobody_there() -> Iterator[Finding]:
    """Find queues without a decider, requests without an assignee who may decide, and owner groups without a member."""
    for queue in Queue.objects.order_by("slug"):
        if not deciders_of(queue).exists():
            waiting = Interrupt.objects.filter(queue=queue, status=InterruptStatus.WAITING).count()
            words = f"nobody may decide in {queue.slug}, where {waiting} wait"
            yield Finding(check="queues", words=words, is_wrong=waiting > 0)
    stuck = Interrupt.objects.filter(is_stuck(), status=InterruptStatus.WAITING).select_related("queue")
    for interrupt in stuck.order_by("id"):
        slug = "its queue" if interrupt.queue is None else interrupt.queue.slug
        words = f"{interrupt.public_id} is assigned only to people who may not decide; a lead of {slug} must act"
        yield Finding(check="queues", words=words)
    empty = Group.objects.exclude(user__is_active=True).order_by("name")
    for group in empty:
        holds = Hold.objects.filter(owner=group, lifted_at=None).count()
        unknown = Effect.objects.filter(owner=group, status=EffectStatus.UNKNOWN).count()
        if holds or unknown:
            words = f"{group.name} owns {unknown} unknown effects and {holds} holds, and has no member"
            yield Finding(check="owners", words=words)
