"""The commands that set up an installation: text or JSON output, and secrets shown once."""

from __future__ import annotations

import io
import json

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command, load_command_class

from reviewqueue.models import ApiKey
from reviewqueue.operations.api_keys import verify_key
from runs.configuration_history import find_broken_configuration_chain, find_changed_configuration
from runs.models import Agent, CallLabel, ConfigurationRecord, Connection, EffectRule, Policy, Queue
from runs.policies import BUILT_IN
from tests import builders, own_processes

pytestmark = pytest.mark.django_db


def run(*words: str) -> str:
    out = io.StringIO()
    call_command(*words, stdout=out)
    return out.getvalue()


def run_json(*words: str) -> dict[str, object]:
    return json.loads(run(*words, "--json"))


@pytest.fixture
def world() -> None:
    run("add_queue", "engineering", "--owner", "desk-owners")
    run("add_agent", "purchase-requests", "--owner", "agent-owners")


def test_without_a_migrated_database_a_command_says_so_in_one_line(tmp_path):
    for address, words in (
        (f"sqlite:///{tmp_path}/new.sqlite3", "The database is not migrated. Run python3 manage.py up"),
        (f"sqlite:///{tmp_path}/nowhere/new.sqlite3", "The database cannot be used: unable to open database file"),
    ):
        environment = own_processes.environment_for(address)
        with pytest.raises(AssertionError) as said:
            own_processes.run_command("add_queue", "purchasing", "--owner", "x", environment=environment)
        assert words in str(said.value)
        assert "Traceback" not in str(said.value)


def test_an_agent_gets_a_key_that_is_shown_once_and_kept_as_a_hash():
    key = run_json("add_agent", "purchase-requests", "--owner", "agent-owners")["key"]
    found = verify_key(str(key))
    assert found is not None
    assert found.agent is not None
    assert found.agent.slug == "purchase-requests"
    assert str(key).split("_", 2)[2] not in str(ApiKey.objects.values().get())


def test_a_new_person_gets_a_password_and_a_token(world):
    person = run_json("add_person", "Ana@Example.org", "--role", "reviewer", "--queue", "engineering")
    assert person["person"] == "ana@example.org"
    found = verify_key(str(person["token"]))
    assert found is not None
    assert found.person == User.objects.get(username="ana@example.org")
    assert User.objects.get().check_password(str(person["password"]))
    assert not User.objects.get().is_staff
    assert Queue.objects.get().reviewers.user_set.get().email == "ana@example.org"


def test_a_second_role_keeps_the_password_and_says_so(world):
    first = run_json("add_person", "ana@example.org", "--role", "reviewer", "--queue", "engineering")
    words = run("add_person", "ana@example.org", "--role", "owner", "--agent", "purchase-requests")
    assert "password and tokens are unchanged" in words
    ana = User.objects.get()
    assert ana.check_password(str(first["password"]))
    assert ana.is_staff
    assert {group.name for group in ana.groups.all()} == {"engineering-reviewers", "agent-owners"}


