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
    # Describe a new route with the decorator `Operation` at the method of its view.
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
def test_it_is_read_without_a_key_as_json_or_yaml(client):
    reply = client.get("/api/v1/schema")
    assert (reply.headers["Content-Type"], reply.json()) == ("application/json", the_document())
    reply = client.get("/api/v1/schema?format=yaml", headers={"Authorization": "Bearer rq_of_nobody"})
    assert yaml.safe_load(reply.content) == the_document()
    assert client.get("/api/v1/schema?format=html").json()["code"] == "payload_invalid"


@pytest.mark.django_db
def test_people_read_it_without_signing_in(client):
    page = client.get("/api/docs/")
    assert page.status_code == 200
    assert "api-docs.js" in page.text


def test_a_member_with_a_default_can_be_left_out_by_generated_clients():
    # Generators such as openapi-typescript make a member that has a `default` one that every request must have.
    for name, schema in the_document()["components"]["schemas"].items():
        for member, shown in schema.get("properties", {}).items():
            assert "default" not in shown, (name, member)


def test_a_constant_has_a_type():
    def constants(schema: Any) -> list[Any]:
        inner = schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ()
        found = [it for part in inner for it in constants(part)]
        return [*found, schema] if isinstance(schema, dict) and "const" in schema else found

    assert [it for it in constants(the_document()["components"]) if "type" not in it] == []


def test_every_tag_is_declared():
    used = {it["tags"][0] for methods in the_document()["paths"].values() for it in methods.values()}
    assert used == {tag["name"] for tag in the_document()["tags"]}
