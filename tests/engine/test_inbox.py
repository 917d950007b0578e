"""Consumption: in the order of the stream, each event once, and what each result does to step and instance."""

from __future__ import annotations

from typing import Any

import pytest

from recovery import clock
from recovery.engine import inbox, signals
from recovery.models import InboxEvent, QuotaHold, TaskResult
from tests.support.recovering import recover
from tests.support.threads import together
from tests.support.trees import parallel, poll, receipt, sequence, task
from tests.support.world import Flow, World

pytestmark = pytest.mark.django_db


def dispositions(flow: Flow) -> list[str]:
    return [row.disposition for row in flow.inbox()]


def claimed(world: World, flow: Flow, *keys: str) -> list[Any]:
    """Claims everything; the leases of the given steps' tasks, in this order."""
    leases = {lease.task.pk: lease for lease in world.claim_all()}
    return [leases[flow.task(key).pk] for key in keys]


# One result and its step


@pytest.mark.rule("G9")
def test_a_success_settles_its_step_and_tells_the_scheduler(world: World) -> None:
    flow = world.start(sequence(task("pay", timeout_ms=60_000), task("book")))
    world.succeed(world.claim(), {"n": 1}, run=False)
    before = flow.instance.revision
    assert inbox.consume(flow.id) == 1
    step, activation = flow.step("pay"), flow.activation("pay")
    assert (step.status, step.output, step.settled_at) == ("SUCCEEDED", {"n": 1}, clock.now())
    assert (activation.status, activation.output, activation.settled_at) == ("SUCCEEDED", {"n": 1}, clock.now())
    assert dispositions(flow) == ["ADVANCED"]
    assert flow.instance.revision == before + 1
    assert flow.continuations() == ["ADVANCE"]
    assert flow.step("book").status == "PENDING"  # nothing is scheduled here
    assert flow.clocks("TASK_DEADLINE") == []


def test_consumption_gives_back_what_a_settled_task_held(world: World) -> None:
    flow = world.start(parallel(task("pay"), task("book")))
    pay, _book = claimed(world, flow, "pay", "book")
    world.succeed(pay, run=False)
    assert (world.application_quota().open_tasks, world.queue_quota().open_tasks) == (2, 2)
    inbox.consume(flow.id)
    assert (world.application_quota().open_tasks, world.queue_quota().open_tasks) == (1, 1)
    assert QuotaHold.objects.filter(released_at=None).count() == 1


@pytest.mark.rule("B2", "B13")
def test_an_unknown_effect_keeps_its_hold_and_asks_for_review(world: World) -> None:
    flow = world.start(task("pay"))
    world.unknown(world.claim())
    assert (flow.step("pay").status, flow.step("pay").review_reason) == ("NEEDS_REVIEW", "EXECUTION_UNKNOWN")
    assert flow.step("pay").settled_at is None
    assert dispositions(flow) == ["REVIEW_RAISED"]
    assert world.application_quota().open_tasks == 1


@pytest.mark.rule("B5", "B13")
def test_a_review_closes_the_gate_and_says_why_and_since_when(world: World) -> None:
    flow = world.start(sequence(task("pay"), task("book")))
    world.fail(world.claim())
    instance = flow.instance
    assert (instance.status, flow.gate) == ("NEEDS_REVIEW", "CLOSED")
    assert (instance.review_reason, instance.review_since) == ("TASK_FAILED", clock.now())
    assert (flow.step("pay").status, flow.step("book").status) == ("FAILED", "PENDING")
    assert flow.step("pay").output is None  # an error is no answer
    assert (flow.audits()[-1].actor, flow.audits()[-1].action) == ("platform", "raise_review")


@pytest.mark.rule("B5", "G14")
def test_running_siblings_finish_in_review_and_nothing_new_is_granted(world: World) -> None:
    flow = world.start(parallel(sequence(task("a1"), task("a2"), key="a"), task("b"), task("c", queue="mail")))
    a1, b = claimed(world, flow, "a1", "b")
    world.fail(b)
    before = flow.instance.revision
    world.succeed(a1, {"n": 2})
    assert (flow.step("a1").status, flow.step("a1").output) == ("SUCCEEDED", {"n": 2})
    assert flow.step("a2").status == "PENDING"
    assert world.claim_all("mail") == []
    assert flow.instance.revision == before + 1
    assert flow.continuations() == []  # whoever opens the gate writes one


@pytest.mark.rule("B5")
def test_the_first_reason_for_a_review_stands(world: World) -> None:
    flow = world.start(parallel(task("a"), task("b")))
    a, b = claimed(world, flow, "a", "b")
    world.fail(a)
    world.unknown(b)
    assert flow.instance.review_reason == "TASK_FAILED"
    assert [entry.action for entry in flow.audits()].count("raise_review") == 1
    assert flow.step("b").review_reason == "EXECUTION_UNKNOWN"


