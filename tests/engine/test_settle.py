"""What a result means for its step: the whole table of B3, B4, B9, B11 and B13, without a database."""

from dataclasses import replace
from typing import Any

import pytest

from recovery.definitions import Spec
from recovery.engine.settle import Place, Verdict, meaning, verdict
from recovery.states import Disposition, ResultOutcome, ResultSource, ReviewReason, RoundOutcome, StepStatus

HERE = Place(is_current=True, is_open=True, is_stopping=False)
STOPPING = replace(HERE, is_stopping=True)
NO_MORE_ROUNDS = replace(HERE, rounds_left=False)


def spec(kind: str, **fields: Any) -> Spec:
    """A TASK that answers an object with "n", or a POLL whose answer is under /state."""
    fixed: dict[str, Any] = dict.fromkeys(
        ("parent", "queue_id", "timeout_ms", "total_timeout_ms", "signal", "input_template"), None
    )
    fixed |= {"key": "leaf", "kind": kind, "children": (), "handler": "h", "handler_version": "1", "max_attempts": 3}
    fixed |= {"policy": {}, "interval_ms": 60_000, "max_rounds": 3, "delay_ms": 0}
    if kind == "TASK":
        fixed |= {"output_contract": {"type": "object", "required": ["n"]}, "outcome_map": None}
    else:
        answers = {"pointer": "/state", "PENDING": ["wait"], "SUCCEEDED": ["paid"], "FAILED": ["refused"]}
        fixed |= {"output_contract": {"type": "object"}, "outcome_map": answers}
    return Spec(**{**fixed, **fields})


TASK, POLL = spec("TASK"), spec("POLL")
FAILING_TASK, FAILING_POLL = (replace(each, policy={"on_failure": "FAIL"}) for each in (TASK, POLL))


def judge(
    leaf: Spec, outcome: str, payload: Any = None, place: Place = HERE, source: str = ResultSource.WORKER
) -> Verdict:
    return verdict(leaf, source, outcome, meaning(leaf, outcome, payload), place)


def review(step: StepStatus, reason: ReviewReason) -> Verdict:
    return Verdict(disposition=Disposition.REVIEW_RAISED, step=step, reason=reason)


def advanced(step: StepStatus, *, stops: bool = False) -> Verdict:
    return Verdict(disposition=Disposition.ADVANCED, step=step, stops=stops)


def recorded(step: StepStatus) -> Verdict:
    return Verdict(disposition=Disposition.RECORDED, step=step)


@pytest.mark.parametrize(
    ("payload", "meant"),
    [
        ({"state": "wait"}, RoundOutcome.PENDING),
        ({"state": "paid"}, RoundOutcome.SUCCEEDED),
        ({"state": "refused"}, RoundOutcome.FAILED),
        ({"state": "odd"}, RoundOutcome.INVALID),
        ({}, RoundOutcome.INVALID),
        ("wait", RoundOutcome.INVALID),
        (None, RoundOutcome.INVALID),
    ],
)
@pytest.mark.rule("B3")
def test_a_query_is_answered_by_the_pinned_map(payload: Any, meant: RoundOutcome) -> None:
    assert meaning(POLL, ResultOutcome.SUCCEEDED, payload) == meant


@pytest.mark.parametrize("state", ["wait", "paid", "refused"])
@pytest.mark.rule("B3")
def test_an_answer_outside_of_the_contract_is_invalid_whatever_the_map_calls_it(state: str) -> None:
    strict = replace(POLL, output_contract={"type": "object", "required": ["receipt"]})
    assert meaning(strict, ResultOutcome.SUCCEEDED, {"state": state}) == RoundOutcome.INVALID


@pytest.mark.rule("B3")
def test_a_failed_request_is_not_asked_what_the_map_thinks_of_its_error() -> None:
    assert meaning(POLL, ResultOutcome.FAILED, {"state": "paid"}) == RoundOutcome.FAILED


