"""S9: an explicit pause outlives the review."""

from __future__ import annotations

import pytest

from tests.support.recovering import recover
from tests.support.trees import sequence, task
from tests.support.world import World


@pytest.mark.rule("CO2", "G16", "RY8", "B5")
def test_a_paused_workflow_still_waits_for_resume_after_continue(world: World) -> None:
    flow = world.start(sequence(task("pay"), task("notify", queue="mail")))
    lease = world.claim()
    flow.pause()
    world.fail(lease)
    assert (flow.status, flow.instance.paused) == ("NEEDS_REVIEW", True)
    recover(flow, "retry-step", "pay")
    recover(flow, "continue")
    assert (flow.status, flow.instance.paused, flow.gate) == ("RUNNING", True, "CLOSED")
    assert world.claim_all() == []
    flow.resume()
    assert (flow.status, flow.instance.paused, flow.gate) == ("RUNNING", False, "OPEN")
    world.succeed(world.claim())
    assert flow.step("pay").status == "SUCCEEDED"


@pytest.mark.rule("G16")
def test_pause_and_resume_during_review_change_nothing_but_paused(world: World) -> None:
    flow = world.start(sequence(task("pay")))
    world.fail(world.claim())
    flow.pause()
    assert (flow.status, flow.instance.paused, flow.gate) == ("NEEDS_REVIEW", True, "CLOSED")
    flow.resume()
    assert (flow.status, flow.instance.paused, flow.gate) == ("NEEDS_REVIEW", False, "CLOSED")


@pytest.mark.rule("G16")
@pytest.mark.parametrize("slug", ["review-task", "resolve-step", "retry-step"])
def test_only_continue_ends_the_review(world: World, slug: str) -> None:
    flow = world.start(sequence(task("pay"), task("notify", queue="mail")))
    lease = world.claim()
    world.unknown(lease) if slug == "review-task" else world.fail(lease)
    before = (flow.status, flow.gate, flow.instance.paused, flow.instance.review_reason)
    recover(flow, slug, "pay")
    assert (flow.status, flow.gate, flow.instance.paused, flow.instance.review_reason) == before
