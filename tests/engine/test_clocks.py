"""Clocks: each fires once, after what came before it, and the revision rises by one."""

from __future__ import annotations

import logging
from datetime import timedelta

import pytest

from recovery import clock
from recovery.engine import clocks, inbox, schedule
from recovery.models import InstanceGate, QueueQuota
from tests.support.recovering import recover
from tests.support.threads import together
from tests.support.trees import MINUTE, SECOND, parallel, poll, receipt, sequence, signal, task, timer
from tests.support.world import Flow, World

pytestmark = pytest.mark.django_db


# TIMER


@pytest.mark.rule("G9")
def test_a_timer_succeeds_with_null_when_its_delay_is_over(world: World) -> None:
    flow = world.start(sequence(timer("rest"), task("pay")))
    world.travel(minutes=9, seconds=59)
    assert flow.step("rest").status == "WAITING"
    world.travel(seconds=1, run=False)
    before = flow.instance.revision
    assert clocks.fire_due() == 1
    step, wait, fired = flow.step("rest"), flow.wait("rest"), flow.clocks("TIMER", "FIRED")
    assert (step.status, step.output, step.settled_at) == ("SUCCEEDED", None, clock.now())
    assert (flow.activation("rest").status, wait.status) == ("SUCCEEDED", "MATCHED")
    assert [row.fired_at for row in fired] == [clock.now()]
    assert flow.instance.revision == before + 1
    assert flow.continuations() == ["ADVANCE"]
    world.run()
    assert flow.step("pay").status == "RUNNING"


@pytest.mark.rule("B12")
def test_a_timer_due_in_review_is_recorded_and_its_successor_waits(world: World) -> None:
    flow = world.start(parallel(sequence(timer("rest"), task("book"), key="line"), task("pay")))
    world.fail(world.claim())
    before = flow.instance.revision
    world.travel(minutes=10)
    assert (flow.step("rest").status, flow.step("book").status) == ("SUCCEEDED", "PENDING")
    assert (flow.status, flow.instance.revision) == ("NEEDS_REVIEW", before + 1)
    recover(flow, "resolve-step", "pay")
    recover(flow, "continue")
    assert flow.step("book").status == "RUNNING"


@pytest.mark.rule("RW4")
def test_a_rearmed_timer_fires_by_its_first_activation_only(world: World) -> None:
    flow = world.start(parallel(timer("rest"), task("pay")))
    lease = world.claim()
    world.travel(minutes=3)
    world.fail(lease)
    recover(flow, "rearm-wait", "rest")
    world.travel(minutes=7)
    assert [(row.activation_id, row.status) for row in flow.clocks("TIMER", "FIRED")] == [
        (flow.activation("rest").pk, "FIRED")
    ]
    assert [row.status for row in flow.activations("rest")] == ["CANCELLED", "SUCCEEDED"]


# Waits


@pytest.mark.rule("B8")
def test_a_wait_that_expires_asks_for_review(world: World) -> None:
    flow = world.start(signal("paid"))
    world.travel(minutes=60, run=False)
    before = flow.instance.revision
    assert clocks.fire_due() == 1
    assert (flow.step("paid").status, flow.step("paid").review_reason) == ("NEEDS_REVIEW", "WAIT_EXPIRED")
    assert (flow.wait("paid").status, flow.wait("paid").settled_at) == ("EXPIRED", clock.now())
    assert (flow.status, flow.instance.review_reason) == ("NEEDS_REVIEW", "WAIT_EXPIRED")
    assert flow.instance.revision == before + 1


@pytest.mark.rule("B8")
def test_a_deadline_first_adjudicates_the_signals_accepted_before_it(world: World) -> None:
    flow = world.start(signal("paid"))
    world.travel(minutes=59, run=False)
    sent = flow.send("paid", {"number": 5}, run=False)
    world.travel(minutes=10, run=False)
    assert clocks.fire_due() == 0
    sent.refresh_from_db()
    assert (sent.disposition, flow.wait("paid").status) == ("MATCHED", "MATCHED")
    assert (flow.step("paid").status, flow.step("paid").output) == ("SUCCEEDED", {"number": 5})
    assert [row.status for row in flow.clocks("WAIT_DEADLINE", "CANCELLED")] == ["CANCELLED"]


@pytest.mark.rule("B8")
def test_a_signal_accepted_earlier_that_does_not_fit_does_not_save_the_wait(world: World) -> None:
    flow = world.start(signal("paid"))
    sent = flow.send("paid", correlation_key="B-2", run=False)
    world.travel(minutes=60, run=False)
    assert clocks.fire_due() == 1
    sent.refresh_from_db()
    assert (sent.disposition, flow.step("paid").review_reason) == ("CORRELATION_MISMATCH", "WAIT_EXPIRED")


