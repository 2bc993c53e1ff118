"""Scenes of what people set in their inbox: snoozes and saved filters."""

from __future__ import annotations

from datetime import timedelta

from reviewqueue.inbox_preferences import saved_filters, saved_replies, snoozes
from tests import builders
from tests.crashes.use_cases import Act, verb


@verb("reviewqueue.inbox_preferences.snoozes.snooze_request", another=True)
def a_request_is_snoozed() -> Act:
    ana, interrupt = builders.a_reviewer(), builders.a_waiting_interrupt()
    return lambda: snoozes.snooze_request(
        responder=ana, interrupt_id=interrupt.public_id, duration=timedelta(minutes=5)
    )


@verb("reviewqueue.inbox_preferences.snoozes.end_snooze")
def a_snooze_ends() -> Act:
    ana, interrupt = builders.a_reviewer(), builders.a_waiting_interrupt()
    snoozes.snooze_request(responder=ana, interrupt_id=interrupt.public_id, duration=timedelta(minutes=5))
    return lambda: snoozes.end_snooze(responder=ana, interrupt_id=interrupt.public_id)


@verb("reviewqueue.inbox_preferences.saved_filters.save_filter")
def a_filter_is_saved() -> Act:
    ana = builders.a_reviewer()
    return lambda: saved_filters.save_filter(ana, name="Urgent", query="risk=high")


@verb("reviewqueue.inbox_preferences.saved_filters.remove_filter", then="not_found")
def a_filter_is_removed() -> Act:
    ana = builders.a_reviewer()
    saved, _ = saved_filters.save_filter(ana, name="Urgent", query="risk=high")
    return lambda: saved_filters.remove_filter(ana, pk=saved.pk)


@verb("reviewqueue.inbox_preferences.saved_replies.save_reply")
def a_reply_is_saved() -> Act:
    ana = builders.a_reviewer()
    return lambda: saved_replies.save_reply(ana, name="Receipt", text="Send the receipt first.")


@verb("reviewqueue.inbox_preferences.saved_replies.remove_reply", then="not_found")
def a_reply_is_removed() -> Act:
    ana = builders.a_reviewer()
    saved, _ = saved_replies.save_reply(ana, name="Receipt", text="Send the receipt first.")
    return lambda: saved_replies.remove_reply(ana, pk=saved.pk)
