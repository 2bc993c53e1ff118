"""The reconciliation admin: who sees what, how owners resolve unknown outcomes, and that all else is read-only."""

from __future__ import annotations

from zoneinfo import ZoneInfo

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from ledger.models import Effect, EffectReport, Order
from runs.models import Agent, EffectRule, Hold, Run
from tests import builders
from tests.runs.leased_run_builders import (
    KEY,
    OWNERS,
    a_group,
    a_leased_run,
    a_person,
    a_rule,
    an_agent,
    begin,
    let_go,
    report,
)

pytestmark = pytest.mark.django_db(transaction=True)

UNKNOWN = reverse("admin:reviewqueue_unknownoutcome_changelist")
RESOLUTION = {
    "resolution": "applied",
    "reason": "The supplier confirmed it.",
    "evidence": "mail of 1 December",
    "attempt": 1,
}


def an_unknown_effect(run: Run | None = None, **words: object) -> Effect:
    run = run or a_leased_run()
    begin(run, **words)
    report(run, "unknown", error="no reply in 30 s")
    let_go(run)
    return Effect.objects.get(scope=run.public_id)


def staff(address: str, *groups: str, is_staff: bool = True) -> User:
    person = a_person(address, *groups)
    person.is_staff = is_staff
    person.save()
    return person


def signed_in(person: User) -> Client:
    client = Client()
    client.force_login(person, backend="django.contrib.auth.backends.ModelBackend")
    return client


def page_of(effect: Effect, model: str = "reviewqueue_unknownoutcome") -> str:
    return reverse(f"admin:{model}_change", args=[effect.pk])


# --- who sees what ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", ["runs_run", "reviewqueue_webhookendpoint"])
def test_a_filter_does_not_name_the_agents_of_others(rows):
    """C203: the lists were empty for a stranger, but the filter beside them named every agent."""
    a_leased_run(an_agent("secret-takeover"))
    others = a_group("other-owners")
    for slug in ("theirs-1", "theirs-2"):
        Agent.objects.create(slug=slug, owner=others)
    html = (
        signed_in(staff("olga@example.org", "other-owners")).get(reverse(f"admin:{rows}_changelist")).content.decode()
    )
    assert "secret-takeover" not in html


def test_the_pages_of_policies_and_rules_warn_of_an_open_policy():
    client = signed_in(staff("otto@example.org", "operators"))
    policy, rule = builders.a_policy(any_queue=True), a_rule()
    policies = client.get(reverse("admin:runs_policy_changelist")).text
    assert f"Warning: any queue. Effect rules depend on it: issue_* of {rule.agent.slug}." in policies
    assert "Effect rules depend on it" in client.get(reverse("admin:runs_policy_change", args=[policy.pk])).text
    assert "Warning: any queue." in client.get(reverse("admin:runs_effectrule_changelist")).text
    builders.a_policy()
    EffectRule.objects.create(agent=rule.agent, name_pattern="other", reason="no.such")
    assert "no policy for this reason" in client.get(reverse("admin:runs_effectrule_changelist")).text
    for page in ("runs_policy", "runs_effectrule"):
        assert "Warning" not in client.get(reverse(f"admin:{page}_changelist")).text
    assert '"field-effect_mode">Any<' in client.get(reverse("admin:runs_agent_changelist")).text


@pytest.mark.parametrize("group", [OWNERS, "operators"])
def test_owners_and_operators_see_what_is_unknown(group):
    effect = an_unknown_effect()
    client = signed_in(staff("ana@example.org", group))
    assert page_of(effect) in client.get(UNKNOWN).text
    shown = client.get(page_of(effect)).text
    assert "issue_purchase_order" in shown
    assert "184000.00" in shown
    assert "no reply in 30 s" in shown
    assert "It did not happen" in shown


def test_owners_of_something_else_see_nothing_of_it():
    effect = an_unknown_effect()
    other = Effect.objects.get(pk=effect.pk)
    other.pk, other.public_id, other.key, other.owner = (
        None,
        "eff_other",
        "other",
        a_person("x@y.z", "others").groups.get(),
    )
    other.save()
    client = signed_in(staff("eve@example.org", "others"))
    assert page_of(other) in client.get(UNKNOWN).text
    assert page_of(effect) not in client.get(UNKNOWN).text
    for model in ("reviewqueue_unknownoutcome", "ledger_effect"):
        assert client.get(page_of(effect, model)).status_code == 404
        assert client.post(page_of(effect, model), RESOLUTION).status_code == 404
    assert client.get(reverse("admin:runs_run_change", args=[Run.objects.get().pk])).status_code in (302, 403)
    assert "Crane 14" not in client.get(reverse("admin:runs_run_changelist")).text
    effect.refresh_from_db()
    assert effect.status == "unknown"


