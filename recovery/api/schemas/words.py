"""The small words of the schemas. Patterns are ECMAScript regular expressions, as JSON Schema asks for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Schema = dict[str, Any]


def ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def text(limit: int, least: int = 0, **more: Any) -> Schema:
    return {"type": "string", **({"minLength": least} if least else {}), "maxLength": limit, **more}


def whole(least: int, most: int, **more: Any) -> Schema:
    return {"type": "integer", "minimum": least, "maximum": most, **more}


def listed(items: Schema, **more: Any) -> Schema:
    return {"type": "array", "items": items, **more}


def shape(
    properties: Mapping[str, Schema], *, optional: tuple[str, ...] = (), closed: bool = False, **more: Any
) -> Schema:
    """An object. `optional`: members that may be absent. `closed`: others are refused."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": [name for name in properties if name not in optional],
        **({"additionalProperties": False} if closed else {}),
        **more,
    }


def nullable(schema: Schema) -> Schema:
    if "$ref" in schema:
        return {"anyOf": [schema, {"type": "null"}]}
    enum = {"enum": [*schema["enum"], None]} if "enum" in schema else {}
    return {**schema, "type": [schema["type"], "null"], **enum}


def page(items: Schema) -> Schema:
    return shape({"items": listed(items, maxItems=200), "next_cursor": nullable(CURSOR)})


def up_to(most: int) -> str:
    """A pattern of the decimal numbers 1..most, without signs and leading zeros; no client has to round them."""
    digits = str(most)
    shorter = f"[1-9][0-9]{{0,{len(digits) - 2}}}"
    same_length = [
        f"{digits[:place]}{_range(1 if place == 0 else 0, int(digit) - 1)}"
        + (f"[0-9]{{{len(digits) - place - 1}}}" if place < len(digits) - 1 else "")
        for place, digit in enumerate(digits)
        if int(digit) > (1 if place == 0 else 0)
    ]
    return f"^({'|'.join([shorter, *same_length, digits])})$"


def _range(first: int, last: int) -> str:
    return str(first) if first == last else f"[{first}-{last}]"


_SPACE = r"\s\u001c-\u001f\u0085"
_CONTROL = r"\u0000-\u001f\u007f-\u009f"

ANY: Schema = {"description": "Any JSON; numbers keep their exact value."}
BYTES: Schema = {"type": "string", "contentMediaType": "application/octet-stream"}
BOOL: Schema = {"type": "boolean"}
TIME: Schema = {
    "type": "string",
    "format": "date-time",
    "pattern": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z$",
    "description": "UTC, with microseconds.",
}
ID: Schema = text(32, 1)
CURSOR: Schema = text(1024, 1, description="Where the next page starts; opaque.")
REVISION: Schema = {"type": "string", "pattern": up_to(2**63 - 1), "description": "A decimal string, never a number."}

KEY: Schema = {"type": "string", "pattern": r"^[!-~]{1,128}$"}
REASON: Schema = text(
    1024, 1, pattern=rf"^[^\u0000]*[^{_SPACE}\u0000][^\u0000]*$", description="Why. Stored as sent, not trimmed."
)
EVIDENCE_REF: Schema = text(
    512,
    1,
    pattern=rf"^[^{_SPACE}{_CONTROL}\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+$",
    description="Where the evidence is kept. Never opened by submitting it.",
)


def name(limit: int = 128) -> Schema:
    """An identifier: no white space, no control characters."""
    return {**EVIDENCE_REF, "maxLength": limit, "description": "No white space, no control characters."}


def label(limit: int = 191) -> Schema:
    """A name or key that people choose: blanks count, control characters and white space alone are refused."""
    return text(limit, 1, pattern=rf"^[^{_CONTROL}]*[^{_SPACE}{_CONTROL}][^{_CONTROL}]*$")
