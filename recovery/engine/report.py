"""Workers report: heartbeats, ends, and what came too late. Locks no instance and no application quota."""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

from django.utils.translation import gettext as _

from recovery import clock, exact_json, permissions, prompts, stream
from recovery.engine.cancel_task import cancel_unstarted
from recovery.errors import NotFound, StateConflict
from recovery.locks import Locks, transact
from recovery.models import ExecutionPermit, QueueQuota, Task, TaskAttempt, TaskResult
from recovery.operations.commands import Document, Invalid, checked, json_value, label, text
from recovery.permissions import Actor
from recovery.states import STATUS_AFTER, ActivationStatus, AttemptStatus, ResultOutcome, ResultSource, TaskStatus
from recovery.stream import Settled
from recovery.writes import change


@dataclass(frozen=True, kw_only=True)
class Report:
    """What became of a report. `late`: only recorded (B9). `task_status`: of the task, after it."""

    late: bool
    task_status: str


def heartbeat(actor: Actor, attempt_id: str, lease_token: str) -> datetime:
    """Extends a lease by the queue's `lease_ms` from now; answers until when it holds. Locks the attempt only.

    Raises PermissionDenied, NotFound, and StateConflict for a wrong token or an attempt that has ended.
    """
    lease = _find(actor, attempt_id, lease_token)

    def extend(locks: Locks) -> datetime:
        attempt = locks.row(TaskAttempt, lease.attempt_id)
        if attempt.status != AttemptStatus.RUNNING:
            raise StateConflict(_("The attempt has ended; stop, and report what you did."), rule="B2")
        now = clock.now()
        change(attempt, heartbeat_at=now, lease_expires_at=now + clock.milliseconds(lease.lease_ms))
        return attempt.lease_expires_at

    return transact(extend)


def succeed(actor: Actor, attempt_id: str, lease_token: str, result: Any) -> Report:
    """The execution succeeded and answered `result` (any JSON of at most 1 MiB): the task is SUCCEEDED.

    All reports: said again with the same content, the first answer; of an attempt that has ended otherwise, recorded
    once as LATE (B9). A namespace that was suspended meanwhile is no reason to lose what happened. They raise
    PermissionDenied without tasks:work, NotFound for an attempt of another namespace or application, StateConflict for
    a wrong token, ValidationFailed.
    """
    return _report(actor, attempt_id, lease_token, _Success.parse({"result": result}))


def fail(
    actor: Actor, attempt_id: str, lease_token: str, error_code: str, error_message: str, retryable: bool
) -> Report:
    """The execution failed and has no further effect. B1: queued again after the backoff where attempts are left and
    the error is retryable (the pinned codes decide; without them the worker's word); otherwise the task is FAILED.
    Queued again when nobody waits for it any more, it is CANCELLED at once.
    """
    said = {"error_code": error_code, "error_message": error_message, "retryable": retryable}
    return _report(actor, attempt_id, lease_token, _Failure.parse(said))


def unknown(actor: Actor, attempt_id: str, lease_token: str, error_code: str, error_message: str) -> Report:
    """B2: nobody knows what the execution did. The task is NEEDS_REVIEW and is never tried again by itself."""
    said = {"error_code": error_code, "error_message": error_message}
    return _report(actor, attempt_id, lease_token, _Doubt.parse(said))


def _message(value: Any) -> str:
    if value == "":
        return ""
    if "\0" in text(value, 1024):
        raise Invalid(_("The text holds a NUL character; remove it."))
    return value


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise Invalid(_("true or false."))
    return value


@dataclass(frozen=True, kw_only=True)
class _Success(Document):
    result: Any = checked(json_value)  # noqa: RUF009 - makes a dataclass field

    outcome = ResultOutcome.SUCCEEDED
    error_code = error_message = ""

    @property
    def payload(self) -> Any:
        return self.result


@dataclass(frozen=True, kw_only=True)
class _Doubt(Document):
    error_code: str = checked(partial(label, limit=64))
    error_message: str = checked(_message)

    outcome = ResultOutcome.UNKNOWN

    @property
    def payload(self) -> Any:
        return {"error_code": self.error_code, "error_message": self.error_message}


@dataclass(frozen=True, kw_only=True)
class _Failure(_Doubt):
    retryable: bool = checked(_truth)

    outcome = ResultOutcome.FAILED


@dataclass(frozen=True)
class _Lease:
    """What of an attempt never changes, and whether it was running when it was read."""

    attempt_id: str
    task_id: str
    permit_id: str
    quota_id: str
    lease_ms: int
    was_running: bool


def _find(actor: Actor, attempt_id: str, lease_token: str) -> _Lease:
    """The attempt that a worker speaks of, without a lock. Foreign attempts look like missing ones."""
    permissions.require_work(actor, permissions.WORK)
    row = TaskAttempt.objects.filter(pk=attempt_id, task__namespace_id=actor.namespace_id).values(*_COLUMNS).first()
    if row is None or actor.application_id not in (None, row["task__application_id"]):
        raise NotFound(_("There is no attempt of this id."))
    if not hmac.compare_digest(row["lease_token"].encode(), str(lease_token).encode("utf-8", "replace")):
        raise StateConflict(_("The lease token does not fit the attempt."), rule="B9")
    return _Lease(
        attempt_id=attempt_id,
        task_id=row["task_id"],
        permit_id=row["executionpermit__pk"],
        quota_id=row["task__queue__queuequota__pk"],
        lease_ms=row["task__queue__lease_ms"],
        was_running=row["status"] == AttemptStatus.RUNNING,
    )


