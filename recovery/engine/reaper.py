"""What time alone decides about tasks: leases that ran out, and queued tasks that may not start any more."""

from __future__ import annotations

from functools import partial

from recovery import clock, stream
from recovery.engine.due import settle
from recovery.engine.report import lose
from recovery.locks import Locks, transact
from recovery.models import Task, TaskAttempt
from recovery.states import AttemptStatus, ResultOutcome, ResultSource, TaskStatus
from recovery.stream import Settled
from recovery.writes import change

LEASE_LOST = "LEASE_LOST"
DEADLINE = "DEADLINE"


def reap(limit: int = 100) -> int:
    """Settles what is due, the oldest first, at most `limit` of each kind; answers how many.

    B2: an attempt whose lease ran out is UNKNOWN and its task NEEDS_REVIEW. B1: a QUEUED task past its deadline or
    latest start is FAILED. Each in a transaction of its own; one that fails is left to the next round.
    """
    now = clock.now()
    lost = TaskAttempt.objects.filter(status=AttemptStatus.RUNNING, lease_expires_at__lte=now)
    attempts = lost.order_by("lease_expires_at").values_list("pk", "task_id")
    settled = settle("attempt", attempts, lambda row: transact(partial(_lose_lease, row)), limit)
    for due in ("deadline_at", "latest_start_at"):
        waiting = Task.objects.filter(status=TaskStatus.QUEUED, **{f"{due}__lte": now}).order_by(due)
        tasks = waiting.values_list("pk", flat=True)
        settled += settle("task", tasks, lambda key: transact(partial(_give_up, key)), limit)
    return settled


def _lose_lease(row: tuple[str, str], locks: Locks) -> bool:
    attempt_id, task_id = row
    task = locks.row(Task, task_id)
    attempt = locks.row(TaskAttempt, attempt_id)
    now = clock.now()
    if attempt.status != AttemptStatus.RUNNING or now < attempt.lease_expires_at:
        return False  # reported or extended meanwhile
    lose(locks, task, attempt, ResultSource.REAPER, LEASE_LOST, "The lease ran out without a report.", now)
    return True


def _give_up(task_id: str, locks: Locks) -> bool:
    task = locks.row(Task, task_id)
    now = clock.now()
    ends = [end for end in (task.deadline_at, task.latest_start_at) if end is not None]
    if task.status != TaskStatus.QUEUED or now < min(ends):
        return False  # claimed or cancelled meanwhile
    change(task, status=TaskStatus.FAILED, revision=task.revision + 1, settled_at=now)
    message = "The deadline or the latest start passed before an attempt began."
    payload = {"error_code": DEADLINE, "error_message": message}
    stream.publish(locks, [Settled(task, ResultOutcome.FAILED, ResultSource.REAPER, payload)], now)
    return True
