"""ResolveStep: a person concludes a leaf as SUCCEEDED or FAILED, by facts (seed 16, sections 1 and 3; RS1–RS4)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from recovery import contracts, exact_json, flow
from recovery.audit import instant
from recovery.clock import milliseconds
from recovery.definitions import Definition
from recovery.errors import DelayNotElapsed, OutcomeNotAccepted
from recovery.operations.base import Effects, Operation, Scene, activation_now, audited, step_now
from recovery.operations.commands import StepDecision, checked, json_value, outcome, stated
from recovery.operations.findings import Finding, depends, fails, holds
from recovery.operations.rules import (
    GENERAL,
    STEP,
    Question,
    answer_of,
    history_fits,
    no_signal_is_pending,
    target_is_leaf,
    tasks_are_settled,
)
from recovery.states import LEAVES, PollStatus, StepKind, StepStatus, WaitStatus
from recovery.writes import change


@dataclass(frozen=True, kw_only=True)
class ResolveStep(StepDecision):
    execution_settled: bool = checked(stated)
    outcome: str = checked(outcome)
    output: Any = checked(json_value)  # noqa: RUF009 - makes a dataclass field


RESOLVABLE = (StepStatus.NEEDS_REVIEW, StepStatus.FAILED, StepStatus.CANCELLED)


def step_is_settled(question: Question) -> Iterator[Finding]:
    """RS1: a leaf in NEEDS_REVIEW, FAILED or CANCELLED whose executions are all known and over."""
    finding = target_is_leaf("RS1", question, sorted(LEAVES), RESOLVABLE)
    yield finding
    if question.step is not None and finding.holds:
        yield from tasks_are_settled("RS1", question.step.tasks)
        yield from no_signal_is_pending("RS1", question.step)


def output_is_accepted(question: Question) -> Iterator[Finding]:
    """RS2: SUCCEEDED needs an output that the pinned contracts accept; FAILED takes any JSON."""
    step, command = question.step, question.command
    if step is None or not step.activations:
        return
    if not isinstance(command, ResolveStep):
        yield depends("RS2", _needed(question))
    elif command.outcome == "FAILED":
        yield holds("RS2", _("A FAILED conclusion takes any JSON."))
    elif step.spec.kind == StepKind.TIMER:
        yield from _timer_is_over(question, command)
    elif question.judgement:
        yield fails(
            "RS2", OutcomeNotAccepted, question.judgement, _("Enter the output that the fixed contract asks for.")
        )
    else:
        yield holds("RS2", _("The output satisfies the pinned contract."))


def _needed(question: Question) -> str:
    if question.target.spec.kind == StepKind.POLL:
        return _("SUCCEEDED needs an output that the pinned map calls SUCCEEDED; FAILED takes any JSON.")
    if question.target.spec.kind == StepKind.TIMER:
        return _("SUCCEEDED needs the whole delay to have passed and the output null; FAILED takes any JSON.")
    return _("SUCCEEDED needs an output that satisfies the pinned contract; FAILED takes any JSON.")


def output_problem(command: ResolveStep, definition: Definition) -> str | None:
    """RS2, the part that asks the pinned schemas and the map: why they do not accept the output as SUCCEEDED."""
    spec: Any = definition.steps.get(command.step_key)
    output = command.output
    if command.outcome == "FAILED" or spec is None or spec.kind not in LEAVES or spec.kind == StepKind.TIMER:
        return None
    if spec.kind == StepKind.SIGNAL and (broken := contracts.violation(spec.signal["schema"], output)):
        return _("The output breaks the signal's contract: %(problem)s.") % {"problem": broken}
    if broken := contracts.violation(spec.output_contract, output):
        return _("The output breaks the contract: %(problem)s.") % {"problem": broken}
    if spec.kind == StepKind.POLL and (meaning := answer_of(spec, output)) != "SUCCEEDED":
        return _("The pinned map does not call this output SUCCEEDED, but %(meaning)s.") % {
            "meaning": meaning or _("nothing it knows")
        }
    return None


def _timer_is_over(question: Question, command: ResolveStep) -> Iterator[Finding]:
    """A timer cannot be hurried: the delay counts from the first activation, whoever rearmed it."""
    due = question.target.activations[0].row.created_at + milliseconds(question.target.spec.delay_ms)
    if question.case.now < due:
        yield fails(
            "RS2",
            DelayNotElapsed,
            _("The delay is over at %(time)s, not before.") % {"time": instant(due)},
            _("Wait until then, or conclude FAILED."),
        )
    elif command.output is not None:
        yield fails("RS2", OutcomeNotAccepted, _("A timer's output is null."), _("Enter null."))
    else:
        yield holds("RS2", _("The delay has passed and the output is null."))


def apply(scene: Scene) -> Effects:
    """RS3: the conclusion is kept on activation and step; results, attempts, rounds and `used_rounds` stay."""
    command, step, now = scene.command, scene.target, scene.case.now
    current = step.current
    assert current is not None
    row, activation = step.row, current.row
    before = {
        **audited(row),
        "step_output": row.output,
        "activation_id": activation.pk,
        "activation_status": activation.status,
        "concluded_by": activation.concluded_by_id,
    }
    change(
        row,
        status=command.outcome,
        output=command.output,
        revision=row.revision + 1,
        review_reason="",
        settled_at=now,
    )
    change(
        activation,
        status=command.outcome,
        output=command.output,
        concluded_by=scene.operation,
        settled_at=now,
    )
    if current.poll and current.poll.status != PollStatus.SETTLED:
        change(current.poll, status=PollStatus.SETTLED, next_poll_at=None, settled_at=now)
    if current.budget and current.budget.settled_at is None:
        change(current.budget, in_flight=0, next_checkpoint_at=None, settled_at=now)
    if current.wait and current.wait.status == WaitStatus.WAITING:
        change(current.wait, status=WaitStatus.CANCELLED, settled_at=now)
    flow.close_activation([activation.pk], now)
    after = {
        **audited(row),
        "activation_id": activation.pk,
        "output_digest": exact_json.digest(command.output),
        "concluded_by": scene.operation.pk,
    }
    return Effects(
        made={
            "step": step_now(row),
            "activation": activation_now(activation),
            "output_digest": after["output_digest"],
        },
        before=before,
        after=after,
    )


OPERATION = Operation(
    slug="resolve-step",
    name="ResolveStep",
    target="step",
    statement="execution_settled",
    command=ResolveStep,
    rules=(*GENERAL, *STEP, history_fits, step_is_settled, output_is_accepted),
    apply=apply,
    judge=output_problem,
    will_not=(
        gettext_noop("It does not run anything again."),
        gettext_noop("It does not rewrite what the platform recorded: results, attempts, rounds and events stay."),
        gettext_noop("It does not end the review of the instance; Continue does."),
        gettext_noop("It does not undo a stop that was requested."),
    ),
)
