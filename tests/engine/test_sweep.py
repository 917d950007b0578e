"""The sweep: what no message told anybody is found, by any number of sweeps, and noted for the system page."""

from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from recovery import clock
from recovery.engine import clocks, inbox, schedule, sweep
from recovery.models import RunnerBeat, TaskResult
from tests.support.ledger import assert_ledger_holds
from tests.support.threads import together
from tests.support.trees import MINUTE, parallel, poll, sequence, signal, task, timer
from tests.support.world import World


def rest(limit: int = 100) -> int:
    """Sweeps until there is nothing to do; answers how often."""
    for count in range(50):
        if not sweep.sweep(limit):
            return count
    raise AssertionError("the sweeps do not come to rest")


@pytest.mark.rule("B7")
def test_the_sweep_alone_carries_a_workflow_to_its_end(world: World) -> None:
    """Every message is lost: nothing but the sweep runs."""
    ask = poll("ask", interval_ms=MINUTE)
    flow = world.start(sequence(task("pay"), timer("wait"), signal("receipt"), ask), run=False)
    rest()
    world.succeed(world.claim(), run=False)
    rest()
    world.travel(minutes=10, run=False)
    rest()
    flow.send("receipt", run=False)
    rest()
    world.succeed(world.claim(), {"state": "processing"}, run=False)
    rest()
    world.travel(minutes=1, run=False)
    rest()
    world.succeed(world.claim(), run=False)
    rest()
    assert flow.status == "SUCCEEDED"
    assert_ledger_holds(world)


@pytest.mark.rule("B7")
def test_the_sweep_finds_lost_leases_and_what_follows_from_them(world: World) -> None:
    flow = world.start(task("pay"))
    world.claim()
    world.travel(seconds=30, run=False)
    sweep.sweep()
    assert (flow.task("pay").status, flow.status) == ("NEEDS_REVIEW", "NEEDS_REVIEW")
    assert sweep.sweep() == 0


def test_rows_whose_hint_may_still_be_on_its_way_are_left_alone(world: World) -> None:
    flow = world.start(task("pay"), run=False)
    patience = timedelta(seconds=2)
    assert sweep.sweep(older_than=patience) == 0
    world.travel(seconds=2, run=False)
    assert sweep.sweep(older_than=patience) == 1
    assert flow.step("pay").status == "RUNNING"


def test_run_instance_says_whether_there_was_anything_to_do(world: World) -> None:
    flow = world.start(task("pay"), run=False)
    assert sweep.run_instance(flow.id)
    assert not sweep.run_instance(flow.id)


@pytest.mark.rule("B4", "B7")
def test_events_behind_a_quarantined_one_are_no_work_and_no_lag(world: World) -> None:
    flow = world.start(parallel(task("a"), task("b")))
    first, second = world.claim_all()
    world.succeed(first, run=False)
    TaskResult.objects.update(payload={"state": "forged"})  # somebody broke the row by hand
    world.run()
    world.succeed(second, run=False)
    world.travel(minutes=5, run=False)
    assert [row.status for row in flow.inbox()] == ["QUARANTINED", "PENDING"]
    assert sweep.waiting(10) == []
    sweep.sweep()
    assert RunnerBeat.objects.get(name="instances").lag_ms == 0


