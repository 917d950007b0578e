"""S14: operations that are killed, refused by the database or cut off, at each of their statements."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import time_machine
from django.db import DatabaseError, OperationalError, connection

from recovery import operations
from recovery.models import OperationReceipt, QuotaHold
from recovery.writes import change
from tests.operations.stages import NAMES, STAGES, Stage, failed_query, failed_task
from tests.support.recovering import command, facts, refused, send
from tests.support.world import MORNING, Flow, World, make_world

pytestmark = [pytest.mark.rule("G8"), pytest.mark.faults]
EVERY_STAGE = pytest.mark.parametrize(("slug", "target", "stage"), STAGES, ids=NAMES)


@pytest.fixture
def real_world(transactional_db: None) -> Iterator[World]:
    """A world whose transactions are real ones, on the database's own connection."""
    with time_machine.travel(MORNING, tick=False) as traveller:
        yield make_world(traveller)


class At:
    """Does something at the n-th statement of a connection, once."""

    def __init__(self, number: int, act: Callable[[], None], *, only_writes: bool = False) -> None:
        self.left, self.act, self.only_writes = number, act, only_writes
        self.done = False

    def __call__(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if not self.only_writes or sql.startswith(("INSERT", "UPDATE")):
            self.left -= 1
            if self.left == 0:
                self.done = True
                self.act()
        return execute(sql, params, many, context)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def in_child(act: Callable[[], object]) -> int:
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


def receipts(key: str) -> int:
    return OperationReceipt.objects.filter(operation__operation_key=key).count()


@EVERY_STAGE
def test_killed_at_any_statement_an_operation_leaves_all_or_nothing(
    real_world: World, slug: str, target: str, stage: Stage
) -> None:
    flow = stage(real_world)
    payload, before = command(flow, slug, target), facts(flow)
    number = 0
    while True:
        number += 1
        kill = At(number, die)

        def act(kill: At = kill) -> None:
            with connection.execute_wrapper(kill):
                send(flow, slug, payload, key="k")

        if in_child(act) == 0:
            break  # it had fewer statements than that: it ran to its end
        assert facts(flow) == before, f"killed at statement {number}, it left something behind"
    assert number > 20
    assert receipts("k") == 1
    assert send(flow, slug, payload, key="k").replayed


@EVERY_STAGE
def test_killed_around_its_commit_an_operation_leaves_all_or_nothing(
    real_world: World, slug: str, target: str, stage: Stage
) -> None:
    flow = stage(real_world)
    payload, before = command(flow, slug, target), facts(flow)

    def killed(after: bool) -> None:
        backend: Any = connection
        commit = backend._commit

        def dying_commit() -> None:
            if after:
                commit()
            die()

        backend._commit = dying_commit
        send(flow, slug, payload, key="k")

    assert in_child(lambda: killed(after=False)) == signal.SIGKILL
    assert facts(flow) == before
    assert in_child(lambda: killed(after=True)) == signal.SIGKILL
    assert receipts("k") == 1
    assert send(flow, slug, payload, key="k").replayed


@EVERY_STAGE
def test_whichever_write_fails_nothing_is_left_and_the_key_is_free(
    real_world: World, slug: str, target: str, stage: Stage
) -> None:
    flow = stage(real_world)
    payload, before = command(flow, slug, target), facts(flow)

    def fail() -> None:
        raise DatabaseError("the disk is full")

    number = 0
    while True:
        number += 1
        fault = At(number, fail, only_writes=True)
        with connection.execute_wrapper(fault):
            try:
                send(flow, slug, payload, key="k")
            except DatabaseError:
                assert facts(flow) == before, f"write {number} failed and left something behind"
                continue
        break
    assert not fault.done
    assert number > 6
    assert receipts("k") == 1


@EVERY_STAGE
def test_a_deadlock_at_any_statement_is_tried_again_as_a_whole(
    real_world: World, slug: str, target: str, stage: Stage
) -> None:
    """1213 undoes everything, 1205 only its statement: either way the whole transaction runs again."""
    flow = stage(real_world)

    def contend(code: int) -> Callable[[], None]:
        def fail() -> None:
            raise OperationalError(code, "database is locked")

        return fail

    # Every second statement, with the two errors in turn, until a commit had no statement left to disturb.
    payload = command(flow, slug, target)
    with connection.execute_wrapper(counter := At(0, lambda: None)):
        operations.preview(flow.world.operator, slug, flow.id, payload)
    statements = -counter.left
    wrappers = [At(number, contend((1213, 1205)[number % 2])) for number in range(12, statements, 8)]
    for wrapper in wrappers[:5]:
        connection.execute_wrappers.append(wrapper)
    try:
        receipt = send(flow, slug, payload, key="k")
    finally:
        connection.execute_wrappers.clear()
    assert wrappers[0].done
    assert not receipt.replayed
    assert receipts("k") == 1


@EVERY_STAGE
def test_a_commit_whose_answer_is_lost_is_found_again_by_its_key(
    real_world: World, slug: str, target: str, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = stage(real_world)
    payload = command(flow, slug, target)
    backend: Any = connection
    commit = backend._commit
    lost: list[bool] = []

    def commit_and_lose() -> None:
        commit()
        if not lost:
            lost.append(True)
            raise OperationalError(2013, "Lost connection to server during query (database is locked)")

    monkeypatch.setattr(connection, "_commit", commit_and_lose)
    receipt = send(flow, slug, payload, key="k")
    assert lost
    assert receipt.replayed
    assert receipts("k") == 1


@pytest.mark.rule("RY5")
@pytest.mark.parametrize("stage", [failed_task, failed_query])
@pytest.mark.parametrize("full", ["application", "queue"])
def test_a_full_quota_refuses_a_retry_and_leaves_nothing_behind(world: World, stage: Stage, full: str) -> None:
    flow: Flow = stage(world)
    quota = world.application_quota() if full == "application" else world.queue_quota()
    change(quota, max_open_tasks=quota.open_tasks)
    refused(flow, "QUOTA_EXCEEDED", "retry-step", "it")
    assert world.application_quota().open_tasks == QuotaHold.objects.filter(released_at=None).count()
    change(quota, max_open_tasks=quota.open_tasks + 1)
    send(flow, "retry-step", command(flow, "retry-step", "it"))
    assert world.application_quota().open_tasks == QuotaHold.objects.filter(released_at=None).count()
    assert world.queue_quota().open_tasks == QuotaHold.objects.filter(released_at=None).count()
