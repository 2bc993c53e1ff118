"""Names of agents, queues and groups, and the refusal of an administrative change."""

from __future__ import annotations

import re

from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.core.validators import validate_slug

from reviewqueue.operations.installation import PROGRAM
from runs.models import Agent, Queue

#: The actor of records in the audit log: a command on this machine.
SYSTEM = "system:command"
MAX_VARIABLE_LENGTH = 100
VARIABLE_NAME = re.compile(r"[A-Z][A-Z0-9_]*")


class ProvisioningError(Exception):
    """Nothing was changed. The message is a sentence for the person who asked for the change.

    ``rule``: the rule of a policy that is refused. ``hint``: what helps at a command line, and nowhere else.
    """

    def __init__(self, message: str, *, rule: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.rule, self.hint = rule, hint


def check_name(name: str) -> None:
    try:
        validate_slug(name)
    except ValidationError:
        name = ""
    if not name or len(name) > 60:
        raise ProvisioningError("A name must have 1 to 60 letters, digits, hyphens or underscores.")


def find_or_add_group(name: str) -> Group:
    """Return the group of this name."""
    if not name.strip() or len(name) > 150:
        raise ProvisioningError("A group's name must have 1 to 150 characters.")
    return Group.objects.get_or_create(name=name)[0]


def find_agent(name: str) -> Agent:
    agent = Agent.objects.select_related("owner").filter(slug=name).first()
    if agent is None:
        raise ProvisioningError(f"There is no agent {name}.", hint=f"Add it first: {PROGRAM} add_agent")
    return agent


def find_queue(name: str, *, rule: str = "") -> Queue:
    """Return the queue of this name. ``rule``: the rule of a policy that names it."""
    queue = Queue.objects.select_related("reviewers", "leads", "auditors").filter(slug=name).first()
    if queue is None:
        raise ProvisioningError(f"There is no queue {name}.", rule=rule, hint=f"Add it first: {PROGRAM} add_queue")
    return queue
