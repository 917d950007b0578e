"""One world at work for the tests of a module: each test breaks it, and what it broke is rolled back."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import time_machine
from django.db import transaction

from tests.support.recovering import recover
from tests.support.trees import MINUTE, parallel, poll, receipt, sequence, signal, task, timer
from tests.support.world import MORNING, Flow, World, make_world

PENDING = {"state": "processing"}


@dataclass(frozen=True)
class Busy:
    """What is in it: every kind of step and decision, work in every state."""

    world: World
    done: Flow
    """Ended; its task was claimed with a key."""
    cancelled: Flow
    retried: Flow
    """"pay" failed once and runs again, with a concurrency key."""
    unknown: Flow
    """In review: the effect of "pay" is unknown, and nobody has reviewed it. Its result is consumed."""
    reviewed: Flow
    """Ended: "pay" was reviewed, retried and succeeded; its first worker reported late."""
    query: Flow
    """Retried in its first round, answered PENDING, and its second round waits for a worker."""
    waiting: Flow
    """"receipt" was rearmed after a wrong signal; "delay" counts; "pay" was resolved. Continued, paused, resumed."""
    unconsumed: Flow
    """Two results: of "first", consumed; of "second", not consumed yet."""


def make_busy(traveller: time_machine.Traveller) -> Busy:
    world = make_world(traveller)
    done = world.start(task("pay"))
    (lease,) = world.claim_all(key="a-claim")
    world.succeed(lease)

    cancelled = world.start(sequence(task("pay"), task("notify")))
    cancelled.cancel()

    unknown = world.start(parallel(task("pay", policy={"concurrency_key": "account-8"}), timer("delay")))
    world.unknown(world.claim())

    reviewed = world.start(task("pay", timeout_ms=90 * MINUTE, policy={"latest_start_ms": 60 * MINUTE}))
    late = world.claim()
    world.unknown(late)
    recover(reviewed, "review-task", "pay", outcome="FAILED", result={"why": "never arrived"})
    recover(reviewed, "retry-step", "pay")
    world.succeed(late, {"state": "done"})
    recover(reviewed, "continue")
    world.succeed(world.claim())

    query = world.start(poll("query", signal=receipt()))
    world.fail(world.claim())
    recover(query, "retry-step", "query")
    recover(query, "continue")
    world.succeed(world.claim(), PENDING)
    world.travel(minutes=1)

    waiting = world.start(parallel(signal("receipt"), timer("delay"), task("pay", queue="mail")))
    waiting.send("receipt", correlation_key="B-2")
    world.fail(world.claim("mail"))
    recover(waiting, "rearm-wait", "receipt")
    recover(waiting, "resolve-step", "pay")
    recover(waiting, "continue")
    waiting.pause()
    waiting.resume()

    retried = world.start(task("pay", queue="mail", policy={"concurrency_key": "account-7"}))
    world.fail(world.claim("mail"))
    recover(retried, "retry-step", "pay")
    world.travel(seconds=5)
    recover(retried, "continue")
    world.claim("mail")

    unconsumed = world.start(parallel(task("first", queue="mail"), task("second", queue="mail")))
    leases = {lease.task.pk: lease for lease in world.claim_all("mail")}
    world.succeed(leases[unconsumed.task("first").pk])
    world.succeed(leases[unconsumed.task("second").pk], run=False)
    return Busy(world, done, cancelled, retried, unknown, reviewed, query, waiting, unconsumed)


@pytest.fixture(scope="module", name="busy")
def _busy(django_db_setup: None, django_db_blocker: Any) -> Iterator[Busy]:
    """For tests marked django_db: what one of them does to the world is rolled back to here."""
    outer = transaction.atomic()
    outer._from_testcase = True  # durable blocks may stand in it, as in a TestCase
    with time_machine.travel(MORNING, tick=False) as traveller, django_db_blocker.unblock(), outer:
        yield make_busy(traveller)
        transaction.set_rollback(True)
