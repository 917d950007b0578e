"""What a definition pins about content: schemas, outcome maps and templates. Pure functions on exact JSON."""

import re
from decimal import Decimal
from typing import Any

import pytest

from recovery import contracts, exact_json
from recovery.contracts import Unresolved


def _json(text: str) -> Any:
    return exact_json.loads(text)


# Schemas


@pytest.mark.parametrize(
    "schema",
    [
        "true",
        "false",
        "{}",
        '{"type": "object", "properties": {"$ref": {"type": "string"}}}',
        '{"$defs": {"a": {"type": "string"}}, "$ref": "#/$defs/a"}',
        '{"minimum": 0.1, "multipleOf": 0.01}',
        '{"pattern": "^[a-z]+$"}',
    ],
)
def test_a_schema_can_be_pinned(schema: str) -> None:
    assert contracts.schema_problem(_json(schema)) is None


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ("7", "7 is not of type"),
        ("null", "None is not of type"),
        ('{"type": "text"}', "$.type"),
        ('{"required": "name"}', "$.required"),
        ('{"pattern": "("}', "$.pattern"),
        ('{"properties": {"a": {"type": 1}}}', "$.properties.a.type"),
    ],
)
def test_what_is_no_schema_is_refused_with_its_place(schema: str, problem: str) -> None:
    assert problem in str(contracts.schema_problem(_json(schema)))


@pytest.mark.parametrize("keyword", ["$ref", "$dynamicRef"])
@pytest.mark.parametrize("target", ["http://example.org/schema", "other.json", "file:///etc/passwd", "//host/x", ""])
def test_a_reference_never_leads_outside_of_its_schema(keyword: str, target: str) -> None:
    schema = {"allOf": [{"properties": {"a": {keyword: target}}}]}
    assert "leads outside" in str(contracts.schema_problem(schema))


def test_an_id_gives_a_relative_reference_no_way_out() -> None:
    schema = {"$id": "http://example.org/a", "$ref": "b"}
    assert "leads outside" in str(contracts.schema_problem(schema))


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ('{"type": "integer"}', "1.0"),
        ('{"type": "integer"}', "1e400"),
        ('{"type": "number"}', "0.1"),
        ('{"const": 1.0}', "1"),
        ('{"enum": [0.1, 2]}', "1e-1"),
        ('{"multipleOf": 0.01}', "0.07"),
        ('{"minimum": 12345678901234567890.123456789}', "12345678901234567890.123456789"),
        ('{"maximum": 9007199254740993}', "9007199254740993"),
        ("true", "null"),
    ],
)
def test_numbers_are_compared_by_their_exact_values(schema: str, value: str) -> None:
    assert contracts.violation(_json(schema), _json(value)) is None


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ('{"type": "integer"}', "1.5"),
        ('{"type": "integer"}', "true"),
        ('{"type": "number"}', '"1"'),
        ('{"type": "number"}', "false"),
        ('{"enum": [1]}', "true"),
        ('{"const": 0}', "false"),
        ('{"maximum": 9007199254740992}', "9007199254740993"),
        ('{"minimum": 12345678901234567890.123456789}', "12345678901234567890.123456788"),
        ('{"multipleOf": 0.01}', "0.075"),
        ('{"uniqueItems": true}', "[1, 1.0]"),
        ('{"required": ["a"]}', "{}"),
        ("false", "null"),
    ],
)
def test_a_violation_is_a_sentence_with_a_path(schema: str, value: str) -> None:
    assert str(contracts.violation(_json(schema), _json(value))).startswith("$")


def test_the_path_leads_to_the_place_and_the_sentence_is_cut() -> None:
    schema = {"properties": {"a": {"items": {"type": "string"}}}}
    assert str(contracts.violation(schema, {"a": ["x", 1]})).startswith("$.a[1]: 1 is not of type")
    assert len(str(contracts.violation({"type": "integer"}, "x" * 10_000))) == 500


