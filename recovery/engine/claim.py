"""Workers take tasks: leases, permits and a queue's running count. Never the application quota, never an instance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet, Value
from django.db.models.functions import Concat
from django.utils.crypto import salted_hmac
from django.utils.translation import gettext as _

from recovery import clock, permissions, receipts
from recovery.errors import NotFound
from recovery.locks import Locks, Rollback, transact
from recovery.models import ExecutionPermit, InstanceGate, Queue, QueueQuota, Task, TaskAttempt
from recovery.operations.commands import Document, Invalid, checked, label, text
from recovery.permissions import Actor
from recovery.states import AttemptStatus, GateState, QueueStatus, TaskStatus, TenantStatus
from recovery.writes import change, change_all, insert

MAX_TASKS = 100
"""Tasks of one claim."""
PAGE = 100
"""Candidates that are looked at before the queue is locked."""
PAGES = 10
"""Pages of tasks under closed gates that one claim sets aside; the next claim goes on from there."""


@dataclass(frozen=True, kw_only=True)
class Lease:
    """Leave to run a task once, until `attempt.lease_expires_at`, for whoever shows `attempt.lease_token`."""

    task: Task
    attempt: TaskAttempt

    @property
    def input(self) -> Any:
        return self.task.input


def claim(
    actor: Actor,
    queue_name: str,
    worker: str,
    max_tasks: int = 1,
    handlers: Sequence[tuple[str, str]] | None = None,
    key: str | None = None,
) -> list[Lease]:
    """Starts attempts at up to `max_tasks` tasks of a queue, the highest priority first; fewer, or none, is no error.

    Granted are tasks under an open gate, before their deadline and latest start, within the queue's `max_running`, one
    at a time for each concurrency key. `handlers`: only tasks of these (name, version) pairs. `key`: repeated with its
    key, a claim that leased something answers the same leases; one that leased nothing leaves the key free.

    Raises PermissionDenied without tasks:work and queues:use or where the namespace is suspended, NotFound for a queue
    that is not there, ValidationFailed, IdempotencyConflict.
    """
    wish = _Wish.parse({"worker": worker, "max_tasks": max_tasks, "handlers": handlers})
    asked = _Asked(actor, _queue(actor, queue_name), wish)
    if key is None:
        return _go_through(asked, lambda: transact(lambda locks: _grant(locks, asked)))
    receipts.check_key(key)
    return _find(asked, key) or _go_through(asked, lambda: _grant_once(asked, key))


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MAX_TASKS:
        raise Invalid(_("A whole number from 1 to %(limit)d.") % {"limit": MAX_TASKS})
    return value


def _pairs(value: Any) -> tuple[tuple[str, str], ...] | None:
    return None if value is None else tuple((text(handler, 128), text(version, 32)) for handler, version in value)


@dataclass(frozen=True, kw_only=True)
class _Wish(Document):
    worker: str = checked(partial(label, limit=128))
    max_tasks: int = checked(_count)
    handlers: tuple[tuple[str, str], ...] | None = checked(_pairs)


@dataclass(frozen=True)
class _Asked:
    """A claim whose right was checked. `queue` as it was before the lock."""

    actor: Actor
    queue: Queue
    wish: _Wish

    @property
    def quota_id(self) -> str:
        return self.queue.queuequota.pk

    @property
    def digest(self) -> str:
        return receipts.command_digest("claim", None, self.wish.content() | {"queue_id": self.queue.pk})


def _queue(actor: Actor, queue_name: str) -> Queue:
    known = Queue.objects.select_related("namespace", "queuequota")
    queue = known.filter(namespace_id=actor.namespace_id, name=queue_name).first()
    permissions.require_work(actor, permissions.WORK, queue_ids=[queue.pk] if queue else [])
    if queue is None:
        raise NotFound(_("There is no queue of this name."))
    permissions.require_active(queue.namespace)
    return queue


@dataclass(frozen=True)
class _Candidate:
    task_id: str
    concurrency_key: str | None
    gate_id: str
    gate_state: str

    @property
    def is_open(self) -> bool:
        return self.gate_state == GateState.OPEN


def _may_start(task: Task, now: datetime) -> bool:
    """Whether a locked task may start: it still waits, is due, and has reached neither deadline nor latest start."""
    ends = [end for end in (task.deadline_at, task.latest_start_at) if end is not None]
    return task.status == TaskStatus.QUEUED and task.available_at <= now and all(now < end for end in ends)


def _candidates(asked: _Asked, limit: int) -> list[_Candidate]:
    """The first claimable tasks, in one unlocked statement that walks the index `task_claim`."""
    now = clock.now()
    tasks: QuerySet[Task] = Task.objects.filter(
        Q(deadline_at=None) | Q(deadline_at__gt=now),
        Q(latest_start_at=None) | Q(latest_start_at__gt=now),
        queue_id=asked.queue.pk,
        status=TaskStatus.QUEUED,
        held=False,
        available_at__lte=now,
        queue__status=QueueStatus.OPEN,
        application__status=TenantStatus.ACTIVE,
    )
    if asked.actor.application_id is not None:
        tasks = tasks.filter(application_id=asked.actor.application_id)
    if asked.wish.handlers is not None:
        wanted = Q(pk__in=[])
        for handler, version in asked.wish.handlers:
            wanted |= Q(handler=handler, handler_version=version)
        tasks = tasks.filter(wanted)
    occupied = Concat(Value(f"{asked.queue.pk}:"), OuterRef("concurrency_key"))
    tasks = tasks.exclude(Exists(ExecutionPermit.objects.filter(active_key=occupied)))
    columns = ("pk", "concurrency_key", "instance__instancegate__pk", "instance__instancegate__state")
    rows = tasks.order_by("-priority", "available_at", "pk").values_list(*columns)[:limit]
    return [_Candidate(*row) for row in rows]


def _go_through(asked: _Asked, grant: Callable[[], list[Lease]]) -> list[Lease]:
    """Grants once there is a candidate under an open gate; sets those under closed gates aside, page by page.

    Looking before locking keeps idle workers away from the queue's row.
    """
    for _page in range(PAGES):
        page = _candidates(asked, PAGE)
        closed = [candidate for candidate in page if not candidate.is_open]
        aside = transact(lambda locks, closed=closed: _set_aside(locks, asked, closed)) if closed else 0
        if len(closed) < len(page):
            return grant()
        if not aside:
            break
    return []


def _set_aside(locks: Locks, asked: _Asked, candidates: Sequence[_Candidate]) -> int:
    """Marks tasks under closed gates as held, so that later claims do not read them again.

    Whoever opens a gate holds the queue's row too, and clears the mark afterwards: none is left behind.
    """
    locks.row(QueueQuota, asked.quota_id)
    gates = locks.rows(InstanceGate, {candidate.gate_id for candidate in candidates}, skip_locked=True)
    closed = {gate.instance_id for gate in gates if gate.state == GateState.CLOSED}
    tasks = locks.rows(Task, [candidate.task_id for candidate in candidates])
    held = [task for task in tasks if task.status == TaskStatus.QUEUED and task.instance_id in closed]
    change_all(held, held=True)
    return len(held)


def _grant(locks: Locks, asked: _Asked) -> list[Lease]:
    """Leases what may start. Candidates are read again under the queue's lock: there, no other claim can take them."""
    quota = locks.row(QueueQuota, asked.quota_id)
    room = min(asked.wish.max_tasks, quota.max_running - quota.running)
    if room <= 0:
        return []
    chosen = _one_for_each_key(_candidates(asked, PAGE + room))[:room]
    gates = locks.rows(InstanceGate, {candidate.gate_id for candidate in chosen}, skip_locked=True)
    is_open = {gate.pk for gate in gates if gate.state == GateState.OPEN}
    wanted = [candidate.task_id for candidate in chosen if candidate.gate_id in is_open]
    tasks = {task.pk: task for task in locks.rows(Task, wanted)}
    now = clock.now()
    # The reaper may have come between the two statements: it locks the task alone.
    ready = [tasks[key] for key in wanted if _may_start(tasks[key], now)]
    leases = [Lease(task=task, attempt=_attempt(asked, task, now)) for task in ready]
    insert(*(lease.attempt for lease in leases))
    insert(*(_permit(lease) for lease in leases))
    for lease in leases:
        count = lease.attempt.attempt_no
        change(lease.task, status=TaskStatus.RUNNING, revision=lease.task.revision + 1, attempt_count=count)
    change(quota, running=quota.running + len(leases))
    return leases


