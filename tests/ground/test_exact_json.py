"""JSON keeps every value exactly: in memory, in its canonical form, and in both databases."""

from decimal import Decimal
from typing import Any

import pytest
from django.db import connection
from hypothesis import given
from hypothesis import strategies as st

from recovery import exact_json
from recovery.exact_json import MAX_BYTES, MAX_DEPTH, InvalidJson
from recovery.models import StepActivation, TaskResult, WorkflowInstance, WorkflowStep
from recovery.writes import change, insert
from tests.support.rows import nonsense

NUMBERS = [
    "12345678901234567890.123456789",
    "1e400",
    "1E-400",
    "-1.5e300",
    "0.1",
    "1.10",
    "9007199254740993",
    "123456789012345678901234567890123456789012345678901234567890",
    "-0",
    "0.30000000000000004",
]


def nested(levels: int, kind: type = list) -> Any:
    value: Any = []
    for _level in range(levels - 1):
        value = [value] if kind is list else {"a": value}
    return value


def _is_exactly(found: Any, wanted: Any) -> bool:
    """Equal, and nowhere a double: 0.1 as a float is equal to nothing that was written."""
    if isinstance(wanted, dict):
        return list(found) == list(wanted) and all(_is_exactly(found[name], wanted[name]) for name in wanted)
    if isinstance(wanted, list):
        return len(found) == len(wanted) and all(map(_is_exactly, found, wanted))
    return type(found) is type(wanted) and found == wanted


# In memory


@pytest.mark.parametrize("number", NUMBERS)
def test_a_number_keeps_its_digits(number: str) -> None:
    value = exact_json.loads(number)
    assert isinstance(value, int | Decimal)
    assert value == Decimal(number)
    assert Decimal(exact_json.dumps(value)) == Decimal(number)


def test_64_levels_are_kept_and_65_are_refused() -> None:
    assert exact_json.parse(exact_json.dumps(nested(MAX_DEPTH))) == nested(MAX_DEPTH)
    assert exact_json.parse(exact_json.dumps(nested(MAX_DEPTH, dict))) == nested(MAX_DEPTH, dict)
    for kind in (list, dict):
        with pytest.raises(InvalidJson, match="deeper than 64"):
            exact_json.parse(exact_json.dumps(nested(MAX_DEPTH + 1, kind)))


@pytest.mark.parametrize("bracket", ["[", '{"a":', '[{"a":'])
def test_a_bomb_of_brackets_is_refused_and_harms_nobody(bracket: str) -> None:
    with pytest.raises(InvalidJson):
        exact_json.parse(bracket * (MAX_BYTES // len(bracket)))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"a": 1, "a": 2}', "twice"),
        ('[{"a": {"b": 1, "b": 1}}]', "twice"),
        ("NaN", "NaN is not JSON"),
        ("[Infinity]", "Infinity is not JSON"),
        ('{"a": -Infinity}', "-Infinity is not JSON"),
        ("1e5000", "exponent"),
        ("1e-5000", "exponent"),
        ("1e999999999999", "exponent"),
        ("1" * 1001, "1000 digits"),
        ("0." + "1" * 1001, "1000 digits"),
        ('"\\ud800"', "lone surrogate"),
        ('{"\\udfff": 1}', "lone surrogate"),
        ("", "."),
        ("[1,]", "."),
        ("{'a': 1}", "."),
        ("01", "."),
        ("1 2", "."),
    ],
)
def test_what_is_no_json_of_this_system_is_refused_with_a_reason(text: str, problem: str) -> None:
    with pytest.raises(InvalidJson, match=problem):
        exact_json.parse(text)


def test_bytes_that_are_no_utf_8_are_refused() -> None:
    with pytest.raises(InvalidJson):
        exact_json.parse(b'"\xff"')


def test_a_surrogate_pair_is_one_character() -> None:
    assert exact_json.parse('"\\ud83d\\ude00"') == "😀"


def test_a_mebibyte_is_kept_and_a_byte_more_is_refused() -> None:
    text = '"' + "a" * (MAX_BYTES - 2) + '"'
    assert exact_json.parse(text) == text[1:-1]
    with pytest.raises(InvalidJson, match="larger than"):
        exact_json.parse(text + " ")
    with pytest.raises(InvalidJson, match="larger than"):
        exact_json.parse('"' + "é" * (MAX_BYTES // 2) + '"')


def test_a_double_is_never_written() -> None:
    assert exact_json.problem({"a": [0.1]}) == "a number went through a double"
    assert exact_json.problem({"a": {1, 2}}) == "set is not JSON"
    assert exact_json.problem({"a": [True, None, 1, Decimal("0.1"), "x"]}) is None


# One text for one value

TEXTS = st.text(st.characters(codec="utf-8"))
DECIMALS = st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**50), max_value=10**50)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), DECIMALS, TEXTS),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)


