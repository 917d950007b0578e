"""ContinuePoll: a query goes on after its last answer was proven to be PENDING (seed 18, sections 2 and 3; CP1–CP5)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from recovery import exact_json
from recovery.audit import instant
from recovery.case import ActivationCase, ResultCase, StepCase, TaskCase
from recovery.clock import milliseconds
from recovery.errors import PendingNotProven, RoundsExhausted, StateConflict, WinnerExists
from recovery.models import StepCheckpoint, StepClock
from recovery.operations.base import Effects, Operation, Scene, activation_now, audited, step_now
from recovery.operations.commands import StepDecision, checked, stated
from recovery.operations.findings import Finding, depends, fails, holds
from recovery.operations.rules import (
    GENERAL,
    NO_STOP_NO_TIME,
    STEP,
    Question,
    answer_of,
    history_fits,
    in_time,
    no_signal_is_pending,
    target_is_leaf,
    tasks_are_settled,
)
from recovery.states import (
    ActivationStatus,
    CheckpointStatus,
    ClockKind,
    ClockStatus,
    InboxStatus,
    PollStatus,
    StepKind,
    StepStatus,
    TaskStatus,
    WaitStatus,
)
from recovery.writes import change, insert


@dataclass(frozen=True, kw_only=True)
class ContinuePoll(StepDecision):
    pending_confirmed: bool = checked(stated)


def last_task(step: StepCase) -> TaskCase | None:
    """The task of the last business round, in the current activation."""
    current = step.current
    if current is None or current.poll is None:
        return None
    tasks = [task for task in current.tasks if task.half and task.half.round == current.poll.used_rounds]
    return tasks[-1] if tasks else None


def pending_is_proven(question: Question) -> Iterator[Finding]:
    """CP1: the last round's authoritative result is a PENDING answer that the inbox has consumed."""
    finding = target_is_leaf("CP1", question, [StepKind.POLL], [StepStatus.NEEDS_REVIEW])
    yield finding
    step = question.step
    if step is None or not finding.holds:
        return
    assert step.current is not None
    if step.current.row.concluded_by_id:
        yield fails(
            "CP1",
            StateConflict,
            _("A person has concluded this step already."),
            _("Correct the conclusion with ResolveStep."),
            [step.current.row.pk],
        )
    yield from tasks_are_settled("CP1", step.tasks)
    task = last_task(step)
    if doubt := _doubt(step, task):
        yield fails(
            "CP1",
            PendingNotProven,
            doubt,
            _("Only a consumed answer that the pinned map calls PENDING can be continued."),
            [task.row.pk] if task else [],
        )
    else:
        yield holds("CP1", _("The last round's consumed answer is PENDING by the pinned map."))


def _doubt(step: StepCase, task: TaskCase | None) -> str | None:
    """Why the last answer is not proven to be PENDING. Everything is checked again; nothing rests on a statement."""
    assert step.current is not None
    if task is None:
        return _("The last round has no task.")
    result = task.authoritative
    if task.row.status != TaskStatus.SUCCEEDED or result is None or result.row.outcome != "SUCCEEDED":
        return _("The last round's request is %(status)s, not answered.") % {"status": task.row.status}
    if not _is_consumed(step.current, task, result):
        return _("The inbox holds no processed event of this answer for the current activation.")
    meaning = answer_of(step.spec, result.row.payload)
    if meaning != "PENDING":
        return _("The pinned map calls the answer %(meaning)s.") % {"meaning": meaning or _("nothing it knows")}
    return None


def _is_consumed(current: ActivationCase, task: TaskCase, result: ResultCase) -> bool:
    event, inbox = result.event, result.inbox
    if event is None or inbox is None:
        return False
    owners = {event.activation_id, inbox.activation_id, task.row.owner_activation_id, current.row.pk}
    revisions = {event.task_revision, inbox.task_revision, result.row.task_revision}
    tasks = {event.task_id, inbox.task_id, result.row.task_id, task.row.pk}
    attempts = {attempt.pk for attempt in task.attempts} | {None}
    return (
        inbox.status == InboxStatus.PROCESSED
        and len(owners) == len(revisions) == len(tasks) == 1
        and result.row.attempt_id in attempts
        and event.payload_digest == exact_json.digest(result.row.payload)
    )


def rounds_and_time_are_left(question: Question) -> Iterator[Finding]:
    """CP2; a used-up request budget does not matter here (CP5)."""
    step = question.step
    if step is None or step.current is None or step.current.poll is None:
        return
    poll = step.current.poll
    counts = {"used": poll.used_rounds, "max": step.spec.max_rounds}
    if poll.used_rounds < step.spec.max_rounds:
        yield holds("CP2", _("%(used)d of %(max)d rounds are used.") % counts)
    else:
        yield fails(
            "CP2",
            RoundsExhausted,
            _("All %(max)d rounds are used.") % counts,
            _("Find out the final answer and use ResolveStep."),
            [poll.pk],
        )
    yield in_time("CP2", question.case.now, poll.deadline_at, _("query deadline"))


