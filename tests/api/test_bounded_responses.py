"""What one response of the API may cost: lists end before their values fill a page, a claim lists a bounded ledger."""

from __future__ import annotations

import pytest

from ledger import compensation, effect_queries
from reviewqueue.api import pagination
from runs import decisions
from runs.models import StepResult
from runs.use_cases import claim_continuation
from tests import builders
from tests.api.calls import (
    Caller,
    a_reviewer_client,
    a_started_run,
    a_worker,
    the_approval,
    the_suspend,
    the_wait,
)

pytestmark = pytest.mark.django_db


def begin(worker: Caller, run: str, lease: str, key: str, **declared: object) -> str:
    begun = worker.put(
        f"runs/{run}/effects/{key}", {"name": "reserve_hoist", "arguments": {"day": 1}, **declared}, Run_Lease=lease
    )
    assert begun.status == 201, begun.body
    return str(begun["attempt_token"])


def an_applied_effect(worker: Caller, run: str, lease: str, key: str, receipt: object) -> None:
    token = begin(worker, run, lease, key)
    body = {"attempt_token": token, "status": "applied", "receipt": receipt}
    assert worker.post(f"runs/{run}/effects/{key}/outcome", body).status == 200


def pages(worker: Caller, path: str, name: str) -> list[list[dict]]:
    found, query = [], ""
    while query is not None:
        reply = worker.get(f"{path}{query}")
        assert reply.status == 200, reply.body
        found.append(reply[name])
        query = f"?next={reply['next']}" if reply["next"] is not None else None
    return found


def claimed_again(worker: Caller, run: str, lease: str) -> dict:
    assert worker.post(f"runs/{run}/lease/release", {"reason": "retry"}, Run_Lease=lease).status == 200
    [taken] = worker.post("continuations/claim", {}).body
    return taken


def test_the_effects_of_a_run_are_paged_oldest_first():
    worker = a_worker()
    run, lease = a_started_run(worker)
    keys = [f"reserve:{number}" for number in range(53)]
    for key in keys:
        begin(worker, run, lease, key)
    found = pages(worker, f"runs/{run}/effects", "effects")
    assert [len(page) for page in found] == [50, 3]
    assert [row["key"] for page in found for row in page] == keys
    assert worker.get(f"runs/{run}/effects?next=eff_missing").status == 422
    assert worker.get(f"runs/{run}/effects?limit=101").status == 422


def test_a_page_of_effects_ends_before_its_receipts_fill_it():
    worker = a_worker()
    run, lease = a_started_run(worker)
    for number, size in enumerate((400_000, 500_000, 400_000, 5)):
        an_applied_effect(worker, run, lease, f"e{number}", "x" * size)
    begin(worker, run, lease, "open")
    found = pages(worker, f"runs/{run}/effects", "effects")
    assert [[row["key"] for row in page] for page in found] == [["e0", "e1"], ["e2", "e3", "open"]]
    assert sum(len(row["receipt"] or "") for row in found[0]) <= pagination.STORED_CHARACTERS


def test_a_value_larger_than_a_page_is_a_page_of_its_own(monkeypatch):
    monkeypatch.setattr(pagination, "STORED_CHARACTERS", 1_000)
    worker = a_worker()
    run, lease = a_started_run(worker)
    for number in range(2):
        an_applied_effect(worker, run, lease, f"e{number}", "x" * 5_000)
    assert [len(page) for page in pages(worker, f"runs/{run}/effects", "effects")] == [1, 1]


def test_steps_are_paged_in_their_order_and_by_their_size(monkeypatch):
    monkeypatch.setattr(pagination, "STORED_CHARACTERS", 1_000)
    worker = a_worker()
    run, lease = a_started_run(worker)
    for number in range(7):
        result = {"result": "x" * 400}
        assert worker.put(f"runs/{run}/steps/page-{number}", result, Run_Lease=lease).status == 201
    found = pages(worker, f"runs/{run}/steps", "steps")
    assert [[step["place"] for step in page] for page in found] == [[1, 2], [3, 4], [5, 6], [7]]
    assert StepResult.objects.count() == 7


def test_runs_are_paged_by_the_size_of_their_metadata(monkeypatch):
    monkeypatch.setattr(pagination, "STORED_CHARACTERS", 1_000)
    worker = a_worker()
    runs = [a_started_run(worker, metadata={"note": "x" * 400})[0] for _ in range(3)]
    found = pages(worker, "runs", "runs")
    assert [[run["id"] for run in page] for page in found] == [[runs[2], runs[1]], [runs[0]]]


