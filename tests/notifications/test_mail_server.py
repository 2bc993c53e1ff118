"""Mail over a real SMTP server: killed in between, refusing, slow, and not there."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
from collections import Counter
from pathlib import Path

import pytest
from django_q.models import OrmQ

from reviewqueue import tasks
from reviewqueue.models import MessageStatus, NotificationAttempt, NotificationMessage, NotificationService
from reviewqueue.notifications import messages, senders
from reviewqueue.notifications.content import message_id
from runs.use_cases import expire
from tests import builders
from tests.notifications.notification_builders import derive, make_everything_due, send
from tests.notifications.smtp_server import mail_server as started_server
from tests.notifications.smtp_server import received

pytestmark = pytest.mark.django_db

log = logging.getLogger(__name__)


@pytest.fixture
def port(settings) -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        number: int = probe.getsockname()[1]
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT, settings.EMAIL_USE_TLS = "127.0.0.1", number, False
    settings.EMAIL_TIMEOUT = 5
    return number


def many_requests(number: int) -> None:
    builders.a_reviewer()
    for _ in range(number // 10):
        waits = [builders.a_wait(f"order-{place}") for place in range(10)]
        builders.suspend_run(builders.a_running_run(), *waits)
    while derive():
        pass
    while messages.compose_messages():
        pass
    assert NotificationMessage.objects.count() == number


def send_with_kills(port: int, file: Path, *, number: int, kills: int) -> None:
    """Kill the server ``kills`` times while mail is sent, each time after a further share of the mails."""
    for share in range(1, kills + 1):
        with started_server(port, file) as process:
            enough, stop = number * share // (kills + 1), threading.Event()

            def watch(process=process, enough=enough, stop=stop):
                while not stop.wait(0.002):
                    if len(received(file)) >= enough:
                        process.kill()
                        return

            watcher = threading.Thread(target=watch)
            watcher.start()
            make_everything_due()
            send()
            stop.set()
            watcher.join()
        assert NotificationService.objects.get(name="mail").failures >= 1
        assert NotificationMessage.objects.filter(status=MessageStatus.DUE).exists()
    with started_server(port, file):
        while NotificationMessage.objects.filter(status=MessageStatus.DUE).exists():
            make_everything_due()
            send()


def count_duplicates(port: int, tmp_path: Path, *, number: int, kills: int) -> int:
    many_requests(number)
    file = tmp_path / "received"
    send_with_kills(port, file, number=number, kills=kills)
    got = Counter(received(file))
    assert set(got) == {message_id(one) for one in NotificationMessage.objects.all()}
    assert set(NotificationMessage.objects.values_list("status", flat=True)) == {MessageStatus.SENT}
    return got.total() - len(got)


def test_no_mail_is_lost_when_the_server_is_killed(port, tmp_path):
    duplicates = count_duplicates(port, tmp_path, number=20, kills=1)
    assert duplicates <= 1, "only a mail under way at a kill is sent twice"


@pytest.mark.long
def test_of_a_thousand_events_no_mail_is_lost_when_the_server_is_killed(port, tmp_path):
    duplicates = count_duplicates(port, tmp_path, number=1000, kills=10)
    log.info("1000 mails, 10 kills: 0 lost, %s twice", duplicates)
    assert duplicates <= 10, "only a mail under way at a kill is sent twice"


def test_a_worker_that_dies_while_it_sends_has_counted_its_attempt(port, tmp_path, monkeypatch):
    """The same message id is sent again, so that the receiver can recognise the duplicate."""
    many_requests(10)
    file = tmp_path / "received"
    real = messages.close_attempt

    def die(message, result):
        raise SystemExit

    with started_server(port, file):
        monkeypatch.setattr(messages, "close_attempt", die)
        with contextlib.suppress(SystemExit):
            send()
        monkeypatch.setattr(messages, "close_attempt", real)
        assert len(received(file)) == 1
        make_everything_due()
        send()
    got = Counter(received(file))
    assert (len(got), got.total()) == (10, 11)
    assert NotificationAttempt.objects.filter(ended_at=None).count() == 1


def test_a_refused_address_is_a_dead_letter_and_delays_no_other(port, tmp_path):
    builders.a_reviewer("gone@example.org")
    builders.a_reviewer("ana@example.org")
    builders.a_waiting_interrupt()
    derive()
    with started_server(port, tmp_path / "received"):
        send()
    dead = NotificationMessage.objects.get(status=MessageStatus.DEAD)
    assert (dead.person.username, dead.attempt) == ("gone@example.org", 1)
    assert "550" in dead.trouble
    assert NotificationMessage.objects.filter(status=MessageStatus.SENT).count() == 1
    assert NotificationService.objects.get(name="mail").rest_until is None


def test_a_message_that_is_too_large_is_a_dead_letter_and_delays_no_other(port, tmp_path, monkeypatch):
    """The server refuses it at MAIL FROM, because smtplib declares its size."""
    builders.a_reviewer("ana@example.org")
    builders.a_reviewer("ben@example.org")
    builders.a_waiting_interrupt()
    derive()
    real = senders.render_mail

    def render_large(message):
        mail = real(message)
        if message.person.username == "ana@example.org":
            mail.body = "x" * 40_000_000
        return mail

    monkeypatch.setattr(senders, "render_mail", render_large)
    with started_server(port, tmp_path / "received"):
        send()
    dead = NotificationMessage.objects.get(status=MessageStatus.DEAD)
    assert (dead.person.username, dead.attempt) == ("ana@example.org", 1)
    assert "552" in dead.trouble
    assert NotificationMessage.objects.filter(status=MessageStatus.SENT).count() == 1
    assert NotificationService.objects.get(name="mail").rest_until is None


def test_without_a_server_the_channel_rests_longer_each_time_and_nothing_is_given_up(port):
    many_requests(10)
    rests = []
    for _ in range(6):
        assert send() == 0
        state = NotificationService.objects.get(name="mail")
        rests.append(state.rest_until)
        assert not messages.anything_to_send("mail")
        make_everything_due()
    assert state.failures == 6
    assert NotificationMessage.objects.filter(status=MessageStatus.DUE).count() == 10
    assert NotificationAttempt.objects.count() == 6, "an outage costs one attempt per backoff, not one per message"


def test_after_two_days_without_a_server_a_message_is_a_dead_letter_that_can_be_sent_again(port, tmp_path):
    builders.a_reviewer()
    builders.a_waiting_interrupt()
    derive()
    send()
    make_everything_due()
    message = NotificationMessage.objects.get()
    NotificationMessage.objects.update(give_up_at=message.created_at)
    send()
    assert NotificationMessage.objects.get().status == MessageStatus.DEAD
    messages.resend_message(message_id=message.public_id, by="person:ops")
    file = tmp_path / "received"
    with started_server(port, file):
        send()
    assert received(file) == [message_id(message)]


def test_a_server_that_does_not_answer_delays_nothing_else(port, monkeypatch):
    """One worker sends mail. Meanwhile the other tasks are enqueued and done, and no second worker waits for the server."""
    monkeypatch.setattr(senders, "SECONDS_PER_MESSAGE", 0.4)
    builders.a_reviewer()
    wait = builders.a_waiting_interrupt()
    derive()
    builders.move_deadline(wait, wait.created_at)
    aborted, seen = threading.Event(), {}

    class SilentServer(senders.MailSender):
        def prepare(self, message):
            seen["second turn"] = messages.take_turn("mail")
            seen["is enqueued"] = messages.anything_to_send("mail")
            seen["expired"] = expire.expire_due_interrupts(limit=9)
            return True

        def send(self):
            aborted.wait(10)
            return senders.SendResult()

        def abort(self):
            aborted.set()

    monkeypatch.setitem(senders.SENDERS, "mail", SilentServer)
    send()
    assert seen == {"second turn": None, "is enqueued": False, "expired": 1}
    assert NotificationMessage.objects.get().trouble == "No answer within 0 seconds."
    assert NotificationService.objects.get(name="mail").failures == 1


def test_the_tasks_derive_and_send(port, tmp_path):
    builders.a_reviewer()
    builders.a_waiting_interrupt()
    file = tmp_path / "received"
    tasks.publish()
    tasks.enqueue_due_sweeps()
    tasks.notify()
    enqueued = {row.task["func"] for row in OrmQ.objects.all()}
    assert {"reviewqueue.tasks.notify", "reviewqueue.tasks.send_mail"} <= enqueued
    with started_server(port, file):
        tasks.send_mail()
    assert len(received(file)) == 1
