"""The chain of tasks as a drawing: rounds above, tasks below in their activation's column, arrows along `retry_of`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from django.utils.translation import gettext as _

from recovery.case import ActivationCase, StepCase, TaskCase
from recovery.console import times, words
from recovery.states import GateState, RoundOutcome, TaskStatus

GAP = 0.28
"""Of a column's width: what stands between its last task and the next column, for the arrow."""


@dataclass(frozen=True)
class Box:
    """A task. Places in percent of the whole drawing."""

    task: TaskCase
    left: float
    width: float
    word: str
    is_current: bool
    attempts: tuple[str, ...]

    @property
    def x(self) -> str:
        return f"{self.left:.2f}%"

    @property
    def w(self) -> str:
        return f"{self.width:.2f}%"

    @property
    def pips(self) -> list[tuple[int, str]]:
        """(pixels from the left, symbol) for each attempt allowed."""
        squares = [SQUARES.get(status, "l") for status in self.attempts]
        squares += ["l"] * (self.task.row.max_attempts - len(squares))
        return [(12 + 14 * number, square) for number, square in enumerate(squares[:MOST])]

    @property
    def text_from(self) -> int:
        return 18 + 14 * len(self.pips)


SQUARES = {"FAILED": "f", "UNKNOWN": "u", "SUCCEEDED": "s", "CANCELLED": "x"}
MOST = 5


@dataclass(frozen=True)
class Arrow:
    """From one task to the next: a retry, or the wait for the next round."""

    x1: str
    x2: str
    middle: str
    word: str
    is_retry: bool


@dataclass(frozen=True)
class Bracket:
    """A business round over its tasks."""

    x1: str
    x2: str
    word: str
    note: str


@dataclass(frozen=True)
class Figure:
    boxes: list[Box]
    arrows: list[Arrow]
    brackets: list[Bracket]
    columns: int

    @property
    def summary(self) -> str:
        return "; ".join(f"{box.task.row.pk[-6:]}: {box.word}" for box in self.boxes)


def figure(step: StepCase, shown: Sequence[ActivationCase], gate: str) -> Figure:
    """The drawing of the activations that are shown."""
    boxes = list(_boxes(step, shown, gate))
    return Figure(boxes, list(_arrows(boxes)), list(_brackets(boxes)), len(shown))


def _boxes(step: StepCase, shown: Sequence[ActivationCase], gate: str) -> Iterator[Box]:
    column = 100 / len(shown)
    for number, activation in enumerate(shown):
        count = len(activation.tasks)
        for place, task in enumerate(activation.tasks):
            slot = column / count
            is_last = number == len(shown) - 1 and place == count - 1
            width = slot if is_last else slot * (1 - GAP)
            left = number * column + place * slot
            attempts = tuple(attempt.status for attempt in task.attempts)
            yield Box(task, left + 0.1, width - 0.3, _word(task, gate), task is step.tasks[-1], attempts)


def _word(task: TaskCase, gate: str) -> str:
    if task.row.status == TaskStatus.QUEUED and gate == GateState.CLOSED:
        return _("queued, behind the closed gate")
    if task.round is not None and task.round.outcome not in (RoundOutcome.OPEN, RoundOutcome.FAILED):
        return str(words.label("RoundOutcome", task.round.outcome))
    return str(words.label("TaskStatus", task.row.status))


def _arrows(boxes: Sequence[Box]) -> Iterator[Arrow]:
    for first, second in pairwise(boxes):
        start, end = first.left + first.width, second.left
        is_retry = second.task.row.retry_of_id == first.task.row.pk
        between = second.task.row.created_at - (first.task.row.settled_at or first.task.row.created_at)
        word = "retry_of" if is_retry else times.lasted(between)
        yield Arrow(f"{start:.2f}%", f"{end:.2f}%", f"{(start + end) / 2:.2f}%", word, is_retry)


def _brackets(boxes: Sequence[Box]) -> Iterator[Bracket]:
    rounds = [box for box in boxes if box.task.round is not None]
    for number, group in groupby(rounds, key=lambda box: box.task.round.round if box.task.round else 0):
        members = list(group)
        first, last = members[0], members[-1]
        assert first.task.round is not None
        assert last.task.round is not None
        note = _("first asked %(time)s") % {"time": times.words(first.task.round.started_at)}
        yield Bracket(first.x, f"{last.left + last.width:.2f}%", _("Round %(number)d") % {"number": number}, note)
