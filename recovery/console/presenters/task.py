"""A task's page: what was tried, what came back by revision, and what it still holds."""

from __future__ import annotations

from dataclasses import dataclass

from recovery.console import words
from recovery.console.find import Found
from recovery.locks import snapshot
from recovery.models import ExecutionAudit, ExecutionPermit, QuotaHold, Task, TaskAttempt, TaskResult
from recovery.states import ResultSource, TaskStatus

SHOWN = 100
"""Attempts, results and audit entries of each kind that are shown."""


@dataclass(frozen=True)
class TaskPage:
    """Everything the page shows. `authoritative`: the id of the result that counts."""

    task: Task
    status: words.Mark
    attempts: list[TaskAttempt]
    results: list[TaskResult]
    authoritative: str
    permits: list[ExecutionPermit]
    hold: QuotaHold | None
    audits: list[ExecutionAudit]
    round: int | None
    successor: str

    @property
    def left(self) -> int:
        return self.task.max_attempts - self.task.attempt_count

    @property
    def statuses(self) -> list[str]:
        return [attempt.status for attempt in self.attempts]

    @property
    def is_unknown(self) -> bool:
        return self.task.status == TaskStatus.NEEDS_REVIEW


def task_page(found: Found, task: Task) -> TaskPage:
    """Six statements."""
    with snapshot():
        attempts = list(TaskAttempt.objects.filter(task_id=task.pk).order_by("attempt_no")[:SHOWN])
        results = list(
            TaskResult.objects.filter(task_id=task.pk)
            .select_related("attempt", "resultevent__inboxevent")
            .order_by("-task_revision")[:SHOWN]
        )
        permits = list(ExecutionPermit.objects.filter(task_id=task.pk).select_related("attempt").order_by("pk")[:SHOWN])
        hold = QuotaHold.objects.filter(task_id=task.pk).first()
        audits = list(ExecutionAudit.objects.filter(task_id=task.pk).order_by("created_at", "pk")[:SHOWN])
        successor = Task.objects.filter(retry_of_id=task.pk).values_list("pk", flat=True).first() or ""
    return TaskPage(
        task=task,
        status=words.mark("TaskStatus", task.status),
        attempts=attempts,
        results=results,
        authoritative=next((row.pk for row in results if row.source != ResultSource.LATE), ""),
        permits=permits,
        hold=hold,
        audits=audits,
        round=task.activationtask.round or None,
        successor=successor,
    )
