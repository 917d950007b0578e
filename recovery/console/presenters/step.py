"""A step's page: its activations side by side, its budget as a ledger, every deadline, and its signals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from recovery import clock, definitions
from recovery.case import ActivationCase, Case, StepCase, TaskCase
from recovery.console import times, words
from recovery.console.find import Found
from recovery.console.presenters import instance, options
from recovery.console.presenters.chain import Figure, figure
from recovery.locks import snapshot
from recovery.models import Queue, Signal, StepClock, WorkflowAudit
from recovery.operations import explain
from recovery.states import StepKind

COLUMNS = 6
"""Activations side by side; older ones are behind a link."""
SIGNALS = 50


@dataclass(frozen=True)
class Column:
    """One activation. `made_by`: the audit entry that made it, None for the first; `is_same_input`: as the first."""

    activation: ActivationCase
    status: words.Mark
    cause: Any
    made_by: WorkflowAudit | None
    concluded: WorkflowAudit | None
    is_current: bool
    is_same_input: bool
    rounds: tuple[tuple[int, bool], ...]

    @property
    def covered(self) -> str:
        poll = self.activation.poll
        return f"[{poll.first_round}, {poll.used_rounds}]" if poll else ""


@dataclass(frozen=True)
class LedgerRow:
    """One task's part of the budget."""

    work: str
    sequence: int
    round: int | None
    task: TaskCase
    pinned: int
    before: int
    allowed: int
    used: int
    is_current: bool

    @property
    def left(self) -> int:
        return self.allowed - self.used


@dataclass(frozen=True)
class Due:
    """A deadline of the step: what it counts from, and whether its clock runs."""

    word: Any
    origin: str
    at: datetime | None
    state: str
    runs: bool


@dataclass(frozen=True)
class StepPage:
    """Everything the page shows, read at one moment."""

    case: Case
    step: StepCase
    status: words.Mark
    review: words.Mark | None
    limits: list[str]
    queue: str
    deadlines: list[instance.Until]
    next: options.NextThing | None
    answers: list[options.Answer]
    columns: list[Column]
    hidden: int
    figure: Figure | None
    ledger: list[LedgerRow]
    dues: list[Due]
    signals: list[Signal]
    live: int
    permits: int

    @property
    def is_poll(self) -> bool:
        return self.step.spec.kind == StepKind.POLL

    @property
    def left(self) -> int | None:
        """Attempts left of the present budget."""
        return self.ledger[-1].left if self.ledger else None


def step_page(found: Found, step_key: str, *, everything: bool = False) -> StepPage:
    """Reads the page in a fixed number of statements. `everything`: all activations, not only the last COLUMNS."""
    with snapshot():
        explanation = explain(found.actor, found.instance.pk, step_key=step_key)
        case = explanation.case
        step = case.histories[step_key]
        audits = list(_audits(case))
        clocks = list(StepClock.objects.filter(activation_id__in=[a.row.pk for a in step.activations]))
        signals = list(Signal.objects.filter(step_id=step.row.pk).order_by("-accepted_at", "-pk")[:SIGNALS])
        queue = Queue.objects.filter(pk=step.spec.queue_id).values_list("name", flat=True).first() or ""
    shown = step.activations if everything else step.activations[-COLUMNS:]
    mine = [answer for answer in options.answers(explanation) if answer.option.target]
    return StepPage(
        case=case,
        step=step,
        status=words.mark("StepStatus", step.row.status),
        review=words.reason(step.row.review_reason) if step.row.review_reason else None,
        limits=list(limits(step.spec)),
        queue=queue,
        deadlines=instance.deadlines(case, [each for each in clocks if _is_running(each, case.now)]),
        next=options.next_of_step(explanation),
        answers=mine,
        columns=[_column(step, activation, audits) for activation in shown],
        hidden=len(step.activations) - len(shown),
        figure=figure(step, shown, case.gate.state) if step.tasks else None,
        ledger=list(_ledger(step)),
        dues=list(_dues(case, step, clocks)),
        signals=signals,
        live=sum(task.is_running for task in step.tasks),
        permits=sum(task.holds_permit for task in step.tasks),
    )


def _is_running(each: StepClock, now: datetime) -> bool:
    return each.status == "ARMED" and each.due_at > now


def _audits(case: Case) -> Any:
    decided = ("retry_step", "rearm_wait", "resolve_step", "continue_poll")
    rows = WorkflowAudit.objects.filter(instance_id=case.instance.pk, action__in=decided)
    return rows.select_related("operation").order_by("-sequence")[:200]