def test_operators_are_staff_everywhere():
    assert run_json("add_person", "olga@example.org", "--role", "operator")["group"] == "operators"
    assert User.objects.get().is_staff


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["add_queue", "engineering", "--owner", "x"], "Queue engineering exists already"),
        (["add_agent", "purchase-requests", "--owner", "x"], "Agent purchase-requests exists already"),
        (["add_agent", "all", "--owner", "x"], "An agent cannot have the name all"),
        (["add_person", "ana@example.org", "--role", "reviewer"], "--queue NAME"),
        (["add_person", "ana@example.org", "--role", "owner", "--queue", "engineering"], "--agent NAME"),
        (["add_person", "ana@example.org", "--role", "operator", "--queue", "engineering"], "everywhere"),
        (["add_person", "ana", "--role", "operator"], "not an e-mail address"),
        (["add_person", "ana@example.org", "--role", "lead", "--queue", "nowhere"], "There is no queue nowhere"),
        (["add_queue", "with space", "--owner", "x"], "A name must have"),
        (["add_policy", "question", "--queue", "nowhere"], "There is no queue nowhere"),
        (["add_policy", "question"], "must have a queue for its requests. Option: --queue."),
        (["add_policy", "question", "--queue", "nowhere"], "add_queue"),
        (["add_policy", "question", "--queue", "engineering", "--remind-before", "PT0.5S"], "whole seconds"),
        (["add_policy", "question", "--queue", "engineering", "--deadline-max", "PT1H"], "in order"),
        (["add_policy", "question", "--queue", "engineering", "--on-expiry", "escalate"], "--escalate-to"),
        (["add_policy", "question", "--queue", "engineering", "--freshness", "15 minutes"], "not a duration"),
        (["add_connection", "erp", "--agent", "purchase-requests", "--url", "file:///etc"], "http(s)://"),
        (["add_connection", "erp", "--agent", "purchase-requests", "--url", "http://10.0.0.1"], "not public"),
        (["add_connection", "erp", "--agent", "purchase-requests", "--url", "http://169.254.169.254"], "never allowed"),
        (
            [
                "add_connection",
                "erp",
                "--agent",
                "purchase-requests",
                "--url",
                "http://localhost",
                "--secret",
                "s3cret!",
            ],
            "environment variable",
        ),
        (
            ["add_effect_rule", "order_*", "--agent", "purchase-requests", "--reason", "no.such"],
            "no policy for no.such",
        ),
        (["add_call_label", "order", "--agent", "missing", "--sentence", "Order"], "There is no agent missing"),
        (["revoke_key", "rq_000000000000"], "There is no such key"),
    ],
)
def test_what_cannot_be_is_refused_with_a_sentence(world, words, sentence):
    with pytest.raises(CommandError, match=sentence.replace("(", r"\(").replace(")", r"\)")):
        run(*words)


@pytest.mark.parametrize(
    "words",
    [
        ["add_person", "ana@example.org", "--role", "reviewer", "--queue", "engineering"],
        ["add_policy", "question", "--queue", "engineering", "--freshness", "PT5M"],
        ["add_connection", "erp", "--agent", "purchase-requests", "--url", "http://127.0.0.1:9009/erp/"],
        ["add_effect_rule", "order_*", "--agent", "purchase-requests", "--reason", "approval.action"],
        ["add_call_label", "order", "--agent", "purchase-requests", "--sentence", "Order from {supplier}"],
    ],
)
def test_a_repeated_command_is_refused_and_changes_nothing(world, words):
    run(*words)
    with pytest.raises(CommandError):
        run(*words)


def test_a_policy_is_the_next_version_of_the_last_with_what_was_given(world):
    first = run_json("add_policy", "question", "--queue", "engineering", "--deadline-max", "P20D", "--self-review")
    assert (first["version"], first["deadline_max"], first["self_review"]) == (2, "P20D", True)
    words = ["--default-may-approve", "--on-expiry", "resume", "--on-expiry-allowed", "resume", "cancel"]
    second = run_json("add_policy", "question", *words, "--risk-floor", "high", "--max-rounds", "3", "--no-self-review")
    assert (second["version"], second["deadline_max"], second["queue"]) == (3, "P20D", "engineering")
    assert (second["self_review"], second["risk_floor"], second["on_expiry"]) == (False, "high", "resume")
    assert Policy.objects.filter(reason="question").count() == 3


