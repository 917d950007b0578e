"""Callers that race: each in a thread of its own, with a database connection of its own."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from django.db import connections


def together(callers: Sequence[Callable[[], Any]]) -> list[Any]:
    """Releases all callers at one moment and answers what each returned or raised, in their order.

    Needs a transactional test: other connections do not see what an open test transaction wrote.
    """
    gate = threading.Barrier(len(callers))

    def run(caller: Callable[[], Any]) -> Any:
        gate.wait(timeout=60)
        try:
            return caller()
        except Exception as error:
            return error
        finally:
            connections.close_all()

    with ThreadPoolExecutor(len(callers)) as pool:
        return list(pool.map(run, callers))