@pytest.mark.parametrize(
    "schema",
    [
        '{"$ref": "#/nowhere"}',
        '{"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}',
        '{"hidden": {"pattern": "("}, "$ref": "#/hidden"}',
        '{"hidden": {"type": "text"}, "$ref": "#/hidden"}',
        '{"hidden": {"minLength": "long"}, "$ref": "#/hidden"}',
        '{"hidden": 7, "$ref": "#/hidden"}',
    ],
)
def test_a_schema_that_cannot_decide_says_so_and_never_raises(schema: str) -> None:
    """The runner that asks would otherwise meet the same failure for ever."""
    assert "cannot decide" in str(contracts.violation(_json(schema), "x"))


def test_a_schema_that_asks_without_end_cannot_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contracts, "MAX_STEPS", 10_000)
    steps = {f"s{n}": {"allOf": [{"$ref": f"#/$defs/s{n + 1}"}] * 2} for n in range(40)}
    schema = {"$ref": "#/$defs/s0", "$defs": {**steps, "s40": True}}
    assert contracts.schema_problem(schema) is None
    assert contracts.violation(schema, 1) == "the schema cannot decide on this value: TooManySteps"


@pytest.mark.parametrize(
    "schema",
    [
        {"pattern": "^(a|aa)+$"},
        {"$schema": "http://json-schema.org/draft-07/schema#", "pattern": "^(a|aa)+$"},
        {"propertyNames": {"pattern": "^(a|aa)+$"}},
        {"patternProperties": {"^(a|aa)+$": True}},
        {"additionalProperties": False, "patternProperties": {"^(a|aa)+$": True}},
        {"unevaluatedProperties": False, "allOf": [{"patternProperties": {"^(a|aa)+$": True}}]},
        {"unevaluatedProperties": False, "patternProperties": {"^(a|aa)+$": True}},
    ],
)
def test_a_pattern_that_searches_without_end_cannot_decide(schema: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contracts, "MAX_SEARCHING", 0.05)
    text = "a" * 60 + "b"
    value = {"text": text} if "pattern" in schema else {text: 1}
    schema = {"properties": {"text": schema}} if "pattern" in schema else schema
    assert contracts.schema_problem(schema) is None
    assert contracts.violation(schema, value) == "the schema cannot decide on this value: TimeoutError"


def test_a_pattern_whose_time_doubles_with_each_letter_is_decided() -> None:
    assert "does not match" in str(contracts.violation({"pattern": "^(a+)+$"}, "a" * 40 + "b"))


def test_all_searches_of_a_check_share_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contracts, "MAX_SEARCHING", 0.05)
    names = {"a" * (40 + number) + "b": 1 for number in range(1000)}
    schema = {"anyOf": [{"patternProperties": {"^(a|aa)+$": True}}] * 50}
    assert contracts.violation(schema, names) == "the schema cannot decide on this value: TimeoutError"


@pytest.mark.parametrize(
    "pattern", ["^a{e}$", "^a{e<=1}$", "^[{e}]$", "^\\{e}$", "^a{1,2}$", "^\\N{LATIN SMALL LETTER A}$"]
)
@pytest.mark.parametrize("text", ["a", "b", "a{e}", "{e}", "aa", "{", "a{e<=1}"])
def test_a_pattern_means_what_it_means_to_python(pattern: str, text: str) -> None:
    assert (contracts.violation({"pattern": pattern}, text) is None) == bool(re.search(pattern, text))


def test_what_no_pattern_names_is_additional_and_unevaluated() -> None:
    named = {"properties": {"a": True}, "patternProperties": {"^x": True}}
    for schema in ({**named, "additionalProperties": False}, {"allOf": [named], "unevaluatedProperties": False}):
        assert contracts.violation(schema, {"a": 1, "x1": 2}) is None
        assert "'b'" in str(contracts.violation(schema, {"a": 1, "x1": 2, "b": 3}))


@pytest.mark.parametrize(("last", "is_unique"), [("{}", True), ('{"a": 7.0}', False)])
def test_many_elements_are_compared_in_one_pass(last: str, is_unique: bool) -> None:
    """Each with each other, as the library does, would be thousands of millions of comparisons."""
    many = [{"a": number} for number in range(60_000)] + [_json(last)]
    assert (contracts.violation({"uniqueItems": True}, many) is None) == is_unique


