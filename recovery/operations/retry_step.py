"""RetryStep: a TASK, or a POLL's same round, runs again on what its budget leaves (seeds 16 and 17; RY1–RY9)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from recovery import flow
from recovery.audit import instant
from recovery.case import StepCase, TaskCase
from recovery.errors import (
    ActivationLimit,
    BudgetExhausted,
    HistoryInconsistent,
    QuotaExceeded,
    RoundAlreadyPending,
    StateConflict,
)
from recovery.ids import new_id
from recovery.models import (
    PollBudget,
    PollRound,
    PollState,
    StepActivation,
    StepCheckpoint,
    StepClock,
    Task,
    WaitState,
)
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
    ActivationCause,
    ActivationStatus,
    CheckpointStatus,
    ClockKind,
    ClockStatus,
    PollStatus,
    RoundOutcome,
    SignalStatus,
    StepKind,
    StepStatus,
    TaskStatus,
    WaitKind,
    WaitStatus,
)
from recovery.writes import change, insert


@dataclass(frozen=True, kw_only=True)
class RetryStep(StepDecision):
    safe_to_retry: bool = checked(stated)


def retried(step: StepCase) -> tuple[TaskCase, ...]:
    """The tasks whose budget goes on: all of a TASK, those of the last business round of a POLL; oldest first."""
    current = step.current
    if step.spec.kind == StepKind.POLL:
        return step.tasks_of_round(current.poll.used_rounds) if current and current.poll else ()
    return step.tasks


def used_attempts(tasks: tuple[TaskCase, ...]) -> int:
    """Attempt rows of any status: the first attempt counts too."""
    return sum(len(task.attempts) for task in tasks)


def step_can_run_again(question: Question) -> Iterator[Finding]:
    """RY1."""
    step = question.step
    if step and step.spec.kind == StepKind.POLL:
        # Checked first: an answer is not asked for again.
        yield from _unanswered(step)
    finding = target_is_leaf(
        "RY1",
        question,
        [StepKind.TASK, StepKind.POLL],
        [StepStatus.NEEDS_REVIEW, StepStatus.FAILED, StepStatus.CANCELLED],
    )
    yield finding
    if step is None or not finding.holds:
        return
    yield from tasks_are_settled("RY1", step.tasks)
    if step.spec.kind == StepKind.TASK:
        succeeded = [task.row.pk for task in step.tasks if task.row.status == TaskStatus.SUCCEEDED]
        if succeeded:
            yield fails(
                "RY1",
                StateConflict,
                _("The task has succeeded; running it again would repeat its effect."),
                _("Use ResolveStep."),
                succeeded,
            )
    if not step.tasks:
        yield fails(
            "RY1", StateConflict, _("The step never had a task."), _("Use ResolveStep, or cancel."), [step.row.pk]
        )


def _unanswered(step: StepCase) -> Iterator[Finding]:
    for task in retried(step):
        if task.row.status != TaskStatus.SUCCEEDED or task.authoritative is None:
            continue
        meaning = answer_of(step.spec, task.authoritative.row.payload)
        if meaning == "PENDING":
            yield fails(
                "RY1",
                RoundAlreadyPending,
                _("This round has answered PENDING."),
                _("Use ContinuePoll: the next round asks again after the interval."),
                [task.row.pk],
            )
        elif meaning is not None:
            yield fails(
                "RY1",
                StateConflict,
                _("This round has answered %(meaning)s.") % {"meaning": meaning},
                _("Use ResolveStep."),
                [task.row.pk],
            )


def budget_is_left(question: Question) -> Iterator[Finding]:
    """RY2 for a TASK, RY3 for a round of a POLL: attempts of all activations count, and so do tasks never started."""
    step = question.step
    if step is None or step.spec.kind not in (StepKind.TASK, StepKind.POLL) or not step.tasks:
        return
    rule = "RY2" if step.spec.kind == StepKind.TASK else "RY3"
    tasks, pinned = retried(step), step.spec.max_attempts
    counts = {"used": used_attempts(tasks), "max": pinned, "tasks": len(tasks)}
    if used_attempts(tasks) >= pinned:
        yield fails(
            rule,
            BudgetExhausted,
            _("All %(max)d attempts are used.") % counts,
            _("Find out the final facts and use ResolveStep, or cancel."),
            [task.row.pk for task in tasks],
        )
    elif len(tasks) >= pinned:
        yield fails(
            rule,
            ActivationLimit,
            _("%(tasks)d tasks were made for %(max)d attempts.") % counts,
            _("Find out the final facts and use ResolveStep, or cancel."),
            [task.row.pk for task in tasks],
        )
    else:
        yield holds(rule, _("%(used)d of %(max)d attempts are used.") % counts)


def quota_is_left(question: Question) -> Iterator[Finding]:
    """RY5. A concurrency key blocks at the claim, not here."""
    step, case = question.step, question.case
    if step is None or step.spec.queue_id is None:
        return
    queue = case.quota_of(step.spec.queue_id)
    if queue is None or not flow.has_room(case.application, queue):
        yield fails(
            "RY5",
            QuotaExceeded,
            _("The application or the queue has no room for another open task."),
            _("Wait until others have ended, or have the quota raised."),
            [case.application.pk] + ([queue.pk] if queue else []),
        )
    else:
        yield holds("RY5", _("Application and queue have room for another task."))


def final_signal_allows(question: Question) -> Iterator[Finding]:
    """RY6: no pending signal is dropped; an old winner has to be what it claims to be."""
    step = question.step
    if step is None or step.spec.kind != StepKind.POLL or step.spec.signal is None:
        return
    yield from no_signal_is_pending("RY6", step)
    signals = {signal.pk: signal for signal in step.signals}
    for activation in step.activations:
        wait = activation.wait
        if wait is None or wait.winner_signal_id is None:
            continue
        winner = signals.get(wait.winner_signal_id)
        if winner is None or not (
            winner.status == SignalStatus.CONSUMED
            and winner.generation == activation.row.sequence
            and winner.name == step.spec.signal["name"]
            and winner.correlation_key == wait.correlation_key
            and (wait.deadline_at is None or winner.accepted_at < wait.deadline_at)
        ):
            yield fails(
                "RY6",
                HistoryInconsistent,
                _("The signal that won an earlier wait does not fit it."),
                _("Nobody can decide on such facts; have the stored rows examined."),
                [wait.winner_signal_id],
            )


def original_time_is_left(question: Question) -> Iterator[Finding]:
    """RY9: nothing is timed anew, so the original deadlines must not be reached."""
    step = question.step
    if step is None or not step.tasks or step.spec.kind not in (StepKind.TASK, StepKind.POLL):
        return
    now = question.case.now
    first = retried(step)[0].row if retried(step) else step.tasks[0].row
    if step.spec.kind == StepKind.TASK:
        yield in_time("RY9", now, first.deadline_at, _("original task's deadline"))
        yield in_time("RY9", now, first.latest_start_at, _("original task's latest start"))
    elif step.current and step.current.poll:
        yield in_time("RY9", now, step.current.poll.deadline_at, _("query deadline"))
        yield in_time("RY9", now, first.deadline_at, _("deadline of the round's first task"))


def safety_is_stated(question: Question) -> Iterator[Finding]:
    """G13, in an explanation."""
    step = question.step
    if question.command is None and step and step.spec.kind in (StepKind.TASK, StepKind.POLL):
        yield depends(
            "G13",
            _("You have to state that it is safe to run again. A business key does not make the outside idempotent."),
        )


def apply(scene: Scene) -> Effects:
    """RY7: a new activation with a task that goes on where the budget stands; the old one stays as it is."""
    step, case, now = scene.target, scene.case, scene.case.now
    current, tasks = step.current, retried(step)
    assert current is not None
    assert tasks
    queue = case.quota_of(step.spec.queue_id)
    assert queue is not None
    is_poll = step.spec.kind == StepKind.POLL
    first, last = tasks[0].row, tasks[-1].row
    round_number = tasks[-1].half.round if tasks[-1].half else 0
    used = used_attempts(tasks)
    before = {
        **audited(step.row),
        "step_output": step.row.output,
        "activation_id": current.row.pk,
        "activation_status": current.row.status,
    }
    activation = StepActivation(
        id=new_id(),
        instance_id=case.instance.pk,
        step=step.row,
        sequence=current.row.sequence + 1,
        status=ActivationStatus.RUNNING,
        input=current.row.input,
        input_digest=current.row.input_digest,
        cause=ActivationCause.RETRY,
        created_at=now,
    )
    task = Task(
        id=new_id(),
        namespace_id=first.namespace_id,
        application_id=first.application_id,
        instance_id=first.instance_id,
        queue_id=first.queue_id,
        handler=first.handler,
        handler_version=first.handler_version,
        status=TaskStatus.QUEUED,
        revision=1,
        priority=first.priority,
        input=first.input,
        input_digest=first.input_digest,
        policy=first.policy,
        business_key=first.business_key,
        concurrency_key=first.concurrency_key,
        owner_activation=activation,
        max_attempts=step.spec.max_attempts - used,
        attempt_count=0,
        retry_of=last,
        latest_start_at=first.latest_start_at,
        deadline_at=first.deadline_at,
        available_at=now,
        created_at=now,
    )
    change(
        step.row,
        status=StepStatus.RUNNING,
        revision=step.row.revision + 1,
        current_activation_id=activation.pk,
        output=None,
        review_reason="",
        settled_at=None,
    )
    insert(activation)
    flow.enqueue(task, case.application, queue, now, round_number=round_number)
    clocks, checkpoints = [], ["ROUND" if is_poll else "TASK_RESULT"]
    if task.deadline_at:
        clocks.append((ClockKind.TASK_DEADLINE, task.deadline_at))
    if is_poll:
        poll = _go_on_with_round(scene, activation, task, round_number, used)
        clocks.append((ClockKind.POLL_DEADLINE, poll.deadline_at))
        if current.wait:
            checkpoints.append("WAIT")
    flow.close_activation([current.row.pk], now)
    insert(
        *(
            StepClock(
                instance_id=case.instance.pk, activation=activation, kind=kind, due_at=due, status=ClockStatus.ARMED
            )
            for kind, due in clocks
        ),
        *(
            StepCheckpoint(activation=activation, kind=kind, status=CheckpointStatus.OPEN, opened_at=now)
            for kind in checkpoints
        ),
    )
    after = {
        **audited(step.row),
        "activation_id": activation.pk,
        "generation": activation.sequence,
        "task_id": task.pk,
        "retry_of_id": last.pk,
        "round": round_number,
        "max_attempts": task.max_attempts,
        "deadline_at": instant(task.deadline_at) if task.deadline_at else None,
    }
    return Effects(
        made={
            "step": step_now(step.row),
            "activation": activation_now(activation),
            "task": {
                "id": task.pk,
                "retry_of_id": last.pk,
                "max_attempts": task.max_attempts,
                "round": round_number,
                "deadline_at": after["deadline_at"],
            },
        },
        before=before,
        after=after,
    )


def _go_on_with_round(scene: Scene, activation: StepActivation, task: Task, round_number: int, used: int) -> PollState:
    """RY3, RY6: the same round in the new activation; the old query state, budget and wait close, their times kept."""
    current, now = scene.target.current, scene.case.now
    assert current is not None
    assert current.poll is not None
    old_poll, old_budget, old_wait = current.poll, current.budget, current.wait
    if old_poll.status != PollStatus.SETTLED:
        change(old_poll, status=PollStatus.SETTLED, next_poll_at=None, settled_at=old_poll.settled_at or now)
    poll = PollState(
        activation=activation,
        first_round=round_number,
        first_round_attempts_used=used,
        used_rounds=round_number,
        deadline_at=old_poll.deadline_at,
        status=PollStatus.POLLING,
    )
    first_deadline = retried(scene.target)[0].row.deadline_at or old_poll.deadline_at
    insert(
        poll,
        PollRound(
            activation=activation,
            round=round_number,
            task=task,
            outcome=RoundOutcome.OPEN,
            deadline_at=first_deadline,
            started_at=now,
        ),
    )
    if old_budget and (old_budget.settled_at is None or old_budget.in_flight or old_budget.next_checkpoint_at):
        change(old_budget, in_flight=0, next_checkpoint_at=None, settled_at=old_budget.settled_at or now)
    insert(PollBudget(activation=activation, in_flight=1, requests_used=0))
    if old_wait:
        if old_wait.status == WaitStatus.WAITING:
            change(old_wait, status=WaitStatus.CANCELLED, settled_at=now)
        insert(
            WaitState(
                activation=activation,
                kind=WaitKind.POLL_FINAL,
                status=WaitStatus.WAITING,
                correlation_key=old_wait.correlation_key,
                deadline_at=old_wait.deadline_at,
            )
        )
    return poll


OPERATION = Operation(
    slug="retry-step",
    name="RetryStep",
    target="step",
    statement="safe_to_retry",
    command=RetryStep,
    rules=(
        *GENERAL,
        *STEP,
        *NO_STOP_NO_TIME,
        history_fits,
        step_can_run_again,
        budget_is_left,
        quota_is_left,
        final_signal_allows,
        original_time_is_left,
        safety_is_stated,
    ),
    apply=apply,
    will_not=(
        gettext_noop("It does not run before Continue, nor while the instance is paused."),
        gettext_noop("It does not give new attempts, a new round or more time: budget and deadlines go on."),
        gettext_noop("It does not make the outside idempotent; a business key alone does not do that."),
        gettext_noop("It does not rewrite the old activation, its task or its results."),
    ),
)
