"""Claims: what is granted, to whom, and in which order of locks."""

from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from recovery import clock, permissions
from recovery.engine import claim as claiming
from recovery.engine.claim import claim
from recovery.errors import IdempotencyConflict, NotFound, PermissionDenied, ValidationFailed
from recovery.models import (
    Application,
    ApplicationQuota,
    ExecutionPermit,
    InstanceGate,
    ManagementOperation,
    Namespace,
    Queue,
    QueueQuota,
    Task,
    TaskAttempt,
)
from recovery.writes import change, change_where, insert
from tests.support.ledger import assert_ledger_holds, just_before_locking, locked_tables
from tests.support.threads import together
from tests.support.trees import MINUTE, parallel, task
from tests.support.world import World


def crowd(count: int, **fields: Any) -> Any:
    """So many tasks side by side: t00, t01 …"""
    return parallel(*(task(f"t{number:02}", **fields) for number in range(count)))


def steps(leases: list[Any]) -> list[str]:
    """The keys of the steps whose tasks were leased, in their order."""
    return [Task.objects.values_list("owner_activation__step__step_key", flat=True).get(pk=x.task.pk) for x in leases]


def test_a_claim_starts_an_attempt_with_a_lease_a_permit_and_a_count(world: World) -> None:
    flow = world.start(task("pay", policy={"concurrency_key": "account-7"}))
    before = flow.instance.revision
    [lease] = claim(world.worker, "bank", "worker 1")
    found = flow.task("pay")
    assert (found.status, found.revision, found.attempt_count) == ("RUNNING", 2, 1)
    attempt = TaskAttempt.objects.get(task=found)
    assert (attempt.status, attempt.attempt_no, attempt.worker) == ("RUNNING", 1, "worker 1")
    assert attempt.lease_expires_at == clock.now() + timedelta(seconds=30)
    permit = ExecutionPermit.objects.get(attempt=attempt)
    assert (permit.active_key, permit.released_at) == (f"{found.queue_id}:account-7", None)
    assert world.queue_quota().running == 1
    assert flow.instance.revision == before  # claims raise nothing
    assert (lease.task.pk, lease.attempt.lease_token, lease.input) == (found.pk, attempt.lease_token, found.input)


def test_tokens_are_derived_and_differ(world: World) -> None:
    world.start(crowd(2))
    tokens = {lease.attempt.lease_token for lease in world.claim_all()}
    assert len(tokens) == 2
    assert all(len(token) == 64 for token in tokens)


def test_priority_goes_first_then_what_has_waited_longest(world: World) -> None:
    low, high = task("low", policy={"priority": -1}), task("high", policy={"priority": 5})
    world.start(parallel(low, task("first"), high))
    world.travel(seconds=1)
    world.start(task("second"))
    assert steps(world.claim_all()) == ["high", "first", "second", "low"]


def test_a_worker_gets_only_what_it_can_handle(world: World) -> None:
    world.start(parallel(task("one"), task("two", handler_version="2"), task("three", handler="bank.refund")))
    assert world.claim_all(handlers=[]) == []
    assert world.claim_all(handlers=[("bank.transfer", "3")]) == []
    leases = world.claim_all(handlers=[("bank.transfer", "2"), ("bank.refund", "1")])
    assert sorted(steps(leases)) == ["three", "two"]


def test_no_more_than_asked_for(world: World) -> None:
    world.start(crowd(5))
    assert [len(world.claim_all(max_tasks=count)) for count in (2, 2, 2)] == [2, 2, 1]


def test_a_queue_runs_no_more_than_its_maximum(world: World) -> None:
    change(world.queue_quota(), max_running=3)
    world.start(crowd(5))
    leases = world.claim_all()
    assert len(leases) == 3
    with locked_tables() as tables:
        assert world.claim_all() == []
    assert tables == []  # workers that wait for room keep away from the queue's row
    world.succeed(leases[0])
    assert len(world.claim_all()) == 1
    assert_ledger_holds(world)