def test_instances_that_cannot_go_on_do_not_hide_the_others(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broken = [world.start(task("pay"), run=False) for _instance in range(5)]
    world.travel(seconds=1, run=False)
    healthy = world.start(task("pay"), run=False)
    advance, ill = schedule.advance, {flow.id for flow in broken}

    def refuse(instance_id: str) -> bool:
        if instance_id in ill:
            raise LookupError(instance_id)
        return advance(instance_id)

    monkeypatch.setattr(schedule, "advance", refuse)
    for _second in range(200):
        sweep.sweep(limit=1)
        if healthy.step("pay").status == "RUNNING":
            break
    assert healthy.step("pay").status == "RUNNING"
    caplog.clear()


def test_a_runner_that_fails_does_not_stop_the_others(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(limit: int) -> int:
        raise LookupError("clocks")

    monkeypatch.setattr(clocks, "fire_due", fail)
    flow = world.start(task("pay"), run=False)
    sweep.sweep()
    assert flow.step("pay").status == "RUNNING"
    assert "The runner clocks failed" in caplog.text
    caplog.clear()


# Beats


def test_each_runner_notes_when_it_ran_what_it_did_and_how_long_work_had_waited(world: World) -> None:
    flow = world.start(sequence(task("pay"), timer("wait", delay_ms=MINUTE)), run=False)
    world.travel(seconds=3, run=False)
    sweep.sweep()
    beats = {beat.name: beat for beat in RunnerBeat.objects.all()}
    assert set(beats) == {"clocks", "reaper", "instances"}
    assert {beat.last_at for beat in beats.values()} == {clock.now()}
    assert [(beats[name].lag_ms, beats[name].handled) for name in ("instances", "reaper")] == [(3000, 1), (0, 0)]
    world.claim()
    world.travel(seconds=35, run=False)
    sweep.sweep()
    beat = RunnerBeat.objects.get(name="reaper")
    assert (beat.lag_ms, beat.handled) == (5000, 1)
    assert flow.status == "NEEDS_REVIEW"
    sweep.sweep()
    assert RunnerBeat.objects.get(name="reaper").lag_ms == 0


def test_the_lag_of_clocks_and_of_queued_tasks_past_their_time(world: World) -> None:
    world.start(parallel(timer("wait", delay_ms=MINUTE), task("pay", timeout_ms=MINUTE)))
    world.travel(minutes=1, seconds=7, run=False)
    sweep.sweep()
    assert {beat.name: beat.lag_ms for beat in RunnerBeat.objects.exclude(name="instances")} == {
        "clocks": 7000,
        "reaper": 7000,
    }


@pytest.mark.rule("B7")
def test_of_two_beats_one_sweeps(world: World) -> None:
    assert sweep.tick()
    assert not sweep.tick()
    world.travel(milliseconds=501, run=False)
    assert sweep.tick()
    assert RunnerBeat.objects.get(name="sweep").handled == 2


def test_a_clock_that_was_set_back_stops_no_beat(world: World) -> None:
    assert sweep.tick()
    world.travel_to(clock.now() - timedelta(hours=1), run=False)
    assert sweep.tick()


@pytest.mark.django_db(transaction=True)
@pytest.mark.rule("B7")
def test_many_beats_at_once_make_one_tick(world: World) -> None:
    sweep.tick()
    world.travel(seconds=1, run=False)
    assert sum(together([sweep.tick] * 8)) == 1


@pytest.mark.django_db(transaction=True)
@pytest.mark.rule("B7")
def test_many_sweeps_at_once_do_everything_once(world: World) -> None:
    flows = [world.start(parallel(task("a"), timer("b", delay_ms=MINUTE)), run=False) for _instance in range(5)]
    together([sweep.sweep] * 4)
    leases = world.claim_all()
    assert len(leases) == 5
    for lease in leases:
        world.succeed(lease, run=False)
    world.travel(minutes=1, run=False)
    together([sweep.sweep] * 4)
    rest()
    for flow in flows:
        assert flow.status == "SUCCEEDED"
        assert [row.disposition for row in flow.inbox()] == ["ADVANCED"]
        assert flow.audits()[1:] == []
    assert_ledger_holds(world)


@pytest.mark.django_db(transaction=True)
@pytest.mark.rule("B7")
def test_one_instance_run_by_many_at_once_moves_once(world: World) -> None:
    flow = world.start(sequence(task("a"), task("b")), run=False)
    together([partial(sweep.run_instance, flow.id)] * 6)
    world.succeed(world.claim(), run=False)
    before = flow.instance.revision
    runs: list[Any] = together([partial(inbox.consume, flow.id)] * 3 + [partial(sweep.run_instance, flow.id)] * 3)
    assert not [answer for answer in runs if isinstance(answer, Exception)]
    assert flow.instance.revision == before + 1
    assert len(flow.tasks("b")) == 1
