"""Counts that stop: "1000+" tells a person as much as the number, and costs the same however many rows there are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.core.exceptions import EmptyResultSet
from django.db import connection
from django.db.models import QuerySet, Value

CAP = 1000


def capped(queries: Mapping[str, QuerySet[Any]]) -> dict[str, int]:
    """The number of rows of each query, CAP + 1 standing for any larger one, in one statement."""
    parts: list[str] = []
    params: list[Any] = []
    for name, rows in queries.items():
        try:
            sql, given = rows.order_by().values(one=Value(1))[: CAP + 1].query.sql_with_params()
        except EmptyResultSet:  # no row can fit: a reader of no namespace
            continue
        parts.append(f"SELECT %s AS name, COUNT(*) AS counted FROM ({sql}) AS part{len(parts)}")  # noqa: S608
        params += [name, *given]
    counted = dict.fromkeys(queries, 0)
    if parts:
        with connection.cursor() as cursor:
            cursor.execute(" UNION ALL ".join(parts), params)
            counted |= {str(name): int(count) for name, count in cursor.fetchall()}
    return counted


def shown(count: int) -> str:
    """A capped count as it is shown; "" for none."""
    return f"{CAP}+" if count > CAP else str(count or "")
