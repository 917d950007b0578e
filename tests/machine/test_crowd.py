"""A crowd at the same few instances: workers, runners, senders and operators, each in a thread of its own."""

import itertools
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import time_machine

from recovery import verify
from recovery.engine import clocks, reaper, sweep
from recovery.errors import DomainError
from recovery.models import InboxEvent, RootContinuation, Signal, Task, WorkflowStep
from recovery.states import TERMINAL
from tests.machine.subject import RETRIED
from tests.support.recovering import command, send
from tests.support.threads import together
from tests.support.trees import SECOND, parallel, poll, receipt, sequence, signal, task, timer
from tests.support.world import MORNING, World, make_world

SECONDS = float(os.environ.get("CROWD_SECONDS", "5"))

TREE = parallel(
    sequence(task("pay", policy=RETRIED | {"backoff_ms": 0}), task("book", queue="mail"), key="money"),
    poll("ask", signal=receipt(), interval_ms=SECOND, max_rounds=5),
    signal("wait"),
    timer("rest", delay_ms=2 * SECOND),
    task("keyed", policy={"concurrency_key": "account-7"}),
)


class Crowd:
    """What each member does over and over. They share the leases: what one has reported another reports again."""

    def __init__(self, world: World, seconds: float) -> None:
        self.world, self.seconds = world, seconds
        self.name = world.publish(TREE)["definition"]
        self.flows = [world.start(self.name, run=False) for _number in range(3)]
        self.leases: list[Any] = []
        self.granted: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.lock = threading.Lock()
        self.numbers = itertools.count()

    def member(self, act: Callable[[random.Random], Any], seed: int) -> Callable[[], None]:
        chance = random.Random(seed)

        def loop() -> None:
            ends = time.perf_counter() + self.seconds
            while time.perf_counter() < ends:
                try:
                    act(chance)
                except DomainError as error:
                    self.refused[error.code] += 1

        return loop

    def claim(self, chance: random.Random) -> None:
        leases = self.world.claim_all(chance.choice(["bank", "mail"]), max_tasks=3)
        with self.lock:
            for lease in leases:
                self.granted[lease.attempt.pk] += 1
            self.leases += leases

    def report(self, chance: random.Random) -> None:
        with self.lock:
            lease = chance.choice(self.leases[-12:]) if self.leases else None
        if lease is None:
            time.sleep(0.01)
            return
        act = chance.choice(["done", "processing", "fail", "unknown"])
        if act == "fail":
            self.world.fail(lease, error_code="TIMEOUT", run=False)
        elif act == "unknown" and chance.random() < 0.3:
            self.world.unknown(lease, run=False)
        else:
            self.world.succeed(lease, {"state": act if act in ("done", "processing") else "done"}, run=False)

    def start(self, chance: random.Random) -> None:
        """There are always three that have not ended."""
        flows = [flow for flow in self.flows if flow.status not in TERMINAL]
        if len(flows) < 3:
            flows.append(self.world.start(self.name, run=False))
        self.flows = flows
        time.sleep(0.05)

    def run(self, chance: random.Random) -> None:
        sweep.run_instance(chance.choice(self.flows).id)

    def tick(self, chance: random.Random) -> None:
        clocks.fire_due()
        reaper.reap()
        if chance.random() < 0.3:
            self.world.traveller.shift(1)

    def send(self, chance: random.Random) -> None:
        flow = chance.choice(self.flows)
        key = chance.choice(["ask", "wait"])
        if WorkflowStep.objects.filter(instance_id=flow.id, step_key=key, current_activation=None).exists():
            return
        flow.send(key, run=False, source_key=f"s{next(self.numbers) % 6}", generation=1)

    def control(self, chance: random.Random) -> None:
        time.sleep(0.1)
        flow = chance.choice(self.flows)
        getattr(flow, "resume" if flow.instance.paused else "pause")(run=False)

    def recover(self, chance: random.Random) -> None:
        flow = chance.choice(self.flows)
        unknown = Task.objects.filter(instance_id=flow.id, status="NEEDS_REVIEW").first()
        if unknown:
            send(flow, "review-task", command(flow, "review-task", task=unknown, outcome="FAILED"))
        stuck = WorkflowStep.objects.filter(instance_id=flow.id, status__in=("NEEDS_REVIEW", "FAILED", "CANCELLED"))
        for step in stuck.exclude(current_activation=None):
            slug = chance.choice(["retry-step", "resolve-step", "continue-poll"])
            if slug != "continue-poll" or step.kind == "POLL":
                try:
                    send(flow, slug, command(flow, slug, step.step_key))
                except DomainError as error:
                    self.refused[error.code] += 1
        send(flow, "continue", command(flow, "continue"))


@pytest.mark.rule("B7", "G7")
@pytest.mark.django_db(transaction=True)
def test_a_crowd_is_never_turned_away_and_loses_and_doubles_nothing() -> None:
    with time_machine.travel(MORNING, tick=False) as traveller:
        crowd = Crowd(make_world(traveller), SECONDS)
        acts = [crowd.claim, crowd.claim, crowd.report, crowd.report, crowd.run, crowd.run, crowd.tick]
        acts += [crowd.send, crowd.control, crowd.recover, crowd.recover, crowd.start]
        failed = [error for error in together([crowd.member(act, seed) for seed, act in enumerate(acts)]) if error]
        assert not failed, failed
        assert not crowd.refused["BUSY"], "deadlocks or waits persisted under a modest load"
        assert set(crowd.granted.values()) <= {1}, "an attempt was granted twice"
        crowd.world.run()
        assert not InboxEvent.objects.filter(status="PENDING").exists()
        assert not Signal.objects.filter(status="PENDING").exists()
        assert not RootContinuation.objects.filter(status="PENDING").exists()
        broken = [(result.check.name, each) for result in verify.verify(deep=True) for each in result.violations]
        assert not broken, broken


@pytest.mark.rule("B6", "B7")
@pytest.mark.django_db(transaction=True)
def test_a_stop_and_a_request_that_is_to_be_tried_again_never_miss_each_other() -> None:
    with time_machine.travel(MORNING, tick=False) as traveller:
        world = make_world(traveller)
        for _time in range(10):
            flow = world.start(sequence(task("pay")))
            fail = partial(world.fail, world.claim(), retryable=True, run=False)
            assert not [each for each in together([flow.cancel, fail]) if isinstance(each, Exception)]
            world.run()
            assert (flow.status, flow.task("pay").status) == ("CANCELLED", "CANCELLED")
