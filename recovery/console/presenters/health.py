"""The system: runners, what they still have to do, and whether database and broker answer."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from celery import current_app
from django.conf import settings
from django.db import connection
from django.utils.translation import gettext_lazy as _

from recovery.console import counts
from recovery.models import InboxEvent, ResultStream, RootContinuation, RunnerBeat, Signal
from recovery.states import ContinuationStatus, InboxStatus, SignalStatus

PATIENCE = 1
"""Seconds that the broker has to answer."""
LATE = timedelta(seconds=30)
"""A runner that has not gone round for so long is said to be late."""
SLOW = timedelta(seconds=60)
"""Work that waited longer than this is drawn as lag."""
SHOWN = 25

RUNNERS = {
    "sweep": _("the beat that starts every round"),
    "clocks": _("fires what is due"),
    "reaper": _("takes back lost leases"),
    "instances": _("consumes results and signals, schedules, stops"),
}
"""Every runner that leaves a beat, with what it does."""


@dataclass(frozen=True)
class Runner:
    """A runner and its last beat; `last_at` is None where it never ran."""

    name: str
    does: Any
    last_at: datetime | None
    lag: timedelta
    handled: int
    now: datetime

    @property
    def is_late(self) -> bool:
        return self.last_at is None or self.now - self.last_at > LATE

    @property
    def is_slow(self) -> bool:
        return self.lag > SLOW


@dataclass(frozen=True)
class Backlog:
    """Work of one kind that waits, capped, and since when its oldest does."""

    what: Any
    count: str
    oldest: datetime | None


@dataclass(frozen=True)
class Health:
    """Whether something answers. `took` is None where it does not; `detail`: what it is, or why it fails."""

    name: Any
    detail: str
    took: timedelta | None


@dataclass(frozen=True)
class SystemPage:
    """Backlogs, streams and quarantine are those of the reader's namespaces; the rest is the whole installation's."""

    runners: list[Runner]
    backlogs: list[Backlog]
    quarantined: list[InboxEvent]
    streams: list[ResultStream]
    health: list[Health]


def system_page(namespace_ids: Sequence[str], now: datetime) -> SystemPage:
    """In nine statements, and a question to the broker that lasts `PATIENCE` at most."""
    mine = {"instance__namespace_id__in": list(namespace_ids)}
    quarantined = InboxEvent.objects.filter(**mine, status=InboxStatus.QUARANTINED).order_by("received_at")
    streams = ResultStream.objects.filter(namespace_id__in=list(namespace_ids)).select_related("namespace")
    return SystemPage(
        runners=_runners(now),
        backlogs=_backlogs(mine),
        quarantined=list(quarantined.select_related("instance__namespace", "task")[:SHOWN]),
        streams=list(streams.order_by("namespace__name")),
        health=[database(), broker()],
    )


def _runners(now: datetime) -> list[Runner]:
    beats = {beat.name: beat for beat in RunnerBeat.objects.order_by("name")}
    runners = []
    for name in dict.fromkeys([*RUNNERS, *beats]):
        beat = beats.get(name) or RunnerBeat(name=name)
        lag = timedelta(milliseconds=beat.lag_ms)
        runners.append(Runner(name, RUNNERS.get(name, ""), beat.last_at, lag, beat.handled, now))
    return runners


def _backlogs(mine: dict[str, Any]) -> list[Backlog]:
    kinds: list[tuple[Any, Any, str]] = [
        (_("Results in the inbox"), InboxEvent.objects.filter(**mine, status=InboxStatus.PENDING), "received_at"),
        (_("Quarantined results"), InboxEvent.objects.filter(**mine, status=InboxStatus.QUARANTINED), "received_at"),
        (_("Signals to adjudicate"), Signal.objects.filter(**mine, status=SignalStatus.PENDING), "accepted_at"),
        (
            _("Continuations to schedule"),
            RootContinuation.objects.filter(**mine, status=ContinuationStatus.PENDING),
            "created_at",
        ),
    ]
    counted = counts.capped({str(place): rows for place, (_what, rows, _at) in enumerate(kinds)})
    return [
        Backlog(what, counts.shown(counted[str(place)]), rows.order_by(at).values_list(at, flat=True).first())
        for place, (what, rows, at) in enumerate(kinds)
    ]


def database() -> Health:
    """The database that answers this very page; without it there would be none."""
    started = time.monotonic()
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        cursor.fetchone()
    took = timedelta(seconds=time.monotonic() - started)
    version = ".".join(str(part) for part in connection.get_database_version())
    return Health(_("Database"), f"{connection.display_name} {version}", took)


def broker() -> Health:
    """Opens a connection of its own, without a retry. A broker that is down costs latency and nothing else (B7)."""
    kind = (settings.CELERY_BROKER_URL or "").partition(":")[0]
    started = time.monotonic()
    try:
        with current_app.connection_for_write(connect_timeout=PATIENCE) as link:
            link.ensure_connection(max_retries=1, timeout=PATIENCE)
    except Exception as error:  # whatever a transport raises
        return Health(_("Broker"), f"{kind}: {type(error).__name__}", None)
    return Health(_("Broker"), kind, timedelta(seconds=time.monotonic() - started))
