"""The tree of one instance as the scheduler walks it: which leaves are ready, which containers begin or finish."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from django.db.models.functions import Length

from recovery import exact_json
from recovery.definitions import Definition
from recovery.instance_lock import Locked
from recovery.models import WorkflowStep
from recovery.states import StepKind, StepStatus

MAX_OUTPUT = 4 * exact_json.MAX_BYTES
"""Of a container's output, as stored: far below the packets of the database, whatever its steps answered."""


@dataclass
class Graph:
    """Statuses by step key, as light as they come: thousands are read for the move of one of them.

    `ready`: leaves to activate, in tree order; `begun`, `finished`: containers, children before their parents (a dict
    for its order and its quick look-up).
    """

    definition: Definition
    ids: dict[str, str]
    statuses: dict[str, str]
    ready: list[str] = field(default_factory=list)
    begun: list[str] = field(default_factory=list)
    finished: dict[str, None] = field(default_factory=dict)
    _outputs: dict[str, Any] = field(default_factory=dict)
    _lengths: dict[str, int | None] = field(default_factory=dict)

    @classmethod
    def load(cls, locked: Locked) -> Graph:
        rows = list(WorkflowStep.objects.filter(instance=locked.instance).values_list("step_key", "pk", "status"))
        ids = {key: pk for key, pk, _status in rows}
        return cls(locked.definition, ids, {key: status for key, _pk, status in rows})

    @property
    def is_done(self) -> bool:
        """The root has succeeded, or succeeds now."""
        return self.statuses[self.definition.root] == StepStatus.SUCCEEDED

    def walk(self) -> None:
        """Fills `ready`, `begun` and `finished`."""
        self._walk(self.definition.root)

    def _walk(self, key: str) -> bool:
        """Whether the step has succeeded, or succeeds now. As deep as the document may be nested."""
        spec, status = self.definition.steps[key], self.statuses[key]
        if status == StepStatus.SUCCEEDED:
            return True
        if spec.is_leaf:
            if status == StepStatus.PENDING:
                self.ready.append(key)
            return False
        if status == StepStatus.PENDING:
            self.begun.append(key)
        below = (self._walk(child) for child in spec.children)
        # A sequence stops at its first child that has not succeeded; PARALLEL starts all of them.
        is_done = all(below) if spec.kind == StepKind.SEQUENCE else all(list(below))
        if is_done:
            self.finished[key] = None
            self.statuses[key] = StepStatus.SUCCEEDED
        return is_done

    def output(self, key: str) -> Any:
        """The output of a step that has succeeded: a sequence's is its last child's, PARALLEL's has one member each.

        Null where a container's would not be kept; its steps have theirs.
        """
        if key not in self._outputs:
            self.read_outputs([key])
        return self._outputs[key]

    def read_outputs(self, keys: Collection[str]) -> None:
        """Makes outputs known, those that are stored in one statement."""
        stored = [key for key in keys if key not in self.finished and key not in self._outputs]
        rows = WorkflowStep.objects.filter(pk__in=[self.ids[key] for key in stored])
        self._outputs |= dict(rows.values_list("step_key", "output")) if stored else {}
        for key in keys:
            if key in self.finished and key not in self._outputs:
                self._outputs[key] = self._container_output(key) if self.is_kept(key) else None

    def _container_output(self, key: str) -> Any:
        spec = self.definition.steps[key]
        if spec.kind == StepKind.SEQUENCE:
            return self.output(spec.children[-1])
        self.read_outputs(spec.children)
        return {child: self.output(child) for child in spec.children}

    def is_kept(self, key: str) -> bool:
        """Whether a step's output is small enough to be read and written in one piece."""
        return self.definition.steps[key].is_leaf or self._length(key) <= MAX_OUTPUT

    def _length(self, key: str) -> int:
        """About how long an output is as stored, without reading it."""
        if key not in self.finished and key not in self._lengths:
            self._read_lengths([key])
        spec = self.definition.steps[key]
        if spec.is_leaf or self._lengths.get(key):
            return self._lengths.get(key) or 0
        if spec.kind == StepKind.SEQUENCE:
            return self._length(spec.children[-1])
        self._read_lengths(spec.children)
        return sum(len(child) + self._length(child) for child in spec.children)

    def _read_lengths(self, keys: Collection[str]) -> None:
        unknown = [self.ids[key] for key in keys if key not in self.finished and key not in self._lengths]
        rows = WorkflowStep.objects.filter(pk__in=unknown).values_list("step_key", Length("output"))
        self._lengths |= dict(rows) if unknown else {}
