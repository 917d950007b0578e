"""Contention and lost answers, as a caller over HTTP meets them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import time_machine
from django.db import OperationalError, connection

from recovery.models import WorkflowAudit
from tests.api.desk import Run, desk_of
from tests.support.faults import answers_lost, facts
from tests.support.trees import sequence, task
from tests.support.world import MORNING, make_world


@contextmanager
def contended(table: str, verb: str) -> Iterator[None]:
    """Every such statement on the table ends in a lock wait."""

    def wrapper(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if sql.startswith(verb) and table in sql:
            raise OperationalError(1205, "Lock wait timeout exceeded; try restarting transaction")
        return execute(sql, params, many, context)

    with connection.execute_wrapper(wrapper):
        yield


@pytest.fixture(name="run")
def _run(transactional_db: None) -> Iterator[Run]:
    """A failed step; what is written is committed, and what fails is really rolled back."""
    with time_machine.travel(MORNING, tick=False) as traveller:
        desk = desk_of(make_world(traveller))
        run = desk.start(sequence(task("pay")))
        desk.fail(desk.claim())
        yield run


@pytest.mark.rule("G8")
def test_contention_that_persists_is_busy_and_the_same_key_then_acts(run: Run, caplog: Any) -> None:
    path, command, before = f"{run.path}/recovery/retry-step", run.command("retry-step", "pay"), facts()
    by = run.desk.operator
    with contended("recovery_operationreceipt", "INSERT"):
        refused = by.post(path, command, key="k"), by.post(path, command, key=None, dry_run="true")
    for busy in refused:
        assert (busy.status, busy.code, busy.headers["Retry-After"]) == (503, "BUSY", "1")
    assert facts() == before
    again = by.post(path, command, key="k")
    assert (again.status, again.is_replay) == (200, False)
    caplog.clear()


def test_a_read_that_meets_contention_is_busy_too(run: Run, caplog: Any) -> None:
    with contended("recovery_workflowstep", "SELECT"):
        answer = run.desk.operator.get(run.path)
    assert (answer.status, answer.code) == (503, "BUSY")
    caplog.clear()


@pytest.mark.rule("G4")
def test_a_commit_whose_answer_was_lost_is_found_by_its_key(run: Run) -> None:
    by, command, acts = run.desk.operator, run.command("retry-step", "pay"), WorkflowAudit.objects.count()
    with answers_lost() as lost:
        answer = by.post(f"{run.path}/recovery/retry-step", command, key="k")
    assert lost
    assert (answer.status, answer.is_replay) == (200, True)
    assert by.get("/operations/k").body == answer.body
    assert WorkflowAudit.objects.count() == acts + 1
