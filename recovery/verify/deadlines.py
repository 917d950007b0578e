"""Deadlines: each follows from what was set first, and nothing that came later has moved it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.db.models import DateTimeField, DurationField, Exists, ExpressionWrapper, F, OuterRef, QuerySet, Subquery
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from recovery.models import (
    ActivationTask,
    PollRound,
    PollState,
    StepActivation,
    StepClock,
    Task,
    WaitState,
    WorkflowInstance,
)
from recovery.states import ClockKind, WaitKind
from recovery.verify.base import Scope, Violation, check, differ, found, pinned

MOVED = gettext_lazy("Its deadline is %(now)s, but what it follows from makes %(due)s.")

PERIODS = {
    WaitKind.TIMER: "delay_ms",
    WaitKind.SIGNAL: "total_timeout_ms",
    WaitKind.POLL_FINAL: "total_timeout_ms",
}
"""The pinned field from which the deadline of a wait follows."""


@check(gettext_lazy("An instance's deadline is its creation and the pinned duration."))
def instance_deadlines(scope: Scope) -> Iterator[Violation]:
    duration = F("definition_version__max_duration_ms")
    yield from _moved(scope.rows(WorkflowInstance).annotate(due=_later(F("created_at"), duration)))


@check(gettext_lazy("A retry has the deadline and the latest start of the task that it follows."))
def retry_deadlines(scope: Scope) -> Iterator[Violation]:
    retries = scope.rows(Task).exclude(retry_of=None)
    yield from _moved(retries.annotate(due=F("retry_of__deadline_at")))
    late = retries.filter(differ("latest_start_at", "retry_of__latest_start_at"))
    yield from found(late, _("Its latest start is not that of the task that it follows."))


@check(gettext_lazy("The deadline of a query or a wait counts from the first activation of its step."))
def wait_deadlines(scope: Scope) -> Iterator[Violation]:
    first = StepActivation.objects.filter(step=OuterRef("activation__step"), sequence=1)
    begun = Subquery(first.values("created_at")[:1], output_field=DateTimeField())

    def due(rows: QuerySet[Any], field: str) -> QuerySet[Any]:
        rows = rows.annotate(begun=begun, period=pinned(field, "activation__step__"))
        return rows.annotate(due=_later(F("begun"), F("period")))

    yield from _moved(due(scope.rows(PollState), "total_timeout_ms"))
    for kind, field in PERIODS.items():
        yield from _moved(due(scope.rows(WaitState).filter(kind=kind), field))


@check(gettext_lazy("The deadline of a business round is that of its first task, over all activations."))
def round_deadlines(scope: Scope) -> Iterator[Violation]:
    tasks = Task.objects.filter(
        activationtask__round=OuterRef("round"), owner_activation__step=OuterRef("activation__step")
    )
    first = tasks.order_by("owner_activation__sequence").values("deadline_at")[:1]
    yield from _moved(scope.rows(PollRound).annotate(due=Subquery(first)))


def _moved(rows: QuerySet[Any]) -> Iterator[Violation]:
    """Rows whose deadline is not what it has to be, which is annotated as `due`."""
    moved = rows.filter(differ("deadline_at", "due"))
    return found(moved, lambda row: MOVED % {"now": row.deadline_at or "-", "due": row.due or "-"})


def _later(moment: F, milliseconds: F) -> ExpressionWrapper:
    """In the database's arithmetic, to the microsecond."""
    period = ExpressionWrapper(milliseconds * 1000, output_field=DurationField())
    return ExpressionWrapper(moment + period, output_field=DateTimeField())


@check(gettext_lazy("A clock of a deadline is due at that deadline."))
def clocks(scope: Scope) -> Iterator[Violation]:
    of_activation = {"activation": OuterRef("activation")}
    targets: dict[tuple[str, ...], QuerySet[Any]] = {
        (ClockKind.TASK_DEADLINE,): ActivationTask.objects.filter(
            **of_activation, task__deadline_at=OuterRef("due_at")
        ),
        (ClockKind.POLL_DEADLINE,): PollState.objects.filter(**of_activation, deadline_at=OuterRef("due_at")),
        (ClockKind.TIMER, ClockKind.WAIT_DEADLINE): WaitState.objects.filter(
            **of_activation, deadline_at=OuterRef("due_at")
        ),
        (ClockKind.INSTANCE_DEADLINE,): WorkflowInstance.objects.filter(
            pk=OuterRef("instance"), deadline_at=OuterRef("due_at")
        ),
    }
    for kinds, target in targets.items():
        wrong = scope.rows(StepClock).filter(~Exists(target), kind__in=kinds)
        yield from found(
            wrong, lambda clock: _("The %(kind)s clock is due at no such deadline.") % {"kind": clock.kind}
        )
