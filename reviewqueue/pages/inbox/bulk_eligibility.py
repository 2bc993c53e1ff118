"""Which requests can be decided in bulk, and why the others need their own page.

The check excludes requests from a bulk decision. It grants no permission: the gateway checks each decision.
"""

from __future__ import annotations

from datetime import datetime

from django.contrib.auth.models import AbstractUser
from django.utils.translation import gettext as _

from reviewqueue.pages import code_labels
from reviewqueue.queries.inbox import InboxRow
from reviewqueue.text.hidden_characters import warnings_in
from reviewqueue.text.json_values import fits_in_bulk
from reviewqueue.text.people import person_name
from reviewqueue.text.times import datetime_label
from runs.policies import needs_second_factor
from runs.states import DecisionStatus, InterruptStatus, Kind, Risk, Verdict

#: The verdicts of a bulk decision.
TOGETHER = (Verdict.APPROVE, Verdict.REJECT)


def why_alone(row: InboxRow, reader: AbstractUser, *, now: datetime) -> str:
    """Return why this request cannot be decided in bulk, or an empty string."""
    it = row.interrupt
    if it.status != InterruptStatus.WAITING:
        return _ended(row)
    if row.is_held and it.claimed_by_id != reader.pk and it.claimed_by is not None and it.claimed_until is not None:
        holder = person_name(it.claimed_by)
        return _("It is claimed by {holder} until {time}.").format(
            holder=holder, time=datetime_label(it.claimed_until, now=now, short=True)
        )
    if not row.may_decide:
        return _("You cannot decide this request.")
    if it.risk == Risk.HIGH:
        return _("Requests with high risk are decided one by one.")
    if needs_second_factor(it):
        return _("It needs a second factor: open its own page.")
    if it.kind != Kind.APPROVAL or it.schema_id is not None:
        return _("It has a form to fill in.")
    if row.changed_facts:
        return _("A fact it relies on has changed: open its own page.")
    if warnings_in([it.title, row.proposal]):
        return _("It contains hidden characters: open its own page.")
    if row.is_large or (row.proposal is not None and not fits_in_bulk(row.proposal["arguments"])):
        return _("Its call is too long for a list: open its own page.")
    if not any(verdict in it.verdicts for verdict in TOGETHER):
        return _("It cannot be approved or rejected.")
    return ""


def _ended(row: InboxRow) -> str:
    """Return how a request was closed that an open page still lists."""
    decision = row.decision
    if decision is None or decision.by is None:
        return _("It is already {status}.").format(status=code_labels.closed_label(row.interrupt)[0])
    done = code_labels.verdict_done(decision.verdict)
    person = person_name(decision.by)
    if decision.status == DecisionStatus.OVERTAKEN:
        text = _("Already decided by {person}: {done}; superseded by a later change.")
    else:
        text = _("Already decided by {person}: {done}.")
    return text.format(person=person, done=done)
