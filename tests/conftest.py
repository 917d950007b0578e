"""Fixtures of every test."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest
from django.utils import translation

from tests.support import statements

pytest_plugins = [
    "tests.support.rules",
    "tests.support.flush",
    "tests.support.stack",
    "tests.support.browser",
    "tests.support.world",
    "tests.support.evidence",
]


@pytest.fixture(autouse=True)
def _language_ends_with_the_test() -> Iterator[None]:
    """A page in another language would otherwise leave that language to the tests after it."""
    yield
    translation.deactivate()


@pytest.fixture(name="capture_statements")
def _capture_statements() -> Callable[[], AbstractContextManager[list[statements.Statement]]]:
    return statements.capture_statements
