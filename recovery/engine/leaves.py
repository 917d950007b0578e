"""A leaf step with its current activation and what that waits for: locked together, concluded together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import F

from recovery import flow
from recovery.definitions import Definition, Spec
from recovery.locks import Locks
from recovery.models import (
    PollBudget,
    PollRound,
    PollState,
    StepActivation,
    StepCheckpoint,
    StepClock,
    Task,
    WaitState,
    WorkflowStep,
)
from recovery.states import (
    CheckpointStatus,
    ClockKind,
    ClockStatus,
    PollStatus,
    RoundOutcome,
    StepKind,
    StepStatus,
    TaskStatus,
    WaitStatus,
)
from recovery.writes import change, change_where, insert

OPEN = frozenset({StepStatus.RUNNING, StepStatus.WAITING})
"""A leaf that was activated and has neither a conclusion nor a review."""


@dataclass
class Leaf:
    """`round`: the last one, of a POLL; `wait`: of a SIGNAL or TIMER, or the final signal of a POLL.

    `unstarted`: the QUEUED request of a POLL, where it was asked for.
    """

    spec: Spec
    step: WorkflowStep
    activation: StepActivation
    poll: PollState | None = None
    round: PollRound | None = None
    budget: PollBudget | None = None
    wait: WaitState | None = None
    unstarted: Task | None = None

    @property
    def is_open(self) -> bool:
        return self.step.status in OPEN

    @property
    def rounds_left(self) -> bool:
        return self.poll is None or self.poll.used_rounds < self.spec.max_rounds


def lock_leaves(
    locks: Locks, definition: Definition, step_ids: Iterable[str], *, unstarted: bool = False
) -> dict[str, Leaf]:
    """Locks activated leaves of one instance with all that belongs to their current activations; by step id.

    Tasks are not among it, but for the QUEUED requests of queries where `unstarted` asks for them.
    """
    steps = locks.rows(WorkflowStep, step_ids)
    current = [step.current_activation_id for step in steps if step.current_activation_id]
    activations = {row.step_id: row for row in locks.rows(StepActivation, current)}
    leaves = {
        step.pk: Leaf(definition.steps[step.step_key], step, activations[step.pk])
        for step in steps
        if step.pk in activations
    }
    waiting = {leaf.activation.pk: leaf for leaf in leaves.values() if leaf.spec.kind != StepKind.TASK}
    if not waiting:
        return leaves
    if unstarted:
        queued = Task.objects.filter(owner_activation_id__in=waiting, status=TaskStatus.QUEUED)
        for task in locks.rows(Task, queued.values_list("pk", flat=True)):
            if task.status == TaskStatus.QUEUED:  # the reaper may have been quicker
                waiting[task.owner_activation_id].unstarted = task
    of_last_round = PollRound.objects.filter(
        activation_id__in=waiting, round=F("activation__pollstate__used_rounds")
    ).values_list("pk", flat=True)
    others = StepActivation.objects.filter(pk__in=waiting).values_list(
        "pollstate__pk", "pollbudget__pk", "waitstate__pk"
    )
    polls, budgets, waits = ([key for key in keys if key] for keys in zip(*others, strict=True))
    for poll in locks.rows(PollState, polls):
        waiting[poll.activation_id].poll = poll
    for last in locks.rows(PollRound, of_last_round if polls else ()):
        waiting[last.activation_id].round = last
    for budget in locks.rows(PollBudget, budgets):
        waiting[budget.activation_id].budget = budget
    for wait in locks.rows(WaitState, waits):
        waiting[wait.activation_id].wait = wait
    return leaves


def conclude(leaf: Leaf, status: StepStatus, now: datetime, *, output: Any = None, reason: str = "") -> None:
    """Step and activation take a conclusion, or go to review; their clocks and checkpoints close.

    `reason`: why the instance is reviewed because of it. A review leaves the final wait of a query open, with the
    clock of its deadline (B12); everything else closes it.
    """
    settled_at = None if status == StepStatus.NEEDS_REVIEW else now
    change(
        leaf.step,
        status=status,
        revision=leaf.step.revision + 1,
        output=output,
        review_reason=reason,
        settled_at=settled_at,
    )
    change(leaf.activation, status=status, output=output, settled_at=settled_at)
    if leaf.poll and leaf.poll.status != PollStatus.SETTLED:
        change(leaf.poll, status=PollStatus.SETTLED, next_poll_at=None, settled_at=now)
    if leaf.budget and leaf.budget.settled_at is None:
        change(leaf.budget, next_checkpoint_at=None, settled_at=now)
    if leaf.wait and leaf.wait.status == WaitStatus.WAITING:
        if reason:
            _close_all_but_the_wait(leaf, now)
            return
        change(leaf.wait, status=WaitStatus.CANCELLED, settled_at=now)
    flow.close_activation([leaf.activation.pk], now)


def _close_all_but_the_wait(leaf: Leaf, now: datetime) -> None:
    clocks = StepClock.objects.filter(activation_id=leaf.activation.pk)
    change_where(clocks.exclude(kind=ClockKind.POLL_DEADLINE), from_=[ClockStatus.ARMED], status=ClockStatus.CANCELLED)
    checkpoints = StepCheckpoint.objects.filter(activation_id=leaf.activation.pk)
    change_where(
        checkpoints.exclude(kind="WAIT"), from_=[CheckpointStatus.OPEN], status=CheckpointStatus.CLOSED, closed_at=now
    )


def close_wait(leaf: Leaf, status: WaitStatus, now: datetime) -> None:
    """The wait ends as MATCHED or EXPIRED, whatever becomes of the step."""
    assert leaf.wait is not None
    change(leaf.wait, status=status, settled_at=now)
    checkpoints = StepCheckpoint.objects.filter(activation_id=leaf.activation.pk, kind="WAIT")
    change_where(checkpoints, from_=[CheckpointStatus.OPEN], status=CheckpointStatus.CLOSED, closed_at=now)


def record_answer(leaf: Leaf, outcome: RoundOutcome, attempts: int, now: datetime) -> None:
    """The last round's request has ended; `attempts` of this activation's budget went into it."""
    assert leaf.round is not None
    assert leaf.budget is not None
    change(leaf.round, outcome=outcome, settled_at=now)
    change(leaf.budget, in_flight=0, requests_used=leaf.budget.requests_used + attempts)


def await_round(leaf: Leaf, next_poll_at: datetime, *, is_open: bool) -> None:
    """The query waits for its next round. Under a closed gate the clock is armed when it opens (B5)."""
    assert leaf.poll is not None
    assert leaf.budget is not None
    change(leaf.step, status=StepStatus.WAITING, revision=leaf.step.revision + 1)
    change(leaf.activation, status=StepStatus.WAITING)
    change(leaf.poll, status=PollStatus.WAITING, next_poll_at=next_poll_at)
    change(leaf.budget, next_checkpoint_at=next_poll_at)
    deadlines = StepClock.objects.filter(activation_id=leaf.activation.pk, kind=ClockKind.TASK_DEADLINE)
    change_where(deadlines, from_=[ClockStatus.ARMED], status=ClockStatus.CANCELLED)
    if is_open:
        insert(
            StepClock(
                instance_id=leaf.step.instance_id,
                activation=leaf.activation,
                kind=ClockKind.NEXT_ROUND,
                due_at=next_poll_at,
                status=ClockStatus.ARMED,
            )
        )
