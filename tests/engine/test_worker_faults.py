"""What workers do, killed at every statement and around the commit: all of it is there, or nothing (B7)."""

import os
import signal
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from typing import Any

import pytest
import time_machine
from django.apps import apps
from django.db import OperationalError, connection

from recovery.engine import reaper, report
from tests.support.ledger import assert_ledger_holds
from tests.support.trees import MINUTE, parallel, task
from tests.support.world import MORNING, World, make_world

pytestmark = [pytest.mark.faults, pytest.mark.rule("B7")]

Act = Callable[[], object]


@pytest.fixture
def world(transactional_db: None) -> Iterator[World]:
    """A world whose transactions are real ones, on the database's own connection."""
    with time_machine.travel(MORNING, tick=False) as traveller:
        world = make_world(traveller)
        world.start(parallel(*(task(key, policy={"concurrency_key": key}, timeout_ms=2 * MINUTE) for key in "ab")))
        yield world


def claim(world: World) -> Act:
    return partial(world.claim_all, max_tasks=2)


def claim_with_key(world: World) -> Act:
    return partial(world.claim_all, max_tasks=2, key="once")


def heartbeat(world: World) -> Act:
    attempt = world.claim().attempt
    world.travel(seconds=10, run=False)
    return partial(report.heartbeat, world.worker, attempt.pk, attempt.lease_token)


def succeed(world: World) -> Act:
    return partial(world.succeed, world.claim(), run=False)


def fail_for_good(world: World) -> Act:
    return partial(world.fail, world.claim(), retryable=False, run=False)


def fail_and_try_again(world: World) -> Act:
    return partial(world.fail, world.claim(), retryable=True, run=False)


def unknown(world: World) -> Act:
    return partial(world.unknown, world.claim(), run=False)


def late(world: World) -> Act:
    lease = world.claim()
    world.lose_lease(lease)
    return partial(world.succeed, lease, run=False)


def reap_a_lease(world: World) -> Act:
    world.claim()
    world.travel(minutes=1, run=False)
    return reaper.reap


def reap_a_queued_task(world: World) -> Act:
    world.succeed(world.claim())
    world.travel(minutes=2, run=False)
    return reaper.reap


ACTS = [claim, claim_with_key, heartbeat, succeed, fail_for_good, fail_and_try_again, unknown, late]
ACTS += [reap_a_lease, reap_a_queued_task]
EVERY_ACT = pytest.mark.parametrize("stage", ACTS, ids=[act.__name__ for act in ACTS])


def facts() -> dict[str, list[dict[str, Any]]]:
    """Every row of every entity, by table."""
    models = apps.get_app_config("recovery").get_models()
    return {model.__name__: list(model._default_manager.order_by("pk").values()) for model in models}


def in_child(act: Act) -> int:
    """Runs `act` in a forked process with a connection of its own; answers the signal that ended it, 0 for none."""
    connection.close()  # or the child would share the parent's socket
    child = os.fork()
    if child == 0:
        try:
            act()
        finally:
            os._exit(0)
    _pid, status = os.waitpid(child, 0)
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0


def at_statement(number: int, act: Act, fault: Act, *, only_writes: bool = False) -> None:
    """Runs `act`, and `fault` once, before its n-th statement (or write)."""
    statements = count(1)

    def wrapper(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if (not only_writes or sql.startswith(("INSERT", "UPDATE"))) and next(statements) == number:
            fault()
        return execute(sql, params, many, context)

    with connection.execute_wrapper(wrapper):
        act()


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@EVERY_ACT
def test_killed_at_any_statement_it_leaves_all_or_nothing(world: World, stage: Callable[[World], Act]) -> None:
    act = stage(world)
    before = facts()
    for number in count(1):
        ended = in_child(partial(at_statement, number, act, die))
        if facts() != before:
            break  # it had come to its commit
        assert ended == signal.SIGKILL
    assert number > 3
    assert_ledger_holds(world)
    assert_said_again_changes_nothing(stage, act)


def assert_said_again_changes_nothing(stage: Callable[[World], Act], act: Act) -> None:
    """Whoever was cut off does not know, and says it again. Only a claim without a key is a new one then."""
    if stage is not claim:
        after = facts()
        act()
        assert facts() == after


@EVERY_ACT
def test_killed_around_its_commit_it_leaves_all_or_nothing(world: World, stage: Callable[[World], Act]) -> None:
    act = stage(world)
    before = facts()

    def killed(after: bool) -> None:
        commit = connection._commit

        def dying_commit() -> None:
            if after:
                commit()
            die()

        connection._commit = dying_commit
        act()

    assert in_child(partial(killed, False)) == signal.SIGKILL
    assert facts() == before
    assert in_child(partial(killed, True)) == signal.SIGKILL
    assert facts() != before
    assert_ledger_holds(world)
    assert_said_again_changes_nothing(stage, act)


@EVERY_ACT
@pytest.mark.parametrize(("number", "code"), [(1, 1213), (2, 1205), (4, 1213)])
def test_contention_is_tried_again_as_a_whole(
    world: World, stage: Callable[[World], Act], number: int, code: int
) -> None:
    """1213 undoes everything, 1205 only its statement: either way the whole transaction runs again."""
    act, faults = stage(world), []

    def contend() -> None:
        faults.append(code)
        raise OperationalError(code, "contention")

    before = facts()
    at_statement(number, act, contend, only_writes=True)
    assert faults or number > 1
    assert facts() != before
    assert_ledger_holds(world)
