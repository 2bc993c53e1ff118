"""The authority matrix: every kind of caller at every route; what is refused changes nothing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from reviewqueue.models import ApiKey
from reviewqueue.operations.api_keys import create_agent_key, create_personal_token, revoke_key
from tests import builders
from tests.api.calls import Caller, Reply
from tests.attack.counts import rows_of_everything
from tests.attack.routes import ROUTES, Good, a_world, routes_of_the_map

pytestmark = pytest.mark.django_db


def test_every_route_has_an_entry():
    assert sorted(routes_of_the_map()) == sorted(ROUTES)


def callers() -> dict[str, Caller]:
    agent = builders.an_agent()
    long_ago = datetime.now(UTC) - timedelta(days=1)
    revoked = create_agent_key(agent)
    revoke_key(revoked.key)
    gone = builders.a_person("gone@example.org", "engineering-reviewers")
    gone_token = create_personal_token(gone)
    gone.is_active = False
    gone.save()
    good = create_agent_key(agent)
    return {
        "nobody": Caller(),
        "nonsense": Caller("rq_nonsense"),
        "wrong secret": Caller(good.text[:-1] + ("A" if good.text[-1] != "A" else "B")),
        "expired": Caller(create_agent_key(agent, expires_at=long_ago).text),
        "revoked": Caller(revoked.text),
        "disabled": Caller(gone_token.text),
        "agent": Caller(good.text),
        "other_agent": Caller(create_agent_key(builders.an_agent("another")).text),
        "stranger": Caller(create_personal_token(builders.a_person("zoe@example.org")).text),
        "reviewer": Caller(create_personal_token(builders.a_reviewer()).text),
    }


KNOWN = ("agent", "other_agent", "stranger", "reviewer")


def ask(caller: Caller, method: str, good: Good) -> Reply:
    return caller.call(method, good.path, good.body, raw=good.raw, **good.headers)


@pytest.mark.parametrize("route", ROUTES, ids=" ".join)
def test_who_gets_what(route):
    method, _ = route
    entry, world, known = ROUTES[route], a_world(), callers()
    expected = {name: getattr(entry, name, entry.no_valid_key) for name in known}
    good = entry.good(world)

    for name in [name for name in known if expected[name] >= 400]:
        before = rows_of_everything()
        reply = ask(known[name], method, good)
        assert reply.status == expected[name], (name, reply.body)
        assert reply.headers["Content-Type"] == "application/problem+json"
        assert rows_of_everything() == before, name

    for name in [name for name in known if expected[name] < 400]:
        reply = ask(known[name], method, entry.good(world))
        assert reply.status == expected[name], (name, reply.body)
        files = {"application/octet-stream"}
        assert reply.headers["Content-Type"] in (files if isinstance(reply.body, bytes) else {"application/json"})


@pytest.mark.parametrize("path", ["runs", "interrupts"])
def test_lists_show_nothing_of_others(path):
    known = callers()
    a_world().wait()
    assert len(known["agent"].get(path)[path]) == 1
    assert len(known["reviewer"].get(path)[path]) == 1
    assert known["other_agent"].get(path)[path] == []
    assert known["stranger"].get(path)[path] == []


def test_a_session_is_no_authority(client):
    client.force_login(builders.a_reviewer())
    assert Caller(client=client).get("agents/me").status == 401


def test_a_key_for_signals_alone_does_no_run_any_work():
    key = create_agent_key(builders.an_agent(), scopes=("signal",))
    caller = Caller(key.text)
    for method, path in (("POST", "runs"), ("GET", "runs"), ("GET", "interrupts"), ("POST", "continuations/claim")):
        assert caller.call(method, path, {} if method == "POST" else None)["code"] == "not_permitted"
    assert caller.get("agents/me").status == 200


def test_foreign_and_missing_look_the_same():
    world, known = a_world(), callers()
    interrupt = world.wait()
    foreign = known["other_agent"].get(f"interrupts/{interrupt}")
    missing = known["other_agent"].get("interrupts/int_00000000000000000000000000")
    for found in (foreign, missing):
        assert found.body.pop("request_id").startswith("req_"), "the only member that tells two requests apart"
    assert (foreign.status, foreign.body) == (missing.status, missing.body)


def test_the_use_of_a_key_is_noted_once_a_minute():
    caller = callers()["agent"]
    caller.get("agents/me")
    first = ApiKey.objects.exclude(last_used_at=None).get()
    caller.get("agents/me")
    assert ApiKey.objects.get(pk=first.pk).last_used_at == first.last_used_at
    ApiKey.objects.filter(pk=first.pk).update(last_used_at=first.last_used_at - timedelta(minutes=2))
    caller.get("agents/me")
    assert ApiKey.objects.get(pk=first.pk).last_used_at >= first.last_used_at
