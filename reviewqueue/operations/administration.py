"""What owners configure for their agents, with its permissions: keys, effect rules, call labels and connections.

An owner changes only her own agents; an operator changes every agent. An agent that the person cannot see is not found.
The changes themselves are those of the commands (`provisioning`), with the person as their author.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.models import AbstractUser
from django.db import transaction
from django.db.models import Case, ProtectedError, Q, QuerySet, When

from ledger import clock
from ledger.actors import person_actor
from ledger.errors import NotFound
from reviewqueue import permissions
from reviewqueue.models import ApiKey
from reviewqueue.operations import audit_log
from reviewqueue.operations.api_keys import NewKey
from reviewqueue.operations.installation import PROGRAM
from reviewqueue.operations.provisioning import agents, connections, keys, names, people
from reviewqueue.operations.provisioning.names import ProvisioningError
from reviewqueue.outbound import http_client
from runs.configuration_history import REMOVED, lock_head
from runs.errors import StaleVersion
from runs.models import Agent, CallLabel, Connection, EffectRule

#: Secrets of connections that are added by page or API. The server's own secrets have other names.
VARIABLE_PREFIX = "CONNECTION_"
MAX_CONNECTIONS = 50
MAX_LABELS = 500
MAX_RULES = 500
MAX_KEYS = 100
MAX_LISTED_KEYS = 200
DEFAULT_OVERLAP = timedelta(days=1)  # of two keys


def find_agent(person: AbstractUser, slug: str) -> Agent:
    """Return an agent that the person administers. Raises ``NotFound``."""
    agent = permissions.owned_agents(person).select_related("owner").filter(slug=slug).first()
    if agent is None:
        raise NotFound
    return agent


def refuse_unless_operator(person: AbstractUser) -> None:
    """Refuse everybody else as if there were nothing. Raises ``NotFound``."""
    if not permissions.is_operator(person):
        raise NotFound


@transaction.atomic
def add_agent(person: AbstractUser, name: str, *, owner: str, effects: str) -> tuple[Agent, NewKey]:
    """Add an agent with its first key. Only operators can."""
    refuse_unless_operator(person)
    return agents.add_agent(name, owner=owner, effects=effects, actor=person_actor(person))


@transaction.atomic
def change_owner(person: AbstractUser, slug: str, *, owner: str, owner_seen: str) -> Agent:
    """Give an agent to another owner group, whose members get access to reconciliation. Only operators can.

    Unknown outcomes and holds that are open stay with the group that they name.
    Raises ``StaleVersion`` if another operator changed the owner after ``owner_seen`` was shown.
    """
    members = people.lock_members(owner)
    lock_head()
    refuse_unless_operator(person)
    agent = Agent.objects.select_for_update(of=("self",), no_key=True).select_related("owner").filter(slug=slug).first()
    if agent is None:
        raise NotFound
    if agent.owner.name != owner_seen:
        raise StaleVersion(f"The owner of {slug} is {agent.owner.name} now. Nothing was done. Read it again.")
    if agent.owner.name == owner:
        raise ProvisioningError(f"{owner} owns {slug} already.")
    before = audit_log.state_of(agent)
    agent.owner = names.find_or_add_group(owner)
    agent.save(update_fields=["owner"])
    audit_log.record(agent, actor=person_actor(person), action="owner changed", before=before)
    people.give_reconciliation(members, actor=person_actor(person))
    return agent


# --- keys -------------------------------------------------------------------------------------------------------------


def keys_of(agent: Agent) -> list[ApiKey]:
    """Return the keys of an agent: valid ones first, then expired ones, then revoked ones; of each the newest first.

    The list is longer than the number of valid keys can be, so that no valid key is missing.
    """
    ended = Case(When(revoked_at__isnull=False, then=2), When(expires_at__lte=clock.now(), then=1), default=0)
    return list(ApiKey.objects.filter(agent=agent).order_by(ended, "-pk")[:MAX_LISTED_KEYS])


@transaction.atomic
def add_key(
    person: AbstractUser, slug: str, *, name: str, scopes: Sequence[str], expires_at: datetime | None
) -> NewKey:
    """Add a named key of an agent."""
    lock_head()
    agent = find_agent(person, slug)
    if not name.strip():
        raise ProvisioningError("A key must have a name that says what it is for.")
    _refuse_too_many(_valid_keys(agent))
    actor = person_actor(person)
    return keys.add_agent_key(slug, scopes=scopes, name=name.strip(), expires_at=expires_at, actor=actor)


@transaction.atomic
def rotate_key(
    person: AbstractUser, slug: str, prefix: str, *, overlap: timedelta = DEFAULT_OVERLAP, expires_at: datetime | None
) -> NewKey:
    """Replace a key of an agent; both are valid during the overlap."""
    lock_head()
    key = _find_key(person, slug, prefix)
    valid = _valid_keys(find_agent(person, slug))
    _refuse_too_many(valid if overlap else valid.exclude(pk=key.pk))
    return keys.rotate_key(key.pk, overlap=overlap, expires_at=expires_at, actor=person_actor(person))


@transaction.atomic
def revoke_key(person: AbstractUser, slug: str, prefix: str) -> ApiKey:
    """Revoke a key of an agent at once."""
    lock_head()
    return keys.revoke_key(_find_key(person, slug, prefix).pk, actor=person_actor(person))


def _valid_keys(agent: Agent) -> QuerySet[ApiKey]:
    return ApiKey.objects.filter(Q(expires_at=None) | Q(expires_at__gt=clock.now()), agent=agent, revoked_at=None)


def _refuse_too_many(valid: QuerySet[ApiKey]) -> None:
    if valid.count() >= MAX_KEYS:
        raise ProvisioningError(f"An agent has at most {MAX_KEYS} valid keys. Revoke one first.")


def _find_key(person: AbstractUser, slug: str, prefix: str) -> ApiKey:
    key = ApiKey.objects.filter(agent=find_agent(person, slug), prefix=prefix.removeprefix("rq_")).first()
    if key is None:
        raise NotFound
    return key


# --- effect rules and call labels ---------------------------------------------------------------------------------------


@transaction.atomic
def set_effect_mode(person: AbstractUser, slug: str, *, effects: str) -> Agent:
    """Let an agent begin any effect, or only listed ones."""
    lock_head()
    find_agent(person, slug)
    return agents.set_effect_mode(slug, effects=effects, actor=person_actor(person))


@transaction.atomic
def add_effect_rule(person: AbstractUser, slug: str, *, pattern: str, reason: str) -> EffectRule:
    """Allow effects without an approval (no ``reason``), or require one."""
    lock_head()
    agent = find_agent(person, slug)
    if not pattern.strip() or len(pattern) > 200:
        raise ProvisioningError("A name or pattern must have 1 to 200 characters.")
    if EffectRule.objects.filter(agent=agent).count() >= MAX_RULES:
        raise ProvisioningError(f"An agent has at most {MAX_RULES} effect rules.")
    return agents.add_effect_rule(pattern, agent=slug, reason=reason, actor=person_actor(person))


@transaction.atomic
def remove_effect_rule(person: AbstractUser, slug: str, *, pattern: str) -> EffectRule:
    """Remove the rule with exactly this pattern."""
    lock_head()
    find_agent(person, slug)
    return agents.remove_effect_rule(pattern, agent=slug, actor=person_actor(person))


@transaction.atomic
def add_call_label(
    person: AbstractUser, slug: str, *, name: str, sentence: str, arguments: dict[str, dict[str, str]]
) -> CallLabel:
    """Add the sentence by which reviewers read a call."""
    lock_head()
    agent = find_agent(person, slug)
    if not name.strip() or len(name) > 200:
        raise ProvisioningError("The name of a call must have 1 to 200 characters.")
    if not sentence.strip() or len(sentence) > 300:
        raise ProvisioningError("A sentence must have 1 to 300 characters.")
    if CallLabel.objects.filter(agent=agent).count() >= MAX_LABELS:
        raise ProvisioningError(f"An agent has at most {MAX_LABELS} call labels.")
    stated = {"sentence": sentence, "arguments": arguments, "actor": person_actor(person)}
    return agents.add_call_label(name, agent=slug, **stated)  # type: ignore[arg-type]


@transaction.atomic
def remove_call_label(person: AbstractUser, slug: str, *, name: str) -> CallLabel:
    """Remove a call label; the call is then shown by its name."""
    lock_head()
    label = CallLabel.objects.filter(agent=find_agent(person, slug), name=name).select_related("agent").first()
    if label is None:
        raise ProvisioningError(f"Agent {slug} has no label for {name}.")
    audit_log.record(label, actor=person_actor(person), action=REMOVED)
    label.delete()
    return label


# --- connections ------------------------------------------------------------------------------------------------------


def add_connection(person: AbstractUser, slug: str, *, name: str, url: str, secret: str) -> Connection:
    """Add a connection for facts and probes. ``secret`` names an environment variable, whose value the server sends to the
    address. So only operators can name one, and none that the server itself uses.
    """
    find_agent(person, slug)
    if secret and not permissions.is_operator(person):
        raise ProvisioningError(
            "Only operators can name the environment variable of a secret, because its value is sent to the address."
        )
    if secret and not secret.startswith(VARIABLE_PREFIX):
        raise ProvisioningError(
            f"The environment variable of a secret must begin with {VARIABLE_PREFIX}; "
            f"for another name use the command: {PROGRAM} add_connection."
        )
    connections.check_connection(name, url=url, secret=secret)
    with transaction.atomic():
        lock_head()
        if Connection.objects.filter(agent=find_agent(person, slug)).count() >= MAX_CONNECTIONS:
            raise ProvisioningError(f"An agent has at most {MAX_CONNECTIONS} connections.")
        stated = {"url": url, "secret": secret, "actor": person_actor(person)}
        return connections.insert_connection(name, agent=slug, **stated)


@transaction.atomic
def remove_connection(person: AbstractUser, slug: str, *, name: str) -> Connection:
    """Remove a connection. Facts and probes that use it cannot be checked any more."""
    lock_head()
    connection = _find_connection(person, slug, name)
    audit_log.record(connection, actor=person_actor(person), action=REMOVED)
    try:
        connection.delete()
    except ProtectedError:
        raise ProvisioningError(f"Facts of runs were checked by the connection {name}, so it must stay.") from None
    return connection


def test_connection(person: AbstractUser, slug: str, *, name: str, path: str) -> str:
    """Make one GET to a path of a connection, as for a fact. Returns why it failed; empty: a JSON value came back.

    The value is not shown: the address can be one that only the server reaches.
    """
    return http_client.test_connection(_find_connection(person, slug, name), path)


def _find_connection(person: AbstractUser, slug: str, name: str) -> Connection:
    connections = Connection.objects.filter(agent=find_agent(person, slug), name=name).select_related("agent")
    found: Any = connections.first()
    if found is None:
        raise ProvisioningError(f"Agent {slug} has no connection {name}.")
    connection: Connection = found
    return connection
