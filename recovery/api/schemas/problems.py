"""Schemas of refusals: one shape, with the codes that each status can have."""

from __future__ import annotations

from collections.abc import Iterable

from recovery.api.problems import HTTP_ONLY, MEDIA_TYPE
from recovery.api.schemas.words import Schema, listed, nullable, ref, shape, text, whole
from recovery.errors import BY_CODE, DomainError

CODES: dict[str, type[DomainError]] = {**BY_CODE, **HTTP_ONLY}
"""Every code that an answer can have."""

PROBLEM = shape(
    {
        "type": text(128, description="Where the code is explained."),
        "title": {"type": "string"},
        "status": whole(400, 599),
        "detail": {"type": "string", "description": "What was found, and what to do next."},
        "code": {"type": "string", "enum": sorted(CODES), "description": "Stable; the one to branch on."},
        "rule": nullable(text(16, description="Number of the rule that refused.")),
        "errors": {
            "type": "object",
            "additionalProperties": listed({"type": "string"}),
            "description": "Sentences for each field, by its name or path; body: the body as a whole.",
        },
        "current": {"type": "object", "description": "What the revisions are now."},
        "findings": listed(ref("Finding"), description="Every rule that fails, in the order of refusal."),
    },
    optional=("errors", "current", "findings"),
    description="RFC 9457.",
)

_HEADERS: dict[int, Schema] = {
    401: {"WWW-Authenticate": {"description": "Bearer.", "schema": {"type": "string"}}},
    503: {"Retry-After": {"description": "Seconds.", "schema": {"type": "integer"}}},
}


def by_status(codes: Iterable[str]) -> dict[int, Schema]:
    """The responses of an operation that may be refused with these codes."""
    responses: dict[int, Schema] = {}
    for status, group in sorted(_grouped(codes).items()):
        titles = "; ".join(f"{code}: {CODES[code].title}" for code in group)
        schema = {"allOf": [ref("Problem"), {"properties": {"code": {"enum": group}}}]}
        responses[status] = {"description": f"{titles}.", "content": {MEDIA_TYPE: {"schema": schema}}}
        if status in _HEADERS:
            responses[status]["headers"] = _HEADERS[status]
    return responses


def _grouped(codes: Iterable[str]) -> dict[int, list[str]]:
    grouped: dict[int, list[str]] = {}
    for code in codes:
        grouped.setdefault(CODES[code].status, []).append(code)
        if code == "VALIDATION_FAILED":
            grouped.setdefault(413, []).append(code)
    return grouped
