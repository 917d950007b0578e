"""After every scenario the whole database is held against all invariants, as `manage.py verify --deep` does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from recovery.verify import verify


@pytest.fixture(autouse=True)
def _nothing_is_violated(request: pytest.FixtureRequest) -> Iterator[None]:
    """Runs while the scenario's world still stands: before the fixtures it asked for are undone."""
    worlds = {"world", "busy_world", "real_world"}.intersection(request.fixturenames)
    for name in worlds:
        request.getfixturevalue(name)
    yield
    if worlds:
        assert [violation for result in verify(deep=True) for violation in result.violations] == []