@given(VALUES)
def test_what_is_written_is_read_back(value: Any) -> None:
    assert exact_json.loads(exact_json.dumps(value)) == value
    assert exact_json.canonical(exact_json.loads(exact_json.dumps(value))) == exact_json.canonical(value)


@given(st.dictionaries(TEXTS, VALUES, min_size=2, max_size=4))
def test_the_order_of_members_does_not_count(value: dict[str, Any]) -> None:
    assert exact_json.digest(dict(reversed(value.items()))) == exact_json.digest(value)


@pytest.mark.parametrize(
    ("one", "same"),
    [
        ("1.10", "1.1"),
        ("1.0", "1"),
        ("1e2", "100"),
        ("-0", "0"),
        ("-0.0", "0"),
        ("0.5e1", "5"),
        ('{"b":1,"a":2}', '{ "a" : 2, "b" : 1.0 }'),
        ('"\\u0061"', '"a"'),
    ],
)
def test_the_spelling_of_a_value_does_not_count(one: str, same: str) -> None:
    assert exact_json.canonical(exact_json.loads(one)) == exact_json.canonical(exact_json.loads(same))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1", "true"),
        ("0", "false"),
        ("1", '"1"'),
        ("null", '"null"'),
        ("[]", "{}"),
        ("[1,2]", "[2,1]"),
        ("9007199254740993", "9007199254740992"),
        ("0.1", "0.1000000000000000055511151231257827"),
        ('"é"', '"e\\u0301"'),
        ('"a"', '"a "'),
    ],
)
def test_values_that_only_look_alike_differ(one: str, other: str) -> None:
    assert exact_json.digest(exact_json.loads(one)) != exact_json.digest(exact_json.loads(other))


# In the database

KEPT = [
    *(exact_json.loads(number) for number in NUMBERS),
    {"deep": [exact_json.loads(number) for number in NUMBERS]},
    nested(MAX_DEPTH),
    nested(MAX_DEPTH, dict),
    None,
    True,
    False,
    "",
    "null",
    "\x00\u2028 😀 é \\ \" ' % ; --",
    {"": "", "b": 1, "a": {"😀": [None]}},
    [],
    {},
]


@pytest.mark.django_db
@pytest.mark.parametrize("value", KEPT, ids=lambda value: exact_json.dumps(value)[:40])
def test_a_stored_value_comes_back_exactly(value: Any) -> None:
    row = nonsense(TaskResult, payload=value)
    insert(row)
    assert _is_exactly(TaskResult.objects.get(pk=row.pk).payload, value)
    assert _is_exactly(TaskResult.objects.values_list("payload", flat=True).get(pk=row.pk), value)
    with connection.cursor() as cursor:
        cursor.execute("SELECT payload FROM recovery_taskresult WHERE id = %s", [row.pk])
        assert cursor.fetchone()[0] == exact_json.dumps(value)


@pytest.mark.django_db
@pytest.mark.parametrize("value", KEPT, ids=lambda value: exact_json.dumps(value)[:40])
def test_a_changed_value_comes_back_exactly(value: Any) -> None:
    row = nonsense(TaskResult, payload={"before": 1})
    insert(row)
    change(row, payload=value)
    assert _is_exactly(TaskResult.objects.get(pk=row.pk).payload, value)


@pytest.mark.django_db
def test_a_value_of_a_mebibyte_is_stored() -> None:
    value = ["😀" * (MAX_BYTES // 12 - 10)]
    row = nonsense(TaskResult, payload=value)
    insert(row)
    assert TaskResult.objects.get(pk=row.pk).payload == value


@pytest.mark.django_db
@pytest.mark.parametrize("model", [WorkflowInstance, WorkflowStep, StepActivation])
def test_no_output_is_told_from_nothing_by_the_columns_own_null(model: type[Any]) -> None:
    """Where the column may be null, None is SQL NULL; an output of null is told apart by `settled_at`."""
    row = nonsense(model, output=None)
    insert(row)
    assert model.objects.filter(output__isnull=True, pk=row.pk).exists()
    change(row, output={"a": 1})
    change(row, output=None)
    assert model.objects.filter(output__isnull=True, pk=row.pk).exists()


@pytest.mark.django_db
def test_a_null_that_was_answered_is_stored_as_json() -> None:
    row = nonsense(TaskResult, payload=None)
    insert(row)
    assert not TaskResult.objects.filter(payload__isnull=True).exists()


@pytest.mark.django_db
def test_a_text_that_is_no_json_is_not_read_as_something_else() -> None:
    row = nonsense(TaskResult)
    insert(row)
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute("PRAGMA ignore_check_constraints = ON")
        cursor.execute("UPDATE recovery_taskresult SET payload = %s WHERE id = %s", ['{"a": 1', row.pk])
        if connection.vendor == "sqlite":
            cursor.execute("PRAGMA ignore_check_constraints = OFF")
    with pytest.raises(InvalidJson):
        TaskResult.objects.get(pk=row.pk)
