"""Counters equal what is really taken: open holds, permits, instances."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.db.models import CharField, Exists, F, OuterRef, Q, QuerySet, Value
from django.db.models.functions import Concat
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from recovery.models import (
    ApplicationQuota,
    ExecutionPermit,
    InboxEvent,
    QueueQuota,
    QuotaHold,
    Task,
    TaskAttempt,
    WorkflowInstance,
)
from recovery.states import KNOWN, TERMINAL, AttemptStatus, InboxStatus, TaskStatus
from recovery.verify.base import Scope, Violation, check, counted, found


@check(gettext_lazy("An application counts as many open tasks as it has open holds."))
def application_tasks(scope: Scope) -> Iterator[Violation]:
    holds = QuotaHold.objects.filter(application=OuterRef("application"), released_at=None)
    yield from _miscounted(scope.rows(ApplicationQuota), "open_tasks", holds, "application")


@check(gettext_lazy("An application counts as many open instances as have not ended."))
def application_instances(scope: Scope) -> Iterator[Violation]:
    instances = WorkflowInstance.objects.exclude(status__in=TERMINAL)
    instances = instances.filter(namespace=OuterRef("application__namespace"), application=OuterRef("application"))
    yield from _miscounted(scope.rows(ApplicationQuota), "open_instances", instances, "application")


@check(gettext_lazy("A queue counts as many open tasks as it has open holds."))
def queue_tasks(scope: Scope) -> Iterator[Violation]:
    holds = QuotaHold.objects.filter(queue=OuterRef("queue"), released_at=None)
    yield from _miscounted(scope.rows(QueueQuota), "open_tasks", holds, "queue")


@check(gettext_lazy("A queue counts as many running executions as it has permits that are taken."))
def queue_running(scope: Scope) -> Iterator[Violation]:
    permits = ExecutionPermit.objects.filter(queue=OuterRef("queue"), released_at=None)
    yield from _miscounted(scope.rows(QueueQuota), "running", permits, "queue")


def _miscounted(quotas: QuerySet[Any], counter: str, rows: QuerySet[Any], key: str) -> Iterator[Violation]:
    wrong = quotas.annotate(real=counted(rows, key)).exclude(**{counter: F("real")})
    sentence = _("%(counter)s says %(said)d, but there are %(real)d.")
    return found(
        wrong, lambda quota: sentence % {"counter": counter, "said": getattr(quota, counter), "real": quota.real}
    )


@check(
    gettext_lazy("An open task has an open hold of its own application and queue; a consumed one has given it back.")
)
def holds(scope: Scope) -> Iterator[Violation]:
    hold = QuotaHold.objects.filter(
        task=OuterRef("pk"), application=OuterRef("application"), queue=OuterRef("queue"), released_at=None
    )
    tasks = scope.rows(Task).exclude(status__in=KNOWN)
    yield from found(tasks.filter(~Exists(hold)), _("The task is open, but holds nothing of its quotas."))
    unconsumed = InboxEvent.objects.filter(
        task=OuterRef("task"), status__in=(InboxStatus.PENDING, InboxStatus.QUARANTINED)
    )
    kept = scope.rows(QuotaHold).filter(~Exists(unconsumed), released_at=None, task__status__in=KNOWN)
    yield from found(kept, _("The task is known and its result consumed, but the hold is still open."))


@check(gettext_lazy("A running execution, and one of unknown effect that nobody reviewed, has a permit; no other has."))
def permits(scope: Scope) -> Iterator[Violation]:
    permit = ExecutionPermit.objects.filter(attempt=OuterRef("pk"), task=OuterRef("task"))
    without = scope.rows(TaskAttempt).filter(~Exists(permit))
    yield from found(without, _("The attempt never had a permit."))
    runs = Q(attempt__status=AttemptStatus.RUNNING)
    unknown = Q(attempt__status=AttemptStatus.UNKNOWN, task__status=TaskStatus.NEEDS_REVIEW)
    of_all = scope.rows(ExecutionPermit)
    yield from found(of_all.filter(runs | unknown).exclude(released_at=None), _("The permit was given back too early."))
    yield from found(of_all.filter(released_at=None).exclude(runs | unknown), _("The permit was not given back."))


@check(gettext_lazy("A permit occupies its task's concurrency key as long as it is taken, and no longer."))
def concurrency_keys(scope: Scope) -> Iterator[Violation]:
    permits = scope.rows(ExecutionPermit)
    free = permits.exclude(released_at=None).exclude(active_key=None)
    yield from found(free, _("The permit was given back, but still occupies its key."))
    key = Concat(F("queue_id"), Value(":"), F("task__concurrency_key"), output_field=CharField())
    taken = permits.filter(released_at=None)
    keyless = taken.filter(task__concurrency_key=None).exclude(active_key=None)
    yield from found(keyless, _("The permit occupies a key that its task has not."))
    keyed = taken.exclude(task__concurrency_key=None).annotate(wanted=key)
    yield from found(keyed.exclude(active_key=F("wanted")), _("The permit does not occupy its task's key."))


@check(gettext_lazy("A running task has one running attempt; no other task has any."))
def running_attempts(scope: Scope) -> Iterator[Violation]:
    running = TaskAttempt.objects.filter(task=OuterRef("pk"), status=AttemptStatus.RUNNING)
    tasks = scope.rows(Task).annotate(real=counted(running, "task"))
    wrong = tasks.filter(status=TaskStatus.RUNNING).exclude(real=1) | tasks.exclude(status=TaskStatus.RUNNING).exclude(
        real=0
    )
    yield from found(
        wrong,
        lambda task: (
            _("The task is %(status)s with %(real)d running attempts.") % {"status": task.status, "real": task.real}
        ),
    )
