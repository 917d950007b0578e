"""The lock order and the one transaction runner (G7, G8). What only MariaDB's row locks can show is shown there."""

import re
import threading
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from django.conf import settings
from django.db import DatabaseError, IntegrityError, OperationalError, connection, models, transaction

from recovery import locks
from recovery.errors import Busy
from recovery.locks import ORDER, LockOrderViolation, Locks, Rollback, snapshot, transact
from recovery.models import ApplicationQuota, ManagementOperation, Namespace, ResultStream, Task, WorkflowDefinition
from recovery.writes import change, insert
from tests.support.rows import nonsense
from tests.support.statements import capture_statements
from tests.support.threads import together

HAS_ROW_LOCKS = "FOR UPDATE"


def _quota(**fields: Any) -> ApplicationQuota:
    quota = nonsense(ApplicationQuota, **fields)
    insert(quota)
    return quota


# The order


@pytest.mark.rule("G7")
def test_the_order_is_that_of_the_rule_book() -> None:
    names = [model.__name__ for model in ORDER]
    spine = ["ApplicationQuota", "ManagementOperation", "QueueQuota", "WorkflowInstance", "InstanceGate"]
    assert [name for name in names if name in spine] == spine
    children = names[names.index("InstanceGate") + 1 : -1]
    assert {"WorkflowStep", "StepActivation", "Task", "TaskAttempt", "ExecutionPermit"} <= set(children)
    assert names[-1] == "ResultStream"


@pytest.mark.rule("G7")
def test_the_page_of_the_locks_lists_this_order() -> None:
    page = (settings.BASE_DIR / "docs" / "locks.md").read_text()
    assert re.findall(r"^\| \d+ \| (\w+) \|", page, re.MULTILINE) == [model.__name__ for model in ORDER]


@pytest.mark.rule("G7")
@pytest.mark.django_db
@pytest.mark.parametrize(("first", "second"), list(pairwise(ORDER)), ids=lambda model: model.__name__)
def test_an_earlier_lock_cannot_follow_a_later_one(first: type[models.Model], second: type[models.Model]) -> None:
    with transaction.atomic():
        held = Locks()
        held.enter(first)
        held.enter(first)
        held.enter(second)
        for ask in (held.enter, lambda model: held.rows(model, ["x"]), lambda model: held.row(model, "x")):
            with pytest.raises(LockOrderViolation, match=f"{first.__name__} was locked after {second.__name__}"):
                ask(first)


@pytest.mark.rule("G7")
@pytest.mark.django_db
def test_nothing_is_locked_after_the_result_stream() -> None:
    with transaction.atomic():
        held = Locks()
        held.enter(ResultStream)
        for model in ORDER[:-1]:
            with pytest.raises(LockOrderViolation):
                held.enter(model)


@pytest.mark.django_db(transaction=True)
def test_a_lock_outside_of_a_transaction_is_refused() -> None:
    """SQLite would let it pass silently, and on MariaDB it would hold for one statement."""
    quota = _quota()
    for ask in (lambda: Locks().row(ApplicationQuota, quota.pk), lambda: Locks().rows(ApplicationQuota, [quota.pk])):
        with pytest.raises(LockOrderViolation, match="outside of a transaction"):
            ask()


@pytest.mark.rule("G7")
@pytest.mark.django_db
def test_rows_are_locked_by_ascending_primary_key_one_table_a_statement() -> None:
    tasks = [nonsense(Task) for _number in range(5)]
    insert(*tasks)
    keys = [task.pk for task in tasks]
    with transaction.atomic(), capture_statements() as statements:
        found = Locks().rows(Task, [*reversed(keys), keys[0], "not-there"])
    assert [task.pk for task in found] == sorted(keys)
    (statement,) = (each.sql for each in statements if each.sql.startswith("SELECT"))
    assert "ORDER BY" in statement
    assert statement.rstrip(" FORUPDATE").endswith("ASC")
    assert "JOIN" not in statement
    assert (HAS_ROW_LOCKS in statement) == connection.features.has_select_for_update


@pytest.mark.django_db
def test_no_keys_are_no_statement() -> None:
    with transaction.atomic(), capture_statements() as statements:
        assert Locks().rows(Task, []) == []
    assert [each for each in statements if "SAVEPOINT" not in each.sql] == []


@pytest.mark.django_db
def test_a_row_that_is_gone_is_said_to_be_gone() -> None:
    with transaction.atomic(), pytest.raises(Task.DoesNotExist):
        Locks().row(Task, "not-there")


