"""The case: everything known of one instance that a decision may rely on.

Loaded in a fixed number of statements, whatever the number of siblings, activations or rounds; immutable once loaded.
With `locks` the tasks are locked before their attempts, permits and results are read: every writer of those holds the
task's lock, and every writer of the rest holds the instance's. Without `locks` the same loader serves the explanation.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from django.core.exceptions import ObjectDoesNotExist
from django.db.models import F

from recovery.definitions import Definition, Spec
from recovery.locks import Locks
from recovery.models import (
    ActivationTask,
    ApplicationQuota,
    ExecutionPermit,
    InboxEvent,
    InstanceGate,
    PollBudget,
    PollRound,
    PollState,
    QueueQuota,
    ResultEvent,
    Signal,
    StepActivation,
    Task,
    TaskAttempt,
    TaskResult,
    WaitState,
    WorkflowInstance,
    WorkflowStep,
)
from recovery.states import KNOWN, AttemptStatus, InboxStatus, ResultSource, SignalStatus, TaskStatus


@dataclass(frozen=True)
class ResultCase:
    """A result with the event that published it and the inbox row that received it."""

    row: TaskResult
    event: ResultEvent | None
    inbox: InboxEvent | None


@dataclass(frozen=True)
class TaskCase:
    """A task with its owner's half, its attempts by number, permits, results by revision and (POLL) its round."""

    row: Task
    half: ActivationTask | None
    round: PollRound | None
    attempts: tuple[TaskAttempt, ...]
    permits: tuple[ExecutionPermit, ...]
    results: tuple[ResultCase, ...]

    @property
    def is_known(self) -> bool:
        return self.row.status in KNOWN

    @property
    def is_unknown(self) -> bool:
        return self.row.status == TaskStatus.NEEDS_REVIEW

    @property
    def is_settled(self) -> bool:
        """Its present revision has, or had before a late report, a result."""
        return self.is_known or self.is_unknown

    @property
    def is_running(self) -> bool:
        """An attempt has not ended, whatever its lease says."""
        return any(attempt.status == AttemptStatus.RUNNING for attempt in self.attempts)

    @property
    def holds_permit(self) -> bool:
        return any(permit.released_at is None for permit in self.permits)

    @property
    def authoritative(self) -> ResultCase | None:
        """The result of the highest task revision whose source is not LATE."""
        return next((result for result in reversed(self.results) if result.row.source != ResultSource.LATE), None)

    @property
    def latest(self) -> ResultCase | None:
        """The result of the present revision, if that revision has one."""
        last = self.results[-1] if self.results else None
        return last if last and last.row.task_revision == self.row.revision else None


@dataclass(frozen=True)
class ActivationCase:
    """One activation: its tasks by round, and for POLL, SIGNAL and TIMER what it waits for."""

    row: StepActivation
    tasks: tuple[TaskCase, ...]
    poll: PollState | None
    budget: PollBudget | None
    wait: WaitState | None


@dataclass(frozen=True)
class StepCase:
    """One leaf with its whole history, oldest activation first."""

    row: WorkflowStep
    spec: Spec
    activations: tuple[ActivationCase, ...]
    strays: tuple[str, ...]
    """Ids of tasks that name an activation of this step which does not name them back."""
    signals: tuple[Signal, ...]
    """Signals that may still count: PENDING ones, and winners."""

    @property
    def current(self) -> ActivationCase | None:
        return self.activations[-1] if self.activations else None

    @cached_property
    def tasks(self) -> tuple[TaskCase, ...]:
        """All tasks over all activations and rounds, oldest first."""
        return tuple(task for activation in self.activations for task in activation.tasks)

    @property
    def pending_signals(self) -> tuple[Signal, ...]:
        """Signals of the current generation that nobody adjudicated yet."""
        generation = self.current.row.sequence if self.current else 0
        return tuple(s for s in self.signals if s.status == SignalStatus.PENDING and s.generation == generation)

    @cached_property
    def rounds(self) -> Mapping[int, tuple[TaskCase, ...]]:
        """The tasks of each business round over all activations, oldest first; a TASK has the round 0."""
        rounds = defaultdict(list)
        for task in self.tasks:
            if task.half is not None:
                rounds[task.half.round].append(task)
        return {number: tuple(tasks) for number, tasks in rounds.items()}

    def tasks_of_round(self, number: int) -> tuple[TaskCase, ...]:
        return self.rounds.get(number, ())


