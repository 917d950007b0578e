"""The first activation of a leaf: what its templates give, and the rows that its kind needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db import models

from recovery import contracts, exact_json
from recovery.clock import milliseconds
from recovery.contracts import Unresolved
from recovery.definitions import Spec
from recovery.instance_lock import Locked
from recovery.models import (
    PollBudget,
    PollRound,
    PollState,
    StepActivation,
    StepCheckpoint,
    StepClock,
    Task,
    WaitState,
    WorkflowStep,
)
from recovery.operations import commands
from recovery.states import (
    ActivationCause,
    ActivationStatus,
    CheckpointStatus,
    ClockKind,
    ClockStatus,
    PollStatus,
    ReviewReason,
    RoundOutcome,
    StepKind,
    StepStatus,
    TaskStatus,
    WaitKind,
    WaitStatus,
)
from recovery.writes import change

MAX_KEY = 191
"""Characters of a business, concurrency or correlation key."""


@dataclass(frozen=True)
class Resolved:
    """What the templates of a leaf give at its activation."""

    input: Any
    business_key: str
    concurrency_key: str | None
    correlation_key: str


@dataclass
class Plan:
    """Rows to insert for the leaves of one transaction. `tasks`: each with its round; the caller enqueues them."""

    activations: list[StepActivation] = field(default_factory=list)
    tasks: list[tuple[Task, int]] = field(default_factory=list)
    others: dict[type[models.Model], list[models.Model]] = field(default_factory=dict)

    def add(self, *rows: models.Model) -> None:
        for row in rows:
            self.others.setdefault(type(row), []).append(row)


def resolve(spec: Spec, business_key: str, known: Mapping[str, Any]) -> Resolved:
    """Fills a leaf's templates. `business_key`: of the instance; `known`: as in `contracts.fill`. Raises Unresolved."""
    value = contracts.fill(spec.input_template, known, room=exact_json.MAX_BYTES)
    if exact_json.problem(value) or len(exact_json.utf8(value)) > exact_json.MAX_BYTES:
        raise Unresolved("the input is too deep or too large")
    policy = spec.policy
    return Resolved(
        input=value,
        business_key=(
            _key(policy["business_key"], known)
            if "business_key" in policy
            else _shortened(f"{business_key}:{spec.key}")
        ),
        concurrency_key=_key(policy["concurrency_key"], known) if "concurrency_key" in policy else None,
        correlation_key=_key(spec.signal["correlation"], known) if spec.signal else "",
    )


def _key(template: Any, known: Mapping[str, Any]) -> str:
    try:
        return commands.label(contracts.fill(template, known), MAX_KEY)
    except commands.Invalid as error:
        raise Unresolved(f"{template}: {error}") from None


def _shortened(key: str) -> str:
    """A key that is too long keeps its beginning, and the digest of the whole keeps it apart from others."""
    return key if len(key) <= MAX_KEY else f"{key[: MAX_KEY - 65]}:{exact_json.digest(key)}"


def activate(locked: Locked, step: WorkflowStep, resolved: Resolved, plan: Plan) -> None:
    """Moves a PENDING leaf on and plans the rows of its first activation; quotas are the caller's."""
    spec = locked.definition.steps[step.step_key]
    waits = spec.kind in (StepKind.SIGNAL, StepKind.TIMER)
    activation = _begin(locked, step, resolved.input, ActivationStatus.WAITING if waits else ActivationStatus.RUNNING)
    plan.activations.append(activation)
    change(step, status=activation.status, revision=step.revision + 1, current_activation=activation)
    _PLANS[spec.kind](locked, spec, activation, resolved, plan)


def leave_unresolved(locked: Locked, step: WorkflowStep, plan: Plan) -> None:
    """A leaf whose templates give nothing goes to review; its activation has no work and no wait, its input is null."""
    spec = locked.definition.steps[step.step_key]
    activation = _begin(locked, step, None, ActivationStatus.NEEDS_REVIEW)
    plan.activations.append(activation)
    change(
        step,
        status=StepStatus.NEEDS_REVIEW,
        revision=step.revision + 1,
        current_activation=activation,
        review_reason=ReviewReason.INPUT_UNRESOLVED,
    )
    if spec.kind == StepKind.POLL:
        poll, budget = _query(locked, spec, activation)
        poll.used_rounds, poll.status, poll.settled_at = 0, PollStatus.SETTLED, locked.now
        budget.in_flight, budget.settled_at = 0, locked.now
        plan.add(poll, budget)


def _begin(locked: Locked, step: WorkflowStep, input: Any, status: ActivationStatus) -> StepActivation:
    return StepActivation(
        instance=locked.instance,
        step=step,
        sequence=1,
        status=status,
        input=input,
        input_digest=exact_json.digest(input),
        cause=ActivationCause.INITIAL,
        created_at=locked.now,
    )


