"""Queues with their groups and chat channels."""

from __future__ import annotations

from django.db import transaction

from ledger import clock
from ledger.public_ids import new_id
from reviewqueue.models import ChatChannel
from reviewqueue.operations import audit_log
from reviewqueue.operations.provisioning.names import (
    MAX_VARIABLE_LENGTH,
    SYSTEM,
    VARIABLE_NAME,
    ProvisioningError,
    check_name,
    find_or_add_group,
    find_queue,
)
from reviewqueue.operations.provisioning.people import QUEUE_ROLES
from runs.configuration_history import REMOVED, lock_head
from runs.models import Queue


@transaction.atomic
def add_queue(name: str, *, owner: str, actor: str = SYSTEM) -> Queue:
    """Add a queue, and the groups of its reviewers, leads and auditors."""
    lock_head()
    check_name(name)
    if Queue.objects.filter(slug=name).exists():
        raise ProvisioningError(f"Queue {name} exists already.")
    roles = {column: find_or_add_group(f"{name}-{column}") for column in QUEUE_ROLES.values()}
    queue = Queue.objects.create(slug=name, owner=find_or_add_group(owner), **roles)
    audit_log.record(queue, actor=actor)
    return queue


@transaction.atomic
def add_chat_channel(queue: str, *, variable: str, min_risk: str, actor: str = SYSTEM) -> ChatChannel:
    """Notify a chat channel about a queue. Its Apprise URL is in the environment variable ``variable`` of the workers."""
    lock_head()
    if not VARIABLE_NAME.fullmatch(variable) or len(variable) > MAX_VARIABLE_LENGTH:
        raise ProvisioningError(f"{variable} is not the name of an environment variable, such as CHAT_ENGINEERING.")
    of = find_queue(queue)
    if ChatChannel.objects.filter(queue=of, variable=variable, removed_at=None).exists():
        raise ProvisioningError(f"Queue {queue} has the chat channel {variable} already.")
    channel = ChatChannel.objects.create(
        public_id=new_id("cht"), queue=of, variable=variable, min_risk=min_risk, created_at=clock.now()
    )
    audit_log.record(channel, actor=actor)
    return channel


@transaction.atomic
def remove_chat_channel(queue: str, *, variable: str, actor: str = SYSTEM) -> ChatChannel:
    """Stop notifying a chat channel. Messages that are due are not sent."""
    lock_head()
    channel = ChatChannel.objects.filter(queue=find_queue(queue), variable=variable, removed_at=None).first()
    if channel is None:
        raise ProvisioningError(f"Queue {queue} has no chat channel {variable}.")
    channel.removed_at = clock.now()
    channel.save(update_fields=["removed_at"])
    audit_log.record(channel, actor=actor, action=REMOVED)
    return channel
