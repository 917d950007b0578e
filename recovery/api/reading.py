"""The document as a page shows it: every schema and every code has an anchor, and every mention links to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import simplejson
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from recovery.api.schemas.problems import CODES

_EMPTY = mark_safe("")


@dataclass(frozen=True)
class Field:
    """A parameter or a member: its name, whether it must be there, and what it may be."""

    name: str
    is_required: bool
    where: str
    kind: SafeString
    description: str


@dataclass(frozen=True)
class Response:
    status: str
    description: str
    kind: SafeString
    codes: tuple[str, ...]


@dataclass(frozen=True)
class Exchange:
    """One recorded example."""

    name: str
    request: str
    status: str
    answer: str


@dataclass(frozen=True)
class Operation:
    method: str
    path: str
    content: Mapping[str, Any]

    @property
    def id(self) -> str:
        return self.content["operationId"]

    @property
    def summary(self) -> str:
        return self.content["summary"]

    @property
    def description(self) -> SafeString:
        return marked(self.content.get("description", ""))

    @property
    def parameters(self) -> list[Field]:
        return [
            Field(each["name"], each["required"], each["in"], kind(each["schema"]), each.get("description", ""))
            for each in self.content["parameters"]
        ]

    @property
    def body(self) -> SafeString:
        content = self.content.get("requestBody")
        return kind(_content(content)["schema"]) if content else _EMPTY

    @property
    def responses(self) -> Iterator[Response]:
        for status, each in self.content["responses"].items():
            schema = _content(each)["schema"]
            codes = schema["allOf"][1]["properties"]["code"]["enum"] if "allOf" in schema else ()
            description = "" if codes else each["description"]
            yield Response(status, description, _EMPTY if codes else kind(schema), tuple(codes))

    @property
    def examples(self) -> Iterator[Exchange]:
        bodies = _content(self.content["requestBody"]).get("examples", {}) if "requestBody" in self.content else {}
        for status, each in self.content["responses"].items():
            for name, answer in _content(each).get("examples", {}).items():
                yield Exchange(name, self._request(name, bodies), status, _pretty(answer["value"]))

    def _request(self, name: str, bodies: Mapping[str, Any]) -> str:
        given = {
            (each["in"], each["name"]): each["examples"][name]["value"]
            for each in self.content["parameters"]
            if name in each.get("examples", {})
        }
        path = self.path.format(**{key: value for (where, key), value in given.items() if where == "path"})
        query = "&".join(f"{key}={value}" for (where, key), value in given.items() if where == "query")
        lines = [f"{self.method} {path}{f'?{query}' if query else ''}"]
        lines += [f"{key}: {value}" for (where, key), value in given.items() if where == "header"]
        if name in bodies:
            lines += ["", _pretty(bodies[name]["value"])]
        return "\n".join(lines)


@dataclass(frozen=True)
class Component:
    name: str
    schema: Mapping[str, Any]

    @property
    def description(self) -> str:
        return self.schema.get("description", "")

    @property
    def variants(self) -> list[Mapping[str, Any]]:
        """The objects that it may be."""
        return [each for each in self.schema.get("oneOf", [self.schema]) if "properties" in each]

    @property
    def tables(self) -> list[list[Field]]:
        return [
            [
                Field(name, name in each.get("required", ()), "", kind(schema), schema.get("description", ""))
                for name, schema in each["properties"].items()
            ]
            for each in self.variants
        ]

    @property
    def kind(self) -> SafeString:
        """What it is, where it is no object of its own."""
        return _EMPTY if self.variants else kind(self.schema)


class Reading:
    """The whole document."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.info = document["info"]
        self._paths = document["paths"]
        self._schemas = document["components"]["schemas"]

    @cached_property
    def topics(self) -> dict[str, list[Operation]]:
        found: dict[str, list[Operation]] = {}
        for path, methods in self._paths.items():
            for method, content in methods.items():
                found.setdefault(content["tags"][0], []).append(Operation(method.upper(), path, content))
        return found

    @property
    def components(self) -> list[Component]:
        return [Component(name, self._schemas[name]) for name in sorted(self._schemas)]

    @property
    def codes(self) -> list[dict[str, Any]]:
        found = sorted(CODES.values(), key=lambda error: (error.status, error.code))
        return [{"code": error.code, "status": error.status, "title": error.title} for error in found]


def marked(text: str) -> SafeString:
    """The one mark of CommonMark that the document uses: `code`."""
    parts = enumerate(text.split("`"))
    return format_html_join("", "{}", ((format_html("<code>{}</code>", part) if n % 2 else part,) for n, part in parts))


def _content(response: Mapping[str, Any]) -> Any:
    return next(iter(response["content"].values()))


def _pretty(value: Any) -> str:
    return simplejson.dumps(value, use_decimal=True, indent=2, ensure_ascii=False)


def kind(schema: Mapping[str, Any]) -> SafeString:
    """A schema in a few words, with its limits; named schemas are links."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return format_html('<a href="#schema-{}">{}</a>', name, name)
    for word in ("oneOf", "anyOf"):
        if word in schema:
            return format_html_join(" or ", "{}", ((kind(each),) for each in schema[word]))
    if "const" in schema:
        return format_html("<code>{}</code>", simplejson.dumps(schema["const"]))
    if "enum" in schema:
        return format_html_join(" · ", "<code>{}</code>", ((simplejson.dumps(each),) for each in schema["enum"]))
    if schema.get("type") == "array":
        return format_html("list of {}{}", kind(schema["items"]), _limits(schema))
    if schema.get("type") == "object" and "properties" in schema:
        members = (
            (name, "" if name in schema.get("required", ()) else "?", kind(member))
            for name, member in schema["properties"].items()
        )
        return format_html("{{ {} }}", format_html_join(", ", "<code>{}{}</code>: {}", members))
    return format_html("{}{}", _type(schema), _limits(schema))


def _type(schema: Mapping[str, Any]) -> str:
    given = schema.get("type", "any JSON")
    words = given if isinstance(given, list) else [given]
    return " or ".join(words) + (", RFC 3339" if schema.get("format") == "date-time" else "")


def _limits(schema: Mapping[str, Any]) -> str:
    names = (("minLength", "maxLength", "characters"), ("minimum", "maximum", ""), ("minItems", "maxItems", "items"))
    said = ""
    for least, most, unit in names:
        if least in schema or most in schema:
            numbers = f"{schema.get(least, 0)} to {schema[most]}" if most in schema else f"from {schema[least]}"
            said += f", {numbers} {unit}".rstrip()
    if "pattern" in schema and "format" not in schema and len(schema["pattern"]) < 60:
        said += f", {schema['pattern']}"
    return said
