"""Hints to the workers: sent after the commit, at least once, ids only.

The row is the truth. A hint that is lost costs latency and nothing else, because the sweep finds the row (B7); so no
hint is ever tried twice, and a broker that is down neither fails nor holds up the call that has just been committed.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from celery import current_app
from django.conf import settings
from django.db import connection, transaction

logger = logging.getLogger(__name__)

EXPIRES = 60
"""Seconds after which a hint is stale: the sweep has found its work by then."""
PATIENCE = 2
"""Seconds that a broker has to confirm a hint."""
PAUSE = 5
"""Seconds without any hint after the broker did not take one."""

_handled: ContextVar[str] = ContextVar("handled", default="")
_silent_until = 0.0


@dataclass(frozen=True)
class _Hint:
    task: str
    key: str

    def __call__(self) -> None:
        global _silent_until
        if time.monotonic() < _silent_until:
            return
        try:
            current_app.send_task(self.task, (self.key,), expires=EXPIRES, retry=False, confirm_timeout=PATIENCE)
        except Exception as error:  # whatever a transport raises: the commit stands
            _silent_until = time.monotonic() + PAUSE
            logger.warning("The broker takes no hints (%s). The sweep finds the work.", type(error).__name__)


def instance(instance_id: str) -> None:
    """The instance has something to consume, adjudicate, schedule or stop. One hint a transaction."""
    hint = _Hint("recovery.tasks.run_instance", instance_id)
    if instance_id != _handled.get() and not any(hint in waiting for waiting in connection.run_on_commit):
        transaction.on_commit(hint)


def queue(queue_id: str) -> None:
    """A task of the queue may be claimed. One hint for each task: that is what wakes as many workers as there is work.

    Only where handlers run in our own workers; others poll.
    """
    if settings.WEAVE_HANDLERS:
        transaction.on_commit(_Hint("recovery.tasks.work", queue_id))


@contextmanager
def handled_here(instance_id: str) -> Iterator[None]:
    """Inside the block the instance needs no hints: the caller goes round until nothing is left."""
    token = _handled.set(instance_id)
    try:
        yield
    finally:
        _handled.reset(token)
