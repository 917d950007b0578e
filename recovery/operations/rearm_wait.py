"""RearmWait: a SIGNAL or TIMER waits again, as a new generation in its old deadline (seed 18, section 4; RW1–RW5)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from recovery import flow
from recovery.audit import instant
from recovery.errors import ActivationLimit, StateConflict, WinnerExists
from recovery.ids import new_id
from recovery.models import StepActivation, StepCheckpoint, StepClock, WaitState
from recovery.operations.base import Effects, Operation, Scene, activation_now, audited, step_now
from recovery.operations.commands import StepDecision, checked, stated
from recovery.operations.findings import Finding, depends, fails, holds
from recovery.operations.rules import (
    GENERAL,
    NO_STOP_NO_TIME,
    STEP,
    Question,
    history_fits,
    in_time,
    no_signal_is_pending,
    target_is_leaf,
)
from recovery.states import (
    ActivationCause,
    ActivationStatus,
    CheckpointStatus,
    ClockKind,
    ClockStatus,
    StepKind,
    StepStatus,
    WaitKind,
    WaitStatus,
)
from recovery.writes import change, insert

MAX_ACTIVATIONS = 32
"""Waiting activations of one step, the first included (RW2)."""


@dataclass(frozen=True, kw_only=True)
class RearmWait(StepDecision):
    wait_verified: bool = checked(stated)


def wait_can_be_rearmed(question: Question) -> Iterator[Finding]:
    """RW1: a SIGNAL or TIMER that has not succeeded; one whose input could not be made never waited."""
    finding = target_is_leaf(
        "RW1",
        question,
        [StepKind.SIGNAL, StepKind.TIMER],
        [StepStatus.WAITING, StepStatus.NEEDS_REVIEW, StepStatus.FAILED, StepStatus.CANCELLED],
    )
    yield finding
    step = question.step
    if finding.holds and step and step.current and step.current.wait is None:
        yield fails(
            "RW1", StateConflict, _("The step never had a wait."), _("Use ResolveStep, or cancel."), [step.row.pk]
        )


def activations_and_time_are_left(question: Question) -> Iterator[Finding]:
    """RW2."""
    step = question.step
    if step is None or step.current is None or step.current.wait is None:
        return
    counts = {"used": len(step.activations), "max": MAX_ACTIVATIONS}
    if len(step.activations) < MAX_ACTIVATIONS:
        yield holds("RW2", _("%(used)d of %(max)d activations are used.") % counts)
    else:
        yield fails(
            "RW2",
            ActivationLimit,
            _("All %(max)d activations are used.") % counts,
            _("Resolve the step, or cancel."),
            [step.row.pk],
        )
    yield in_time("RW2", question.case.now, step.current.wait.deadline_at, _("wait deadline"))


def no_signal_counts_already(question: Question) -> Iterator[Finding]:
    """RW3: neither a PENDING signal of the current generation nor a matched winner is passed over."""
    step = question.step
    if step is None or step.current is None:
        return
    yield from no_signal_is_pending("RW3", step)
    winner = step.current.wait.winner_signal_id if step.current.wait else None
    if winner:
        yield fails(
            "RW3",
            WinnerExists,
            _("A signal has already matched this wait."),
            _("Examine it, then use ResolveStep."),
            [winner],
        )
    elif not step.pending_signals:
        yield holds("RW3", _("No signal is pending and none has matched."))


def wait_is_stated(question: Question) -> Iterator[Finding]:
    """G13, in an explanation."""
    if question.command is None and question.step and question.step.spec.kind in (StepKind.SIGNAL, StepKind.TIMER):
        yield depends("G13", _("You have to state that the wait was verified."))


def apply(scene: Scene) -> Effects:
    """RW4: the old wait is superseded; a new generation waits with the same input, key and deadline."""
    step, case, now = scene.target, scene.case, scene.case.now
    current = step.current
    assert current is not None
    assert current.wait is not None
    old, old_wait = current.row, current.wait
    before = {
        **audited(step.row),
        "activation_id": old.pk,
        "activation_status": old.status,
        "wait_status": old_wait.status,
        "generation": old.sequence,
    }
    activation = StepActivation(
        id=new_id(),
        instance_id=case.instance.pk,
        step=step.row,
        sequence=old.sequence + 1,
        status=ActivationStatus.WAITING,
        input=old.input,
        input_digest=old.input_digest,
        cause=ActivationCause.REARM,
        created_at=now,
    )
    change(
        step.row,
        status=StepStatus.WAITING,
        revision=step.row.revision + 1,
        current_activation_id=activation.pk,
        output=None,
        review_reason="",
        settled_at=None,
    )
    if old.status == ActivationStatus.WAITING:
        change(old, status=ActivationStatus.CANCELLED, settled_at=now)
    insert(activation)
    if old_wait.status == WaitStatus.WAITING:
        change(old_wait, status=WaitStatus.CANCELLED, settled_at=now)
    wait = WaitState(
        activation=activation,
        kind=old_wait.kind,
        status=WaitStatus.WAITING,
        correlation_key=old_wait.correlation_key,
        deadline_at=old_wait.deadline_at,
    )
    insert(wait)
    flow.close_activation([old.pk], now)
    if wait.deadline_at:
        kind = ClockKind.TIMER if wait.kind == WaitKind.TIMER else ClockKind.WAIT_DEADLINE
        insert(
            StepClock(
                instance_id=case.instance.pk,
                activation=activation,
                kind=kind,
                due_at=wait.deadline_at,
                status=ClockStatus.ARMED,
            )
        )
    insert(StepCheckpoint(activation=activation, kind="WAIT", status=CheckpointStatus.OPEN, opened_at=now))
    after = {
        **audited(step.row),
        "activation_id": activation.pk,
        "generation": activation.sequence,
        "wait_id": wait.pk,
        "deadline_at": instant(wait.deadline_at) if wait.deadline_at else None,
    }
    return Effects(
        made={
            "step": step_now(step.row),
            "activation": activation_now(activation),
            "superseded_activation": activation_now(old),
            "wait": {"id": wait.pk, "deadline_at": after["deadline_at"], "correlation_key": wait.correlation_key},
        },
        before=before,
        after=after,
    )


OPERATION = Operation(
    slug="rearm-wait",
    name="RearmWait",
    target="step",
    statement="wait_verified",
    command=RearmWait,
    rules=(
        *GENERAL,
        *STEP,
        *NO_STOP_NO_TIME,
        history_fits,
        wait_can_be_rearmed,
        activations_and_time_are_left,
        no_signal_counts_already,
        wait_is_stated,
    ),
    apply=apply,
    will_not=(
        gettext_noop("It does not extend the deadline; a timer still counts from its first activation."),
        gettext_noop("It does not accept signals that were sent to an old generation."),
        gettext_noop("It does not repeat a step that succeeded."),
        gettext_noop("It does not end the review of the instance; Continue does."),
    ),
)
