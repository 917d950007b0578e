"""The step tree as rows: whole for a small instance, one level at a time and troubled steps first for a large one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from recovery.case import Case, StepCase
from recovery.console import words
from recovery.definitions import Definition, Spec
from recovery.models import Queue, StepActivation, WorkflowStep
from recovery.states import LEAVES, StepStatus

WHOLE = 100
"""Up to so many steps the whole tree is shown."""
PAGE = 100
"""Children of one node on a page of a larger tree."""

TROUBLED = (StepStatus.NEEDS_REVIEW, StepStatus.FAILED)


@dataclass(frozen=True)
class Node:
    """A row of the tree."""

    spec: Spec
    row: WorkflowStep
    depth: int
    status: words.Mark
    sequence: int | None = None
    started: datetime | None = None
    took: timedelta | None = None
    queue: str = ""
    attempts: list[str] = field(default_factory=list)
    allowed: int = 0
    round: int | None = None

    @property
    def is_troubled(self) -> bool:
        return self.row.status in TROUBLED and self.spec.is_leaf

    @property
    def is_later(self) -> bool:
        return self.row.status == StepStatus.PENDING

    @property
    def used(self) -> int:
        return len(self.attempts)


@dataclass(frozen=True)
class Tree:
    """`at`: the node whose children are listed, with its ancestors in `path`; None for the whole tree."""

    nodes: list[Node]
    troubled: list[Node]
    counts: list[tuple[words.Mark, int]]
    total: int
    at: Spec | None = None
    path: tuple[str, ...] = ()
    page: int = 1
    pages: int = 1

    @property
    def previous(self) -> int:
        return self.page - 1

    @property
    def following(self) -> int:
        return self.page + 1


def tree(case: Case, *, at: str = "", page: int = 1) -> Tree:
    """The rows to show, in two statements whatever the size: queue names, and the current activations shown."""
    definition = case.definition
    counts = Counter(row.status for row in case.steps.values())
    drawn = [(words.mark("StepStatus", status), count) for status, count in counts.most_common()]
    total = len(case.steps)
    if total <= WHOLE:
        keys = [(key, _depth(definition, key)) for key in definition.steps]
        return Tree(_nodes(case, keys), [], drawn, total)
    spec = definition.steps.get(at) or definition.steps[definition.root]
    pages = max(1, -(-len(spec.children) // PAGE))
    page = min(max(page, 1), pages)
    level = [(key, 0) for key in spec.children[(page - 1) * PAGE : page * PAGE]]
    troubled = [(key, 0) for key in case.histories if case.steps[key].status in TROUBLED]
    nodes = {node.spec.key: node for node in _nodes(case, {*level, *troubled})}
    return Tree(
        [nodes[key] for key, _depth in level if key in nodes],
        [nodes[key] for key, _depth in troubled],
        drawn,
        total,
        spec,
        _path(definition, spec),
        page,
        pages,
    )


def _nodes(case: Case, keys: Iterable[tuple[str, int]]) -> list[Node]:
    wanted = [(case.definition.steps[key], case.steps[key], depth) for key, depth in keys if key in case.steps]
    queues = dict(Queue.objects.filter(pk__in=case.definition.queue_ids).values_list("pk", "name"))
    unloaded = [row.pk for _spec, row, _depth in wanted if row.kind in LEAVES and row.step_key not in case.histories]
    activations = StepActivation.objects.filter(step_id__in=unloaded).order_by("sequence") if unloaded else ()
    history: dict[str, list[StepActivation]] = {}
    for activation in activations:
        history.setdefault(activation.step_id, []).append(activation)
    nodes = []
    for spec, row, depth in wanted:
        step = case.histories.get(row.step_key)
        rows = [a.row for a in step.activations] if step else history.get(row.pk, [])
        started = rows[0].created_at if rows else None
        ended = row.settled_at or case.now
        attempts, allowed, number = _budget(step)
        nodes.append(
            Node(
                spec=spec,
                row=row,
                depth=depth,
                status=words.mark("StepStatus", row.status),
                sequence=rows[-1].sequence if rows else None,
                started=started,
                took=ended - started if started else None,
                queue=queues.get(spec.queue_id or "", ""),
                attempts=attempts,
                allowed=allowed,
                round=number,
            )
        )
    return nodes


def _budget(step: StepCase | None) -> tuple[list[str], int, int | None]:
    """Attempts by status that count against the present budget, what is allowed, and the round of a POLL."""
    if step is None or not step.spec.max_attempts:
        return [], 0, None
    poll = step.current.poll if step.current else None
    tasks = step.tasks_of_round(poll.used_rounds) if poll else step.tasks
    attempts = [attempt.status for task in tasks for attempt in task.attempts]
    return attempts, step.spec.max_attempts, poll.used_rounds if poll else None


def _depth(definition: Definition, key: str) -> int:
    return len(_path(definition, definition.steps[key]))


def _path(definition: Definition, spec: Spec) -> tuple[str, ...]:
    """The keys of a node's ancestors, from the root."""
    path: list[str] = []
    while spec.parent is not None:
        path.insert(0, spec.parent)
        spec = definition.steps[spec.parent]
    return tuple(path)
