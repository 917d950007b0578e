"""A walk through anything in any order: operations, workers, runners, signals and time, on one instance.

After every step a small model of its own looks at everything, now and then `manage.py verify` too; at the end a patient
operator has to bring the instance to its end. `MACHINE_WALKS=500` hunts longer, and at random.
"""

import os
import random
from collections.abc import Callable
from functools import partial

import pytest
import time_machine
from django.db import transaction
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st

from recovery.states import InstanceStatus
from tests.machine.model import Model
from tests.machine.subject import TREES, Subject
from tests.support.world import MORNING, World, make_world

HUNTED = int(os.environ.get("MACHINE_WALKS", "0"))
STEPS = 60

VERBS = ["succeed"] * 5 + ["fail"] * 4 + ["unknown"] * 3 + ["heartbeat", "nothing"]
ANSWERS = ["done", "processing", "processing", "rejected", "outside", "nothing"]
RUNNERS = ["all"] * 6 + ["nothing"] * 4 + ["consume", "adjudicate", "advance", "stop", "clocks", "reap"]
SECONDS = [0, 0, 0, 1, 6, 31, 61, 61, 200]


class Walk:
    def __init__(self, world: World, chance: random.Random) -> None:
        tree, room = chance.choice(sorted(TREES)), chance.choice([1, 2, 100, 100])
        note(f"{tree}, room for {room} tasks")
        self.subject, self.chance = Subject(world, TREES[tree], room), chance
        self.model = Model(self.subject)
        self.run("all")

    def step(self) -> None:
        """One act, and then perhaps a runner or all of them."""
        acts = [self.work] * 6 + [self.report_again, self.time_passes, self.time_passes, self.fire_one]
        acts += [self.send, self.send, self.control, self.cancel_task, self.decide_anything]
        if self.model.instance.status == InstanceStatus.NEEDS_REVIEW:
            acts += [self.decide_what_is_allowed] * 4 + [self.retry_rearm_or_go_on] * 6
        self.chance.choice(acts)()
        self.run(self.chance.choice(RUNNERS))

    def run(self, runner: str) -> None:
        if runner == "nothing":
            return
        note(f"  {runner}")
        self.subject.run(runner)
        self.model.check("run", None)
        if runner == "all":
            self.model.at_rest()

    def did(self, what: str, kind: str, refused: str | None = None) -> None:
        note(f"{what} {refused or ''}")
        self.model.check(kind, refused)

    def work(self) -> None:
        """A worker claims, and reports about the first of what runs."""
        self.subject.claim(self.chance.randint(1, 3))
        number = self.subject.running()
        if number is None:
            self.did("claim", "work")
        else:
            self._report(number)

    def report_again(self) -> None:
        self._report(self.chance.randint(0, 5))

    def _report(self, number: int) -> None:
        said = self.chance.choice(VERBS), self.chance.choice(ANSWERS), self.chance.random() < 0.3
        self.did(f"report {number} {said}", "work", self.subject.report(number, *said))

    def time_passes(self) -> None:
        """Or to the very microsecond at which the next clock, or lease, is due."""
        if seconds := self.chance.choice(SECONDS):
            self.subject.travel(seconds)
        else:
            self.subject.travel_to_next_clock()
        self.did(f"travel {seconds}", "work")

    def fire_one(self) -> None:
        self.subject.fire_one(self.chance.randint(0, 5))
        self.did("fire", "run")

    def send(self) -> None:
        key, back = self.chance.choice(["ask", "wait"]), self.chance.choice([0, 0, 0, 1])
        is_right, is_valid = self.chance.random() < 0.7, self.chance.random() < 0.7
        refused = self.subject.send(key, back, is_right, is_valid, self.chance.choice("abc"))
        self.did(f"send {key} -{back} {is_right} {is_valid}", "work", refused)

    def control(self) -> None:
        act = self.chance.choice(["pause"] * 5 + ["resume"] * 10 + ["cancel"])
        self.did(act, "control", self.subject.control(act))

    def cancel_task(self) -> None:
        self.did("cancel a task", "work", self.subject.cancel_task(self.chance.randint(0, 5)))

    def decide_what_is_allowed(self) -> None:
        self._decide(self.subject.decide_what_is_allowed)

    def retry_rearm_or_go_on(self) -> None:
        """The same, but for the conclusions that end a step's history."""
        self._decide(partial(self.subject.decide_what_is_allowed, without=("resolve-step",)))

    def decide_anything(self) -> None:
        """Whether it is allowed or not."""
        self._decide(partial(self.subject.decide_anything, choice=self.chance.randint(0, 5)))

    def _decide(self, decide: Callable[[int, str, str], tuple[str, str | None] | None]) -> None:
        outcome, answer = self.chance.choice(["SUCCEEDED", "FAILED"]), self.chance.choice(ANSWERS)
        if done := decide(self.chance.randint(0, 5), outcome, answer):
            self.did(f"{done[0]} {outcome} {answer}", "control", done[1])


@pytest.mark.rule("B7", "G9", "B10", "G16")
@pytest.mark.django_db
@settings(
    max_examples=HUNTED or 6,
    derandomize=not HUNTED,
    database=None,
    deadline=None,
    phases=[Phase.generate],  # making a failure shorter would take many minutes
    suppress_health_check=list(HealthCheck),
)
@given(seed=st.integers(0, 2**32))
def test_whatever_happens_in_whatever_order_the_invariants_hold_and_there_is_a_way_out(seed: int) -> None:
    block = transaction.atomic()
    block._from_testcase = True  # a durable transaction may begin in it
    with time_machine.travel(MORNING, tick=False) as traveller, block:
        walk = Walk(make_world(traveller), random.Random(seed))
        for number in range(STEPS):
            walk.step()
            if number % 10 == 9:
                walk.model.verify()
        walk.subject.bring_to_an_end()
        walk.model.verify()
        transaction.set_rollback(True)
