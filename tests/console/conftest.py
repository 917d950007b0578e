"""A person in front of a browser without JavaScript."""

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client

from recovery.permissions import Actor
from tests.console.support import Desk
from tests.support.world import World


@pytest.fixture
def sit(world: World) -> Callable[[Actor], Desk]:
    """Seats somebody at a browser, signed in."""

    def seat(actor: Actor) -> Desk:
        client = Client()
        client.force_login(_user(actor))
        return Desk(client)

    return seat


@pytest.fixture
def desk(world: World, sit: Callable[[Actor], Desk]) -> Desk:
    """The operator's."""
    return sit(world.operator)


def _user(actor: Actor) -> Any:
    return get_user_model().objects.get(pk=actor.user_id)