@pytest.mark.rule("B13")
def test_a_task_succeeds_only_with_an_answer_that_its_contract_accepts() -> None:
    assert judge(TASK, "SUCCEEDED", {"n": 1}) == advanced(StepStatus.SUCCEEDED)
    assert judge(TASK, "SUCCEEDED", {}) == review(StepStatus.NEEDS_REVIEW, ReviewReason.CONTRACT_VIOLATION)


@pytest.mark.rule("B13")
def test_a_failed_task_fails_its_step_and_an_unknown_one_asks_for_review() -> None:
    assert judge(TASK, "FAILED") == review(StepStatus.FAILED, ReviewReason.TASK_FAILED)
    assert judge(TASK, "UNKNOWN") == review(StepStatus.NEEDS_REVIEW, ReviewReason.EXECUTION_UNKNOWN)


@pytest.mark.rule("B11")
@pytest.mark.parametrize("leaf", [TASK, POLL], ids=["TASK", "POLL"])
def test_a_cancelled_task_cancels_its_step_and_asks_for_review(leaf: Spec) -> None:
    assert judge(leaf, "CANCELLED") == review(StepStatus.CANCELLED, ReviewReason.TASK_CANCELLED)


@pytest.mark.rule("B3")
def test_a_pending_answer_plans_the_next_round_while_rounds_are_left() -> None:
    pending = {"state": "wait"}
    planned = Verdict(disposition=Disposition.ROUND_PENDING, step=StepStatus.WAITING)
    assert judge(POLL, "SUCCEEDED", pending) == planned
    exhausted = review(StepStatus.NEEDS_REVIEW, ReviewReason.ROUNDS_EXHAUSTED)
    assert judge(POLL, "SUCCEEDED", pending, NO_MORE_ROUNDS) == exhausted


@pytest.mark.rule("B3")
def test_a_final_answer_counts_also_in_the_last_round() -> None:
    assert judge(POLL, "SUCCEEDED", {"state": "paid"}, NO_MORE_ROUNDS) == advanced(StepStatus.SUCCEEDED)


@pytest.mark.rule("B3", "B13")
@pytest.mark.parametrize(
    ("outcome", "payload", "step", "reason"),
    [
        ("FAILED", None, StepStatus.NEEDS_REVIEW, ReviewReason.REQUEST_FAILED),
        ("UNKNOWN", None, StepStatus.NEEDS_REVIEW, ReviewReason.EXECUTION_UNKNOWN),
        ("SUCCEEDED", {"state": "odd"}, StepStatus.NEEDS_REVIEW, ReviewReason.OUTCOME_INVALID),
        ("SUCCEEDED", {"state": "refused"}, StepStatus.FAILED, ReviewReason.OUTCOME_FAILED),
    ],
)
def test_a_query_asks_for_review_by_the_reason(outcome: str, payload: Any, step: StepStatus, reason: Any) -> None:
    assert judge(POLL, outcome, payload) == review(step, reason)


@pytest.mark.rule("B3")
def test_on_failure_fail_applies_to_a_failed_task_and_to_a_query_answered_failed() -> None:
    assert judge(FAILING_TASK, "FAILED") == advanced(StepStatus.FAILED, stops=True)
    assert judge(FAILING_POLL, "SUCCEEDED", {"state": "refused"}) == advanced(StepStatus.FAILED, stops=True)


@pytest.mark.rule("B3")
def test_on_failure_fail_applies_to_nothing_else() -> None:
    needs = StepStatus.NEEDS_REVIEW
    assert judge(FAILING_POLL, "FAILED") == review(needs, ReviewReason.REQUEST_FAILED)
    assert judge(FAILING_POLL, "SUCCEEDED", {}) == review(needs, ReviewReason.OUTCOME_INVALID)
    assert judge(FAILING_TASK, "UNKNOWN") == review(needs, ReviewReason.EXECUTION_UNKNOWN)
    assert judge(FAILING_TASK, "SUCCEEDED", {}) == review(needs, ReviewReason.CONTRACT_VIOLATION)
    assert judge(FAILING_TASK, "CANCELLED") == review(StepStatus.CANCELLED, ReviewReason.TASK_CANCELLED)


