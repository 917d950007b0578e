"""What became newer while somebody was writing: facts that raise the revision, since the form was opened."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils.translation import gettext as _

from recovery.case import Case
from recovery.console import words
from recovery.console.presenters import queue
from recovery.console.presenters.facts import act_word
from recovery.models import InboxEvent, Signal, StepClock, WorkflowAudit

SHOWN = 50
"""Facts of each kind that are listed."""


@dataclass(frozen=True)
class NewFact:
    """One newer fact. `code`: a stored value, `quote`: what a person wrote."""

    at: datetime
    text: Any
    code: str = ""
    quote: str = ""


def newer_facts(case: Case, seen_at: str) -> list[NewFact]:
    """The facts since the form was opened, oldest first; none for a moment that no form carries."""
    since = queue.moment(seen_at)
    if since is None:
        return []
    found = [*_decisions(case, since), *_results(case, since), *_signals(case, since), *_clocks(case, since)]
    return sorted(found, key=lambda fact: fact.at)


def _decisions(case: Case, since: datetime) -> Iterator[NewFact]:
    rows = WorkflowAudit.objects.filter(instance_id=case.instance.pk, created_at__gt=since).order_by("-sequence")
    for audit in rows[:SHOWN]:
        text = _("%(actor)s: %(act)s %(target)s") % {
            "actor": audit.actor,
            "act": act_word(audit.action),
            "target": audit.before.get("step_key") or audit.before.get("task_id") or "",
        }
        yield NewFact(audit.created_at, text.strip(), quote=audit.reason)


def _results(case: Case, since: datetime) -> Iterator[NewFact]:
    rows = InboxEvent.objects.filter(instance_id=case.instance.pk, processed_at__gt=since)
    for event in rows.select_related("activation__step").order_by("-processed_at")[:SHOWN]:
        assert event.processed_at is not None
        place = {"step": event.activation.step.step_key, "number": event.activation.sequence}
        text = _("A result of %(step)s, activation %(number)d, was consumed") % place
        yield NewFact(event.processed_at, text, event.disposition)


def _signals(case: Case, since: datetime) -> Iterator[NewFact]:
    rows = Signal.objects.filter(instance_id=case.instance.pk, settled_at__gt=since)
    for signal in rows.select_related("step").order_by("-settled_at")[:SHOWN]:
        assert signal.settled_at is not None
        text = _("The signal %(name)s for %(step)s was adjudicated") % {
            "name": signal.name,
            "step": signal.step.step_key,
        }
        yield NewFact(signal.settled_at, text, signal.disposition)


def _clocks(case: Case, since: datetime) -> Iterator[NewFact]:
    rows = StepClock.objects.filter(instance_id=case.instance.pk, fired_at__gt=since).order_by("-fired_at")
    for clock in rows[:SHOWN]:
        assert clock.fired_at is not None
        yield NewFact(clock.fired_at, _("A clock fired: %(clock)s") % {"clock": words.clock(clock.kind)}, clock.kind)