def test_a_policy_binds_its_queues_unless_any_queue_is_asked_for(world):
    run("add_queue", "support", "--owner", "desk-owners")
    first = run_json("add_policy", "question", "--queue", "engineering")
    assert (first["queues"], first["any_queue"]) == ([], False), (
        "that the built-in version has no queue is not taken over"
    )
    opened = run_json("add_policy", "question", "--any-queue")
    assert opened["any_queue"] is True
    assert run_json("add_policy", "question", "--freshness", "PT5M")["any_queue"] is True, "asked for once, it stays"
    assert run_json("add_policy", "question", "--queues", "support")["any_queue"] is False
    with pytest.raises(CommandError, match="any queue or a list of queues, not both"):
        run("add_policy", "question", "--any-queue")
    assert run_json("add_policy", "question", "--any-queue", "--queues")["any_queue"] is True
    assert run_json("add_policy", "question", "--no-any-queue")["any_queue"] is False


def test_the_first_policy_of_a_built_in_reason_says_what_it_replaces(world):
    """FAULTS D7."""
    assert "version 2; it replaces the built-in version 1." in run("add_policy", "question", "--queue", "engineering")
    again = run("add_policy", "question", "--freshness", "PT5M")
    assert "version 3; it replaces version 2." in again
    new = run("add_policy", "payment", "--queue", "engineering")
    assert "Policy of payment: version 1.\n" in new
    own = run("add_policy", "question", "--agent", "purchase-requests", "--queue", "engineering")
    assert "of purchase-requests: version 1.\n" in own


def test_the_help_and_the_owners_guide_list_the_built_in_reasons():
    helped = " ".join(load_command_class("reviewqueue", "add_policy").help.split())
    guide = (settings.ROOT / "docs/owners.md").read_text()
    for reason, meaning in BUILT_IN.items():
        assert reason in helped
        assert f"| `{reason}` | {meaning} |" in guide


def test_an_open_policy_under_an_effect_rule_is_warned_of_whichever_comes_last(world):
    rule = ["add_effect_rule", "order_*", "--agent", "purchase-requests", "--reason"]
    assert "Warning: agent purchase-requests can ask any queue to approve order_*" in run(*rule, "approval.action")
    assert "Warning" not in run("add_policy", "approval.action", "--queue", "engineering")
    assert "Warning: agent purchase-requests can ask any queue" in run("add_policy", "approval.action", "--any-queue")


def test_a_new_agent_may_begin_only_listed_effects_unless_any_is_asked_for(world):
    assert run_json("add_agent", "one", "--owner", "x")["effects"] == "listed"
    assert run_json("add_agent", "two", "--owner", "x", "--effects", "any")["effects"] == "any"
    assert run_json("set_effects", "one", "any") == {"agent": "one", "effects": "any"}
    assert "Agent one may begin only effects with an effect rule." in run("set_effects", "one", "listed")
    with pytest.raises(CommandError, match="already"):
        run("set_effects", "one", "listed")


def test_an_effect_rule_allows_or_names_a_reason(world):
    allowed = run_json("add_effect_rule", "read_*", "--agent", "purchase-requests", "--allow")
    assert (allowed["action"], allowed["reason"]) == ("allow", "")
    for words in ([], ["--allow", "--reason", "approval.action"]):
        with pytest.raises(CommandError):
            run("add_effect_rule", "order_*", "--agent", "purchase-requests", *words)


def test_a_removed_effect_rule_and_a_changed_mode_are_recorded(world):
    agent = Agent.objects.get(slug="purchase-requests")
    run_json("add_effect_rule", "read_*", "--agent", "purchase-requests", "--allow")
    run_json("set_effects", "purchase-requests", "any")
    removed = run_json("remove_effect_rule", "read_*", "--agent", "purchase-requests")
    assert removed == {"pattern": "read_*", "agent": "purchase-requests"}
    assert not EffectRule.objects.exists()
    with pytest.raises(CommandError, match=r"Agent purchase-requests has no rule for read_\*\."):
        run_json("remove_effect_rule", "read_*", "--agent", "purchase-requests")
    last = ConfigurationRecord.objects.filter(kind="agent", subject=agent.pk).latest("seq")
    assert last.content == {"effect_mode": "any", "effect_rules": []}
    assert find_broken_configuration_chain() == ""
    assert list(find_changed_configuration()) == []


