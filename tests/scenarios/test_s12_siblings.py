"""S12: parallel siblings, two in review and one still running."""

from __future__ import annotations

import pytest

from recovery.models import WorkflowStep
from tests.support.recovering import recover, refused
from tests.support.trees import parallel, sequence, task
from tests.support.world import World


@pytest.mark.rule("CO1", "G14", "B5")
def test_a_running_sibling_finishes_and_continue_names_what_is_unresolved(world: World) -> None:
    branches = [task(key) for key in ("a", "b", "c")]
    flow = world.start(sequence(parallel(*branches, key="all"), task("notify", queue="mail")))
    leases = {WorkflowStep.objects.get(stepactivation__task=lease.task).step_key: lease for lease in world.claim_all()}
    world.fail(leases["a"])
    world.fail(leases["b"])
    assert flow.status == "NEEDS_REVIEW"
    recover(flow, "retry-step", "a")
    assert flow.task("c").status == "RUNNING", "a decision touched a sibling"
    world.succeed(leases["c"])
    assert (flow.step("c").status, flow.status) == ("SUCCEEDED", "NEEDS_REVIEW")
    assert world.claim_all() == []
    error = refused(flow, "STEP_UNRESOLVED", "continue")
    assert "b (FAILED)" in str(error)
    flow.cancel_task("a")
    error = refused(flow, "STEP_UNRESOLVED", "continue")
    assert "a (CANCELLED)" in str(error)
    assert "b (FAILED)" in str(error)
    for key in ("a", "b"):
        recover(flow, "resolve-step", key)
    recover(flow, "continue")
    world.succeed(world.claim("mail"))
    assert flow.status == "SUCCEEDED"


@pytest.mark.rule("G14", "CO1")
def test_continue_does_not_take_a_running_sibling_for_done(world: World) -> None:
    flow = world.start(sequence(parallel(task("a"), task("b"), key="all"), task("notify", queue="mail")))
    leases = {WorkflowStep.objects.get(stepactivation__task=lease.task).step_key: lease for lease in world.claim_all()}
    world.fail(leases["a"])
    recover(flow, "resolve-step", "a")
    recover(flow, "continue")
    assert (flow.status, flow.step("b").status) == ("RUNNING", "RUNNING")
    world.unknown(leases["b"])
    assert flow.status == "NEEDS_REVIEW"


@pytest.mark.rule("CO1", "B6")
def test_siblings_that_the_stop_cancelled_do_not_block_continue(world: World) -> None:
    flow = world.start(sequence(parallel(task("a"), task("b"), task("c"), key="all")))
    lease = world.claim()
    flow.cancel()
    world.unknown(lease)
    cancelled = [key for key, status in flow.statuses().items() if status == "CANCELLED"]
    assert len(cancelled) == 2
    unknown = next(key for key in ("a", "b", "c") if key not in cancelled)
    refused(flow, "EXECUTION_UNKNOWN", "continue")
    recover(flow, "review-task", unknown)
    refused(flow, "STEP_UNRESOLVED", "continue")
    recover(flow, "resolve-step", unknown)
    recover(flow, "continue")
    assert flow.status == "CANCELLED"
