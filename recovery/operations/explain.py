"""The explanation: the operations' own rules, asked without locks, on one consistent snapshot.

For a large instance the rules of steps run for the troubled ones that are shown; the rest are counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

from recovery import clock, definitions, permissions
from recovery.case import Case, StepCase, load_histories, tasks_astray, unsettled_inbox
from recovery.errors import PermissionDenied
from recovery.locks import snapshot
from recovery.models import QueueQuota, Task, WorkflowInstance, WorkflowStep
from recovery.operations.base import Operation
from recovery.operations.findings import Finding, fails, first_failure, holds
from recovery.operations.registry import REGISTRY
from recovery.operations.rules import Question
from recovery.permissions import Actor, Rights
from recovery.states import LEAVES, StepKind, StepStatus, TaskStatus

WHOLE = 200
"""Up to so many steps the whole history is loaded, and Continue's rules are asked in full."""
SHOWN = 20
"""Of a larger instance, how many troubled steps are loaded with their history."""

_TROUBLED = (StepStatus.NEEDS_REVIEW, StepStatus.FAILED, StepStatus.CANCELLED)


@dataclass(frozen=True)
class Option:
    """One operation on one target. `allowed`: no rule fails with what is known; `code`: of the first that fails."""

    operation: str
    target: dict[str, str]
    allowed: bool
    code: str | None
    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class Explanation:
    """`options`: every operation on every target that is shown; `hidden`: troubled steps that are only counted."""

    case: Case
    rights: Rights
    options: tuple[Option, ...]
    hidden: int


def explain(actor: Actor, instance_id: str, *, step_key: str | None = None, task_id: str | None = None) -> Explanation:
    """Asks the rules of all six operations; of one step or task only, when one is named.

    Needs workflows:read; what else is missing is a finding (G2). Raises NotFound. Takes no lock and writes nothing.
    """
    with snapshot():
        return _explain(actor, instance_id, step_key, task_id)


def _explain(actor: Actor, instance_id: str, step_key: str | None, task_id: str | None) -> Explanation:
    instance = permissions.find_instance(actor, instance_id)
    rights = permissions.require_reading(actor)
    definition = definitions.load(instance.definition_version_id)
    steps = {row.step_key: row for row in WorkflowStep.objects.filter(instance_id=instance.pk)}
    known = {key: row for key, row in steps.items() if key in definition.steps}
    is_whole = len(steps) <= WHOLE and step_key is None and task_id is None
    candidates = _candidates(instance.pk, known, step_key, task_id)
    if is_whole:
        loaded = list(known.values())
    elif step_key is not None or task_id is not None:
        loaded = candidates[:SHOWN]
    else:
        loaded = _with_unknown(instance.pk, known, candidates[:SHOWN])
    histories = load_histories(loaded, definition)
    case = Case(
        now=clock.now(),
        instance=instance,
        gate=instance.instancegate,
        definition=definition,
        application=instance.application.applicationquota,
        queues=tuple(QueueQuota.objects.filter(pk__in=definition.quota_ids)),
        unsettled_inbox=unsettled_inbox(instance.pk),
        histories=histories,
        steps=steps,
        is_whole=is_whole,
        astray=tasks_astray(instance.pk, histories) if is_whole else (),
    )
    shown = [histories[row.step_key] for row in candidates[:SHOWN] if row.step_key in histories]
    right = _right(rights, actor, instance, definition)
    options = [
        _option(REGISTRY[slug], question, target, right) for slug, question, target in _questions(case, shown, task_id)
    ]
    return Explanation(case, rights, tuple(options), max(0, len(candidates) - SHOWN))


def _candidates(
    instance_id: str, steps: dict[str, WorkflowStep], step_key: str | None, task_id: str | None
) -> list[WorkflowStep]:
    """The steps that an operation may be about, the troubled ones first."""
    if step_key is not None:
        return [steps[step_key]] if step_key in steps else []
    if task_id is not None:
        owner = WorkflowStep.objects.filter(instance_id=instance_id, stepactivation__task=task_id)
        return [steps[key] for key in owner.values_list("step_key", flat=True) if key in steps]
    leaves = [row for row in steps.values() if row.kind in LEAVES]
    waiting = [
        row for row in leaves if row.status == StepStatus.WAITING and row.kind in (StepKind.SIGNAL, StepKind.TIMER)
    ]
    return [row for row in leaves if row.status in _TROUBLED] + waiting


def _with_unknown(instance_id: str, steps: dict[str, WorkflowStep], shown: list[WorkflowStep]) -> list[WorkflowStep]:
    """These steps, and up to `SHOWN` others with a task of unknown effect, whatever became of the step."""
    keys = {row.step_key for row in shown}
    unknown = Task.objects.filter(instance_id=instance_id, status=TaskStatus.NEEDS_REVIEW).order_by("pk")
    others = dict.fromkeys(unknown.values_list("owner_activation__step__step_key", flat=True))
    return shown + [steps[key] for key in others if key in steps and key not in keys][:SHOWN]


_BY_KIND = {
    StepKind.TASK: ("retry-step", "resolve-step"),
    StepKind.POLL: ("continue-poll", "retry-step", "resolve-step"),
    StepKind.SIGNAL: ("rearm-wait", "resolve-step"),
    StepKind.TIMER: ("rearm-wait", "resolve-step"),
}


def _questions(case: Case, shown: list[StepCase], task_id: str | None) -> list[tuple[str, Question, dict[str, str]]]:
    asked: list[tuple[str, Question, dict[str, str]]] = []
    # Also of a step in no trouble: a final signal may settle it while a request runs that then ends unknown.
    for step in case.histories.values():
        for task in step.tasks:
            if task.is_unknown or task.row.pk == task_id:
                asked.append(("review-task", Question(case, step, task), {"task_id": task.row.pk}))
    for step in shown:
        target = {"step_key": step.row.step_key}
        asked += [(slug, Question(case, step), target) for slug in _BY_KIND[StepKind(step.row.kind)]]
    asked.append(("continue", Question(case), {}))
    return asked


def _option(operation: Operation, question: Question, target: dict[str, str], right: Finding) -> Option:
    findings = (right, *operation.decide(question))
    first = first_failure(findings)
    return Option(operation.slug, target, first is None, first.code if first else None, findings)


def _right(rights: Rights, actor: Actor, instance: WorkflowInstance, definition: Any) -> Finding:
    """G1 and G2 as a finding: the page shows an act that is missing a right as refused, not as absent."""
    try:
        permissions.require_active(instance.namespace, instance.application)
        permissions.check(rights, permissions.RECOVER, queue_ids=definition.queue_ids)
    except PermissionDenied as denied:
        return fails(denied.rule, PermissionDenied, denied.sentence, "")
    return holds("G2", _("You may recover this instance and use its queues."))
