"""Deadlines that moved are named."""

from datetime import timedelta

import pytest

from recovery.models import PollRound, StepClock
from tests.verify.breaking import put, said
from tests.verify.conftest import Busy

pytestmark = pytest.mark.django_db

A_MICROSECOND = timedelta(microseconds=1)


@pytest.mark.parametrize("by", [A_MICROSECOND, -A_MICROSECOND, timedelta(days=365)])
def test_a_deadline_of_an_instance_that_moved(busy: Busy, by: timedelta) -> None:
    instance = busy.done.instance
    put(instance, deadline_at=instance.deadline_at + by)
    said("instance_deadlines", instance)


@pytest.mark.rule("RY4")
@pytest.mark.parametrize("field", ["deadline_at", "latest_start_at"])
@pytest.mark.parametrize("is_lost", [False, True])
def test_a_retry_that_was_timed_anew(busy: Busy, field: str, is_lost: bool) -> None:
    retry = busy.reviewed.task("pay")
    put(retry, **{field: None if is_lost else getattr(retry, field) + A_MICROSECOND})
    said("retry_deadlines", retry)


def test_a_retry_that_got_a_deadline_which_its_predecessor_had_not(busy: Busy) -> None:
    retry = busy.retried.task("pay")
    assert retry.deadline_at is None
    put(retry, deadline_at=retry.created_at)
    said("retry_deadlines", retry)


@pytest.mark.rule("RY4")
def test_a_query_that_was_timed_anew(busy: Busy) -> None:
    poll = busy.query.poll("query")
    put(poll, deadline_at=poll.deadline_at + A_MICROSECOND)
    said("wait_deadlines", poll)


@pytest.mark.rule("RY4")
def test_a_round_whose_deadline_is_not_that_of_its_first_task(busy: Busy) -> None:
    for number in range(3):
        row = busy.query.rounds("query")[number]
        put(row, deadline_at=row.deadline_at + A_MICROSECOND)
        said("round_deadlines", row)
    assert PollRound.objects.count() == 3


@pytest.mark.rule("RW2", "RW4")
@pytest.mark.parametrize(("flow", "key"), [("waiting", "receipt"), ("waiting", "delay"), ("query", "query")])
@pytest.mark.parametrize("is_lost", [False, True])
def test_a_wait_that_was_timed_anew(busy: Busy, flow: str, key: str, is_lost: bool) -> None:
    wait = getattr(busy, flow).wait(key)
    put(wait, deadline_at=None if is_lost else wait.deadline_at + A_MICROSECOND)
    said("wait_deadlines", wait)


@pytest.mark.parametrize("kind", ["TASK_DEADLINE", "POLL_DEADLINE", "TIMER", "WAIT_DEADLINE", "INSTANCE_DEADLINE"])
def test_a_clock_that_is_due_at_another_time_than_its_deadline(busy: Busy, kind: str) -> None:
    for clock in StepClock.objects.filter(kind=kind):
        put(clock, due_at=clock.due_at - A_MICROSECOND)
        assert kind in said("clocks", clock)
    assert StepClock.objects.filter(kind=kind).exists()
