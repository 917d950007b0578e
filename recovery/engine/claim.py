"""Workers take tasks: leases, permits and a queue's running count. Never the application quota, never an instance."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from django.db.models import Q, QuerySet
from django.utils.crypto import salted_hmac
from django.utils.translation import gettext as _

from recovery import clock, permissions, receipts
from recovery.errors import NotFound
from recovery.locks import Locks, Rollback, transact
from recovery.models import Application, ExecutionPermit, InstanceGate, Queue, QueueQuota, Task, TaskAttempt
from recovery.operations.commands import Document, Invalid, checked, label, text
from recovery.permissions import Actor
from recovery.states import AttemptStatus, GateState, QueueStatus, TaskStatus, TenantStatus
from recovery.writes import change, change_all, insert

MAX_TASKS = 100
"""Tasks of one claim."""
MAX_HANDLERS = 500
"""Pairs of one claim: SQLite takes no longer condition."""
LOOKAHEAD = 20
"""Candidates that are read beyond what is wanted: some share a concurrency key, or their gate is closed."""
ROUNDS = 10
"""How often one claim looks further because it met closed gates only; the next claim goes on from there."""


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
    queue = _queue(actor, queue_name)
    suspended = Application.objects.filter(namespace_id=actor.namespace_id, status=TenantStatus.SUSPENDED)
    asked = _Asked(actor, queue, wish, tuple(suspended.values_list("pk", flat=True)))
    if key is not None and (leases := _find(asked, receipts.check_key(key))) is not None:
        return leases
    if queue.status == QueueStatus.PAUSED or queue.queuequota.running >= queue.queuequota.max_running:
        return []
    work = _grant if key is None else partial(_grant_once, key=key)
    return _go_through(asked, work)


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MAX_TASKS:
        raise Invalid(_("A whole number from 1 to %(limit)d.") % {"limit": MAX_TASKS})
    return value


def _pairs(value: Any) -> tuple[tuple[str, str], ...] | None:
    if value is None:
        return None
    is_list = isinstance(value, list | tuple) and len(value) <= MAX_HANDLERS
    if not is_list or not all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in value):
        raise Invalid(_("At most %(limit)d pairs of handler and version.") % {"limit": MAX_HANDLERS})
    return tuple((text(handler, 128), text(version, 32)) for handler, version in value)


@dataclass(frozen=True, kw_only=True)
class _Wish(Document):
    worker: str = checked(partial(label, limit=128))
    max_tasks: int = checked(_count)
    handlers: tuple[tuple[str, str], ...] | None = checked(_pairs)


@dataclass(frozen=True)
class _Asked:
    """A claim whose right was checked. `suspended`: applications that are granted nothing."""

    actor: Actor
    queue: Queue
    wish: _Wish
    suspended: tuple[str, ...]

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
    instance_id: str
    concurrency_key: str | None


@dataclass(frozen=True)
class _Granted:
    """`behind`: candidates that were met under closed gates."""

    leases: list[Lease]
    behind: list[_Candidate]


def _may_start(task: Task, now: datetime) -> bool:
    """Whether a locked task may start: it still waits, is due, and has reached neither deadline nor latest start."""
    ends = [end for end in (task.deadline_at, task.latest_start_at) if end is not None]
    return task.status == TaskStatus.QUEUED and task.available_at <= now and all(now < end for end in ends)


def _claimable(asked: _Asked) -> QuerySet[Task]:
    """Unlocked, and of one table: for a join the database leaves the index `task_claim` aside."""
    now = clock.now()
    tasks: QuerySet[Task] = Task.objects.filter(
        Q(deadline_at=None) | Q(deadline_at__gt=now),
        Q(latest_start_at=None) | Q(latest_start_at__gt=now),
        queue_id=asked.queue.pk,
        status=TaskStatus.QUEUED,
        held=False,
        available_at__lte=now,
    )
    if asked.suspended:
        tasks = tasks.exclude(application_id__in=asked.suspended)
    if asked.actor.application_id is not None:
        tasks = tasks.filter(application_id=asked.actor.application_id)
    if asked.wish.handlers is not None:
        wanted = Q(pk__in=[])
        for handler, version in asked.wish.handlers:
            wanted |= Q(handler=handler, handler_version=version)
        tasks = tasks.filter(wanted)
    return tasks.order_by("-priority", "available_at", "pk")


def _candidates(asked: _Asked, limit: int) -> list[_Candidate]:
    """The first claimable tasks whose concurrency key is free."""
    permits = ExecutionPermit.objects.filter(queue_id=asked.queue.pk, released_at=None).exclude(active_key=None)
    taken = list(permits.values_list("task__concurrency_key", flat=True))
    tasks = _claimable(asked).filter(Q(concurrency_key=None) | ~Q(concurrency_key__in=taken))
    return [_Candidate(*row) for row in tasks.values_list("pk", "instance_id", "concurrency_key")[:limit]]


def _go_through(asked: _Asked, grant: Callable[[_Asked], _Granted]) -> list[Lease]:
    """Grants what there is; sets tasks under closed gates aside, and looks further while they were all it saw.

    Looking before locking keeps idle workers away from the queue's row.
    """
    for _round in range(ROUNDS):
        if not _claimable(asked).values_list("pk")[:1]:  # exists() drops the order, and with it the index
            break
        granted = grant(asked)
        aside = transact(partial(_set_aside, asked=asked, candidates=granted.behind)) if granted.behind else 0
        if granted.leases or not aside:
            return granted.leases
    return []


def _set_aside(locks: Locks, asked: _Asked, candidates: Sequence[_Candidate]) -> int:
    """Marks tasks under closed gates as held, so that later claims do not read them again.

    Whoever opens a gate holds the queue's row too, and clears the mark afterwards: none is left behind.
    """
    gates = InstanceGate.objects.filter(instance_id__in={candidate.instance_id for candidate in candidates})
    keys = list(gates.values_list("pk", flat=True))
    locks.row(QueueQuota, asked.quota_id)
    rows = locks.rows(InstanceGate, keys, skip_locked=True)
    closed = {gate.instance_id for gate in rows if gate.state == GateState.CLOSED}
    tasks = locks.rows(Task, [candidate.task_id for candidate in candidates])
    held = [task for task in tasks if task.status == TaskStatus.QUEUED and task.instance_id in closed]
    change_all(held, held=True)
    return len(held)


def _grant(asked: _Asked) -> _Granted:
    return transact(lambda locks: _lease(locks, asked))


def _lease(locks: Locks, asked: _Asked) -> _Granted:
    """Leases what may start. Candidates are read under the queue's lock: there, no other claim can take them."""
    quota = locks.row(QueueQuota, asked.quota_id)
    room = min(asked.wish.max_tasks, quota.max_running - quota.running)
    candidates = _candidates(asked, room + LOOKAHEAD) if room > 0 else []
    gates = InstanceGate.objects.filter(instance_id__in={candidate.instance_id for candidate in candidates})
    is_open = dict(gates.filter(state=GateState.OPEN).values_list("instance_id", "pk"))
    behind = [candidate for candidate in candidates if candidate.instance_id not in is_open]
    chosen = _one_for_each_key(candidate for candidate in candidates if candidate.instance_id in is_open)[:room]
    if not chosen:
        return _Granted([], behind)
    rows = locks.rows(InstanceGate, [is_open[candidate.instance_id] for candidate in chosen], skip_locked=True)
    still_open = {gate.instance_id for gate in rows if gate.state == GateState.OPEN}
    wanted = [candidate.task_id for candidate in chosen if candidate.instance_id in still_open]
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
    if leases:
        change(quota, running=quota.running + len(leases))
    return _Granted(leases, behind)


def _one_for_each_key(candidates: Iterable[_Candidate]) -> list[_Candidate]:
    """The candidates without a second one of the same concurrency key."""
    first: dict[tuple[str | None, str], _Candidate] = {}
    for candidate in candidates:
        key = candidate.concurrency_key
        first.setdefault((key, candidate.task_id if key is None else ""), candidate)
    return list(first.values())


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


def _grant_once(asked: _Asked, key: str) -> _Granted:
    """Grants under an operation key, whose row comes before the queue's lock. Nothing leased: no trace of the key."""

    def replay() -> _Granted | None:
        leases = _find(asked, key)
        return None if leases is None else _Granted(leases, [])

    def work(locks: Locks) -> _Granted:
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
        granted = _lease(locks, asked)
        if not granted.leases:
            raise Rollback(granted)
        receipts.freeze(operation, {"attempt_ids": [lease.attempt.pk for lease in granted.leases]}, 0, now)
        return granted

    return transact(work, before=replay)
