"""Continue: the review of an instance ends (seed 16, sections 1 and 5; CO1–CO5)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop, ngettext

from recovery import flow
from recovery.case import StepCase
from recovery.errors import ExecutionUnknown, StepUnresolved
from recovery.operations import history
from recovery.operations.base import Effects, Operation, Scene
from recovery.operations.commands import Command, checked, stated
from recovery.operations.findings import Finding, depends, fails, holds
from recovery.operations.rules import GENERAL, Question, history_finding, in_time
from recovery.states import ContinuationKind, GateState, InstanceStatus, StepStatus, StopKind


@dataclass(frozen=True, kw_only=True)
class Continue(Command):
    review_resolved: bool = checked(stated)


def everything_fits(question: Question) -> Iterator[Finding]:
    """CO1: every historical task passes G11, none is unknown, and the graph is the pinned one."""
    case = question.case
    problems = [
        problem for step in case.histories.values() for problem in history.problems(step, case.instance)
    ] + _graph_problems(question)
    problems += [(_("a task of this instance belongs to no step of it"), task_id) for task_id in case.astray]
    yield history_finding("CO1", problems)
    unknown = [task.row.pk for step in case.histories.values() for task in step.tasks if task.is_unknown]
    if not case.is_whole:
        yield depends("CO1", _("The history of the steps that are not shown is checked when you continue."))
    if unknown:
        yield fails(
            "CO1",
            ExecutionUnknown,
            ngettext(
                "The effect of %(count)d task is unknown.", "The effects of %(count)d tasks are unknown.", len(unknown)
            )
            % {"count": len(unknown)},
            _("Verify each and use ReviewTask."),
            unknown,
        )
    else:
        yield holds("CO1", _("No task's effect is unknown."))


def _graph_problems(question: Question) -> list[history.Problem]:
    case = question.case
    if not case.is_whole:
        return []
    found: list[history.Problem] = []
    for key, spec in case.definition.steps.items():
        row = case.steps.get(key)
        if row is None:
            found.append((_("a pinned step is missing"), case.instance.pk))
        elif (row.kind, row.parent_key) != (spec.kind, spec.parent):
            found.append((_("a step differs from the pinned one"), row.pk))
    extra = [row.pk for key, row in case.steps.items() if key not in case.definition.steps]
    return found + [(_("a step is not in the pinned definition"), pk) for pk in extra]


def resolved_as_failed(step: StepCase) -> bool:
    """A person concluded FAILED on the current activation."""
    return step.row.status == StepStatus.FAILED and bool(step.current and step.current.row.concluded_by_id)


def steps_are_resolved(question: Question) -> Iterator[Finding]:
    """CO1: steps in NEEDS_REVIEW block; without a stop intent CANCELLED too, and FAILED unless concluded."""
    case = question.case
    unresolved = []
    for step in case.histories.values():
        status = step.row.status
        blocks = status == StepStatus.NEEDS_REVIEW or (
            case.instance.stop_kind is None
            and (status == StepStatus.CANCELLED or (status == StepStatus.FAILED and not resolved_as_failed(step)))
        )
        if blocks:
            unresolved.append(step.row)
    if unresolved:
        unresolved.sort(key=lambda row: row.step_key)  # or each database would name them in its own order
        names = ", ".join(f"{row.step_key} ({row.status})" for row in unresolved[:10])
        yield fails(
            "CO1",
            StepUnresolved,
            ngettext(
                "%(count)d step is not resolved: %(names)s.",
                "%(count)d steps are not resolved: %(names)s.",
                len(unresolved),
            )
            % {"count": len(unresolved), "names": names},
            _("Retry, rearm, continue or resolve each of them."),
            [row.pk for row in unresolved],
        )
    else:
        yield holds("CO1", _("Every step is resolved."))


def time_is_left_or_stop_goes_on(question: Question) -> Iterator[Finding]:
    """CO4: without a stop intent the instance deadline must not be reached. CO3: a stop goes on, also past it."""
    case = question.case
    if case.instance.stop_kind is None:
        yield in_time("CO4", case.now, case.instance.deadline_at, _("instance deadline"))
    else:
        yield holds("CO3", _("A stop was requested: Continue lets it go on."))


def end_is_stated(question: Question) -> Iterator[Finding]:
    """G13, in an explanation."""
    if question.command is None:
        yield depends("G13", _("You have to state that the review is resolved."))


def apply(scene: Scene) -> Effects:
    """CO2, CO3, CO5: on with the work, or on with the stop."""
    case, now = scene.case, scene.case.now
    instance, gate = case.instance, case.gate
    before = {"review_reason": instance.review_reason, "gate": gate.state, "stop_kind": instance.stop_kind}
    failed = sorted(key for key, step in case.histories.items() if resolved_as_failed(step))
    changes: dict[str, object] = {"review_reason": "", "review_since": None}
    if instance.stop_kind is None and failed:
        changes["stop_kind"] = StopKind.FAIL
    if instance.stop_kind is not None or failed:
        changes["status"] = InstanceStatus.CANCELLING
        kind = ContinuationKind.STOP
    else:
        changes["status"] = InstanceStatus.RUNNING
        kind = ContinuationKind.RESUME
        if not instance.paused:
            flow.set_gate(gate, GateState.OPEN)
    continuation = flow.continue_root(instance, kind, now)
    return Effects(
        made={
            "continuation": {"id": continuation.pk, "kind": kind.value, "sequence": continuation.sequence},
            "failed_steps": failed,
            "stop_kind": changes.get("stop_kind", instance.stop_kind),
        },
        before=before,
        after={
            "gate": gate.state,
            "stop_kind": changes.get("stop_kind", instance.stop_kind),
            "continuation": kind.value,
            "failed_steps": failed,
        },
        instance=changes,
    )


OPERATION = Operation(
    slug="continue",
    name="Continue",
    target="instance",
    statement="review_resolved",
    command=Continue,
    rules=(
        *GENERAL,
        everything_fits,
        steps_are_resolved,
        time_is_left_or_stop_goes_on,
        end_is_stated,
    ),
    apply=apply,
    will_not=(
        gettext_noop("It does not end an explicit pause: a paused instance still needs Resume."),
        gettext_noop("It does not extend a deadline."),
        gettext_noop("It does not undo a stop that was requested."),
    ),
)
