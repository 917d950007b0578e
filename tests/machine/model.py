"""What must hold after every step, said again in few words and independently of the engine's own code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from django.db import models

from recovery import verify
from recovery.definitions import Definition, load
from recovery.models import (
    ActivationTask,
    PollState,
    ResultEvent,
    RootContinuation,
    Signal,
    StepActivation,
    StepClock,
    Task,
    TaskAttempt,
    TaskResult,
    WaitState,
    WorkflowAudit,
    WorkflowInstance,
    WorkflowStep,
)
from recovery.states import TERMINAL
from tests.machine.subject import Subject

FROZEN: dict[type[models.Model], tuple[str, ...]] = {
    TaskResult: ("task_id", "task_revision", "source", "outcome", "payload"),
    ResultEvent: ("offset", "task_id", "task_revision", "activation_id", "payload_digest", "occurred_at"),
    WorkflowAudit: ("sequence", "action", "entry_hash"),
    Task: ("max_attempts", "deadline_at", "latest_start_at", "input_digest", "retry_of_id", "business_key"),
    PollState: ("first_round", "first_round_attempts_used", "deadline_at"),
    WaitState: ("kind", "correlation_key", "deadline_at"),
    StepActivation: ("sequence", "input_digest", "cause", "created_at"),
    WorkflowInstance: ("deadline_at", "created_at"),
    Signal: ("generation", "accepted_at", "source_key"),
}
"""Columns that nothing ever changes."""


class Model:
    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.frozen: dict[type[models.Model], dict[str, tuple[Any, ...]]] = {}
        self.instance = subject.flow.instance
        self.past: dict[str, tuple[Any, ...]] = {}

    def check(self, act: str, refused: str | None) -> None:
        """After a step. `act`: "control" for control and recovery, "work" for workers and time, "run" for runners."""
        instance = self.subject.flow.instance
        self._revisions(instance, act, refused)
        self._nothing_frozen_moved()
        self._history_stays()
        self._budgets()
        if self.instance.status in TERMINAL:
            assert instance.status == self.instance.status
        if self.instance.stop_kind:
            assert instance.stop_kind == self.instance.stop_kind, "the first stop intent stands"
            assert instance.status in ("CANCELLING", "NEEDS_REVIEW", "CANCELLED", "FAILED")
        may_run = instance.status == "RUNNING" and not instance.paused and instance.stop_kind is None
        assert (self.subject.gate.state == "OPEN") == may_run
        assert not self.subject.granted_behind_a_gate
        assert bool(instance.review_reason) == bool(instance.review_since) == (instance.status == "NEEDS_REVIEW")
        self.instance = instance

    def verify(self) -> None:
        """The whole system's invariants, over stored rows."""
        broken = [(r.check.name, v) for r in verify.verify(deep=True) for v in r.violations]
        assert not broken, broken

    def at_rest(self) -> None:
        """After all runners have come to rest: who waits has something to wait for."""
        assert not RootContinuation.objects.filter(status="PENDING").exists()
        instance = self.subject.flow.instance
        if instance.status != "RUNNING" or instance.paused:
            return
        for row in self.subject.leaves():
            assert row.status not in ("NEEDS_REVIEW", "FAILED", "CANCELLED"), row.step_key
            if row.status == "RUNNING":
                owned = Task.objects.filter(owner_activation=row.current_activation_id)
                assert owned.filter(status__in=("QUEUED", "RUNNING"), held=False).exists(), row.step_key
            if row.status == "WAITING" and row.kind != "SIGNAL":
                armed = StepClock.objects.filter(activation=row.current_activation_id, status="ARMED")
                assert armed.filter(kind__in=("NEXT_ROUND", "TIMER")).exists(), row.step_key

    def _revisions(self, instance: WorkflowInstance, act: str, refused: str | None) -> None:
        raised = instance.revision - self.instance.revision
        controlled = instance.control_revision - self.instance.control_revision
        if act == "control":
            assert (raised, controlled) == ((0, 0) if refused else (1, 1)), (raised, controlled, refused)
        elif act == "work":
            assert (raised, controlled) == (0, 0)
        else:
            assert raised >= 0
            assert controlled == 0
        if raised == 0:
            assert instance.status == self.instance.status, "a status moved without a revision"

    def _nothing_frozen_moved(self) -> None:
        for model, columns in FROZEN.items():
            rows = {pk: tuple(rest) for pk, *rest in model._default_manager.values_list("pk", *columns)}
            known = self.frozen.get(model, {})
            moved = {pk: (row, rows.get(pk)) for pk, row in known.items() if rows.get(pk) != row}
            assert not moved, (model.__name__, moved)
            self.frozen[model] = rows

    def _history_stays(self) -> None:
        """An activation that is history is never rewritten."""
        old = StepActivation.objects.exclude(workflowstep__isnull=False)
        rows = {pk: tuple(rest) for pk, *rest in old.values_list("pk", "status", "output", "settled_at")}
        assert all(rows[pk] == row for pk, row in self.past.items())
        self.past = rows

    def _budgets(self) -> None:
        definition: Definition = load(self.instance.definition_version_id)
        attempts: Counter[tuple[str, int]] = Counter()
        tasks: Counter[tuple[str, int]] = Counter()
        halves = ActivationTask.objects.values_list("activation__step__step_key", "round", "task_id")
        numbers = Counter(TaskAttempt.objects.values_list("task_id", flat=True))
        for key, number, task_id in halves:
            tasks[key, number] += 1
            attempts[key, number] += numbers[task_id]
        for (key, number), used in attempts.items():
            pinned = definition.steps[key]
            assert used <= pinned.max_attempts, (key, number, used)
            assert tasks[key, number] <= pinned.max_attempts, (key, number)
            assert number <= pinned.max_rounds, (key, number)
        self._one_at_a_time(WorkflowStep.objects.values_list("step_key", flat=True))

    def _one_at_a_time(self, keys: Iterable[str]) -> None:
        """At most one open task of a step; one concurrency key runs once."""
        open_tasks = Task.objects.filter(status__in=("QUEUED", "RUNNING", "NEEDS_REVIEW"))
        per_step = Counter(open_tasks.values_list("owner_activation__step__step_key", flat=True))
        assert all(per_step[key] <= 1 for key in keys), per_step
        taken = open_tasks.exclude(status="QUEUED").exclude(concurrency_key=None)
        assert all(count == 1 for count in Counter(taken.values_list("concurrency_key", flat=True)).values())
