"""Fixtures of the API's tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.api.desk import Desk, desk_of
from tests.support.world import World


@pytest.fixture(name="desk")
def _desk(world: World) -> Desk:
    return desk_of(world)


@pytest.fixture(autouse=True)
def _evidence_folder(settings: Any, tmp_path: Path) -> None:
    settings.EVIDENCE_DIR = tmp_path / "evidence"
