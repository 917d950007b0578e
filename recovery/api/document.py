"""The OpenAPI 3.1 document: paths from the router, everything else from the code that checks and renders."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from django.utils import translation

from recovery import exact_json
from recovery.api.answers import MEDIA_TYPE
from recovery.api.app import api
from recovery.api.endpoint import DESCRIBED, Described
from recovery.api.examples import examples
from recovery.api.schemas import commands, definition, shapes
from recovery.api.schemas import problems as problem_schemas
from recovery.api.schemas.words import KEY, Schema, ref

ROOT = "/api/v1"
ALWAYS = ("UNAUTHENTICATED", "NOT_ACCEPTABLE", "VALIDATION_FAILED", "INTERNAL_ERROR", "BUSY")
"""Codes that every operation can answer."""


@lru_cache(maxsize=1)
def document() -> dict[str, Any]:
    """The whole document; made once, for it changes with the code only."""
    with translation.override("en"):
        made: dict[str, Any] = dict(api.get_openapi_schema(path_prefix=""))
        made["servers"] = [{"url": ROOT}]
        made["components"]["schemas"] |= components()
        for path in made["paths"].values():
            for operation in path.values():
                _describe(operation, DESCRIBED[operation["operationId"]])
        # Through JSON: keys become texts, as they are in the served document.
        return exact_json.loads(exact_json.dumps(made))


def components() -> dict[str, Schema]:
    return {
        **shapes.components(),
        **commands.components(),
        **definition.COMPONENTS,
        "Problem": problem_schemas.PROBLEM,
    }


def _describe(operation: dict[str, Any], described: Described) -> None:
    recorded = examples(operation["operationId"])
    codes = (*ALWAYS, *(("UNSUPPORTED_MEDIA_TYPE",) if described.body else ()), *described.codes)
    responses = problem_schemas.by_status(codes)
    takes_json = described.body is not None and described.media_type == MEDIA_TYPE
    if not takes_json:
        responses.pop(413)
    answered = MEDIA_TYPE if described.body else described.media_type
    for status, schema in described.answers.items():
        content: dict[str, Any] = {"schema": schema}
        responses[status] = {"description": _SUCCESS[status], "content": {answered: content}}
        if described.key:
            responses[status]["headers"] = _REPLAY
    for example in recorded:
        content = next(iter(responses[example.status]["content"].values()))
        content.setdefault("examples", {})[example.name] = {"value": example.answer}
    operation["responses"] = {status: responses[status] for status in sorted(responses)}
    if described.key:
        operation["parameters"].append(_key(described.key, operation["parameters"]))
    if described.body:
        content = {"schema": ref(described.body)}
        if recorded:
            content["examples"] = {example.name: {"value": example.body} for example in recorded}
        operation["requestBody"] = {"required": True, "content": {described.media_type: content}}
    for parameter in operation["parameters"]:
        name = parameter["name"]
        parameter["schema"] = _plain(parameter["schema"])
        if "description" in parameter["schema"]:
            parameter["description"] = parameter["schema"].pop("description")
        given = {each.name: {"value": each.given[name]} for each in recorded if name in each.given}
        if given:
            parameter["examples"] = given


def _plain(schema: Schema) -> Schema:
    """A parameter's schema without what a query cannot say: it is absent, never null."""
    kept = next((each for each in schema.get("anyOf", ()) if each != {"type": "null"}), schema)
    return {name: value for name, value in kept.items() if name != "title"}


_SUCCESS = {200: "Done.", 201: "Made.", 202: "Accepted: kept, and looked at later."}
_REPLAY = {
    "Idempotent-Replay": {
        "description": "true: the first answer to this key, byte for byte.",
        "schema": {"type": "string", "enum": ["true"]},
    }
}


def _key(need: str, parameters: list[dict[str, Any]]) -> dict[str, Any]:
    can_be_tried = any(parameter["name"] == "dry_run" for parameter in parameters)
    told = "The operation key, visible ASCII: the same key with the same command acts once."
    return {
        "in": "header",
        "name": "Idempotency-Key",
        "required": need == "required",
        "schema": KEY,
        "description": f"{told} A dry run needs none." if can_be_tried else told,
    }
