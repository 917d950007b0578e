"""What an operation takes as its target, and what has to have ended before. Rows that no engine makes are forged."""

from __future__ import annotations

from typing import Any

import pytest

from recovery.ids import new_id
from recovery.models import ExecutionPermit, Signal, Task, TaskAttempt, TaskResult, WaitState
from tests.operations.stages import Stage, failed_query, failed_task, open_wait, pending_query, unknown_task
from tests.support.recovering import recover, refused
from tests.support.world import World


def forge(model: Any, fields: dict[str, Any], **which: Any) -> None:
    """Behind the back of every rule, as a fault of the database or of another program would."""
    assert model.objects.filter(**which).update(**fields) == 1


@pytest.mark.rule("RT2")
def test_a_task_is_not_reviewed_while_an_attempt_runs_whatever_its_lease_says(world: World) -> None:
    flow = unknown_task(world)
    forge(TaskAttempt, {"status": "RUNNING"}, task=flow.task("it"))
    world.travel(hours=1, run=False)
    assert refused(flow, "EXECUTION_UNSETTLED", "review-task", "it").rule == "RT2"


@pytest.mark.rule("RT1")
def test_only_a_task_of_unknown_effect_of_this_instance_is_reviewed_and_a_foreign_one_looks_like_a_missing_one(
    world: World,
) -> None:
    flow, other = failed_task(world), unknown_task(world)
    known = refused(flow, "STATE_CONFLICT", "review-task", "it")
    foreign = refused(flow, "STATE_CONFLICT", "review-task", task=other.task("it"))
    missing = refused(flow, "STATE_CONFLICT", "review-task", "it", task_id=new_id())
    assert known.rule == foreign.rule == missing.rule == "RT1"
    assert str(foreign) == str(missing)


@pytest.mark.rule("RT1", "RT5", "B4")
def test_a_task_of_an_old_activation_is_reviewed_too_and_moves_nothing(world: World) -> None:
    flow = failed_task(world)
    old = flow.task("it")
    recover(flow, "retry-step", "it")
    forge(Task, {"status": "NEEDS_REVIEW"}, pk=old.pk)
    forge(TaskResult, {"outcome": "UNKNOWN"}, task=old)
    step = flow.step("it")
    recover(flow, "review-task", "it", task=flow.tasks("it")[0])
    assert flow.tasks("it")[0].status == "SUCCEEDED"
    assert flow.inbox()[-1].disposition == "STALE_ACTIVATION"
    assert (flow.step("it").status, flow.step("it").revision) == (step.status, step.revision)


SETTLED = [
    ("resolve-step", failed_task, "RS1"),
    ("retry-step", failed_task, "RY1"),
    ("retry-step", failed_query, "RY1"),
    ("continue-poll", pending_query, "CP1"),
]


@pytest.mark.rule("RS1", "RY1", "CP1")
@pytest.mark.parametrize(
    ("model", "fields"), [(TaskAttempt, {"status": "RUNNING"}), (ExecutionPermit, {"released_at": None})]
)
@pytest.mark.parametrize(("slug", "stage", "rule"), SETTLED)
def test_nothing_is_decided_about_a_step_whose_execution_has_not_ended(
    world: World, slug: str, stage: Stage, rule: str, model: Any, fields: dict[str, Any]
) -> None:
    flow = stage(world)
    forge(model, fields, task=flow.task("it"))
    assert refused(flow, "EXECUTION_UNSETTLED", slug, "it").rule == rule


@pytest.mark.rule("RS1", "RY1", "CP1", "RW1")
@pytest.mark.parametrize("key", ["all", "notify", "unheard-of"])
@pytest.mark.parametrize(
    ("slug", "rule"), [("resolve-step", "RS1"), ("retry-step", "RY1"), ("continue-poll", "CP1"), ("rearm-wait", "RW1")]
)
def test_a_container_a_step_that_was_not_reached_and_one_that_is_not_there_are_refused_alike(
    world: World, slug: str, rule: str, key: str
) -> None:
    flow = failed_task(world)
    known = flow.step(key if key != "unheard-of" else "all")
    fields = {"step_key": key, "activation_id": new_id(), "expected_step_revision": str(known.revision)}
    error = refused(flow, "REVISION_CONFLICT" if key == "notify" else "STATE_CONFLICT", slug, "it", **fields)
    assert rule in {finding.rule for finding in error.findings}


@pytest.mark.rule("RW3")
def test_a_wait_that_has_a_winner_is_not_rearmed(world: World) -> None:
    flow = open_wait(world)
    forge(WaitState, {"winner_signal": new_id()}, pk=flow.wait("it").pk)
    assert refused(flow, "WINNER_EXISTS", "rearm-wait", "it").rule == "RW3"


@pytest.mark.rule("RY6")
@pytest.mark.parametrize(
    "fields", [{"status": "REJECTED"}, {"generation": 7}, {"name": "another"}, {"correlation_key": "another"}, "late"]
)
def test_an_old_winner_has_to_be_what_it_claims_to_be(world: World, fields: Any) -> None:
    flow = failed_query(world)
    winner = flow.send("it")
    if fields == "late":
        fields = {"accepted_at": flow.wait("it").deadline_at}
    forge(Signal, fields, pk=winner.pk)
    assert refused(flow, "HISTORY_INCONSISTENT", "retry-step", "it").rule == "RY6"
