"""The first administrator, queue, policy and agent of an installation."""

from __future__ import annotations

from dataclasses import dataclass

from django.contrib.auth import get_user_model
from django.db import transaction

from reviewqueue.operations.api_keys import NewKey
from reviewqueue.operations.installation import PROGRAM
from reviewqueue.operations.provisioning.agents import add_agent
from reviewqueue.operations.provisioning.names import SYSTEM, ProvisioningError
from reviewqueue.operations.provisioning.people import AddedPerson, account_state, add_person, record_change
from reviewqueue.operations.provisioning.policies import add_policy
from reviewqueue.operations.provisioning.queues import add_queue
from runs.models import Agent, Queue

FIRST_OWNERS = "owners"


@dataclass(frozen=True, kw_only=True)
class FirstSetup:
    """What ``set_up`` created. The secrets cannot be read later."""

    administrator: AddedPerson
    queue: Queue
    agent: Agent
    agent_key: NewKey


@transaction.atomic
def set_up(address: str, *, queue: str, agent: str) -> FirstSetup:
    """Create the first administrator, the first queue with the policy for approvals, and the first agent, or nothing.

    The administrator is an operator, owns queue and agent, leads the queue, and manages people in the admin site.
    """
    if get_user_model().objects.exists() or Queue.objects.exists() or Agent.objects.exists():
        raise ProvisioningError(
            f"This installation has people, queues or agents already. Add more: {PROGRAM} add_person, add_queue, add_agent"
        )
    made_queue = add_queue(queue, owner=FIRST_OWNERS)
    add_policy("approval.action", queue=queue)
    made_agent, key = add_agent(agent, owner=FIRST_OWNERS)
    administrator = add_person(address, role="operator")
    add_person(address, role="owner", agent=agent)
    add_person(address, role="lead", queue=queue)
    administrator.person.is_superuser = True
    administrator.person.is_staff = True
    before = account_state(administrator.person) | {"superuser": False}
    administrator.person.save(update_fields=["is_superuser", "is_staff"])
    record_change(administrator.person, actor=SYSTEM, action="made superuser", before=before)
    return FirstSetup(administrator=administrator, queue=made_queue, agent=made_agent, agent_key=key)
