"""What happened to an instance, as facts with times: what the time axis draws and the table beside it lists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils.translation import gettext as _

from recovery.case import ActivationCase, Case, StepCase, TaskCase
from recovery.console import words
from recovery.console.presenters import acts
from recovery.flow import PLATFORM
from recovery.models import WorkflowAudit
from recovery.states import AttemptStatus, GateState, StepKind, WaitStatus


@dataclass(frozen=True)
class Fact:
    """Something at a time, or over one. `kind`: how it is drawn; `label`: beside the mark; `text`: in the table."""

    kind: str
    start: datetime
    text: str
    label: str = ""
    end: datetime | None = None


@dataclass(frozen=True)
class Lane:
    """A line of the axis. `is_lead`: of a step or of the whole instance, otherwise of what belongs to the lead."""

    name: str
    facts: tuple[Fact, ...]
    is_lead: bool = True


def gate_lane(case: Case, audits: Sequence[WorkflowAudit]) -> Lane:
    """When the gate was closed, from the audits that say so (oldest first)."""
    state, since = GateState.OPEN.value, case.instance.created_at
    changes = [(audit.created_at, str(audit.after["gate"])) for audit in audits if audit.after.get("gate")]
    facts = []
    for at, after in changes:
        if after != state:
            facts.append(_gate(state, since, at))
            state, since = after, at
    end = case.instance.settled_at or case.now
    if case.gate.state != state:  # the change has no audit of its own
        state = case.gate.state
    facts.append(_gate(state, since, end))
    return Lane(_("Gate"), tuple(facts))


def _gate(state: str, start: datetime, end: datetime) -> Fact:
    if state == GateState.OPEN:
        return Fact("open", start, _("gate open"), end=end)
    return Fact("closed", start, _("gate closed"), end=end)


def decision_lane(audits: Sequence[WorkflowAudit]) -> Lane:
    """What people decided, each by the number of its audit entry."""
    facts = [
        Fact(
            "decision",
            audit.created_at,
            _("decision %(number)d, %(act)s by %(actor)s")
            % {"number": audit.sequence, "act": act_word(audit.action), "actor": audit.actor},
            str(audit.sequence),
        )
        for audit in audits
        if audit.actor != PLATFORM
    ]
    return Lane(_("Decisions"), tuple(facts))


def act_word(action: str) -> Any:
    """An audited action as a decision names it."""
    return words.ACTS.get(action) or acts.name(action)


def step_lanes(step: StepCase, now: datetime) -> list[Lane]:
    """A step's activations, and below them what its kind has: rounds, attempts, waits, signals."""
    lanes = [Lane(step.row.step_key, tuple(_activation(step, a, now) for a in step.activations))]
    if step.spec.kind == StepKind.POLL:
        lanes.append(Lane(_("rounds"), tuple(_rounds(step, now)), is_lead=False))
    attempts = tuple(fact for task in step.tasks for fact in _attempts(task))
    if attempts:
        lanes.append(Lane(_("attempts"), attempts, is_lead=False))
    waits = tuple(fact for activation in step.activations for fact in _wait(activation, now))
    if waits:
        lanes.append(Lane(_("waits, signals"), waits + tuple(_signals(step)), is_lead=False))
    return lanes


def _activation(step: StepCase, activation: ActivationCase, now: datetime) -> Fact:
    row = activation.row
    following = next((a.row.created_at for a in step.activations if a.row.sequence == row.sequence + 1), None)
    end = following or row.settled_at or now
    label = _("activation %(number)d") % {"number": row.sequence}
    text = f"{label}, {words.label('ActivationStatus', row.status)}"
    return Fact("act", row.created_at, text, label, end)


def _rounds(step: StepCase, now: datetime) -> list[Fact]:
    """A round goes on over activations: it begins with its first task and ends with its last answer."""
    by_number: dict[int, list[TaskCase]] = {}
    for task in step.tasks:
        if task.round is not None:
            by_number.setdefault(task.round.round, []).append(task)
    facts = []
    for number, tasks in sorted(by_number.items()):
        first, last = tasks[0].round, tasks[-1].round
        assert first is not None
        assert last is not None
        label = _("round %(number)d") % {"number": number}
        text = f"{label}: {words.label('RoundOutcome', last.outcome)}"
        facts.append(Fact("round", first.started_at, text, label, last.settled_at or now))
    return facts


ATTEMPTS = {
    AttemptStatus.FAILED: "failed",
    AttemptStatus.UNKNOWN: "unknown",
    AttemptStatus.SUCCEEDED: "succeeded",
    AttemptStatus.RUNNING: "running",
}


def _attempts(task: TaskCase) -> list[Fact]:
    facts = []
    for attempt in task.attempts:
        word = words.label("AttemptStatus", attempt.status)
        detail = f"{word}, {attempt.error_code}" if attempt.error_code else str(word)
        text = _("attempt %(number)d on %(worker)s: %(detail)s") % {
            "number": attempt.attempt_no,
            "worker": attempt.worker,
            "detail": detail,
        }
        at = attempt.ended_at or attempt.started_at
        label = attempt.error_code or str(word)
        facts.append(Fact(ATTEMPTS.get(AttemptStatus(attempt.status), "other"), at, text, label))
    return facts


def _wait(activation: ActivationCase, now: datetime) -> list[Fact]:
    wait, poll = activation.wait, activation.poll
    facts = []
    if wait is not None:
        text = f"{words.label('WaitKind', wait.kind)}: {words.label('WaitStatus', wait.status)}"
        if wait.status == WaitStatus.CANCELLED:
            text = _("%(kind)s: superseded or closed") % {"kind": words.label("WaitKind", wait.kind)}
        label = _("generation %(number)d") % {"number": activation.row.sequence}
        facts.append(Fact("wait", activation.row.created_at, text, label, wait.settled_at or now))
    if poll is not None and poll.next_poll_at is not None and poll.settled_at is None:
        start = max((t.round.settled_at for t in activation.tasks if t.round and t.round.settled_at), default=now)
        facts.append(Fact("wait", start, _("waits for the next round"), _("next round"), poll.next_poll_at))
    return facts


def _signals(step: StepCase) -> list[Fact]:
    return [
        Fact(
            "signal",
            signal.accepted_at,
            _("signal %(name)s for generation %(generation)d: %(status)s")
            % {
                "name": signal.name,
                "generation": signal.generation,
                "status": words.label("SignalStatus", signal.status),
            },
            signal.name,
        )
        for signal in step.signals
    ]


def other_lane(steps: Sequence[StepCase], now: datetime) -> Lane:
    """Steps without lanes of their own, in one."""
    facts = []
    for step in sorted(steps, key=lambda step: step.activations[0].row.created_at):
        first = step.activations[0].row
        text = f"{step.row.step_key}: {words.label('StepStatus', step.row.status)}"
        facts.append(Fact("run", first.created_at, text, end=step.row.settled_at or now))
    return Lane(_("%(count)d other steps") % {"count": len(facts)}, tuple(facts))
