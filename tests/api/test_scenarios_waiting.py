"""S3 to S7 and S11 through HTTP alone."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.api.desk import PENDING, Desk, Run
from tests.support.trees import HOUR, MINUTE, parallel, poll, receipt, sequence, signal, task, timer
from tests.support.world import World


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def last(run: Run, name: str, key: str) -> Any:
    return run.of_step(name, key)[-1]


@pytest.mark.rule("RY3", "RY4", "RY7", "B3")
def test_s3_the_table_of_the_first_seed(world: World, desk: Desk) -> None:
    limits = {"interval_ms": 45 * MINUTE, "timeout_ms": 90 * MINUTE, "total_timeout_ms": 150 * MINUTE}
    run = desk.start(sequence(poll("query", **limits), task("notify", queue="mail")), max_duration_ms=4 * HOUR)
    desk.fail(desk.claim())
    first, query_deadline = run.task("query"), last(run, "poll_states", "query")["deadline_at"]
    world.travel(minutes=10)
    run.recover("retry-step", "query")
    state, again = last(run, "poll_states", "query"), run.task("query")
    assert (again["max_attempts"], again["retry_of_id"], again["deadline_at"]) == (2, first["id"], first["deadline_at"])
    assert (state["first_round"], state["first_round_attempts_used"], state["deadline_at"]) == (1, 1, query_deadline)

    run.recover("continue")
    desk.succeed(desk.claim(), PENDING)
    world.travel_to(moment(last(run, "poll_states", "query")["next_poll_at"]))
    second = run.tasks("query")[-1]
    assert (second["max_attempts"], second["retry_of_id"]) == (3, None)
    expected = min(moment(second["created_at"]) + timedelta(minutes=90), moment(query_deadline))
    assert moment(second["deadline_at"]) == expected

    desk.fail(desk.claim())
    world.travel(minutes=5)
    run.recover("retry-step", "query")
    state, third = last(run, "poll_states", "query"), run.task("query")
    assert (state["first_round"], state["first_round_attempts_used"]) == (2, 1)
    assert (third["max_attempts"], third["retry_of_id"], third["deadline_at"]) == (
        2,
        second["id"],
        second["deadline_at"],
    )
    run.recover("continue")
    desk.succeed(desk.claim())
    desk.succeed(desk.claim("mail"))
    assert run.status == "SUCCEEDED"
    assert [row["outcome"] for row in run.of_step("rounds", "query")] == ["FAILED", "PENDING", "FAILED", "SUCCEEDED"]


@pytest.mark.rule("RY1", "RY3", "RY9", "B3")
def test_s3_what_ends_the_retries_of_a_round(world: World, desk: Desk) -> None:
    run = desk.start(sequence(poll("query", max_rounds=1)))
    desk.succeed(desk.claim(), PENDING)
    run.refused("ROUND_ALREADY_PENDING", "retry-step", "query")

    run = desk.start(sequence(poll("query")))
    desk.succeed(desk.claim(), {"state": "lost"})
    for _cancel in range(2):
        run.recover("retry-step", "query")
        run.cancel_task("query")
    run.refused("ACTIVATION_LIMIT", "retry-step", "query")
    world.travel(minutes=10)
    run.refused("ACTIVATION_LIMIT", "retry-step", "query")

    run = desk.start(sequence(poll("query")))
    desk.fail(desk.claim())
    world.travel(minutes=10)
    assert run.refused("DEADLINE_PASSED", "retry-step", "query")["rule"] == "RY9"


@pytest.mark.rule("CP1", "CP2", "CP4", "CP5", "G6")
def test_s4_a_proven_pending_answer_lets_the_query_go_on(world: World, desk: Desk) -> None:
    fields = {"max_attempts": 1, "interval_ms": 20 * MINUTE, "total_timeout_ms": 2 * HOUR, "max_rounds": 2}
    run = desk.start(sequence(poll("query", **fields), task("notify", queue="mail")))
    desk.claim()
    world.travel(seconds=30)
    assert run.state["review_reason"] == "EXECUTION_UNKNOWN"
    world.travel(minutes=3)
    run.recover("review-task", "query", result=PENDING, run=False)
    run.refused("INBOX_UNSETTLED", "continue-poll", "query")
    world.run()
    confirmed = run.results("query")[-1]["recorded_at"]
    run.refused("OUTCOME_NOT_ACCEPTED", "resolve-step", "query", output=PENDING)
    run.refused("ROUND_ALREADY_PENDING", "retry-step", "query")
    made = run.recover("continue-poll", "query")
    state = last(run, "poll_states", "query")
    assert state["proof_id"] == made["audit_id"]
    assert moment(state["next_poll_at"]) == moment(confirmed) + timedelta(minutes=20)
    run.recover("continue")
    assert desk.claim_all() == []
    world.travel_to(moment(state["next_poll_at"]))
    lease = desk.claim()
    assert (lease["task"]["max_attempts"], lease["task"]["retry_of_id"]) == (1, None)
    desk.unknown(lease)
    run.recover("review-task", "query", result=PENDING)
    run.refused("ROUNDS_EXHAUSTED", "continue-poll", "query")


@pytest.mark.rule("RS2", "RS3")
def test_s5_rounds_used_up_and_the_final_answer_found_by_a_person(world: World, desk: Desk) -> None:
    run = desk.start(sequence(poll("query", max_rounds=2), task("notify", queue="mail")))
    for _round in range(2):
        desk.succeed(desk.claim(), PENDING)
        world.travel(minutes=1)
    assert run.state["review_reason"] == "ROUNDS_EXHAUSTED"
    run.recover("resolve-step", "query")
    assert last(run, "poll_states", "query")["used_rounds"] == 2
    run.recover("continue")
    desk.succeed(desk.claim("mail"))
    assert run.status == "SUCCEEDED"


@pytest.mark.rule("RW2", "RW3", "RW4", "RW5")
def test_s6_a_rearmed_signal_takes_the_receipt_of_its_own_generation(world: World, desk: Desk) -> None:
    both = parallel(signal("receipt"), task("pay"), key="both")
    run = desk.start(sequence(both, task("notify", queue="mail")))
    desk.fail(desk.claim())
    old = last(run, "waits", "receipt")
    run.recover("rearm-wait", "receipt")
    new = last(run, "waits", "receipt")
    assert (new["correlation_key"], new["deadline_at"]) == (old["correlation_key"], old["deadline_at"])
    assert run.step("receipt")["current_activation"]["sequence"] == 2
    assert run.send("receipt", 1)["disposition"] == "STALE_ACTIVATION"
    run.send("receipt", 2, run=False)
    run.refused("SIGNAL_PENDING", "rearm-wait", "receipt")
    desk.after()
    assert run.step("receipt")["status"] == "SUCCEEDED"
    sent = {row["generation"]: row["disposition"] for row in run.history("signals")}
    assert sent == {1: "STALE_ACTIVATION", 2: "MATCHED"}
    run.recover("resolve-step", "pay")
    assert desk.claim_all("mail") == []
    run.recover("continue")
    desk.succeed(desk.claim("mail"))
    assert run.status == "SUCCEEDED"


@pytest.mark.rule("RW2")
def test_s6_the_33rd_activation_and_one_past_the_deadline_are_refused(world: World, desk: Desk) -> None:
    both = parallel(signal("receipt"), task("pay"), key="both")
    run = desk.start(sequence(both))
    desk.fail(desk.claim())
    for _activation in range(31):
        run.recover("rearm-wait", "receipt", run=False)
    run.refused("ACTIVATION_LIMIT", "rearm-wait", "receipt")
    run = desk.start(sequence(both))
    desk.fail(desk.claim())
    world.travel(minutes=60, run=False)
    run.refused("DEADLINE_PASSED", "rearm-wait", "receipt")


@pytest.mark.rule("RW2", "RS2", "B12")
def test_s7_a_timer_cannot_be_hurried(world: World, desk: Desk) -> None:
    both = parallel(timer("cool-off"), task("pay", queue="mail"), key="both")
    run = desk.start(sequence(both))
    lease = desk.claim("mail")
    begin = moment(run.activations("cool-off")[0]["created_at"])
    world.travel_to(begin + timedelta(seconds=20))
    desk.unknown(lease)
    world.travel_to(begin + timedelta(minutes=4))
    run.recover("rearm-wait", "cool-off")
    due = begin + timedelta(minutes=10)
    assert moment(last(run, "waits", "cool-off")["deadline_at"]) == due
    world.travel_to(due, run=False)
    run.refused("DEADLINE_PASSED", "rearm-wait", "cool-off")
    old = run.command("rearm-wait", "cool-off")
    world.run()
    run.refused("REVISION_CONFLICT", "rearm-wait", "cool-off", **old)
    run.refused("STATE_CONFLICT", "rearm-wait", "cool-off")


@pytest.mark.rule("RS2", "B6")
def test_s7_a_cancelled_timer_is_not_resolved_before_its_time(world: World, desk: Desk) -> None:
    run = desk.start(sequence(parallel(timer("cool-off"), task("pay"), key="both")))
    lease = desk.claim()
    begin = moment(run.activations("cool-off")[0]["created_at"])
    run.control("cancel")
    desk.unknown(lease)
    assert run.step("cool-off")["status"] == "CANCELLED"
    world.travel_to(begin + timedelta(minutes=9))
    run.refused("DELAY_NOT_ELAPSED", "resolve-step", "cool-off", output=None)
    world.travel_to(begin + timedelta(minutes=10))
    run.refused("OUTCOME_NOT_ACCEPTED", "resolve-step", "cool-off", output={})
    run.recover("resolve-step", "cool-off", output=None)


@pytest.mark.rule("RY6", "B8")
def test_s11_the_same_receipt_sent_for_the_new_generation_settles_the_query(desk: Desk) -> None:
    run = desk.start(sequence(poll("query", signal=receipt()), task("notify", queue="mail")))
    desk.fail(desk.claim())
    run.recover("retry-step", "query")
    assert run.send("query", 1, source_key="bank-77")["disposition"] == "STALE_ACTIVATION"
    assert run.send("query", 2, source_key="bank-77")["disposition"] == "MATCHED"
    assert run.step("query")["output"] == {"number": 1}
    run.recover("continue")
    desk.succeed(desk.claim("mail"))
    assert run.status == "SUCCEEDED"


@pytest.mark.rule("B4", "B10")
def test_s11_a_signal_that_wins_does_not_hide_an_attempt_that_ends_unknown(desk: Desk) -> None:
    run = desk.start(sequence(poll("query", signal=receipt())))
    lease = desk.claim()
    run.send("query", 1)
    assert (run.step("query")["status"], run.status) == ("SUCCEEDED", "RUNNING")
    desk.unknown(lease)
    assert (run.status, run.state["review_reason"]) == ("NEEDS_REVIEW", "EXECUTION_UNKNOWN")


@pytest.mark.rule("CP3")
def test_s11_a_winner_that_is_already_there_is_not_passed_over(desk: Desk) -> None:
    run = desk.start(sequence(poll("query", signal=receipt())))
    desk.unknown(desk.claim())
    run.recover("review-task", "query", result=PENDING)
    assert run.send("query", 1)["disposition"] == "MATCHED"
    run.refused("WINNER_EXISTS", "continue-poll", "query")
