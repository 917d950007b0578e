"""Starting: everything that an instance needs is there at once, or nothing of it."""

from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from recovery import clock, permissions
from recovery.engine import start
from recovery.errors import IdempotencyConflict, PermissionDenied, QuotaExceeded, StateConflict, ValidationFailed
from recovery.models import (
    Application,
    ApplicationQuota,
    InstanceGate,
    ManagementOperation,
    RootContinuation,
    StepClock,
    WorkflowAudit,
    WorkflowInstance,
    WorkflowStep,
)
from recovery.writes import change, insert
from tests.support.threads import together
from tests.support.trees import HOUR, Node, parallel, sequence, task, timer
from tests.support.world import Flow, World

pytestmark = pytest.mark.django_db


def order(name: str, **fields: Any) -> Node:
    return {"application": "desk", "definition": name, "business_key": "order-a", "input": {}, **fields}


def other_application(world: World) -> Application:
    application = Application(namespace=world.namespace, name="shop", status="ACTIVE", created_at=clock.now())
    insert(application, ApplicationQuota(application=application, max_open_tasks=10, max_open_instances=10))
    return application


@pytest.fixture(name="payment")
def _payment(world: World) -> str:
    return world.publish(sequence(task("pay"), parallel(timer("wait"), key="both")), name="payment")["definition"]


def test_an_instance_starts_with_all_its_steps_and_what_the_scheduler_owes_it(world: World, payment: str) -> None:
    answer = start.start(world.operator, "key", order(payment, input={"order": "A-1"})).data
    flow = Flow(world, answer["instance_id"])
    instance = flow.instance
    assert (instance.status, instance.revision, instance.control_revision) == ("RUNNING", 1, 1)
    assert (instance.paused, instance.stop_kind, flow.gate) == (False, None, "OPEN")
    assert instance.input == {"order": "A-1"}
    assert instance.created_by == world.operator.username
    assert set(flow.statuses().items()) == {(key, "PENDING") for key in ("root", "pay", "both", "wait")}
    assert flow.continuations() == ["START"]
    assert world.application_quota().open_instances == 1


@pytest.mark.rule("B10")
def test_the_deadline_is_the_pinned_duration_after_the_start(world: World) -> None:
    flow = world.start(task("pay"), max_duration_ms=3 * HOUR)
    assert flow.instance.deadline_at == clock.now() + timedelta(hours=3)
    (deadline,) = flow.clocks("INSTANCE_DEADLINE")
    assert deadline.due_at == flow.instance.deadline_at


@pytest.mark.rule("G10")
def test_the_start_is_the_first_entry_of_the_audit(world: World, payment: str) -> None:
    flow = Flow(world, start.start(world.operator, "key", order(payment)).data["instance_id"])
    (entry,) = flow.audits()
    assert (entry.action, entry.actor, entry.sequence) == ("start", world.operator.username, 1)
    assert flow.instance.audit_head == f"1:{entry.entry_hash}"
    assert entry.operation == ManagementOperation.objects.get(operation_key="key", instance_id=flow.id)


def test_without_a_version_the_newest_is_pinned(world: World, payment: str) -> None:
    world.publish(task("pay"), name=payment)
    newest = start.start(world.operator, "key-1", order(payment, business_key="a")).data
    first = start.start(world.operator, "key-2", order(payment, business_key="b", version=1)).data
    assert (newest["version"], first["version"]) == (2, 1)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"application": "nobody"}, "application"),
        ({"definition": "nothing"}, "definition"),
        ({"version": 2}, "version"),
        ({"version": 0}, "version"),
        ({"version": "1"}, "version"),
        ({"version": True}, "version"),
        ({"business_key": ""}, "business_key"),
        ({"business_key": "k" * 192}, "business_key"),
        ({"business_key": "a\0b"}, "business_key"),
        ({"business_key": 5}, "business_key"),
        ({"input": 1.5}, "input"),
        ({"namespace": "other"}, "namespace"),
    ],
)
def test_a_field_that_is_wrong_is_refused_by_its_name(world: World, payment: str, fields: Node, field: str) -> None:
    with pytest.raises(ValidationFailed) as refused:
        start.start(world.operator, "key", order(payment, **fields))
    assert list(refused.value.fields) == [field]