def test_a_claim_lists_every_effect_of_a_run_that_has_few():
    worker = a_worker()
    run, lease = a_started_run(worker)
    an_applied_effect(worker, run, lease, "first", {"id": 7})
    begin(worker, run, lease, "second", repeat="harmless")
    taken = claimed_again(worker, run, lease)
    assert [(row["key"], row["receipt"]) for row in taken["effects"]] == [("first", {"id": 7}), ("second", None)]
    assert taken["more_effects"] is None


def test_a_claim_lists_open_effects_and_the_newest_and_names_the_address_of_the_others(monkeypatch):
    monkeypatch.setattr(effect_queries, "MAX_EFFECTS_OF_CLAIM", 3)
    effect_queries._newest_of_a_run.forget()
    worker = a_worker()
    run, lease = a_started_run(worker)
    begin(worker, run, lease, "unknown", repeat="harmless")
    for number in range(4):
        an_applied_effect(worker, run, lease, f"e{number}", number)
    taken = claimed_again(worker, run, lease)
    effect_queries._newest_of_a_run.forget()
    assert [row["key"] for row in taken["effects"]] == ["unknown", "e2", "e3"]
    assert taken["effects"][0]["status"] in {"intended", "unknown"}
    assert taken["more_effects"].endswith(f"/api/v1/runs/{run}/effects")
    assert sum(len(page) for page in pages(worker, f"runs/{run}/effects", "effects")) == 5


def test_a_claim_leaves_out_an_effect_with_a_long_receipt_and_a_repeated_call_returns_it():
    worker = a_worker()
    run, lease = a_started_run(worker)
    an_applied_effect(worker, run, lease, "large", "x" * 300_000)
    an_applied_effect(worker, run, lease, "small", 1)
    taken = claimed_again(worker, run, lease)
    assert [row["key"] for row in taken["effects"]] == ["small"]
    assert taken["more_effects"]
    token = taken["lease"]["token"]
    again = worker.put(f"runs/{run}/effects/large", {"name": "reserve_hoist", "arguments": {"day": 1}}, Run_Lease=token)
    assert (again["perform"], again["status"], len(again["receipt"])) == (False, "applied", 300_000)


def test_the_receipts_of_a_claim_share_their_limit_and_the_newest_come_first():
    worker = a_worker()
    run, lease = a_started_run(worker)
    for number in range(20):
        an_applied_effect(worker, run, lease, f"e{number:02d}", "x" * 15_000)
    taken = claimed_again(worker, run, lease)
    shown = [row["key"] for row in taken["effects"]]
    assert shown == [f"e{number:02d}" for number in range(3, 20)]
    assert sum(len(row["receipt"]) for row in taken["effects"]) <= effect_queries.MAX_RECEIPT_CHARACTERS_OF_CLAIM
    assert taken["more_effects"]


def test_calls_are_not_read_for_a_claim():
    worker = a_worker()
    run, lease = a_started_run(worker)
    begin(worker, run, lease, "first", arguments={"text": "x" * 1_000})
    [effect] = effect_queries.read_effects_for_claim(run).effects
    assert {"call", "probe", "compensation"} <= effect.get_deferred_fields()


def test_a_claim_of_many_runs_ends_when_their_states_are_large(monkeypatch):
    monkeypatch.setattr(claim_continuation, "CLAIMS_BETWEEN_SIZES", 2)
    monkeypatch.setattr(claim_continuation, "MAX_STATE_CHARACTERS", 3_000)
    worker = a_worker()
    for size in (500, 500, 1_500, 1_500, 10):
        run, lease = a_started_run(worker)
        checkpoint = {"after": 0, "step": "s", "state": "x" * size}
        assert worker.post(f"runs/{run}/checkpoints", checkpoint, Run_Lease=lease).status == 201
        assert worker.post(f"runs/{run}/lease/release", {"reason": "retry"}, Run_Lease=lease).status == 200
    first, rest = (worker.post("continuations/claim", {"max": 100}).body for _ in range(2))
    assert [len(it["checkpoint"]["state"]) for it in first] == [500, 500, 1_500, 1_500]
    assert [len(it["checkpoint"]["state"]) for it in rest] == [10]
    assert worker.post("continuations/claim", {"max": 101}).status == 422


