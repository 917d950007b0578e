"""S15: a database from before the poll recovery is brought up to date without a change, and back while nothing is lost.

The real `manage.py migrate`, in processes of its own, on a database of its own.
"""

import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connections
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.state import StateApps

from tests.support.rows import nonsense
from tests.support.stack import ROOT, environment
from weave_admin.databases import database

BEFORE = "0002_append_only"
"""The last migration of the releases that knew no poll recovery."""

Table = tuple[list[str], list[tuple[Any, ...]]]


class Old:
    """A database of such a release. Its models are those of that time."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url, self.folder = url, folder
        self.apps: StateApps = MigrationLoader(None).project_state(("recovery", BEFORE)).apps
        assert self.migrate(BEFORE).returncode == 0

    def migrate(self, *target: str) -> subprocess.CompletedProcess[str]:
        """`manage.py migrate` to a migration of ours, or to the newest of all."""
        return self.manage("migrate", "--verbosity=0", *(["recovery", *target] if target else []))

    def manage(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "manage.py", *words],
            cwd=ROOT,
            env=environment(self.folder, DATABASE_URL=self.url),
            capture_output=True,
            text=True,
            timeout=300,
        )

    def insert(self, name: str, **fields: Any) -> Any:
        model: Any = self.apps.get_model("recovery", name)
        row = nonsense(model, **fields)
        model.objects.using("old").bulk_create([row])
        return row

    def tables(self) -> dict[str, Table]:
        """Every table of ours, with its columns and its rows, as the driver gives them."""
        with connections["old"].cursor() as cursor:
            names = [
                name for name in connections["old"].introspection.table_names(cursor) if name.startswith("recovery_")
            ]
            return {name: self._table(cursor, name) for name in names}

    @staticmethod
    def _table(cursor: Any, name: str) -> Table:
        columns = [row.name for row in connections["old"].introspection.get_table_description(cursor, name)]
        quoted = ", ".join(connections["old"].ops.quote_name(column) for column in columns)
        cursor.execute(f"SELECT {quoted} FROM {name} ORDER BY 1")
        return columns, list(cursor.fetchall())

    def rows(self, name: str, columns: list[str]) -> list[tuple[Any, ...]]:
        """As the driver gives them."""
        with connections["old"].cursor() as cursor:
            quoted = ", ".join(connections["old"].ops.quote_name(column) for column in columns)
            cursor.execute(f"SELECT {quoted} FROM {name} ORDER BY 1")
            return list(cursor.fetchall())


@pytest.fixture(name="old")
def _old(stack_database: str, tmp_path: Path) -> Iterator[Old]:
    settings = connections["default"].settings_dict | database(stack_database)
    connections["old"] = connections["default"].copy(alias="old")
    connections["old"].settings_dict = settings
    try:
        yield Old(stack_database, tmp_path)
    finally:
        connections["old"].close()
        del connections["old"]


def _fill(old: Old) -> None:
    """Two rows in each table, and query states of every kind: waiting, overdue, settled, in a later round."""
    for model in old.apps.get_app_config("recovery").get_models():
        if not model.__name__.endswith("Grant"):  # their keys of guardian's own are real ones
            for _number in range(2):
                old.insert(model.__name__)
    last_microsecond = datetime(2025, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
    for status in ("POLLING", "WAITING", "SETTLED"):
        for used_rounds in (1, 2, 2_147_483_647):
            for moment in (None, last_microsecond):
                old.insert(
                    "PollState",
                    status=status,
                    used_rounds=used_rounds,
                    deadline_at=last_microsecond,
                    next_poll_at=moment,
                    settled_at=moment,
                )


@pytest.mark.rule("M1")
def test_old_rows_get_their_first_round_and_keep_every_other_column(old: Old) -> None:
    _fill(old)
    before = old.tables()
    assert "first_round" not in before["recovery_pollstate"][0]
    assert old.migrate().returncode == 0
    assert len(before["recovery_pollstate"][1]) == 20
    for name, (columns, rows) in before.items():
        assert old.rows(name, columns) == rows, name
    added = old.rows("recovery_pollstate", ["first_round", "first_round_attempts_used"])
    assert set(added) == {(1, 0)}
    assert old.manage("entities", "--check").returncode == 0


@pytest.mark.rule("M1")
def test_going_back_is_allowed_while_no_query_was_retried(old: Old) -> None:
    step = old.insert("WorkflowStep", kind="TASK")
    old.insert("StepActivation", step=step, cause="RETRY")
    query = old.insert("WorkflowStep", kind="POLL")
    old.insert("StepActivation", step=query, cause="INITIAL")
    _fill(old)
    before = old.tables()
    assert old.migrate().returncode == 0
    assert old.migrate(BEFORE).returncode == 0
    assert old.tables() == before


@pytest.mark.rule("M1")
def test_going_back_is_refused_once_a_query_was_retried_and_nothing_is_lost(old: Old) -> None:
    _fill(old)
    query = old.insert("WorkflowStep", kind="POLL")
    old.insert("StepActivation", step=query, cause="RETRY", sequence=2)
    assert old.migrate().returncode == 0
    before = old.tables()
    refused = old.migrate(BEFORE)
    assert refused.returncode != 0
    assert "A POLL step has an activation of cause RETRY" in refused.stderr
    assert "Restore a backup" in refused.stderr
    assert old.tables() == before
    assert old.manage("verify").returncode != 3  # the schema still matches the code


@pytest.mark.django_db
def test_the_models_need_no_migration_that_is_missing() -> None:
    call_command("makemigrations", check=True, dry_run=True, verbosity=0)
