"""The only way rows of the 35 entities are written: legal moves are checked, and every change can be watched.

A preview runs the very transaction of the commit, watches it and rolls it back; so what it shows is what would happen.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from django.db import models


class IllegalMove(RuntimeError):
    """A status change that the state table does not list. A fault of the program, never of the caller."""


class LostRow(RuntimeError):
    """A row that was loaded under its lock was not there to be changed."""


@dataclass
class Changes:
    """What a transaction wrote. `created`: rows as inserted; `changed`: (row, field, before, after)."""

    created: list[models.Model] = field(default_factory=list)
    changed: list[tuple[models.Model, str, Any, Any]] = field(default_factory=list)


_watched: ContextVar[Changes | None] = ContextVar("watched", default=None)


@contextmanager
def watch() -> Iterator[Changes]:
    """Collects every write inside the block."""
    changes = Changes()
    token = _watched.set(changes)
    try:
        yield changes
    finally:
        _watched.reset(token)


def insert(*rows: models.Model) -> None:
    """Inserts rows, one statement for each run of rows of the same model, in the given order."""
    for _model, run in groupby(rows, key=type):
        batch = list(run)
        type(batch[0])._default_manager.bulk_create(batch)
        if (changes := _watched.get()) is not None:
            changes.created += batch


def change(row: models.Model, **fields: Any) -> None:
    """Writes the fields to one row that the caller holds under a lock, and to the loaded object.

    Raises IllegalMove for a status change that is not listed, LostRow when the row is gone.
    """
    _note(row, fields)
    if type(row)._default_manager.filter(pk=row.pk).update(**fields) != 1:
        raise LostRow(f"{type(row).__name__} {row.pk}")
    for name, value in fields.items():
        setattr(row, name, value)


def change_all(rows: list[Any], **fields: Any) -> None:
    """Writes the same fields to many locked rows of one model, by ascending primary key, in one statement."""
    if not rows:
        return
    for row in rows:
        _note(row, fields)
    keys = sorted(row.pk for row in rows)
    if type(rows[0])._default_manager.filter(pk__in=keys).update(**fields) != len(keys):
        raise LostRow(f"{type(rows[0]).__name__} {keys}")
    for row in rows:
        for name, value in fields.items():
            setattr(row, name, value)


def change_where(rows: models.QuerySet[Any], *, from_: Iterable[str], status: str, **fields: Any) -> int:
    """Moves those rows of a query that are in one of the statuses `from_`, and writes the fields; answers how many.

    One statement, and a read before it only when somebody watches. For rows that the instance lock guards: nobody else
    may change them now. Raises IllegalMove for a move that is not listed, whether or not there is a row to make it.
    """
    begun = sorted(from_)
    for before in begun:
        _check_move(rows.model, "status", before, status, "change_where")
    rows = rows.filter(status__in=begun)
    if _watched.get() is not None:
        for row in list(rows):
            _note(row, {"status": status, **fields})
    return rows.update(status=status, **fields)


def _check_move(model: type[models.Model], name: str, before: Any, after: Any, where: str) -> None:
    states = getattr(model._meta.get_field(name), "choices_enum", None)
    if states is not None and not states.is_legal(before, after):
        raise IllegalMove(f"{model.__name__}.{name}: {before} -> {after} ({where})")


def _note(row: models.Model, fields: dict[str, Any]) -> None:
    for name, after in fields.items():
        before = getattr(row, name)
        if before is not None:
            _check_move(type(row), name, before, after, row.pk)
        changes = _watched.get()
        if changes is not None and before != after:
            changes.changed.append((row, name, before, after))
