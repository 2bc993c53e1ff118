"""The reconciliation page: owners resolve unknown outcomes, lift holds and waive facts; others see and change nothing."""

from __future__ import annotations

import re

import pytest
from django.contrib.auth.models import User
from django.test import Client

from ledger.models import Effect
from ledger.states import EffectStatus
from reviewqueue.pages import read_views
from reviewqueue.queries.to_resolve import questioned_effects
from runs.models import Fact, Hold, Run
from runs.states import HoldKind
from tests import builders
from tests.attack.page_routes import a_dead_notification
from tests.reviewqueue.test_holds_admin import a_run_held_for_a_fact
from tests.reviewqueue.test_reconciliation_admin import an_unknown_effect, signed_in, staff
from tests.runs.leased_run_builders import OWNERS, a_leased_run

pytestmark = pytest.mark.django_db(transaction=True)

RESOLUTION = {"resolution": "applied", "reason": "The supplier confirmed it.", "evidence": "mail", "attempt": "1"}


def olga() -> User:
    return staff("olga@example.org", OWNERS)


def test_an_owner_sees_the_call_and_resolves_its_outcome():
    effect = an_unknown_effect()
    client = signed_in(olga())
    page = client.get("/outcomes").content.decode()
    assert effect.name in page
    assert "no reply in 30 s" in page
    got = client.post(f"/outcomes/effects/{effect.public_id}", RESOLUTION, follow=True).content.decode()
    assert f"Resolved: {effect.key}." in got
    effect.refresh_from_db()
    assert effect.status == EffectStatus.APPLIED
    assert "Nothing to resolve" in got


@pytest.mark.parametrize(
    "wrong",
    [{"resolution": "explode"}, {"reason": ""}, {"attempt": "2"}, {"attempt": "x"}, {"reason": "x" * 2001}],
)
def test_a_wrong_resolution_is_explained_and_changes_nothing(wrong):
    effect = an_unknown_effect()
    got = signed_in(olga()).post(f"/outcomes/effects/{effect.public_id}", RESOLUTION | wrong, follow=True)
    assert 'class="notice bad"' in got.content.decode()
    effect.refresh_from_db()
    assert effect.status == EffectStatus.UNKNOWN


def test_the_second_owner_with_a_stale_page_changes_nothing():
    effect = an_unknown_effect()
    client = signed_in(olga())
    client.post(f"/outcomes/effects/{effect.public_id}", RESOLUTION)
    again = client.post(f"/outcomes/effects/{effect.public_id}", RESOLUTION | {"resolution": "failed"})
    assert again.status_code == 404
    effect.refresh_from_db()
    assert effect.status == EffectStatus.APPLIED


def test_the_person_who_started_the_run_cannot_order_a_repetition():
    person = olga()
    run = a_leased_run()
    Run.objects.filter(pk=run.pk).update(initiator=person)
    effect = an_unknown_effect(run)
    form = RESOLUTION | {"resolution": "again"}
    page = signed_in(person).post(f"/outcomes/effects/{effect.public_id}", form, follow=True).content.decode()
    assert "You started this run" in page


@pytest.mark.parametrize(
    ("address", "groups", "is_staff"),
    [("zoe@example.org", ["strangers"], True), ("own@example.org", [OWNERS], False)],
)
def test_others_find_nothing(address, groups, is_staff):
    effect = an_unknown_effect()
    person = staff(address, *groups, is_staff=is_staff)
    client = signed_in(person)
    page = client.get("/outcomes")
    assert page.status_code == (200 if is_staff else 404)
    assert effect.name not in page.content.decode()
    assert client.post(f"/outcomes/effects/{effect.public_id}", RESOLUTION).status_code == 404
    assert Effect.objects.get().status == EffectStatus.UNKNOWN


def test_a_fact_is_waived_and_the_run_continues():
    hold = a_run_held_for_a_fact()
    client: Client = signed_in(staff("own@example.org", "agent-owners"))
    assert "No server answers at the address." in client.get("/outcomes").content.decode()
    form = {"kind": hold.kind, "subject": hold.subject, "resolution": "waive", "reason": "I know it."}
    got = client.post(f"/outcomes/holds/{hold.run.public_id}", form, follow=True).content.decode()
    assert "The run continues without specification." in got
    assert Fact.objects.exclude(waived_by=None).count() == 1
    assert not Hold.objects.filter(lifted_at=None).exists()