@pytest.mark.rule("B13")
def test_an_answer_that_breaks_its_contract_asks_for_review(world: World) -> None:
    flow = world.start(task("pay", output_contract={"type": "object", "required": ["receipt"]}))
    world.succeed(world.claim(), {"n": 1})
    assert (flow.step("pay").status, flow.step("pay").review_reason) == ("NEEDS_REVIEW", "CONTRACT_VIOLATION")
    assert flow.step("pay").output is None
    assert flow.task("pay").status == "SUCCEEDED"  # the request did succeed


@pytest.mark.rule("B11")
def test_a_task_cancelled_before_it_started_cancels_its_step_and_asks_for_review(world: World) -> None:
    flow = world.start(parallel(task("pay"), task("book")))
    flow.cancel_task("pay")
    assert (flow.step("pay").status, flow.activation("pay").status) == ("CANCELLED", "CANCELLED")
    assert (flow.status, flow.instance.review_reason) == ("NEEDS_REVIEW", "TASK_CANCELLED")
    assert flow.step("book").status == "RUNNING"
    assert world.application_quota().open_tasks == 1


# Failures that stop, and results during a stop


@pytest.mark.rule("B3", "B6")
def test_on_failure_fail_requests_a_stop_without_any_review(world: World) -> None:
    flow = world.start(sequence(task("pay", policy={"on_failure": "FAIL"}), task("book")))
    world.fail(world.claim(), run=False)
    inbox.consume(flow.id)
    assert (flow.status, flow.instance.stop_kind, flow.gate) == ("CANCELLING", "FAIL", "CLOSED")
    assert flow.continuations() == ["STOP"]
    world.run()
    assert (flow.status, flow.step("pay").status) == ("FAILED", "FAILED")


@pytest.mark.rule("B3")
def test_on_failure_fail_in_review_records_the_intent_and_keeps_the_review(world: World) -> None:
    flow = world.start(parallel(task("a"), task("b", policy={"on_failure": "FAIL"})))
    a, b = claimed(world, flow, "a", "b")
    world.unknown(a)
    world.fail(b)
    assert (flow.status, flow.instance.stop_kind) == ("NEEDS_REVIEW", "FAIL")
    assert dispositions(flow) == ["REVIEW_RAISED", "ADVANCED"]


@pytest.mark.rule("B13")
def test_the_first_stop_intent_stands(world: World) -> None:
    flow = world.start(parallel(task("a", policy={"on_failure": "FAIL"})))
    lease = world.claim()
    flow.cancel()
    world.fail(lease)
    assert (flow.status, flow.instance.stop_kind) == ("CANCELLED", "CANCEL")
    assert dispositions(flow) == ["RECORDED"]


@pytest.mark.rule("B6", "B10")
def test_a_stop_waits_for_the_running_task_and_its_failure_needs_nobody(world: World) -> None:
    flow = world.start(task("pay"))
    lease = world.claim()
    flow.cancel()
    assert flow.status == "CANCELLING"
    world.fail(lease)
    assert (flow.status, flow.step("pay").status) == ("CANCELLED", "FAILED")


@pytest.mark.rule("B4")
def test_an_unknown_effect_under_a_stop_asks_for_review(world: World) -> None:
    flow = world.start(task("pay"))
    lease = world.claim()
    flow.cancel()
    world.unknown(lease)
    assert (flow.status, flow.instance.stop_kind) == ("NEEDS_REVIEW", "CANCEL")


# Settled steps, old activations, late reports


@pytest.mark.rule("B4", "RT5")
def test_a_reviewed_result_finds_its_step_settled(world: World) -> None:
    flow = world.start(task("pay"))
    world.lose_lease(world.claim())
    recover(flow, "review-task", "pay")
    assert dispositions(flow) == ["REVIEW_RAISED", "STEP_ALREADY_SETTLED"]
    assert flow.step("pay").status == "NEEDS_REVIEW"


@pytest.mark.rule("B4", "B9")
def test_a_late_report_of_an_old_activation_is_only_recorded(world: World) -> None:
    flow = world.start(task("pay"))
    lease = world.claim()
    world.lose_lease(lease)
    recover(flow, "review-task", "pay", outcome="FAILED", result={"error": "refused"})
    recover(flow, "retry-step", "pay")
    before, step = flow.instance.revision, flow.step("pay")
    assert world.succeed(lease).late
    assert dispositions(flow) == ["REVIEW_RAISED", "STEP_ALREADY_SETTLED", "STALE_ACTIVATION"]
    assert flow.instance.revision == before + 1
    assert (flow.step("pay").status, flow.step("pay").revision) == ("RUNNING", step.revision)
    assert flow.task("pay").status == "QUEUED"
    assert world.succeed(lease).late
    assert len(flow.inbox()) == 3