def test_a_repeated_claim_whose_states_are_large_claims_no_further_run(monkeypatch):
    monkeypatch.setattr(claim_continuation, "CLAIMS_BETWEEN_SIZES", 2)
    monkeypatch.setattr(claim_continuation, "MAX_STATE_CHARACTERS", 1_000)
    worker = a_worker()
    for size in (800, 800, 10):
        run, lease = a_started_run(worker)
        checkpoint = {"after": 0, "step": "s", "state": "x" * size}
        assert worker.post(f"runs/{run}/checkpoints", checkpoint, Run_Lease=lease).status == 201
        assert worker.post(f"runs/{run}/lease/release", {"reason": "retry"}, Run_Lease=lease).status == 200
    first, repeated = (worker.post("continuations/claim", {"max": 100}, Idempotency_Key="one").body for _ in range(2))
    assert [len(it["checkpoint"]["state"]) for it in first] == [800, 800]
    assert [it["run"]["id"] for it in repeated] == [it["run"]["id"] for it in first]


# --- answers, permits and compensations of a claim ----------------------------------------------------------------------


def an_answered_run(worker: Caller, *waits: dict, answers: list[dict]) -> str:
    """Suspend a run with these interrupts and answer each; the last answer makes it ready."""
    run, lease = a_started_run(worker)
    asked = worker.post(f"runs/{run}/interrupts", the_suspend(*waits), Run_Lease=lease)
    assert asked.status == 201, asked.body
    ana = a_reviewer_client()
    for interrupt, answer in zip(asked["interrupts"], answers, strict=True):
        decided = ana.post(f"interrupts/{interrupt['id']}/decisions", {"state_version": 1, **answer})
        assert decided.status == 201, decided.body
    return run


def an_answer(text: str) -> dict:
    return {"verdict": "answer", "input": {"certificate_no": text}}


def test_a_claim_lists_the_answers_of_the_last_suspend_first_and_the_list_has_them_all(monkeypatch):
    monkeypatch.setattr(decisions, "MAX_ANSWERS_OF_CLAIM", 3)
    worker = a_worker()
    run = an_answered_run(
        worker, *(the_wait(key=f"w{n}") for n in range(3)), answers=[an_answer(str(n)) for n in range(3)]
    )
    [taken] = worker.post("continuations/claim", {}).body
    assert (sorted(taken["answers"]), taken["more_answers"]) == (["w0", "w1", "w2"], None)
    again = the_suspend(the_wait(key="late"), after=1)
    asked = worker.post(f"runs/{run}/interrupts", again, Run_Lease=taken["lease"]["token"])
    late = {"state_version": 1, **an_answer("late")}
    assert a_reviewer_client().post(f"interrupts/{asked['interrupts'][0]['id']}/decisions", late).status == 201
    [taken] = worker.post("continuations/claim", {}).body
    assert {key: it["new"] for key, it in taken["answers"].items()} == {"w1": False, "w2": False, "late": True}
    assert taken["more_answers"].endswith(f"/api/v1/runs/{run}/answers")
    found = [row for page in pages(worker, f"runs/{run}/answers", "answers") for row in page]
    assert [(row["key"], row["new"], row["overtaken"]) for row in found] == [
        *((f"w{n}", False, False) for n in range(3)),
        ("late", True, False),
    ]
    marks = {"key", "overtaken"}
    assert [{name: row[name] for name in row if name not in marks} for row in found[1:]] == list(
        taken["answers"].values()
    )


def test_a_claim_lists_every_answer_of_its_checkpoint_and_bounds_the_earlier_ones(monkeypatch):
    monkeypatch.setattr(decisions, "MAX_ANSWER_CHARACTERS_OF_CLAIM", 1_000)
    monkeypatch.setattr(decisions, "MAX_ANSWERS_OF_CLAIM", 5)
    monkeypatch.setattr(pagination, "STORED_CHARACTERS", 1_000)
    worker = a_worker()
    run = an_answered_run(
        worker,
        *(the_wait(key=key) for key in ("first", "second", "large")),
        answers=[an_answer("x" * 400), an_answer("x" * 400), an_answer("x" * 2_000)],
    )
    [taken] = worker.post("continuations/claim", {}).body
    assert (list(taken["answers"]), taken["more_answers"]) == (["first", "second", "large"], None)
    found = pages(worker, f"runs/{run}/answers", "answers")
    assert [[row["key"] for row in page] for page in found] == [["first", "second"], ["large"]]
    again = the_suspend(*(the_wait(key=key) for key in ("third", "fourth")), after=1)
    asked = worker.post(f"runs/{run}/interrupts", again, Run_Lease=taken["lease"]["token"])
    for interrupt in asked["interrupts"]:
        answer = {"state_version": 1, **an_answer("x" * 900)}
        assert a_reviewer_client().post(f"interrupts/{interrupt['id']}/decisions", answer).status == 201
    [taken] = worker.post("continuations/claim", {}).body
    assert [key for key, it in taken["answers"].items() if it["new"]] == list(taken["answers"]) == ["third", "fourth"]
    assert taken["more_answers"].endswith(f"/api/v1/runs/{run}/answers")


