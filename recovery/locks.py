"""The lock order, and the one transaction runner.

Every transaction that locks goes through `transact` and asks its `Locks` for rows. A lock out of order raises, so a
wrong order is found by the first test that runs it, not by a deadlock in production. The order is G7 with the worker
paths' own orders (docs/recovery.md) as sub-sequences of it.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from django.db import DatabaseError, connection, models, transaction
from django.utils.translation import gettext_lazy as _

from recovery.errors import Busy
from recovery.models import (
    AccessLedger,
    ApplicationQuota,
    ExecutionPermit,
    InboxEvent,
    InstanceGate,
    ManagementOperation,
    PollBudget,
    PollRound,
    PollState,
    QueueQuota,
    ResultStream,
    Signal,
    StepActivation,
    StepCheckpoint,
    StepClock,
    Task,
    TaskAttempt,
    WaitState,
    WorkflowDefinition,
    WorkflowInstance,
    WorkflowStep,
)

T = TypeVar("T")
M = TypeVar("M", bound=models.Model)

ORDER: tuple[type[models.Model], ...] = (
    AccessLedger,
    ApplicationQuota,
    ManagementOperation,
    WorkflowDefinition,
    QueueQuota,
    WorkflowInstance,
    InstanceGate,
    WorkflowStep,
    StepActivation,
    Task,
    TaskAttempt,
    ExecutionPermit,
    PollState,
    PollRound,
    PollBudget,
    WaitState,
    Signal,
    InboxEvent,
    StepClock,
    StepCheckpoint,
    ResultStream,
)
"""First to last. The result stream is the last lock of any transaction: nothing is locked after it."""

_RANK = {model: rank for rank, model in enumerate(ORDER)}

TRIES = 6
"""How often a transaction is tried before BUSY is answered."""

RETRYABLE = frozenset({1213, 1205, 1020, 1047, 1180, 2002, 2006, 2013})
"""MariaDB: deadlock, lock wait, record changed, node not ready, commit failed, connection refused, gone, lost."""

DUPLICATES = (
    # Two callers with one new operation key: the second one then finds the receipt. MariaDB names the constraint,
    # SQLite the columns.
    "managementoperation_key",
    "recovery_managementoperation.operation_key",
    # Two publishers of one new name: the second one then finds the row. SQLite's readers already exclude each other.
    "workflowdefinition_namespace_name",
)
"""Unique keys that two callers may run into, where trying again finds what the first one wrote."""


class LockOrderViolation(RuntimeError):
    """A row was asked for after a row that comes later in ORDER. A fault of the program."""


class Locks:
    """Hands out locked rows in ORDER, within one transaction."""

    def __init__(self) -> None:
        self._rank = -1

    def enter(self, model: type[models.Model]) -> None:
        """Notes that rows of `model` are locked or claimed now. Raises LockOrderViolation when it is too late."""
        if not connection.in_atomic_block:
            # select_for_update outside of a transaction passes silently on SQLite.
            raise LockOrderViolation(f"{model.__name__} was locked outside of a transaction")
        rank = _RANK[model]
        if rank < self._rank:
            raise LockOrderViolation(f"{model.__name__} was locked after {ORDER[self._rank].__name__}")
        self._rank = rank

    def rows(self, model: type[M], keys: Iterable[str], *, skip_locked: bool = False) -> list[M]:
        """Locks rows by ascending primary key in one statement; rows that do not exist are left out."""
        self.enter(model)
        wanted = sorted(set(keys))
        if not wanted:
            return []
        found = model._default_manager.select_for_update(skip_locked=skip_locked).filter(pk__in=wanted)
        return list(found.order_by("pk"))

    def row(self, model: type[M], key: str) -> M:
        """Locks one row. Raises the model's DoesNotExist."""
        self.enter(model)
        return model._default_manager.select_for_update().get(pk=key)


class Rollback(Exception):
    """Ends a transaction on purpose without writing: a preview."""

    def __init__(self, value: Any) -> None:
        self.value = value


def transact(work: Callable[[Locks], T], *, before: Callable[[], T | None] = lambda: None) -> T:
    """Runs `work` in one transaction, at most TRIES times while the database answers with contention.

    Retried only outside of the outermost transaction: a deadlock undoes everything, a lock wait only its statement,
    and half a transaction must not be committed. A connection that is lost at COMMIT leaves the outcome unknown, so
    `before` runs first on every try: it may find that the work is done, and then its answer is the answer.
    Raises Busy when the tries are used up.
    """
    for attempt in range(TRIES):
        if attempt:
            time.sleep(random.uniform(0, 0.02 * 2**attempt))  # noqa: S311 - jitter, not a secret
        try:
            if (done := before()) is not None:
                return done
            with transaction.atomic(durable=True):
                return work(Locks())
        except Rollback as preview:
            return preview.value
        except DatabaseError as error:
            if not is_contention(error):
                raise
            connection.close_if_unusable_or_obsolete()
    raise Busy(_("The database was busy. Nothing was written by this call; repeat it with the same key."))


@contextmanager
def snapshot() -> Iterator[None]:
    """Everything read inside is of one moment; nothing is locked and nothing can be written.

    MariaDB: a read-only REPEATABLE READ transaction, whatever the connection's own level. SQLite: a deferred
    transaction, because an immediate one would wait for every writer.
    """
    if connection.in_atomic_block:  # a caller's transaction already decides what is seen
        yield
    elif connection.vendor == "mysql":
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        with transaction.atomic():
            yield
    else:
        sqlite: Any = connection
        sqlite.ensure_connection()  # a new one would not know its mode yet
        mode, sqlite.transaction_mode = sqlite.transaction_mode, "DEFERRED"
        try:
            with transaction.atomic():
                yield
        finally:
            sqlite.transaction_mode = mode


def is_contention(error: DatabaseError) -> bool:
    """Whether trying again may help: contention, a lost connection, or two callers with one new key or name."""
    code = error.args[0] if error.args else None
    if code in RETRYABLE or "database is locked" in str(error):
        return True
    return any(name in str(error) for name in DUPLICATES)
