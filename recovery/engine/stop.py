"""The stop runner: cancels what has not started, closes what waits, and ends the instance when all work is settled."""

from __future__ import annotations

from django.db.models import F, Q, QuerySet

from recovery import audit, flow, stream
from recovery.case import load_histories
from recovery.engine import signals, terminal
from recovery.engine.cancel_task import cancel_unstarted
from recovery.engine.leaves import Leaf, close_wait, conclude, lock_leaves
from recovery.instance_lock import Locked, lock_instance
from recovery.locks import Locks, transact
from recovery.models import RootContinuation, StepActivation, Task, WorkflowStep
from recovery.operations import history
from recovery.states import (
    LEAVES,
    TERMINAL,
    ActivationStatus,
    ContinuationKind,
    ContinuationStatus,
    InstanceStatus,
    ReviewReason,
    StepStatus,
    StopKind,
    TaskStatus,
    WaitStatus,
)
from recovery.writes import change, change_all, change_where

CHUNK = 100
"""Waits, or tasks, of one transaction."""


def stop(instance_id: str) -> bool:
    """Does a chunk of what STOP continuations owe; answers whether there was anything.

    First the signals that were accepted before the stop decide (B8), then open waits close and unstarted tasks are
    cancelled (B6), also in review and whether paused or not (G16). With nothing unstarted left, a CANCELLING
    instance whose work is all settled (B10) and whose history fits together (G11) becomes CANCELLED or FAILED.
    """
    if not _owed(instance_id).exists():
        return False
    signals.read(instance_id)
    return transact(lambda locks: _stop(locks, instance_id))


def _owed(instance_id: str) -> QuerySet[RootContinuation]:
    return RootContinuation.objects.filter(
        instance_id=instance_id, status=ContinuationStatus.PENDING, kind=ContinuationKind.STOP
    ).order_by("sequence")


def _stop(locks: Locks, instance_id: str) -> bool:
    locked = lock_instance(locks, instance_id)
    owed = list(_owed(instance_id))
    if not owed:
        return False
    if locked.instance.status not in TERMINAL:
        if signals.adjudicate_locked(locked, locks):
            return True
        if signals.pending(instance_id).exists():
            return False  # they compete with answers that are not consumed yet; whoever consumes them comes back
        if _close_waits(locks, locked) or _cancel_tasks(locks, locked):
            return True
        _end(locks, locked)
    change_all(owed, status=ContinuationStatus.DONE, done_at=locked.now)
    return True


def _close_waits(locks: Locks, locked: Locked) -> bool:
    """Closes a chunk of open waits; answers whether there was one. A query that runs is settled by its result."""
    waiting = WorkflowStep.objects.filter(
        Q(status=StepStatus.WAITING) | Q(current_activation__waitstate__status=WaitStatus.WAITING),
        instance=locked.instance,
    ).order_by("pk")
    keys = list(waiting.values_list("pk", flat=True)[:CHUNK])
    if not keys:
        return False
    for leaf in lock_leaves(locks, locked.definition, keys).values():
        _close_wait(locked, leaf)
    return True


def _close_wait(locked: Locked, leaf: Leaf) -> None:
    if leaf.step.status == StepStatus.WAITING:
        conclude(leaf, StepStatus.CANCELLED, locked.now)
        return
    close_wait(leaf, WaitStatus.CANCELLED, locked.now)
    if not leaf.is_open:
        flow.close_activation([leaf.activation.pk], locked.now)


def _cancel_tasks(locks: Locks, locked: Locked) -> bool:
    """Cancels a chunk of unstarted tasks; answers whether there was one. What it means is consumed like a result."""
    unstarted = Task.objects.filter(instance=locked.instance, status=TaskStatus.QUEUED).order_by("pk")
    keys = list(unstarted.values_list("pk", flat=True)[:CHUNK])
    # The reaper fails tasks past their deadline without the instance's lock.
    tasks = [task for task in locks.rows(Task, keys) if task.status == TaskStatus.QUEUED]
    stream.publish(locks, cancel_unstarted(tasks, locked.now), locked.now)
    return bool(keys)


def _end(locks: Locks, locked: Locked) -> None:
    """CANCELLED or FAILED, if nothing is in the way: an open or unknown task, an unsettled event, a step in review."""
    instance = locked.instance
    in_review = WorkflowStep.objects.filter(instance=instance, status=StepStatus.NEEDS_REVIEW)
    if instance.status != InstanceStatus.CANCELLING or not terminal.may_end(instance.pk) or in_review.exists():
        return
    leaves = list(WorkflowStep.objects.filter(instance=instance, kind__in=LEAVES))
    histories = load_histories(leaves, locked.definition, locks)
    problems = [problem for case in histories.values() for problem in history.problems(case, instance)]
    if problems:
        flow.raise_review(instance, locked.gate, ReviewReason.HISTORY_INCONSISTENT, locked.now)
        change(instance, revision=instance.revision + 1)
        return
    _cancel_steps(locked)
    status = InstanceStatus.FAILED if instance.stop_kind == StopKind.FAIL else InstanceStatus.CANCELLED
    before = {"status": str(instance.status), "stop_kind": str(instance.stop_kind)}
    after = {"status": str(status), "revision": str(instance.revision + 1)}
    _entry, head = audit.append(
        instance, actor=flow.PLATFORM, action="stop", reason="", before=before, after=after, now=locked.now
    )
    terminal.end(locked, status, audit_head=head)


def _cancel_steps(locked: Locked) -> None:
    """What never came to a conclusion: steps that were not reached, and the containers around the rest."""
    change_where(
        WorkflowStep.objects.filter(instance=locked.instance),
        from_=[StepStatus.PENDING, StepStatus.RUNNING, StepStatus.WAITING],
        status=StepStatus.CANCELLED,
        revision=F("revision") + 1,
        settled_at=locked.now,
    )
    change_where(
        StepActivation.objects.filter(instance=locked.instance),
        from_=[ActivationStatus.RUNNING, ActivationStatus.WAITING],
        status=ActivationStatus.CANCELLED,
        settled_at=locked.now,
    )
