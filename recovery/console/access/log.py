"""The log of access, newest first, paged by its sequence."""

from __future__ import annotations

from dataclasses import dataclass

from recovery.console.access import words
from recovery.console.access.words import Delta
from recovery.models import AccessLog

PAGE = 50


@dataclass(frozen=True)
class Line:
    """One entry as it is drawn."""

    entry: AccessLog
    sentence: str
    deltas: list[Delta]


def line(entry: AccessLog) -> Line:
    return Line(entry, words.sentence(entry), words.deltas(entry))


def listed(
    namespace_id: str, *, about: str = "", by: str = "", before: int | None = None, most: int = PAGE
) -> tuple[list[Line], int | None]:
    """The next page, and the sequence that the one after it begins before; None where there is none."""
    rows = AccessLog.objects.filter(namespace_id=namespace_id).select_related("queue")
    if about:
        rows = rows.filter(subject=about)
    if by:
        rows = rows.filter(actor=by)
    if before:
        rows = rows.filter(sequence__lt=before)
    found = list(rows.order_by("-sequence")[: most + 1])
    return [line(entry) for entry in found[:most]], found[most - 1].sequence if len(found) > most else None
