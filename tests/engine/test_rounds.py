"""The rounds of a query: when the next one opens, with what, and what keeps it from opening."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from recovery import clock
from recovery.audit import instant
from recovery.engine import clocks, inbox, signals
from recovery.engine.rounds import proof_holds
from recovery.models import (
    ActivationTask,
    PollState,
    QueueQuota,
    ResultEvent,
    StepClock,
    TaskResult,
    WorkflowAudit,
    WorkflowInstance,
    WorkflowStep,
)
from tests.support.recovering import recover
from tests.support.threads import together
from tests.support.trees import HOUR, MINUTE, parallel, poll, receipt, task
from tests.support.world import Flow, World

pytestmark = pytest.mark.django_db

PENDING = {"state": "processing"}


def answer_pending(world: World) -> datetime:
    """A worker asks and is told to wait; answers when."""
    world.succeed(world.claim(), PENDING)
    return clock.now()


# The next round


@pytest.mark.rule("B3")
def test_a_pending_answer_plans_the_next_round_an_interval_after_it(world: World) -> None:
    flow = world.start(poll("ask"))
    lease = world.claim()
    world.travel(seconds=20, run=False)
    world.succeed(lease, PENDING, run=False)
    answered = clock.now()
    world.travel(seconds=5)  # consumed later than answered
    due = answered + timedelta(minutes=1)
    state, budget, asked = flow.poll("ask"), flow.budget("ask"), flow.rounds("ask")[0]
    assert (flow.step("ask").status, flow.activation("ask").status, state.status) == ("WAITING", "WAITING", "WAITING")
    assert (state.next_poll_at, budget.next_checkpoint_at) == (due, due)
    assert (asked.outcome, asked.settled_at) == ("PENDING", clock.now())
    assert (budget.in_flight, budget.requests_used, budget.settled_at) == (0, 1, None)
    assert [row.due_at for row in flow.clocks("NEXT_ROUND")] == [due]
    assert flow.clocks("TASK_DEADLINE") == []
    assert world.application_quota().open_tasks == 0


@pytest.mark.rule("B3")
def test_the_next_round_opens_when_it_is_due_with_full_attempts(world: World) -> None:
    flow = world.start(poll("ask"))
    world.fail(world.claim(), retryable=True)
    answered = answer_pending(world)
    world.travel_to(answered + timedelta(seconds=59))
    assert flow.poll("ask").used_rounds == 1
    before = flow.instance.revision
    opened = world.travel_to(answered + timedelta(minutes=1))
    first, second = flow.tasks("ask")
    assert (second.status, second.max_attempts, second.attempt_count, second.retry_of_id) == ("QUEUED", 3, 0, None)
    assert second.deadline_at == opened + timedelta(minutes=10)
    for name in ("queue_id", "handler", "handler_version", "priority", "policy", "input", "input_digest"):
        assert getattr(second, name) == getattr(first, name)
    assert (second.business_key, second.concurrency_key) == (first.business_key, first.concurrency_key)
    assert second.owner_activation_id == flow.activation("ask").pk
    assert ActivationTask.objects.get(task=second).round == 2
    state, budget, asked = flow.poll("ask"), flow.budget("ask"), flow.rounds("ask")[1]
    assert (state.status, state.used_rounds, state.next_poll_at) == ("POLLING", 2, None)
    assert (budget.in_flight, budget.requests_used, budget.next_checkpoint_at) == (1, 2, None)
    assert (asked.round, asked.task_id, asked.outcome) == (2, second.pk, "OPEN")
    assert (asked.deadline_at, asked.started_at) == (second.deadline_at, opened)
    assert (flow.step("ask").status, flow.activation("ask").status) == ("RUNNING", "RUNNING")
    assert flow.instance.revision == before + 1
    assert (world.application_quota().open_tasks, world.queue_quota().open_tasks) == (1, 1)


@pytest.mark.rule("B3")
def test_the_task_of_a_round_ends_with_the_query(world: World) -> None:
    flow = world.start(poll("ask", total_timeout_ms=5 * MINUTE))
    answer_pending(world)
    world.travel(minutes=1)
    assert flow.task("ask").deadline_at == flow.poll("ask").deadline_at
    assert flow.rounds("ask")[1].deadline_at == flow.poll("ask").deadline_at


@pytest.mark.rule("B3")
def test_a_round_has_a_latest_start_of_its_own(world: World) -> None:
    flow = world.start(poll("ask", policy={"latest_start_ms": 2 * MINUTE}))
    answer_pending(world)
    opened = world.travel(minutes=1)
    assert flow.task("ask").latest_start_at == opened + timedelta(minutes=2)


@pytest.mark.rule("B3")
def test_the_next_round_is_never_planned_beyond_the_query_deadline(world: World) -> None:
    flow = world.start(poll("ask", interval_ms=HOUR, total_timeout_ms=30 * MINUTE))
    answer_pending(world)
    deadline = flow.poll("ask").deadline_at
    assert flow.poll("ask").next_poll_at == deadline
    world.travel_to(deadline)
    assert (flow.step("ask").status, flow.step("ask").review_reason) == ("NEEDS_REVIEW", "QUERY_DEADLINE")
    assert flow.poll("ask").used_rounds == 1


@pytest.mark.rule("B3")
def test_a_query_that_used_up_its_rounds_asks_for_review(world: World) -> None:
    flow = world.start(poll("ask", max_rounds=2))
    answer_pending(world)
    world.travel(minutes=1)
    answer_pending(world)
    assert (flow.status, flow.instance.review_reason) == ("NEEDS_REVIEW", "ROUNDS_EXHAUSTED")
    assert [asked.outcome for asked in flow.rounds("ask")] == ["PENDING", "PENDING"]
    assert (flow.poll("ask").status, flow.poll("ask").used_rounds) == ("SETTLED", 2)
    assert flow.clocks("NEXT_ROUND") == []


@pytest.mark.rule("B7")
@pytest.mark.django_db(transaction=True)
def test_runners_at_one_moment_open_one_round(world: World) -> None:
    flow = world.start(poll("ask"))
    answer_pending(world)
    world.travel(minutes=1, run=False)
    before = flow.instance.revision
    counts = together([clocks.fire_due] * 8)
    assert sum(counts) == 1
    assert (flow.poll("ask").used_rounds, len(flow.tasks("ask"))) == (2, 2)
    assert flow.instance.revision == before + 1
    assert world.application_quota().open_tasks == 1


# What keeps it from opening


@pytest.mark.rule("B5")
def test_a_closed_gate_sets_the_next_round_aside_until_it_opens(world: World) -> None:
    flow = world.start(poll("ask"))
    answered = answer_pending(world)
    flow.pause()
    assert flow.clocks("NEXT_ROUND") == []
    before = flow.instance.revision
    world.travel(minutes=3)
    assert (flow.step("ask").status, flow.poll("ask").used_rounds) == ("WAITING", 1)
    assert flow.instance.revision == before
    assert flow.poll("ask").next_poll_at == answered + timedelta(minutes=1)
    flow.resume()
    assert (flow.step("ask").status, flow.poll("ask").used_rounds) == ("RUNNING", 2)


@pytest.mark.rule("B5")
def test_a_clock_that_is_armed_under_a_closed_gate_opens_no_round(world: World) -> None:
    flow = world.start(poll("ask"))
    answer_pending(world)
    flow.pause()
    StepClock.objects.filter(kind="NEXT_ROUND").update(status="ARMED")  # no runner leaves it like this
    before = flow.instance.revision
    world.travel(minutes=3)
    assert (flow.poll("ask").used_rounds, flow.clocks("NEXT_ROUND"), flow.instance.revision) == (1, [], before)


@pytest.mark.rule("B5")
def test_a_pending_answer_during_a_review_plans_a_round_that_waits_for_the_gate(world: World) -> None:
    flow = world.start(parallel(poll("ask"), task("pay")))
    leases = {lease.task.pk: lease for lease in world.claim_all()}
    world.fail(leases[flow.task("pay").pk])
    world.succeed(leases[flow.task("ask").pk], PENDING)
    assert (flow.step("ask").status, flow.inbox()[1].disposition) == ("WAITING", "ROUND_PENDING")
    assert flow.clocks("NEXT_ROUND") == []
    world.travel(minutes=2)
    assert flow.poll("ask").used_rounds == 1
    recover(flow, "resolve-step", "pay")
    recover(flow, "continue")
    assert flow.poll("ask").used_rounds == 2


def set_queue_limit(world: World, limit: int) -> None:
    QueueQuota.objects.filter(queue=world.queues["bank"]).update(max_open_tasks=limit)


@pytest.mark.rule("B3")
def test_a_full_quota_puts_the_next_round_off_without_raising_the_revision(world: World) -> None:
    flow = world.start(poll("ask"))
    answered = answer_pending(world)
    set_queue_limit(world, 0)
    before = flow.instance.revision
    world.travel(minutes=1)
    assert (flow.poll("ask").used_rounds, flow.instance.revision) == (1, before)
    due = answered + timedelta(minutes=1, seconds=5)
    assert [row.due_at for row in flow.clocks("NEXT_ROUND")] == [due]
    assert flow.poll("ask").next_poll_at == answered + timedelta(minutes=1)
    set_queue_limit(world, 10)
    world.travel(seconds=5)
    assert flow.poll("ask").used_rounds == 2


@pytest.mark.rule("B10")
def test_no_round_opens_after_the_instance_deadline_however_late_the_runners_are(world: World) -> None:
    flow = world.start(poll("ask"), max_duration_ms=2 * MINUTE)
    answer_pending(world)
    world.travel(minutes=10)
    assert (flow.status, flow.instance.review_reason) == ("NEEDS_REVIEW", "INSTANCE_DEADLINE")
    assert (flow.step("ask").status, flow.poll("ask").used_rounds) == ("WAITING", 1)


@pytest.mark.rule("B6")
def test_a_pending_answer_under_a_stop_ends_the_query(world: World) -> None:
    flow = world.start(poll("ask"))
    lease = world.claim()
    flow.cancel()
    world.succeed(lease, PENDING)
    assert (flow.status, flow.step("ask").status) == ("CANCELLED", "CANCELLED")
    assert (flow.rounds("ask")[0].outcome, flow.inbox()[0].disposition) == ("PENDING", "RECORDED")


# The query deadline


@pytest.mark.rule("B12")
def test_the_query_deadline_while_a_request_runs_asks_for_review_at_once(world: World) -> None:
    flow = world.start(poll("ask"))
    lease = world.claim()
    world.travel_to(flow.poll("ask").deadline_at, run=False)
    clocks.fire_due()
    assert (flow.step("ask").status, flow.instance.review_reason) == ("NEEDS_REVIEW", "QUERY_DEADLINE")
    assert (flow.rounds("ask")[0].outcome, flow.budget("ask").in_flight) == ("OPEN", 1)
    world.succeed(lease, {"state": "done"}, run=False)
    inbox.consume(flow.id)
    assert flow.inbox()[0].disposition == "STEP_ALREADY_SETTLED"
    assert (flow.step("ask").status, flow.step("ask").output) == ("NEEDS_REVIEW", None)
    assert (flow.rounds("ask")[0].outcome, flow.budget("ask").in_flight) == ("SUCCEEDED", 0)
    assert flow.budget("ask").requests_used == 1


@pytest.mark.rule("B12")
def test_an_answer_after_the_query_deadline_comes_too_late_although_the_clock_is_later_still(world: World) -> None:
    flow = world.start(poll("ask"))
    lease = world.claim()
    world.travel_to(flow.poll("ask").deadline_at, run=False)
    world.succeed(lease, {"state": "done"}, run=False)
    before = flow.instance.revision
    inbox.consume(flow.id)
    assert (flow.step("ask").review_reason, flow.inbox()[0].disposition) == ("QUERY_DEADLINE", "STEP_ALREADY_SETTLED")
    assert flow.instance.revision == before + 1


@pytest.mark.rule("B12")
def test_an_answer_before_the_query_deadline_counts_although_the_clock_fires_first(world: World) -> None:
    flow = world.start(poll("ask"))
    lease = world.claim()
    world.travel(minutes=59, run=False)
    world.succeed(lease, {"state": "done"}, run=False)
    world.travel(minutes=2, run=False)
    clocks.fire_due()
    assert flow.step("ask").status == "SUCCEEDED"


@pytest.mark.rule("B3")
def test_the_query_deadline_between_rounds_asks_for_review(world: World) -> None:
    flow = world.start(poll("ask", timeout_ms=20 * MINUTE, interval_ms=20 * MINUTE, total_timeout_ms=30 * MINUTE))
    world.travel(minutes=15, run=False)
    answer_pending(world)
    flow.pause()  # nothing opens
    before = flow.instance.revision
    world.travel(minutes=15)
    assert (flow.status, flow.instance.review_reason) == ("NEEDS_REVIEW", "QUERY_DEADLINE")
    assert flow.instance.revision == before + 1
    assert (flow.poll("ask").status, flow.poll("ask").next_poll_at) == ("SETTLED", None)


# The proof of ContinuePoll


def continued(world: World, **fields: object) -> Flow:
    """A query whose unknown request was verified as PENDING, and that waits again: ContinuePoll, not yet Continue."""
    flow = world.start(poll("ask", **fields))
    world.unknown(world.claim())
    recover(flow, "review-task", "ask", result=PENDING)
    recover(flow, "continue-poll", "ask")
    return flow


@pytest.mark.rule("CP4")
def test_a_continued_query_opens_its_next_round_when_due_and_the_proof_is_used_up(world: World) -> None:
    flow = continued(world)
    assert flow.poll("ask").proof_id is not None
    world.travel(minutes=2)
    assert flow.poll("ask").used_rounds == 1  # the gate is closed
    recover(flow, "continue")
    assert (flow.poll("ask").used_rounds, flow.task("ask").max_attempts) == (2, 3)
    assert flow.poll("ask").proof_id is None
    answer_pending(world)
    world.travel(minutes=1)
    assert flow.poll("ask").used_rounds == 3


def _source(flow: Flow) -> ResultEvent:
    return ResultEvent.objects.get(pk=flow.inbox()[-1].result_event_id)


def _move(moment: datetime) -> datetime:
    return moment - timedelta(seconds=30)


TAMPERED: dict[str, Callable[[Flow], object]] = {
    "next time": lambda flow: PollState.objects.filter(pk=flow.poll("ask").pk).update(
        next_poll_at=_move(flow.poll("ask").next_poll_at)
    ),
    "query deadline": lambda flow: PollState.objects.filter(pk=flow.poll("ask").pk).update(
        deadline_at=_move(flow.poll("ask").deadline_at)
    ),
    "instance deadline": lambda flow: WorkflowInstance.objects.filter(pk=flow.id).update(
        deadline_at=_move(flow.instance.deadline_at)
    ),
    "step revision": lambda flow: WorkflowStep.objects.filter(pk=flow.step("ask").pk).update(revision=99),
    "proof of another instance": lambda flow: PollState.objects.filter(pk=flow.poll("ask").pk).update(
        proof=WorkflowAudit.objects.exclude(instance_id=flow.id).order_by("-sequence")[0]
    ),
    "another audit": lambda flow: PollState.objects.filter(pk=flow.poll("ask").pk).update(
        proof=WorkflowAudit.objects.get(instance_id=flow.id, sequence=1)
    ),
    "lost audit": lambda flow: PollState.objects.filter(pk=flow.poll("ask").pk).update(proof_id="0" * 32),
    "event of another task": lambda flow: ResultEvent.objects.filter(pk=_source(flow).pk).update(task_id="0" * 32),
    "event of another revision": lambda flow: ResultEvent.objects.filter(pk=_source(flow).pk).update(task_revision=77),
    "event of another activation": lambda flow: ResultEvent.objects.filter(pk=_source(flow).pk).update(
        activation_id="0" * 32
    ),
    "result's content": lambda flow: TaskResult.objects.filter(pk=_source(flow).result_id).update(
        payload={"state": "processing", "more": 1}
    ),
}


@pytest.mark.rule("CP4")
@pytest.mark.parametrize("tampered", TAMPERED)
def test_a_proof_that_does_not_fit_any_more_opens_no_round(world: World, tampered: str) -> None:
    other, flow = continued(world), continued(world)
    recover(flow, "continue")
    assert flow.step("ask").status == "WAITING"
    TAMPERED[tampered](flow)
    world.travel(minutes=1)
    assert (flow.status, flow.instance.review_reason) == ("NEEDS_REVIEW", "PROOF_MISMATCH")
    assert (flow.step("ask").status, flow.step("ask").review_reason) == ("NEEDS_REVIEW", "PROOF_MISMATCH")
    assert (flow.poll("ask").used_rounds, len(flow.tasks("ask"))) == (1, 1)
    assert other.status == "NEEDS_REVIEW"


@pytest.mark.rule("CP4", "G10")
def test_a_proof_that_was_rewritten_together_with_its_query_does_not_hold(world: World) -> None:
    flow = continued(world)
    state, step, activation = flow.poll("ask"), flow.step("ask"), flow.activation("ask")
    audit = WorkflowAudit.objects.get(pk=state.proof_id)
    assert proof_holds(state, step, activation, audit)
    assert state.next_poll_at
    state.next_poll_at = _move(state.next_poll_at)
    audit.after["next_poll_at"] = instant(state.next_poll_at)
    assert not proof_holds(state, step, activation, audit)


@pytest.mark.rule("CP4")
def test_a_final_signal_does_not_settle_a_query_whose_proof_does_not_fit_any_more(world: World) -> None:
    flow = continued(world, signal=receipt())
    PollState.objects.filter(pk=flow.poll("ask").pk).update(used_rounds=2)
    sent = flow.send("ask", run=False)
    signals.adjudicate(flow.id)
    sent.refresh_from_db()
    assert (sent.disposition, flow.wait("ask").winner_signal_id) == ("MATCHED", sent.pk)
    assert (flow.step("ask").status, flow.step("ask").review_reason) == ("NEEDS_REVIEW", "PROOF_MISMATCH")


@pytest.mark.rule("CP4")
def test_a_final_signal_settles_a_continued_query(world: World) -> None:
    flow = continued(world, signal=receipt())
    flow.send("ask", {"number": 3})
    assert (flow.step("ask").status, flow.step("ask").output) == ("SUCCEEDED", {"number": 3})
    assert flow.status == "NEEDS_REVIEW"
