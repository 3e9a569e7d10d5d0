"""/openapi.json describes every path of the table of routes, and none that there is not."""

from __future__ import annotations

import re
from typing import Any

import pytest
from tests.gateway.flow_stage import Stage, a_serve, story

from stoker.domain.errors import ClientError
from stoker.gateway.openapi import openapi_document
from stoker.request.accept.routes import RouteKind, Routes
from stoker_lab.testing.client import compose_request

DOCUMENT = openapi_document()
PATHS: dict[str, dict[str, Any]] = DOCUMENT["paths"]
OPERATIONS = [(method.upper(), path) for path, methods in PATHS.items() for method in methods]
_BY_OPERATIONS = {RouteKind.ADMIN: "/admin/", RouteKind.RESPONSES: "/v1/responses/", RouteKind.CONVERSATIONS: "/v1/c"}


def test_every_route_is_described() -> None:
    for path, methods in Routes().methods().items():
        for method, route in methods.items():
            if route.kind in _BY_OPERATIONS:
                assert any(one.startswith(_BY_OPERATIONS[route.kind]) for one in PATHS)
                continue
            found = [one for one in PATHS if one == path or (path.endswith("/") and one.startswith(path + "{"))]
            assert found, path
            assert method.lower() in PATHS[found[0]], (method, path)


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_what_is_described_has_a_route(method: str, path: str) -> None:
    try:
        Routes().match(method, re.sub(r"\{\w+\}", "x", path))
    except ClientError as error:
        pytest.fail(error.message)


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_an_operation_says_what_it_takes_and_answers(method: str, path: str) -> None:
    operation = PATHS[path][method.lower()]
    assert operation["summary"].endswith(".")
    assert {"200", "default"} <= operation["responses"].keys()
    named = {one["name"] for one in operation.get("parameters", ()) if one["in"] == "path"}
    assert named == set(re.findall(r"\{(\w+)\}", path))
    assert method != "GET" or "requestBody" not in operation


def test_references_lead_somewhere_and_names_are_kept_short() -> None:
    text = str(DOCUMENT)
    for name in re.findall(r"'\$ref': '#/components/schemas/(\w+)'", text):
        assert name in DOCUMENT["components"]["schemas"]
    assert text.count("$ref") == text.count("'$ref': '#/components/schemas/")


@story(a_serve("a-model-of-ours"))
async def test_it_needs_no_key_and_says_nothing_of_this_stoker(stage: Stage) -> None:
    client = await stage.client()
    await client.send(compose_request("GET", "/openapi.json"))
    reply = await client.reply()
    assert (reply.status, reply.header("content-type")) == (200, "application/json")
    assert reply.json() == DOCUMENT
    assert b"a-model-of-ours" not in reply.body
