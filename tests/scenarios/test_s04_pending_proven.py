"""S4: a POLL request of unknown effect, verified as a success that answered PENDING."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.support.recovering import recover, refused
from tests.support.trees import HOUR, MINUTE, poll, sequence, task
from tests.support.world import Flow, World

PENDING = {"state": "processing"}


def unknown(world: World, **fields: object) -> Flow:
    flow = world.start(sequence(poll("query", **fields), task("notify", queue="mail")), max_duration_ms=4 * HOUR)
    world.lose_lease(world.claim())
    assert (flow.status, flow.step("query").review_reason) == ("NEEDS_REVIEW", "EXECUTION_UNKNOWN")
    return flow


@pytest.mark.rule("CP1", "CP2", "CP4", "CP5", "RT5", "G6", "RS2", "RY1")
def test_a_proven_pending_answer_lets_the_query_go_on_after_its_interval(world: World) -> None:
    flow = unknown(world, max_attempts=1, interval_ms=20 * MINUTE, total_timeout_ms=2 * HOUR)
    world.travel(minutes=3)
    recover(flow, "review-task", "query", outcome="SUCCEEDED", result=PENDING, run=False)
    refused(flow, "INBOX_UNSETTLED", "continue-poll", "query")
    world.run()
    confirmed = flow.results("query")[-1].recorded_at
    refused(flow, "OUTCOME_NOT_ACCEPTED", "resolve-step", "query", output=PENDING)
    refused(flow, "ROUND_ALREADY_PENDING", "retry-step", "query")
    attempts = flow.attempts("query")

    world.travel(minutes=5)
    receipt = recover(flow, "continue-poll", "query")
    state = flow.poll("query")
    assert (flow.status, flow.step("query").status, state.status) == ("NEEDS_REVIEW", "WAITING", "WAITING")
    assert state.next_poll_at == confirmed + timedelta(minutes=20)
    assert state.proof_id == receipt.data["audit_id"]
    assert (len(flow.tasks("query")), len(flow.activations("query")), state.used_rounds) == (1, 1, 1)
    assert [row.disposition for row in flow.inbox()] == ["REVIEW_RAISED", "STEP_ALREADY_SETTLED"]
    assert [a.status for a in attempts] == ["UNKNOWN"] == [a.status for a in flow.attempts("query")]

    recover(flow, "continue")
    assert world.claim_all() == []
    world.travel_to(state.next_poll_at - timedelta(microseconds=1))
    assert world.claim_all() == []
    world.travel_to(state.next_poll_at)
    again = flow.task("query")
    assert (flow.poll("query").used_rounds, again.max_attempts, again.retry_of_id) == (2, 1, None)
    world.succeed(world.claim())
    assert flow.step("query").status == "SUCCEEDED"


@pytest.mark.rule("CP4")
def test_the_next_query_is_never_later_than_the_query_deadline(world: World) -> None:
    flow = unknown(world, interval_ms=50 * MINUTE, total_timeout_ms=HOUR)
    world.travel(minutes=30)
    recover(flow, "review-task", "query", outcome="SUCCEEDED", result=PENDING)
    recover(flow, "continue-poll", "query")
    assert flow.poll("query").next_poll_at == flow.poll("query").deadline_at


@pytest.mark.rule("CP2")
def test_at_the_last_round_there_is_nothing_to_continue(world: World) -> None:
    flow = unknown(world, max_rounds=1)
    recover(flow, "review-task", "query", outcome="SUCCEEDED", result=PENDING)
    refused(flow, "ROUNDS_EXHAUSTED", "continue-poll", "query")


@pytest.mark.rule("CP1")
@pytest.mark.parametrize(
    ("outcome", "result"),
    [("SUCCEEDED", {"state": "done"}), ("SUCCEEDED", {"state": "rejected"}), ("SUCCEEDED", {}), ("FAILED", PENDING)],
)
def test_anything_but_a_pending_answer_is_not_continued(world: World, outcome: str, result: object) -> None:
    flow = unknown(world)
    recover(flow, "review-task", "query", outcome=outcome, result=result)
    refused(flow, "PENDING_NOT_PROVEN", "continue-poll", "query")


@pytest.mark.rule("CP1")
def test_an_unknown_request_is_not_continued(world: World) -> None:
    flow = unknown(world)
    refused(flow, "EXECUTION_UNKNOWN", "continue-poll", "query")


@pytest.mark.rule("CP2", "G12")
def test_no_continuation_past_the_query_deadline(world: World) -> None:
    flow = unknown(world, total_timeout_ms=HOUR)
    recover(flow, "review-task", "query", outcome="SUCCEEDED", result=PENDING)
    world.travel_to(flow.poll("query").deadline_at)
    assert refused(flow, "DEADLINE_PASSED", "continue-poll", "query").rule == "CP2"


@pytest.mark.rule("CP1")
def test_a_step_that_a_person_concluded_is_not_continued(world: World) -> None:
    flow = unknown(world)
    recover(flow, "review-task", "query", outcome="SUCCEEDED", result=PENDING)
    recover(flow, "resolve-step", "query", outcome="FAILED", output=None)
    refused(flow, "STATE_CONFLICT", "continue-poll", "query")
