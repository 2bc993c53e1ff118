"""The model of the run status, exhaustively: every reachable state has a status, can end, and gets the product's status."""

from __future__ import annotations

from runs.run_status import is_claimable
from runs.states import FINAL
from tests.runs.model import State, explore

SWEEPS = {"lease ends", "lease ends, hold", "expire run", "finish ending", "pass", "hold"}


def ends_from(reached, verbs=None):
    """Return the states from which a final one can be reached, by these verbs alone."""
    ending = {state for state in reached if state.ended_at}
    growing = True
    while growing:
        more = {
            state
            for state, moves in reached.items()
            if state not in ending and any((verbs is None or verb in verbs) and to in ending for verb, to in moves)
        }
        ending |= more
        growing = bool(more)
    return ending


def test_the_reachable_table_has_its_known_size():
    reached = explore()
    assert len(reached) == 102
    assert sum(len(moves) for moves in reached.values()) == 967


def test_no_reachable_state_is_undefined():
    assert [state for state in explore() if state.status == "impossible"] == []


def test_an_open_interrupt_means_no_lease_and_no_continuation():
    assert [state for state in explore() if state.open_waits and (state.lease or state.open_continuation)] == []


def test_every_state_can_end():
    reached = explore()
    assert ends_from(reached) == set(reached)


def test_sweeps_alone_end_everything_but_what_needs_a_worker_or_an_owner():
    reached = explore()
    stuck = set(reached) - ends_from(reached, SWEEPS)
    assert len(stuck) == 56
    assert all(state.to_compensate or state.open_holds for state in stuck)


def test_an_end_waits_for_a_worker_an_owner_or_a_claim_and_never_for_nothing():
    ending = [state for state in explore() if state.ending and not state.ended_at]
    assert [state for state in ending if not (state.lease or state.open_holds or state.open_continuation)] == []
    assert [state for state in ending if state.open_holds and state.open_continuation == "ready"] == []


def test_no_due_compensation_is_left_when_a_run_has_ended():
    assert [state for state in explore() if state.ended_at and state.ending and state.to_compensate] == []


def test_an_end_whose_lost_lease_offered_nothing_would_never_end():
    reached = explore(without=frozenset({"closing checkpoint", "hand back", "lease ends"}))
    assert set(reached) - ends_from(reached)


def test_of_all_holds_a_claim_lifts_the_one_that_wants_a_fitting_worker():
    claims = {state for state, moves in explore().items() for verb, _ in moves if verb == "claim"}
    assert {state.status for state in claims} == {"ready", "blocked"}
    assert all(state.stranded and not state.held for state in claims if state.status == "blocked")
    stranded = {state for state in explore() if state.stranded and state.status == "blocked" and not state.held}
    assert {state for state in stranded if state.open_continuation == "ready"} <= claims


def test_what_is_offered_to_workers_waits_for_nothing_else():
    offered = {state for state in explore() if is_claimable(state)}
    assert {state.status for state in offered} == {"ready", "cancelling"}
    assert not any(state.lease or state.open_holds or state.pause_asked_at or state.open_waits for state in offered)
    assert {state for state in explore() if state.status == "ready"} <= offered


def test_an_ended_run_has_a_final_status():
    assert all((state.status in FINAL) == state.ended_at for state in explore())


def test_a_lost_lease_without_a_continuation_would_be_undefined():
    reached = explore(without=frozenset({"lease ends"}))
    assert any(state.status == "impossible" for state in reached)


def test_a_resume_at_a_bare_boundary_without_a_continuation_would_be_undefined():
    reached = explore(without=frozenset({"resume"}))
    assert any(state.status == "impossible" for state in reached)


def test_the_conditions_in_their_order():
    assert State(ended_at=True, ending="failed").status == "failed"
    assert State(ended_at=True).status == "completed"
    assert State(ending="cancelled", lease=1).status == "cancelling"
    assert State(lease=1, pause_asked_at=True).status == "running"
    assert State(pause_asked_at=True, open_waits=1).status == "paused"
    assert State(held=1, open_continuation="ready").status == "blocked"
    assert State(stranded=True, open_continuation="ready").status == "blocked"
    assert State(open_continuation="checking").status == "revalidating"
    assert State(open_continuation="ready").status == "ready"
    assert State(open_waits=2).status == "waiting"
