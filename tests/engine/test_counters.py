"""Whatever workers, time and people do in whatever order: counters equal what is really taken."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
import time_machine
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from recovery.engine import reaper, report
from recovery.errors import DomainError
from tests.support.ledger import assert_ledger_holds
from tests.support.trees import MINUTE, parallel, task
from tests.support.world import MORNING, Flow, World, make_world


class Desk:
    """One world of an example, with everything that was started and leased in it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.flows: list[Flow] = []
        self.leases: list[Any] = []

    def start(self, number: int) -> None:
        keyed = task("keyed", policy={"concurrency_key": "account-7", "backoff_ms": 1000})
        timed = task("timed", timeout_ms=MINUTE, max_attempts=2)
        self.flows.append(self.world.start(parallel(keyed, timed, task("free", queue="mail")), run=bool(number % 2)))

    def claim(self, number: int) -> None:
        self.leases += self.world.claim_all(("bank", "mail")[number % 2], max_tasks=1 + number % 3)

    def report(self, number: int) -> None:
        """Says something about an attempt, whatever has become of it: late, again, or against what was said before."""
        if self.leases:
            lease = self.leases[number % len(self.leases)]
            words: list[Callable[[], Any]] = [
                lambda: self.world.succeed(lease, run=False),
                lambda: self.world.fail(lease, retryable=True, run=False),
                lambda: self.world.fail(lease, retryable=False, run=False),
                lambda: self.world.unknown(lease, run=False),
                lambda: report.heartbeat(self.world.worker, lease.attempt.pk, lease.attempt.lease_token),
            ]
            words[number // 7 % len(words)]()

    def control(self, number: int) -> None:
        if self.flows:
            flow = self.flows[number % len(self.flows)]
            act = (flow.pause, flow.resume, flow.cancel, flow.pause, flow.resume)[number // 3 % 5]
            act(run=False)

    def wait(self, number: int) -> None:
        self.world.travel(seconds=1 + number % 40, run=False)

    def reap(self, number: int) -> None:
        reaper.reap()

    def run(self, number: int) -> None:
        self.world.run()


ACTS = ("start", "claim", "claim", "report", "report", "report", "control", "wait", "reap", "run")


@contextmanager
def forgotten() -> Iterator[None]:
    """Nothing of the block stays in the database. The mark is how Django lets durable blocks into its own tests."""
    block = transaction.atomic()
    block._from_testcase = True
    with block:
        yield
        transaction.set_rollback(True)


@pytest.mark.django_db
@pytest.mark.rule("B1", "B2", "B7", "B9")
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(acts=st.lists(st.tuples(st.sampled_from(ACTS), st.integers(0, 200)), max_size=40))
def test_counters_equal_open_holds_and_permits(acts: list[tuple[str, int]]) -> None:
    with forgotten(), time_machine.travel(MORNING, tick=False) as traveller:
        desk = Desk(make_world(traveller, max_open_tasks=20))
        desk.start(1)
        for act, number in acts:
            with suppress(DomainError):  # refused: then nothing of it may be left behind either
                getattr(desk, act)(number)
            assert_ledger_holds(desk.world)
        desk.world.run()
        assert_ledger_holds(desk.world)