def test_staff_that_own_nothing_are_refused():
    effect = an_unknown_effect()
    client = signed_in(staff("eve@example.org", "engineering-reviewers"))
    assert client.get(UNKNOWN).status_code == 403
    assert client.get(page_of(effect)).status_code == 404
    assert client.post(page_of(effect), RESOLUTION).status_code == 404
    assert "Unknown outcomes" not in client.get(reverse("admin:index")).text


def test_an_owner_without_the_reconciliation_role_is_refused():
    effect = an_unknown_effect()
    client = signed_in(staff("ana@example.org", OWNERS, is_staff=False))
    for address in (UNKNOWN, page_of(effect)):
        assert client.get(address).status_code in (302, 403)
        assert client.post(address, RESOLUTION).status_code in (302, 403)
    effect.refresh_from_db()
    assert effect.status == "unknown"


def test_a_stranger_meets_the_sign_in_page():
    effect = an_unknown_effect()
    assert "login" in Client().get(page_of(effect)).headers["Location"]


@pytest.mark.parametrize("number", ["0", "999999", "x", "1_1", "9" * 40, "²"])
def test_what_is_not_there_is_not_found(number):
    an_unknown_effect()
    client = signed_in(staff("ana@example.org", OWNERS))
    assert client.get(f"{UNKNOWN}{number}/change/").status_code == 404


def test_operators_find_what_is_theirs_first():
    an_unknown_effect()
    client = signed_in(staff("op@example.org", "operators"))
    assert KEY in client.get(UNKNOWN).text
    assert KEY not in client.get(f"{UNKNOWN}?owner=mine").text


# --- resolutions ------------------------------------------------------------------------------------------------------


def test_an_owner_resolves_it_and_the_run_continues():
    effect = an_unknown_effect()
    client = signed_in(staff("ana@example.org", OWNERS))
    answer = client.post(page_of(effect), RESOLUTION, follow=True)
    assert ". It happened" in answer.text
    effect.refresh_from_db()
    assert effect.status == "applied"
    kept = EffectReport.objects.filter(by="person:ana@example.org").get()
    assert kept.body["reason"] == "The supplier confirmed it."
    assert kept.body["evidence"] == "mail of 1 December"
    assert Hold.objects.get().lifted_by == "person:ana@example.org"
    assert Run.objects.get().status == "revalidating"
    assert page_of(effect) not in client.get(UNKNOWN).text


def test_an_owner_resolves_it_as_failed():
    effect = an_unknown_effect()
    signed_in(staff("ana@example.org", OWNERS)).post(page_of(effect), {**RESOLUTION, "resolution": "failed"})
    effect.refresh_from_db()
    assert (effect.status, effect.retryable) == ("failed", False)


def test_an_owner_orders_it_again():
    effect = an_unknown_effect()
    client = signed_in(staff("ana@example.org", OWNERS))
    assert "performs it again" in client.post(page_of(effect), {**RESOLUTION, "resolution": "again"}, follow=True).text
    assert Order.objects.get().reason == "The supplier confirmed it."
    shown = client.get(page_of(effect)).text
    assert "ordered again" in shown
    assert "Do it again" not in shown


def test_the_second_owner_sees_who_was_first():
    effect = an_unknown_effect()
    ana, ben = signed_in(staff("ana@example.org", OWNERS)), signed_in(staff("ben@example.org", OWNERS))
    ana.post(page_of(effect), {**RESOLUTION, "resolution": "failed"})
    page = ben.post(page_of(effect), RESOLUTION, follow=True).text
    assert "resolved first by ana@example.org: failed." in page
    effect.refresh_from_db()
    assert effect.status == "failed"


@pytest.mark.parametrize("missing", ["reason", "resolution", "attempt"])
def test_an_incomplete_resolution_changes_nothing(missing):
    effect = an_unknown_effect()
    answer = signed_in(staff("ana@example.org", OWNERS)).post(page_of(effect), {**RESOLUTION, missing: ""})
    assert answer.status_code == 200
    effect.refresh_from_db()
    assert effect.status == "unknown"


def test_a_page_of_an_earlier_attempt_resolves_nothing():
    effect = an_unknown_effect()
    Effect.objects.update(attempt=2)
    page = signed_in(staff("ana@example.org", OWNERS)).post(page_of(effect), RESOLUTION, follow=True).text
    assert "attempted again since: the current attempt is 2" in page
    effect.refresh_from_db()
    assert effect.status == "unknown"


def test_the_initiator_sees_that_another_owner_must_order_it_again():
    effect = an_unknown_effect(a_leased_run(initiator=staff("ana@example.org", OWNERS)))
    client = signed_in(staff("ana@example.org", OWNERS))
    assert (
        "You started this run" in client.post(page_of(effect), {**RESOLUTION, "resolution": "again"}, follow=True).text
    )
    assert not Order.objects.exists()


