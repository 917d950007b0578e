"""The review queue: every instance that waits for a person, the nearest running deadline first, passed ones last.

Order and paging are the database's. Until its deadline an instance that has not ended has that deadline's clock armed,
so running rows are read along the index of armed clocks, and the others along the instances. The key of the order has
two parts: which of the two, then the time and an id.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import Exists, F, OuterRef, Q, Subquery, Value
from django.utils.translation import gettext as _

from recovery.errors import ValidationFailed
from recovery.models import StepClock, WorkflowInstance, WorkflowStep
from recovery.states import ClockKind, ClockStatus, InstanceStatus, StepStatus

PAGE = 25
"""Rows of one page."""


DEADLINES = (
    ClockKind.POLL_DEADLINE,
    ClockKind.WAIT_DEADLINE,
    ClockKind.TIMER,
    ClockKind.TASK_DEADLINE,
    ClockKind.INSTANCE_DEADLINE,
)
"""Clocks after which less can be decided than before. A next round or another try at scheduling is none."""


TROUBLED = (StepStatus.NEEDS_REVIEW, StepStatus.FAILED, StepStatus.CANCELLED)
"""Steps that somebody may still decide to run again."""


@dataclass(frozen=True)
class Place:
    """Where a row stands in the order. `kind`: of the clock that stops next."""

    is_running: bool
    until: datetime
    row_id: str
    instance_id: str
    kind: str

    @property
    def cursor(self) -> str:
        return f"{'r' if self.is_running else 'p'}-{stamp(self.until)}-{self.row_id}"


@dataclass(frozen=True)
class Cursor:
    """The last row of the page before."""

    is_running: bool
    until: datetime
    row_id: str

    @classmethod
    def parse(cls, text: str) -> Cursor | None:
        """Raises ValidationFailed for a text that no page has made."""
        if not text:
            return None
        part, _dash, rest = text.partition("-")
        microseconds, _dash, row_id = rest.partition("-")
        until = moment(microseconds)
        if part not in ("r", "p") or until is None or not row_id:
            raise ValidationFailed(_("This page of the queue does not exist. Start at its first page."))
        return cls(part == "r", until, row_id)


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def stamp(at: datetime) -> str:
    """A moment in a URL: microseconds since 1970."""
    return str((at - EPOCH) // timedelta(microseconds=1))


def moment(text: str) -> datetime | None:
    """The moment of a stamp, None for any other text."""
    is_stamp = text.isascii() and text.isdecimal() and len(text) <= 17
    return EPOCH + timedelta(microseconds=int(text)) if is_stamp else None


def in_review(namespace_ids: list[str], filters: Mapping[str, Any]) -> Q:
    """What the list, its counts and its live line have in common. `filters`: cleaned, empty ones left out."""
    rows = Q(status=InstanceStatus.NEEDS_REVIEW, namespace_id__in=namespace_ids)
    if name := filters.get("namespace"):
        rows &= Q(namespace__name=name)
    if name := filters.get("application"):
        rows &= Q(application__name=name)
    if name := filters.get("definition"):
        rows &= Q(definition__name=name)
    if reason := filters.get("reason"):
        rows &= Q(review_reason=reason)
    if key := filters.get("step"):
        troubled = WorkflowStep.objects.filter(instance_id=OuterRef("pk"), step_key=key).exclude(review_reason="")
        rows &= Q(Exists(troubled))
    return rows


def places(
    rows: Q,
    now: datetime,
    *,
    is_few: bool,
    within: timedelta | None = None,
    after: Cursor | None = None,
    limit: int = PAGE,
) -> list[Place]:
    """The next `limit` + 1 places in the queue, in at most three statements. `within`: only deadlines that near.

    `is_few`: that many match that sorting their clocks costs less than walking past everybody else's.
    """
    found: list[Place] = []
    if after is None or after.is_running:
        found += _running(rows, now, is_few, within, after, limit + 1)
    if within is None and len(found) <= limit:
        found += _passed(rows, now, after if after and not after.is_running else None, limit + 1 - len(found))
    return found


def _counting(now: datetime) -> Q:
    """The clocks whose time is running out: armed ones, and deadlines that a step in trouble still has to beat.

    A review sets those clocks aside, but a retry or a further round has to come before them (RY9, CP2).
    """
    armed = Q(status=ClockStatus.ARMED, kind__in=DEADLINES)
    kept = Q(status=ClockStatus.CANCELLED, kind__in=(ClockKind.POLL_DEADLINE, ClockKind.TASK_DEADLINE))
    in_trouble = Q(activation__step__current_activation=F("activation"), activation__step__status__in=TROUBLED)
    return Q(due_at__gt=now) & (armed | (kept & in_trouble))


def _running(
    rows: Q, now: datetime, is_few: bool, within: timedelta | None, after: Cursor | None, limit: int
) -> list[Place]:
    clocks = StepClock.objects.filter(_counting(now))
    same = clocks.filter(instance_id=OuterRef("instance_id"))
    earlier = same.filter(Q(due_at__lt=OuterRef("due_at")) | Q(due_at=OuterRef("due_at"), pk__lt=OuterRef("pk")))
    clocks = clocks.filter(~Exists(earlier))
    if within is not None:
        clocks = clocks.filter(due_at__lte=now + within)
    if after is not None:
        clocks = clocks.filter(due_at__gte=after.until).filter(Q(due_at__gt=after.until) | Q(pk__gt=after.row_id))
    in_time = WorkflowInstance.objects.filter(rows, deadline_at__gt=now)
    if is_few:
        parts = [clocks.filter(instance_id__in=list(in_time.order_by().values_list("pk", flat=True)))]
    else:
        # A value to compare with, and no EXISTS: MariaDB would turn that into a join that begins with the instances.
        fits = in_time.filter(pk=OuterRef("instance_id")).values(one=Value(1))
        clocks = clocks.alias(fits=Subquery(fits)).filter(fits=1)
        # Each along its own stretch of the index.
        parts = [clocks.filter(status=status) for status in (ClockStatus.ARMED, ClockStatus.CANCELLED)]
    values = ("due_at", "pk", "instance_id", "kind")
    found = [row for part in parts for row in part.order_by("due_at", "pk").values_list(*values)[:limit]]
    return [Place(True, *row) for row in sorted(found)[:limit]]


def _passed(rows: Q, now: datetime, after: Cursor | None, limit: int) -> list[Place]:
    """Those whose own deadline has passed, the longest first."""
    instances = WorkflowInstance.objects.filter(rows, deadline_at__lte=now)
    if after is not None:
        instances = instances.filter(deadline_at__gte=after.until)
        instances = instances.filter(Q(deadline_at__gt=after.until) | Q(pk__gt=after.row_id))
    values = instances.order_by("deadline_at", "pk").values_list("deadline_at", "pk")[:limit]
    return [Place(False, until, key, key, ClockKind.INSTANCE_DEADLINE) for until, key in values]
