"""S1: a TASK whose effect is unknown, verified as success."""

from __future__ import annotations

import pytest

from tests.support.recovering import recover, refused
from tests.support.trees import sequence, task
from tests.support.world import World


@pytest.mark.rule("RT1", "RT3", "RT4", "RT5", "RS1", "RS3", "CO2", "B2", "B4", "B5", "G6", "G5")
def test_an_unknown_task_is_verified_resolved_and_the_workflow_finishes(world: World) -> None:
    flow = world.start(sequence(task("pay", max_attempts=3), task("notify", queue="mail")))
    world.lose_lease(world.claim())
    assert (flow.status, flow.gate) == ("NEEDS_REVIEW", "CLOSED")
    assert (flow.task("pay").status, flow.step("pay").status) == ("NEEDS_REVIEW", "NEEDS_REVIEW")

    before = flow.task("pay").revision
    recover(flow, "review-task", "pay", outcome="SUCCEEDED", result={"state": "done"}, run=False)
    assert flow.task("pay").revision == before + 1
    assert [result.source for result in flow.results("pay")] == ["REAPER", "REVIEW"]
    refused(flow, "INBOX_UNSETTLED", "resolve-step", "pay")
    stale = str(flow.instance.revision)
    world.run()
    refused(flow, "REVISION_CONFLICT", "resolve-step", "pay", expected_revision=stale)
    recover(flow, "resolve-step", "pay")
    assert (flow.status, flow.step("pay").status) == ("NEEDS_REVIEW", "SUCCEEDED")
    recover(flow, "continue")
    assert (flow.status, flow.gate) == ("RUNNING", "OPEN")

    world.succeed(world.claim("mail"))
    assert flow.status == "SUCCEEDED"
    assert [attempt.status for attempt in flow.attempts("pay")] == ["UNKNOWN"]
    assert [row.disposition for row in flow.inbox()] == ["REVIEW_RAISED", "STEP_ALREADY_SETTLED", "ADVANCED"]