def test_a_superuser_sees_it_and_cannot_resolve_it():
    effect = an_unknown_effect()
    root = staff("root@example.org")
    root.is_superuser = True
    root.save()
    client = signed_in(root)
    assert client.get(page_of(effect)).status_code == 200
    assert "Only owners of the effect" in client.post(page_of(effect), RESOLUTION, follow=True).text.replace(
        "&#x27;", "’"
    )
    effect.refresh_from_db()
    assert effect.status == "unknown"


def test_a_contradiction_is_resolved():
    run = a_leased_run()
    begin(run)
    report(run)
    report(run, "failed", error="it came back")
    effect = Effect.objects.get()
    client = signed_in(staff("ana@example.org", OWNERS))
    assert "The recorded outcome is right" in client.get(page_of(effect, "ledger_effect")).text
    client.post(page_of(effect, "ledger_effect"), {**RESOLUTION, "resolution": "looked"})
    assert Hold.objects.get().lifted_at is not None
    assert "<h2>Resolve</h2>" not in client.get(page_of(effect, "ledger_effect")).text


# --- what cannot be done ----------------------------------------------------------------------------------------------


def test_a_get_request_resolves_nothing():
    effect = an_unknown_effect()
    client = signed_in(staff("ana@example.org", OWNERS))
    for ask in (client.get, client.head, client.options):
        ask(page_of(effect), RESOLUTION)
    effect.refresh_from_db()
    assert effect.status == "unknown"


def test_a_post_from_elsewhere_is_refused():
    effect = an_unknown_effect()
    client = Client(enforce_csrf_checks=True)
    client.force_login(staff("ana@example.org", OWNERS), backend="django.contrib.auth.backends.ModelBackend")
    assert client.post(page_of(effect), RESOLUTION).status_code == 403


OURS = [page for page in admin.site._registry.values() if page.opts.app_label in {"ledger", "runs", "reviewqueue"}]


@pytest.mark.parametrize("model_admin", OURS, ids=lambda it: it.opts.model_name)
def test_history_and_rules_are_read_only(model_admin):
    an_unknown_effect()
    client = signed_in(staff("op@example.org", "operators"))
    name = f"admin:{model_admin.opts.app_label}_{model_admin.opts.model_name}"
    listed = client.get(reverse(f"{name}_changelist"))
    assert listed.status_code == 200
    assert "addlink" not in listed.text.partition('id="content-main"')[2]
    assert client.get(reverse(f"{name}_add")).status_code == 403
    row = model_admin.model._default_manager.first()
    if row is not None:
        shown = client.get(reverse(f"{name}_change", args=[row.pk]))
        assert shown.status_code == 200
        assert "deletelink" not in shown.text
        assert client.post(reverse(f"{name}_delete", args=[row.pk]), {"post": "yes"}).status_code == 403
    assert client.post(
        reverse(f"{name}_changelist"), {"action": "delete_selected", "_selected_action": "1"}
    ).status_code in (200, 302, 403)
    assert Effect.objects.count() == 1


def test_agent_text_is_rendered_and_escaped():
    run = a_leased_run(title="Crane\u202e <script>alert(1)</script>")
    effect = an_unknown_effect(run, name="issue\u200border", arguments={"note": "<img src=x>\u202etxt"})
    client = signed_in(staff("ana@example.org", OWNERS))
    for address in (UNKNOWN, page_of(effect), reverse("admin:runs_run_change", args=[run.pk])):
        text = client.get(address).text
        assert "<script>alert(1)" not in text
        assert "<img src=x" not in text
        assert "\u202e" not in text
        assert "\u200b" not in text
        assert "U+202E" in text


def test_the_list_needs_the_same_number_of_queries_for_many_rows_as_for_few(django_assert_max_num_queries):
    for number in range(12):
        an_unknown_effect(a_leased_run(title=f"Crane {number}"))
    client = signed_in(staff("ana@example.org", OWNERS))
    with django_assert_max_num_queries(30):
        client.get(UNKNOWN)


def test_times_are_in_the_zone_that_they_name():
    effect = an_unknown_effect()
    client = signed_in(staff("olga@example.org", OWNERS))
    client.cookies["zone"] = "Asia/Tokyo"
    changed = effect.changed_at.astimezone(ZoneInfo("Asia/Tokyo"))
    for address in (UNKNOWN, page_of(effect), reverse("admin:ledger_effect_changelist")):
        html = client.get(address).content.decode()
        assert f"{changed:%Y-%m-%d %H:%M:%S} JST" in html, address
        assert f"{changed:%H:%M:%S} UTC" not in html


def test_a_superuser_cannot_edit_the_schedules_of_the_workers():
    """One changed row would stop every sweep."""
    client = signed_in(User.objects.create_superuser("root@example.org"))
    assert not [model for model in admin.site._registry if model._meta.app_label == "django_q"]
    assert client.get("/admin/django_q/schedule/").status_code == 404
