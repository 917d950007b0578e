"""The six commands of recovery, and how the revisions that they expect are taken from what was read.

Revisions are decimal strings. A statement (`safe_to_retry`, ...) has no default: whoever writes it down says so.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from weave_client.shapes import Row

Outcome = Literal["SUCCEEDED", "FAILED"]


@dataclass(frozen=True, kw_only=True)
class Command:
    """What all six take. `evidence_ref`: where the evidence is kept; never opened by sending it."""

    operation: ClassVar[str]

    expected_revision: str
    reason: str
    evidence_ref: str

    def body(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}


@dataclass(frozen=True, kw_only=True)
class StepCommand(Command):
    step_key: str
    activation_id: str
    expected_step_revision: str


@dataclass(frozen=True, kw_only=True)
class ReviewTask(Command):
    """States what a task of unknown effect really did. `result`: any JSON but null."""

    operation: ClassVar[str] = "review-task"

    task_id: str
    expected_task_revision: str
    execution_settled: Literal[True]
    outcome: Outcome
    result: Any


@dataclass(frozen=True, kw_only=True)
class ResolveStep(StepCommand):
    """Concludes a step by hand. `output`: any JSON; the step's contract decides whether it is accepted."""

    operation: ClassVar[str] = "resolve-step"

    execution_settled: Literal[True]
    outcome: Outcome
    output: Any


@dataclass(frozen=True, kw_only=True)
class ContinuePoll(StepCommand):
    """Lets a query go on whose last answer was PENDING."""

    operation: ClassVar[str] = "continue-poll"

    pending_confirmed: Literal[True]


@dataclass(frozen=True, kw_only=True)
class RearmWait(StepCommand):
    """Lets a SIGNAL or TIMER wait again, with the same deadline."""

    operation: ClassVar[str] = "rearm-wait"

    wait_verified: Literal[True]


@dataclass(frozen=True, kw_only=True)
class RetryStep(StepCommand):
    """Tries a TASK or POLL again, with the attempts that are left."""

    operation: ClassVar[str] = "retry-step"

    safe_to_retry: Literal[True]


@dataclass(frozen=True, kw_only=True)
class Continue(Command):
    """Ends the review of an instance."""

    operation: ClassVar[str] = "continue"

    review_resolved: Literal[True]


COMMANDS: Mapping[str, type[Command]] = {
    cls.operation: cls for cls in (ReviewTask, ResolveStep, ContinuePoll, RearmWait, RetryStep, Continue)
}
"""By the operation's word in URLs."""

STATEMENTS: Mapping[str, str] = {
    "review-task": "execution_settled",
    "resolve-step": "execution_settled",
    "continue-poll": "pending_confirmed",
    "rearm-wait": "wait_verified",
    "retry-step": "safe_to_retry",
    "continue": "review_resolved",
}
"""Operation -> what its operator states."""


def of_instance(instance: Row) -> dict[str, str]:
    """`instance`: as `Client.instance` answered it. The members of a Continue that come from there."""
    return {"expected_revision": instance["revision"]}


def of_step(instance: Row, step_key: str) -> dict[str, str]:
    """The members of a step's command that come from the instance. Raises LookupError for an unknown step."""
    for step in instance["steps"]:
        if step["step_key"] == step_key:
            return of_instance(instance) | {
                "step_key": step_key,
                "activation_id": step["current_activation_id"] or "",
                "expected_step_revision": step["revision"],
            }
    raise LookupError(f"The instance has no step {step_key!r}.")


def of_task(instance: Row, task: Row) -> dict[str, str]:
    """The members of a ReviewTask that come from the instance and the task (a row of its history's `tasks`)."""
    return of_instance(instance) | {"task_id": task["id"], "expected_task_revision": task["revision"]}