def limits(spec: definitions.Spec) -> Iterator[str]:
    """What the definition fixes for the step, in words."""
    allowed, rounds = spec.max_attempts, spec.max_rounds
    if spec.kind == StepKind.POLL:
        yield ngettext("at most %(count)d round", "at most %(count)d rounds", rounds) % {"count": rounds}
        yield ngettext("%(count)d attempt a round", "%(count)d attempts a round", allowed) % {"count": allowed}
        yield _("every %(span)s") % {"span": _span(spec.interval_ms)}
    elif spec.kind == StepKind.TASK:
        yield ngettext("at most %(count)d attempt", "at most %(count)d attempts", allowed) % {"count": allowed}
    if spec.timeout_ms:
        yield _("%(span)s a task") % {"span": _span(spec.timeout_ms)}
    if spec.total_timeout_ms:
        yield _("%(span)s in all") % {"span": _span(spec.total_timeout_ms)}
    if spec.delay_ms:
        yield _("after %(span)s") % {"span": _span(spec.delay_ms)}
    if spec.signal:
        yield _("signal %(name)s") % {"name": spec.signal["name"]}


def _span(count: int) -> str:
    return times.lasted(clock.milliseconds(count))


def _column(step: StepCase, activation: ActivationCase, audits: Sequence[WorkflowAudit]) -> Column:
    row, poll = activation.row, activation.poll
    made_by = next((audit for audit in audits if _made(audit, row.pk)), None)
    by = row.concluded_by_id
    concluded = next((audit for audit in audits if by is not None and audit.operation_id == by), None)
    covered = range(poll.first_round, poll.used_rounds + 1) if poll else range(0)
    drawn = min(step.spec.max_rounds, 12) if poll else 0
    return Column(
        activation=activation,
        status=words.mark("ActivationStatus", row.status),
        cause=words.label("ActivationCause", row.cause),
        made_by=made_by,
        concluded=concluded,
        is_current=activation is step.current,
        is_same_input=activation is not step.activations[0]
        and row.input_digest == step.activations[0].row.input_digest,
        rounds=tuple((number, number in covered) for number in range(1, drawn + 1)),
    )


def _made(audit: WorkflowAudit, activation_id: str) -> bool:
    is_new = audit.before.get("activation_id") != activation_id
    return is_new and audit.after.get("activation_id") == activation_id


def _ledger(step: StepCase) -> Iterator[LedgerRow]:
    """Attempts, task by task: allowed = pinned − used before, in the same round of a POLL, over all activations."""
    for activation in step.activations:
        for task in activation.tasks:
            number = task.half.round if task.half and task.half.round else None
            same = step.tasks_of_round(number) if number else step.tasks
            before = sum(len(other.attempts) for other in same[: same.index(task)])
            if task.row.retry_of_id is None:
                work = _("First request") if number in (None, 1) else _("Next round")
            else:
                work = _("Retry of the same round") if number else _("Retry")
            yield LedgerRow(
                work=work,
                sequence=activation.row.sequence,
                round=number,
                task=task,
                pinned=step.spec.max_attempts,
                before=before,
                allowed=task.row.max_attempts,
                used=len(task.attempts),
                is_current=task is step.tasks[-1],
            )


def _dues(case: Case, step: StepCase, clocks: Sequence[StepClock]) -> Iterator[Due]:
    armed = {(each.activation_id, each.kind) for each in clocks if each.status == "ARMED"}
    current = step.current
    if current is not None:
        first = step.activations[0].row.created_at
        key = current.row.pk
        if poll := current.poll:
            span = _("activation 1, %(time)s + %(span)s")
            origin = span % {"time": times.words(first), "span": _span(step.spec.total_timeout_ms or 0)}
            yield _due(_("Query total"), origin, poll.deadline_at, case.now, (key, "POLL_DEADLINE") in armed)
            if poll.next_poll_at:
                runs = (key, "NEXT_ROUND") in armed
                origin = _("a pending answer + %(span)s") % {"span": _span(step.spec.interval_ms)}
                yield _due(_("Next round"), origin, poll.next_poll_at, case.now, runs)
        if current.tasks:
            task = current.tasks[-1].row
            beginning = current.tasks[-1]
            if beginning.half and beginning.half.round:
                beginning = step.tasks_of_round(beginning.half.round)[0]
            origin = _("its first task, %(time)s") % {"time": times.words(beginning.row.created_at)}
            if task.deadline_at:
                yield _due(_("Task"), origin, task.deadline_at, case.now, (key, "TASK_DEADLINE") in armed)
            if task.latest_start_at:
                yield _due(_("Latest start"), origin, task.latest_start_at, case.now, False)
        if current.wait and current.wait.deadline_at:
            is_timer = step.spec.kind == StepKind.TIMER
            runs = (key, "TIMER" if is_timer else "WAIT_DEADLINE") in armed
            origin = _("activation 1, %(time)s") % {"time": times.words(first)}
            word = _("Timer") if is_timer else _("Wait")
            yield _due(word, origin, current.wait.deadline_at, case.now, runs)
    origin = _("start, %(time)s") % {"time": times.words(case.instance.created_at)}
    yield _due(_("Instance"), origin, case.instance.deadline_at, case.now, case.instance.settled_at is None)


def _due(word: Any, origin: str, at: datetime, now: datetime, runs: bool) -> Due:
    if at <= now:
        return Due(word, origin, at, _("over"), False)
    return Due(word, origin, at, _("its clock runs") if runs else _("kept; no clock is armed"), True)
