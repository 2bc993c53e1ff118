"""The OpenAPI document: valid, whole, and true. That replies are what it says is held in every test that calls the API."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest
import yaml
from drf_spectacular.validation import validate_schema

from ledger.exact_json import dumps, parse
from reviewqueue.api.openapi.document import document, operations
from reviewqueue.api.problems import PROBLEMS
from reviewqueue.api.serializers.fields import validated
from tests import builders
from tests.api.calls import a_reviewer_client, a_worker
from tests.attack.routes import ROUTES, a_world, routes_of_the_map, taking_bodies

#: Addresses that only refuse: an effect's key with a slash in it.
ONLY_REFUSING = {("PUT", "runs/{run_id}/effects/{key}/outcome")}


def as_documented(route: tuple[str, str]) -> tuple[str, str]:
    method, address = route
    parts = [f"{{{part[1:-1].rpartition(':')[2]}}}" if part[0] == "<" else part for part in address.split("/")]
    return method, "/".join(parts)


def the_document() -> dict[str, Any]:
    return json.loads(dumps(document()))


def test_it_is_an_openapi_document():
    validate_schema(the_document())


def test_every_route_is_in_it():
    # Describe a new route with the decorator `describe` beside the method of its view.
    assert {as_documented(route) for route in routes_of_the_map()} - ONLY_REFUSING == set(operations())
    assert len({operation.id for operation in operations().values()}) == len(operations())


def test_every_member_says_what_it_means():
    for name, schema in the_document()["components"]["schemas"].items():
        for member, shown in schema.get("properties", {}).items():
            assert shown.get("description"), (name, member)


def test_every_code_belongs_to_some_operation():
    met_by_none = {"method_not_allowed", "run_active"} & set(PROBLEMS)
    told = {code for operation in operations().values() for code in operation.codes}
    assert told <= set(PROBLEMS)
    # Outcomes are resolved in the reconciliation admin, not by API.
    assert set(PROBLEMS) - told - met_by_none <= {"already_settled", "correlation_taken"}


@pytest.mark.parametrize("operation", [it for it in operations().values() if it.example], ids=lambda it: it.id)
def test_an_example_of_a_request_is_taken(operation):
    body = parse(operation.example)
    assert validated(operation.request, body)


@pytest.mark.parametrize("route", [key for key, it in operations().items() if it.example_response], ids=" ".join)
def test_an_example_of_a_reply_fits_its_schema(route):
    method, address = route
    whole = the_document()
    for reply in whole["paths"][f"/api/v1/{address}"][method.lower()]["responses"].values():
        content = reply["content"].get("application/json", {})
        if "example" in content:
            judge = jsonschema_rs.Draft202012Validator({**content["schema"], "components": whole["components"]})
            assert not [error.message for error in judge.iter_errors(content["example"])]


@pytest.mark.django_db
@pytest.mark.parametrize("route", taking_bodies(), ids=" ".join)
def test_a_good_request_fits_the_schema_of_its_body(route):
    method, address = as_documented(route)
    if (method, address) in ONLY_REFUSING:
        return
    whole = the_document()
    content = whole["paths"][f"/api/v1/{address}"][method.lower()]["requestBody"]["content"]["application/json"]
    judge = jsonschema_rs.Draft202012Validator({**content["schema"], "components": whole["components"]})
    good = ROUTES[route].good(a_world())
    assert not [f"{list(it.instance_path)} {it.message}" for it in judge.iter_errors(json.loads(dumps(good.body)))]


@pytest.mark.django_db
def test_any_key_reads_it_as_json_or_yaml():
    assert a_worker().get("schema")["openapi"] == "3.1.1"
    reply = a_reviewer_client().client.get(
        "/api/v1/schema?format=yaml", headers={"Authorization": f"Bearer {a_reviewer_client().key}"}
    )
    assert yaml.safe_load(reply.content) == the_document()
    assert a_worker().get("schema?format=html")["code"] == "payload_invalid"


@pytest.mark.django_db
def test_people_read_it_behind_the_sign_in(client):
    for path in ("/api/docs/", "/api/docs/openapi.json"):
        assert client.get(path).headers["Location"].startswith("/account/login/")
    client.force_login(builders.a_reviewer())
    assert client.get("/api/docs/openapi.json").json()["openapi"] == "3.1.1"
    assert "api-docs.js" in client.get("/api/docs/").text
