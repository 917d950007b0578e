"""Lets the flush after a transactional test empty tables whose triggers refuse DELETE.

The refusal is the product's (audits and receipts are append-only) and stays on while a test runs.
"""

from typing import Any

import pytest
from django.db import connection
from django.db.backends.base.operations import BaseDatabaseOperations

REFERENCE_TABLES = frozenset({"django_content_type", "auth_permission"})
"""Made by the migrations and never changed by a test: emptying them would mean filling them again after each test."""


def _sqlite(operations: Any, statements: list[str]) -> list[str]:
    """Without the triggers, then with them again. SQLite rolls DDL back, so no failure leaves them dropped."""
    with operations.connection.cursor() as cursor:
        cursor.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
        triggers = cursor.fetchall()
    drops = [f"DROP TRIGGER {operations.quote_name(name)}" for name, _ in triggers]
    return [*drops, *statements, *(sql for _, sql in triggers)]


def _mysql(operations: Any, statements: list[str]) -> list[str]:
    """TRUNCATE fires no trigger. It is slow, so only the guarded tables that hold something get it."""
    with operations.connection.cursor() as cursor:
        cursor.execute(
            "SELECT DISTINCT event_object_table FROM information_schema.triggers"
            " WHERE trigger_schema = DATABASE() AND event_manipulation = 'DELETE'"
        )
        guarded = [operations.quote_name(table) for (table,) in cursor.fetchall()]
        filled = []
        for table in guarded:
            cursor.execute(f"SELECT EXISTS (SELECT 1 FROM {table})")
            if cursor.fetchone()[0]:
                filled.append(table)
    free = [sql for sql in statements if not any(sql.endswith(f" {table};") for table in guarded)]
    return [f"TRUNCATE TABLE {table}" for table in filled] + free


@pytest.fixture(scope="session", autouse=True)
def _flush_past_the_guards() -> Any:
    operations = type(connection.ops)
    prepare = {"sqlite": _sqlite, "mysql": _mysql}[connection.vendor]
    sql_flush = operations.sql_flush

    def sql_flush_but_reference_tables(self: Any, style: Any, tables: list[str], **options: Any) -> list[str]:
        return sql_flush(self, style, [table for table in tables if table not in REFERENCE_TABLES], **options)

    def execute_sql_flush(self: Any, statements: list[str]) -> None:
        BaseDatabaseOperations.execute_sql_flush(self, prepare(self, statements))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(operations, "sql_flush", sql_flush_but_reference_tables)
        patch.setattr(operations, "execute_sql_flush", execute_sql_flush)
        yield