@pytest.mark.rule("B9")
def test_a_late_report_does_not_settle_the_step_that_is_tried_again(world: World) -> None:
    flow = world.start(task("pay"))
    first = world.claim()
    world.fail(first, retryable=True)
    assert flow.task("pay").status == "QUEUED"
    world.succeed(first, {"n": 1})
    assert dispositions(flow) == ["STEP_ALREADY_SETTLED"]
    assert (flow.status, flow.step("pay").status, flow.task("pay").status) == ("RUNNING", "RUNNING", "QUEUED")
    assert world.application_quota().open_tasks == 1


@pytest.mark.rule("B9")
def test_a_late_report_does_not_close_the_round_that_is_asked_again(world: World) -> None:
    flow = world.start(poll("ask"))
    first = world.claim()
    world.fail(first, retryable=True)
    world.succeed(first, {"state": "done"})
    assert (flow.step("ask").status, flow.rounds("ask")[0].outcome) == ("RUNNING", "OPEN")
    assert (flow.budget("ask").in_flight, flow.budget("ask").requests_used) == (1, 0)


@pytest.mark.rule("B9", "B10")
def test_a_late_report_of_an_instance_that_has_ended_is_only_recorded(world: World) -> None:
    flow = world.start(task("pay"))
    first = world.claim()
    world.fail(first, retryable=True)
    world.succeed(world.claim())
    assert flow.status == "SUCCEEDED"
    before = flow.instance.revision
    world.unknown(first)
    assert (flow.status, flow.instance.revision) == ("SUCCEEDED", before + 1)
    assert flow.continuations() == []


# A query's answer and its final signal


@pytest.mark.rule("B8")
def test_a_final_signal_that_came_first_wins_although_the_answer_is_consumed_first(world: World) -> None:
    flow = world.start(poll("ask", signal=receipt()))
    lease = world.claim()
    sent = flow.send("ask", {"number": 7}, run=False)
    world.travel(seconds=1, run=False)
    world.succeed(lease, {"state": "rejected"}, run=False)
    assert inbox.consume(flow.id) == 1
    sent.refresh_from_db()
    assert (sent.disposition, dispositions(flow)) == ("MATCHED", ["STEP_ALREADY_SETTLED"])
    assert (flow.step("ask").status, flow.step("ask").output) == ("SUCCEEDED", {"number": 7})


@pytest.mark.rule("B8")
def test_an_answer_that_came_first_wins_although_the_signal_is_adjudicated_first(world: World) -> None:
    flow = world.start(poll("ask", signal=receipt()))
    world.succeed(world.claim(), {"state": "done"}, run=False)
    world.travel(seconds=1, run=False)
    sent = flow.send("ask", run=False)
    signals.adjudicate(flow.id)
    inbox.consume(flow.id)
    signals.adjudicate(flow.id)
    sent.refresh_from_db()
    assert (sent.disposition, dispositions(flow)) == ("WAIT_CLOSED", ["ADVANCED"])
    assert flow.step("ask").output == {"state": "done"}


@pytest.mark.rule("B8")
def test_a_batch_of_answers_leaves_the_signal_between_them_its_turn(world: World) -> None:
    flow = world.start(parallel(task("pay"), poll("ask", signal=receipt())))
    pay, ask = claimed(world, flow, "pay", "ask")
    world.succeed(pay, run=False)
    world.travel(seconds=1, run=False)
    flow.send("ask", run=False)
    world.travel(seconds=1, run=False)
    world.succeed(ask, {"state": "rejected"}, run=False)
    assert inbox.consume(flow.id) == 2
    assert dispositions(flow) == ["ADVANCED", "STEP_ALREADY_SETTLED"]
    assert flow.step("ask").status == "SUCCEEDED"


@pytest.mark.rule("B4", "B10")
def test_an_unknown_request_after_the_final_signal_asks_for_review(world: World) -> None:
    flow = world.start(poll("ask", signal=receipt()))
    lease = world.claim()
    flow.send("ask")
    assert (flow.step("ask").status, flow.status) == ("SUCCEEDED", "RUNNING")
    world.unknown(lease)
    assert (flow.step("ask").status, flow.status) == ("SUCCEEDED", "NEEDS_REVIEW")
    assert dispositions(flow) == ["STEP_ALREADY_SETTLED"]
    assert flow.rounds("ask")[0].outcome == "UNKNOWN"


@pytest.mark.rule("B12")
def test_a_review_leaves_the_final_wait_of_a_query_open_and_its_deadline_armed(world: World) -> None:
    flow = world.start(poll("ask", signal=receipt()))
    world.fail(world.claim())
    assert (flow.step("ask").status, flow.wait("ask").status) == ("NEEDS_REVIEW", "WAITING")
    assert len(flow.clocks("POLL_DEADLINE")) == 1
    assert flow.clocks("TASK_DEADLINE") == []
    assert (flow.poll("ask").status, flow.poll("ask").settled_at) == ("SETTLED", clock.now())
    budget = flow.budget("ask")
    assert (budget.in_flight, budget.requests_used, budget.settled_at) == (0, 1, clock.now())


