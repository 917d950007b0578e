"""What must hold of the counters after anything that workers do, and which rows a call locked."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection, models

from recovery import locks
from recovery.models import ExecutionPermit, QueueQuota, QuotaHold, Task, TaskAttempt
from tests.support.statements import capture_statements
from tests.support.world import World


def assert_ledger_holds(world: World) -> None:
    """Counters equal the open permits and holds; attempts, permits and concurrency keys agree with the tasks."""
    holds = QuotaHold.objects.filter(released_at=None)
    assert world.application_quota().open_tasks == holds.filter(application=world.application).count()
    for quota in QueueQuota.objects.filter(queue__namespace=world.namespace):
        open_permits = ExecutionPermit.objects.filter(queue_id=quota.queue_id, released_at=None)
        assert quota.running == open_permits.count() <= quota.max_running
        assert quota.open_tasks == holds.filter(queue_id=quota.queue_id).count()
    for task in Task.objects.filter(namespace=world.namespace):
        attempts = list(TaskAttempt.objects.filter(task=task).order_by("attempt_no"))
        assert [attempt.attempt_no for attempt in attempts] == list(range(1, task.attempt_count + 1))
        assert len(attempts) <= task.max_attempts
        running = [attempt for attempt in attempts if attempt.status == "RUNNING"]
        assert len(running) == (task.status == "RUNNING")
        permits = list(ExecutionPermit.objects.filter(task=task))
        assert len(permits) == len(attempts)
        taken = [permit for permit in permits if permit.released_at is None]
        assert len(taken) == (task.status in ("RUNNING", "NEEDS_REVIEW"))
        key = None if task.concurrency_key is None else f"{task.queue_id}:{task.concurrency_key}"
        assert all(permit.active_key == (None if permit.released_at else key) for permit in permits)


def just_before_locking(monkeypatch: pytest.MonkeyPatch, model: type, act: Callable[[], object]) -> None:
    """Somebody else is faster: `act` happens between the unlocked look and the lock of these rows."""

    def beaten(original: Callable[..., Any]) -> Callable[..., Any]:
        def lock(self: locks.Locks, wanted: type, *keys: Any, **options: Any) -> Any:
            if wanted is model:
                act()
            return original(self, wanted, *keys, **options)

        return lock

    monkeypatch.setattr(locks.Locks, "rows", beaten(locks.Locks.rows))
    monkeypatch.setattr(locks.Locks, "row", beaten(locks.Locks.row))


@contextmanager
def locked_tables() -> Iterator[list[str]]:
    """The models whose rows the block locks, in their order. On MariaDB the statements have to say the same."""
    entered: list[str] = []
    names = {model._meta.db_table: model.__name__ for model in locks.ORDER}

    def enter(self: locks.Locks, model: type[models.Model]) -> None:
        original(self, model)
        entered.append(model.__name__)

    original = locks.Locks.enter
    with pytest.MonkeyPatch.context() as patch, capture_statements() as statements:
        patch.setattr(locks.Locks, "enter", enter)
        yield entered
    if connection.vendor == "mysql":
        locking = [statement.sql for statement in statements if "FOR UPDATE" in statement.sql]
        tables = [re.findall(r"(?:FROM|JOIN) `(\w+)`", sql) for sql in locking]
        # An operation key is claimed by inserting its row.
        expected = [[name] for name in entered if name != "ManagementOperation"]
        assert [[names[table] for table in found] for found in tables] == expected