# The locks hold

CALLERS = 6


@pytest.mark.rule("G7")
@pytest.mark.django_db(transaction=True)
def test_callers_of_one_row_come_one_after_the_other() -> None:
    quota = _quota(lock_seq=0)

    def raise_it(held: Locks) -> None:
        row = held.row(ApplicationQuota, quota.pk)
        change(row, lock_seq=row.lock_seq + 1)

    assert together([lambda: transact(raise_it)] * CALLERS) == [None] * CALLERS
    assert ApplicationQuota.objects.get(pk=quota.pk).lock_seq == CALLERS


@pytest.mark.django_db(transaction=True)
def test_without_the_lock_the_same_callers_lose_updates() -> None:
    """The negative control: the race is real."""
    quota = _quota(lock_seq=0)
    meeting = threading.Barrier(CALLERS)

    def raise_it() -> None:
        row = ApplicationQuota.objects.get(pk=quota.pk)
        meeting.wait(timeout=60)
        change(row, lock_seq=row.lock_seq + 1)

    assert together([raise_it] * CALLERS) == [None] * CALLERS
    assert ApplicationQuota.objects.get(pk=quota.pk).lock_seq == 1


@pytest.mark.django_db(transaction=True)
def test_a_deadlock_is_resolved_by_running_the_victim_again() -> None:
    """Two rows of one table in opposite orders, which ORDER cannot forbid. SQLite lets one writer in at a time."""
    one, two = _quota(lock_seq=0), _quota(lock_seq=0)
    meeting = threading.Barrier(2)
    tries: list[str] = []

    def caller(first: ApplicationQuota, second: ApplicationQuota) -> Callable[[], None]:
        waited: list[bool] = []

        def work(held: Locks) -> None:
            tries.append(first.pk)
            row = held.row(ApplicationQuota, first.pk)
            change(row, lock_seq=row.lock_seq + 1)
            if connection.features.has_select_for_update and not waited:
                waited.append(True)
                meeting.wait(timeout=60)
            row = held.row(ApplicationQuota, second.pk)
            change(row, lock_seq=row.lock_seq + 1)

        return lambda: transact(work)

    assert together([caller(one, two), caller(two, one)]) == [None, None]
    assert [ApplicationQuota.objects.get(pk=row.pk).lock_seq for row in (one, two)] == [2, 2]
    assert len(tries) == (3 if connection.features.has_select_for_update else 2)


@pytest.mark.django_db(transaction=True)
def test_rows_that_somebody_holds_can_be_passed_over() -> None:
    """MariaDB. On SQLite nobody holds anything while we are inside."""
    held_row, free = _quota(), _quota()
    inside, over = threading.Event(), threading.Event()

    def hold() -> None:
        def work(held: Locks) -> None:
            held.row(ApplicationQuota, held_row.pk)
            inside.set()
            assert over.wait(timeout=60)

        transact(work)

    def pass_over() -> list[str]:
        assert inside.wait(timeout=60)
        if not connection.features.has_select_for_update:
            over.set()
        try:
            keys = [held_row.pk, free.pk]
            return transact(lambda held: [row.pk for row in held.rows(ApplicationQuota, keys, skip_locked=True)])
        finally:
            over.set()

    _none, found = together([hold, pass_over])
    wanted = [free.pk] if connection.features.has_select_for_update else [held_row.pk, free.pk]
    assert found == wanted


# Trying again


class Trouble:
    """Work that writes a row and then meets an error, as often as told."""

    def __init__(self, error: Exception, times: int) -> None:
        self.error, self.times, self.tries = error, times, 0

    def __call__(self, held: Locks) -> str:
        self.tries += 1
        insert(nonsense(Namespace, name=f"try-{self.tries}"))
        if self.tries <= self.times:
            raise self.error
        return "done"


def _names() -> list[str]:
    return list(Namespace.objects.values_list("name", flat=True))


@pytest.mark.rule("G8")
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("code", sorted(locks.RETRYABLE))
def test_contention_is_tried_again_and_leaves_nothing_of_the_first_try(code: int) -> None:
    work = Trouble(OperationalError(code, "contention"), times=2)
    assert transact(work) == "done"
    assert work.tries == 3
    assert _names() == ["try-3"]


@pytest.mark.django_db(transaction=True)
def test_after_the_last_try_the_answer_is_busy_and_nothing_was_written() -> None:
    work = Trouble(OperationalError("database is locked"), times=99)
    with pytest.raises(Busy):
        transact(work)
    assert work.tries == locks.TRIES
    assert _names() == []


