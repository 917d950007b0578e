"""S5: a POLL whose rounds are used up; a person finds the final answer."""

from __future__ import annotations

import pytest

from tests.support.recovering import recover, refused
from tests.support.trees import poll, sequence, task
from tests.support.world import World


@pytest.mark.rule("RS2", "RS3", "B3")
def test_the_final_answer_is_resolved_and_used_rounds_stays(world: World) -> None:
    flow = world.start(sequence(poll("query", max_rounds=2), task("notify", queue="mail")))
    world.succeed(world.claim(), {"state": "processing"})
    world.travel(minutes=1)
    world.succeed(world.claim(), {"state": "processing"})
    assert (flow.status, flow.step("query").review_reason) == ("NEEDS_REVIEW", "ROUNDS_EXHAUSTED")
    assert flow.poll("query").used_rounds == 2
    for wrong in ({"state": "processing"}, {"state": "rejected"}, {"state": "lost"}, None):
        refused(flow, "OUTCOME_NOT_ACCEPTED", "resolve-step", "query", output=wrong)
    recover(flow, "resolve-step", "query", output={"state": "done"})
    assert flow.poll("query").used_rounds == 2
    assert [row.outcome for row in flow.rounds("query")] == ["PENDING", "PENDING"]
    recover(flow, "continue")
    world.succeed(world.claim("mail"))
    assert flow.status == "SUCCEEDED"
    assert flow.step("query").output == {"state": "done"}
