"""Fixtures of the API's tests."""

from __future__ import annotations

import pytest

from tests.api.desk import Desk, desk_of
from tests.support.world import World


@pytest.fixture(name="desk")
def _desk(world: World) -> Desk:
    return desk_of(world)
