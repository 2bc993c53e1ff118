"""Chat channels of a queue, through Apprise: a receiver on this machine stands for a chat service or webhook."""

from __future__ import annotations

import json

import pytest

from reviewqueue.models import MessageStatus, NotificationMessage
from reviewqueue.operations.provisioning.names import ProvisioningError
from reviewqueue.operations.provisioning.queues import add_chat_channel, remove_chat_channel
from tests import builders
from tests.notifications.notification_builders import derive, make_everything_due, send
from tests.webhooks.receiver import receiver

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # Apprise uses what a later Python removes
]


@pytest.fixture
def chat_service(monkeypatch):
    with receiver() as server:
        monkeypatch.setenv("CHAT_ENGINEERING", server.url.replace("http://", "json://"))
        yield server


@pytest.fixture(autouse=True)
def no_mail(settings):
    settings.EMAIL_HOST = ""


def test_a_queue_notifies_its_channel_without_any_text_of_the_agent(chat_service):
    builders.a_queue()
    add_chat_channel("engineering", variable="CHAT_ENGINEERING", min_risk="low")
    wait = builders.a_waiting_interrupt(builders.a_wait(title="EVIL TITLE"))
    builders.a_waiting_interrupt(builders.a_wait(wish={"queue": builders.a_queue("purchasing").slug}))
    derive()
    send("chat")
    [got] = chat_service.got
    text = json.loads(got.body)["message"]
    assert "EVIL" not in got.body.decode()
    assert text.startswith("New request in engineering\n")
    assert f"https://review.example.org/interrupts/{wait.public_id}" in text


def test_a_channel_can_be_limited_to_high_risk_and_removed(chat_service):
    builders.a_queue()
    add_chat_channel("engineering", variable="CHAT_ENGINEERING", min_risk="high")
    builders.a_waiting_interrupt(builders.a_wait(wish={"risk": "medium"}))
    derive()
    assert NotificationMessage.objects.count() == 0
    builders.a_waiting_interrupt(builders.a_wait(wish={"risk": "high"}))
    derive()
    remove_chat_channel("engineering", variable="CHAT_ENGINEERING")
    send("chat")
    assert chat_service.got == []
    assert NotificationMessage.objects.get().status == MessageStatus.VOID


@pytest.mark.parametrize(
    ("address", "trouble"),
    [("", "is not set"), ("nonsense", "is not an address"), ("json://127.0.0.1:1/", "did not accept")],
)
def test_a_fault_of_a_channel_is_reported_without_its_address_and_tried_again(monkeypatch, address, trouble, caplog):
    builders.a_queue()
    monkeypatch.setenv("CHAT_ENGINEERING", address)
    add_chat_channel("engineering", variable="CHAT_ENGINEERING", min_risk="low")
    builders.a_waiting_interrupt()
    derive()
    send("chat")
    message = NotificationMessage.objects.get()
    assert trouble in message.trouble
    assert message.status == MessageStatus.DUE
    for _ in range(6):
        make_everything_due()
        send("chat")
    message.refresh_from_db()
    assert (message.status, message.attempt) == (MessageStatus.DEAD, 7)


@pytest.mark.parametrize("variable", ["", "chat", "CHAT-1", "X" * 101])
def test_a_variable_has_the_name_of_an_environment_variable(variable):
    builders.a_queue()
    with pytest.raises(ProvisioningError, match="environment variable"):
        add_chat_channel("engineering", variable=variable, min_risk="low")
