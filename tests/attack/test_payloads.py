"""The payload corpus through every route that takes a body: a 4xx problem with its own code, nothing stored, never a 500."""

from __future__ import annotations

import gzip
import os

import pytest

from ledger.exact_json import dumps
from tests.api.calls import Caller, Reply
from tests.attack.counts import rows_of_everything
from tests.attack.payloads import MIB, RAW, VALUES, objects, places, pointer, replaced
from tests.attack.routes import ROUTES, Good, World, a_world, taking_bodies

pytestmark = pytest.mark.django_db

#: Every value in every place takes minutes; in the short form each place gets every fifth, in turn.
EVERY_VALUE = os.environ.get("REVIEWQUEUE_LONG") == "1"

every_route = pytest.mark.parametrize("route", taking_bodies(), ids=" ".join)


def caller_for(route: tuple[str, str], world: World) -> Caller:
    """Return the caller with the most permissions on this route."""
    return world.reviewer if ROUTES[route].agent == 403 else world.worker


def send(caller: Caller, method: str, good: Good, raw: bytes, **headers: str) -> Reply:
    """Return the reply; that of a batch is the problem of its only item, if the item was refused."""
    reply = caller.call(method, good.path, raw=raw, **{**good.headers, **headers})
    if reply.status == 207 and good.path.endswith("/batch"):
        [item] = next(iter(reply.body.values()))
        if "problem" in item:
            return Reply(item["status"], item["problem"], {"Content-Type": "application/problem+json"})
    return reply


def judge(reply: Reply, what: object) -> None:
    assert 400 <= reply.status < 500, (what, reply.status, reply.body)
    assert reply.headers["Content-Type"] == "application/problem+json", what
    assert reply["code"]
    assert reply["detail"]


@every_route
def test_a_hostile_body_is_refused_by_validation(route):
    world = a_world()
    good, caller = ROUTES[route].good(world), caller_for(route, world)
    before = rows_of_everything()
    for name, (raw, code, status) in RAW.items():
        reply = send(caller, route[0], good, raw)
        judge(reply, name)
        if route[1].endswith("/outcome") and route[0] == "PUT":
            continue  # refused for the key in its address, whatever the body is
        assert (reply["code"], reply.status) == (code, status), (name, reply.body)
        if code == "payload_invalid":
            assert all(problem["pointer"].startswith(("/", "")) for problem in reply["errors"]), name
            assert reply["errors"], name
        else:
            assert reply["limit"] == MIB
    assert rows_of_everything() == before


@every_route
def test_a_body_in_another_form_is_refused(route):
    world = a_world()
    good, caller = ROUTES[route].good(world), caller_for(route, world)
    before = rows_of_everything()
    body = dumps(good.body).encode()
    for kind in (
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "text/html",
        "x",
    ):
        assert send(caller, route[0], good, body, Content_Type=kind).status == 415
    assert send(caller, route[0], good, body, Content_Type="application/json; charset=utf-16").status == 415
    assert send(caller, route[0], good, body, Transfer_Encoding="chunked").status == 411
    for encoding in ("gzip", "deflate", "br", "gzip, identity"):
        reply = send(caller, route[0], good, gzip.compress(body), Content_Encoding=encoding)
        assert (reply.status, reply["code"], reply["errors"][0]["pointer"]) == (415, "payload_invalid", "")
    assert rows_of_everything() == before


@every_route
def test_an_unknown_member_is_refused_with_its_pointer(route):
    world = a_world()
    good, caller = ROUTES[route].good(world), caller_for(route, world)
    before, known = rows_of_everything(), set(places(good.body))
    for path in objects(good.body):
        for name in ("sttus", "decided_by", "a/b~c", "", "id", "__class__"):
            if (*path, name) in known:
                continue
            spoilt = replaced(good.body, (*path, name), "x")
            reply = send(caller, route[0], good, dumps(spoilt).encode())
            judge(reply, (path, name))
            if reply["code"] != "key_invalid":
                assert pointer((*path, name)) in [problem["pointer"] for problem in reply["errors"]], reply.body
    assert rows_of_everything() == before