def test_under_a_closed_gate_nothing_is_granted_and_the_task_is_set_aside(world: World) -> None:
    flow = world.start(task("pay"))
    flow.pause()
    assert world.claim_all() == []
    assert flow.task("pay").held
    flow.resume()
    assert not flow.task("pay").held
    assert steps(world.claim_all()) == ["pay"]


def test_tasks_under_closed_gates_do_not_hide_others(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claiming, "LOOKAHEAD", 1)
    paused = world.start(crowd(5, policy={"priority": 9}))
    paused.pause()
    world.start(task("open"))
    assert steps(world.claim_all(max_tasks=1)) == ["open"]
    assert Task.objects.filter(held=True, instance_id=paused.id).count() == 5


def test_a_claim_looks_only_so_far(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claiming, "LOOKAHEAD", 1)
    monkeypatch.setattr(claiming, "ROUNDS", 2)
    paused = world.start(crowd(5))
    paused.pause()
    assert world.claim_all(max_tasks=1) == []
    assert Task.objects.filter(held=True).count() == 4
    assert world.claim_all(max_tasks=1) == []
    assert Task.objects.filter(held=True).count() == 5


@pytest.mark.rule("B2")
def test_a_concurrency_key_is_taken_by_one_task_at_a_time_and_kept_by_an_unknown_one(world: World) -> None:
    world.start(crowd(3, policy={"concurrency_key": "account-7", "priority": 1}))
    world.start(task("free"))
    first, free = world.claim_all()
    assert [lease.task.concurrency_key for lease in (first, free)] == ["account-7", None]
    assert world.claim_all() == []
    world.succeed(first)
    [second] = world.claim_all()
    world.unknown(second, run=False)
    assert world.claim_all() == []
    assert_ledger_holds(world)


def test_a_concurrency_key_is_of_one_queue(world: World) -> None:
    keyed = {"concurrency_key": "account-7"}
    world.start(parallel(task("bank", policy=keyed), task("mail", queue="mail", policy=keyed)))
    assert len(world.claim_all("bank")) == len(world.claim_all("mail")) == 1


@pytest.mark.rule("B1")
def test_a_task_waits_for_the_end_of_its_backoff(world: World) -> None:
    world.start(task("pay", policy={"backoff_ms": MINUTE}))
    world.fail(world.claim(), retryable=True)
    world.travel(seconds=59, microseconds=999_999)
    assert world.claim_all() == []
    world.travel(microseconds=1)
    assert world.claim().attempt.attempt_no == 2


@pytest.mark.parametrize("limits", [{"timeout_ms": MINUTE}, {"policy": {"latest_start_ms": MINUTE}}])
def test_a_task_does_not_start_once_its_time_is_reached(world: World, limits: dict[str, Any]) -> None:
    world.start(crowd(2, **limits))
    world.travel(seconds=59, microseconds=999_999, run=False)
    assert world.claim()
    world.travel(microseconds=1, run=False)
    assert world.claim_all() == []


def test_a_paused_queue_grants_nothing(world: World) -> None:
    world.start(task("pay"))
    change(world.queues["bank"], status="PAUSED")
    assert world.claim_all() == []
    change(world.queues["bank"], status="OPEN")
    assert world.claim_all()


def test_the_tasks_of_a_suspended_application_are_passed_over(world: World) -> None:
    world.start(task("pay"))
    change(world.application, status="SUSPENDED")
    assert world.claim_all() == []


def test_a_suspended_namespace_is_refused(world: World) -> None:
    change(world.namespace, status="SUSPENDED")
    with pytest.raises(PermissionDenied):
        world.claim_all()


