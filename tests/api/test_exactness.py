"""What was sent is what comes back: types, order, digits, blanks; from create over the answer to the claim."""

from __future__ import annotations

import hashlib

import pytest

from tests.api.calls import a_reviewer_client, a_started_run, a_waiting_interrupt, a_worker, the_suspend, the_wait

pytestmark = pytest.mark.django_db

EXACT = (
    b'{"a":1.0,"b":1,"c":0.1,"d":"1.10","f":-0.0,"g":[],"h":{},"i":"","j":null,"z":184000.00,"y":9007199254740993,'
    b'"x":0.1000000000000000055511151231257827,"acct":"00123","v":"true","n":"null","day":"2024-01-01",'
    b'"nfc":"\xc3\xa9","nfd":"e\xcc\x81","family":"\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x91\xa7","last":"\xef\xbf\xbf"}'
)


def raw(caller, method: str, path: str, body: bytes, **headers: str) -> bytes:
    named = {"Authorization": f"Bearer {caller.key}", **headers}
    reply = caller.client.generic(method, f"/api/v1/{path}", body, content_type="application/json", headers=named)
    assert reply.status_code < 300, reply.content
    return reply.content


def test_a_state_comes_back_byte_for_byte():
    worker = a_worker()
    run, lease = a_started_run(worker)
    body = b'{"after":0,"step":"s","state":' + EXACT + b"}"
    raw(worker, "POST", f"runs/{run}/checkpoints", body, **{"Run-Lease": lease})
    assert EXACT in raw(worker, "GET", f"runs/{run}/checkpoints/1", b"")


def test_a_proposal_is_shown_and_claimed_byte_for_byte():
    worker, ana = a_worker(), a_reviewer_client()
    the_wait()
    ask = b'{"key":"order","reason":"approval.action","queue":"engineering","title":"Order","proposal":{"name":"order",'
    ask += b'"arguments":' + EXACT + b"}}"
    raw(worker, "POST", "asks", ask)
    [waiting] = worker.get("interrupts")["interrupts"]
    assert EXACT in raw(ana, "GET", f"interrupts/{waiting['id']}", b"")
    edit = (
        b'{"state_version":1,"verdict":"edit","confirm_hidden_characters":true,"arguments":'
        + EXACT.replace(b'"b":1', b'"b":2')
        + b"}"
    )
    raw(ana, "POST", f"interrupts/{waiting['id']}/decisions", edit)
    assert EXACT.replace(b'"b":1', b'"b":2') in raw(worker, "POST", "continuations/claim", b"")


def test_only_an_exponent_may_be_written_in_another_way():
    worker = a_worker()
    run, lease = a_started_run(worker)
    body = b'{"after":0,"step":"s","state":[1e2,1E+2,100,-0]}'
    raw(worker, "POST", f"runs/{run}/checkpoints", body, **{"Run-Lease": lease})
    assert b'"state":[1E+2,1E+2,100,-0]' in raw(worker, "GET", f"runs/{run}/checkpoints/1", b"")


@pytest.mark.parametrize("value", [b"null", b"false", b"0", b'""', b"[]", b"{}"])
def test_an_answer_that_is_nothing_is_an_answer(value):
    worker, ana = a_worker(), a_reviewer_client()
    interrupt, _ = a_waiting_interrupt(worker, the_wait(input_schema={}))
    raw(ana, "POST", f"interrupts/{interrupt}/decisions", b'{"state_version":1,"verdict":"answer","input":%s}' % value)
    assert b'"verdict":"answer","input":%s,' % value in raw(worker, "POST", "continuations/claim", b"{}")


def test_an_answer_that_is_missing_is_not_null():
    worker, ana = a_worker(), a_reviewer_client()
    interrupt, _ = a_waiting_interrupt(worker, the_wait(input_schema={}))
    reply = ana.post(f"interrupts/{interrupt}/decisions", {"state_version": 1, "verdict": "answer"})
    assert (reply.status, reply["code"]) == (422, "input_invalid")


@pytest.mark.parametrize("size", [100_000, 1024 * 1024 - 200])
def test_a_large_text_is_kept_whole(size):
    worker = a_worker()
    run, lease = a_started_run(worker)
    text = "é" * (size // 2)
    worker.post(f"runs/{run}/checkpoints", {"after": 0, "step": "s", "state": text}, Run_Lease=lease)
    kept = worker.get(f"runs/{run}/checkpoints/1")["state"]
    assert hashlib.sha256(kept.encode()).digest() == hashlib.sha256(text.encode()).digest()


def test_only_the_holder_of_a_lease_gets_answers():
    worker, ana = a_worker(), a_reviewer_client()
    secret = "a-certificate-number"
    interrupt, run = a_waiting_interrupt(worker)
    body = {"state_version": 1, "verdict": "answer", "input": {"certificate_no": secret}, "message": secret}
    ana.post(f"interrupts/{interrupt}/decisions", body)
    for path in ["interrupts", f"interrupts/{interrupt}", "runs", f"runs/{run}"]:
        assert secret not in str(worker.get(path).body)
    for end in ("timeline", "interrupts", "effects", "checkpoints/1"):
        assert secret not in str(worker.get(f"runs/{run}/{end}").body)
    replayed = worker.post(f"runs/{run}/interrupts", the_suspend(), Run_Lease="x")
    assert secret not in str(replayed.body)
    assert secret in str(ana.get(f"interrupts/{interrupt}").body)
    assert secret in str(worker.post("continuations/claim").body)
