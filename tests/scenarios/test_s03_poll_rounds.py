"""S3: a POLL of at most 3 rounds of 3 attempts: the table of the first seed, line by line."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.support.recovering import recover, refused
from tests.support.trees import HOUR, MINUTE, poll, sequence, task
from tests.support.world import Flow, World

PENDING = {"state": "processing"}


def asked_once(world: World, **fields: object) -> Flow:
    """The first request has failed for good: 1 of 3 attempts of round 1 is used."""
    limits = {"interval_ms": 45 * MINUTE, "timeout_ms": 90 * MINUTE, "total_timeout_ms": 150 * MINUTE}
    flow = world.start(
        sequence(
            poll("query", **{"max_rounds": 3, "max_attempts": 3, **limits, **fields}), task("notify", queue="mail")
        ),
        max_duration_ms=4 * HOUR,
    )
    world.fail(world.claim())
    assert (flow.status, flow.step("query").status) == ("NEEDS_REVIEW", "NEEDS_REVIEW")
    return flow


@pytest.mark.rule("RY3", "RY4", "RY7", "RY8", "B3", "B13", "G11")
def test_the_table_of_the_first_seed(world: World) -> None:
    flow = asked_once(world)
    first = flow.task("query")
    query_deadline = flow.poll("query").deadline_at
    assert (first.max_attempts, first.attempt_count) == (3, 1)
    assert first.deadline_at == first.created_at + timedelta(minutes=90)
    assert query_deadline == flow.activation("query").created_at + timedelta(minutes=150)

    world.travel(minutes=10)
    recover(flow, "retry-step", "query")
    state, again = flow.poll("query"), flow.task("query")
    assert (flow.activation("query").sequence, again.max_attempts, again.retry_of_id) == (2, 2, first.pk)
    assert (state.first_round, state.first_round_attempts_used, state.used_rounds) == (1, 1, 1)
    assert (again.deadline_at, state.deadline_at) == (first.deadline_at, query_deadline)
    assert flow.rounds("query")[-1].deadline_at == first.deadline_at
    assert world.claim_all() == []

    recover(flow, "continue")
    world.succeed(world.claim(), PENDING)
    assert (flow.status, flow.step("query").status) == ("RUNNING", "WAITING")
    refused_in_time = flow.poll("query").next_poll_at
    assert refused_in_time is not None
    world.travel_to(refused_in_time)
    second = flow.task("query")
    assert (flow.activation("query").sequence, flow.poll("query").used_rounds) == (2, 2)
    assert (second.max_attempts, second.retry_of_id) == (3, None)
    assert second.deadline_at == min(second.created_at + timedelta(minutes=90), query_deadline)

    world.fail(world.claim())
    world.travel(minutes=5)
    recover(flow, "retry-step", "query")
    state, third = flow.poll("query"), flow.task("query")
    assert (flow.activation("query").sequence, third.max_attempts, third.retry_of_id) == (3, 2, second.pk)
    assert (state.first_round, state.first_round_attempts_used, state.used_rounds) == (2, 1, 2)
    assert (third.deadline_at, state.deadline_at) == (second.deadline_at, query_deadline)

    recover(flow, "continue")
    world.succeed(world.claim())
    world.succeed(world.claim("mail"))
    assert flow.status == "SUCCEEDED"
    assert [row.outcome for row in flow.rounds("query")] == ["FAILED", "PENDING", "FAILED", "SUCCEEDED"]


@pytest.mark.rule("RY1")
def test_a_round_that_answered_pending_is_not_asked_again(world: World) -> None:
    flow = asked_once(world, max_rounds=1)
    recover(flow, "retry-step", "query")
    recover(flow, "continue")
    world.succeed(world.claim(), PENDING)
    assert (flow.status, flow.step("query").review_reason) == ("NEEDS_REVIEW", "ROUNDS_EXHAUSTED")
    refused(flow, "ROUND_ALREADY_PENDING", "retry-step", "query")


@pytest.mark.rule("RY9")
def test_no_retry_past_the_query_deadline(world: World) -> None:
    flow = asked_once(world, timeout_ms=3 * HOUR)
    world.travel_to(flow.poll("query").deadline_at)
    assert refused(flow, "DEADLINE_PASSED", "retry-step", "query").rule == "RY9"


@pytest.mark.rule("RY9")
def test_no_retry_past_the_deadline_of_the_rounds_first_task(world: World) -> None:
    flow = asked_once(world)
    world.travel(minutes=90)
    assert refused(flow, "DEADLINE_PASSED", "retry-step", "query").rule == "RY9"


@pytest.mark.rule("B3", "RY1")
@pytest.mark.parametrize("answer", [{"state": "lost"}, {}, "text", [1]])
def test_an_answer_outside_the_map_goes_to_review_and_its_round_may_be_asked_again(
    world: World, answer: object
) -> None:
    flow = world.start(sequence(poll("query"), task("notify", queue="mail")))
    world.succeed(world.claim(), answer)
    assert (flow.status, flow.step("query").review_reason) == ("NEEDS_REVIEW", "OUTCOME_INVALID")
    assert flow.rounds("query")[0].outcome == "INVALID"
    recover(flow, "retry-step", "query")
    assert (flow.poll("query").first_round, flow.task("query").max_attempts) == (1, 2)


@pytest.mark.rule("RY3")
def test_one_failure_and_two_unstarted_cancels_leave_no_fourth_task(world: World) -> None:
    flow = asked_once(world)
    for _cancel in range(2):
        recover(flow, "retry-step", "query")
        flow.cancel_task("query")
    assert [task.attempt_count for task in flow.tasks("query")] == [1, 0, 0]
    refused(flow, "ACTIVATION_LIMIT", "retry-step", "query")


@pytest.mark.rule("RY3")
def test_the_attempts_of_a_round_are_counted_over_all_activations(world: World) -> None:
    flow = asked_once(world)
    for left in (2, 1):
        recover(flow, "retry-step", "query")
        assert flow.task("query").max_attempts == left
        recover(flow, "continue")
        world.fail(world.claim())
    refused(flow, "BUDGET_EXHAUSTED", "retry-step", "query")
