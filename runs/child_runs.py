"""Child runs: the parent of a new run, the policy that a child inherits, and the signal of its end.

A child is a run of its own and names its parent only at its start, so there are no cycles. A parent waits for a child
by an event of the correlation ``run:<child's id>``. The parent's row is read but never locked here, because two run
locks can deadlock. ``use_cases/control_child_runs.py`` applies a parent's end to its children.
"""

from __future__ import annotations

from datetime import datetime

from django.contrib.auth.models import User
from django.db.models import Q, QuerySet

from ledger.errors import PayloadInvalid
from ledger.prepared_queries import prepared
from runs.errors import PolicyRefuses, RunCancelled, RunFinished, TooDeep
from runs.external_signals import CHILD_END_ID_PREFIX, CHILD_END_PREFIX, SignalRequest, store_signal
from runs.models import Agent, Interrupt, Policy, Queue, Run
from runs.policies import ReadPolicies, allows_queue, current_policy, find_own_policy, is_as_strict
from runs.states import FINAL, InterruptStatus

MAX_DEPTH_OF_RUNS = 8


def find_parent(agent: Agent, run_id: str) -> Run:
    """Return the parent of a new run: a run of the same agent, or of one with the same owner group.

    Raises ``PayloadInvalid`` (no such run), ``RunFinished``, ``RunCancelled`` (it is ending) and ``TooDeep``.
    """
    parent = (
        Run.objects.select_related("initiator")
        .filter(public_id=run_id, agent__owner=agent.owner_id, planted=None)
        .first()
    )
    if parent is None:
        raise PayloadInvalid.at("/parent", "must be a run of this agent, or of another agent of its owner group")
    if parent.status in FINAL:
        raise RunFinished(f"The parent has ended: {parent.status}.", status=parent.status)
    if parent.ending:
        raise RunCancelled("The parent is ending, so no child run can start.")
    if parent.depth >= MAX_DEPTH_OF_RUNS:
        raise TooDeep(f"Child runs can be nested at most {MAX_DEPTH_OF_RUNS} deep.", limit=MAX_DEPTH_OF_RUNS)
    return parent


def inherit_initiator(parent: Run, initiator: User | None) -> User | None:
    """Return the initiator of a child run, which is its parent's. Another one would let a person review their own run."""
    if initiator is not None and initiator.pk != parent.initiator_id:
        raise PayloadInvalid.at("/initiator", "must be the initiator of the parent run")
    return parent.initiator


def list_ancestors(run: Run) -> list[Run]:
    """Return the ancestors of a run, its parent first."""
    above: list[Run] = []
    parent_id = run.parent_id
    while parent_id is not None and len(above) <= MAX_DEPTH_OF_RUNS:
        parent = Run.objects.select_related("agent").get(pk=parent_id)
        above.append(parent)
        parent_id = parent.parent_id
    return above


def run_tree(run: Run) -> QuerySet[Run]:
    """Return the topmost ancestor of a run and all its descendants."""
    top = run.root_id or run.pk
    return Run.objects.filter(Q(pk=top) | Q(root=top))


def interrupts_with_same_call(interrupt: Interrupt) -> QuerySet[Interrupt]:
    """Return the open interrupts of the agent with the same call in the tree of parent and child runs."""
    if not interrupt.call_digest:
        return Interrupt.objects.none()
    same = Interrupt.objects.filter(
        agent=interrupt.agent_id, call_digest=interrupt.call_digest, status=InterruptStatus.WAITING
    )
    return same.filter(run__in=run_tree(interrupt.run)).exclude(pk=interrupt.pk).order_by("id")


def policy_for(run: Run, agent: Agent, reason: str, *, at: str = "", read: ReadPolicies | None = None) -> Policy:
    """Return the policy of ``reason`` for an interrupt of this run.

    It is the agent's own, else the one of the nearest ancestor's agent, else the general one. The agent chooses its
    parent, so an inherited policy never loosens who approves: the stricter of the inherited and the general policy
    applies. If neither is stricter, the request is refused.
    """
    inherited, general = find_applying_policies(run, agent, reason, at=at, read=read)
    if inherited is None or inherited.pk == general.pk or is_as_strict(general, inherited):
        return general
    if is_as_strict(inherited, general):
        return inherited
    raise PolicyRefuses(
        f"The policy of {reason} that the parent's agent has, and the one of every agent, let different people approve. "
        f"Add a policy of {reason} for {agent.slug}.",
        rule="parent",
    )


def find_applying_policies(
    run: Run, agent: Agent, reason: str, *, at: str = "", read: ReadPolicies | None = None
) -> tuple[Policy | None, Policy]:
    """Return the newest policies: the one that a child run inherits, if any, and its agent's own or the general one."""
    inherited = None
    if run.parent_id is not None and find_own_policy(agent.pk, reason) is None:
        own = (find_own_policy(parent.agent_id, reason) for parent in list_ancestors(run))
        inherited = next((policy for policy in own if policy is not None), None)
    if inherited is not None and not Policy.objects.filter(reason=reason, agent=None).exists():
        return inherited, inherited
    return inherited, current_policy(agent, reason, at=at, read=read)


def is_queue_allowed(interrupt: Interrupt, queue: Queue | None) -> bool:
    """Tell whether the newest policies allow decisions of this interrupt's reason in the queue."""
    policies = find_applying_policies(interrupt.run, interrupt.agent, interrupt.reason)
    return queue is None or all(policy is None or allows_queue(policy, queue) for policy in policies)


def has_live_children(run: Run) -> bool:
    """Tell whether a child has not ended. A parent ends after its children."""
    return bool(_first_live_child.all(parent=run.pk))


@prepared
def _first_live_child(parent: int) -> QuerySet[Run, tuple[int]]:
    return Run.objects.filter(parent=parent, ended_at=None).values_list("pk")[:1]


def signal_end_to_parent(run: Run, *, status: str, now: datetime) -> None:
    """Store the signal of a child's end for its parent, in the child's transaction, and mark the child for the sweep.

    A restarted child sends another signal when it ends again.
    """
    if run.parent_id is None:
        return
    agent_id = Run.objects.values_list("agent", flat=True).get(pk=run.parent_id)
    told = SignalRequest(
        sender_id=f"{CHILD_END_ID_PREFIX}{run.public_id}:{run.epoch}",
        correlation=f"{CHILD_END_PREFIX}{run.public_id}",
        type="run.ended",
        body={"run": run.public_id, "status": status, "epoch": run.epoch},
    )
    store_signal(agent_id=agent_id, told=told, keep_until=None, now=now)
    Run.objects.filter(pk=run.pk).update(tells_parent=True)
