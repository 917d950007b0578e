"""Definitions: their versions, the pinned tree with its limits, and how many instances run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from recovery import definitions
from recovery.console import counts, words
from recovery.console.keyset import Keyset
from recovery.console.presenters.step import limits
from recovery.definitions import Spec
from recovery.models import DefinitionVersion, Queue, WorkflowDefinition, WorkflowInstance
from recovery.states import InstanceStatus

PAGE = 25
"""Definitions of one page."""
STEPS = 100
"""Steps of one page of a version."""
VERSIONS = 20
"""Versions that a page names, the newest first."""

OPEN = (InstanceStatus.RUNNING, InstanceStatus.NEEDS_REVIEW, InstanceStatus.CANCELLING)

_BY_NAME = Keyset("name", is_unique=True)

Count = tuple[str, words.Mark, str]
"""A status, how it is drawn, and how many have it (capped)."""


@dataclass(frozen=True)
class Line:
    """A definition in the list, with its newest version."""

    definition: WorkflowDefinition
    latest: DefinitionVersion
    running: list[Count]


def listed(namespace_id: str, after: str) -> tuple[list[Line], str | None]:
    """The next page by name, in three statements. Raises ValidationFailed for a cursor that no page has made."""
    rows = WorkflowDefinition.objects.filter(namespace_id=namespace_id)
    found, following = _BY_NAME.page([rows], after, PAGE)
    keys = [row.pk for row in found]
    versions = DefinitionVersion.objects.filter(definition_id__in=keys).defer("input_schema").order_by("version")
    latest = {version.definition_id: version for version in versions}
    counted = _counted("definition_id", keys, OPEN)
    return [Line(row, latest[row.pk], counted[row.pk]) for row in found if row.pk in latest], following


def _counted(column: str, keys: Sequence[str], statuses: Sequence[str]) -> dict[str, list[Count]]:
    """For each key, the statuses that any instance has, in one statement."""
    wanted = {
        f"{key} {status}": WorkflowInstance.objects.filter(**{column: key}, status=status)
        for key in keys
        for status in statuses
    }
    counted = counts.capped(wanted) if wanted else {}
    return {
        key: [
            (status, words.mark("InstanceStatus", status), counts.shown(number))
            for status in statuses
            if (number := counted[f"{key} {status}"])
        ]
        for key in keys
    }


@dataclass(frozen=True)
class Node:
    """A row of the tree. `limits`: what is fixed for it, in words."""

    spec: Spec
    depth: int
    queue: str
    limits: tuple[str, ...]


@dataclass(frozen=True)
class VersionPage:
    """One version. `chosen`: the step whose contracts are shown; `page` of `pages` of the tree's rows."""

    definition: definitions.Definition
    row: DefinitionVersion
    versions: list[DefinitionVersion]
    counts: list[Count]
    nodes: list[Node]
    queues: list[Queue]
    chosen: Spec | None
    page: int
    pages: int

    @property
    def previous(self) -> int:
        return self.page - 1

    @property
    def following(self) -> int:
        return self.page + 1


def version_page(row: DefinitionVersion, *, step: str = "", page: int = 1) -> VersionPage:
    """What is pinned, and what runs on it, in three statements and those that load the definition once."""
    definition = definitions.load(row.pk)
    steps = list(definition.steps.values())
    pages = -(-len(steps) // STEPS)
    page = min(max(page, 1), pages)
    queues = {queue.pk: queue for queue in Queue.objects.filter(pk__in=definition.queue_ids).order_by("name")}
    shown = steps[(page - 1) * STEPS : page * STEPS]
    others = DefinitionVersion.objects.filter(definition_id=row.definition_id).defer("input_schema")
    return VersionPage(
        definition=definition,
        row=row,
        versions=list(others.order_by("-version")[:VERSIONS]),
        counts=_counted("definition_version_id", [row.pk], InstanceStatus.values)[row.pk],
        nodes=[_node(spec, definition, queues) for spec in shown],
        queues=list(queues.values()),
        chosen=definition.steps.get(step),
        page=page,
        pages=pages,
    )


def _node(spec: Spec, definition: definitions.Definition, queues: dict[str, Queue]) -> Node:
    depth, parent = 0, spec.parent
    while parent is not None:
        depth, parent = depth + 1, definition.steps[parent].parent
    queue: Any = queues.get(spec.queue_id or "")
    return Node(spec, min(depth, 9), queue.name if queue else "", tuple(limits(spec)))
