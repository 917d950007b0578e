"""schemathesis over the whole document, bounded: whatever the document allows and forbids is sent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections
from hypothesis import HealthCheck, settings
from schemathesis import GenerationMode
from schemathesis.config import SchemathesisConfig

from recovery import permissions
from tests.api.callers import caller
from tests.api.test_permissions import furnish
from tests.support.world import OPERATOR, World

NAMES_WHAT_IS_THERE = {"checks": {"positive_data_acceptance": {"enabled": False}}}
"""No schema knows which applications, queues and steps there are, or that keys are unique in a tree."""
CONFIG = {
    "operations": [
        # It would build two thousand trees.
        {"include-name": "POST /definitions", "phases": {"coverage": {"enabled": False}}, **NAMES_WHAT_IS_THERE},
        {"include-name": "POST /instances", **NAMES_WHAT_IS_THERE},
        # It leaves empty parts out, and then takes what is left for wrong.
        {
            "include-name": "POST /evidence",
            "checks": {"positive_data_acceptance": {"enabled": False}, "negative_data_rejection": {"enabled": False}},
        },
    ]
}

schema = schemathesis.openapi.from_wsgi(
    "/api/v1/openapi.json", get_wsgi_application(), config=SchemathesisConfig.from_dict(CONFIG)
)


@pytest.fixture(name="everybody")
def _everybody(world: World) -> Iterator[dict[str, Any]]:
    """What stands in the paths, and the credential of somebody who may do everything."""
    place = furnish(world)
    everything = world.actor(*OPERATOR, permissions.WORK, queues=("bank", "mail"))
    signals = (request_started, request_finished)
    for signal in signals:  # as Django's own test client does
        signal.disconnect(close_old_connections)
    yield {"ids": place.ids, "token": caller(world, everything).token}
    for signal in signals:
        signal.connect(close_old_connections)


# Its transport does not close the answers that are files.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@schema.parametrize()
@settings(max_examples=10, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_whatever_is_sent_is_answered_as_the_document_says(case: Any, everybody: dict[str, Any]) -> None:
    wrong = {place.name for place, made in case.meta.components.items() if made.mode == GenerationMode.NEGATIVE}
    if "PATH" not in wrong:
        ids = everybody["ids"] | ({"name": "bank"} if "claim" in case.path else {})
        case.path_parameters = {name: ids[name] for name in case.path_parameters or {}}
    if "HEADER" in wrong:  # a dry run needs no key
        case.query.pop("dry_run", None)
    is_signed = "HEADER" in wrong and "Authorization" in case.headers
    case.call_and_validate(headers={} if is_signed else {"Authorization": f"Bearer {everybody['token']}"})
