"""Every error of the API is a problem (RFC 9457): mapped, with a sentence, documented, wherever it came from."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from django.db import OperationalError
from django.test import Client

from ledger.errors import Refusal
from reviewqueue.api import base_view, problems
from reviewqueue.api.problems import PROBLEMS, refusals_by_code
from runs.models import EffectRule
from tests import builders
from tests.api.calls import Caller, a_worker

DOCUMENT = Path(__file__).parents[2] / "docs" / "refusals.md"


@pytest.mark.django_db
def test_an_agent_reads_its_mode_and_its_effect_rules():
    worker, agent = a_worker(), builders.an_agent()
    EffectRule.objects.create(agent=agent, name_pattern="issue_*", reason="approval.action")
    EffectRule.objects.create(agent=agent, name_pattern="ask_offer", action="allow")
    EffectRule.objects.create(agent=builders.an_agent("another"), name_pattern="pay", action="allow")
    assert worker.get("agents/me")["agent"]["effects"] == {
        "mode": "any",
        "rules": [
            {"name": "ask_offer", "action": "allow", "reason": None},
            {"name": "issue_*", "action": "approval", "reason": "approval.action"},
        ],
    }


def every_refusal() -> set[type[Refusal]]:
    found: set[type[Refusal]] = set()
    layer: list[type[Refusal]] = [Refusal]
    while layer:
        layer = [inner for refusal in layer for inner in refusal.__subclasses__() if inner.__module__[:5] != "tests"]
        found.update(layer)
    return found


def test_every_refusal_is_mapped_and_has_a_sentence():
    assert {refusal.code for refusal in every_refusal()} == set(PROBLEMS)
    for refusal in every_refusal():
        assert refusal.sentence().endswith((".", "?", ")")), refusal


def test_every_refusal_has_its_line_in_the_docs():
    lines = DOCUMENT.read_text().splitlines()
    for code, (status, _) in PROBLEMS.items():
        assert f"| `{code}` | {status} | {refusals_by_code()[code].sentence()} |" in lines


def judge(reply, status: int, code: str) -> None:
    assert reply.headers["Content-Type"] == "application/problem+json"
    assert reply.status == reply["status"] == status, reply.body
    assert reply["code"] == code
    assert reply["type"].endswith(f"/problems/{code}")
    assert reply["title"] == PROBLEMS[code][1]
    assert isinstance(reply["retryable"], bool)
    assert isinstance(reply["errors"], list)
    assert reply["detail"]


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["/api/v1/nothing", "/api/v2/runs", "/api/", "/api/v1/runs/", "/api/v1/runs/%00"])
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_an_unknown_path(path, method):
    judge(Caller().call(method, path), 404, "not_found")
    judge(a_worker().call(method, path), 404, "not_found")


@pytest.mark.django_db
def test_a_method_that_an_address_has_not():
    reply = a_worker().call("DELETE", "runs")
    judge(reply, 405, "method_not_allowed")
    assert reply.headers["Allow"] == "GET, HEAD, POST"
    judge(a_worker().call("OPTIONS", "runs"), 405, "method_not_allowed")


@pytest.mark.django_db
def test_a_caller_without_a_key():
    reply = Caller().get("agents/me")
    judge(reply, 401, "unauthenticated")
    assert reply.headers["WWW-Authenticate"].startswith("Bearer")


@pytest.mark.django_db
def test_whatever_is_accepted_the_answer_is_json():
    assert a_worker().get("agents/me", Accept="text/html").headers["Content-Type"] == "application/json"
    judge(Caller().get("agents/me?format=html", Accept="text/html"), 401, "unauthenticated")


def broken(error: Exception):
    def query_of(*_: object) -> None:
        raise error

    return query_of


@pytest.mark.django_db
def test_an_unexpected_error_is_logged_and_not_shown(monkeypatch, caplog):
    monkeypatch.setattr(base_view, "validated_query", broken(ZeroDivisionError("a secret")))
    reply = a_worker().get("agents/me")
    judge(reply, 500, "internal_error")
    assert "secret" not in str(reply.body)
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.django_db
def test_a_database_that_does_not_answer_is_busy(monkeypatch):
    monkeypatch.setattr(base_view, "validated_query", broken(OperationalError("gone")))
    reply = a_worker().get("agents/me")
    judge(reply, 503, "busy")
    assert (reply["retryable"], reply.headers["Retry-After"]) == (True, "1")


@pytest.mark.django_db
def test_an_error_outside_a_view_is_a_problem_too(monkeypatch, caplog):
    def fails(_request):
        raise ZeroDivisionError

    monkeypatch.setattr("reviewqueue.middleware.disable_caching", lambda get_response: fails)
    caplog.set_level(logging.CRITICAL)
    judge(Caller(client=Client(raise_request_exception=False)).get("agents/me"), 500, "internal_error")


@pytest.mark.django_db
def test_a_host_name_that_is_not_ours():
    caller = Caller(client=Client(raise_request_exception=False))
    judge(caller.get("agents/me", Host="evil.example"), 400, "payload_invalid")


@pytest.mark.django_db
@pytest.mark.parametrize("code", sorted(PROBLEMS))
def test_the_type_of_a_problem_is_an_open_page(client, code):
    page = client.get(f"/problems/{code}")
    assert page.status_code == 200
    assert f"<code>{code}</code>" in page.text


@pytest.mark.django_db
def test_a_code_that_is_none_has_no_page(client):
    assert client.get("/problems/nothing").status_code == 404
    assert client.post("/problems/expired").status_code == 405


def test_what_a_refusal_tells_besides_never_replaces_a_standard_member():
    body = problems.body_of(problems.PayloadTooLarge(status=1, detail_of=2, type="x"))
    assert (body["status"], body["current_status"], body["detail_of"]) == (413, 1, 2)
    assert body["type"].endswith("/problems/payload_too_large")
