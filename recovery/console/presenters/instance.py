"""The instance's page: what is stuck and until when, what is known, what may be done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any

from recovery.case import Case, StepCase
from recovery.console import words
from recovery.console.find import Found
from recovery.console.presenters import axis, decisions, facts, options, queue, tree
from recovery.locks import snapshot
from recovery.models import InboxEvent, StepClock, WorkflowAudit
from recovery.operations import Explanation, explain
from recovery.states import ClockKind, ClockStatus, InboxStatus, StepStatus

LANES = 6
"""Steps with lanes of their own on the axis; of the others only the table of steps tells."""
AUDITS = 200
"""Audit entries that the axis is drawn from."""


@dataclass(frozen=True)
class Until:
    """A running deadline, and what it belongs to."""

    at: datetime
    word: Any
    step: str = ""


@dataclass(frozen=True)
class InstancePage:
    """Everything the page shows, read at one moment."""

    case: Case
    explanation: Explanation
    status: words.Mark
    review: words.Mark | None
    deadlines: list[Until]
    next: options.NextThing | None
    blocking: list[options.Line]
    holding: list[options.Line]
    answers: list[options.Answer]
    missing: list[str]
    tree: tree.Tree
    axis: axis.Axis
    decisions: list[decisions.Decision]
    inbox: dict[str, int]
    has_more: bool


def instance_page(found: Found, *, at: str = "", page: int = 1) -> InstancePage:
    """Reads the page in a fixed number of statements, whatever the number of steps; `at`, `page`: of a large tree."""
    with snapshot():
        explanation = explain(found.actor, found.instance.pk)
        case = explanation.case
        clocks = list(running(case.instance.pk, case.now))
        audits = list(_audits(case.instance.pk))
        inbox = _inbox(case)
        shown = tree.tree(case, at=at, page=page)
    until = deadlines(case, clocks)
    blocking, holding = _continue(explanation)
    return InstancePage(
        case=case,
        explanation=explanation,
        status=words.mark("InstanceStatus", case.instance.status),
        review=words.reason(case.instance.review_reason) if case.instance.review_reason else None,
        deadlines=until,
        next=options.next_thing(explanation),
        blocking=blocking,
        holding=holding,
        answers=options.answers(explanation),
        missing=options.missing(explanation),
        tree=shown,
        axis=_axis(case, audits, until),
        decisions=decisions.decisions(audits[: decisions.SHOWN], case),
        inbox=inbox,
        has_more=len(audits) > decisions.SHOWN,
    )


def running(instance_id: str, now: datetime) -> Any:
    """The armed clocks that are deadlines, the nearest first."""
    clocks = StepClock.objects.filter(
        instance_id=instance_id, status=ClockStatus.ARMED, kind__in=queue.DEADLINES, due_at__gt=now
    )
    return clocks.select_related("activation__step").order_by("due_at", "pk")[:20]


def deadlines(case: Case, clocks: Sequence[StepClock]) -> list[Until]:
    """What runs out, the nearest first: armed clocks, and the deadlines of steps that wait for a decision.

    A step in review keeps its deadlines although its clocks may be set aside: a retry has to beat them (RY9, CP2).
    """
    found = {(clock.kind, clock.due_at): _until(clock) for clock in clocks}
    for step in case.histories.values():
        if step.row.status in (StepStatus.NEEDS_REVIEW, StepStatus.FAILED):
            found |= {(kind, at): Until(at, words.clock(kind), step.row.step_key) for kind, at in _kept(step)}
    found[(ClockKind.INSTANCE_DEADLINE, case.instance.deadline_at)] = Until(
        case.instance.deadline_at, words.clock(ClockKind.INSTANCE_DEADLINE)
    )
    ends = _merged(sorted(found.values(), key=lambda until: until.at))
    return [until for until in ends if until.at > case.now] or ends[-1:]


def _merged(ends: Sequence[Until]) -> list[Until]:
    """Deadlines of one moment say their names together."""
    merged: list[Until] = []
    for at, group in groupby(ends, key=lambda until: until.at):
        same = list(group)
        words_ = list(dict.fromkeys(str(until.word) for until in same))
        steps = list(dict.fromkeys(until.step for until in same if until.step))
        merged.append(Until(at, ", ".join(words_), ", ".join(steps[:2])))
    return merged


def _until(clock: StepClock) -> Until:
    step = clock.activation.step.step_key if clock.activation else ""
    return Until(clock.due_at, words.clock(clock.kind), step)


def _kept(step: StepCase) -> list[tuple[str, datetime]]:
    """Deadlines that never move, whatever is decided."""
    current = step.current
    if current is None:
        return []
    kept: list[tuple[str, datetime | None]] = []
    if current.poll:
        kept.append((ClockKind.POLL_DEADLINE, current.poll.deadline_at))
    if current.tasks:
        kept.append((ClockKind.TASK_DEADLINE, current.tasks[-1].row.deadline_at))
        kept.append((ClockKind.TASK_DEADLINE, current.tasks[-1].row.latest_start_at))
    if current.wait:
        kept.append((ClockKind.WAIT_DEADLINE, current.wait.deadline_at))
    return [(kind, at) for kind, at in kept if at is not None]


def _audits(instance_id: str) -> Any:
    return (
        WorkflowAudit.objects.filter(instance_id=instance_id).select_related("operation").order_by("-sequence")[:AUDITS]
    )


def _inbox(case: Case) -> dict[str, int]:
    processed = InboxEvent.objects.filter(instance_id=case.instance.pk, status=InboxStatus.PROCESSED)
    statuses = [event.status for event in case.unsettled_inbox]
    return {
        "pending": statuses.count(InboxStatus.PENDING),
        "quarantined": statuses.count(InboxStatus.QUARANTINED),
        "processed": processed.order_by()[:1000].count(),
    }


def _continue(explanation: Explanation) -> tuple[list[options.Line], list[options.Line]]:
    """The findings of Continue's own rules: those that fail, and the others."""
    found = next((o.findings for o in explanation.options if o.operation == "continue"), ())
    drawn = options.lines(found, explanation.case)
    return [line for line in drawn if line.holds is False], [line for line in drawn if line.holds is not False]