def _plan_task(locked: Locked, spec: Spec, activation: StepActivation, resolved: Resolved, plan: Plan) -> None:
    deadline = locked.now + milliseconds(spec.timeout_ms) if spec.timeout_ms else None
    plan.tasks.append((_task(locked, spec, activation, resolved, deadline), 0))
    if deadline:
        plan.add(_clock(activation, ClockKind.TASK_DEADLINE, deadline))
    plan.add(_checkpoint(activation, "TASK_RESULT"))


def _plan_poll(locked: Locked, spec: Spec, activation: StepActivation, resolved: Resolved, plan: Plan) -> None:
    poll, budget = _query(locked, spec, activation)
    deadline = poll.deadline_at
    if spec.timeout_ms:
        deadline = min(locked.now + milliseconds(spec.timeout_ms), deadline)
    task = _task(locked, spec, activation, resolved, deadline)
    plan.tasks.append((task, 1))
    plan.add(
        poll,
        PollRound(
            activation=activation,
            round=1,
            task=task,
            outcome=RoundOutcome.OPEN,
            deadline_at=deadline,
            started_at=locked.now,
        ),
        budget,
        _clock(activation, ClockKind.POLL_DEADLINE, poll.deadline_at),
        _clock(activation, ClockKind.TASK_DEADLINE, deadline),
        _checkpoint(activation, "ROUND"),
    )
    if spec.signal:
        _plan_wait(activation, WaitKind.POLL_FINAL, resolved.correlation_key, poll.deadline_at, plan)


def _query(locked: Locked, spec: Spec, activation: StepActivation) -> tuple[PollState, PollBudget]:
    assert spec.total_timeout_ms is not None
    poll = PollState(
        activation=activation,
        first_round=1,
        first_round_attempts_used=0,
        used_rounds=1,
        deadline_at=locked.now + milliseconds(spec.total_timeout_ms),
        status=PollStatus.POLLING,
    )
    return poll, PollBudget(activation=activation, in_flight=1, requests_used=0)


def _plan_signal(locked: Locked, spec: Spec, activation: StepActivation, resolved: Resolved, plan: Plan) -> None:
    deadline = locked.now + milliseconds(spec.total_timeout_ms) if spec.total_timeout_ms else None
    _plan_wait(activation, WaitKind.SIGNAL, resolved.correlation_key, deadline, plan)
    if deadline:
        plan.add(_clock(activation, ClockKind.WAIT_DEADLINE, deadline))


def _plan_timer(locked: Locked, spec: Spec, activation: StepActivation, resolved: Resolved, plan: Plan) -> None:
    due = locked.now + milliseconds(spec.delay_ms)
    _plan_wait(activation, WaitKind.TIMER, "", due, plan)
    plan.add(_clock(activation, ClockKind.TIMER, due))


def _plan_wait(
    activation: StepActivation, kind: WaitKind, correlation_key: str, deadline: datetime | None, plan: Plan
) -> None:
    wait = WaitState(
        activation=activation,
        kind=kind,
        status=WaitStatus.WAITING,
        correlation_key=correlation_key,
        deadline_at=deadline,
    )
    plan.add(wait, _checkpoint(activation, "WAIT"))


_PLANS: dict[str, Callable[[Locked, Spec, StepActivation, Resolved, Plan], None]] = {
    StepKind.TASK: _plan_task,
    StepKind.POLL: _plan_poll,
    StepKind.SIGNAL: _plan_signal,
    StepKind.TIMER: _plan_timer,
}


def _task(
    locked: Locked, spec: Spec, activation: StepActivation, resolved: Resolved, deadline: datetime | None
) -> Task:
    assert spec.queue_id is not None
    instance, now = locked.instance, locked.now
    latest_start_ms = spec.policy.get("latest_start_ms")
    return Task(
        namespace_id=instance.namespace_id,
        application_id=instance.application_id,
        instance=instance,
        queue_id=spec.queue_id,
        handler=spec.handler,
        handler_version=spec.handler_version,
        status=TaskStatus.QUEUED,
        revision=1,
        priority=spec.priority,
        input=activation.input,
        input_digest=activation.input_digest,
        policy=spec.task_policy,
        business_key=resolved.business_key,
        concurrency_key=resolved.concurrency_key,
        owner_activation=activation,
        max_attempts=spec.max_attempts,
        latest_start_at=now + milliseconds(latest_start_ms) if latest_start_ms else None,
        deadline_at=deadline,
        available_at=now,
        created_at=now,
    )


def _clock(activation: StepActivation, kind: ClockKind, due_at: datetime) -> StepClock:
    return StepClock(
        instance_id=activation.instance_id, activation=activation, kind=kind, due_at=due_at, status=ClockStatus.ARMED
    )


def _checkpoint(activation: StepActivation, kind: str) -> StepCheckpoint:
    return StepCheckpoint(
        activation=activation, kind=kind, status=CheckpointStatus.OPEN, opened_at=activation.created_at
    )
