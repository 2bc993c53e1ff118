"""Which waits can be decided together with others, and why the rest is decided on its own page.

Called by the inbox, to offer a box to tick, and by the page of several waits, when it is drawn and again when it decides.
A reason here keeps a wait out of a bulk; that a wait is in grants nothing, the gateway judges each answer.
"""

from __future__ import annotations

from datetime import datetime

from django.contrib.auth.models import AbstractUser

from reviewqueue.pages import code_labels
from reviewqueue.queries.inbox import Row
from reviewqueue.text.hidden_characters import warnings_in
from reviewqueue.text.json_values import fits_in_a_bulk
from reviewqueue.text.times import moment_in_words
from runs.states import DecisionStatus, InterruptStatus, Kind, Risk, Verdict

#: What several waits can be answered with at once.
TOGETHER = (Verdict.APPROVE, Verdict.REJECT)


def why_alone(row: Row, reader: AbstractUser, *, now: datetime) -> str:
    """Return why this wait is left out of a bulk decision, or nothing."""
    it = row.interrupt
    if it.status != InterruptStatus.WAITING:
        return _ended(row)
    if row.is_held and it.claimed_by_id != reader.pk and it.claimed_by is not None and it.claimed_until is not None:
        holder = it.claimed_by.get_full_name() or it.claimed_by.get_username()
        return f"{holder} holds it until {moment_in_words(it.claimed_until, now=now, short=True)}."
    if not row.may_decide:
        return "It is not yours to decide."
    if it.risk == Risk.HIGH:
        return "High risk is decided one by one."
    if it.kind != Kind.APPROVAL or it.schema_id is not None:
        return "It asks for a typed answer."
    if row.changed_facts:
        return "A fact it relies on has changed: read it on its own page."
    if warnings_in([it.title, row.proposal]):
        return "It holds hidden characters: read it on its own page."
    if row.is_large or (row.proposal is not None and not fits_in_a_bulk(row.proposal["arguments"])):
        return "Its call is too long to be read among others: read it on its own page."
    if not any(verdict in it.verdicts for verdict in TOGETHER):
        return "It can be neither approved nor rejected."
    return ""


def _ended(row: Row) -> str:
    """Say how a wait ended that somebody still has on a list: who decided it, and how."""
    decision = row.decision
    if decision is None or decision.by is None:
        return f"It is {code_labels.closed_words(row.interrupt)[0]} already."
    done = code_labels.VERDICT_DONE.get(decision.verdict, "answered")
    since = "; a change has overtaken it since" if decision.status == DecisionStatus.OVERTAKEN else ""
    return f"{decision.by.get_full_name() or decision.by.get_username()} was first: {done}{since}."
