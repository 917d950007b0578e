"""Cancelling a task that has not started (B11)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby

from django.utils.translation import gettext as _

from recovery import audit, permissions, stream
from recovery.errors import NotFound, RevisionConflict, StateConflict
from recovery.ids import new_id
from recovery.instance_lock import lock_instance
from recovery.locks import Locks, transact
from recovery.models import ExecutionAudit, Task
from recovery.operations.commands import Document, checked, reason, revision
from recovery.permissions import Actor
from recovery.states import ResultOutcome, ResultSource, TaskStatus
from recovery.stream import Settled
from recovery.writes import change, change_all, insert

ACTION = "cancel_task"


@dataclass(frozen=True, kw_only=True)
class CancelTask(Document):
    expected_task_revision: str = checked(revision)
    reason: str = checked(reason)


def cancel_task(actor: Actor, task_id: str, expected_task_revision: str, reason: str) -> Task:
    """Cancels a QUEUED task and publishes CANCELLED; what it means for its step follows when that is consumed.

    Audited twice: on the task, and on the instance. Raises NotFound, PermissionDenied, ValidationFailed,
    RevisionConflict, StateConflict for a task that has started or ended.
    """
    task = Task.objects.filter(pk=task_id, namespace_id=actor.namespace_id).only("instance_id").first()
    if task is None:
        raise NotFound(_("There is nothing here that you may see."))
    instance_id = task.instance_id
    found = permissions.find_instance(actor, instance_id)
    permissions.require(actor, permissions.CANCEL_TASKS)
    permissions.require_active(found.namespace, found.application)
    CancelTask.parse({"expected_task_revision": expected_task_revision, "reason": reason})
    audit_id = new_id()

    def done() -> Task | None:
        """A commit whose answer was lost: this call has no key, but its audit has an id."""
        return Task.objects.filter(pk=task_id, executionaudit__pk=audit_id).first()

    def work(locks: Locks) -> Task:
        locked = lock_instance(locks, instance_id)
        task = locks.row(Task, task_id)
        _require_unstarted(task, expected_task_revision)
        before = {"task_id": task.pk, "task_status": str(task.status), "task_revision": str(task.revision)}
        settled = cancel_unstarted([task], locked.now)
        after = {"task_id": task.pk, "task_status": str(task.status), "task_revision": str(task.revision)}
        execution = ExecutionAudit(
            id=audit_id,
            task=task,
            actor=actor.username,
            action=ACTION,
            from_status=before["task_status"],
            to_status=after["task_status"],
            task_revision=task.revision,
            detail={"reason": reason},
            created_at=locked.now,
        )
        insert(execution)
        _entry, head = audit.append(
            locked.instance,
            actor=actor.username,
            action=ACTION,
            reason=reason,
            before=before,
            after=after,
            now=locked.now,
            execution_audit=execution,
        )
        change(locked.instance, audit_head=head)
        stream.publish(locks, settled, locked.now)
        return task

    return transact(work, before=done)


def cancel_unstarted(tasks: Sequence[Task], now: datetime) -> list[Settled]:
    """Moves locked QUEUED tasks to CANCELLED; answers what the caller has to publish at the very end."""
    by_revision = sorted(tasks, key=lambda task: task.revision)
    for at, group in groupby(by_revision, key=lambda task: task.revision):
        change_all(list(group), status=TaskStatus.CANCELLED, revision=at + 1, settled_at=now)
    return [Settled(task, ResultOutcome.CANCELLED, ResultSource.CONTROL, None) for task in tasks]


def _require_unstarted(task: Task, expected_revision: str) -> None:
    if expected_revision != str(task.revision):
        raise RevisionConflict(
            _("The task is at revision %(now)d, not %(seen)s. Read what is newer, then decide again.")
            % {"now": task.revision, "seen": expected_revision},
            rule="B11",
            current={"task_revision": str(task.revision)},
        )
    if task.status != TaskStatus.QUEUED:
        raise StateConflict(
            _("The task is %(status)s; only one that has not started can be cancelled.") % {"status": task.status},
            rule="B11",
        )