def test_a_number_beyond_arithmetic_is_no_multiple_and_no_failure() -> None:
    assert "cannot decide" in str(contracts.violation(_json('{"multipleOf": 0.01}'), _json("1e400")))


# Outcome maps (B3)

MAP = {
    "pointer": "/state",
    "PENDING": ["processing", 1, None],
    "SUCCEEDED": ["done", {"code": Decimal("1.0")}],
    "FAILED": ["rejected", True],
}


@pytest.mark.rule("B3")
@pytest.mark.parametrize(
    ("payload", "meaning"),
    [
        ('{"state": "processing"}', "PENDING"),
        ('{"state": 1.0}', "PENDING"),
        ('{"state": null}', "PENDING"),
        ('{"state": "done"}', "SUCCEEDED"),
        ('{"state": {"code": 1}}', "SUCCEEDED"),
        ('{"state": "rejected"}', "FAILED"),
        ('{"state": true}', "FAILED"),
        ('{"state": "Done"}', None),
        ('{"state": "done "}', None),
        ('{"state": "1"}', None),
        ('{"state": 0}', None),
        ('{"state": ["done"]}', None),
        ('{"other": "done"}', None),
        ('"done"', None),
        ("null", None),
        ("[]", None),
    ],
)
def test_an_answer_means_what_the_map_says_or_nothing(payload: str, meaning: str | None) -> None:
    assert contracts.outcome(MAP, _json(payload)) == meaning


@pytest.mark.parametrize(
    ("pointer", "payload", "meaning"),
    [
        ("", '"done"', "SUCCEEDED"),
        ("/a~1b/c~0d", '{"a/b": {"c~d": "done"}}', "SUCCEEDED"),
        ("/0", '["done"]', "SUCCEEDED"),
        ("/", '{"": "done"}', "SUCCEEDED"),
        ("/00", '["done"]', None),
        ("/-", '["done"]', None),
        ("/-", '{"-": "done"}', "SUCCEEDED"),
        ("/0", '"done"', None),
        ("/1", '["done"]', None),
        ("/length", '["done"]', None),
    ],
)
def test_a_pointer_finds_what_rfc_6901_says(pointer: str, payload: str, meaning: str | None) -> None:
    assert contracts.outcome({"pointer": pointer, "SUCCEEDED": ["done"]}, _json(payload)) == meaning


# Templates

KNOWN = {
    "instance": {"input": {"order": "A-1", "amount": Decimal("12.10"), "lines": [1, 2]}},
    "steps": {"pay/in": {"output": {"state": None}}},
}


def test_a_template_is_filled_with_the_very_values() -> None:
    template = {
        "order": {"$from": "/instance/input/order"},
        "amount": {"$from": "/instance/input/amount"},
        "deep": [{"x": {"$from": "/steps/pay~1in/output"}}, {"$from": "/instance/input/lines/1"}],
        "plain": ["$from", {"$from": "/instance/input/order", "other": 1}, None],
    }
    assert contracts.fill(template, KNOWN) == {
        "order": "A-1",
        "amount": Decimal("12.10"),
        "deep": [{"x": {"state": None}}, 2],
        "plain": ["$from", {"$from": "/instance/input/order", "other": 1}, None],
    }


@pytest.mark.parametrize("pointer", ["/instance/input/none", "/steps/other/output", "/instance/input/lines/-", "/x"])
def test_a_template_that_names_what_is_not_there_says_what(pointer: str) -> None:
    with pytest.raises(Unresolved, match=pointer):
        contracts.fill({"a": [{"$from": pointer}]}, KNOWN)


def test_what_was_filled_in_is_not_filled_again() -> None:
    known = {"instance": {"input": {"$from": "/instance/secret"}, "secret": 1}, "steps": {}}
    assert contracts.fill({"$from": "/instance/input"}, known) == {"$from": "/instance/secret"}


def test_every_pointer_of_a_template_is_found() -> None:
    template = {"a": {"$from": "/x"}, "b": [{"c": {"$from": "/y"}}, {"$from": "/z", "d": 1}], "e": "$from"}
    assert contracts.sources(template) == ["/x", "/y"]