# Order, batches, repeats


@pytest.mark.rule("B4")
def test_events_are_consumed_in_the_order_of_the_stream(world: World) -> None:
    others = [f"t{number}" for number in range(7)]
    flow = world.start(parallel(*map(task, others), task("odd", output_contract={"type": "string"})))
    odd, *rest = claimed(world, flow, "odd", *others)
    world.succeed(odd, {"n": 1}, run=False)
    for lease in rest:
        world.fail(lease, run=False)
    assert inbox.consume(flow.id) == 8
    assert flow.instance.review_reason == "CONTRACT_VIOLATION"  # of the event that came first


@pytest.mark.rule("G9")
def test_many_events_are_consumed_in_batches_and_each_raises_the_revision(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inbox, "BATCH", 3)
    flow = world.start(parallel(*(task(f"t{number}") for number in range(7))))
    for lease in world.claim_all():
        world.succeed(lease, run=False)
    before = flow.instance.revision
    assert inbox.consume(flow.id) == 7
    assert flow.instance.revision == before + 7
    assert flow.continuations() == ["ADVANCE"] * 3  # one for each transaction
    assert dispositions(flow) == ["ADVANCED"] * 7
    assert world.application_quota().open_tasks == 0


@pytest.mark.rule("B7")
def test_consuming_again_does_nothing(world: World) -> None:
    flow = world.start(task("pay"))
    world.succeed(world.claim(), run=False)
    inbox.consume(flow.id)
    before = (flow.instance.revision, flow.step("pay").revision)
    assert inbox.consume(flow.id) == 0
    assert (flow.instance.revision, flow.step("pay").revision) == before


class Killed(BaseException):
    """The process dies here."""


def kill_at(number: int) -> Any:
    """An execute wrapper that lets `number` statements through."""
    left = [number]

    def execute(run: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if left[0] == 0:
            raise Killed
        left[0] -= 1
        return run(sql, params, many, context)

    return execute


@pytest.mark.rule("B7")
@pytest.mark.django_db(transaction=True)
def test_a_runner_killed_at_any_statement_consumes_nothing_or_everything(world: World) -> None:
    from django.db import connection

    flow = world.start(parallel(poll("ask", signal=receipt()), task("pay")))
    ask, pay = claimed(world, flow, "ask", "pay")
    world.succeed(ask, {"state": "processing"}, run=False)
    world.fail(pay, run=False)
    before, statements = flow.instance.revision, 0
    while True:
        try:
            with connection.execute_wrapper(kill_at(statements)):
                inbox.consume(flow.id)
        except Killed:
            done = InboxEvent.objects.filter(instance_id=flow.id).exclude(status="PENDING").count()
            assert flow.instance.revision == before + done
            assert done in (0, 2)
            assert flow.step("ask").status == ("WAITING" if done else "RUNNING")
            assert world.application_quota().open_tasks == 2 - done
            statements += 1
        else:
            break
    assert statements > 20
    assert (flow.instance.revision, flow.instance.review_reason) == (before + 2, "TASK_FAILED")
    assert flow.poll("ask").used_rounds == 1


@pytest.mark.rule("B7")
@pytest.mark.django_db(transaction=True)
def test_runners_at_one_moment_consume_each_event_once(world: World) -> None:
    flow = world.start(parallel(*(task(f"t{number}") for number in range(6)), poll("ask")))
    for lease in world.claim_all():
        world.succeed(lease, {"state": "processing"}, run=False)
    before = flow.instance.revision
    counts = together([lambda: inbox.consume(flow.id)] * 8)
    assert sum(counts) == 7
    assert flow.instance.revision == before + 7
    assert flow.step("t0").revision == 3  # begun, settled
    assert world.application_quota().open_tasks == 0
    assert len(flow.clocks("NEXT_ROUND")) == 1


@pytest.mark.rule("B7")
@pytest.mark.django_db(transaction=True)
def test_consumption_and_reports_at_one_moment_lose_no_event(world: World) -> None:
    flow = world.start(parallel(*(task(f"t{number}") for number in range(6))))
    leases = world.claim_all()
    reports = [lambda lease=lease: world.succeed(lease, run=False) for lease in leases]
    answers = together([*reports, *[lambda: inbox.consume(flow.id)] * 3])
    assert not [answer for answer in answers if isinstance(answer, Exception)]
    world.run()
    assert TaskResult.objects.count() == 6
    assert (flow.status, dispositions(flow)) == ("SUCCEEDED", ["ADVANCED"] * 6)
