"""Who holds what, as the pages draw it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from recovery.access.holders import PERMISSIONS
from recovery.access.overview import Held, Overview, Person, Way
from recovery.permissions import FOREVER, RECOVER, USE_QUEUE, Grant

PAGE = 50
"""People of one page."""

SOON = timedelta(hours=4)
"""A right that ends this soon is drawn amber."""

COLUMNS: tuple[str, ...] = (RECOVER, USE_QUEUE, *(name for name in PERMISSIONS if name != RECOVER))
"""What recovering takes comes first."""


@dataclass(frozen=True)
class Cell:
    """The grant that carries a right furthest. `more`: how many others reach the same person."""

    icon: str
    word: str
    grant: Grant
    through: str
    counts: bool
    more: int = 0

    @property
    def css(self) -> str:
        return "st-pending" if not self.counts else "st-review" if self.icon == "soon" else "st-ok"


@dataclass(frozen=True)
class Row:
    """One group or person. `notes`: what else is to be known of them."""

    kind: str
    name: str
    notes: list[str]
    cells: list[tuple[str, Cell | None]]


@dataclass(frozen=True)
class Matrix:
    """One page of the matrix. `recovering`: people who hold workflows:recover now; `ending`: whose ends soon."""

    groups: list[Row]
    people: list[Row]
    following: str
    recovering: int
    ending: int
    columns: list[tuple[str, str]] = field(default_factory=lambda: [_split(name) for name in COLUMNS])


def matrix(overview: Overview, namespace_id: str, queues: Mapping[str, str], now: datetime, after: str) -> Matrix:
    """`queues`: id to name of all of the namespace; `after`: the last person of the page before."""
    groups = [
        Row(
            "group",
            name,
            [_members(overview.members.get(key, ()))],
            _cells(_own(overview, key), namespace_id, queues, now),
        )
        for key, name in overview.groups.items()
    ]
    names = [person for person in overview.people.values() if person.name > after]
    people = [
        Row(
            "user", one.name, _notes(one), _cells(overview.by_person[one.key], namespace_id, queues, now, one.is_active)
        )
        for one in names[:PAGE]
    ]
    ends = [_end(ways) for ways in _recovering(overview, namespace_id, now)]
    following = names[PAGE - 1].name if len(names) > PAGE else ""
    return Matrix(groups, people, following, len(ends), sum(end - now < SOON for end in ends if end != FOREVER))


def lines(held: Held, names: Mapping[str, str], is_active: bool, now: datetime) -> list[tuple[str, str, list[Cell]]]:
    """(permission, queue, every way) of one person; `names`: of the queues by id."""
    order = {name: position for position, name in enumerate(COLUMNS)}
    found = [
        (
            permission,
            names.get(target_id, "") if permission == USE_QUEUE else "",
            [cell([way], now, is_active) for way in ways],
        )
        for (permission, target_id), ways in held.items()
    ]
    return sorted(found, key=lambda line: (order.get(line[0], len(order)), line[1]))


def cell(ways: Sequence[Way], now: datetime, is_active: bool = True, word: str = "") -> Cell:
    """Draws the way that lasts longest."""
    best = max(ways, key=lambda way: (way.grant.counts(now), way.grant.expires_at or FOREVER, not way.through))
    counts = is_active and best.grant.counts(now)
    is_soon = counts and best.grant.expires_at is not None and best.grant.expires_at - now < SOON
    icon = "cancelled" if not counts else "soon" if is_soon else "group" if best.through else "direct"
    return Cell(icon, word or best.through or _("direct"), best.grant, best.through, counts, len(ways) - 1)


def _cells(
    held: Held, namespace_id: str, queues: Mapping[str, str], now: datetime, is_active: bool = True
) -> list[tuple[str, Cell | None]]:
    drawn: list[tuple[str, Cell | None]] = []
    for permission in COLUMNS:
        if permission == USE_QUEUE:
            drawn.append((permission, _queues(held, queues, now, is_active)))
        else:
            ways = held.get((permission, namespace_id))
            drawn.append((permission, cell(ways, now, is_active) if ways else None))
    return drawn


def _queues(held: Held, queues: Mapping[str, str], now: datetime, is_active: bool) -> Cell | None:
    """All queues in one cell; it shows the end that comes first."""
    usable = [ways for key in queues if (ways := held.get((USE_QUEUE, key)))]
    drawn = [cell(ways, now, is_active) for ways in usable]
    counting = [one for one in drawn if one.counts]
    if not drawn:
        return None
    words = {"count": len(counting), "total": len(queues)}
    first = min(counting or drawn, key=lambda one: one.grant.expires_at or FOREVER)
    word = ngettext("%(count)d of %(total)d queue", "%(count)d of %(total)d queues", len(queues)) % words
    return Cell(first.icon, word, first.grant, first.through, first.counts)


def _own(overview: Overview, group_id: int) -> Held:
    """What a group itself was granted."""
    held: Held = {}
    for grant in overview.of_group(group_id):
        held.setdefault((grant.permission, grant.target_id), []).append(Way(grant, ""))
    return held


def _recovering(overview: Overview, namespace_id: str, now: datetime) -> Iterable[list[Way]]:
    for person in overview.people.values():
        ways = overview.by_person[person.key].get((RECOVER, namespace_id), [])
        if person.is_active and (counting := [way for way in ways if way.grant.counts(now)]):
            yield counting


def _end(ways: list[Way]) -> datetime:
    return max(way.grant.expires_at or FOREVER for way in ways)


def _members(members: Sequence[Person]) -> str:
    return ngettext("%(count)d person", "%(count)d people", len(members)) % {"count": len(members)}


def _notes(person: Person) -> list[str]:
    notes = [] if person.is_active else [_("account is not active")]
    return [*notes, _("superuser, holds nothing by that")] if person.is_superuser else notes


def _split(permission: str) -> tuple[str, str]:
    """`workflows:recover` as its two parts."""
    first, _colon, second = permission.partition(":")
    return f"{first}:", second
