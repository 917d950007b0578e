"""Celery's ways in. Messages carry ids only, come at least once or never, and change nothing but when things happen."""

from __future__ import annotations

from datetime import timedelta

from celery import shared_task

from recovery import prompts
from recovery.engine import handlers
from recovery.engine import sweep as sweeper

GRACE = timedelta(seconds=2)
"""A hint has had its chance by then."""


@shared_task
def run_instance(instance_id: str) -> None:
    """An instance has something to do."""
    sweeper.run_instance(instance_id)


@shared_task
def work(queue_id: str) -> None:
    """A queue has a task for a handler of ours."""
    handlers.work(queue_id)


@shared_task
def sweep() -> None:
    """Every second: what no hint has brought forward."""
    if sweeper.tick():
        sweeper.sweep(older_than=GRACE)
        for queue_id in handlers.waiting_queues():
            prompts.queue(queue_id)