def test_a_worker_of_one_application_gets_nothing_of_another(world: World) -> None:
    other = Application(namespace=world.namespace, name="shop", status="ACTIVE", created_at=clock.now())
    insert(other, ApplicationQuota(application=other, max_open_tasks=1, max_open_instances=1))
    world.start(task("pay"))
    mine = world.actor(permissions.WORK, queues=("bank",), application=world.application)
    theirs = world.actor(permissions.WORK, queues=("bank",), application=other)
    assert claim(theirs, "bank", "worker") == []
    assert len(claim(mine, "bank", "worker")) == 1


def test_both_rights_are_needed_and_the_queue_has_to_be_there(world: World) -> None:
    with pytest.raises(PermissionDenied, match="tasks:work"):
        claim(world.actor(queues=("bank",)), "bank", "worker")
    with pytest.raises(PermissionDenied, match="queues:use"):
        claim(world.actor(permissions.WORK, queues=("mail",)), "bank", "worker")
    with pytest.raises(NotFound):
        claim(world.worker, "absent", "worker")
    with pytest.raises(PermissionDenied):
        claim(world.actor(), "absent", "worker")


def test_a_queue_of_another_namespace_is_not_there(world: World) -> None:
    other = Namespace(name="other", display_name="Other", status="ACTIVE", created_at=clock.now())
    queue = Queue(namespace=other, name="far", status="OPEN", lease_ms=1000, created_at=clock.now())
    insert(other, queue, QueueQuota(queue=queue, max_open_tasks=1, max_running=1))
    with pytest.raises(NotFound):
        claim(world.worker, "far", "worker")


@pytest.mark.parametrize(
    ("wish", "field"),
    [
        ({"worker": ""}, "worker"),
        ({"worker": "w" * 129}, "worker"),
        ({"worker": "a\0b"}, "worker"),
        ({"max_tasks": 0}, "max_tasks"),
        ({"max_tasks": 101}, "max_tasks"),
        ({"max_tasks": True}, "max_tasks"),
        ({"handlers": [("", "1")]}, "handlers"),
        ({"key": "a key"}, "operation_key"),
    ],
)
def test_what_is_no_claim_is_refused_by_field(world: World, wish: dict[str, Any], field: str) -> None:
    with pytest.raises(ValidationFailed) as refusal:
        claim(world.worker, "bank", **{"worker": "worker", **wish})
    assert list(refusal.value.fields) == [field]


# With a key


def test_a_claim_repeated_with_its_key_answers_the_same_leases(world: World) -> None:
    world.start(crowd(3))
    first = world.claim_all(max_tasks=2, key="once")
    again = world.claim_all(max_tasks=2, key="once")
    assert [lease.attempt.lease_token for lease in again] == [lease.attempt.lease_token for lease in first]
    assert TaskAttempt.objects.count() == 2
    change(world.queues["bank"], status="PAUSED")
    assert len(world.claim_all(max_tasks=2, key="once")) == 2


def test_a_key_belongs_to_one_claim(world: World) -> None:
    world.start(crowd(3))
    world.claim_all(max_tasks=1, key="once")
    with pytest.raises(IdempotencyConflict):
        world.claim_all(max_tasks=2, key="once")


def test_a_claim_that_leased_nothing_leaves_its_key_free(world: World) -> None:
    assert world.claim_all(key="once") == []
    flow = world.start(task("pay"))
    flow.pause()
    assert world.claim_all(key="once") == []
    assert flow.task("pay").held
    assert not ManagementOperation.objects.filter(action="claim").exists()
    flow.resume()
    assert len(world.claim_all(key="once")) == 1


# Locks


def test_a_claim_locks_queue_gates_and_tasks(world: World) -> None:
    world.start(crowd(2))
    with locked_tables() as tables:
        assert world.claim_all(max_tasks=2)
    assert tables == ["QueueQuota", "InstanceGate", "Task"]


def test_a_claim_with_a_key_begins_with_the_key(world: World) -> None:
    world.start(task("pay"))
    with locked_tables() as tables:
        assert world.claim_all(key="once")
    assert tables == ["ManagementOperation", "QueueQuota", "InstanceGate", "Task"]


