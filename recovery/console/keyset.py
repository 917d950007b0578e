"""Pages of the console's lists by key: the next one starts after the last row of this one.

The condition is written in its expanded form (`a <= x AND (a < x OR id < y)`), which both databases answer from an
index. A cursor is the place itself, readable in the URL.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Q, QuerySet
from django.utils.translation import gettext as _

from recovery.console.presenters.queue import moment, stamp
from recovery.errors import ValidationFailed


@dataclass(frozen=True)
class Keyset:
    """The order of a list: by a text, a number or a time. Ties go by id, unless the column is unique."""

    by: str = "id"
    is_unique: bool = False
    newest_first: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.by,) if self.is_unique or self.by == "id" else (self.by, "id")

    def page(
        self, parts: Sequence[QuerySet[Any]], after: str, limit: int, *, rows: QuerySet[Any] | None = None
    ) -> tuple[list[Any], str | None]:
        """The rows after a cursor ("" for the first ones), and the cursor of the next page or None.

        `parts`: disjoint queries, each along its own index. `rows`: where the list is long; then its places are read
        from an index that holds all that is asked for, and the page's rows from here.

        Raises ValidationFailed for a text that no page has made.
        """
        order = [f"-{column}" if self.newest_first else column for column in self.columns]
        beyond = self._beyond(after) if after else Q()
        selected = [part.filter(beyond).order_by(*order)[: limit + 1] for part in parts]
        if rows is not None:
            selected = [part.only(*self.columns) for part in selected]
        found = [row for part in selected for row in part]
        if len(parts) > 1:
            found.sort(key=self._place, reverse=self.newest_first)
        page = found[:limit]
        following = self.cursor(page[-1]) if len(found) > limit else None
        if rows is not None:
            whole = rows.in_bulk([place.pk for place in page])
            page = [whole[place.pk] for place in page]
        return page, following

    def cursor(self, row: Any) -> str:
        """That of the page which begins after this row."""
        first = getattr(row, self.by)
        text = stamp(first) if isinstance(first, datetime) else str(first)
        return text if len(self.columns) == 1 else f"{row.pk}-{text}"

    def _place(self, row: Any) -> tuple[Any, ...]:
        return tuple(getattr(row, column) for column in self.columns)

    def _beyond(self, after: str) -> Q:
        sign = "lt" if self.newest_first else "gt"
        key, dash, text = ("", "-", after) if len(self.columns) == 1 else after.partition("-")
        value = self._value(text)
        if not dash or value is None:
            raise ValidationFailed(_("This page of the list does not exist. Start at its first page."))
        if len(self.columns) == 1:
            return Q(**{f"{self.by}__{sign}": value})
        return Q(**{f"{self.by}__{sign}e": value}) & (Q(**{f"{self.by}__{sign}": value}) | Q(**{f"id__{sign}": key}))

    def _value(self, text: str) -> Any:
        if self.by in ("id", "name"):
            return text if "\0" not in text and len(text) <= 191 else None
        if self.by.endswith("_at"):
            return moment(text)
        return int(text) if text.isascii() and text.isdecimal() and len(text) <= 18 else None
