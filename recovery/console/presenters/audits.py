"""Finding audit entries, newest first: what the handled view, the audit explorer and its export have in common.

The entries know their instance, not its namespace. So a page reads a fixed number of places along the index of the
narrowest filter and keeps those that fit the others and may be seen. A page may thus be short and still have a next
one; what it costs never depends on how many entries there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Q, QuerySet

from recovery.console.keyset import Keyset
from recovery.models import WorkflowAudit, WorkflowInstance

PAGE = 50
"""Entries of one page."""

SCAN = 400
"""Places that a page reads at most along each index."""

_BY_TIME = Keyset("created_at", newest_first=True)
_IN_CHAIN = Keyset("sequence", is_unique=True, newest_first=True)


@dataclass(frozen=True)
class Search:
    """What is looked for. Empty filters are left out; `actions`: one of these; `since` is included, `until` is not."""

    namespace_ids: tuple[str, ...]
    actions: tuple[str, ...] = ()
    actor: str = ""
    instance_id: str = ""
    since: datetime | None = None
    until: datetime | None = None

    def parts(self) -> list[QuerySet[WorkflowAudit]]:
        """Disjoint queries, each along one index: an instance's entries, an actor's, an action's, or all."""
        rows = WorkflowAudit.objects.filter(self._within)
        if self.instance_id:
            return [rows.filter(instance_id=self.instance_id)]
        if self.actor:
            return [rows.filter(actor=self.actor)]
        return [rows.filter(action=action) for action in self.actions] or [rows]

    @property
    def keyset(self) -> Keyset:
        """One instance's entries come in the order of their chain."""
        return _IN_CHAIN if self.instance_id else _BY_TIME

    @property
    def _within(self) -> Q:
        """The span, along whichever index is read."""
        span = Q()
        if self.since:
            span &= Q(created_at__gte=self.since)
        if self.until:
            span &= Q(created_at__lt=self.until)
        return span

    def fits(self, entry: WorkflowAudit) -> bool:
        """What the index that was read has not asked for."""
        return (not self.actions or entry.action in self.actions) and self.actor in ("", entry.actor)


@dataclass(frozen=True)
class Found:
    """A page of entries with instance, namespace and operation. `is_cut`: it is short only because the reading ended.

    `following`: the cursor of the next page, None on the last one; `read_to`: the time of the oldest place read.
    """

    entries: list[WorkflowAudit]
    following: str | None = None
    is_cut: bool = False
    read_to: datetime | None = None


def find(search: Search, after: str = "", *, most: int = PAGE, scan: int = SCAN) -> Found:
    """The page after a cursor, in two statements besides one for each part. Raises ValidationFailed for no cursor."""
    columns = ("created_at", "instance_id", "sequence", "actor", "action")
    parts = [part.only(*columns) for part in search.parts()]
    places, further = search.keyset.page(parts, after, scan)
    visible = _visible(places, search.namespace_ids)
    kept = [place for place in places if place.instance_id in visible and search.fits(place)]
    shown = kept[:most]
    if len(kept) > most:
        following: str | None = search.keyset.cursor(shown[-1])
    else:
        following = further
    is_cut = following is not None and len(shown) < most
    return Found(_whole(shown), following, is_cut, places[-1].created_at if is_cut else None)


def every(search: Search, most: int) -> Iterator[WorkflowAudit]:
    """All that fit, up to `most`, a page at a time."""
    left, after = most, ""
    while left > 0:
        page = find(search, after, most=min(left, SCAN), scan=SCAN)
        yield from page.entries
        left -= len(page.entries)
        if page.following is None:
            return
        after = page.following


def _visible(places: Iterable[WorkflowAudit], namespace_ids: Iterable[str]) -> set[str]:
    wanted = {place.instance_id for place in places}
    rows = WorkflowInstance.objects.filter(pk__in=wanted, namespace_id__in=list(namespace_ids))
    return set(rows.values_list("pk", flat=True))


def _whole(places: Iterable[WorkflowAudit]) -> list[WorkflowAudit]:
    keys = [place.pk for place in places]
    rows: dict[Any, WorkflowAudit] = WorkflowAudit.objects.select_related(
        "instance__namespace", "instance__definition", "operation"
    ).in_bulk(keys)
    return [rows[key] for key in keys]