def test_setting_aside_locks_the_same_and_an_idle_claim_locks_nothing(world: World) -> None:
    world.start(task("pay")).pause()
    with locked_tables() as tables:
        world.claim_all()
    assert tables == ["QueueQuota", "QueueQuota", "InstanceGate", "Task"]  # two transactions
    with locked_tables() as tables:
        world.claim_all()
    assert tables == []


# What may come between a look and its lock


def test_a_gate_that_closes_meanwhile_grants_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    flow = world.start(task("pay"))
    gates = InstanceGate.objects.filter(instance_id=flow.id)
    just_before_locking(monkeypatch, InstanceGate, lambda: gates.update(state="CLOSED"))
    assert world.claim_all() == []
    assert flow.task("pay").status == "QUEUED"


@pytest.mark.rule("B1")
def test_a_task_that_the_reaper_fails_meanwhile_is_not_granted(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reaper locks the task alone, so the queue's lock does not keep it away."""
    flow = world.start(crowd(2))
    lost = Task.objects.filter(pk=flow.task("t00").pk)
    just_before_locking(monkeypatch, Task, lambda: change_where(lost, from_=["QUEUED"], status="FAILED"))
    assert steps(world.claim_all()) == ["t01"]
    assert_ledger_holds(world)


def test_a_task_whose_time_is_reached_meanwhile_is_not_granted(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What decides is the time after the last lock."""
    world.start(task("pay", timeout_ms=MINUTE))
    just_before_locking(monkeypatch, Task, lambda: world.traveller.shift(60))
    assert world.claim_all() == []


# Many at a time


@pytest.mark.django_db(transaction=True)
@pytest.mark.rule("B7")
def test_many_workers_get_every_task_once_and_no_more_than_may_run(world: World) -> None:
    change(world.queue_quota(), max_running=25)
    world.start(crowd(30))
    answers = together([partial(claim, world.worker, "bank", f"worker {number}", 3) for number in range(12)])
    leased = [lease.task.pk for leases in answers for lease in leases]
    assert len(leased) == len(set(leased)) == 25
    assert_ledger_holds(world)


@pytest.mark.django_db(transaction=True)
@pytest.mark.rule("B7")
def test_many_workers_keep_a_concurrency_key_to_one(world: World) -> None:
    world.start(crowd(6, policy={"concurrency_key": "account-7"}))
    world.start(crowd(6, policy={"concurrency_key": "account-8"}))
    answers = together([partial(claim, world.worker, "bank", f"worker {number}", 2) for number in range(8)])
    leased = [lease.task for leases in answers for lease in leases]
    assert {found.concurrency_key for found in leased} == {"account-7", "account-8"}
    assert len(leased) == 2
    assert_ledger_holds(world)


@pytest.mark.django_db(transaction=True)
@pytest.mark.rule("B7")
def test_many_claims_with_one_key_get_the_same_leases(world: World) -> None:
    world.start(crowd(4))
    answers = together([partial(claim, world.worker, "bank", "worker", 2, key="once") for _caller in range(8)])
    tokens = {tuple(lease.attempt.lease_token for lease in leases) for leases in answers}
    assert len(tokens) == 1
    assert TaskAttempt.objects.count() == 2


@pytest.mark.django_db(transaction=True)
def test_no_claim_slips_through_while_the_gate_closes(world: World) -> None:
    """Whatever comes first: a task that runs was granted before the pause, the others are not granted after it."""
    flows = [world.start(task("pay")) for _instance in range(6)]
    pauses: list[Any] = [partial(flow.pause, run=False) for flow in flows]
    together(pauses + [partial(world.claim_all, max_tasks=2)] * 4)
    granted = set(Task.objects.filter(status="RUNNING").values_list("pk", flat=True))
    assert world.claim_all() == []
    for flow in flows:
        flow.resume()
    assert len(granted) + len(world.claim_all()) == 6
    assert_ledger_holds(world)
