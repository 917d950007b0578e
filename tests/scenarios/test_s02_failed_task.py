"""S2: a TASK that failed with budget left, and what ends the retries."""

from __future__ import annotations

import pytest

from recovery.clock import now
from tests.support.recovering import recover, refused
from tests.support.trees import HOUR, MINUTE, sequence, task
from tests.support.world import Flow, World


def failed_once(world: World, **fields: object) -> Flow:
    """Attempt 1 of 3 has failed for good."""
    flow = world.start(
        sequence(task("pay", max_attempts=3, **fields), task("notify", queue="mail")),
        max_duration_ms=2 * HOUR,
    )
    world.fail(world.claim())
    assert (flow.status, flow.step("pay").status) == ("NEEDS_REVIEW", "FAILED")
    return flow


@pytest.mark.rule("RY1", "RY2", "RY4", "RY7", "RY8", "B1", "B13")
def test_each_retry_goes_on_with_the_attempts_that_are_left_until_none_is(world: World) -> None:
    flow = failed_once(world, timeout_ms=HOUR, policy={"concurrency_key": "account-7"})
    first = flow.task("pay")
    for number, left in ((2, 2), (3, 1)):
        world.travel(minutes=5)
        recover(flow, "retry-step", "pay")
        retry = flow.task("pay")
        assert flow.activation("pay").sequence == number
        assert (retry.max_attempts, retry.retry_of_id) == (left, flow.tasks("pay")[-2].pk)
        for kept in ("deadline_at", "input_digest", "input", "business_key", "concurrency_key", "policy", "priority"):
            assert getattr(retry, kept) == getattr(first, kept), kept
        assert world.claim_all() == [], "it ran before Continue"
        recover(flow, "continue")
        world.fail(world.claim())
        assert (flow.status, flow.step("pay").status) == ("NEEDS_REVIEW", "FAILED")
    refused(flow, "BUDGET_EXHAUSTED", "retry-step", "pay")
    assert [task.max_attempts for task in flow.tasks("pay")] == [3, 2, 1]
    assert [activation.status for activation in flow.activations("pay")] == ["FAILED"] * 3


@pytest.mark.rule("RY2", "B11")
def test_tasks_that_never_started_cannot_make_activations_without_end(world: World) -> None:
    flow = failed_once(world)
    for _activation in (2, 3):
        recover(flow, "retry-step", "pay")
        flow.cancel_task("pay")
        assert (flow.task("pay").status, flow.step("pay").status) == ("CANCELLED", "CANCELLED")
    assert [task.attempt_count for task in flow.tasks("pay")] == [1, 0, 0]
    refused(flow, "ACTIVATION_LIMIT", "retry-step", "pay")


@pytest.mark.rule("G12")
def test_no_retry_past_the_instance_deadline(world: World) -> None:
    flow = failed_once(world)
    world.travel_to(flow.instance.deadline_at)
    assert refused(flow, "DEADLINE_PASSED", "retry-step", "pay").rule == "G12"


@pytest.mark.rule("RY9")
def test_no_retry_past_the_original_tasks_deadline(world: World) -> None:
    flow = failed_once(world, timeout_ms=30 * MINUTE)
    deadline = flow.task("pay").deadline_at
    assert deadline is not None
    world.travel_to(deadline)
    assert now() < flow.instance.deadline_at
    assert refused(flow, "DEADLINE_PASSED", "retry-step", "pay").rule == "RY9"


@pytest.mark.rule("RY9")
def test_no_retry_past_the_latest_start(world: World) -> None:
    flow = failed_once(world, policy={"latest_start_ms": 20 * MINUTE})
    world.travel(minutes=19)
    recover(flow, "retry-step", "pay")
    flow.cancel_task("pay")
    world.travel(minutes=1)
    assert refused(flow, "DEADLINE_PASSED", "retry-step", "pay").rule == "RY9"


@pytest.mark.rule("RY1", "RY7")
def test_a_retry_leaves_the_old_activation_its_task_and_its_result_alone(world: World) -> None:
    flow = failed_once(world)
    old = flow.activation("pay"), flow.task("pay"), flow.results("pay"), flow.attempts("pay")
    task_id = flow.task("pay").pk
    recover(flow, "retry-step", "pay")
    assert (
        flow.activations("pay")[0].__dict__.items()
        >= {name: value for name, value in old[0].__dict__.items() if name != "_state"}.items()
    )
    assert flow.tasks("pay")[0].revision == old[1].revision
    assert flow.tasks("pay")[0].pk == task_id
    assert flow.step("pay").status == "RUNNING"
