"""Plain writes on an instance's flow that operations and engine share. The instance and its gate must be locked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from django.db.models import Max

from recovery import audit, prompts
from recovery.models import (
    ActivationTask,
    ApplicationQuota,
    InstanceGate,
    QueueQuota,
    QuotaHold,
    RootContinuation,
    StepCheckpoint,
    StepClock,
    Task,
    WorkflowInstance,
)
from recovery.states import (
    TERMINAL,
    CheckpointStatus,
    ClockKind,
    ClockStatus,
    ContinuationKind,
    ContinuationStatus,
    GateState,
    InstanceStatus,
    StopKind,
)
from recovery.writes import change, change_all, change_where, insert

PLATFORM = "platform"
"""The actor in audits of what no person decided."""


def set_gate(gate: InstanceGate, state: GateState) -> None:
    """Opens or closes the gate; each change is a new generation, saying it again changes nothing."""
    if gate.state != state:
        change(gate, state=state, generation=gate.generation + 1)


def continue_root(instance: WorkflowInstance, kind: ContinuationKind, now: datetime) -> RootContinuation:
    """Tells the scheduler that it owes the instance something."""
    last = RootContinuation.objects.filter(instance_id=instance.pk).aggregate(last=Max("sequence"))["last"] or 0
    row = RootContinuation(
        instance=instance, sequence=last + 1, kind=kind, status=ContinuationStatus.PENDING, created_at=now
    )
    insert(row)
    prompts.instance(instance.pk)
    return row


def go_on(instance: WorkflowInstance, gate: InstanceGate, now: datetime) -> None:
    """A fact came in that the stop runner or, with an open gate, the scheduler has to look at.

    With the gate closed nobody is told: whoever opens it writes a continuation (B5).
    """
    if instance.stop_kind and instance.status not in TERMINAL:
        continue_root(instance, ContinuationKind.STOP, now)
    elif gate.state == GateState.OPEN:
        continue_root(instance, ContinuationKind.ADVANCE, now)


def raise_review(instance: WorkflowInstance, gate: InstanceGate, reason: str, now: datetime) -> None:
    """B5: closes the gate, says why and since when, sets clocks for next rounds aside, audits. The first reason stands.

    Does not raise the instance's revision: the caller does, once for the fact that it records.
    """
    if instance.status == InstanceStatus.NEEDS_REVIEW:
        return
    before = {"status": instance.status, "gate": gate.state}
    after = {"status": InstanceStatus.NEEDS_REVIEW, "gate": GateState.CLOSED, "review_reason": reason}
    head = audit.append(
        instance, actor=PLATFORM, action="raise_review", reason=reason, before=before, after=after, now=now
    )[1]
    change(instance, status=InstanceStatus.NEEDS_REVIEW, review_reason=reason, review_since=now, audit_head=head)
    set_gate(gate, GateState.CLOSED)
    set_rounds_aside(instance.pk)


def intend_stop(instance: WorkflowInstance, gate: InstanceGate, kind: StopKind) -> None:
    """Records a stop intent; the first one stands (B13), and a review stays (B6). The gate closes.

    Neither raises the revision nor writes the STOP continuation: the caller does, once for the fact that it records.
    """
    if instance.stop_kind is None:
        change(instance, stop_kind=kind)
    if instance.status == InstanceStatus.RUNNING:
        change(instance, status=InstanceStatus.CANCELLING)
    set_gate(gate, GateState.CLOSED)
    set_rounds_aside(instance.pk)


def set_rounds_aside(instance_id: str) -> None:
    """B5: a closed gate sets the clocks for next rounds aside; they are armed again from `next_poll_at`."""
    rows = StepClock.objects.filter(instance_id=instance_id, kind=ClockKind.NEXT_ROUND)
    change_where(rows, from_=[ClockStatus.ARMED], status=ClockStatus.CANCELLED)


def close_activation(activation_ids: Iterable[str], now: datetime) -> None:
    """An activation owes nothing any more: its armed clocks are set aside, its open checkpoints closed."""
    keys = sorted(activation_ids)
    clocks = StepClock.objects.filter(activation_id__in=keys)
    change_where(clocks, from_=[ClockStatus.ARMED], status=ClockStatus.CANCELLED)
    checkpoints = StepCheckpoint.objects.filter(activation_id__in=keys)
    change_where(checkpoints, from_=[CheckpointStatus.OPEN], status=CheckpointStatus.CLOSED, closed_at=now)


def has_room(application: ApplicationQuota, queue: QueueQuota) -> bool:
    return application.open_tasks < application.max_open_tasks and queue.open_tasks < queue.max_open_tasks


def give_back(
    task_ids: Sequence[str], application: ApplicationQuota, queues: Iterable[QueueQuota], now: datetime
) -> None:
    """Gives back the open holds of settled tasks, and their counts. Quota rows are locked; twice changes nothing."""
    holds = list(QuotaHold.objects.filter(task_id__in=sorted(task_ids), released_at=None).order_by("pk"))
    if not holds:
        return
    change_all(holds, released_at=now)
    change(application, open_tasks=application.open_tasks - len(holds))
    for queue in queues:
        if count := sum(hold.queue_id == queue.queue_id for hold in holds):
            change(queue, open_tasks=queue.open_tasks - count)


def enqueue_all(
    tasks: Sequence[tuple[Task, int]], application: ApplicationQuota, queues: Iterable[QueueQuota], now: datetime
) -> None:
    """Inserts new QUEUED tasks, each with its round: with their owners' halves, their holds and the counts of both.

    The quota rows are locked, and the caller has checked that there is room.
    """
    if not tasks:
        return
    insert(*(task for task, _round in tasks))
    insert(
        *(
            ActivationTask(activation_id=task.owner_activation_id, task=task, round=round_number)
            for task, round_number in tasks
        )
    )
    insert(
        *(
            QuotaHold(application_id=task.application_id, queue_id=task.queue_id, task=task, held_at=now)
            for task, _round in tasks
        )
    )
    change(application, open_tasks=application.open_tasks + len(tasks))
    for queue in queues:
        if count := sum(task.queue_id == queue.queue_id for task, _round in tasks):
            change(queue, open_tasks=queue.open_tasks + count)
    for task, _round in tasks:
        prompts.queue(task.queue_id)


def enqueue(
    task: Task, application: ApplicationQuota, queue: QueueQuota, now: datetime, *, round_number: int = 0
) -> None:
    """`enqueue_all` for one task."""
    enqueue_all([(task, round_number)], application, [queue], now)
