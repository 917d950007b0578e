"""S8: a stop that was requested wins, whatever is found out later."""

from __future__ import annotations

import pytest

from tests.support.recovering import recover, refused
from tests.support.trees import parallel, poll, sequence, signal, task
from tests.support.world import World


@pytest.mark.rule("CO3", "G12", "RS4", "B6", "B10")
def test_a_cancelled_workflow_ends_cancelled_though_its_step_turns_out_well(world: World) -> None:
    flow = world.start(sequence(task("pay"), task("notify", queue="mail")))
    lease = world.claim()
    flow.cancel()
    assert flow.status == "CANCELLING"
    world.unknown(lease)
    assert (flow.status, flow.instance.stop_kind) == ("NEEDS_REVIEW", "CANCEL")
    refused(flow, "STOP_REQUESTED", "retry-step", "pay")
    recover(flow, "review-task", "pay")
    recover(flow, "resolve-step", "pay")
    receipt = recover(flow, "continue", run=False)
    assert (receipt.data["status"], receipt.data["gate"]["state"]) == ("CANCELLING", "CLOSED")
    assert flow.continuations() == ["STOP"]
    world.run()
    assert (flow.status, flow.gate) == ("CANCELLED", "CLOSED")
    assert flow.statuses() == {"root": "CANCELLED", "pay": "SUCCEEDED", "notify": "CANCELLED"}
    assert world.claim_all("mail") == []
    assert len(flow.tasks("pay")) == 1


@pytest.mark.rule("G12")
def test_with_a_stop_nothing_new_is_asked_or_waited_for(world: World) -> None:
    flow = world.start(sequence(parallel(poll("query"), signal("receipt"), task("pay"), key="all")))
    leases = world.claim_all(max_tasks=2)
    flow.cancel()
    for lease in leases:
        world.unknown(lease)
    assert flow.status == "NEEDS_REVIEW"
    refused(flow, "STOP_REQUESTED", "continue-poll", "query")
    refused(flow, "STOP_REQUESTED", "rearm-wait", "receipt")
    refused(flow, "STOP_REQUESTED", "retry-step", "pay")


@pytest.mark.rule("CO3", "CO4")
def test_a_stop_goes_on_past_the_instance_deadline(world: World) -> None:
    flow = world.start(sequence(task("pay")))
    lease = world.claim()
    flow.cancel()
    world.unknown(lease)
    world.travel_to(flow.instance.deadline_at)
    recover(flow, "review-task", "pay", outcome="FAILED", result={})
    recover(flow, "resolve-step", "pay", outcome="FAILED", output=None)
    recover(flow, "continue")
    assert flow.status == "CANCELLED"


@pytest.mark.rule("CO4")
def test_without_a_stop_nothing_goes_on_past_the_instance_deadline(world: World) -> None:
    flow = world.start(sequence(task("pay"), task("notify", queue="mail")))
    world.fail(world.claim())
    world.travel_to(flow.instance.deadline_at)
    recover(flow, "resolve-step", "pay")
    assert refused(flow, "DEADLINE_PASSED", "continue").rule == "CO4"
    flow.cancel()
    recover(flow, "continue")
    assert flow.status == "CANCELLED"


@pytest.mark.rule("CO5", "B14")
def test_a_step_resolved_as_failed_ends_the_workflow_failed(world: World) -> None:
    flow = world.start(sequence(task("pay"), task("notify", queue="mail")))
    world.fail(world.claim())
    recover(flow, "resolve-step", "pay", outcome="FAILED", output={"why": "closed account"})
    receipt = recover(flow, "continue", run=False)
    assert (receipt.data["status"], flow.instance.stop_kind) == ("CANCELLING", "FAIL")
    world.run()
    assert flow.status == "FAILED"


@pytest.mark.rule("B14")
def test_until_continue_a_failed_conclusion_may_be_corrected(world: World) -> None:
    flow = world.start(sequence(task("pay"), task("notify", queue="mail")))
    world.fail(world.claim())
    recover(flow, "resolve-step", "pay", outcome="FAILED", output=None)
    recover(flow, "resolve-step", "pay", output={"state": "done"})
    assert flow.step("pay").status == "SUCCEEDED"
    actions = [(entry.action, entry.before.get("step_status")) for entry in flow.audits()]
    assert actions[-2:] == [("resolve_step", "FAILED"), ("resolve_step", "FAILED")]
    recover(flow, "continue")
    world.succeed(world.claim("mail"))
    assert flow.status == "SUCCEEDED"


@pytest.mark.rule("B14")
def test_until_continue_a_failed_conclusion_may_be_retried(world: World) -> None:
    flow = world.start(sequence(task("pay"), task("notify", queue="mail")))
    world.fail(world.claim())
    recover(flow, "resolve-step", "pay", outcome="FAILED", output=None)
    recover(flow, "retry-step", "pay")
    recover(flow, "continue")
    assert flow.status == "RUNNING"
    world.succeed(world.claim())
    assert flow.step("pay").status == "SUCCEEDED"