def _axis(case: Case, newest: Sequence[WorkflowAudit], until: Sequence[Until]) -> axis.Axis:
    audits = list(reversed(newest))
    lanes = [facts.gate_lane(case, audits), facts.decision_lane(audits)]
    chosen = lane_steps(case)
    others = [step for step in case.histories.values() if step.activations and step not in chosen]
    if others:
        lanes.append(facts.other_lane(others, case.now))
    for step in chosen:
        lanes += facts.step_lanes(step, case.now)
    settled_at = case.instance.settled_at
    drawn = [] if settled_at else [axis.Deadline(each.at, each.word) for each in until]
    return axis.axis(lanes, case.instance.created_at, settled_at or case.now, drawn, is_over=settled_at is not None)


def lane_steps(case: Case) -> list[StepCase]:
    """The steps that get lanes: troubled ones first, then those with a history; at most LANES, oldest first."""
    begun = [step for step in case.histories.values() if step.activations]
    ranked = sorted(begun, key=lambda step: (-_weight(step), -step.activations[-1].row.created_at.timestamp()))
    shown = [step for step in ranked[:LANES] if _weight(step)] or ranked[:3]
    return sorted(shown, key=lambda step: step.activations[0].row.created_at)


def _weight(step: StepCase) -> int:
    if step.row.status in (StepStatus.NEEDS_REVIEW, StepStatus.FAILED, StepStatus.CANCELLED):
        return 3
    if step.row.status in (StepStatus.RUNNING, StepStatus.WAITING):
        return 2
    is_told = len(step.activations) > 1 or len(step.tasks) > 1 or any(a.row.concluded_by_id for a in step.activations)
    return 1 if is_told else 0