def test_a_policy_may_be_one_agents_own(world):
    own = run_json("add_policy", "question", "--agent", "purchase-requests", "--queue", "engineering")
    assert (own["version"], own["agent"]) == (1, "purchase-requests")


def test_owners_add_connections_rules_and_call_labels(world):
    run_json(
        "add_connection", "erp", "--agent", "purchase-requests", "--url", "https://localhost/api/", "--secret", "ERP"
    )
    run_json("add_effect_rule", "order_*", "--agent", "purchase-requests", "--reason", "approval.action")
    words = ["--sentence", "Order for {amount}", "--argument", "amount", "Amount", "EUR", "--argument", "to", "To"]
    run_json("add_call_label", "order", "--agent", "purchase-requests", *words)
    assert Connection.objects.get().base_url == "https://localhost/api"
    assert EffectRule.objects.get().reason == "approval.action"
    assert CallLabel.objects.get().arguments == {"amount": {"label": "Amount", "unit": "EUR"}, "to": {"label": "To"}}


def test_what_is_no_duration_is_refused_as_an_option_is(world):
    with pytest.raises(CommandError, match="argument --deadline-default: 2h is not a duration: write P2D"):
        run("add_policy", "question", "--queue", "engineering", "--deadline-default", "2h")


def test_a_key_is_rotated_with_an_overlap_and_revoked_at_once(world):
    old = str(run_json("add_agent", "another", "--owner", "agent-owners")["key"])
    new = str(run_json("rotate_key", old.rpartition("_")[0])["key"])
    assert verify_key(old) is not None
    assert verify_key(new) is not None
    run("revoke_key", old)
    assert verify_key(old) is None
    assert verify_key(new) is not None
    with pytest.raises(CommandError, match="revoked before"):
        run("revoke_key", old)


def test_an_unknown_reason_is_reported_as_new(capsys):
    """A misspelt reason would otherwise create a policy that no request ever uses."""
    call_command("add_queue", "purchasing", "--owner", "leads")
    call_command("add_policy", "approval.acton", "--queue", "purchasing")
    assert "a new reason. Existing reasons: approval.action" in capsys.readouterr().out
    call_command("add_policy", "approval.action", "--queue", "purchasing")
    assert "new reason" not in capsys.readouterr().out


def test_a_policy_can_have_escalation_reminders_a_quorum_and_stopped_deadlines():
    run("add_queue", "engineering", "--owner", "desk")
    for queue in ("leads", "board"):
        run("add_queue", queue, "--owner", "desk")
    words = ["--queue", "engineering", "--on-expiry", "escalate", "--escalate-to", "leads", "--quorum", "2"]
    ladder = ["--escalate-further", "board=PT2H", "--remind-before", "PT1H", "PT10M", "--pause-stops-deadline"]
    policy = run_json("add_policy", "question", *words, *ladder)
    assert (policy["escalate_further"], policy["quorum"]) == ([{"queue": "board", "seconds": 7200}], 2)
    assert (policy["remind_before"], policy["pause_stops_deadline"]) == ([3600, 600], True)
    for further, why in (
        ("leads=PT1H", "only once"),
        ("nowhere=PT1H", "no queue nowhere"),
        ("board=2h", "not a duration"),
    ):
        with pytest.raises((CommandError, SystemExit), match=why):
            run("add_policy", "question", *words, "--escalate-further", further)


def test_a_key_has_only_the_scopes_that_it_is_given():
    builders.an_agent("goods-in")
    text = run_json("add_key", "goods-in", "--scope", "signal", "--name", "scanner")["key"]
    key = verify_key(text)
    assert key is not None
    assert (key.scopes, key.name) == (["signal"], "scanner")
    made = run_json("add_agent", "sender", "--owner", "platform", "--scope", "signal")
    assert made["scopes"] == ["signal"]
