"""Records what is sent to the database."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from django.db import connection


@dataclass(frozen=True, kw_only=True)
class Statement:
    """One statement as the driver got it: its text with placeholders, and its parameters (a list of them for many)."""

    sql: str
    params: Any
    many: bool


@contextmanager
def capture_statements() -> Iterator[list[Statement]]:
    """A list that grows while the block runs, with the statements of this thread's connection in their order.

    SAVEPOINTs are among them, and on SQLite also BEGIN IMMEDIATE; COMMIT and ROLLBACK never are.
    """
    captured: list[Statement] = []

    def record(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        captured.append(Statement(sql=sql, params=params, many=many))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(record):
        yield captured
