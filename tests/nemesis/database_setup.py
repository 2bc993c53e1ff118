"""Database setup and owner's actions of the nemesis, in a process with Django on its database.

`python -m tests.nemesis.database_setup found RECEIVER` migrates and prints the keys. `... settle RECEIVER` acts as the
owner after every client has restarted: it asks the receiver, and resolves each unknown outcome or orders the effect
again.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import urllib.request
from datetime import timedelta
from typing import Any
from urllib.parse import quote

#: Wait before an owner resolves as failed: a worker that was about to act has acted by then, or never will.
PATIENCE_OF_AN_OWNER = 12


def found(receiver: str) -> None:
    from django.core.management import call_command

    from reviewqueue.operations.provisioning.agents import add_agent, add_effect_rule
    from reviewqueue.operations.provisioning.connections import add_connection
    from reviewqueue.operations.provisioning.people import add_person
    from reviewqueue.operations.provisioning.policies import add_policy
    from reviewqueue.operations.provisioning.queues import add_queue

    call_command("migrate", verbosity=0)
    add_queue("purchasing", owner="purchasing-leads")
    rules = {"queue": "purchasing", "deadline_min": timedelta(seconds=1), "on_expiry": "cancel"}
    add_policy("approval.action", **rules)
    people = {
        name: add_person(f"{name}@example.org", role=role, **where).token
        for name, role, where in (
            ("ana", "reviewer", {"queue": "purchasing"}),
            ("ben", "reviewer", {"queue": "purchasing"}),
            ("oli", "operator", {}),
        )
    }
    _, key = add_agent("buyer", owner="platform")
    add_person("olga@example.org", role="owner", agent="buyer")
    add_connection("erp", agent="buyer", url=receiver)
    add_effect_rule("issue_*", agent="buyer", reason="approval.action")
    for name in ("reserve", "release"):
        add_effect_rule(name, agent="buyer")
    print(json.dumps({"agent": key.text, **people}))  # noqa: T201  read by the world


def settle(receiver: str) -> None:
    from django.contrib.auth.models import User
    from django.db.models.functions import Now

    from ledger.errors import Refusal
    from ledger.models import Effect
    from runs.models import Hold
    from runs.use_cases import reconcile_outcomes

    owner = User.objects.get(username="olga@example.org")
    for_long = Now() - timedelta(seconds=PATIENCE_OF_AN_OWNER)
    for effect in Effect.objects.filter(status="unknown", repeat="never", changed_at__lt=for_long):
        try:
            if _was_done(receiver, effect):
                words = {"outcome": "applied", "reason": "The receiver has it."}
                reconcile_outcomes.resolve_unknown_outcome(effect_id=effect.pk, person=owner, **words)
            else:
                reconcile_outcomes.order_effect_again(
                    effect_id=effect.pk, person=owner, reason="The receiver has nothing of it."
                )
        except Refusal as refusal:  # the run is ending, or another owner was first
            if refusal.code == "run_cancelled":
                words = {"outcome": "failed", "reason": "The receiver has nothing of it."}
                reconcile_outcomes.resolve_unknown_outcome(effect_id=effect.pk, person=owner, **words)
    for hold in Hold.objects.filter(lifted_at=None, kind__in=reconcile_outcomes.RETRIABLE_HOLDS):
        with contextlib.suppress(Refusal):
            reconcile_outcomes.retry_held_run(hold_id=hold.pk, person=owner, reason="All are well again.")


def end_backoff(receiver: str) -> None:
    """Make every message due now; retries after hours are tested elsewhere."""
    from django.db.models.functions import Now

    from reviewqueue.webhooks.models import Delivery, WebhookEndpoint

    WebhookEndpoint.objects.update(rest_until=None, failures=0)
    Delivery.objects.filter(status="due").update(next_at=Now())


def _was_done(receiver: str, effect: Any) -> bool:
    path = f"{receiver}/done/{effect.scope}/{quote(effect.key, safe='')}"
    with urllib.request.urlopen(path, timeout=10) as reply:  # noqa: S310  our own
        return bool(json.load(reply)["done"])


if __name__ == "__main__":
    os.environ["DJANGO_SETTINGS_MODULE"] = "reviewqueue.settings"
    import django

    django.setup()
    {"found": found, "settle": settle, "end_backoff": end_backoff}[sys.argv[1]](sys.argv[2])
