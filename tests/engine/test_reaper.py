"""The reaper: what time alone decides."""

from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from recovery import clock
from recovery.engine import reaper, report
from recovery.models import ExecutionPermit, QuotaHold, Task, TaskAttempt
from recovery.writes import change_where
from tests.support.ledger import assert_ledger_holds, just_before_locking, locked_tables
from tests.support.threads import together
from tests.support.trees import MINUTE, parallel, task
from tests.support.world import World


@pytest.mark.rule("B2")
def test_a_lost_lease_leaves_the_task_in_review(world: World) -> None:
    flow = world.start(task("pay", policy={"concurrency_key": "account-7"}))
    world.claim()
    world.travel(seconds=29, microseconds=999_999, run=False)
    assert reaper.reap() == 0
    world.travel(microseconds=1, run=False)
    assert reaper.reap() == 1
    found = flow.task("pay")
    assert (found.status, found.revision) == ("NEEDS_REVIEW", 3)
    [attempt] = flow.attempts("pay")
    assert (attempt.status, attempt.error_code, attempt.ended_at) == ("UNKNOWN", "LEASE_LOST", clock.now())
    [kept] = flow.results("pay")
    assert (kept.source, kept.outcome, kept.attempt_id) == ("REAPER", "UNKNOWN", attempt.pk)
    permit = ExecutionPermit.objects.get(task=found)
    assert (permit.active_key, permit.released_at) == (f"{found.queue_id}:account-7", None)
    assert QuotaHold.objects.get(task=found).released_at is None
    assert world.queue_quota().running == 1
    world.run()
    assert (flow.status, flow.gate) == ("NEEDS_REVIEW", "CLOSED")
    assert_ledger_holds(world)


@pytest.mark.rule("B2")
def test_an_unknown_effect_is_never_tried_again_by_itself(world: World) -> None:
    flow = world.start(task("pay", max_attempts=3))
    world.lose_lease(world.claim())
    world.travel(hours=23)
    assert world.claim_all() == []
    assert (flow.task("pay").status, flow.task("pay").attempt_count) == ("NEEDS_REVIEW", 1)


def test_a_heartbeat_keeps_the_reaper_away(world: World) -> None:
    flow = world.start(task("pay"))
    lease = world.claim()
    world.travel(seconds=29, run=False)
    report.heartbeat(world.worker, lease.attempt.pk, lease.attempt.lease_token)
    world.travel(seconds=29, run=False)
    assert reaper.reap() == 0
    assert flow.task("pay").status == "RUNNING"


@pytest.mark.rule("B1")
@pytest.mark.parametrize("limits", [{"timeout_ms": MINUTE}, {"policy": {"latest_start_ms": MINUTE}}])
def test_a_queued_task_past_its_time_is_failed(world: World, limits: dict[str, Any]) -> None:
    flow = world.start(task("pay", **limits))
    world.travel(seconds=59, microseconds=999_999, run=False)
    assert reaper.reap() == 0
    world.travel(microseconds=1, run=False)
    assert reaper.reap() == 1
    found = flow.task("pay")
    assert (found.status, found.revision, found.settled_at) == ("FAILED", 2, clock.now())
    [kept] = flow.results("pay")
    assert (kept.source, kept.outcome, kept.attempt_id) == ("REAPER", "FAILED", None)
    assert kept.payload["error_code"] == "DEADLINE"
    assert (found.attempt_count, world.queue_quota().running) == (0, 0)
    world.run()
    assert QuotaHold.objects.get(task=found).released_at == clock.now()
    assert_ledger_holds(world)


@pytest.mark.rule("B1")
def test_a_task_that_was_set_aside_is_failed_in_its_time_too(world: World) -> None:
    flow = world.start(task("pay", timeout_ms=MINUTE))
    flow.pause()
    world.claim_all()
    assert flow.task("pay").held
    world.travel(minutes=1)
    assert flow.task("pay").status == "FAILED"


def test_a_running_task_may_outlive_its_deadline(world: World) -> None:
    """Only its lease counts: what runs outside does not stop because a moment has passed."""
    flow = world.start(task("pay", timeout_ms=MINUTE))
    lease = world.claim()
    for _time in range(4):
        world.travel(seconds=20, run=False)
        report.heartbeat(world.worker, lease.attempt.pk, lease.attempt.lease_token)
        assert reaper.reap() == 0
    world.succeed(lease)
    assert flow.status == "SUCCEEDED"


