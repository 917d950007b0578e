"""The engine under real Celery workers at a real broker: that of TEST_BROKER_URL, else the server-less one."""

import os
import signal
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import time_machine
from celery import Celery
from django.contrib.auth import get_user_model

from recovery import permissions, prompts
from recovery.engine import reaper
from recovery.models import RunnerBeat, TaskAttempt
from tests.support.ledger import assert_ledger_holds
from tests.support.trees import parallel, sequence, task
from tests.support.workers import ACCOUNT, Broker, until
from tests.support.world import World, make_world

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def broker(db: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Any) -> Iterator[Broker]:
    """What this process prompts goes to the workers, as it does in the product."""
    broker = Broker(tmp_path)
    settings.WEAVE_HANDLERS = ["tests.support.sample_handlers"]
    monkeypatch.setattr(prompts, "current_app", broker.sender)
    monkeypatch.setattr(prompts, "_silent_until", 0.0)
    yield broker
    broker.close()


@pytest.fixture
def world(db: None) -> Iterator[World]:
    """In the present, and time passes: the workers have clocks of their own."""
    with time_machine.travel(datetime.now(UTC), tick=True) as traveller:
        world = make_world(traveller)
        robot = get_user_model().objects.create(username=ACCOUNT)
        permissions.grant(robot, permissions.WORK, world.namespace, by="set-up", reason="test")
        permissions.grant(robot, permissions.USE_QUEUE, world.queues["bank"], by="set-up", reason="test")
        yield world


@pytest.mark.rule("B7")
def test_hints_alone_carry_a_workflow_to_its_end(broker: Broker, world: World) -> None:
    """There is no beat here: each message follows from the commit before it."""
    with broker.worker():
        flow = world.start(sequence(task("a"), parallel(task("b"), task("c"), key="both"), task("d")), run=False)
        until(lambda: flow.status == "SUCCEEDED")
    assert [len(flow.attempts(key)) for key in "abcd"] == [1, 1, 1, 1]
    assert not RunnerBeat.objects.exists()
    assert_ledger_holds(world)


@pytest.mark.rule("B7")
def test_messages_that_come_twice_late_or_for_nothing_do_nothing_twice(
    broker: Broker, world: World, tmp_path: Path
) -> None:
    log = tmp_path / "executions"
    counted = {"do": "count in a file", "file": str(log)}
    flow = world.start(parallel(*(task(key, input=counted) for key in "abc")), run=False)
    for _time in range(4):
        broker.send("run_instance", flow.id)
        broker.send("work", world.queues["bank"].pk)
        broker.send("run_instance", "absent")
        broker.send("work", "absent")
    with broker.worker():
        until(lambda: flow.status == "SUCCEEDED")
        for _time in range(4):
            broker.send("run_instance", flow.id)
            broker.send("work", world.queues["bank"].pk)
        after = world.start(task("d", input=counted), run=False)
        until(lambda: after.status == "SUCCEEDED")
    assert sorted(log.read_text().split()) == sorted(
        [task.pk for key in "abc" for task in flow.tasks(key)] + [after.task("d").pk]
    )
    assert flow.instance.revision == 5  # the start, three results and the end
    assert_ledger_holds(world)


@pytest.mark.rule("B7")
def test_the_sweep_brings_what_lost_messages_left(
    broker: Broker, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    nobody_there = Celery("dead", broker="amqp://127.0.0.1:1", set_as_current=False)
    nobody_there.conf.broker_transport_options = {"max_retries": 0}
    monkeypatch.setattr(prompts, "current_app", nobody_there)
    flow = world.start(sequence(task("a"), task("b")), run=False)
    with broker.worker():
        until(lambda: flow.status == "SUCCEEDED", meanwhile=lambda: broker.send("sweep"))
    assert [len(flow.attempts(key)) for key in "ab"] == [1, 1]
    assert RunnerBeat.objects.filter(name="sweep", handled__gte=1).exists()
    assert_ledger_holds(world)


@pytest.mark.faults
@pytest.mark.rule("B2", "B7")
def test_a_worker_that_is_killed_leaves_one_unknown_effect_and_nobody_runs_it_again(
    broker: Broker, world: World, tmp_path: Path
) -> None:
    log = tmp_path / "executions"
    hanging = {"do": "count in a file and hang", "file": str(log)}
    flow = world.start(task("pay", input=hanging), run=False)
    with broker.worker() as worker:
        until(lambda: log.exists() and log.read_text())
        os.killpg(worker.pid, signal.SIGKILL)
    assert flow.task("pay").status == "RUNNING"
    with broker.worker():  # the broker hands it the message again, if it kept it
        broker.send("work", world.queues["bank"].pk)
        world.traveller.shift(60)
        assert reaper.reap() == 1
        until(lambda: flow.status == "NEEDS_REVIEW")
    assert (flow.task("pay").status, TaskAttempt.objects.get().status) == ("NEEDS_REVIEW", "UNKNOWN")
    assert len(log.read_text().splitlines()) == 1
    assert_ledger_holds(world)
