"""The admin pages of webhooks: who sees deliveries, who sees replies of receivers, and sending a message again."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from reviewqueue.webhooks.models import Delivery, DeliveryStatus
from tests import builders
from tests.webhooks.receiver import receiver
from tests.webhooks.webhook_builders import an_endpoint, publish_and_send, send

pytestmark = pytest.mark.django_db

LOG = reverse("admin:reviewqueue_delivery_changelist")
ENDPOINTS = reverse("admin:reviewqueue_webhookendpoint_changelist")


@pytest.fixture
def at_home():
    with receiver() as server:
        yield server


@pytest.fixture
def dead(at_home):
    made = an_endpoint(at_home.url, "run.started")
    at_home.will("broken", 410, 200)
    builders.a_running_run()
    publish_and_send()
    Delivery.objects.update(status=DeliveryStatus.DEAD, next_at=None)
    dead = Delivery.objects.get()
    dead.secret = made.secret
    return dead


def signed_in(*groups):
    person = builders.a_person("ana@example.org", *groups)
    person.is_staff = True
    person.save()
    client = Client()
    client.force_login(person, backend="django.contrib.auth.backends.ModelBackend")
    return client


def page_of(delivery):
    return reverse("admin:reviewqueue_delivery_change", args=[delivery.pk])


def order(client, *deliveries):
    chosen = {"action": "send_again", "_selected_action": [delivery.pk for delivery in deliveries]}
    return client.post(LOG, chosen, follow=True)


@pytest.mark.parametrize("group", ["agent-owners", "operators"])
def test_owners_and_operators_see_the_log_and_no_secret(dead, group):
    client = signed_in(group)
    assert dead.public_id in client.get(LOG).text
    for page in (client.get(ENDPOINTS), client.get(page_of(dead))):
        assert page.status_code == 200
        assert dead.secret not in page.text
        assert "whsec_" not in page.text


def test_replies_of_receivers_are_for_operators_and_inert(dead):
    said = "of the receiver"
    assert said not in signed_in("agent-owners").get(page_of(dead)).text
    shown = signed_in("operators").get(page_of(dead)).text
    assert said in shown
    assert "<b>secret" not in shown


def test_others_see_nothing_and_order_nothing(dead):
    client = signed_in("engineering-owners")
    assert client.get(page_of(dead)).status_code in (302, 403)
    order(client, dead)
    dead.refresh_from_db()
    assert dead.status == DeliveryStatus.DEAD


def test_an_owner_sends_a_dead_letter_again_by_post_only(dead, at_home):
    client = signed_in("agent-owners")
    client.get(LOG, {"action": "send_again", "_selected_action": [dead.pk]})
    dead.refresh_from_db()
    assert dead.status == DeliveryStatus.DEAD
    assert "Messages due now: 1." in order(client, dead).text
    dead.refresh_from_db()
    assert dead.status == DeliveryStatus.DUE
    at_home.will(200)
    send()
    dead.refresh_from_db()
    assert dead.status == DeliveryStatus.DELIVERED


def test_the_post_needs_the_token_of_the_page(dead):
    client = signed_in("agent-owners")
    client.handler.enforce_csrf_checks = True
    assert order(client, dead).status_code == 403


def test_nothing_else_can_be_changed_there(dead):
    client = signed_in("operators")
    for address in (page_of(dead), reverse("admin:reviewqueue_delivery_delete", args=[dead.pk])):
        assert client.post(address, {"status": "delivered", "post": "yes"}).status_code in (302, 403, 405)
    assert client.get(reverse("admin:reviewqueue_delivery_add")).status_code == 403
    dead.refresh_from_db()
    assert dead.status == DeliveryStatus.DEAD
