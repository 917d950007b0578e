"""Deciding like an operator: a command is filled in from what can be read now, and sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from recovery import operations
from recovery.errors import DomainError
from recovery.models import Task
from recovery.operations import Preview, Receipt
from recovery.permissions import Actor
from tests.support.faults import facts
from tests.support.world import Flow

EVIDENCE = "bank-portal:FT26333"


def command(flow: Flow, slug: str, target: str = "", **entered: Any) -> dict[str, Any]:
    """A valid command for an operation on a step key (or "" for Continue), as an operator would fill it in now.

    ReviewTask takes the step's last task, or the one given as `task`. Entered values replace what was filled in.
    """
    operation = operations.REGISTRY[slug]
    payload: dict[str, Any] = {
        "expected_revision": str(flow.instance.revision),
        "reason": "The bank portal was read.",
        "evidence_ref": EVIDENCE,
        operation.statement: True,
    }
    if operation.target == "task":
        task: Task = entered.pop("task", None) or flow.task(target)
        payload |= {"task_id": task.pk, "expected_task_revision": str(task.revision), "outcome": "SUCCEEDED"}
        payload["result"] = {"state": "done"}
    if operation.target == "step":
        step = flow.step(target)
        payload |= {"step_key": target, "activation_id": step.current_activation_id}
        payload["expected_step_revision"] = str(step.revision)
    if slug == "resolve-step":
        payload |= {"outcome": "SUCCEEDED", "output": {"state": "done"}}
    return payload | entered


def recover(
    flow: Flow,
    slug: str,
    target: str = "",
    *,
    actor: Actor | None = None,
    key: str = "",
    run: bool = True,
    **entered: Any,
) -> Receipt:
    """Commits an operation; all runners follow, unless `run=False`."""
    receipt = send(flow, slug, command(flow, slug, target, **entered), actor=actor, key=key)
    if run:
        flow.world.run()
    return receipt


def send(flow: Flow, slug: str, payload: dict[str, Any], *, actor: Actor | None = None, key: str = "") -> Receipt:
    """Commits a command as it is, and lets no runner follow."""
    return operations.execute(actor or flow.world.operator, slug, flow.id, key or operations.new_key(), payload)


def refused(flow: Flow, code: str, slug: str, target: str = "", **entered: Any) -> DomainError:
    """Asserts that an operation is refused with this code and has written nothing; answers the error."""
    before = facts()
    with pytest.raises(DomainError) as caught:
        recover(flow, slug, target, run=False, **entered)
    assert caught.value.code == code, f"{caught.value.code}: {caught.value}"
    assert facts() == before, "a refusal has written something"
    return caught.value


def preview(flow: Flow, slug: str, target: str = "", **entered: Any) -> Preview:
    """What an operation would do now."""
    return operations.preview(flow.world.operator, slug, flow.id, command(flow, slug, target, **entered))


def codes(flow: Flow, actor: Actor | None = None) -> Mapping[tuple[str, str], str | None]:
    """The explanation in short: (operation, step key or task id or "") to the first failing code, None if allowed."""
    explained = operations.explain(actor or flow.world.operator, flow.id)
    return {
        (option.operation, option.target.get("step_key") or option.target.get("task_id") or ""): option.code
        for option in explained.options
    }
