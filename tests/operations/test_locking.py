"""G7: what each operation locks, in which order, and how many statements it takes."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.db import connection

from recovery import contracts, definitions
from recovery.locks import ORDER, LockOrderViolation, Locks, transact
from recovery.models import ResultStream, Task, WorkflowInstance
from tests.operations.stages import NAMES, STAGES, Stage, failed_task
from tests.support.recovering import command, preview, recover, send
from tests.support.trees import task
from tests.support.world import World

TABLES = [model._meta.db_table for model in ORDER]
LIMIT = 40
"""Statements of one operation in all (permission, receipt, locks, case, writes)."""

COMMON = ["applicationquota", "managementoperation", "queuequota", "workflowinstance", "instancegate"]
STEP = [*COMMON, "workflowstep"]
LOCKED = {
    "review-task": [*STEP, "task", "resultstream"],
    "resolve-step": [*STEP, "task"],
    "continue-poll": [*STEP, "task"],
    "rearm-wait": STEP,
    "retry-step": [*STEP, "task"],
    "continue": [*COMMON, "task"],
}
"""What is locked by reading FOR UPDATE, or for the operation key by its insert."""


def run(flow: Any, slug: str, target: str, capture_statements: Any) -> list[Any]:
    """The statements of one commit, by a process that has not seen the definition before."""
    payload = command(flow, slug, target)
    definitions.load.cache_clear()
    with capture_statements() as statements:
        send(flow, slug, payload)
    return [statement for statement in statements if "SAVEPOINT" not in statement.sql]


def table_of(sql: str) -> str:
    found = re.search(r"(?:FROM|UPDATE|INTO) [`\"](recovery_\w+)[`\"]", sql)
    assert found, sql
    return found[1]


@pytest.mark.rule("G7", "G8")
@pytest.mark.parametrize(("slug", "target", "stage"), STAGES, ids=NAMES)
def test_the_rows_are_locked_in_the_one_order_with_the_stream_last(
    world: World, slug: str, target: str, stage: Stage, capture_statements: Any
) -> None:
    statements = run(stage(world, task("sibling")), slug, target, capture_statements)
    locked = [
        table_of(statement.sql).removeprefix("recovery_")
        for statement in statements
        if "FOR UPDATE" in statement.sql or statement.sql.startswith("INSERT INTO `recovery_managementoperation`")
    ]
    if connection.vendor == "sqlite":
        assert locked == []  # its one writer lock is taken when the transaction begins
        assert (
            any(statement.sql.startswith("BEGIN IMMEDIATE") for statement in statements) or connection.in_atomic_block
        )
    elif slug == "review-task":
        # The execution audit has an operation of its own; its key is nobody's, so nobody waits for it (G10).
        assert locked == [*STEP, "task", "managementoperation", "resultstream"]
    else:
        assert locked == LOCKED[slug]


@pytest.mark.rule("G7")
@pytest.mark.parametrize(("slug", "target", "stage"), STAGES, ids=NAMES)
def test_children_are_changed_in_the_order_of_the_locks_too(
    world: World, slug: str, target: str, stage: Stage, capture_statements: Any
) -> None:
    """An UPDATE locks what it changes, whether or not the row was asked for before."""
    statements = run(stage(world), slug, target, capture_statements)
    changed = dict.fromkeys(table_of(each.sql) for each in statements if each.sql.startswith("UPDATE"))
    children = [table for table in changed if table in TABLES and table.removeprefix("recovery_") not in COMMON]
    assert children == sorted(children, key=TABLES.index)


@pytest.mark.rule("G7")
@pytest.mark.parametrize(("slug", "target", "stage"), STAGES, ids=NAMES)
def test_locks_are_taken_by_primary_key_from_one_table_at_a_time(
    world: World, slug: str, target: str, stage: Stage, capture_statements: Any
) -> None:
    for statement in run(stage(world), slug, target, capture_statements):
        if "FOR UPDATE" in statement.sql:
            assert "JOIN" not in statement.sql
            assert re.search(r"WHERE `\w+`\.`id` (=|IN)", statement.sql), statement.sql


@pytest.mark.rule("G7")
@pytest.mark.parametrize(("slug", "target", "stage"), STAGES, ids=NAMES)
def test_the_application_quota_is_really_changed(world: World, slug: str, target: str, stage: Stage) -> None:
    flow = stage(world)
    before = world.application_quota().lock_seq
    recover(flow, slug, target, run=False)
    assert world.application_quota().lock_seq == before + 1


@pytest.mark.rule("G8")
def test_the_result_event_is_the_last_thing_a_review_writes(world: World, capture_statements: Any) -> None:
    flow = STAGES[0][2](world)
    written = [
        table_of(statement.sql).removeprefix("recovery_")
        for statement in run(flow, "review-task", "it", capture_statements)
        if statement.sql.startswith(("INSERT", "UPDATE"))
    ]
    assert written[-2:] == ["resultevent", "resultstream"]
    assert written.index("operationreceipt") < written.index("taskresult") < written.index("resultevent")


@pytest.mark.rule("G7")
@pytest.mark.parametrize(("slug", "target", "stage"), STAGES, ids=NAMES)
def test_the_number_of_statements_is_small_and_does_not_grow_with_siblings(
    world: World, slug: str, target: str, stage: Stage, capture_statements: Any
) -> None:
    alone = run(stage(world), slug, target, capture_statements)
    crowd = [task(f"sibling-{number}") for number in range(20)]
    beside_twenty = run(stage(world, *crowd), slug, target, capture_statements)
    assert len(alone) == len(beside_twenty)
    assert len(alone) <= LIMIT, "\n".join(statement.sql[:150] for statement in alone)


@pytest.mark.rule("G7")
def test_the_number_of_statements_does_not_grow_with_activations(world: World, capture_statements: Any) -> None:
    flow = STAGES[3][2](world)
    counts = {len(run(flow, "rearm-wait", "it", capture_statements)) for _activation in range(10)}
    assert len(counts) == 1


@pytest.mark.rule("G7")
def test_the_number_of_statements_does_not_grow_with_rounds(world: World, capture_statements: Any) -> None:
    flow = STAGES[5][2](world)
    counts = []
    for _round in range(2):
        counts.append(len(run(flow, "retry-step", "it", capture_statements)))
        recover(flow, "continue")
        world.succeed(world.claim(), {"state": "processing"})
        world.travel(minutes=2)
        world.fail(world.claim())
    assert len(set(counts)) == 1


@pytest.mark.rule("G7", "RS2")
@pytest.mark.parametrize("ask", [send, lambda flow, slug, payload: preview(flow, slug, "it", **payload)])
def test_an_output_is_judged_once_and_before_the_first_lock(
    world: World, ask: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = failed_task(world)
    happened: list[str] = []

    def noted(word: str, function: Any) -> Any:
        def call(*arguments: Any) -> Any:
            happened.append(word)
            return function(*arguments)

        return call

    monkeypatch.setattr(contracts, "violation", noted("judged", contracts.violation))
    monkeypatch.setattr(Locks, "rows", noted("locked", Locks.rows))
    ask(flow, "resolve-step", command(flow, "resolve-step", "it"))
    assert happened.index("judged") < happened.index("locked")
    assert happened.count("judged") == 1


@pytest.mark.rule("G7")
@pytest.mark.django_db
def test_a_lock_out_of_order_is_a_fault_of_the_program() -> None:
    def backwards(locks: Any) -> None:
        locks.rows(ResultStream, ["x"])
        locks.rows(Task, ["x"])

    with pytest.raises(LockOrderViolation, match="Task was locked after ResultStream"):
        transact(backwards)


@pytest.mark.rule("G7")
@pytest.mark.django_db(transaction=True)
def test_a_lock_outside_of_a_transaction_is_a_fault_of_the_program() -> None:
    with pytest.raises(LockOrderViolation, match="outside of a transaction"):
        Locks().row(WorkflowInstance, "x")
