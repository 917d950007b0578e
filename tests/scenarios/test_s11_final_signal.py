"""S11: a POLL with a final signal."""

from __future__ import annotations

import pytest

from tests.support.recovering import recover, refused
from tests.support.trees import poll, receipt, sequence, task
from tests.support.world import Flow, World

PENDING = {"state": "processing"}


def asked(world: World, **fields: object) -> Flow:
    return world.start(sequence(poll("query", signal=receipt(), **fields), task("notify", queue="mail")))


@pytest.mark.rule("RY6", "B8", "RW5")
def test_a_retried_query_takes_the_receipt_of_its_own_generation_only(world: World) -> None:
    flow = asked(world)
    world.fail(world.claim())
    old = flow.wait("query")
    recover(flow, "retry-step", "query")
    new = flow.wait("query")
    assert (flow.activation("query").sequence, new.status) == (2, "WAITING")
    assert (new.correlation_key, new.deadline_at) == (old.correlation_key, old.deadline_at)
    assert old.deadline_at == flow.poll("query").deadline_at

    stale = flow.send("query", generation=1, source_key="bank-77")
    assert (stale.status, stale.disposition) == ("REJECTED", "STALE_ACTIVATION")
    final = flow.send("query", generation=2, source_key="bank-77")
    assert (final.status, final.disposition) == ("CONSUMED", "MATCHED")
    assert (flow.step("query").status, flow.step("query").output) == ("SUCCEEDED", {"number": 1})
    recover(flow, "continue")
    world.succeed(world.claim("mail"))
    assert flow.status == "SUCCEEDED"


@pytest.mark.rule("B4", "B8", "B10")
def test_a_signal_that_wins_beside_a_running_attempt_does_not_hide_that_it_ends_unknown(world: World) -> None:
    flow = world.start(sequence(poll("query", signal=receipt())))
    lease = world.claim()
    flow.send("query")
    assert (flow.step("query").status, flow.status) == ("SUCCEEDED", "RUNNING")
    world.unknown(lease)
    assert (flow.status, flow.instance.review_reason) == ("NEEDS_REVIEW", "EXECUTION_UNKNOWN")
    assert flow.step("query").status == "SUCCEEDED"
    assert flow.inbox()[-1].disposition == "STEP_ALREADY_SETTLED"
    refused(flow, "EXECUTION_UNKNOWN", "continue")
    recover(flow, "review-task", "query")
    recover(flow, "continue")
    assert flow.status == "SUCCEEDED"


@pytest.mark.rule("CP3", "CP4")
def test_continuing_keeps_the_generation(world: World) -> None:
    flow = asked(world)
    world.unknown(world.claim())
    recover(flow, "review-task", "query", result=PENDING)
    assert flow.wait("query").status == "WAITING"
    recover(flow, "continue-poll", "query")
    assert (flow.activation("query").sequence, flow.wait("query").status) == (1, "WAITING")
    assert flow.send("query", generation=1).disposition == "MATCHED"
    assert flow.step("query").status == "SUCCEEDED"


@pytest.mark.rule("CP3", "B8")
def test_a_winner_that_is_already_there_is_not_passed_over(world: World) -> None:
    flow = asked(world)
    world.unknown(world.claim())
    recover(flow, "review-task", "query", result=PENDING)
    winner = flow.send("query")
    assert (winner.disposition, flow.step("query").status) == ("MATCHED", "NEEDS_REVIEW")
    assert flow.wait("query").winner_signal_id == winner.pk
    refused(flow, "WINNER_EXISTS", "continue-poll", "query")


@pytest.mark.rule("CP3", "RY6", "RS1")
@pytest.mark.parametrize("slug", ["continue-poll", "retry-step", "resolve-step"])
def test_a_pending_signal_of_the_current_generation_is_heard_first(world: World, slug: str) -> None:
    flow = asked(world)
    if slug == "continue-poll":
        world.unknown(world.claim())
        recover(flow, "review-task", "query", result=PENDING)
    else:
        world.fail(world.claim())
    flow.send("query", run=False)
    refused(flow, "SIGNAL_PENDING", slug, "query")


@pytest.mark.rule("RY6")
def test_an_old_winner_does_not_block_a_retry_and_cannot_win_again(world: World) -> None:
    flow = asked(world)
    world.fail(world.claim())
    winner = flow.send("query")
    recover(flow, "retry-step", "query")
    assert flow.wait("query").winner_signal_id is None
    winner.refresh_from_db()
    assert winner.status == "CONSUMED"