def test_an_input_that_breaks_the_pinned_schema_is_refused(world: World) -> None:
    name = world.publish(task("pay"), input_schema={"type": "object", "required": ["order"]})["definition"]
    with pytest.raises(ValidationFailed) as refused:
        start.start(world.operator, "key", order(name, input={}))
    assert list(refused.value.fields) == ["input"]
    assert not WorkflowInstance.objects.exists()


def test_a_business_key_is_taken_for_ever_in_its_application_only(world: World, payment: str) -> None:
    world.start(payment, business_key="order-a").cancel()
    with pytest.raises(StateConflict):
        start.start(world.operator, "key", order(payment))
    other_application(world)
    assert start.start(world.operator, "key", order(payment, application="shop")).data["application"] == "shop"


def test_business_keys_differ_by_case_and_trailing_blank(world: World, payment: str) -> None:
    for key in ("order", "Order", "order "):
        world.start(payment, business_key=key)
    assert WorkflowInstance.objects.count() == 3


@pytest.mark.rule("G8")
def test_a_full_quota_leaves_nothing_behind_and_an_end_makes_room(world: World, payment: str) -> None:
    change(world.application_quota(), max_open_instances=1)
    running = world.start(payment)
    rows = (WorkflowInstance, WorkflowStep, InstanceGate, StepClock, RootContinuation, ManagementOperation)
    before = [model.objects.count() for model in (*rows, WorkflowAudit)]
    with pytest.raises(QuotaExceeded):
        start.start(world.operator, "key", order(payment))
    assert [model.objects.count() for model in (*rows, WorkflowAudit)] == before
    assert world.application_quota().open_instances == 1
    running.cancel()
    start.start(world.operator, "key", order(payment))
    assert world.application_quota().open_instances == 1


@pytest.mark.rule("G2")
def test_starting_needs_its_own_right(world: World, payment: str) -> None:
    with pytest.raises(PermissionDenied):
        start.start(world.actor(permissions.READ, permissions.PUBLISH), "key", order(payment))


@pytest.mark.rule("G1")
def test_a_credential_limited_to_one_application_starts_in_no_other(world: World, payment: str) -> None:
    shop = world.actor(permissions.START, application=other_application(world))
    with pytest.raises(PermissionDenied):
        start.start(shop, "key", order(payment))
    assert start.start(shop, "key", order(payment, application="shop"))


@pytest.mark.rule("G1")
@pytest.mark.parametrize("suspended", ["application", "namespace"])
def test_what_is_suspended_starts_nothing(world: World, payment: str, suspended: str) -> None:
    change(getattr(world, suspended), status="SUSPENDED")
    with pytest.raises(PermissionDenied):
        start.start(world.operator, "key", order(payment))


@pytest.mark.rule("G4")
def test_the_same_key_starts_once(world: World, payment: str) -> None:
    first = start.start(world.operator, "key", order(payment))
    again = start.start(world.operator, "key", order(payment))
    assert (again.replayed, again.body) == (True, first.body)
    assert WorkflowInstance.objects.count() == 1
    with pytest.raises(IdempotencyConflict):
        start.start(world.operator, "key", order(payment, business_key="order-b"))


@pytest.mark.django_db(transaction=True)
def test_of_two_starts_with_one_business_key_one_wins(world: World, payment: str) -> None:
    answers = together([partial(start.start, world.operator, key, order(payment)) for key in ("key-1", "key-2")])
    assert sorted(type(answer).__name__ for answer in answers) == ["Receipt", "StateConflict"]
    assert world.application_quota().open_instances == 1
