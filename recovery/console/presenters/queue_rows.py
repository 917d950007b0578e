"""What a row of the review queue says, for a whole page of rows in a fixed number of statements."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Case, Count, F, OuterRef, Q, Subquery, Value, When, Window
from django.db.models.functions import RowNumber
from django.utils.translation import gettext_lazy as _

from recovery.console import times, words
from recovery.console.presenters.queue import Place
from recovery.console.presenters.suggestion import Suggestion, suggest
from recovery.console.reader import Reader
from recovery.models import ActivationTask, InboxEvent, StepDefinition, Task, WorkflowInstance, WorkflowStep
from recovery.states import LEAVES, InboxStatus, ReviewReason, StepStatus, TaskStatus

SHOWN_STEPS = 2
"""Troubled steps that a row names; the rest is a count."""


@dataclass
class Trouble:
    """A step in trouble with the last task of its current activation.

    `attempts`: statuses by number; `detail`: the error code of the last one; `rounds`: how many a query may ask.
    """

    step: WorkflowStep
    reason: words.Mark
    round: int | None = None
    rounds: int | None = None
    task_id: str = ""
    task_status: str = ""
    allowed: int = 0
    detail: str = ""
    attempts: list[str] = field(default_factory=list)

    @property
    def left(self) -> int:
        return self.allowed - len(self.attempts)

    @property
    def has_budget(self) -> bool:
        return bool(self.task_id)

    @property
    def is_out_of_rounds(self) -> bool:
        """Attempts that its last round did not need are of no use any more."""
        return self.step.review_reason == ReviewReason.ROUNDS_EXHAUSTED


@dataclass(frozen=True)
class Row:
    """One instance of the queue."""

    place: Place
    instance: WorkflowInstance
    troubles: tuple[Trouble, ...]
    more: int
    unsettled: dict[str, int]
    next: Suggestion
    now: datetime

    @property
    def group(self) -> Any:
        """The heading that the row stands under."""
        left = self.place.until - self.now
        if left <= timedelta(0):
            return _("Deadline passed")
        if left < times.NEAR:
            return _("Within the hour")
        return _("Within a day") if left < timedelta(days=1) else _("Later")

    @property
    def is_near(self) -> bool:
        return timedelta(0) < self.place.until - self.now < times.NEAR

    @property
    def review(self) -> words.Mark:
        return words.reason(self.instance.review_reason)

    @property
    def deadline_of(self) -> Any:
        return words.clock(self.place.kind)


def rows(reader: Reader, places: Sequence[Place], now: datetime) -> list[Row]:
    """The rows of these places, in their order, in four statements."""
    keys = [place.instance_id for place in places]
    instances = WorkflowInstance.objects.select_related("namespace", "application", "definition", "definition_version")
    by_key = instances.in_bulk(keys)
    steps, counts = _troubled(keys)
    _add_tasks([trouble for group in steps.values() for trouble in group])
    unsettled, unknown = _unsettled(keys)
    found = []
    for place in places:
        instance = by_key.get(place.instance_id)
        if instance is None:
            continue
        troubles = tuple(steps[instance.pk])
        suggestion = suggest(
            instance,
            reader.rights(instance.namespace_id),
            troubles,
            unsettled=unsettled[instance.pk],
            unknown=unknown[instance.pk],
            now=now,
        )
        more = counts[instance.pk] - len(troubles)
        found.append(Row(place, instance, troubles, more, unsettled[instance.pk], suggestion, now))
    return found


_FIRST = Case(When(status=StepStatus.NEEDS_REVIEW, then=0), When(status=StepStatus.FAILED, then=1), default=2)


def _troubled(keys: Iterable[str]) -> tuple[dict[str, list[Trouble]], dict[str, int]]:
    """The first troubled leaves of each instance, those in review before failed and cancelled ones; and how many."""
    troubled = WorkflowStep.objects.filter(
        Q(status=StepStatus.NEEDS_REVIEW)
        | Q(status=StepStatus.FAILED, current_activation__concluded_by=None)
        | Q(status=StepStatus.CANCELLED, instance__stop_kind=None),
        instance_id__in=list(keys),
        kind__in=LEAVES,
    )
    pinned = StepDefinition.objects.filter(
        definition_version=OuterRef("instance__definition_version"), step_key=OuterRef("step_key")
    )
    ranked = troubled.annotate(
        rank=Window(RowNumber(), partition_by=F("instance_id"), order_by=[_FIRST.asc(), F("step_key").asc()]),
        total=Window(Count("pk"), partition_by=F("instance_id")),
        rounds=Subquery(pinned.values("max_rounds")[:1]),
    ).filter(rank__lte=SHOWN_STEPS)
    steps: dict[str, list[Trouble]] = defaultdict(list)
    counts: dict[str, int] = defaultdict(int)
    for step in ranked.order_by("instance_id", "rank"):
        steps[step.instance_id].append(Trouble(step, words.reason(step.review_reason), rounds=step.rounds))
        counts[step.instance_id] = step.total
    return steps, counts


def _add_tasks(troubles: list[Trouble]) -> None:
    """The last task of each step's current activation with its attempts, in one statement."""
    by_activation = {t.step.current_activation_id: t for t in troubles if t.step.current_activation_id}
    values = ActivationTask.objects.filter(activation_id__in=list(by_activation)).order_by(
        "activation_id", "round", "task__taskattempt__attempt_no"
    )
    for activation_id, number, task_id, status, allowed, attempt, error in values.values_list(
        "activation_id",
        "round",
        "task_id",
        "task__status",
        "task__max_attempts",
        "task__taskattempt__status",
        "task__taskattempt__error_code",
    ):
        trouble = by_activation[activation_id]
        if trouble.task_id != task_id:
            trouble.task_id, trouble.task_status, trouble.allowed = task_id, status, allowed
            trouble.round, trouble.attempts, trouble.detail = number or None, [], ""
        if attempt:
            trouble.attempts.append(attempt)
            trouble.detail = error


def _unsettled(keys: list[str]) -> tuple[dict[str, dict[str, int]], dict[str, str]]:
    """By instance: unsettled inbox events and unknown tasks, counted; and one of these tasks."""
    inbox = InboxEvent.objects.filter(
        instance_id__in=keys, status__in=(InboxStatus.PENDING, InboxStatus.QUARANTINED)
    ).values_list("instance_id", "status", Value(""))
    tasks = Task.objects.filter(instance_id__in=keys, status=TaskStatus.NEEDS_REVIEW)
    counts: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    unknown: dict[str, str] = {}
    everything = inbox.order_by().union(tasks.order_by().values_list("instance_id", "status", "pk"), all=True)
    for instance_id, status, task_id in everything:
        counts[instance_id][status] += 1
        if task_id:
            unknown[instance_id] = min(task_id, unknown.get(instance_id, task_id))
    return defaultdict(dict, counts), defaultdict(str, unknown)
