"""What a definition pins about content: JSON Schemas, query outcome maps and input templates.

Schemas never fetch anything: a reference outside of its own document is refused when the definition is published.
A check ends: what it may ask and how long it may search are bounded, because a definition is written by anybody.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from types import FunctionType
from typing import Any

import attrs
import jsonschema
import regex
from jsonpointer import EndOfList, JsonPointer, JsonPointerException
from jsonschema import Draft202012Validator, _keywords, _utils
from jsonschema.exceptions import SchemaError, ValidationError
from jsonschema.validators import extend
from referencing import Registry

from recovery import exact_json


def _is_integer(checker: Any, value: Any) -> bool:
    if isinstance(value, Decimal):
        return value == value.to_integral_value()
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(checker: Any, value: Any) -> bool:
    return isinstance(value, int | Decimal) and not isinstance(value, bool)


MAX_STEPS = 3_000_000
"""Keywords that one check may ask: a short schema that refers to itself twice over and over would never end."""

MAX_SEARCHING = 1.0
"""Seconds that one check may search by patterns: `^(a+)+$` doubles its time with each letter."""


@dataclass
class _Left:
    """What a check may still spend."""

    steps: int
    seconds: float


_left: ContextVar[_Left] = ContextVar("left")


class TooManySteps(Exception):
    """The schema asks for more than anybody can wait for."""


def _counted(keyword: Callable[..., Any]) -> Callable[..., Any]:
    def asked(*arguments: Any) -> Any:
        left = _left.get()
        left.steps -= 1
        if left.steps < 0:
            raise TooManySteps
        return keyword(*arguments)

    return asked


class _Search:
    """Stands where the library has `re`: the same answers, in bounded time."""

    @staticmethod
    def search(pattern: str, text: str) -> Any:
        """Raises TimeoutError."""
        left = _left.get()
        if left.seconds <= 0:
            raise TimeoutError
        began = time.perf_counter()
        try:
            return _compiled(pattern).search(text, timeout=left.seconds)
        finally:
            left.seconds -= time.perf_counter() - began


_BRACE = re.compile(r"(\\N\{|\\.)|\{(?!\d*,?\d*\})", re.DOTALL)


@lru_cache(maxsize=1000)
def _compiled(pattern: str) -> Any:
    # What `re` takes for plain braces, as in `a{e}`, would ask `regex` for a fuzzy match.
    return regex.compile(_BRACE.sub(lambda found: found[1] or r"\{", pattern))


def _searching() -> dict[str, Callable[..., Any]]:
    """The library's keywords that search, with `_Search` for its `re`."""
    helpers = {**vars(_utils), "re": _Search}
    for name in ("find_additional_properties", "find_evaluated_property_keys_by_schema"):
        helpers[name] = _counted(FunctionType(getattr(_utils, name).__code__, helpers))
    known = {**vars(_keywords), **{name: helpers[name] for name in helpers if name.startswith("find_")}, "re": _Search}
    names = ("pattern", "patternProperties", "additionalProperties", "unevaluatedProperties")
    return {name: FunctionType(getattr(_keywords, name).__code__, known) for name in names}


def _unique_items(validator: Any, wanted: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    """In one pass: the library compares each element with each other."""
    if wanted and isinstance(value, list) and len({exact_json.canonical(item) for item in value}) < len(value):
        yield ValidationError("the elements are not unique")


_CHECKER = Draft202012Validator.TYPE_CHECKER.redefine_many({"integer": _is_integer, "number": _is_number})
_KEYWORDS = {**Draft202012Validator.VALIDATORS, **_searching(), "uniqueItems": _unique_items}
_Validator = extend(
    Draft202012Validator, {name: _counted(keyword) for name, keyword in _KEYWORDS.items()}, type_checker=_CHECKER
)
# A "$schema" inside would lead the library to a validator that counts nothing. There is one dialect.
_Validator.evolve = lambda self, **changes: attrs.evolve(self, **changes)


def schema_problem(schema: Any) -> str | None:
    """Why a value is no JSON Schema (2020-12) that can be pinned; None when it is one."""
    try:
        _Validator.check_schema(schema)
    except SchemaError as error:
        return f"{error.json_path}: {error.message}"[:500]
    for reference in _references(schema):
        if not reference.startswith("#"):
            return f"$ref {reference[:200]!r} leads outside of the schema"
    return None


def _references(schema: Any) -> list[str]:
    found, stack = [], [schema]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            found += [item[name] for name in ("$ref", "$dynamicRef") if isinstance(item.get(name), str)]
            stack.extend(item.values())
        elif isinstance(item, list):
            stack.extend(item)
    return found


def violation(schema: Any, value: Any) -> str | None:
    """What of a value breaks a schema (path and sentence, at most 500 characters); None when it satisfies it."""
    counting = _left.set(_Left(MAX_STEPS, MAX_SEARCHING))
    try:
        error = jsonschema.exceptions.best_match(_Validator(schema, registry=Registry()).iter_errors(value))
    except Exception as failure:
        # Any: a $ref may lead to what no meta-schema has checked, and a runner must not stumble over it for ever.
        return f"the schema cannot decide on this value: {type(failure).__name__}"
    finally:
        _left.reset(counting)
    return None if error is None else f"{error.json_path}: {error.message}"[:500]


def resolve(pointer: str, document: Any) -> Any:
    """What a JSON Pointer finds (RFC 6901). Raises JsonPointerException, also for `-`, the element after the last."""
    found = JsonPointer(pointer).resolve(document)
    if isinstance(found, EndOfList):
        raise JsonPointerException("there is nothing after the last element")
    return found


def outcome(outcome_map: Mapping[str, Any], payload: Any) -> str | None:
    """What a query's answer means by the pinned map: PENDING, SUCCEEDED or FAILED; None outside of the map (B3)."""
    try:
        found = resolve(outcome_map["pointer"], payload)
    except JsonPointerException:
        return None
    token = exact_json.canonical(found)
    for meaning in ("PENDING", "SUCCEEDED", "FAILED"):
        if token in {exact_json.canonical(value) for value in outcome_map.get(meaning, ())}:
            return meaning
    return None


class Unresolved(ValueError):
    """A template names something that is not there; the message is the reference."""


def fill(template: Any, known: Mapping[str, Any], *, room: int | None = None) -> Any:
    """Replaces each {"$from": "/pointer"} of a template by what the pointer finds in `known`.

    `known`: {"instance": {"input": ...}, "steps": {key: {"output": ...}}}. `room`: bytes for all that is found; a short
    template may name a long value any number of times. Raises Unresolved.
    """
    found: dict[str, Any] = {}
    for pointer, count in Counter(sources(template)).items():
        try:
            found[pointer] = resolve(pointer, known)
        except JsonPointerException:
            raise Unresolved(pointer) from None
        if room is not None and (room := room - count * len(exact_json.utf8(found[pointer]))) < 0:
            raise Unresolved(f"{pointer} is too large")
    return _filled(template, found)


def _filled(template: Any, found: Mapping[str, Any]) -> Any:
    if isinstance(template, dict):
        if set(template) == {"$from"}:
            return found[template["$from"]]
        return {name: _filled(member, found) for name, member in template.items()}
    if isinstance(template, list):
        return [_filled(item, found) for item in template]
    return template


def sources(template: Any) -> list[str]:
    """Every pointer that a template names, for the check at publishing."""
    if isinstance(template, dict):
        if set(template) == {"$from"}:
            return [template["$from"]]
        return [pointer for member in template.values() for pointer in sources(member)]
    if isinstance(template, list):
        return [pointer for item in template for pointer in sources(item)]
    return []