@every_route
def test_no_value_in_any_place_is_a_server_error(route):
    world = a_world()
    good, caller = ROUTES[route].good(world), caller_for(route, world)
    before = rows_of_everything()
    for turn, path in enumerate(list(places(good.body))):
        for value in VALUES if EVERY_VALUE else VALUES[turn % 5 :: 5]:
            reply = send(caller, route[0], good, dumps(replaced(good.body, path, value)).encode())
            assert reply.status < 500, (path, value, reply.body)
            if reply.status < 400:
                good = ROUTES[route].good(world)
                before = rows_of_everything()
                continue
            judge(reply, (path, value))
            if reply.status in (413, 415, 422) and reply["code"] != "input_invalid":
                assert rows_of_everything() == before, (path, value)
            else:
                before = rows_of_everything()


@every_route
def test_a_left_out_member_is_missed_or_not_needed(route):
    world = a_world()
    good, caller = ROUTES[route].good(world), caller_for(route, world)
    for path in list(places(good.body)):
        if isinstance(path[-1], int):
            continue
        spoilt = replaced(good.body, path, None)
        inside = spoilt
        for name in path[:-1]:
            inside = inside[name]
        del inside[path[-1]]
        reply = send(caller, route[0], good, dumps(spoilt).encode())
        assert reply.status < 500, (path, reply.body)
        if reply.status < 400:
            good = ROUTES[route].good(world)


HEADERS = {
    "Run_Lease": ["", "x", "lse_1_" + "0" * 64, "lse_99999999999_" + "0" * 64, "a\tb", "é", "x" * 5000],
    "Idempotency_Key": ["a b", "é", "x" * 201, "a/b", "a\tb"],
    "Content_Length": ["x", "-1", "99999999999999999999", "1.5"],
}


@every_route
def test_hostile_headers_are_refused(route):
    world = a_world()
    good, caller = ROUTES[route].good(world), caller_for(route, world)
    body = dumps(good.body).encode()
    for name, values in HEADERS.items():
        for value in values:
            if name == "Run_Lease" and name not in good.headers:
                continue
            reply = send(caller, route[0], good, body, **{name: value})
            assert reply.status < 500, (name, value, reply.body)
            if reply.status < 400:
                good = ROUTES[route].good(world)
                body = dumps(good.body).encode()


QUERIES = ["?x=1", "?limit=0", "?limit=101", "?limit=abc", "?limit=٣", "?next=!", "?next=cnE5OTk", "?next=" + "A" * 600]
QUERIES += ["?status=%00", "?status=nope", "?wait=31", "?wait=-1", "?wait=1e1", "?limit=1&limit=2", "?queue=%ed%a0%bd"]
QUERIES += ["?agent=a%0ab", "?reason='%22__", "?%00=1", "?status__in=x", "?next=cnE5OTk5OTk5OTk5OTk5OTk5OTk5OTk"]


@pytest.mark.parametrize("route", [route for route in ROUTES if route[0] == "GET"], ids=" ".join)
def test_hostile_queries_are_refused(route):
    world = a_world()
    good = ROUTES[route].good(world)
    caller = world.reviewer if ROUTES[route].agent == 403 else world.worker
    for query in QUERIES:
        reply = caller.get(good.path + query)
        assert reply.status < 500, (query, reply.body)


PATHS = [
    "runs/run_%00",
    "runs/run_é",
    "runs/RUN_1",
    "interrupts/int_'--",
    "runs/run_0/checkpoints/99999999999999999999",
]
PATHS += [
    "runs/run_" + "0" * 500,
    "agents/%00/halt",
    "agents/a%0ab/halt",
    "runs/run_0/effects/%00",
    "continuations/x/claim",
]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH"])
def test_hostile_addresses_are_not_found(path, method):
    world = a_world()
    for caller in (world.worker, world.reviewer):
        judge(caller.call(method, path, {}, Run_Lease="x"), path)


@pytest.mark.parametrize("key", ["a%2Foutcome", "a%2Fb", "a%20b", "%C3%A9", "a%3Fb", "x" * 201, "a%00b"])
def test_an_effect_key_in_the_address_reaches_no_other_view(key):
    world = a_world()
    run, headers = world.run()
    reply = world.worker.put(f"runs/{run}/effects/{key}", {"name": "order", "arguments": {}}, **headers)
    assert (reply.status, reply["code"]) == (422, "key_invalid")
    assert world.worker.get(f"runs/{run}/effects")["effects"] == []
