"""S14: operations that are killed, refused by the database or cut off, at each of their statements."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
import time_machine
from django.db import DatabaseError, OperationalError, connection

from recovery import operations
from recovery.models import OperationReceipt, QuotaHold
from recovery.writes import change
from tests.operations.stages import NAMES, STAGES, Stage, failed_query, failed_task
from tests.support.faults import answers_lost, at_statement, die, facts, in_child
from tests.support.recovering import command, refused, send
from tests.support.world import MORNING, Flow, World, make_world

pytestmark = [pytest.mark.rule("G8"), pytest.mark.faults]
EVERY_STAGE = pytest.mark.parametrize(("slug", "target", "stage"), STAGES, ids=NAMES)


@pytest.fixture
def real_world(transactional_db: None) -> Iterator[World]:
    """A world whose transactions are real ones, on the database's own connection."""
    with time_machine.travel(MORNING, tick=False) as traveller:
        yield make_world(traveller)


def receipts(key: str) -> int:
    return OperationReceipt.objects.filter(operation__operation_key=key).count()


@EVERY_STAGE
def test_killed_at_any_statement_an_operation_leaves_all_or_nothing(
    real_world: World, slug: str, target: str, stage: Stage
) -> None:
    flow = stage(real_world)
    payload, before = command(flow, slug, target), facts()
    for number in count(1):

        def act(number: int = number) -> None:
            at_statement(number, lambda: send(flow, slug, payload, key="k"), die)

        if in_child(act) == 0:
            break  # it had fewer statements than that: it ran to its end
        assert facts() == before, f"killed at statement {number}, it left something behind"
    assert number > 20
    assert receipts("k") == 1
    assert send(flow, slug, payload, key="k").replayed


@EVERY_STAGE
def test_killed_around_its_commit_an_operation_leaves_all_or_nothing(
    real_world: World, slug: str, target: str, stage: Stage
) -> None:
    flow = stage(real_world)
    payload, before = command(flow, slug, target), facts()

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
    assert facts() == before
    assert in_child(lambda: killed(after=True)) == signal.SIGKILL
    assert receipts("k") == 1
    assert send(flow, slug, payload, key="k").replayed


@EVERY_STAGE
def test_whichever_write_fails_nothing_is_left_and_the_key_is_free(
    real_world: World, slug: str, target: str, stage: Stage
) -> None:
    flow = stage(real_world)
    payload, before = command(flow, slug, target), facts()

    def fail() -> None:
        raise DatabaseError("the disk is full")

    for number in count(1):
        try:
            at_statement(number, lambda: send(flow, slug, payload, key="k"), fail, only_writes=True)
        except DatabaseError:
            assert facts() == before, f"write {number} failed and left something behind"
        else:
            break
    assert number > 6
    assert receipts("k") == 1


@EVERY_STAGE
def test_contention_at_any_statement_is_tried_again_as_a_whole(
    real_world: World, slug: str, target: str, stage: Stage
) -> None:
    """A deadlock (1213) undoes everything, a lock wait (1205) only its statement: either way all of it runs again."""
    flow = stage(real_world)
    payload, before = command(flow, slug, target), facts()

    def once() -> None:
        operations.preview(flow.world.operator, slug, flow.id, payload)

    # Previews are the commit's own transaction, rolled back: every statement can be disturbed without acting twice.
    begun = False
    for number in count(1):
        hit: list[int] = []

        def contend(number: int = number, hit: list[int] = hit) -> None:
            hit.append(number)
            raise OperationalError((1213, 1205)[number % 2], "database is locked")

        try:
            at_statement(number, once, contend)
        except OperationalError:
            assert not begun, "a statement of the transaction was not tried again"
            continue  # before the transaction: who may act, and what the key has done so far
        begun = True
        if not hit:
            break
    assert number > 20
    assert facts() == before
    at_statement(25, lambda: send(flow, slug, payload, key="k"), contend)
    assert receipts("k") == 1


@EVERY_STAGE
def test_a_commit_whose_answer_is_lost_is_found_again_by_its_key(
    real_world: World, slug: str, target: str, stage: Stage
) -> None:
    flow = stage(real_world)
    payload = command(flow, slug, target)
    with answers_lost() as lost:
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
