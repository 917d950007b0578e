"""ReviewTask: a person verified what a task of unknown effect really did (seed 16, section 1; RT1–RT5)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop, ngettext

from recovery import flow
from recovery.errors import ExecutionUnsettled, RevisionConflict, StateConflict
from recovery.models import ExecutionAudit, ManagementOperation
from recovery.operations.base import Effects, Operation, Scene
from recovery.operations.commands import Command, checked, json_not_null, name, outcome, revision, stated
from recovery.operations.findings import Finding, depends, fails, holds
from recovery.operations.rules import GENERAL, Question, history_fits
from recovery.states import ResultSource, TaskStatus
from recovery.stream import Settled
from recovery.writes import change, change_all, insert


@dataclass(frozen=True, kw_only=True)
class ReviewTask(Command):
    task_id: str = checked(name)
    expected_task_revision: str = checked(revision)
    execution_settled: bool = checked(stated)
    outcome: str = checked(outcome)
    result: Any = checked(json_not_null)  # noqa: RUF009 - makes a dataclass field


def task_is_fresh(question: Question) -> Iterator[Finding]:
    """G5, for the task."""
    command, task = question.command, question.task
    if isinstance(command, ReviewTask) and task and command.expected_task_revision != str(task.row.revision):
        yield fails(
            "G5",
            RevisionConflict,
            _("The task is at revision %(now)d, not %(seen)s.")
            % {"now": task.row.revision, "seen": command.expected_task_revision},
            _("Read what is newer, then decide again."),
            [task.row.pk],
        )


def task_is_unknown(question: Question) -> Iterator[Finding]:
    """RT1: the task is NEEDS_REVIEW and belongs to an activation, current or historical, of this instance."""
    task = question.task
    wanted = _("ReviewTask takes a task of this instance whose effect is unknown.")
    if task is None:
        yield fails("RT1", StateConflict, _("This is not such a task of this instance."), wanted)
    elif task.row.status != TaskStatus.NEEDS_REVIEW:
        found = _("The task is %(status)s.") % {"status": task.row.status}
        yield fails("RT1", StateConflict, found, wanted, [task.row.pk])
    else:
        yield holds("RT1", _("The task's effect is unknown."), [task.row.pk])


def no_attempt_runs(question: Question) -> Iterator[Finding]:
    """RT2: no attempt of it is RUNNING, whatever its lease says."""
    task = question.task
    if task is None:
        return
    running = [attempt.pk for attempt in task.attempts if attempt.status == "RUNNING"]
    if running:
        yield fails(
            "RT2", ExecutionUnsettled, _("An attempt is still running."), _("Wait until it has ended."), running
        )
    else:
        yield holds(
            "RT2",
            ngettext("Its %(count)d attempt has ended.", "All its %(count)d attempts have ended.", len(task.attempts))
            % {"count": len(task.attempts)},
        )


def result_is_stated(question: Question) -> Iterator[Finding]:
    """G13, in an explanation."""
    if question.command is None and question.task and question.task.is_unknown:
        yield depends("G13", _("You have to state that every external execution has ended, and what it answered."))


def apply(scene: Scene) -> Effects:
    """RT3: the outcome, a result of source REVIEW, permit and hold given back; the event last of all."""
    command, case, task = scene.command, scene.case, scene.task
    assert task is not None
    row, now = task.row, case.now
    queue = case.quota_of(row.queue_id)
    assert queue is not None
    before = {"task_id": row.pk, "task_status": row.status, "task_revision": str(row.revision)}
    permits = [permit for permit in task.permits if permit.released_at is None]
    change(row, status=command.outcome, revision=row.revision + 1, settled_at=now)
    change_all(permits, released_at=now, active_key=None)
    if permits:
        change(queue, running=queue.running - len(permits))
    flow.give_back([row.pk], case.application, case.queues, now)
    own_operation = ManagementOperation(
        namespace_id=case.instance.namespace_id,
        # A blank in front: no caller can send such a key. It has no receipt (G10).
        operation_key=" " + hashlib.sha256(scene.operation.operation_key.encode()).hexdigest(),
        action="review_execution",
        command_digest=scene.operation.command_digest,
        actor=scene.actor.username,
        instance_id=case.instance.pk,
        created_at=now,
    )
    execution_audit = ExecutionAudit(
        task=row,
        operation=own_operation,
        actor=scene.actor.username,
        action="review_task",
        from_status=before["task_status"],
        to_status=row.status,
        task_revision=row.revision,
        detail={"reason": command.reason, "evidence_ref": command.evidence_ref, "result": command.result},
        created_at=now,
    )
    insert(own_operation, execution_audit)
    return Effects(
        made={
            "task": {"id": row.pk, "status": row.status, "revision": str(row.revision)},
            "permits_released": [permit.pk for permit in permits],
        },
        before=before,
        after={"task_id": row.pk, "task_status": row.status, "task_revision": str(row.revision)},
        execution_audit=execution_audit,
        settled=[Settled(row, command.outcome, ResultSource.REVIEW, command.result)],
    )


OPERATION = Operation(
    slug="review-task",
    name="ReviewTask",
    target="task",
    statement="execution_settled",
    command=ReviewTask,
    rules=(
        GENERAL[0],
        task_is_fresh,
        *GENERAL[1:],
        history_fits,
        task_is_unknown,
        no_attempt_runs,
        result_is_stated,
    ),
    apply=apply,
    will_not=(
        gettext_noop("It does not run anything again."),
        gettext_noop("It does not rewrite the attempt: what was unknown stays recorded as unknown."),
        gettext_noop("It does not resolve the step, and does not call a successful request a business success."),
        gettext_noop("It does not end the review of the instance."),
    ),
)
