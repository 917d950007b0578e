"""Keyset pages: the next page starts after the last row of this one, however many rows come in between.

The condition is written in its expanded form (`a <= x AND (a < x OR id < y)`), which both databases answer from an
index; a row constructor is read row by row.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import CharField, DateTimeField, Model, Q, QuerySet
from django.utils.translation import gettext as _

from recovery import exact_json
from recovery.errors import ValidationFailed

DEFAULT_LIMIT = 50
MAX_LIMIT = 200
_LONGEST_KEY = 191
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True)
class Keyset:
    """The order of a list. `name`: of the list, in its cursors. `by`: a column; ties go by id unless it is unique."""

    name: str
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

    def _write(self, row: Any) -> str:
        place = [
            (value - _EPOCH) // _MICROSECOND if isinstance(value, datetime) else value for value in self._place(row)
        ]
        return base64.urlsafe_b64encode(exact_json.dumps([self.name, *place]).encode()).decode().rstrip("=")

    def _read(self, cursor: str, model: type[Model]) -> list[Any]:
        try:
            padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
            name, *place = exact_json.parse(base64.b64decode(padded, altchars=b"-_", validate=True))
            if name != self.name or len(place) != len(self.columns):
                raise ValueError(name)
            return [_value(model, column, given) for column, given in zip(self.columns, place, strict=True)]
        except (ValueError, TypeError, OverflowError, binascii.Error):
            sentence = _("No page of this list has made this cursor. Start at its first page.")
            raise ValidationFailed(sentence, fields={"cursor": [sentence]}) from None


def _value(model: type[Model], column: str, given: Any) -> Any:
    field = model._meta.get_field(column)
    if isinstance(field, CharField):
        if not isinstance(given, str) or len(given) > _LONGEST_KEY:
            raise ValueError(column)
        return given
    if not isinstance(given, int) or isinstance(given, bool) or not 0 <= given < 2**63:
        raise ValueError(column)
    return _EPOCH + given * _MICROSECOND if isinstance(field, DateTimeField) else given