def final_signal_is_open(question: Question) -> Iterator[Finding]:
    """CP3."""
    step = question.step
    if step is None or step.current is None or step.current.wait is None:
        return
    wait = step.current.wait
    if wait.winner_signal_id:
        yield fails(
            "CP3",
            WinnerExists,
            _("A final signal has already won."),
            _("Examine it, then use ResolveStep."),
            [wait.winner_signal_id],
        )
    yield from no_signal_is_pending("CP3", step)
    yield in_time("CP3", question.case.now, wait.deadline_at, _("final signal's deadline"))
    if wait.status not in (WaitStatus.WAITING, WaitStatus.CANCELLED) and not wait.winner_signal_id:
        yield fails(
            "CP3",
            StateConflict,
            _("The final signal's wait is %(status)s.") % {"status": wait.status},
            _("It cannot wait again."),
            [wait.pk],
        )


def pending_is_stated(question: Question) -> Iterator[Finding]:
    """G13, in an explanation."""
    if question.command is None and question.step and question.step.spec.kind == StepKind.POLL:
        yield depends("G13", _("You have to state that the outside still works on it."))


def apply(scene: Scene) -> Effects:
    """CP4: the same activation and round wait again; no task, no new round; the audit is the proof."""
    step, case, now = scene.target, scene.case, scene.case.now
    current, task = step.current, last_task(step)
    assert current is not None
    assert task is not None
    assert current.poll is not None
    result = task.authoritative
    assert result is not None
    assert result.event is not None
    poll, budget, wait = current.poll, current.budget, current.wait
    next_poll_at = min(result.event.occurred_at + milliseconds(step.spec.interval_ms), poll.deadline_at)
    former: dict[str, Any] = {
        "step_status": step.row.status,
        "step_settled_at": _instant(step.row.settled_at),
        "activation_status": current.row.status,
        "poll_status": poll.status,
        "poll_settled_at": _instant(poll.settled_at),
        "budget_settled_at": _instant(budget.settled_at) if budget else None,
        "wait_status": wait.status if wait else None,
        "wait_settled_at": _instant(wait.settled_at) if wait else None,
    }
    before = {
        **audited(step.row),
        "activation_id": current.row.pk,
    }
    change(
        step.row,
        status=StepStatus.WAITING,
        revision=step.row.revision + 1,
        output=None,
        review_reason="",
        settled_at=None,
    )
    change(current.row, status=ActivationStatus.WAITING, output=None, settled_at=None)
    change(poll, status=PollStatus.WAITING, next_poll_at=next_poll_at, proof_id=scene.audit_id, settled_at=None)
    if budget:
        change(budget, in_flight=0, next_checkpoint_at=next_poll_at, settled_at=None)
    if wait and wait.status == WaitStatus.CANCELLED:
        change(wait, status=WaitStatus.WAITING, settled_at=None)
    # The gate is closed: the clock for the next round is armed from next_poll_at when it opens (B5).
    if not StepClock.objects.filter(
        activation=current.row, kind=ClockKind.POLL_DEADLINE, status=ClockStatus.ARMED
    ).exists():
        insert(
            StepClock(
                instance_id=case.instance.pk,
                activation=current.row,
                kind=ClockKind.POLL_DEADLINE,
                due_at=poll.deadline_at,
                status=ClockStatus.ARMED,
            )
        )
    insert(StepCheckpoint(activation=current.row, kind="ROUND", status=CheckpointStatus.OPEN, opened_at=now))
    after = {
        **audited(step.row),
        "activation_id": current.row.pk,
        "round": poll.used_rounds,
        "source_event_id": result.event.pk,
        "source_task_id": task.row.pk,
        "source_task_revision": str(result.event.task_revision),
        "next_poll_at": instant(next_poll_at),
        "query_deadline_at": instant(poll.deadline_at),
        "instance_deadline_at": instant(case.instance.deadline_at),
        "former": former,
    }
    return Effects(
        made={
            "step": step_now(step.row),
            "activation": activation_now(current.row),
            "poll": {"round": poll.used_rounds, "next_poll_at": instant(next_poll_at), "status": poll.status},
        },
        before=before,
        after=after,
    )


def _instant(moment: Any) -> str | None:
    return instant(moment) if moment else None


OPERATION = Operation(
    slug="continue-poll",
    name="ContinuePoll",
    target="step",
    statement="pending_confirmed",
    command=ContinuePoll,
    rules=(
        *GENERAL,
        *STEP,
        *NO_STOP_NO_TIME,
        history_fits,
        pending_is_proven,
        rounds_and_time_are_left,
        final_signal_is_open,
        pending_is_stated,
    ),
    apply=apply,
    will_not=(
        gettext_noop("It does not ask again in the same round, and opens no new round before the interval has passed."),
        gettext_noop("It does not give more time: the deadlines stay."),
        gettext_noop("It does not turn a rejected signal into a pending one."),
        gettext_noop("It does not end the review of the instance; Continue does."),
    ),
)