def test_a_claim_of_several_runs_ends_once_their_answers_are_large(monkeypatch):
    monkeypatch.setattr(claim_continuation, "MAX_STATE_CHARACTERS", 1_500)
    worker = a_worker()
    runs = [an_answered_run(worker, the_wait(), answers=[an_answer("x" * 1_000)]) for _ in range(3)]
    first, repeated = (worker.post("continuations/claim", {"max": 100}, Idempotency_Key="one").body for _ in range(2))
    assert [it["run"]["id"] for it in first] == [it["run"]["id"] for it in repeated] == runs[:2]
    assert [it["run"]["id"] for it in worker.post("continuations/claim", {"max": 100}).body] == runs[2:]


def test_an_edit_counts_what_it_approved_and_what_it_changed():
    builders.a_policy("approval.action")
    worker = a_worker()
    call = {"name": "order", "arguments": {"text": "y" * 100_000}}
    edited = {"verdict": "edit", "arguments": {"text": "x" * 100_000}}
    waits = [the_approval(proposal=call) | {"key": key} for key in ("first", "second")]
    run = an_answered_run(worker, *waits, answers=[edited, edited])
    [taken] = worker.post("continuations/claim", {}).body
    assert (list(taken["answers"]), len(taken["permits"])) == (["first", "second"], 2)
    assert [len(page) for page in pages(worker, f"runs/{run}/answers", "answers")] == [2]


def test_a_claim_lists_the_newest_permits_and_the_list_has_them_all(monkeypatch):
    monkeypatch.setattr(claim_continuation, "MAX_PERMITS_OF_CLAIM", 2)
    builders.a_policy("approval.action")
    worker = a_worker()
    waits = [the_approval() | {"key": f"order:{n}"} for n in range(3)]
    run = an_answered_run(worker, *waits, answers=[{"verdict": "approve"}] * 3)
    [taken] = worker.post("continuations/claim", {}).body
    assert [permit["interrupt"] for permit in taken["permits"]] == ["order:1", "order:2"]
    assert taken["more_permits"].endswith(f"/api/v1/runs/{run}/permits")
    [found] = pages(worker, f"runs/{run}/permits", "permits")
    assert [permit["interrupt"] for permit in found] == ["order:0", "order:1", "order:2"]
    assert found[1:] == taken["permits"]


def test_a_claim_lists_the_next_compensations_and_the_others_follow_as_these_are_done(monkeypatch):
    monkeypatch.setattr(compensation, "MAX_COMPENSATIONS_OF_RESPONSE", 2)
    monkeypatch.setattr(compensation, "MAX_COMPENSATION_CHARACTERS_OF_RESPONSE", 1_000)
    worker = a_worker()
    run, lease = a_started_run(worker)
    back = {"name": "release_hoist", "arguments": {"day": 1}}
    for key, size in (("a", 5), ("b", 700), ("c", 700), ("d", 5), ("e", 5)):
        token = begin(worker, run, lease, key, compensation=back)
        body = {"attempt_token": token, "status": "applied", "receipt": "x" * size}
        assert worker.post(f"runs/{run}/effects/{key}/outcome", body).status == 200
    worker.post(f"runs/{run}/fail", {"error": "no crew"}, Run_Lease=lease)
    [taken] = worker.post("continuations/claim", {}).body
    lease, due, more = taken["lease"]["token"], taken["compensations"], taken["more_compensations"]
    assert more.endswith(f"/api/v1/runs/{run}/compensations")
    done = []
    while due:
        done.append([it["undoes"] for it in due])
        for it in due:
            begun = worker.put(f"runs/{run}/effects/{it['key']}", {"name": it["name"]}, Run_Lease=lease)
            assert (begun["perform"], begun["arguments"], it["arguments"]) == (True, {"day": 1}, {"day": 1})
            body = {"attempt_token": begun["attempt_token"], "status": "applied"}
            assert worker.post(f"runs/{run}/effects/{it['key']}/outcome", body).status == 200
        following = worker.get(f"runs/{run}/compensations")
        due, more = following["compensations"], following["more"]
    assert (done, more) == ([["e", "d"], ["c"], ["b", "a"]], False)
    assert worker.get(f"runs/{run}")["status"] == "failed"
