"""Queues: load against quota, what holds them, who works on them, and what waits longest."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, Min

from recovery.console import counts
from recovery.console.keyset import Keyset
from recovery.models import ExecutionPermit, Queue, QueueQuota, QuotaHold, Task, TaskAttempt
from recovery.states import TaskStatus

PAGE = 25
"""Queues of one page."""
ROWS = 25
"""Tasks and permits that a queue's page names; the rest is a count."""
RECENT = 200
"""Released permits that are looked at for workers."""

_BY_NAME = Keyset("name", is_unique=True)
_BY_ID = Keyset()


@dataclass(frozen=True)
class Gauge:
    """Something in use against its limit."""

    used: int
    limit: int

    @property
    def percent(self) -> str:
        return f"{min(100 * self.used // max(self.limit, 1), 100)}%"

    @property
    def is_full(self) -> bool:
        return self.used >= self.limit


@dataclass(frozen=True)
class Line:
    """A queue in the list. Counts are capped; `oldest`: since when its oldest claimable task waits."""

    queue: Queue
    open: Gauge
    running: Gauge
    waiting: str
    held: str
    unknown: str
    oldest: datetime | None


def listed(namespace_id: str, after: str, now: datetime) -> tuple[list[Line], str | None]:
    """The next page by name, in four statements. Raises ValidationFailed for a cursor that no page has made."""
    found, following = _BY_NAME.page([Queue.objects.filter(namespace_id=namespace_id)], after, PAGE)
    return _lines(found, now), following


def _lines(queues: list[Queue], now: datetime) -> list[Line]:
    keys = [queue.pk for queue in queues]
    quotas = {quota.queue_id: quota for quota in QueueQuota.objects.filter(queue_id__in=keys)}
    ready = Task.objects.filter(queue_id__in=keys, status=TaskStatus.QUEUED, held=False, available_at__lte=now)
    oldest = dict(ready.order_by().values_list("queue_id").annotate(Min("available_at")))
    wanted = {}
    for key in keys:
        queued = Task.objects.filter(queue_id=key, status=TaskStatus.QUEUED)
        wanted[f"waiting {key}"] = queued.filter(held=False)
        wanted[f"held {key}"] = queued.filter(held=True)
        wanted[f"unknown {key}"] = Task.objects.filter(queue_id=key, status=TaskStatus.NEEDS_REVIEW)
    counted = {name: counts.shown(number) for name, number in counts.capped(wanted).items()} if wanted else {}
    return [
        Line(
            queue,
            Gauge(quotas[queue.pk].open_tasks, quotas[queue.pk].max_open_tasks),
            Gauge(quotas[queue.pk].running, quotas[queue.pk].max_running),
            waiting=counted[f"waiting {queue.pk}"],
            held=counted[f"held {queue.pk}"],
            unknown=counted[f"unknown {queue.pk}"],
            oldest=oldest.get(queue.pk),
        )
        for queue in queues
        if queue.pk in quotas
    ]


@dataclass(frozen=True)
class Worker:
    """A worker that was seen: how many permits it holds now, and its last sign of life."""

    name: str
    holds: int
    seen_at: datetime


@dataclass(frozen=True)
class QueuePage:
    """One queue. `unknown`: tasks of unknown effect, each with the permit that it still keeps or None (B2)."""

    line: Line
    permits: list[ExecutionPermit]
    following: str | None
    unknown: list[tuple[Task, ExecutionPermit | None]]
    holds: list[tuple[str, int]]
    workers: list[Worker]
    waiting: list[Task]

    @property
    def held(self) -> int:
        return sum(number for _name, number in self.holds)

    @property
    def is_counted_right(self) -> bool:
        """Counters always equal the open holds."""
        return self.held == self.line.open.used


def queue_page(queue: Queue, after: str, now: datetime) -> QueuePage:
    """Everything about one queue in ten statements. Raises ValidationFailed for a cursor that no page has made."""
    taken = ExecutionPermit.objects.filter(queue=queue, released_at=None)
    related = taken.select_related("task__instance", "attempt")
    permits, following = _BY_ID.page([related], after, ROWS)
    tasks = Task.objects.select_related("instance").defer("input", "policy")
    unknown = list(tasks.filter(queue=queue, status=TaskStatus.NEEDS_REVIEW).order_by("available_at", "pk")[:ROWS])
    kept = {permit.task_id: permit for permit in taken.filter(task_id__in=[task.pk for task in unknown])}
    open_holds = QuotaHold.objects.filter(queue=queue, released_at=None).order_by("application__name")
    queued = tasks.filter(queue=queue, status=TaskStatus.QUEUED, held=False, available_at__lte=now)
    return QueuePage(
        line=_lines([queue], now)[0],
        permits=permits,
        following=following,
        unknown=[(task, kept.get(task.pk)) for task in unknown],
        holds=list(open_holds.values_list("application__name").annotate(number=Count("pk"))),
        workers=_workers(queue),
        waiting=list(queued.order_by("available_at", "pk")[:ROWS]),
    )


def _workers(queue: Queue) -> list[Worker]:
    """Those that hold a permit, and those of the permits released last, by the newest sign of life."""
    mine = ExecutionPermit.objects.filter(queue=queue)
    taken = set(mine.filter(released_at=None).order_by("-pk").values_list("attempt_id", flat=True)[:RECENT])
    past = mine.filter(released_at__isnull=False).order_by("-released_at")
    recent = list(past.values_list("attempt_id", flat=True)[:RECENT])
    rows = TaskAttempt.objects.filter(pk__in=[*taken, *recent])
    seen: dict[str, Worker] = {}
    for key, name, at in rows.values_list("pk", "worker", "heartbeat_at"):
        known = seen.get(name, Worker(name, 0, at))
        seen[name] = Worker(name, known.holds + (key in taken), max(known.seen_at, at))
    return sorted(seen.values(), key=lambda worker: worker.seen_at, reverse=True)[:ROWS]