@pytest.mark.rule("B6", "B13")
@pytest.mark.parametrize("leaf", [TASK, FAILING_TASK], ids=["REVIEW", "FAIL"])
def test_under_a_stop_a_known_end_of_a_task_needs_nobody(leaf: Spec) -> None:
    assert judge(leaf, "FAILED", None, STOPPING) == recorded(StepStatus.FAILED)
    assert judge(leaf, "CANCELLED", None, STOPPING) == recorded(StepStatus.CANCELLED)
    assert judge(leaf, "SUCCEEDED", {"n": 1}, STOPPING) == advanced(StepStatus.SUCCEEDED)


@pytest.mark.rule("B6")
def test_under_a_stop_a_pending_answer_ends_the_query() -> None:
    for place in (STOPPING, replace(STOPPING, rounds_left=False)):
        assert judge(POLL, "SUCCEEDED", {"state": "wait"}, place) == recorded(StepStatus.CANCELLED)
    assert judge(POLL, "SUCCEEDED", {"state": "refused"}, STOPPING) == recorded(StepStatus.FAILED)


@pytest.mark.rule("B4", "B13")
@pytest.mark.parametrize(
    ("leaf", "outcome", "payload", "reason"),
    [
        (TASK, "UNKNOWN", None, ReviewReason.EXECUTION_UNKNOWN),
        (TASK, "SUCCEEDED", {}, ReviewReason.CONTRACT_VIOLATION),
        (POLL, "FAILED", None, ReviewReason.REQUEST_FAILED),
        (POLL, "SUCCEEDED", {}, ReviewReason.OUTCOME_INVALID),
    ],
)
def test_under_a_stop_what_nobody_understands_still_asks_for_review(
    leaf: Spec, outcome: str, payload: Any, reason: Any
) -> None:
    assert judge(leaf, outcome, payload, STOPPING) == review(StepStatus.NEEDS_REVIEW, reason)


@pytest.mark.rule("B4")
@pytest.mark.parametrize(
    "leaf", [TASK, FAILING_TASK, POLL, FAILING_POLL], ids=["TASK", "TASK-FAIL", "POLL", "POLL-FAIL"]
)
@pytest.mark.parametrize("outcome", ["SUCCEEDED", "FAILED", "CANCELLED"])
def test_a_result_moves_no_step_that_is_settled_or_went_on(leaf: Spec, outcome: str) -> None:
    old = judge(leaf, outcome, {"state": "refused"}, replace(HERE, is_current=False))
    assert old == Verdict(disposition=Disposition.STALE_ACTIVATION)
    settled = judge(leaf, outcome, {"state": "refused"}, replace(HERE, is_open=False))
    assert settled == Verdict(disposition=Disposition.STEP_ALREADY_SETTLED)


@pytest.mark.rule("B4")
def test_an_unknown_effect_asks_for_review_even_where_it_moves_no_step() -> None:
    for place, disposition in (
        (replace(HERE, is_current=False), Disposition.STALE_ACTIVATION),
        (replace(HERE, is_open=False), Disposition.STEP_ALREADY_SETTLED),
    ):
        for leaf in (TASK, POLL):
            assert judge(leaf, "UNKNOWN", None, place) == Verdict(
                disposition=disposition, reason=ReviewReason.EXECUTION_UNKNOWN
            )


@pytest.mark.rule("B9")
@pytest.mark.parametrize("outcome", ["SUCCEEDED", "FAILED", "UNKNOWN"])
@pytest.mark.parametrize("leaf", [TASK, FAILING_TASK, POLL], ids=["TASK", "TASK-FAIL", "POLL"])
def test_a_late_report_is_recorded_and_does_nothing(leaf: Spec, outcome: str) -> None:
    late = {"payload": {"n": 1, "state": "paid"}, "source": ResultSource.LATE}
    assert judge(leaf, outcome, **late) == Verdict(disposition=Disposition.STEP_ALREADY_SETTLED)
    old = judge(leaf, outcome, place=replace(HERE, is_current=False), **late)
    assert old == Verdict(disposition=Disposition.STALE_ACTIVATION)
