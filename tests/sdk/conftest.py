"""Fixtures of the SDK's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.sdk.rude_server import RudeServer, _server  # noqa: F401 - a fixture
from weave_client import Client, Retries

SOON = Retries(first=0.001, longest=0.002)
"""As usual, without the waiting."""


@pytest.fixture(name="client")
def _client(server: RudeServer) -> Iterator[Client]:
    with Client(server.url, "token", retries=SOON, timeout=5) as client:
        yield client
