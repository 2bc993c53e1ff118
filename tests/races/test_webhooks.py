"""Two publishers and two senders at once: each event is published once, each message is delivered once."""

from __future__ import annotations

import pytest

from ledger.transactions import use_case
from reviewqueue.webhooks import outbox, sender
from reviewqueue.webhooks.models import Delivery, DeliveryAttempt, DeliveryStatus
from tests import builders
from tests.races.race_runner import racers
from tests.webhooks.receiver import receiver
from tests.webhooks.webhook_builders import an_endpoint

pytestmark = [pytest.mark.postgresql, pytest.mark.django_db(transaction=True)]

RUNS = 60


@pytest.mark.proves(10)
def test_two_announcers_and_two_senders_do_nothing_twice():
    with receiver() as server:
        for place in range(4):
            an_endpoint(f"{server.url}/{place}", "run.started")
        for _ in range(RUNS):
            builders.a_running_run()
        with racers({name: lambda _: outbox.publish_events(seconds=150) for name in ("one", "two")}) as race:
            told = race.round()
        assert sum(one.result for one in told) == RUNS, told
        assert Delivery.objects.count() == 4 * RUNS
        with racers({name: lambda _: sender.deliver_due_messages(seconds=150) for name in ("one", "two")}) as race:
            told = race.round()
        assert sum(one.result for one in told) == 4 * RUNS, told
        ids = [got.headers["webhook-id"] for got in server.got]
    assert len(ids) == len(set(ids)) == 4 * RUNS
    assert DeliveryAttempt.objects.count() == 4 * RUNS
    assert set(Delivery.objects.values_list("status", flat=True)) == {DeliveryStatus.DELIVERED}


def test_numbering_is_inside_the_transaction_that_makes_the_messages():
    """A publisher killed between the two would lose messages."""
    an_endpoint("http://127.0.0.1:8009/hooks", "run.started")
    builders.a_running_run()

    def die_at_the_end():
        assert outbox.publish_batch.__wrapped__(agent_id=builders.an_agent().pk, limit=10) == 1
        raise SystemExit

    with pytest.raises(SystemExit):
        use_case(die_at_the_end)()
    assert not Delivery.objects.exists()
    assert outbox.publish_events(seconds=60) == 1
    assert Delivery.objects.count() == 1
