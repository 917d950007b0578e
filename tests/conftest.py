"""Fixtures of every test."""

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from tests.support import statements

pytest_plugins = [
    "tests.support.rules",
    "tests.support.flush",
    "tests.support.stack",
    "tests.support.browser",
    "tests.support.world",
]


@pytest.fixture(name="capture_statements")
def _capture_statements() -> Callable[[], AbstractContextManager[list[statements.Statement]]]:
    return statements.capture_statements