@pytest.mark.rule("B8")
def test_a_signal_accepted_at_the_deadline_comes_too_late_although_the_clock_is_later_still(world: World) -> None:
    flow = world.start(signal("paid"))
    world.travel(minutes=60, run=False)
    sent = flow.send("paid", run=False)
    world.travel(minutes=1)
    sent.refresh_from_db()
    assert (sent.status, flow.step("paid").review_reason) == ("REJECTED", "WAIT_EXPIRED")


@pytest.mark.rule("B6", "B8")
def test_a_wait_that_expires_under_a_stop_needs_nobody(world: World) -> None:
    flow = world.start(parallel(signal("paid"), task("pay")))
    lease = world.claim()
    flow.cancel(run=False)
    world.travel(minutes=60, run=False)
    clocks.fire_due()
    assert (flow.status, flow.step("paid").status) == ("CANCELLING", "CANCELLED")
    world.succeed(lease)
    assert flow.status == "CANCELLED"


@pytest.mark.rule("B8", "B12")
def test_the_query_deadline_first_adjudicates_the_final_signal_accepted_before_it(world: World) -> None:
    flow = world.start(poll("ask", signal=receipt()))
    world.claim()
    world.travel(minutes=59, run=False)
    flow.send("ask", {"number": 5}, run=False)
    world.travel(minutes=2, run=False)
    clocks.fire_due()
    assert (flow.step("ask").status, flow.step("ask").output) == ("SUCCEEDED", {"number": 5})


@pytest.mark.rule("B8")
@pytest.mark.parametrize("seconds", [30, 90], ids=["before it fell due", "while the runner was late"])
def test_no_round_opens_after_the_final_signal_was_accepted(world: World, seconds: int) -> None:
    flow = world.start(poll("ask", signal=receipt()))
    world.succeed(world.claim(), {"state": "processing"})
    world.travel(seconds=seconds, run=False)
    flow.send("ask", run=False)
    world.travel(minutes=1, run=False)
    clocks.fire_due()
    assert (flow.step("ask").status, flow.poll("ask").used_rounds) == ("SUCCEEDED", 1)
    assert world.claim_all() == []


@pytest.mark.rule("B12")
def test_the_query_deadline_expires_the_final_wait_of_a_query_in_review(world: World) -> None:
    flow = world.start(poll("ask", signal=receipt()))
    world.fail(world.claim())
    step = flow.step("ask")
    before = flow.instance.revision
    world.travel(minutes=60)
    assert (flow.wait("ask").status, flow.instance.revision) == ("EXPIRED", before + 1)
    assert (flow.step("ask").revision, flow.step("ask").review_reason) == (step.revision, "REQUEST_FAILED")


# Deadlines of instance and task


@pytest.mark.rule("B10")
def test_the_instance_deadline_sends_a_running_instance_to_review_without_a_stop(world: World) -> None:
    flow = world.start(parallel(task("pay"), signal("paid")), max_duration_ms=30 * MINUTE)
    lease = world.claim()
    world.travel_to(flow.instance.deadline_at, run=False)
    before = flow.instance.revision
    clocks.fire_due()
    instance = flow.instance
    assert (instance.status, instance.review_reason, instance.stop_kind) == ("NEEDS_REVIEW", "INSTANCE_DEADLINE", None)
    assert (flow.gate, instance.revision) == ("CLOSED", before + 1)
    assert (flow.step("pay").status, flow.step("paid").status) == ("RUNNING", "WAITING")
    world.succeed(lease)
    assert flow.step("pay").status == "SUCCEEDED"


@pytest.mark.rule("B10", "B12")
def test_the_instance_deadline_in_review_is_only_recorded(world: World) -> None:
    flow = world.start(task("pay"), max_duration_ms=30 * MINUTE)
    world.fail(world.claim())
    before = flow.instance
    world.travel(minutes=30)
    after = flow.instance
    assert (after.status, after.review_reason, after.review_since) == (
        "NEEDS_REVIEW",
        "TASK_FAILED",
        before.review_since,
    )
    assert after.revision == before.revision + 1


@pytest.mark.rule("B10")
def test_the_instance_deadline_does_not_disturb_a_stop(world: World) -> None:
    flow = world.start(task("pay"), max_duration_ms=20 * SECOND)
    lease = world.claim()
    flow.cancel()
    world.travel(seconds=20)
    assert (flow.status, len(flow.clocks("INSTANCE_DEADLINE", "FIRED"))) == ("CANCELLING", 1)
    world.succeed(lease)
    assert flow.status == "CANCELLED"


@pytest.mark.rule("B7", "B10")
def test_work_that_was_done_in_time_succeeds_although_the_scheduler_is_late(world: World) -> None:
    flow = world.start(task("pay"), max_duration_ms=30 * MINUTE)
    world.succeed(world.claim(), run=False)
    world.travel(minutes=31, run=False)
    assert clocks.fire_due() == 0
    assert flow.status == "RUNNING"
    schedule.advance(flow.id)
    assert flow.status == "SUCCEEDED"


