"""Policies: which queues can decide, and that no choice of the agent evades the policy."""

from __future__ import annotations

from importlib import import_module

import pytest
from django.apps import apps

from ledger.errors import PayloadInvalid
from runs import child_runs
from runs.errors import PolicyRefuses
from runs.models import Interrupt, Policy
from runs.policies import BUILT_IN, is_as_strict, rules_with_any_queue
from tests import builders
from tests.runs.leased_run_builders import a_rule
from tests.runs.test_child_runs import a_child
from tests.unguarded import without_triggers

pytestmark = pytest.mark.django_db


def asked_in(queue: str | None, **more: object) -> builders.RequestedInterrupt:
    return builders.a_wait(wish={"queue": queue}, **more)


@pytest.mark.parametrize("queue", ["support", "nowhere"])
def test_a_queue_that_the_policy_does_not_name_is_refused_and_so_is_one_that_does_not_exist(queue):
    """FAULTS A2: the agent asked the reviewers of support, who then approved what purchasing protects."""
    builders.a_queue("support")
    builders.a_policy(queue=builders.a_queue("purchasing"))
    with pytest.raises(PolicyRefuses) as refused:
        builders.a_waiting_interrupt(asked_in(queue))
    assert refused.value.extra == {"rule": "queues"}
    assert refused.value.detail == "The policy of this reason refuses the request: queue must be one of: purchasing."
    assert not Interrupt.objects.exists()


def test_the_policys_own_queue_and_its_listed_ones_may_be_named():
    builders.a_queue("support")
    builders.a_policy(queue=builders.a_queue("purchasing"), queues=["support"])
    for queue in ("purchasing", "support", None):
        asked = builders.a_waiting_interrupt(asked_in(queue))
        assert asked.queue.slug == (queue or "purchasing")


def test_any_queue_may_be_named_where_the_policy_says_so():
    builders.a_queue("support")
    builders.a_policy(queue=builders.a_queue("purchasing"), any_queue=True)
    assert builders.a_waiting_interrupt(asked_in("support")).queue.slug == "support"
    with pytest.raises(PolicyRefuses) as refused:
        builders.a_waiting_interrupt(asked_in("nowhere"))
    assert refused.value.extra == {"rule": "queues"}


def test_an_event_that_people_may_answer_too_keeps_to_the_queues_of_its_policy():
    builders.a_queue("support")
    builders.a_policy("event", queue=builders.a_queue("purchasing"))
    event = {"kind": "event", "reason": "event", "proposal": None, "correlation": "order:1"}
    with pytest.raises(PolicyRefuses):
        builders.a_waiting_interrupt(asked_in("support", **event))


def test_an_amended_request_stays_in_its_queue():
    from runs.use_cases.amend_interrupt import Amendment

    assert not hasattr(Amendment(), "queue")
    assert not hasattr(Amendment(), "assignees")
    assert not hasattr(Amendment(), "reason")


@pytest.mark.parametrize("address", ["sam@example.org", "unknown@example.org"])
def test_a_person_without_permission_and_an_unknown_person_get_the_same_answer(address):
    builders.a_reviewer("sam@example.org", queue="support")
    builders.a_reviewer()
    with pytest.raises(PayloadInvalid) as refused:
        builders.a_waiting_interrupt(builders.a_wait(assignees=[address, "zoe@nowhere.example"]))
    [problem] = refused.value.errors
    assert (problem.pointer, problem.message) == (
        "/interrupts/0/assignees/0",
        "must be a reviewer or lead of engineering",
    )


# --- child runs -------------------------------------------------------------------------------------------------------


def test_a_child_does_not_get_a_looser_policy_through_its_parent():
    """The agent names its run's parent, so a parent with an open policy would be a choice of who approves."""
    builders.a_queue("support")
    planner, buyer = builders.an_agent("planner"), builders.an_agent("buyer")
    bound = builders.a_policy(queue=builders.a_queue("purchasing"))
    builders.a_policy(agent=planner, version=1, any_queue=True, self_review=True)
    child = a_child(builders.a_running_run(planner), buyer)
    assert child_runs.policy_for(child.run, buyer, "approval.action") == bound
    with pytest.raises(PolicyRefuses):
        builders.a_waiting_interrupt(asked_in("support"), started=child)


def test_a_child_whose_two_policies_ask_different_people_needs_one_of_its_own():
    planner, buyer = builders.an_agent("planner"), builders.an_agent("buyer")
    builders.a_policy(queue=builders.a_queue("purchasing"))
    builders.a_policy(agent=planner, version=1, queue=builders.a_queue("finance"), quorum=2)
    child = a_child(builders.a_running_run(planner), buyer)
    with pytest.raises(PolicyRefuses) as refused:
        builders.a_waiting_interrupt(asked_in(None), started=child)
    assert refused.value.extra == {"rule": "parent"}
    own = builders.a_policy(agent=buyer, version=1, queue=builders.a_queue("finance"))
    assert builders.a_waiting_interrupt(asked_in(None), started=child).policy == own


@pytest.mark.parametrize(
    ("looser", "is_strict"),
    [
        ({}, True),
        ({"any_queue": True}, False),
        ({"queues": ["support"]}, False),
        ({"quorum": 1}, False),
        ({"second_factor": "never"}, False),
        ({"second_factor": "always", "risk_floor": "high"}, True),
        ({"risk_floor": "low"}, False),
        ({"self_review": True}, False),
        ({"default_may_approve": True}, False),
        ({"escalate_further": [{"queue": "support", "seconds": 60}]}, False),
    ],
)
def test_a_policy_is_as_strict_where_no_other_people_can_approve(looser, is_strict):
    common = {
        "queue": builders.a_queue("purchasing"),
        "quorum": 2,
        "second_factor": "high_risk",
        "risk_floor": "medium",
    }
    other = builders.a_policy(**common)
    assert is_as_strict(builders.a_policy(**common | looser), other) is is_strict


# --- open policies ----------------------------------------------------------------------------------------------------


def test_an_effect_rule_that_rests_on_an_open_policy_is_found():
    rule = a_rule()
    [(found, policy)] = rules_with_any_queue()
    assert (found, policy.version, policy.any_queue) == (rule, 1, True)
    bound = builders.a_policy()
    assert rules_with_any_queue() == []
    own = builders.a_policy(agent=rule.agent, version=1, any_queue=True)
    assert rules_with_any_queue() == [(rule, own)]
    assert bound.any_queue is False


def test_the_built_in_reasons_are_those_of_a_new_installation():
    built_in = Policy.objects.filter(agent=None, version=1)
    assert sorted(policy.reason for policy in built_in) == sorted(BUILT_IN)
    assert all(policy.queue is None and policy.any_queue for policy in built_in)


# --- upgrades ---------------------------------------------------------------------------------------------------------


def test_an_upgrade_binds_policies_to_their_queue_and_leaves_agents_as_they_were():
    old = [
        builders.a_policy("bound"),
        builders.a_policy("open", queue=None),
        builders.a_policy("listed", queue=None, queues=["engineering"]),
    ]
    agent = builders.an_agent()
    agent.effect_mode = "listed"
    agent.save()
    upgrade = import_module("runs.migrations.0002_recorded_permissions_and_guards")
    with without_triggers():
        upgrade.keep_what_policies_allowed(apps, None)
    upgrade.keep_what_agents_may_do(apps, None)
    for policy in old:
        policy.refresh_from_db()
    agent.refresh_from_db()
    assert [policy.any_queue for policy in old] == [False, True, False]
    assert agent.effect_mode == "any"
