"""S7: a TIMER of ten minutes cannot be hurried."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.support.recovering import recover, refused
from tests.support.trees import parallel, sequence, task, timer
from tests.support.world import Flow, World


def started(world: World) -> Flow:
    return world.start(sequence(parallel(timer("cool-off"), task("pay"), key="both"), task("notify", queue="mail")))


@pytest.mark.rule("RW2", "RW4", "B12", "G9")
def test_a_rearmed_timer_is_still_due_ten_minutes_after_the_first_start(world: World) -> None:
    flow = started(world)
    lease = world.claim()
    begin = flow.activation("cool-off").created_at
    world.travel_to(begin + timedelta(minutes=3), run=False)
    world.unknown(lease)
    assert flow.status == "NEEDS_REVIEW"
    world.travel_to(begin + timedelta(minutes=4))
    recover(flow, "rearm-wait", "cool-off")
    due = begin + timedelta(minutes=10)
    assert flow.wait("cool-off").deadline_at == due
    assert [clock.due_at for clock in flow.clocks("TIMER")] == [due]

    world.travel_to(due, run=False)
    assert refused(flow, "DEADLINE_PASSED", "rearm-wait", "cool-off").rule == "RW2"
    old_instance, old_step = str(flow.instance.revision), str(flow.step("cool-off").revision)
    world.run()
    assert (flow.step("cool-off").status, flow.step("cool-off").output) == ("SUCCEEDED", None)
    assert flow.instance.revision == int(old_instance) + 1
    old = {"expected_revision": old_instance, "expected_step_revision": old_step}
    refused(flow, "REVISION_CONFLICT", "rearm-wait", "cool-off", **old)
    refused(flow, "STATE_CONFLICT", "rearm-wait", "cool-off")
    assert flow.status == "NEEDS_REVIEW"


@pytest.mark.rule("RS2", "B6")
def test_a_cancelled_timer_is_not_resolved_before_its_time(world: World) -> None:
    flow = started(world)
    lease = world.claim()
    begin = flow.activation("cool-off").created_at
    world.travel_to(begin + timedelta(minutes=5), run=False)
    flow.cancel()
    assert flow.step("cool-off").status == "CANCELLED"
    world.unknown(lease)
    assert (flow.status, flow.instance.stop_kind) == ("NEEDS_REVIEW", "CANCEL")
    world.travel_to(begin + timedelta(minutes=9))
    refused(flow, "DELAY_NOT_ELAPSED", "resolve-step", "cool-off", output=None)
    world.travel_to(begin + timedelta(minutes=10))
    refused(flow, "OUTCOME_NOT_ACCEPTED", "resolve-step", "cool-off", output={})
    recover(flow, "resolve-step", "cool-off", output=None)
    assert flow.step("cool-off").status == "SUCCEEDED"
