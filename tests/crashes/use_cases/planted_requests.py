"""Scenes of planted requests."""

from __future__ import annotations

from ledger import clock
from reviewqueue.notifications import derivation
from reviewqueue.review_quality import planted_requests
from runs.use_cases.plant_request import withdraw_covered, withdraw_planted
from tests.crashes.use_cases import Act, verb
from tests.planted_builders import a_lead, a_planted_request, an_example, written


@verb("reviewqueue.review_quality.planted_requests._plant", another=True)
def a_lead_plants_a_request() -> Act:
    lead, example = a_lead(), an_example()
    return lambda: planted_requests.plant(lead, **written(example.public_id))


@verb("runs.use_cases.plant_request.withdraw_planted", then="withdrawn")
def a_lead_withdraws_a_planted_request() -> Act:
    planted = a_planted_request()
    return lambda: withdraw_planted(planted_pk=planted.pk, person=planted.planted_by, now=clock.now())


@verb("reviewqueue.notifications.derivation.derive_planted_batch")
def people_are_notified_of_a_planted_request() -> Act:
    a_planted_request()
    return derivation.derive_planted_batch


@verb("runs.use_cases.plant_request.withdraw_covered")
def a_planted_request_that_a_rule_covers_is_withdrawn() -> Act:
    planted = a_planted_request()
    return lambda: withdraw_covered(interrupt_pk=planted.interrupt_id, now=clock.now())
