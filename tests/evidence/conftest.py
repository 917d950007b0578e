"""Every test here has an evidence folder of its own, and the operator's browser."""

from pathlib import Path

import pytest
from django.contrib.auth import get_user_model
from django.test import Client

from recovery.permissions import Actor
from tests.console.support import Desk
from tests.support.world import World


@pytest.fixture(autouse=True)
def _folder(evidence_dir: Path) -> None:
    """Nothing is written beside it."""


def seat(actor: Actor) -> Desk:
    client = Client()
    client.force_login(get_user_model().objects.get(pk=actor.user_id))
    return Desk(client)


@pytest.fixture
def desk(world: World) -> Desk:
    return seat(world.operator)
