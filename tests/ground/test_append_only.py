"""Audits and receipts can be added and read; the database itself refuses anything else (G10)."""

from typing import Any

import pytest
from django.db import DatabaseError, connection, models, transaction

from recovery.models import (
    AccessLog,
    EvidenceBundle,
    EvidenceItem,
    EvidenceWithdrawal,
    ExecutionAudit,
    OperationReceipt,
    WorkflowAudit,
)
from recovery.writes import change, insert
from tests.support.rows import nonsense

GUARDED = [
    *(WorkflowAudit, ExecutionAudit, OperationReceipt, AccessLog),
    *(EvidenceBundle, EvidenceItem, EvidenceWithdrawal),
]

pytestmark = [pytest.mark.rule("G10"), pytest.mark.django_db, pytest.mark.parametrize("model", GUARDED)]


@pytest.fixture(name="row")
def _row(db: None, model: type[models.Model]) -> models.Model:
    row = nonsense(model)
    insert(row)
    return row


def _refused(statement: str, *values: Any) -> None:
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement, values)


def _stored(row: models.Model) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT * FROM {row._meta.db_table}")
        return list(cursor.fetchall())


def test_no_column_can_be_updated(model: type[models.Model], row: models.Model) -> None:
    before, other = _stored(row), nonsense(model)
    for field in model._meta.local_fields:
        column = connection.ops.quote_name(str(field.column))
        _refused(f"UPDATE {model._meta.db_table} SET {column} = {column}")
        with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
            model._base_manager.filter(pk=row.pk).update(**{field.name: getattr(other, field.attname)})
    assert _stored(row) == before


def test_no_row_can_be_deleted(model: type[models.Model], row: models.Model) -> None:
    before = _stored(row)
    _refused(f"DELETE FROM {model._meta.db_table} WHERE id = %s", row.pk)
    _refused(f"DELETE FROM {model._meta.db_table}")
    assert _stored(row) == before


def test_the_ways_of_the_orm_are_refused_alike(model: type[models.Model], row: models.Model) -> None:
    before = _stored(row)
    ways = [
        lambda: change(row, created_at=None),
        lambda: model._base_manager.update(created_at=None),
        lambda: model._base_manager.filter(pk=row.pk).delete(),
        lambda: row.delete(),
        lambda: row.save(),
        lambda: model._base_manager.bulk_create(
            [row], update_conflicts=True, update_fields=["created_at"], **_conflicting()
        ),
    ]
    for way in ways:
        with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
            way()
    assert _stored(row) == before


def _conflicting() -> dict[str, Any]:
    """SQLite wants to know on which key; MariaDB must not be told."""
    return {"unique_fields": ["id"]} if connection.features.supports_update_conflicts_with_target else {}


def test_a_second_row_can_be_added(model: type[models.Model], row: models.Model) -> None:
    insert(nonsense(model))
    assert model._base_manager.count() == 2


def test_a_row_that_replaces_another_is_refused_too(row: models.Model, model: type[models.Model]) -> None:
    """REPLACE removes the row that stands in its way; on SQLite that passes triggers unless they are recursive."""
    table = connection.ops.quote_name(model._meta.db_table)
    with pytest.raises(DatabaseError), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"REPLACE INTO {table} SELECT * FROM {table}")
    assert model._default_manager.count() == 1
