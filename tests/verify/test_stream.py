"""Results, events and inbox rows that do not fit together are named."""

from typing import Any

import pytest

from recovery.models import InboxEvent, ResultEvent, TaskResult
from recovery.verify import CHECKS, Scope
from tests.support.world import Flow
from tests.verify.breaking import put, remove, said
from tests.verify.conftest import Busy

pytestmark = pytest.mark.django_db


def _result(flow: Flow, key: str = "pay", number: int = -1) -> TaskResult:
    return flow.results(key)[number]


def _event(flow: Flow, key: str = "pay") -> ResultEvent:
    return ResultEvent.objects.get(result=_result(flow, key))


def _inbox(flow: Flow, key: str = "pay") -> InboxEvent:
    return InboxEvent.objects.get(result_event=_event(flow, key))


def test_a_settled_task_without_its_result(busy: Busy) -> None:
    for flow in (busy.done, busy.cancelled, busy.unknown):
        remove(_result(flow))
        assert "present revision has no result" in said("settled_tasks", flow.task("pay"))


def test_a_settled_task_whose_revision_went_on_without_a_result(busy: Busy) -> None:
    task = busy.done.task("pay")
    put(task, revision=task.revision + 1)
    said("settled_tasks", task)


def test_a_task_that_says_otherwise_than_its_authoritative_result(busy: Busy) -> None:
    """A late report says SUCCEEDED of the task whose review said FAILED: that one is not authoritative."""
    first = busy.reviewed.tasks("pay")[0]
    assert [result.source for result in TaskResult.objects.filter(task=first).order_by("task_revision")][-1] == "LATE"
    put(first, status="SUCCEEDED")
    assert said("settled_tasks", first) == "The task is SUCCEEDED, but its authoritative result says FAILED."


def test_a_settled_task_with_late_results_only(busy: Busy) -> None:
    put(_result(busy.done), source="LATE")
    assert said("settled_tasks", busy.done.task("pay")).endswith("says -.")


def test_an_open_task_with_a_result(busy: Busy) -> None:
    put(_result(busy.done), task_id=busy.query.task("query").pk)
    assert "is open" in said("settled_tasks", busy.query.task("query"))


def test_a_result_without_its_event(busy: Busy) -> None:
    result = _result(busy.done)
    remove(_event(busy.done))
    said("result_events", result)
    said("references", InboxEvent.objects.get(task=busy.done.task("pay")))


@pytest.mark.parametrize(
    ("field", "value"),
    [("task_id", "0" * 32), ("task_revision", 99), ("activation_id", "0" * 32), ("stream_id", "0" * 32)],
)
def test_an_event_of_something_else_than_its_result(busy: Busy, field: str, value: Any) -> None:
    put(_event(busy.done), **{field: value})
    said("result_events", _result(busy.done))


def test_an_event_that_no_inbox_received(busy: Busy) -> None:
    for flow, key in ((busy.done, "pay"), (busy.unconsumed, "second"), (busy.reviewed, "pay")):
        remove(_inbox(flow, key))
        said("inbox_rows", _event(flow, key))


@pytest.mark.parametrize(
    ("field", "value"),
    [("task_id", "0" * 32), ("task_revision", 99), ("activation_id", "0" * 32), ("instance_id", "0" * 32)],
)
def test_an_inbox_row_of_something_else_than_its_event(busy: Busy, field: str, value: Any) -> None:
    put(_inbox(busy.done), **{field: value})
    said("inbox_rows", _event(busy.done))


def test_a_disposition_without_a_consumption_and_the_other_way_round(busy: Busy) -> None:
    put(_inbox(busy.unconsumed, "second"), disposition="ADVANCED")
    said("dispositions", _inbox(busy.unconsumed, "second"))
    put(_inbox(busy.done), disposition="")
    said("dispositions", _inbox(busy.done))
    put(_inbox(busy.reviewed), processed_at=None)
    assert "nobody knows when" in said("dispositions", _inbox(busy.reviewed))


@pytest.mark.rule("B4")
@pytest.mark.parametrize("status", ["PENDING", "QUARANTINED"])
def test_an_event_that_a_later_one_overtook(busy: Busy, status: str) -> None:
    first = _inbox(busy.unconsumed, "first")
    put(first, status=status)
    put(_inbox(busy.unconsumed, "second"), status="PROCESSED")
    said("consumed_in_order", first)


def test_a_hole_in_the_stream(busy: Busy) -> None:
    events = list(ResultEvent.objects.order_by("offset"))
    remove(events[2])
    assert said("offsets", events[3]) == f"There is no offset {events[2].offset} before it."


def test_a_stream_that_lost_its_beginning(busy: Busy) -> None:
    first, second = ResultEvent.objects.order_by("offset")[:2]
    remove(first)
    said("offsets", second)


@pytest.mark.parametrize("by", [1, -1])
def test_a_stream_that_goes_on_elsewhere_than_behind_its_last_event(busy: Busy, by: int) -> None:
    stream = busy.world.stream()
    put(stream, next_offset=stream.next_offset + by)
    said("offsets", stream)


def test_a_stream_that_lost_its_end(busy: Busy) -> None:
    remove(ResultEvent.objects.order_by("-offset")[0])
    said("offsets", busy.world.stream())


def test_an_empty_stream_that_has_counted(busy: Busy) -> None:
    stream = busy.world.stream()
    ResultEvent.objects.all().delete()
    assert said("offsets", stream).endswith("the last one that was used is 0.")
    put(stream, next_offset=1)
    assert CHECKS["offsets"].look(Scope()).violations == ()
