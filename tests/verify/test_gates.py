"""Work that was granted or left over where nothing may be is named."""

from datetime import datetime, timedelta

import pytest

from recovery.models import InboxEvent, InstanceGate, RootContinuation, StepClock, TaskAttempt, WorkflowAudit
from recovery.verify import CHECKS, Scope
from recovery.verify.gates import SKEW
from tests.support.recovering import recover
from tests.support.world import Flow
from tests.verify.breaking import put, remove, said
from tests.verify.conftest import Busy

pytestmark = pytest.mark.django_db

LATER = SKEW + timedelta(microseconds=1)


def _gate(flow: Flow) -> InstanceGate:
    return InstanceGate.objects.get(instance_id=flow.id)


@pytest.mark.rule("B5")
def test_a_gate_that_is_open_where_nothing_may_start(busy: Busy) -> None:
    for flow in (busy.unknown, busy.cancelled, busy.done):
        put(_gate(flow), state="OPEN")
        assert "nothing may start" in said("gates", _gate(flow))


@pytest.mark.parametrize("field", [{"paused": True}, {"stop_kind": "CANCEL"}])
def test_a_gate_that_a_pause_or_a_stop_did_not_close(busy: Busy, field: dict[str, object]) -> None:
    put(busy.query.instance, **field)
    said("gates", _gate(busy.query))


def test_a_gate_that_nothing_keeps_closed(busy: Busy) -> None:
    put(_gate(busy.query), state="CLOSED")
    assert "nothing keeps it" in said("gates", _gate(busy.query))


def test_an_instance_without_a_gate(busy: Busy) -> None:
    remove(_gate(busy.query))
    assert "no gate" in said("gates", busy.query.instance)


def _begin(flow: Flow, moment: datetime) -> TaskAttempt:
    attempt = flow.attempts("pay")[-1]
    put(attempt, started_at=moment)
    return attempt


def _audited(flow: Flow, action: str) -> datetime:
    return WorkflowAudit.objects.filter(instance_id=flow.id, action=action).latest("sequence").created_at


def _is_clean(name: str) -> bool:
    return CHECKS[name].look(Scope()).violations == ()


def test_an_attempt_after_the_end(busy: Busy) -> None:
    ended = busy.done.instance.settled_at
    assert ended is not None
    _begin(busy.done, ended + SKEW)
    assert _is_clean("grants")
    assert "after its instance had ended" in said("grants", _begin(busy.done, ended + LATER))


def test_an_attempt_in_a_review_that_goes_on(busy: Busy) -> None:
    closed = _audited(busy.unknown, "raise_review")
    _begin(busy.unknown, closed + SKEW)
    assert _is_clean("grants")
    assert "had closed the gate" in said("grants", _begin(busy.unknown, closed + LATER))


def test_an_attempt_between_a_review_and_its_end(busy: Busy) -> None:
    """The retried task was granted after Continue. A moment in the review was too early."""
    closed, opened = _audited(busy.retried, "raise_review"), _audited(busy.retried, "continue")
    assert opened - closed > 2 * LATER
    _begin(busy.retried, opened - SKEW)
    assert _is_clean("grants")
    for moment in (opened - LATER, closed + LATER):
        said("grants", _begin(busy.retried, moment))


def test_an_attempt_in_a_pause(busy: Busy) -> None:
    busy.query.pause()
    paused = _audited(busy.query, "pause")
    busy.world.travel(seconds=10, run=False)
    busy.query.resume(run=False)
    attempt = TaskAttempt.objects.filter(task=busy.query.tasks("query")[0]).get()
    put(attempt, started_at=paused + LATER)
    assert "had closed the gate" in said("grants", attempt)


def test_an_attempt_after_continue_while_paused(busy: Busy) -> None:
    """Continue does not open the gate of a paused instance (CO2)."""
    flow = busy.unknown
    flow.pause()
    recover(flow, "review-task", "pay")
    recover(flow, "resolve-step", "pay")
    recover(flow, "continue")
    assert flow.status == "RUNNING"
    said("grants", _begin(flow, _audited(flow, "continue") + LATER))


def test_an_attempt_after_a_stop(busy: Busy) -> None:
    """Of a stop that no audit tells of, because the workflow itself failed, its continuation tells."""
    stop = RootContinuation.objects.get(instance_id=busy.cancelled.id, kind="STOP", sequence=2)
    put(busy.cancelled.instance, settled_at=None)
    task = busy.cancelled.task("pay")
    attempt = busy.done.attempts("pay")[0]
    put(attempt, task_id=task.pk, started_at=stop.created_at + LATER)
    assert "after a stop" in said("grants", attempt)


def test_an_end_without_a_time_and_a_time_without_an_end(busy: Busy) -> None:
    put(busy.done.instance, settled_at=None)
    assert "nobody knows when" in said("ends", busy.done.instance)
    put(busy.query.instance, settled_at=busy.query.instance.created_at)
    assert "has not ended" in said("ends", busy.query.instance)


@pytest.mark.rule("B10")
@pytest.mark.parametrize("status", ["QUEUED", "RUNNING", "NEEDS_REVIEW"])
def test_a_task_that_an_end_left_over(busy: Busy, status: str) -> None:
    put(busy.done.task("pay"), status=status)
    assert "ended without it" in said("ends", busy.done.task("pay"))


@pytest.mark.rule("B10")
@pytest.mark.parametrize("status", ["PENDING", "QUARANTINED"])
def test_an_event_that_an_end_left_over_unless_it_is_a_late_report(busy: Busy, status: str) -> None:
    event = InboxEvent.objects.get(instance_id=busy.done.id)
    put(event, status=status)
    assert "without consuming it" in said("ends", event)
    put(event, status="PROCESSED")
    late = InboxEvent.objects.get(instance_id=busy.reviewed.id, result_event__result__source="LATE")
    put(late, status="PENDING")
    assert _is_clean("ends")


def test_a_clock_that_an_end_left_armed(busy: Busy) -> None:
    clock = StepClock.objects.filter(instance_id=busy.done.id).latest("due_at")
    put(clock, status="ARMED")
    assert "has ended" in said("ends", clock)