@pytest.mark.rule("B1")
def test_the_deadline_of_a_task_is_recorded_and_leaves_the_task_to_the_reaper(world: World) -> None:
    flow = world.start(task("pay", timeout_ms=5 * MINUTE))
    world.travel(minutes=5, run=False)
    before = flow.instance.revision
    assert clocks.fire_due() == 1
    assert (flow.task("pay").status, flow.step("pay").status) == ("QUEUED", "RUNNING")
    assert (flow.instance.revision, len(flow.clocks("TASK_DEADLINE", "FIRED"))) == (before + 1, 1)


def test_work_that_found_the_quota_full_is_scheduled_again_after_a_while(world: World) -> None:
    QueueQuota.objects.filter(queue=world.queues["bank"]).update(max_open_tasks=0)
    flow = world.start(task("pay"))
    assert (flow.step("pay").status, len(flow.clocks("SCHEDULE_RETRY"))) == ("PENDING", 1)
    QueueQuota.objects.filter(queue=world.queues["bank"]).update(max_open_tasks=1)
    world.travel(seconds=5, run=False)
    before = flow.instance.revision
    assert clocks.fire_due() == 1
    assert (flow.continuations(), flow.instance.revision) == (["ADVANCE"], before + 1)
    world.run()
    assert flow.step("pay").status == "RUNNING"


# The runner


@pytest.mark.rule("B7")
@pytest.mark.django_db(transaction=True)
def test_runners_at_one_moment_fire_each_clock_once(world: World) -> None:
    flows = [world.start(sequence(timer("rest"), task("pay"))) for _number in range(3)]
    world.travel(minutes=10, run=False)
    before = [flow.instance.revision for flow in flows]
    counts = together([clocks.fire_due] * 6)
    assert sum(counts) == 3
    assert [flow.instance.revision for flow in flows] == [revision + 1 for revision in before]
    assert [flow.continuations() for flow in flows] == [["ADVANCE"]] * 3


@pytest.mark.rule("B7")
@pytest.mark.django_db(transaction=True)
def test_a_clock_and_a_result_at_one_moment_settle_the_query_once(world: World) -> None:
    flow = world.start(poll("ask"))
    lease = world.claim()
    world.travel(minutes=60, run=False)
    world.succeed(lease, {"state": "done"}, run=False)
    before = flow.instance.revision
    together([clocks.fire_due, lambda: inbox.consume(flow.id)] * 3)
    world.run()
    assert flow.instance.revision == before + 1  # for the event; the clock was set aside with the conclusion
    assert flow.step("ask").review_reason == "QUERY_DEADLINE"


@pytest.mark.rule("B7")
def test_a_clock_that_cannot_fire_keeps_no_other_one_waiting(world: World, caplog: pytest.LogCaptureFixture) -> None:
    broken, sound = (world.start(timer("rest")) for _number in range(2))
    InstanceGate.objects.filter(instance_id=broken.id).delete()
    world.travel(minutes=10, run=False)
    with caplog.at_level(logging.ERROR):
        assert clocks.fire_due() == 1
    assert sound.step("rest").status == "SUCCEEDED"
    assert broken.id in caplog.text
    caplog.clear()  # the fault was asked for


def test_the_earliest_clock_fires_first(world: World) -> None:
    late, early = world.start(timer("rest", delay_ms=2 * MINUTE)), world.start(timer("rest", delay_ms=MINUTE))
    world.travel(minutes=5, run=False)
    assert clocks.fire_due(limit=1) == 1
    assert (early.step("rest").status, late.step("rest").status) == ("SUCCEEDED", "WAITING")


def test_a_clock_fires_not_before_it_is_due(world: World) -> None:
    flow = world.start(timer("rest"))
    (armed,) = flow.clocks("TIMER")
    world.travel_to(armed.due_at - timedelta(microseconds=1), run=False)
    assert not clocks.fire(armed.pk, flow.id)
    world.travel_to(armed.due_at, run=False)
    assert clocks.fire(armed.pk, flow.id)
    assert not clocks.fire(armed.pk, flow.id)


def deadlines(flow: Flow) -> list[str]:
    return [row.kind for kind in ("POLL_DEADLINE", "TASK_DEADLINE", "INSTANCE_DEADLINE") for row in flow.clocks(kind)]


@pytest.mark.rule("RS3")
def test_what_is_settled_has_no_clock_any_more(world: World) -> None:
    flow = world.start(parallel(poll("ask"), timer("rest")))
    assert deadlines(flow) == ["POLL_DEADLINE", "TASK_DEADLINE", "INSTANCE_DEADLINE"]
    world.succeed(world.claim(), {"state": "done"})
    assert deadlines(flow) == ["INSTANCE_DEADLINE"]
    world.travel(minutes=10)
    assert (flow.status, deadlines(flow)) == ("SUCCEEDED", [])