def _one_for_each_key(candidates: Sequence[_Candidate]) -> list[_Candidate]:
    """Those under open gates, without a second one of the same concurrency key."""
    chosen: dict[str, _Candidate] = {}
    for candidate in candidates:
        if candidate.is_open:
            key = f"key {candidate.concurrency_key}" if candidate.concurrency_key is not None else candidate.task_id
            chosen.setdefault(key, candidate)
    return list(chosen.values())


def _attempt(asked: _Asked, task: Task, now: datetime) -> TaskAttempt:
    attempt = TaskAttempt(
        task=task,
        attempt_no=task.attempt_count + 1,
        worker=asked.wish.worker,
        status=AttemptStatus.RUNNING,
        lease_expires_at=now + clock.milliseconds(asked.queue.lease_ms),
        started_at=now,
        heartbeat_at=now,
    )
    # Derived, not random: nobody can guess it, and it says nothing that the attempt's id does not.
    attempt.lease_token = salted_hmac("recovery.lease", attempt.pk, algorithm="sha256").hexdigest()
    return attempt


def _permit(lease: Lease) -> ExecutionPermit:
    task = lease.task
    key = None if task.concurrency_key is None else f"{task.queue_id}:{task.concurrency_key}"
    return ExecutionPermit(queue_id=task.queue_id, task=task, attempt=lease.attempt, active_key=key)


def _find(asked: _Asked, key: str) -> list[Lease] | None:
    """The leases of the claim that had this key, in their first order, as they are now."""
    found = receipts.find(asked.actor.namespace_id, key, asked.digest)
    if found is None:
        return None
    attempts = TaskAttempt.objects.select_related("task").in_bulk(found.data["attempt_ids"])
    return [Lease(task=attempts[pk].task, attempt=attempts[pk]) for pk in found.data["attempt_ids"]]


def _grant_once(asked: _Asked, key: str) -> list[Lease]:
    """`_grant` under an operation key, whose row comes before the queue's lock. Nothing leased: no trace of the key."""

    def work(locks: Locks) -> list[Lease]:
        now = clock.now()
        operation = receipts.claim(
            locks,
            namespace_id=asked.actor.namespace_id,
            key=key,
            action="claim",
            digest=asked.digest,
            actor=asked.actor.username,
            instance_id=None,
            now=now,
        )
        leases = _grant(locks, asked)
        if not leases:
            raise Rollback([])
        receipts.freeze(operation, {"attempt_ids": [lease.attempt.pk for lease in leases]}, 0, now)
        return leases

    return transact(work, before=lambda: _find(asked, key))