def test_the_oldest_go_first_and_only_so_many_at_a_time(world: World) -> None:
    for _instance in range(3):
        world.start(task("pay"))
        world.claim()
        world.travel(seconds=1, run=False)
    world.travel(minutes=1, run=False)
    leases = list(TaskAttempt.objects.order_by("lease_expires_at"))
    assert reaper.reap(limit=2) == 2
    for lease in leases:
        lease.refresh_from_db()
    assert [lease.status for lease in leases] == ["UNKNOWN", "UNKNOWN", "RUNNING"]


@pytest.mark.rule("B7")
def test_one_that_cannot_be_settled_does_not_keep_the_others_waiting(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    for _instance in range(2):
        world.start(task("pay"))
    leases = world.claim_all()
    Task.objects.filter(pk=leases[0].task.pk).update(status="SUCCEEDED")  # a row that somebody broke by hand
    world.travel(minutes=1, run=False)
    assert reaper.reap() == 1
    assert Task.objects.filter(status="NEEDS_REVIEW").count() == 1
    assert leases[0].task.pk in caplog.text
    caplog.clear()


def test_the_reaper_locks_task_attempt_and_stream(world: World) -> None:
    world.start(parallel(task("running", policy={"priority": 1}), task("queued", timeout_ms=MINUTE)))
    world.claim()
    world.travel(minutes=1, run=False)
    with locked_tables() as tables:
        assert reaper.reap() == 2
    assert tables == ["Task", "TaskAttempt", "ResultStream", "Task", "ResultStream"]


def test_a_lease_that_is_extended_or_a_report_that_comes_meanwhile_stands(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = world.start(parallel(task("a"), task("b")))
    world.claim_all()
    extended = TaskAttempt.objects.filter(task=flow.task("a"))
    reported = TaskAttempt.objects.filter(task=flow.task("b"))

    def meanwhile() -> None:
        extended.update(lease_expires_at=clock.now() + timedelta(seconds=30))
        change_where(reported, from_=["RUNNING"], status="SUCCEEDED")

    world.travel(seconds=30, run=False)
    just_before_locking(monkeypatch, TaskAttempt, meanwhile)
    assert reaper.reap() == 0
    assert flow.task("a").status == flow.task("b").status == "RUNNING"


def test_a_queued_task_that_starts_meanwhile_goes_on(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    flow = world.start(task("pay", timeout_ms=MINUTE))
    world.travel(minutes=1, run=False)
    started = Task.objects.filter(pk=flow.task("pay").pk)
    just_before_locking(monkeypatch, Task, lambda: change_where(started, from_=["QUEUED"], status="RUNNING"))
    assert reaper.reap() == 0
    assert flow.results("pay") == []


@pytest.mark.django_db(transaction=True)
@pytest.mark.rule("B7")
def test_many_reapers_at_once_settle_each_task_once(world: World) -> None:
    tree = parallel(task("a", policy={"priority": 1}), task("b", timeout_ms=MINUTE))
    flows = [world.start(tree) for _instance in range(6)]
    world.claim_all(max_tasks=6)
    world.travel(minutes=2, run=False)
    answers = together([reaper.reap] * 6)
    assert sum(answers) == 12
    for flow in flows:
        assert len(flow.results("a")) == len(flow.results("b")) == 1
    assert_ledger_holds(world)


@pytest.mark.django_db(transaction=True)
@pytest.mark.rule("B7")
def test_a_task_is_claimed_or_given_up_but_not_both(world: World) -> None:
    flows = [world.start(task("pay", timeout_ms=MINUTE)) for _instance in range(8)]
    world.travel(minutes=1, microseconds=-1, run=False)
    world.traveller.shift(0.000001)
    callers: list[Any] = [partial(world.claim_all, max_tasks=2)] * 4 + [reaper.reap] * 2
    together(callers)
    for flow in flows:
        assert flow.task("pay").status in ("RUNNING", "FAILED")
    assert_ledger_holds(world)
