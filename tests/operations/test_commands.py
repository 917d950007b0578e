"""G3 and G13: what a command may say. Every field of every command, and every way it can be wrong."""

from __future__ import annotations

from typing import Any

import pytest

from recovery import exact_json, operations, receipts
from recovery.errors import ValidationFailed

ID = "0" * 32
STEP = {"step_key": "pay", "activation_id": ID, "expected_step_revision": "3"}
BASE = {"expected_revision": "31", "reason": "Checked with the bank.", "evidence_ref": "ticket:4711"}
COMMANDS: dict[str, dict[str, Any]] = {
    "review-task": BASE
    | {
        "task_id": ID,
        "expected_task_revision": "2",
        "execution_settled": True,
        "outcome": "FAILED",
        "result": {"a": 1},
    },
    "resolve-step": BASE | STEP | {"execution_settled": True, "outcome": "SUCCEEDED", "output": None},
    "continue-poll": BASE | STEP | {"pending_confirmed": True},
    "rearm-wait": BASE | STEP | {"wait_verified": True},
    "continue": BASE | {"review_resolved": True},
    "retry-step": BASE | STEP | {"safe_to_retry": True},
}
FIELDS = [(slug, field) for slug, command in COMMANDS.items() for field in command]
REVISIONS = [(slug, field) for slug, field in FIELDS if field.endswith("revision")]
STATEMENTS = [(slug, operations.REGISTRY[slug].statement) for slug in COMMANDS]
TEXTS = [
    (slug, field)
    for slug, field in FIELDS
    if field in ("reason", "evidence_ref", "step_key", "activation_id", "task_id")
]
NAMES = [(slug, field) for slug, field in TEXTS if field != "reason"]


def problems(slug: str, command: Any) -> dict[str, list[str]]:
    """The wrong fields of a command, each with its sentences."""
    with pytest.raises(ValidationFailed) as caught:
        operations.REGISTRY[slug].command.parse(command)
    assert caught.value.status == 422
    return caught.value.fields


@pytest.mark.rule("G3")
@pytest.mark.parametrize("slug", COMMANDS)
def test_a_complete_command_is_taken_as_it_was_sent(slug: str) -> None:
    assert operations.REGISTRY[slug].command.parse(COMMANDS[slug]).content() == COMMANDS[slug]


@pytest.mark.rule("G3")
@pytest.mark.parametrize("slug", COMMANDS)
def test_text_is_kept_untrimmed(slug: str) -> None:
    command = COMMANDS[slug] | {"reason": "  two blanks\n"}
    assert operations.REGISTRY[slug].command.parse(command).reason == "  two blanks\n"


@pytest.mark.rule("G3")
@pytest.mark.parametrize(("slug", "field"), FIELDS)
def test_a_missing_field_is_named(slug: str, field: str) -> None:
    command = {name: value for name, value in COMMANDS[slug].items() if name != field}
    assert list(problems(slug, command)) == [field]


@pytest.mark.rule("G3")
@pytest.mark.parametrize("slug", COMMANDS)
@pytest.mark.parametrize("extra", ["control_revision", "namespace", "actor", "force", "\ud800", "x" * 5000])
def test_an_unknown_field_is_refused_and_named(slug: str, extra: str) -> None:
    assert len(problems(slug, COMMANDS[slug] | {extra: "1"})) == 1


@pytest.mark.rule("G3")
@pytest.mark.parametrize("payload", [None, [], "text", 1, True])
@pytest.mark.parametrize("slug", COMMANDS)
def test_a_command_that_is_no_object_is_refused(slug: str, payload: Any) -> None:
    assert problems(slug, payload) == {}


@pytest.mark.rule("G3")
@pytest.mark.parametrize(
    "value", [31, 31.0, True, None, "", "0", "-1", "+1", "01", "1.0", " 1", "1 ", "１", "1e3", [], {}]
)
@pytest.mark.parametrize(("slug", "field"), REVISIONS)
def test_a_revision_is_a_decimal_string_and_nothing_else(slug: str, field: str, value: Any) -> None:
    assert list(problems(slug, COMMANDS[slug] | {field: value})) == [field]


@pytest.mark.rule("G3")
@pytest.mark.parametrize(("slug", "field"), REVISIONS)
def test_a_revision_ends_at_63_bits(slug: str, field: str) -> None:
    parse = operations.REGISTRY[slug].command.parse
    assert getattr(parse(COMMANDS[slug] | {field: "9223372036854775807"}), field) == "9223372036854775807"
    assert list(problems(slug, COMMANDS[slug] | {field: "9223372036854775808"})) == [field]
    assert list(problems(slug, COMMANDS[slug] | {field: "9" * 4000})) == [field]


