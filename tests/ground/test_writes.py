"""Rows are written in one way: a status moves as its table lists, and what was loaded is there to be changed."""

from __future__ import annotations

from typing import Any

import pytest

from recovery.models import Task
from recovery.states import MOVES, Status
from recovery.writes import IllegalMove, LostRow, change, change_all, change_where, watch
from tests.operations.stages import failed_task
from tests.support.world import World


@pytest.mark.rule("RT3", "RY7")
@pytest.mark.parametrize("write", [change, lambda row, **fields: change_all([row], **fields)])
def test_a_task_that_is_known_never_moves_again(world: World, write: Any) -> None:
    task = failed_task(world).task("it")
    for status in ("QUEUED", "RUNNING", "SUCCEEDED", "CANCELLED", "NEEDS_REVIEW"):
        with pytest.raises(IllegalMove, match=f"FAILED -> {status}"):
            write(task, status=status)
    assert Task.objects.get(pk=task.pk).status == "FAILED"


@pytest.mark.parametrize("write", [change, lambda row, **fields: change_all([row], **fields)])
def test_a_row_that_is_gone_is_a_fault_and_not_a_success(world: World, write: Any) -> None:
    task = failed_task(world).task("it")
    Task.objects.filter(pk=task.pk).delete()
    with pytest.raises(LostRow, match=task.pk):
        write(task, priority=3)


@pytest.mark.rule("RT3", "RY7")
@pytest.mark.parametrize("from_", ["FAILED", "QUEUED"])
def test_rows_of_a_query_move_as_legally_as_one_row(world: World, from_: str) -> None:
    """Nobody watches, and nobody has to be there: the move itself is refused."""
    rows = Task.objects.filter(pk=failed_task(world).task("it").pk)
    with pytest.raises(IllegalMove, match=f"{from_} -> SUCCEEDED"):
        change_where(rows, from_=[from_], status="SUCCEEDED")


def test_rows_of_a_query_stay_that_are_not_where_the_move_begins(world: World) -> None:
    rows = Task.objects.filter(pk=failed_task(world).task("it").pk)
    with watch() as changes:
        assert change_where(rows, from_=["QUEUED", "RUNNING"], status="FAILED", priority=3) == 0
    assert (rows.get().priority, changes.changed) == (0, [])


def test_who_watches_sees_what_was_there_and_what_is(world: World) -> None:
    task = failed_task(world).task("it")
    with watch() as changes:
        change(task, priority=3, attempt_count=task.attempt_count)
    assert changes.changed == [(task, "priority", 0, 3)]
    change(task, priority=4)
    assert len(changes.changed) == 1


def test_the_table_of_moves_names_statuses_that_exist() -> None:
    known = {each.__name__: set(each.values) for each in Status.__subclasses__()}
    for name, moves in MOVES.items():
        assert set(moves) <= known[name]
        assert {after for ends in moves.values() for after in ends} <= known[name]
