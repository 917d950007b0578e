"""The long poll of a claim: bounded in time and in number, and without a database connection while it waits."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from django.conf import settings
from django.db import connections

T = TypeVar("T")

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0
"""Seconds between two looks; each pause is half as long again as the one before."""

_places = threading.BoundedSemaphore(max(1, settings.WEB_THREADS // 2))
"""At most half of a web process's threads wait. Who finds no place is answered at once, and asks again."""


def until_some(look: Callable[[], Sequence[T]], wait_ms: int) -> Sequence[T]:
    """What `look` finds, as soon as it finds something; nothing after `wait_ms` milliseconds."""
    deadline = time.monotonic() + wait_ms / 1000
    found = look()
    if found or not wait_ms or not _places.acquire(blocking=False):
        return found
    try:
        pause = FIRST_PAUSE
        while not found and (left := deadline - time.monotonic()) > 0:
            _let_go()
            time.sleep(min(pause, left))
            pause = min(pause * 1.5, LONGEST_PAUSE)
            found = look()
        return found
    finally:
        _places.release()


def _let_go() -> None:
    """Ends the thread's connections: a hundred waiting workers must not hold a hundred of them."""
    for connection in connections.all(initialized_only=True):
        if not connection.in_atomic_block:
            connection.close()