@pytest.mark.rule("G3")
@pytest.mark.parametrize("value", [None, 1, True, [], {}, "", "half \ud83d a pair", "\udc00"])
@pytest.mark.parametrize(("slug", "field"), TEXTS)
def test_text_of_the_wrong_kind_is_refused(slug: str, field: str, value: Any) -> None:
    assert list(problems(slug, COMMANDS[slug] | {field: value})) == [field]


@pytest.mark.rule("G3")
@pytest.mark.parametrize("slug", COMMANDS)
@pytest.mark.parametrize("reason", [" ", "\t\n", "\u3000\u2003", "a\0b"])
def test_a_reason_says_something_and_holds_no_nul(slug: str, reason: str) -> None:
    assert list(problems(slug, COMMANDS[slug] | {"reason": reason})) == ["reason"]


@pytest.mark.rule("G3")
@pytest.mark.parametrize(
    ("field", "limit"), [("reason", 1024), ("evidence_ref", 512), ("step_key", 128), ("activation_id", 128)]
)
def test_lengths_count_code_points(field: str, limit: int) -> None:
    parse = operations.REGISTRY["retry-step"].command.parse
    longest = "😀" * limit
    assert getattr(parse(COMMANDS["retry-step"] | {field: longest}), field) == longest
    assert list(problems("retry-step", COMMANDS["retry-step"] | {field: longest + "x"})) == [field]


@pytest.mark.rule("G3")
@pytest.mark.parametrize("blank", [" ", "\t", "\n", "\u00a0", "\u3000", "\u2028", "\0", "\x1f", "\x7f", "\x85"])
@pytest.mark.parametrize(("slug", "field"), NAMES)
def test_references_hold_no_white_space_and_no_control_character(slug: str, field: str, blank: str) -> None:
    for text in (f"a{blank}b", f"{blank}ab", f"ab{blank}"):
        assert list(problems(slug, COMMANDS[slug] | {field: text})) == [field]


@pytest.mark.rule("G13")
@pytest.mark.parametrize("value", [False, "true", 1, None, "", [], {}])
@pytest.mark.parametrize(("slug", "field"), STATEMENTS)
def test_a_statement_is_the_literal_true(slug: str, field: str, value: Any) -> None:
    assert list(problems(slug, COMMANDS[slug] | {field: value})) == [field]


@pytest.mark.rule("G3")
@pytest.mark.parametrize("value", ["UNKNOWN", "CANCELLED", "succeeded", "", None, True, ["SUCCEEDED"]])
@pytest.mark.parametrize("slug", ["review-task", "resolve-step"])
def test_an_outcome_is_one_of_two_words(slug: str, value: Any) -> None:
    assert list(problems(slug, COMMANDS[slug] | {"outcome": value})) == ["outcome"]


@pytest.mark.rule("G3")
def test_a_reviewed_result_is_never_null() -> None:
    assert list(problems("review-task", COMMANDS["review-task"] | {"result": None})) == ["result"]


def nested(levels: int) -> Any:
    value: Any = 1
    for _level in range(levels):
        value = [value]
    return value


@pytest.mark.rule("G3")
@pytest.mark.parametrize(("slug", "field"), [("review-task", "result"), ("resolve-step", "output")])
def test_a_json_bomb_is_refused(slug: str, field: str) -> None:
    parse = operations.REGISTRY[slug].command.parse
    assert getattr(parse(COMMANDS[slug] | {field: nested(64)}), field) == nested(64)
    for bomb in (nested(65), nested(100_000), "x" * (exact_json.MAX_BYTES + 1), {"half": "\ud800"}, {"\ud800": 1}):
        assert list(problems(slug, COMMANDS[slug] | {field: bomb})) == [field]


@pytest.mark.rule("G3")
@pytest.mark.parametrize(
    "text", ['{"a": 1, "a": 2}', '{"a": NaN}', "[1e99999999999]", "9" * 5000, "[" * 100_000, "{", ""]
)
def test_json_from_outside_that_cannot_be_kept_exactly_is_refused(text: str) -> None:
    with pytest.raises(exact_json.InvalidJson):
        exact_json.parse(text)


@pytest.mark.rule("G3")
def test_all_wrong_fields_are_named_at_once() -> None:
    wrong = COMMANDS["retry-step"] | {"reason": "", "safe_to_retry": False, "extra": 1}
    assert set(problems("retry-step", wrong)) == {"reason", "safe_to_retry", "extra"}


@pytest.mark.rule("G3")
@pytest.mark.parametrize("key", ["", "k" * 129, "a b", " k", "k\n", "ключ", "k\0", "k\x7f", None, 7, b"k"])
def test_an_operation_key_is_visible_ascii(key: Any) -> None:
    with pytest.raises(ValidationFailed) as caught:
        receipts.check_key(key)
    assert list(caught.value.fields) == ["operation_key"]


@pytest.mark.rule("G3")
def test_the_longest_and_strangest_operation_keys_are_taken() -> None:
    for key in ("k" * 128, "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", "0"):
        assert receipts.check_key(key) == key
