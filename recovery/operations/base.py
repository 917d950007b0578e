"""What an operation is, and what its effects may touch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from recovery.case import Case, StepCase, TaskCase
from recovery.definitions import Definition
from recovery.locks import Locks
from recovery.models import ExecutionAudit, ManagementOperation, StepActivation, WorkflowStep
from recovery.operations.commands import Command
from recovery.operations.findings import Finding
from recovery.operations.rules import Question, Rule
from recovery.permissions import Actor
from recovery.stream import Settled


@dataclass(frozen=True)
class Scene:
    """Where effects happen: the locked case, the target, the command, who acts, and the key's operation row.

    `audit_id`: the id that the audit of this act will have; a row may name it before it is written.
    """

    locks: Locks
    case: Case
    actor: Actor
    operation: ManagementOperation
    command: Any
    audit_id: str
    step: StepCase | None = None
    task: TaskCase | None = None

    @property
    def target(self) -> StepCase:
        assert self.step is not None
        return self.step


@dataclass
class Effects:
    """What an operation did. `made`: for the receipt; `before`, `after`: for the audit; `instance`: fields to write.

    `settled`: results that are published after everything else, because the stream is the last lock (G8).
    """

    made: dict[str, Any]
    before: dict[str, Any]
    after: dict[str, Any]
    instance: dict[str, Any] = field(default_factory=dict)
    execution_audit: ExecutionAudit | None = None
    settled: list[Settled] = field(default_factory=list)


def nothing_to_judge(command: Any, definition: Definition) -> str | None:
    return None


@dataclass(frozen=True)
class Operation:
    """One of the six. `rules` in the order of refusal (G15); `statement`: the field that has to be literally true.

    `target`: "task", "step" or "instance". `will_not`: what people might expect and will not happen, as message ids.
    `judge`: what the pinned schemas find wrong with what was entered; asked once, before the first lock (G7).
    """

    slug: str
    name: str
    target: str
    statement: str
    command: type[Command]
    rules: tuple[Rule, ...]
    apply: Callable[[Scene], Effects]
    will_not: tuple[str, ...]
    judge: Callable[[Any, Definition], str | None] = nothing_to_judge

    @property
    def action(self) -> str:
        """The audit action: the slug's word in the database's spelling."""
        return self.slug.replace("-", "_")

    def decide(self, question: Question) -> tuple[Finding, ...]:
        """All findings on a question, in the order of refusal. Pure."""
        return tuple(self._findings(question))

    def _findings(self, question: Question) -> Iterator[Finding]:
        for rule in self.rules:
            yield from rule(question)


def step_now(row: WorkflowStep) -> dict[str, Any]:
    """A step as a receipt tells it."""
    return {"id": row.pk, "step_key": row.step_key, "status": row.status, "revision": str(row.revision)}


def activation_now(row: StepActivation) -> dict[str, Any]:
    """An activation as a receipt tells it."""
    return {"id": row.pk, "sequence": row.sequence, "status": row.status}


def audited(row: WorkflowStep) -> dict[str, Any]:
    """A step as both halves of an audit tell it."""
    return {"step_key": row.step_key, "step_status": row.status, "step_revision": str(row.revision)}
