"""Counters, holds, permits and running attempts that do not agree are named."""

import pytest
from django.db.models import F

from recovery.models import ApplicationQuota, ExecutionPermit, QueueQuota, QuotaHold, Task
from tests.verify.breaking import put, remove, said
from tests.verify.conftest import Busy

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("by", [1, -1])
@pytest.mark.parametrize(
    ("check", "counter"), [("application_tasks", "open_tasks"), ("application_instances", "open_instances")]
)
def test_an_application_that_counts_wrong(busy: Busy, check: str, counter: str, by: int) -> None:
    quota = busy.world.application_quota()
    real = getattr(quota, counter)
    put(quota, **{counter: F(counter) + by})
    assert said(check, quota) == f"{counter} says {real + by}, but there are {real}."


@pytest.mark.parametrize("by", [1, -1])
@pytest.mark.parametrize(("check", "counter"), [("queue_tasks", "open_tasks"), ("queue_running", "running")])
def test_a_queue_that_counts_wrong(busy: Busy, check: str, counter: str, by: int) -> None:
    for name in ("bank", "mail"):
        quota = busy.world.queue_quota(name)
        real = getattr(quota, counter)
        put(quota, **{counter: F(counter) + by})
        assert said(check, quota) == f"{counter} says {real + by}, but there are {real}."


def test_a_counter_of_what_is_not_there_at_all(busy: Busy) -> None:
    queue = busy.world.add_queue("idle")
    quota = QueueQuota.objects.get(queue=queue)
    put(quota, open_tasks=1, running=1)
    said("queue_tasks", quota)
    said("queue_running", quota)


def test_a_hold_that_was_given_back_too_early(busy: Busy) -> None:
    hold = QuotaHold.objects.get(task=busy.unknown.task("pay"))
    put(hold, released_at=hold.held_at)
    assert "holds nothing" in said("holds", busy.unknown.task("pay"))
    said("queue_tasks", busy.world.queue_quota("bank"))
    said("application_tasks", busy.world.application_quota())


def test_an_open_task_that_never_had_a_hold(busy: Busy) -> None:
    remove(QuotaHold.objects.get(task=busy.query.task("query")))
    said("holds", busy.query.task("query"))


@pytest.mark.parametrize("field", ["application_id", "queue_id"])
def test_a_hold_of_another_application_or_queue(busy: Busy, field: str) -> None:
    put(QuotaHold.objects.get(task=busy.query.task("query")), **{field: "0" * 32})
    said("holds", busy.query.task("query"))


def test_a_hold_that_was_not_given_back(busy: Busy) -> None:
    hold = QuotaHold.objects.get(task=busy.done.task("pay"))
    put(hold, released_at=None)
    assert "still open" in said("holds", hold)


def _permit(task: Task) -> ExecutionPermit:
    return ExecutionPermit.objects.get(task=task)


def test_a_running_attempt_without_its_permit(busy: Busy) -> None:
    permit = _permit(busy.retried.task("pay"))
    put(permit, released_at=permit.attempt.started_at)
    assert "too early" in said("permits", permit)
    said("queue_running", busy.world.queue_quota("mail"))


def test_an_unknown_effect_without_its_permit(busy: Busy) -> None:
    permit = _permit(busy.unknown.task("pay"))
    put(permit, released_at=permit.attempt.started_at)
    said("permits", permit)


def test_an_attempt_that_never_had_a_permit(busy: Busy) -> None:
    remove(_permit(busy.done.task("pay")))
    assert "never had" in said("permits", busy.done.attempts("pay")[0])


def test_a_permit_that_was_not_given_back(busy: Busy) -> None:
    for task in (busy.done.task("pay"), *busy.reviewed.tasks("pay")):
        put(_permit(task), released_at=None)
        assert "not given back" in said("permits", _permit(task))


def test_a_key_that_a_given_back_permit_occupies(busy: Busy) -> None:
    permit = _permit(busy.retried.tasks("pay")[0])
    put(permit, active_key="anything")
    assert "still occupies" in said("concurrency_keys", permit)


@pytest.mark.parametrize("key", [None, "anything"])
def test_a_taken_permit_that_does_not_occupy_its_tasks_key(busy: Busy, key: str | None) -> None:
    for flow in (busy.retried, busy.unknown):
        put(_permit(flow.task("pay")), active_key=key and f"{key}-{flow.id}")
        said("concurrency_keys", _permit(flow.task("pay")))


def test_a_taken_permit_that_occupies_a_key_which_its_task_has_not(busy: Busy) -> None:
    put(busy.retried.task("pay"), concurrency_key=None)
    assert "has not" in said("concurrency_keys", _permit(busy.retried.task("pay")))


def test_a_running_task_that_nobody_runs(busy: Busy) -> None:
    task = busy.retried.task("pay")
    put(busy.retried.attempts("pay")[0], status="UNKNOWN")
    assert said("running_attempts", task) == "The task is RUNNING with 0 running attempts."


@pytest.mark.parametrize("status", ["QUEUED", "SUCCEEDED", "NEEDS_REVIEW"])
def test_a_task_that_somebody_runs_without_its_knowing(busy: Busy, status: str) -> None:
    task = busy.retried.task("pay")
    put(task, status=status)
    assert said("running_attempts", task) == f"The task is {status} with 1 running attempts."


def test_a_quota_of_another_namespace_is_not_looked_at(busy: Busy) -> None:
    quota = busy.world.application_quota()
    put(quota, open_tasks=999)
    said("application_tasks", quota, namespace_id=busy.world.namespace.pk)
    with pytest.raises(AssertionError, match="does not name"):
        said("application_tasks", quota, namespace_id="another")
    assert ApplicationQuota.objects.count() == 1
