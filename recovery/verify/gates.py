"""Gates and ends: nothing is granted where nothing may start, and nothing is left over where all has ended."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import groupby, islice
from typing import Any

from django.db.models import Exists, F, OuterRef, Q
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from recovery.models import (
    InboxEvent,
    InstanceGate,
    RootContinuation,
    StepClock,
    Task,
    TaskAttempt,
    WorkflowAudit,
    WorkflowInstance,
)
from recovery.states import (
    KNOWN,
    TERMINAL,
    ClockStatus,
    ContinuationKind,
    GateState,
    InboxStatus,
    InstanceStatus,
    ResultSource,
)
from recovery.verify.base import CHUNK, MOST, Scope, Violation, check, found, violation, walk

SKEW = timedelta(seconds=1)
"""How far the clocks of two machines may differ: who closed a gate and who was granted work read different ones."""


@check(gettext_lazy("A gate is open exactly while its instance runs, is not paused and nobody asked it to stop."))
def gates(scope: Scope) -> Iterator[Violation]:
    may_run = Q(instance__status=InstanceStatus.RUNNING, instance__paused=False, instance__stop_kind=None)
    rows = scope.rows(InstanceGate)
    yield from found(rows.filter(state=GateState.OPEN).exclude(may_run), _("The gate is open, but nothing may start."))
    yield from found(rows.filter(may_run, state=GateState.CLOSED), _("The gate is closed, but nothing keeps it so."))
    gate = InstanceGate.objects.filter(instance=OuterRef("pk"))
    yield from found(scope.rows(WorkflowInstance).filter(~Exists(gate)), _("The instance has no gate."))


@check(gettext_lazy("No attempt began while the gate was closed: by a review, a pause, a stop or the end."))
def grants(scope: Scope) -> Iterator[Violation]:
    """Whether a gate was closed at a moment is read from the audit, the STOP continuations and the end."""
    begun = scope.rows(TaskAttempt)
    ended = begun.filter(started_at__gt=F("task__instance__settled_at") + SKEW)
    yield from found(ended, _("The attempt began after its instance had ended."))
    stop = RootContinuation.objects.filter(
        instance=OuterRef("task__instance"), kind=ContinuationKind.STOP, created_at__lt=OuterRef("started_at") - SKEW
    )
    yield from found(begun.filter(Exists(stop)), _("The attempt began after a stop had closed the gate."))
    closings = scope.rows(WorkflowAudit).filter(action__in=("raise_review", "pause", "resume", "cancel", "continue"))
    audits = walk(closings.only("instance_id", "sequence", "after", "created_at"), "instance_id", "sequence")
    spans = (
        (instance_id, *span)
        for instance_id, entries in groupby(audits, key=lambda entry: entry.instance_id)
        for span in _closed(entries)
    )
    while chunk := list(islice(spans, CHUNK)):
        inside = Q(pk=None)
        for instance_id, closed_at, opened_at in chunk:
            span = Q(task__instance=instance_id, started_at__gt=closed_at + SKEW)
            inside |= span if opened_at is None else span & Q(started_at__lt=opened_at - SKEW)
        instances = {instance_id for instance_id, _closed_at, _opened_at in chunk}
        for attempt in begun.filter(inside, task__instance__in=instances)[: MOST + 1]:
            yield violation(attempt, _("The attempt began while a review or a pause had closed the gate."))


def _closed(entries: Iterator[WorkflowAudit]) -> Iterator[tuple[datetime, datetime | None]]:
    """When the gate was closed and when it opened again, if it did."""
    closed_at: datetime | None = None
    for entry in entries:
        state = _gate(entry.after)
        if state == GateState.CLOSED and closed_at is None:
            closed_at = entry.created_at
        elif state == GateState.OPEN and closed_at is not None:
            yield closed_at, entry.created_at
            closed_at = None
    if closed_at is not None:
        yield closed_at, None


def _gate(after: Any) -> str | None:
    """The gate's state in an entry: a word, or in control operations an object with the generation."""
    gate = after.get("gate")
    return gate.get("state") if isinstance(gate, dict) else gate


@check(gettext_lazy("An instance that has ended has a time of its end, and no work, event or clock is left over."))
def ends(scope: Scope) -> Iterator[Violation]:
    """B10. A late report may still come in, and is consumed."""
    instances = scope.rows(WorkflowInstance)
    ended, settled = Q(status__in=TERMINAL), Q(settled_at__isnull=False)
    yield from found(instances.filter(ended & ~settled), _("It has ended, but nobody knows when."))
    yield from found(instances.filter(settled & ~ended), _("It has not ended, but a time of its end is noted."))
    of_ended = Q(instance__status__in=TERMINAL)
    yield from found(
        scope.rows(Task).filter(of_ended).exclude(status__in=KNOWN), _("Its instance has ended without it.")
    )
    unsettled = scope.rows(InboxEvent).filter(of_ended).exclude(status=InboxStatus.PROCESSED)
    unsettled = unsettled.exclude(result_event__result__source=ResultSource.LATE)
    yield from found(unsettled, _("Its instance has ended without consuming it."))
    armed = scope.rows(StepClock).filter(of_ended, status=ClockStatus.ARMED)
    yield from found(armed, _("The clock is armed, but its instance has ended."))
