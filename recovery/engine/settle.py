"""What a result means for its TASK or POLL step. Pure: nothing here reads the database or the clock (B3, B4, B13)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from recovery import contracts
from recovery.definitions import Spec
from recovery.operations.rules import answer_of
from recovery.states import (
    Disposition,
    ResultOutcome,
    ResultSource,
    ReviewReason,
    RoundOutcome,
    StepKind,
    StepStatus,
)


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a result arrives. `is_current`: of its step's current activation; `is_open`: that has no conclusion yet.

    `is_stopping`: a stop intent exists. `rounds_left`: the query may ask again.
    """

    is_current: bool
    is_open: bool
    is_stopping: bool
    rounds_left: bool = True


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What follows. `step`: the status that step and activation take, None where they do not move (B4).

    `reason`: why the instance enters review, "" where it does not. `stops`: a stop intent FAIL follows.
    """

    disposition: Disposition
    step: StepStatus | None = None
    reason: str = ""
    stops: bool = False


def meaning(spec: Spec, outcome: str, payload: Any) -> RoundOutcome:
    """What an execution's outcome and payload say by the pinned contract and, for a POLL, by the pinned map.

    PENDING for a POLL only; INVALID: succeeded with an answer outside of contract or map.
    """
    if outcome != ResultOutcome.SUCCEEDED:
        return RoundOutcome(outcome)
    if spec.kind == StepKind.POLL:
        return RoundOutcome(answer_of(spec, payload) or RoundOutcome.INVALID)
    broken = contracts.violation(spec.output_contract, payload)
    return RoundOutcome.INVALID if broken else RoundOutcome.SUCCEEDED


def verdict(spec: Spec, source: str, outcome: str, meant: RoundOutcome, place: Place) -> Verdict:
    """What a result does at its place. `meant`: its `meaning`.

    A late report never does anything (B9); an unknown effect always raises review, also where no step moves (B4).
    """
    if source == ResultSource.LATE or not (place.is_current and place.is_open):
        settled = Disposition.STEP_ALREADY_SETTLED if place.is_current else Disposition.STALE_ACTIVATION
        is_unknown = source != ResultSource.LATE and outcome == ResultOutcome.UNKNOWN
        return Verdict(disposition=settled, reason=ReviewReason.EXECUTION_UNKNOWN if is_unknown else "")
    is_query = spec.kind == StepKind.POLL
    step, reason = _query(outcome, meant, place.rounds_left) if is_query else _TASK[meant]
    if place.is_stopping and (step in _ENDS or meant == RoundOutcome.PENDING):
        # What the stop waited for is known now; nobody has to look at it.
        return Verdict(disposition=Disposition.RECORDED, step=step if step in _ENDS else StepStatus.CANCELLED)
    if step == StepStatus.FAILED and spec.fails_workflow:
        return Verdict(disposition=Disposition.ADVANCED, step=step, stops=True)
    if reason:
        return Verdict(disposition=Disposition.REVIEW_RAISED, step=step, reason=reason)
    waits = step == StepStatus.WAITING
    return Verdict(disposition=Disposition.ROUND_PENDING if waits else Disposition.ADVANCED, step=step)


_ENDS = frozenset({StepStatus.FAILED, StepStatus.CANCELLED})

_UNKNOWN = (StepStatus.NEEDS_REVIEW, ReviewReason.EXECUTION_UNKNOWN)
_CANCELLED = (StepStatus.CANCELLED, ReviewReason.TASK_CANCELLED)

_TASK: dict[RoundOutcome, tuple[StepStatus, str]] = {
    RoundOutcome.SUCCEEDED: (StepStatus.SUCCEEDED, ""),
    RoundOutcome.FAILED: (StepStatus.FAILED, ReviewReason.TASK_FAILED),
    RoundOutcome.INVALID: (StepStatus.NEEDS_REVIEW, ReviewReason.CONTRACT_VIOLATION),
    RoundOutcome.UNKNOWN: _UNKNOWN,
    RoundOutcome.CANCELLED: _CANCELLED,
}

_ANSWER: dict[RoundOutcome, tuple[StepStatus, str]] = {
    RoundOutcome.PENDING: (StepStatus.WAITING, ""),
    RoundOutcome.SUCCEEDED: (StepStatus.SUCCEEDED, ""),
    RoundOutcome.FAILED: (StepStatus.FAILED, ReviewReason.OUTCOME_FAILED),
    RoundOutcome.INVALID: (StepStatus.NEEDS_REVIEW, ReviewReason.OUTCOME_INVALID),
    RoundOutcome.UNKNOWN: _UNKNOWN,
    RoundOutcome.CANCELLED: _CANCELLED,
}


def _query(outcome: str, meant: RoundOutcome, rounds_left: bool) -> tuple[StepStatus, str]:
    """A request that failed says nothing about the business; an answer does."""
    if outcome == ResultOutcome.FAILED:
        return StepStatus.NEEDS_REVIEW, ReviewReason.REQUEST_FAILED
    if meant == RoundOutcome.PENDING and not rounds_left:
        return StepStatus.NEEDS_REVIEW, ReviewReason.ROUNDS_EXHAUSTED
    return _ANSWER[meant]
