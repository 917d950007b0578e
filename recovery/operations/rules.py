"""The rules that several operations share: pure functions of a question; none reads database, clock or session.

A rule answers the findings it has: usually one, several where it looks at several rows, none where an earlier rule has
already said that there is nothing to look at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from recovery import contracts
from recovery.audit import instant
from recovery.case import Case, StepCase, TaskCase
from recovery.definitions import Spec
from recovery.errors import (
    DeadlinePassed,
    ExecutionUnknown,
    ExecutionUnsettled,
    HistoryInconsistent,
    InboxUnsettled,
    RevisionConflict,
    SignalPending,
    StateConflict,
    StopRequested,
)
from recovery.operations import history
from recovery.operations.commands import Command, StepDecision
from recovery.operations.findings import Finding, depends, fails, holds
from recovery.states import InboxStatus, InstanceStatus, StepKind


@dataclass(frozen=True)
class Question:
    """What is decided about. `command` is None in an explanation: nothing has been entered yet.

    `step`: the leaf in question with its history, None where there is none (Continue) or where the command names none
    of this instance. `task` likewise, for ReviewTask. `judgement`: what `Operation.judge` said of the command (G7).
    """

    case: Case
    step: StepCase | None = None
    task: TaskCase | None = None
    command: Command | None = None
    judgement: str | None = None

    @property
    def target(self) -> StepCase:
        assert self.step is not None
        return self.step


Rule = Callable[[Question], Iterable[Finding]]


def is_fresh(question: Question) -> Iterator[Finding]:
    """G5: a new key needs the revisions as they are now. `control_revision` is no substitute."""
    case, command = question.case, question.command
    if command is None:
        return
    if command.expected_revision != str(case.instance.revision):
        yield fails(
            "G5",
            RevisionConflict,
            _("The instance is at revision %(now)d, not %(seen)s.")
            % {"now": case.instance.revision, "seen": command.expected_revision},
            _("Read what is newer, then decide again."),
            [case.instance.pk],
        )
    if isinstance(command, StepDecision) and (step := question.step):
        if command.expected_step_revision != str(step.row.revision):
            yield fails(
                "G5",
                RevisionConflict,
                _("The step is at revision %(now)d, not %(seen)s.")
                % {"now": step.row.revision, "seen": command.expected_step_revision},
                _("Read what is newer, then decide again."),
                [step.row.pk],
            )
        current = step.current.row.pk if step.current else None
        if command.activation_id != current:
            yield fails(
                "G5",
                RevisionConflict,
                _("The command names another activation than the current one."),
                _("Read the step again; an activation that is history is never changed."),
                [current] if current else [],
            )


def is_in_review(question: Question) -> Iterator[Finding]:
    """G6: only a NEEDS_REVIEW instance."""
    instance = question.case.instance
    if instance.status == InstanceStatus.NEEDS_REVIEW:
        yield holds("G6", _("The instance is in review."), [instance.pk])
    else:
        yield fails(
            "G6",
            StateConflict,
            _("The instance is %(status)s.") % {"status": instance.status},
            _("Only an instance in NEEDS_REVIEW can be recovered."),
            [instance.pk],
        )


def inbox_is_settled(question: Question) -> Iterator[Finding]:
    """G6: no PENDING or QUARANTINED inbox event of the instance."""
    unsettled = question.case.unsettled_inbox
    quarantined = [row.pk for row in unsettled if row.status == InboxStatus.QUARANTINED]
    pending = [row.pk for row in unsettled if row.status == InboxStatus.PENDING]
    if quarantined:
        yield fails(
            "G6",
            InboxUnsettled,
            ngettext(
                "%(count)d event in the inbox is quarantined.",
                "%(count)d events in the inbox are quarantined.",
                len(quarantined),
            )
            % {"count": len(quarantined)},
            _("The source has to be repaired; then manage.py reverify_inbox checks it again."),
            quarantined,
        )
    if pending:
        yield fails(
            "G6",
            InboxUnsettled,
            ngettext(
                "%(count)d event in the inbox is not consumed yet.",
                "%(count)d events in the inbox are not consumed yet.",
                len(pending),
            )
            % {"count": len(pending)},
            _("Wait a moment; they are consumed by themselves."),
            pending,
        )
    if not unsettled:
        yield holds("G6", _("The inbox has nothing pending and nothing quarantined."))


def step_results_are_processed(question: Question) -> Iterator[Finding]:
    """G6: every settled task of the step has a PROCESSED inbox row for its present revision."""
    if question.step is None:
        return
    late = [task.row.pk for task in question.step.tasks if task.is_settled and not _is_processed(task)]
    if late:
        yield fails(
            "G6",
            InboxUnsettled,
            ngettext(
                "The newest result of %(count)d task of this step is not consumed yet.",
                "The newest results of %(count)d tasks of this step are not consumed yet.",
                len(late),
            )
            % {"count": len(late)},
            _("Wait a moment; it is consumed by itself."),
            late,
        )


def _is_processed(task: TaskCase) -> bool:
    result = task.latest
    return bool(result and result.inbox and result.inbox.status == InboxStatus.PROCESSED)


def no_stop_is_requested(question: Question) -> Iterator[Finding]:
    """G12."""
    instance = question.case.instance
    if instance.stop_kind is None:
        yield holds("G12", _("No stop was requested."))
    else:
        yield fails(
            "G12",
            StopRequested,
            _("A stop (%(kind)s) was requested.") % {"kind": instance.stop_kind},
            _("Review and resolve what is unknown, then Continue: the stop goes on."),
            [instance.pk],
        )


def instance_is_in_time(question: Question) -> Iterator[Finding]:
    """G12."""
    case = question.case
    yield in_time("G12", case.now, case.instance.deadline_at, _("instance deadline"))


def in_time(rule: str, now: datetime, deadline: datetime | None, name: str) -> Finding:
    """A deadline is reached when now is not before it. None: there is no such deadline."""
    if deadline is None:
        return holds(rule, _("There is no %(name)s.") % {"name": name})
    if now < deadline:
        return holds(rule, _("The %(name)s %(time)s is not reached.") % {"name": name, "time": instant(deadline)})
    return fails(
        rule,
        DeadlinePassed,
        _("The %(name)s %(time)s has passed.") % {"name": name, "time": instant(deadline)},
        _("Deadlines never move. Resolve the step with the final facts, or cancel."),
    )


def history_fits(question: Question) -> Iterator[Finding]:
    """G11, for the step that is decided about."""
    if question.step is None:
        return
    yield history_finding("G11", history.problems(question.step, question.case.instance))


def history_finding(rule: str, problems: list[history.Problem]) -> Finding:
    if not problems:
        return holds(rule, _("Tasks, activations, rounds, attempts and results fit together."))
    return fails(
        rule,
        HistoryInconsistent,
        _("The history does not fit together: %(problem)s.") % {"problem": problems[0][0]},
        _("Nobody can decide on such facts; have the stored rows examined."),
        [row for _sentence, row in problems],
    )


def target_is_leaf(rule: str, question: Question, kinds: Iterable[StepKind], states: Iterable[str]) -> Finding:
    """A leaf of one of the kinds, in one of the states; an unknown or foreign key is told like any other misfit."""
    step, kinds, states = question.step, list(kinds), list(states)
    wanted = _("It takes a %(kinds)s step in %(states)s.") % {"kinds": "/".join(kinds), "states": ", ".join(states)}
    if step is None or step.spec.kind not in kinds:
        return fails(rule, StateConflict, _("This is not such a step of this instance."), wanted)
    if step.row.status not in states or step.current is None:
        found = _("The step is %(status)s.") % {"status": step.row.status}
        return fails(rule, StateConflict, found, wanted, [step.row.pk])
    return holds(rule, _("The step is %(status)s.") % {"status": step.row.status}, [step.row.pk])


def tasks_are_settled(rule: str, tasks: Iterable[TaskCase]) -> Iterator[Finding]:
    """Every task is known, no attempt is RUNNING and no permit is taken."""
    tasks = list(tasks)
    unknown = [task.row.pk for task in tasks if task.is_unknown]
    open_ = [
        task.row.pk
        for task in tasks
        if not task.is_unknown and (not task.is_known or task.is_running or task.holds_permit)
    ]
    if unknown:
        yield fails(
            rule,
            ExecutionUnknown,
            ngettext(
                "The effect of %(count)d task is unknown.", "The effects of %(count)d tasks are unknown.", len(unknown)
            )
            % {"count": len(unknown)},
            _("Verify it and use ReviewTask first."),
            unknown,
        )
    if open_:
        yield fails(
            rule,
            ExecutionUnsettled,
            ngettext("%(count)d task has not ended.", "%(count)d tasks have not ended.", len(open_))
            % {"count": len(open_)},
            _("Wait until the execution has ended, or cancel the task if it has not started."),
            open_,
        )
    if not unknown and not open_:
        yield holds(
            rule,
            ngettext(
                "What the step's %(count)d task did is known.",
                "What the step's %(count)d tasks did is known.",
                len(tasks),
            )
            % {"count": len(tasks)},
        )


def no_signal_is_pending(rule: str, step: StepCase) -> Iterator[Finding]:
    if pending := step.pending_signals:
        yield fails(
            rule,
            SignalPending,
            _("A signal for the current generation was accepted and is not adjudicated yet."),
            _("Wait a moment; it is adjudicated by itself."),
            [signal.pk for signal in pending],
        )


def answer_of(spec: Spec, payload: object) -> str | None:
    """What a query's answer means: PENDING, SUCCEEDED or FAILED; None outside of the pinned contract or map (B3)."""
    if contracts.violation(spec.output_contract, payload) or spec.outcome_map is None:
        return None
    return contracts.outcome(spec.outcome_map, payload)


def entered_later(rule: str, question: Question, sentence: str) -> Iterator[Finding]:
    """In an explanation: what will be checked once it is entered."""
    if question.command is None:
        yield depends(rule, sentence)


GENERAL: tuple[Rule, ...] = (
    is_fresh,
    is_in_review,
    inbox_is_settled,
)
"""What holds for all six, in the order of refusal (G15); then `STEP`, then G12, then the operation's own."""

STEP: tuple[Rule, ...] = (step_results_are_processed,)
NO_STOP_NO_TIME: tuple[Rule, ...] = (no_stop_is_requested, instance_is_in_time)
