"""The lists of an instance's history: which rows, in which order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db import models

from recovery.api.paging import Keyset
from recovery.models import (
    InboxEvent,
    PollBudget,
    PollRound,
    PollState,
    ResultEvent,
    RootContinuation,
    Signal,
    StepActivation,
    StepCheckpoint,
    StepClock,
    Task,
    TaskAttempt,
    TaskResult,
    WaitState,
)


@dataclass(frozen=True)
class HistoryList:
    """One list. `path`: from its rows to the instance. Ascending; where no column tells the order, ids do: they begin
    with the time.
    """

    name: str
    model: type[models.Model]
    keyset: Keyset
    path: str

    def of(self, instance_id: str) -> models.QuerySet[Any]:
        return self.model._default_manager.filter(**{self.path: instance_id})


def _list(name: str, model: type[models.Model], by: str, path: str, *, is_unique: bool = False) -> HistoryList:
    return HistoryList(name, model, Keyset(by, is_unique=is_unique), path)


LISTS: Mapping[str, HistoryList] = {
    each.name: each
    for each in (
        _list("activations", StepActivation, "created_at", "instance_id"),
        _list("tasks", Task, "created_at", "instance_id"),
        _list("attempts", TaskAttempt, "started_at", "task__instance_id"),
        _list("results", TaskResult, "recorded_at", "task__instance_id"),
        _list("events", ResultEvent, "offset", "task__instance_id", is_unique=True),
        _list("poll_states", PollState, "id", "activation__instance_id"),
        _list("rounds", PollRound, "started_at", "activation__instance_id"),
        _list("budgets", PollBudget, "id", "activation__instance_id"),
        _list("waits", WaitState, "id", "activation__instance_id"),
        _list("signals", Signal, "accepted_at", "instance_id"),
        _list("inbox", InboxEvent, "received_at", "instance_id"),
        _list("clocks", StepClock, "due_at", "instance_id"),
        _list("checkpoints", StepCheckpoint, "opened_at", "activation__instance_id"),
        _list("continuations", RootContinuation, "sequence", "instance_id", is_unique=True),
    )
}
