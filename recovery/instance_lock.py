"""The full lock order down to an instance's gate, in one place (G7)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from recovery import clock, definitions
from recovery.definitions import Definition
from recovery.locks import Locks
from recovery.models import ApplicationQuota, InstanceGate, ManagementOperation, QueueQuota, WorkflowInstance
from recovery.states import GateState
from recovery.writes import change


@dataclass(frozen=True)
class Locked:
    """An instance with everything that is locked before its children. `now`: read once, after the last of them."""

    application: ApplicationQuota
    operation: ManagementOperation | None
    queues: list[QueueQuota]
    instance: WorkflowInstance
    gate: InstanceGate
    definition: Definition
    now: datetime

    def queue(self, queue_id: str | None) -> QueueQuota:
        """The quota row of one of the pinned queues."""
        return next(quota for quota in self.queues if quota.queue_id == queue_id)

    @property
    def is_open(self) -> bool:
        """Whether new work may be granted to the instance."""
        return self.gate.state == GateState.OPEN


def lock_application(locks: Locks, quota_id: str) -> ApplicationQuota:
    """The first lock of the full order. It is really changed: a lock that is only read protects nothing on Galera."""
    quota = locks.row(ApplicationQuota, quota_id)
    change(quota, lock_seq=quota.lock_seq + 1)
    return quota


def lock_instance(
    locks: Locks, instance: str | WorkflowInstance, *, operation: Callable[[], ManagementOperation] | None = None
) -> Locked:
    """Locks application quota, (the operation key,) pinned queues, instance and gate, in this order.

    `instance`: its id, or the row as `permissions.find_instance` found it, of which only keys that never change are
    used. `operation` claims the key of a keyed call, at its place in the order. Raises WorkflowInstance.DoesNotExist.
    """
    if isinstance(instance, str):
        # One statement; what may change is read under its lock.
        keys = ("pk", "definition_version_id", "application__applicationquota__pk", "instancegate__pk")
        instance_id, version_id, quota_id, gate_id = WorkflowInstance.objects.values_list(*keys).get(pk=instance)
    else:
        instance_id, version_id = instance.pk, instance.definition_version_id
        quota_id, gate_id = instance.application.applicationquota.pk, instance.instancegate.pk
    definition = definitions.load(version_id)
    application = lock_application(locks, quota_id)
    claimed = operation() if operation else None
    queues = locks.rows(QueueQuota, definition.quota_ids)
    row = locks.row(WorkflowInstance, instance_id)
    gate = locks.row(InstanceGate, gate_id)
    return Locked(application, claimed, queues, row, gate, definition, clock.now())
