"""The console's own words for stored values. A value that nobody knows yet is shown as itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext_lazy as _

from recovery import states


@dataclass(frozen=True)
class Mark:
    """A status as it is drawn: shape, word and tone, in that order of importance."""

    icon: str
    word: Any

    @property
    def css(self) -> str:
        return f"st-{self.icon}"


SHAPES = {
    "NEEDS_REVIEW": "review",
    "UNKNOWN": "unknown",
    "FAILED": "failed",
    "INVALID": "failed",
    "EXPIRED": "failed",
    "REJECTED": "failed",
    "QUARANTINED": "block",
    "SUSPENDED": "block",
    "SUCCEEDED": "ok",
    "MATCHED": "ok",
    "CONSUMED": "ok",
    "PROCESSED": "ok",
    "DONE": "ok",
    "RUNNING": "running",
    "CANCELLING": "running",
    "POLLING": "running",
    "WAITING": "waiting",
    "ARMED": "waiting",
    "QUEUED": "queued",
    "PENDING": "pending",
    "OPEN": "pending",
    "CANCELLED": "cancelled",
    "SETTLED": "ok",
    "FIRED": "ok",
    "CLOSED": "shut",
}
"""Each shape has an outline of its own, so that a status never speaks through colour alone."""


def mark(kind: str, value: str) -> Mark:
    """How a status of `kind` (a class of `recovery.states`) is drawn."""
    shape = SHAPES.get(value, "other")
    if kind == "TaskStatus" and value == states.TaskStatus.NEEDS_REVIEW:
        shape = "unknown"
    return Mark(shape, label(kind, value))


REASON_SHAPES = {
    "EXECUTION_UNKNOWN": "unknown",
    "SOURCE_CORRUPT": "block",
    "HISTORY_INCONSISTENT": "block",
    "PROOF_MISMATCH": "block",
    "QUERY_DEADLINE": "waiting",
    "WAIT_EXPIRED": "waiting",
    "INSTANCE_DEADLINE": "waiting",
    "TASK_CANCELLED": "cancelled",
}


def reason(code: str) -> Mark:
    """Why an instance or a step is in review, as it is drawn."""
    known = code in states.ReviewReason.values
    return Mark(REASON_SHAPES.get(code, "failed" if known else "review"), label("ReviewReason", code))


def label(kind: str, value: str) -> Any:
    """The word of a stored value of `kind`, a class of `recovery.states`; the value itself where nobody knows it."""
    known = getattr(states, kind)
    return known(value).label if value in known.values else value


CLOCKS = {
    "NEXT_ROUND": _("next round"),
    "POLL_DEADLINE": _("query total"),
    "TIMER": _("timer"),
    "WAIT_DEADLINE": _("wait"),
    "TASK_DEADLINE": _("task"),
    "INSTANCE_DEADLINE": _("instance"),
    "SCHEDULE_RETRY": _("schedule again"),
}
"""What a running clock belongs to, as it stands behind a time."""


def clock(kind: str) -> Any:
    return CLOCKS.get(kind, kind)


ACTS = {
    "start": _("Start"),
    "pause": _("Pause"),
    "resume": _("Resume"),
    "cancel": _("Cancel"),
    "cancel_task": _("Cancel task"),
    "raise_review": _("Review raised"),
    "reverify_inbox": _("Source verified again"),
}
"""Audited actions that are none of the six operations."""
