"""The OpenAPI document is complete, says what the code does, and can be read by people."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

import pytest
from django.contrib.staticfiles import finders
from django.test import Client
from jsonschema import Draft202012Validator
from schemathesis.specs.openapi.definitions import OPENAPI_31

from recovery import exact_json
from recovery.api.app import api
from recovery.api.document import ALWAYS, document
from recovery.api.endpoint import DESCRIBED
from recovery.api.history import LISTS
from recovery.api.problems import HTTP_ONLY
from recovery.api.schemas.commands import DOCUMENTS
from recovery.api.schemas.problems import CODES
from recovery.errors import BY_CODE
from recovery.operations import REGISTRY, commands

CONTRACT = {
    "/definitions": "GET POST",
    "/definitions/{name}/versions/{version}": "GET",
    "/instances": "GET POST",
    "/instances/{instance_id}": "GET",
    "/instances/{instance_id}/history": "GET",
    "/instances/{instance_id}/audit": "GET",
    "/instances/{instance_id}/pause": "POST",
    "/instances/{instance_id}/resume": "POST",
    "/instances/{instance_id}/cancel": "POST",
    "/instances/{instance_id}/signals": "POST",
    "/instances/{instance_id}/recovery": "GET",
    **{f"/instances/{{instance_id}}/recovery/{slug}": "POST" for slug in REGISTRY},
    "/operations/{operation_key}": "GET",
    "/evidence": "POST",
    "/evidence/{evidence_ref}": "GET",
    "/evidence/{evidence_ref}/files/{number}": "GET",
    "/queues/{name}/claim": "POST",
    **{f"/attempts/{{attempt_id}}/{verb}": "POST" for verb in ("heartbeat", "succeed", "fail", "unknown")},
    "/tasks/{task_id}/cancel": "POST",
    **{f"/instances/{{instance_id}}/history/{name}": "GET" for name in LISTS},
}


def operations() -> Iterator[tuple[str, str, Any]]:
    for path, methods in document()["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def test_the_document_has_every_path_and_the_router_no_other() -> None:
    described = {path: " ".join(sorted(methods)).upper() for path, methods in document()["paths"].items()}
    assert described == CONTRACT
    views = [view for router in api._get_bound_routers() for view in router.path_operations.values()]
    assert sum(len(view.operations) for view in views) == len(list(operations())) == len(DESCRIBED)


def test_it_is_served_to_anybody_as_openapi_3_1() -> None:
    response = Client().get("/api/v1/openapi.json")
    assert (response.status_code, response.headers["Content-Type"]) == (200, "application/json")
    served = response.json()
    assert served["openapi"] == "3.1.0"
    assert served["servers"] == [{"url": "/api/v1"}]
    assert served["components"]["securitySchemes"] == {"Bearer": {"type": "http", "scheme": "bearer"}}
    assert all(operation["security"] == [{"Bearer": []}] for _method, _path, operation in operations())


def test_it_is_an_openapi_document_by_the_specifications_own_schema() -> None:
    found = Draft202012Validator(OPENAPI_31).iter_errors(json.loads(exact_json.dumps(document())))
    assert [f"{error.json_path}: {error.message[:200]}" for error in found] == []


def test_every_schema_is_a_schema_and_every_reference_leads_somewhere() -> None:
    components = document()["components"]["schemas"]
    for name, schema in components.items():
        Draft202012Validator.check_schema(schema)
        assert re.fullmatch(r"[A-Za-z]+", name)
    references = set(re.findall(r"'\$ref': '([^']+)'", str(document())))
    assert {reference.rpartition("/")[2] for reference in references} <= set(components)
    used = {reference.rpartition("/")[2] for reference in references}
    assert set(components) - used == set(), "nothing refers to it"


def test_every_example_fits_its_schema_but_for_bodies_that_are_refused() -> None:
    for _method, _path, operation in operations():
        refused = _examples(operation["responses"].get("422", {"content": {}}))
        for response in operation["responses"].values():
            for name, (schema, value) in _examples(response).items():
                assert _problems(schema, value) == [], name
        for name, (schema, value) in _examples(operation.get("requestBody", {"content": {}})).items():
            assert bool(_problems(schema, value)) == (name in refused), name


def _examples(place: Any) -> dict[str, tuple[Any, Any]]:
    return {
        name: (content["schema"], example["value"])
        for content in place["content"].values()
        for name, example in content.get("examples", {}).items()
    }


def _problems(schema: Any, value: Any) -> list[str]:
    validator = Draft202012Validator({**schema, "components": document()["components"]})
    return [error.message for error in validator.iter_errors(json.loads(exact_json.dumps(value)))]


def test_every_operation_says_what_it_answers_and_how_it_refuses() -> None:
    for method, path, operation in operations():
        assert operation["summary"], path
        assert "Needs " in operation["description"], path
        codes = set()
        for status, response in operation["responses"].items():
            assert response["description"], (path, status)
            content = response["content"]
            if int(status) >= 400:
                codes |= set(content["application/problem+json"]["schema"]["allOf"][1]["properties"]["code"]["enum"])
            else:
                is_file = operation["operationId"] == "read_evidence_file"
                assert list(content) == ["application/octet-stream" if is_file else "application/json"]
        assert set(ALWAYS) <= codes
        assert ("UNSUPPORTED_MEDIA_TYPE" in codes) == ("requestBody" in operation) == (method == "POST"), path


def test_every_code_of_the_domain_is_documented_where_it_can_be_answered() -> None:
    said = set()
    for _method, _path, operation in operations():
        for response in operation["responses"].values():
            for content in response["content"].values():
                schema = content["schema"]
                said |= set(schema["allOf"][1]["properties"]["code"]["enum"]) if "allOf" in schema else set()
    assert set(BY_CODE) <= said
    assert set(CODES) == set(BY_CODE) | set(HTTP_ONLY)
    assert document()["components"]["schemas"]["Problem"]["properties"]["code"]["enum"] == sorted(CODES)


def test_the_conflicts_of_the_domain_are_named_by_all_six_operations() -> None:
    conflicts = {code for code, error in BY_CODE.items() if error.status == 409}
    for slug in REGISTRY:
        responses = document()["paths"][f"/instances/{{instance_id}}/recovery/{slug}"]["post"]["responses"]
        schema = responses["409"]["content"]["application/problem+json"]["schema"]
        assert set(schema["allOf"][1]["properties"]["code"]["enum"]) == conflicts


def test_bodies_have_exactly_the_fields_that_are_read() -> None:
    schemas = document()["components"]["schemas"]
    for name, cls in DOCUMENTS.items():
        fields = {field.name: field for field in dataclasses.fields(cls)}
        assert set(schemas[name]["properties"]) == set(fields)
        assert schemas[name]["additionalProperties"] is False
        needed = {field.name for field in fields.values() if field.default is dataclasses.MISSING}
        assert set(schemas[name]["required"]) == needed


def test_every_field_of_a_body_has_its_limits() -> None:
    """Text its length, numbers their range, lists their items; what may be any JSON says so."""
    limited_as_a_tree = {"Node.0.children", "Node.1.children"}
    for name in (*DOCUMENTS, "Definition", "Node"):
        assert set(_unlimited(document()["components"]["schemas"][name], name)) <= limited_as_a_tree


def _unlimited(schema: Any, path: str) -> Iterator[str]:
    if not isinstance(schema, dict) or "$ref" in schema or "enum" in schema or "const" in schema:
        return
    kind = schema.get("type")
    limits = {"string": ("maxLength", "pattern"), "integer": ("maximum",), "array": ("maxItems",)}
    for each in [kind] if isinstance(kind, str) else []:
        if each in limits and not any(word in schema for word in limits[each]):
            yield path
    if kind is None and not {"oneOf", "anyOf", "description"} & set(schema):
        yield path
    for word in ("oneOf", "anyOf"):
        for number, each in enumerate(schema.get(word, ())):
            yield from _unlimited(each, f"{path}.{number}")
    for name, each in schema.get("properties", {}).items():
        yield from _unlimited(each, f"{path}.{name}")
    if "items" in schema:
        yield from _unlimited(schema["items"], f"{path}[]")


EDGES: dict[str, tuple[Any, list[str]]] = {
    "expected_revision": (commands.revision, ["1", "0", "01", "", str(2**63 - 1), str(2**63), "1.0", "9" * 19]),
    "reason": (commands.reason, ["why", " why ", " ", "\n", "", "a\0b", "a" * 1024, "a" * 1025, "界"]),
    "evidence_ref": (
        commands.evidence_ref,
        ["a", "a b", "a\t", "a\u00a0", "a\u3000", "a\u0085", "a" * 512, "a" * 513, ""],
    ),
}


@pytest.mark.rule("G3")
@pytest.mark.parametrize("field", EDGES)
def test_the_document_and_the_check_agree_on_edges(field: str) -> None:
    check, texts = EDGES[field]
    schema = document()["components"]["schemas"]["Continue"]["properties"][field]
    validator = Draft202012Validator({**schema, "components": document()["components"]})
    for text in texts:
        try:
            check(text)
        except commands.Invalid:
            assert not validator.is_valid(text), repr(text)
        else:
            assert validator.is_valid(text), repr(text)


class _Page(HTMLParser):
    """Ids, links, and everything that a strict policy would block or that leads to another host."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.blocked: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.ids += [given["id"]] if "id" in given else []
        self.links += [given[name] for name in ("href", "src") if name in given]
        if tag in ("script", "style", "iframe", "object") or any(n == "style" or n.startswith("on") for n in given):
            self.blocked.append(tag)


def test_the_page_needs_nothing_from_elsewhere_and_every_link_arrives() -> None:
    response = Client().get("/api/v1/docs", headers={"Accept": "text/html"})
    assert response.status_code == 200
    policy = response.headers["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    page = _Page()
    page.feed(response.content.decode())
    assert page.blocked == []
    assert len(page.ids) == len(set(page.ids))
    for link in page.links:
        if link.startswith("#"):
            assert link[1:] in page.ids, link
        elif link.startswith("/static/"):
            assert finders.find(link.removeprefix("/static/")), link
        else:
            assert link == "/api/v1/openapi.json"
    assert set(CODES) <= set(page.ids), "a problem's type leads nowhere"
    assert {operation["operationId"] for _method, _path, operation in operations()} <= set(page.ids)
