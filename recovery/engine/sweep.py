"""Finds what no message told anybody. The rows are the truth, messages are hints: losing all of them costs time only.

Any number of sweeps may run at a time, and be killed anywhere (B7): each part finds its work in the database and does
it under the locks of its own transactions.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from datetime import datetime, timedelta

from django.db.models import Exists, F, OuterRef, Q

from recovery import clock, prompts
from recovery.engine import clocks, inbox, reaper, schedule, signals, stop
from recovery.models import InboxEvent, RootContinuation, RunnerBeat, Signal, StepClock, Task, TaskAttempt
from recovery.states import (
    AttemptStatus,
    ClockStatus,
    ContinuationStatus,
    InboxStatus,
    SignalStatus,
    TaskStatus,
)

logger = logging.getLogger(__name__)

TURNS = 200
"""Steps of one call for an instance, before it leaves the rest to another message."""
CHOICE = 10
"""A sweep picks its instances among this many times as many: one that cannot move does not hide the others."""
TICK = timedelta(milliseconds=500)
"""Of two beats, the one that comes within this time of the other does not sweep."""


def run_instance(instance_id: str) -> bool:
    """Consumes results, adjudicates signals, advances and stops, until nothing is left to do; whether anything was."""
    runners = (inbox.consume, signals.adjudicate, schedule.advance, stop.stop)
    with prompts.handled_here(instance_id):
        for turn in range(TURNS):
            if not any(runner(instance_id) for runner in runners):
                return turn > 0
    prompts.instance(instance_id)
    return True


def sweep(limit: int = 100, *, older_than: timedelta = timedelta(0)) -> int:
    """Goes round all runners once: due clocks, lost leases, then instances with pending work; answers how much it did.

    `older_than`: leaves rows alone whose hint may still be on its way. Each runner's beat is kept for the system page.
    """
    parts: dict[str, tuple[Callable[[], int], Callable[[datetime], datetime | None]]] = {
        "clocks": (lambda: clocks.fire_due(limit), _oldest_clock),
        "reaper": (lambda: reaper.reap(limit), _oldest_lapse),
        "instances": (lambda: _run_instances(limit, older_than), _oldest_work),
    }
    handled = 0
    for name, (run, oldest) in parts.items():
        waiting_since, done = oldest(clock.now()), 0
        try:
            done = run()
        except Exception:
            logger.exception("The runner %s failed; the next sweep tries again.", name)
        handled += done
        beat(name, handled=done, waiting_since=waiting_since)
    return handled


def tick(name: str = "sweep") -> bool:
    """Whether the caller got this tick of the beat. One row decides, so two beats sweep no more often than one."""
    now = clock.now()
    RunnerBeat.objects.get_or_create(name=name)
    # A beat that lies far ahead comes from a clock that was set back since: it keeps nobody waiting.
    due = RunnerBeat.objects.filter(name=name).exclude(last_at__range=(now - TICK, now + TICK))
    return due.update(last_at=now, handled=F("handled") + 1) == 1


def beat(name: str, *, handled: int, waiting_since: datetime | None) -> None:
    """Notes that a runner went round, what it did, and how long its oldest work had waited."""
    now = clock.now()
    lag = max(now - waiting_since, timedelta(0)) if waiting_since else timedelta(0)
    RunnerBeat.objects.get_or_create(name=name)
    lag_ms = lag // timedelta(milliseconds=1)
    RunnerBeat.objects.filter(name=name).update(last_at=now, lag_ms=lag_ms, handled=F("handled") + handled)


def _run_instances(limit: int, older_than: timedelta) -> int:
    known = list(dict.fromkeys(instance_id for _since, instance_id in waiting(limit * CHOICE, older_than)))
    random.shuffle(known)
    moved = 0
    for instance_id in known[:limit]:
        try:
            moved += run_instance(instance_id)
        except Exception:
            logger.exception("Instance %s could not go on; the next sweep tries again.", instance_id)
    return moved


def waiting(limit: int, older_than: timedelta = timedelta(0)) -> list[tuple[datetime, str]]:
    """Pending continuations, events and signals: since when each waits, and its instance; the oldest first.

    Events behind a quarantined one wait for a person (B4), not for a runner.
    """
    until = clock.now() - older_than
    blocked = InboxEvent.objects.filter(instance_id=OuterRef("instance_id"), status=InboxStatus.QUARANTINED)
    continuations = RootContinuation.objects.filter(status=ContinuationStatus.PENDING, created_at__lte=until)
    events = InboxEvent.objects.filter(~Exists(blocked), status=InboxStatus.PENDING, received_at__lte=until)
    pending = Signal.objects.filter(status=SignalStatus.PENDING, accepted_at__lte=until)
    rows: list[tuple[datetime, str]] = []
    for since, found in (("created_at", continuations), ("received_at", events), ("accepted_at", pending)):
        rows += found.order_by(since).values_list(since, "instance_id")[:limit]
    return sorted(rows)[:limit]


def _oldest_work(now: datetime) -> datetime | None:
    return next((since for since, _instance in waiting(1)), None)


def _oldest_clock(now: datetime) -> datetime | None:
    due = StepClock.objects.filter(status=ClockStatus.ARMED, due_at__lte=now).order_by("due_at")
    return due.values_list("due_at", flat=True).first()


def _oldest_lapse(now: datetime) -> datetime | None:
    """Since when the oldest lease is lost or the oldest queued task past its time."""
    queued = Task.objects.filter(status=TaskStatus.QUEUED)
    lapses = [
        (TaskAttempt.objects.filter(status=AttemptStatus.RUNNING), "lease_expires_at"),
        (queued, "deadline_at"),
        (queued, "latest_start_at"),
    ]
    firsts = [
        rows.filter(Q(**{f"{end}__lte": now})).order_by(end).values_list(end, flat=True).first() for rows, end in lapses
    ]
    return min((moment for moment in firsts if moment is not None), default=None)