@pytest.mark.parametrize(
    ("wrong", "status"),
    [
        ({"kind": "gave_up"}, 404),
        ({"subject": "another"}, 404),
        ({"kind": HoldKind.UNKNOWN_EFFECT}, 404),
        ({"resolution": "retry"}, 302),
        ({"reason": ""}, 302),
    ],
)
def test_a_wrong_form_lifts_no_hold(wrong, status):
    hold = a_run_held_for_a_fact()
    form = {"kind": hold.kind, "subject": hold.subject, "resolution": "waive", "reason": "I know it."} | wrong
    client = signed_in(staff("own@example.org", "agent-owners"))
    assert client.post(f"/outcomes/holds/{hold.run.public_id}", form).status_code == status
    assert Hold.objects.filter(lifted_at=None).count() == 1


@pytest.mark.parametrize("name", ["kind", "subject"])
def test_nul_characters_in_the_name_of_a_hold_are_dropped(name):
    """PostgreSQL cannot compare a text with them."""
    hold = a_run_held_for_a_fact()
    form = {"kind": hold.kind, "subject": hold.subject, "resolution": "waive", "reason": "I know it."}
    client = signed_in(staff("own@example.org", "agent-owners"))
    got = client.post(f"/outcomes/holds/{hold.run.public_id}", form | {name: f"\0{form[name]}\0"})
    assert got.status_code == 302
    assert not Hold.objects.filter(lifted_at=None).exists()


def test_a_hold_of_others_is_not_found():
    hold = a_run_held_for_a_fact()
    form = {"kind": hold.kind, "subject": hold.subject, "resolution": "waive", "reason": "I know it."}
    for person in (staff("zoe@example.org"), builders.a_person("rev@example.org", "engineering-reviewers")):
        assert signed_in(person).post(f"/outcomes/holds/{hold.run.public_id}", form).status_code == 404
    assert Hold.objects.filter(lifted_at=None).count() == 1


def test_owners_see_first_how_much_they_must_resolve_and_others_see_nothing_of_it():
    a_run_held_for_a_fact()
    an_unknown_effect()
    page = signed_in(olga()).get("/").content.decode()
    assert "To resolve as an owner:" in page
    assert re.search(r"1 unknown\s+outcome<", page)
    assert 'Reconciliation <span class="faint num">1</span>' in page
    there = signed_in(olga()).get("/outcomes").content.decode()
    assert 'Unknown outcomes <span class="num faint">1</span>' in there
    page = signed_in(staff("ops@example.org", "operators")).get("/").content.decode()
    assert re.search(r"1 hold\s*<", page)
    assert 'Reconciliation <span class="faint num">2</span>' in page
    for other in (staff("zoe@example.org", "other-owners"), builders.a_reviewer()):
        page = signed_in(other).get("/").content.decode()
        assert "To resolve as an owner" not in page
        assert 'Reconciliation <span class="faint num">' not in page


def test_dead_letters_are_counted_for_their_readers_and_only_when_the_page_opens(monkeypatch):
    operator, asked = staff("ops@example.org", "operators"), []
    a_dead_notification(operator)
    client = signed_in(operator)
    page = client.get("/").content.decode()
    assert re.search(r'#dead-letters">1 dead letter<', page)
    there = " ".join(client.get("/outcomes").content.decode().split())
    assert re.search(r'of=notifications">1 notification</a> that could not be sent', there)
    monkeypatch.setattr(read_views, "count_dead_letters", lambda person: asked.append(person) or 2_002)
    assert re.search(r'#dead-letters">1000\+ dead letters<', client.get("/").content.decode())
    assert client.get("/", headers={"HX-Request": "true", "HX-Target": "list"}).status_code == 200
    assert asked == [operator]


def test_an_owner_sees_contradicted_outcomes_without_every_effect_being_read():
    effect = an_unknown_effect()
    Effect.objects.filter(pk=effect.pk).update(status=EffectStatus.APPLIED)
    Hold.objects.update(kind=HoldKind.CONTRADICTION)
    assert [it.pk for it in questioned_effects(olga())] == [effect.pk]
    assert list(questioned_effects(staff("zoe@example.org", "other-owners"))) == []