_COLUMNS = (
    "lease_token",
    "status",
    "task_id",
    "task__application_id",
    "task__queue__lease_ms",
    "task__queue__queuequota__pk",
    "executionpermit__pk",
)


def _report(actor: Actor, attempt_id: str, lease_token: str, said: _Success | _Doubt) -> Report:
    lease = _find(actor, attempt_id, lease_token)
    digest = exact_json.digest(said.payload)
    return transact(lambda locks: _record(locks, lease, said, digest))


def _record(locks: Locks, lease: _Lease, said: _Success | _Doubt, digest: str) -> Report:
    """`digest`: of the payload, made before the first lock."""
    # An attempt that has ended never runs again: what was not running needs no count.
    counts = lease.was_running and said.outcome != ResultOutcome.UNKNOWN
    quota = locks.row(QueueQuota, lease.quota_id) if counts else None
    task = locks.row(Task, lease.task_id)
    attempt = locks.row(TaskAttempt, lease.attempt_id)
    if attempt.status != AttemptStatus.RUNNING:
        return _record_late(locks, task, attempt, said, digest)
    if quota is None:
        lose(locks, task, attempt, ResultSource.WORKER, said.error_code, said.error_message, clock.now())
        return Report(late=False, task_status=task.status)
    permit = locks.row(ExecutionPermit, lease.permit_id)
    now = clock.now()
    end = {"ended_at": now, "error_code": said.error_code, "error_message": said.error_message}
    change(attempt, status=AttemptStatus(said.outcome), **end)
    change(permit, active_key=None, released_at=now)
    change(quota, running=quota.running - 1)
    if isinstance(said, _Failure) and _is_tried_again(task, said):
        again = now + clock.milliseconds(task.policy.get("backoff_ms", 0))
        change(task, status=TaskStatus.QUEUED, revision=task.revision + 1, available_at=again)
        if _is_awaited(task):
            prompts.queue(task.queue_id)
        else:
            cancelled = [replace(item, attempt=attempt) for item in cancel_unstarted([task], now)]
            stream.publish(locks, cancelled, now)
    else:
        change(task, status=TaskStatus(said.outcome), revision=task.revision + 1, settled_at=now)
        stream.publish(locks, [Settled(task, said.outcome, ResultSource.WORKER, said.payload, attempt, digest)], now)
    return Report(late=False, task_status=task.status)


def _is_tried_again(task: Task, said: _Failure) -> bool:
    """B1. A task whose deadline comes first is queued nevertheless: the reaper fails it."""
    codes = task.policy.get("retryable_errors")
    retryable = said.retryable if codes is None else said.error_code in codes
    return retryable and task.attempt_count < task.max_attempts


def _is_awaited(task: Task) -> bool:
    """Whether another attempt has a purpose: no stop was requested, and its step has no conclusion yet.

    Whoever requests a stop or concludes a step cancels what is unstarted, but did not see this task while it ran (B6).
    They hold the queue's row too, so what is read here without their lock cannot change until the commit.
    """
    awaited = Task.objects.filter(instance__stop_kind=None, owner_activation__status=ActivationStatus.RUNNING)
    return awaited.filter(pk=task.pk).exists()


def lose(
    locks: Locks, task: Task, attempt: TaskAttempt, source: ResultSource, code: str, message: str, now: datetime
) -> None:
    """B2: the effect of a running attempt is unknown. Task and attempt are locked.

    Permit, concurrency key, hold and running count stay taken until a person has reviewed the task.
    """
    change(attempt, status=AttemptStatus.UNKNOWN, ended_at=now, error_code=code, error_message=message)
    change(task, status=TaskStatus.NEEDS_REVIEW, revision=task.revision + 1)
    payload = {"error_code": code, "error_message": message}
    stream.publish(locks, [Settled(task, ResultOutcome.UNKNOWN, source, payload, attempt)], now)


def _record_late(locks: Locks, task: Task, attempt: TaskAttempt, said: _Success | _Doubt, digest: str) -> Report:
    """B9: a new result of source LATE, once for an attempt; it changes no status, attempt, permit or budget."""
    results = list(TaskResult.objects.filter(task_id=task.pk, attempt_id=attempt.pk))
    if first := _first_answer(attempt, results, said, digest):
        return first
    if not any(result.source == ResultSource.LATE for result in results):
        now = clock.now()
        change(task, revision=task.revision + 1)
        stream.publish(locks, [Settled(task, said.outcome, ResultSource.LATE, said.payload, attempt, digest)], now)
    return Report(late=True, task_status=task.status)


def _first_answer(
    attempt: TaskAttempt, results: Sequence[TaskResult], said: _Success | _Doubt, digest: str
) -> Report | None:
    """What the attempt's own final report was answered, if `said` repeats it; a lost lease had no report."""
    own = next((result for result in results if result.source == ResultSource.WORKER), None)
    if own is not None:
        same = own.outcome == said.outcome and exact_json.digest(own.payload) == digest
        return Report(late=False, task_status=STATUS_AFTER[said.outcome]) if same else None
    # A failure that was tried again left no result.
    same = (attempt.error_code, attempt.error_message) == (said.error_code, said.error_message)
    if attempt.status == AttemptStatus.FAILED and said.outcome == ResultOutcome.FAILED and same:
        cancelled = any(result.source == ResultSource.CONTROL for result in results)
        return Report(late=False, task_status=TaskStatus.CANCELLED if cancelled else TaskStatus.QUEUED)
    return None
