"""The page on which one operation is decided: the claim on the left, the server's own check on the right."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from recovery import exact_json
from recovery.case import Case, StepCase, TaskCase
from recovery.console.find import Found
from recovery.console.presenters import acts, instance, options, queue
from recovery.locks import snapshot
from recovery.models import WorkflowAudit
from recovery.operations import Option, explain, new_key
from recovery.operations.base import Operation

KEPT = 8
"""References named by earlier decisions that a form offers."""


@dataclass(frozen=True)
class ActionPage:
    """One operation on one target, with everything the form has to carry. `option`: None where nothing fits it."""

    operation: Operation
    target: dict[str, str]
    case: Case
    step: StepCase | None
    task: TaskCase | None
    option: Option | None
    title: str
    lines: list[options.Line]
    deadlines: list[instance.Until]
    kept: list[str]

    @property
    def holding(self) -> int:
        return sum(line.holds is True for line in self.lines)

    @property
    def answer(self) -> Any:
        """The last result of the task in question or of the step's last task: what a claim is about."""
        task = self.task or (self.step.tasks[-1] if self.step and self.step.tasks else None)
        return task.authoritative.row if task and task.authoritative else None

    def seen(self) -> dict[str, str]:
        """What a form that is opened now carries: a key of its own, and the revisions before the reader's eyes."""
        seen = {
            "operation_key": new_key(),
            "seen_at": queue.stamp(self.case.now),
            "seen_digest": exact_json.digest(
                [[line.rule, line.holds, line.code, str(line.found)] for line in self.lines]
            ),
            "expected_revision": str(self.case.instance.revision),
        }
        if self.step and self.step.current and self.operation.target == "step":
            seen |= {
                "activation_id": self.step.current.row.pk,
                "expected_step_revision": str(self.step.row.revision),
            }
        if self.task:
            seen["expected_task_revision"] = str(self.task.row.revision)
        return seen


def action_page(found: Found, operation: Operation, target: dict[str, str]) -> ActionPage:
    """Asks the operation's own rules about the target, on one snapshot."""
    with snapshot():
        explanation = explain(found.actor, found.instance.pk, **target)
        clocks = list(instance.running(found.instance.pk, explanation.case.now))
        kept = _kept(found.instance.pk)
    case = explanation.case
    option = next((o for o in explanation.options if o.operation == operation.slug and o.target == target), None)
    step = acts.step_of(case, target)
    return ActionPage(
        operation=operation,
        target=target,
        case=case,
        step=step,
        task=_task(step, target),
        option=option,
        title=acts.title(operation.slug, case, target),
        lines=options.lines(option.findings, case) if option else [],
        deadlines=instance.deadlines(case, clocks),
        kept=kept,
    )


def _task(step: StepCase | None, target: Mapping[str, str]) -> TaskCase | None:
    key = target.get("task_id")
    return next((task for task in step.tasks if task.row.pk == key), None) if step and key else None


def _kept(instance_id: str) -> list[str]:
    rows = WorkflowAudit.objects.filter(instance_id=instance_id).exclude(evidence_ref="")
    newest = rows.order_by("-sequence").values_list("evidence_ref", flat=True)[: KEPT * 4]
    return list(dict.fromkeys(newest))[:KEPT]


def targets(found: Found, operation: Operation) -> tuple[Case, list[options.Answer]]:
    """The answers on every target of one operation, for a page that was opened without one."""
    explanation = explain(found.actor, found.instance.pk)
    answers = [answer for answer in options.answers(explanation) if answer.option.operation == operation.slug]
    return explanation.case, answers


@dataclass(frozen=True)
class ChangedRow:
    """Rows of a preview: one entity, with each field's value before and after."""

    entity: str
    row_id: str
    fields: list[tuple[str, Any, Any]]


@dataclass(frozen=True)
class PreviewPage:
    """What a commit would do now, from a real run that was rolled back."""

    allowed: bool
    lines: list[options.Line]
    changed: list[ChangedRow]
    created: list[tuple[str, list[tuple[str, Any]]]]
    at: datetime


HIDDEN = frozenset(
    {
        *("id", "namespace_id", "application_id", "instance_id", "created_at", "operation_key", "command_digest"),
        *("input", "input_digest", "before", "after", "previous_hash", "entry_hash", "response", "payload_digest"),
    }
)
"""Columns of new rows that repeat what stands on the page, or mean nothing before the commit."""

LAST = ("ApplicationQuota", "QueueQuota")
"""Rows that only count; they stand below what was decided."""


def preview_page(preview: Any, at: datetime) -> PreviewPage:
    """Groups a preview's rows by entity and row."""
    changed: dict[tuple[str, str], ChangedRow] = {}
    for entity, row_id, field, before, after in preview.changes:
        row = changed.setdefault((entity, row_id), ChangedRow(entity, row_id, []))
        row.fields.append((field, before, after))
    created = [
        (entity, [(name, value) for name, value in fields.items() if _tells(name, value)])
        for entity, fields in preview.created
    ]
    rows = sorted(changed.values(), key=lambda row: (row.entity in LAST, row.entity != "WorkflowInstance"))
    return PreviewPage(preview.allowed, options.lines(preview.findings), rows, created, at)


def _tells(name: str, value: Any) -> bool:
    return name not in HIDDEN and value not in (None, "", {})