@dataclass(frozen=True)
class Case:
    """One instance at one moment. `histories` holds the leaves that were asked for, by step key."""

    now: datetime
    instance: WorkflowInstance
    gate: InstanceGate
    definition: Definition
    application: ApplicationQuota
    queues: tuple[QueueQuota, ...]
    unsettled_inbox: tuple[InboxEvent, ...]
    histories: Mapping[str, StepCase]
    steps: Mapping[str, WorkflowStep]
    """All steps by key where the whole graph was asked for, else those of `histories`."""
    is_whole: bool
    astray: tuple[str, ...] = ()
    """Where the whole graph was asked for: ids of the instance's tasks that no history of its steps has."""

    def quota_of(self, queue_id: str | None) -> QueueQuota | None:
        return next((quota for quota in self.queues if quota.queue_id == queue_id), None)


def unsettled_inbox(instance_id: str, limit: int = 50) -> tuple[InboxEvent, ...]:
    """Events of an instance that are PENDING or QUARANTINED (G6); at most `limit`, oldest first."""
    rows = InboxEvent.objects.filter(instance_id=instance_id, status__in=(InboxStatus.PENDING, InboxStatus.QUARANTINED))
    return tuple(rows.order_by("received_at", "pk")[:limit])


def tasks_astray(instance_id: str, histories: Mapping[str, StepCase]) -> tuple[str, ...]:
    """Tasks that name the instance, though both halves of their ownership lie elsewhere; in one statement."""
    seen = {task.row.pk for step in histories.values() for task in step.tasks}
    seen.update(task_id for step in histories.values() for task_id in step.strays)
    of_instance = Task.objects.filter(instance_id=instance_id).values_list("pk", flat=True)
    return tuple(sorted(set(of_instance) - seen))


def load_histories(
    steps: Iterable[WorkflowStep], definition: Definition, locks: Locks | None = None
) -> dict[str, StepCase]:
    """The whole history of the given leaves, by step key, in six statements (seven with locks)."""
    leaves = {step.pk: step for step in steps if definition.steps[step.step_key].is_leaf}
    if not leaves:
        return {}
    keys = sorted(leaves)
    activations = list(
        StepActivation.objects.filter(step_id__in=keys)
        .select_related("pollstate", "pollbudget", "waitstate")
        .order_by("sequence")
    )
    owner = {"owner_activation__step_id__in": keys}
    strays = defaultdict(list)
    for task_id, step_id in (
        Task.objects.filter(**owner)
        .exclude(activationtask__activation_id=F("owner_activation_id"))
        .values_list("pk", "owner_activation__step_id")
    ):
        strays[step_id].append(task_id)
    halves = list(
        ActivationTask.objects.filter(activation__step_id__in=keys)
        .select_related("task", "task__pollround")
        .order_by("activation__sequence", "round")
    )
    tasks = {half.task_id: half.task for half in halves}
    if locks is not None:
        tasks = {task.pk: task for task in locks.rows(Task, tasks)}
    attempts, permits = defaultdict(list), defaultdict(list)
    of_step = {"task__activationtask__activation__step_id__in": keys}
    for attempt in TaskAttempt.objects.filter(**of_step).select_related("executionpermit").order_by("attempt_no"):
        attempts[attempt.task_id].append(attempt)
        if permit := _one(attempt, "executionpermit"):
            permits[attempt.task_id].append(permit)
    results = defaultdict(list)
    for result in (
        TaskResult.objects.filter(**of_step)
        .select_related("resultevent", "resultevent__inboxevent")
        .order_by("task_revision")
    ):
        event = _one(result, "resultevent")
        results[result.task_id].append(ResultCase(result, event, _one(event, "inboxevent") if event else None))
    signals = defaultdict(list)
    for signal in (
        Signal.objects.filter(step_id__in=keys).exclude(status=SignalStatus.REJECTED).order_by("accepted_at", "pk")
    ):
        signals[signal.step_id].append(signal)

    by_activation = defaultdict(list)
    for half in halves:
        by_activation[half.activation_id].append(
            TaskCase(
                row=tasks[half.task_id],
                half=half,
                round=_one(half.task, "pollround"),
                attempts=tuple(attempts[half.task_id]),
                permits=tuple(permits[half.task_id]),
                results=tuple(results[half.task_id]),
            )
        )
    by_step = defaultdict(list)
    for row in activations:
        by_step[row.step_id].append(
            ActivationCase(
                row=row,
                tasks=tuple(by_activation[row.pk]),
                poll=_one(row, "pollstate"),
                budget=_one(row, "pollbudget"),
                wait=_one(row, "waitstate"),
            )
        )
    return {
        step.step_key: StepCase(
            row=step,
            spec=definition.steps[step.step_key],
            activations=tuple(by_step[step.pk]),
            strays=tuple(strays[step.pk]),
            signals=tuple(signals[step.pk]),
        )
        for step in leaves.values()
    }


def _one(row: Any, name: str) -> Any:
    """The row on the other side of a one-to-one reference, already loaded, or None."""
    try:
        return getattr(row, name)
    except ObjectDoesNotExist:
        return None