@pytest.mark.django_db
@pytest.mark.parametrize(
    "error",
    [
        OperationalError(1054, "unknown column"),
        IntegrityError(1062, "Duplicate entry for key 'name'"),
        ValueError("no"),
    ],
)
def test_every_other_error_is_raised_at_once_and_nothing_was_written(error: Exception) -> None:
    work = Trouble(error, times=99)
    with pytest.raises(type(error)):
        transact(work)
    assert work.tries == 1
    assert _names() == []


@pytest.mark.rule("G4")
@pytest.mark.django_db(transaction=True)
def test_before_each_try_it_is_asked_whether_the_work_is_done() -> None:
    """A connection that is lost at COMMIT leaves open whether the receipt was written: the next try looks."""
    work = Trouble(OperationalError(2013, "lost connection"), times=99)
    answers = iter([None, None, "found"])
    assert transact(work, before=lambda: next(answers)) == "found"
    assert work.tries == 2


@pytest.mark.django_db
def test_a_preview_ends_with_its_answer_and_without_its_writes() -> None:
    def work(held: Locks) -> str:
        insert(nonsense(Namespace))
        raise Rollback("seen")

    assert transact(work) == "seen"
    assert _names() == []


@pytest.mark.django_db
def test_it_never_runs_inside_of_another_transaction() -> None:
    """A retry there would repeat half of what the outer one did."""
    with transaction.atomic(), pytest.raises(RuntimeError, match="durable"):
        transact(lambda held: None)


@pytest.mark.django_db
def test_two_callers_with_one_new_key_or_one_new_name_try_again_and_others_do_not() -> None:
    operation, definition, namespace = nonsense(ManagementOperation), nonsense(WorkflowDefinition), nonsense(Namespace)
    insert(operation, definition, namespace)
    twins: dict[models.Model, bool] = {
        nonsense(ManagementOperation, namespace_id=operation.namespace_id, operation_key=operation.operation_key): True,
        # SQLite's publishers exclude each other before they read, so there are no two of them.
        nonsense(WorkflowDefinition, namespace_id=definition.namespace_id, name=definition.name): connection.vendor
        == "mysql",
        nonsense(Namespace, name=namespace.name): False,
        nonsense(ManagementOperation, id=operation.pk): False,
    }
    for twin, tried_again in twins.items():
        with pytest.raises(IntegrityError) as met, transaction.atomic():
            insert(twin)
        assert locks.is_contention(met.value) == tried_again, met.value


# The snapshot of an explanation


@pytest.mark.django_db(transaction=True)
def test_a_snapshot_is_of_one_moment_and_keeps_no_writer_waiting() -> None:
    quota = _quota(lock_seq=1)
    seen, written = threading.Event(), threading.Event()

    def look() -> list[int]:
        with snapshot():
            first = ApplicationQuota.objects.get(pk=quota.pk).lock_seq
            seen.set()
            assert written.wait(timeout=60)
            return [first, ApplicationQuota.objects.get(pk=quota.pk).lock_seq]

    def write() -> None:
        assert seen.wait(timeout=60)
        transact(lambda held: change(held.row(ApplicationQuota, quota.pk), lock_seq=2))
        written.set()

    assert together([look, write]) == [[1, 1], None]
    assert ApplicationQuota.objects.get(pk=quota.pk).lock_seq == 2


@pytest.mark.django_db(transaction=True)
def test_after_a_snapshot_the_connection_is_as_it_was() -> None:
    quota = _quota(lock_seq=1)
    with snapshot():
        ApplicationQuota.objects.get(pk=quota.pk)
    transact(lambda held: change(held.row(ApplicationQuota, quota.pk), lock_seq=2))
    assert ApplicationQuota.objects.get(pk=quota.pk).lock_seq == 2
    if connection.vendor == "sqlite":
        assert getattr(connection, "transaction_mode") == "IMMEDIATE"  # noqa: B009


@pytest.mark.django_db(transaction=True)
def test_mariadb_refuses_to_write_in_a_snapshot() -> None:
    """SQLite has no such transaction; there, an explanation has nothing that writes."""
    quota = _quota(lock_seq=1)
    if connection.vendor == "mysql":
        with pytest.raises(DatabaseError, match="READ ONLY"), snapshot():
            change(quota, lock_seq=2)
    assert ApplicationQuota.objects.get(pk=quota.pk).lock_seq == 1
