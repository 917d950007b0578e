"""What the SDK shares with the server without importing it: canonical JSON, hashes, words, commands."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import weave_client
from recovery import exact_json, states
from recovery.api.history import LISTS
from recovery.operations import REGISTRY
from weave_client import calls, commands, exact, words

SDK = Path(weave_client.__file__).resolve().parent.parent

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.decimals(allow_nan=False, allow_infinity=False, places=5)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@given(value=JSON)
def test_canonical_text_and_digest_are_the_servers(value: Any) -> None:
    assert exact.canonical(value) == exact_json.canonical(value)
    assert exact.digest(value) == exact_json.digest(value)


@given(value=JSON)
def test_numbers_go_out_and_come_in_exactly(value: Any) -> None:
    assert exact_json.loads(exact.dumps(value)) == value
    assert exact.loads(exact_json.dumps(value)) == value


def test_decimals_stay_decimals_and_floats_are_refused() -> None:
    assert exact.loads("[1250.10, 0.1, 1e400, 12345678901234567890.5]") == [
        Decimal("1250.10"),
        Decimal("0.1"),
        Decimal("1e400"),
        Decimal("12345678901234567890.5"),
    ]
    assert exact.dumps({"amount": Decimal("1250.10")}) == '{"amount":1250.10}'
    for lossy in (0.1, [1.0], {"a": float("nan")}, Decimal("NaN"), {1: 2}, object()):
        with pytest.raises(TypeError):
            exact.dumps(lossy)
    with pytest.raises(ValueError, match="not JSON"):
        exact.loads("NaN")


def test_the_six_commands_have_the_servers_fields() -> None:
    assert set(commands.COMMANDS) == set(REGISTRY)
    for slug, operation in REGISTRY.items():
        ours = commands.COMMANDS[slug]
        assert {field.name for field in dataclasses.fields(ours)} == {
            field.name for field in dataclasses.fields(operation.command)
        }
        assert (ours.__name__, words.NAMES[slug]) == (operation.name, operation.name)
        assert commands.STATEMENTS[slug] == operation.statement


def test_commands_are_frozen_keyword_only_and_want_every_statement() -> None:
    with pytest.raises(TypeError):
        commands.Continue("7", "why", "bank:1", True)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        commands.Continue(expected_revision="7", reason="why", evidence_ref="bank:1")  # type: ignore[call-arg]
    made = commands.Continue(expected_revision="7", reason="why", evidence_ref="bank:1", review_resolved=True)
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.reason = "other"  # type: ignore[misc]


def test_the_command_line_uses_the_pages_words() -> None:
    for kind, known in words.WORDS.items():
        assert {value: str(label) for value, label in getattr(states, kind).choices} == known


def test_the_lists_of_a_history_are_the_servers() -> None:
    assert set(calls.LISTS) == set(LISTS)


def test_the_package_needs_neither_django_nor_the_server() -> None:
    code = (
        "import sys, weave_client, weave_client.cli\n"
        "print([name for name in ('django', 'recovery', 'simplejson') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": str(SDK)}, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
