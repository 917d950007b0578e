"""S6: a SIGNAL that is rearmed while a sibling holds the instance in review."""

from __future__ import annotations

import pytest

from tests.support.recovering import recover, refused
from tests.support.trees import parallel, sequence, signal, task
from tests.support.world import Flow, World


def waiting(world: World) -> Flow:
    """A signal waits beside a task that failed; a successor stands behind both."""
    flow = world.start(
        sequence(parallel(signal("receipt"), task("pay"), key="both"), task("notify", queue="mail")),
    )
    world.fail(world.claim())
    assert (flow.status, flow.step("receipt").status) == ("NEEDS_REVIEW", "WAITING")
    return flow


@pytest.mark.rule("RW1", "RW4", "RW5", "B8")
def test_a_new_generation_waits_with_the_same_key_and_deadline(world: World) -> None:
    flow = waiting(world)
    old = flow.wait("receipt")
    world.travel(minutes=10)
    recover(flow, "rearm-wait", "receipt")
    new = flow.wait("receipt")
    assert (flow.activation("receipt").sequence, new.status, new.winner_signal_id) == (2, "WAITING", None)
    assert (new.correlation_key, new.deadline_at) == (old.correlation_key, old.deadline_at)
    old.refresh_from_db()
    assert old.status == "CANCELLED"
    assert [activation.status for activation in flow.activations("receipt")] == ["CANCELLED", "WAITING"]
    assert [clock.due_at for clock in flow.clocks("WAIT_DEADLINE")] == [new.deadline_at]

    late = flow.send("receipt", generation=1)
    assert (late.status, late.disposition) == ("REJECTED", "STALE_ACTIVATION")
    matched = flow.send("receipt", generation=2)
    assert (matched.status, matched.disposition) == ("CONSUMED", "MATCHED")
    assert flow.step("receipt").status == "SUCCEEDED"
    assert flow.status == "NEEDS_REVIEW"
    recover(flow, "resolve-step", "pay")
    assert world.claim_all("mail") == [], "the successor started before Continue"
    recover(flow, "continue")
    world.succeed(world.claim("mail"))
    assert flow.status == "SUCCEEDED"


@pytest.mark.rule("RW3")
def test_a_pending_signal_is_not_passed_over(world: World) -> None:
    flow = waiting(world)
    flow.send("receipt", run=False)
    refused(flow, "SIGNAL_PENDING", "rearm-wait", "receipt")


@pytest.mark.rule("RW2")
def test_the_33rd_activation_is_refused(world: World) -> None:
    flow = waiting(world)
    for _activation in range(31):
        recover(flow, "rearm-wait", "receipt", run=False)
    assert [activation.sequence for activation in flow.activations("receipt")] == list(range(1, 33))
    refused(flow, "ACTIVATION_LIMIT", "rearm-wait", "receipt")


@pytest.mark.rule("RW2")
def test_no_rearming_past_the_deadline(world: World) -> None:
    flow = waiting(world)
    deadline = flow.wait("receipt").deadline_at
    assert deadline is not None
    world.travel_to(deadline, run=False)
    assert refused(flow, "DEADLINE_PASSED", "rearm-wait", "receipt").rule == "RW2"


@pytest.mark.rule("RW1")
def test_a_wait_that_succeeded_is_not_rearmed(world: World) -> None:
    flow = waiting(world)
    flow.send("receipt")
    refused(flow, "STATE_CONFLICT", "rearm-wait", "receipt")
    refused(flow, "STATE_CONFLICT", "rearm-wait", "pay")
    refused(flow, "STATE_CONFLICT", "rearm-wait", "both", activation_id="0" * 32)
