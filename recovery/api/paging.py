"""Keyset pages: the next page starts after the last row of this one, however many rows come in between.

The condition is written in its expanded form (`a <= x AND (a < x OR id < y)`), which both databases answer from an
index; a row constructor is read row by row.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import DateTimeField, Model, Q, QuerySet
from django.utils.translation import gettext as _

from recovery.errors import ValidationFailed

DEFAULT_LIMIT = 50
MAX_LIMIT = 200
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_ID, _NAME, _NUMBER = "[0-9a-f]{32}", "([0-9a-f]{2}){1,512}", "[0-9]{1,16}"


@dataclass(frozen=True)
class Keyset:
    """The order of a list. `by`: a column; ties go by id unless it is unique."""

    by: str = "id"
    is_unique: bool = False
    newest_first: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.by,) if self.is_unique or self.by == "id" else (self.by, "id")

    def page(
        self, parts: Sequence[QuerySet[Any]], cursor: str | None, limit: int, *, rows: QuerySet[Any] | None = None
    ) -> tuple[list[Any], str | None]:
        """The rows after the cursor, and the cursor of the next page or None.

        `parts`: disjoint queries that make up the list together, each read along its own index. `rows`: where the list
        may have millions of rows; then its places are read first, from an index that holds all that is asked for, and
        the page's rows from here. Asked for whole rows, MariaDB takes the equality alone and walks over every row above
        the cursor (20 ms in the middle of 200,000 rows instead of 1).

        Raises ValidationFailed for a cursor that no page of this list has made.
        """
        order = [f"-{column}" if self.newest_first else column for column in self.columns]
        after = Q() if cursor is None else self._after(self._read(cursor, parts[0].model))
        selected = [part.filter(after).order_by(*order)[: limit + 1] for part in parts]
        if rows is not None:
            selected = [part.only(*self.columns) for part in selected]
        found = [row for part in selected for row in part]
        if len(parts) > 1:
            found.sort(key=self._place, reverse=self.newest_first)
        page = found[:limit]
        next_cursor = self._write(page[-1]) if len(found) > limit else None
        if rows is not None:
            whole = rows.in_bulk([place.pk for place in page])
            page = [whole[place.pk] for place in page]
        return page, next_cursor

    def _place(self, row: Any) -> tuple[Any, ...]:
        return tuple(getattr(row, column) for column in self.columns)

    def _after(self, place: Sequence[Any]) -> Q:
        beyond = "lt" if self.newest_first else "gt"
        if len(place) == 1:
            return Q(**{f"{self.by}__{beyond}": place[0]})
        first, second = place
        return Q(**{f"{self.by}__{beyond}e": first}) & (
            Q(**{f"{self.by}__{beyond}": first}) | Q(**{f"id__{beyond}": second})
        )

    @property
    def cursor_pattern(self) -> str:
        """What every cursor of the list looks like; whatever looks like it is a place in the list."""
        return {"id": _ID, "name": _NAME}.get(self.by, _NUMBER if self.is_unique else f"{_NUMBER}-{_ID}")

    def _write(self, row: Any) -> str:
        return "-".join(_written(column, value) for column, value in zip(self.columns, self._place(row), strict=True))

    def _read(self, cursor: str, model: type[Model]) -> list[Any]:
        if not re.fullmatch(self.cursor_pattern, cursor, re.ASCII):
            sentence = _("No page of this list has made this cursor. Start at its first page.")
            raise ValidationFailed(sentence, fields={"cursor": [sentence]})
        return [_value(model, column, part) for column, part in zip(self.columns, cursor.split("-"), strict=True)]


def _written(column: str, value: Any) -> str:
    if isinstance(value, datetime):
        return str((value - _EPOCH) // _MICROSECOND)
    return value.encode().hex() if column == "name" else str(value)


def _value(model: type[Model], column: str, text: str) -> Any:
    if column == "name":
        return bytes.fromhex(text).decode("utf-8", "replace")
    if column == "id":
        return text
    field = model._meta.get_field(column)
    return _EPOCH + int(text) * _MICROSECOND if isinstance(field, DateTimeField) else int(text)
