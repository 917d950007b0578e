"""The end of an instance (B10)."""

from __future__ import annotations

from typing import Any

from recovery import flow
from recovery.instance_lock import Locked
from recovery.models import InboxEvent, StepClock, Task
from recovery.states import ClockStatus, GateState, InboxStatus, InstanceStatus, TaskStatus
from recovery.writes import change, change_where

OPEN_TASKS = (TaskStatus.QUEUED, TaskStatus.RUNNING, TaskStatus.NEEDS_REVIEW)
UNSETTLED = (InboxStatus.PENDING, InboxStatus.QUARANTINED)


def may_end(instance_id: str) -> bool:
    """B10: no task is open or unknown, and every event in the inbox is settled."""
    return not (
        Task.objects.filter(instance_id=instance_id, status__in=OPEN_TASKS).exists()
        or InboxEvent.objects.filter(instance_id=instance_id, status__in=UNSETTLED).exists()
    )


def end(locked: Locked, status: InstanceStatus, **fields: Any) -> None:
    """The instance takes a terminal status, with these other fields; its clocks are set aside, its place is free."""
    instance, application = locked.instance, locked.application
    change(instance, status=status, revision=instance.revision + 1, settled_at=locked.now, **fields)
    flow.set_gate(locked.gate, GateState.CLOSED)
    clocks = StepClock.objects.filter(instance_id=instance.pk)
    change_where(clocks, from_=[ClockStatus.ARMED], status=ClockStatus.CANCELLED)
    change(application, open_instances=application.open_instances - 1)
