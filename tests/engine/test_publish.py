"""Publishing: the whole document is checked, the same content is the same version, nothing is left by a refusal."""

import copy
from functools import partial
from typing import Any

import pytest

from recovery import definitions, exact_json, permissions
from recovery.engine import document, publish
from recovery.errors import IdempotencyConflict, PermissionDenied, ValidationFailed
from recovery.models import (
    DefinitionQueue,
    DefinitionVersion,
    ManagementOperation,
    Namespace,
    OperationReceipt,
    StepDefinition,
    WorkflowDefinition,
)
from recovery.writes import change
from tests.support.threads import together
from tests.support.trees import HOUR, Node, parallel, poll, receipt, sequence, signal, task, timer
from tests.support.world import World, make_world

pytestmark = pytest.mark.django_db


def definition(root: Any, **fields: Any) -> Node:
    return {"name": "payment", "input_schema": True, "max_duration_ms": HOUR, "root": root, **fields}


def problems(root: Any, **fields: Any) -> dict[str, list[str]]:
    """The fields that are refused, of a document with this tree."""
    with pytest.raises(ValidationFailed) as refused:
        document.check(definition(root, **fields))
    return refused.value.fields


def test_a_version_pins_tree_contracts_limits_and_queues(world: World) -> None:
    answer = world.publish(
        sequence(
            task("pay", policy={"on_failure": "FAIL", "priority": 7, "backoff_ms": 0}, timeout_ms=5_000),
            parallel(poll("ask", queue="mail"), timer("wait"), key="both"),
            signal("receipt", signal=receipt(correlation={"$from": "/steps/pay/output/number"})),
        ),
        input_schema={"type": "object"},
    )
    pinned = definitions.load(answer["version_id"])
    assert list(pinned.steps) == ["root", "pay", "both", "ask", "wait", "receipt"]
    assert pinned.steps["root"].children == ("pay", "both", "receipt")
    assert pinned.steps["both"].children == ("ask", "wait")
    assert pinned.steps["pay"].fails_workflow
    assert (pinned.steps["pay"].priority, pinned.steps["pay"].timeout_ms) == (7, 5_000)
    assert pinned.steps["pay"].output_contract is True
    assert pinned.steps["ask"].outcome_map == poll("ask")["outcome_map"]
    assert pinned.queue_ids == tuple(sorted(queue.pk for queue in world.queues.values()))
    assert pinned.quota_ids == tuple(sorted([world.queue_quota("bank").pk, world.queue_quota("mail").pk]))
    assert pinned.input_schema == {"type": "object"}


def test_other_content_is_the_next_version_and_the_same_content_the_same_one(world: World) -> None:
    first = world.publish(task("pay"), name="payment")
    second = world.publish(task("pay", max_attempts=4), name="payment")
    again = world.publish(task("pay"), name="payment")
    assert [first["version"], second["version"], again["version"]] == [1, 2, 1]
    assert (first["created"], again["created"]) == (True, False)
    assert again["version_id"] == first["version_id"]
    assert DefinitionVersion.objects.count() == 2


def test_numbers_are_the_same_by_value_whatever_their_spelling(world: World) -> None:
    first = world.publish(task("pay", input=exact_json.loads('{"rate": 1.10}')), name="payment")
    again = world.publish(task("pay", input=exact_json.loads('{"rate": 1.1}')), name="payment")
    assert again["version_id"] == first["version_id"]


@pytest.mark.rule("G4")
def test_the_same_key_answers_the_first_receipt_and_another_document_is_refused(world: World) -> None:
    first = publish.publish(world.operator, "key-1", definition(task("pay")))
    world.publish(task("pay", max_attempts=9), name="payment")
    again = publish.publish(world.operator, "key-1", definition(task("pay")))
    assert (again.replayed, again.body) == (True, first.body)
    with pytest.raises(IdempotencyConflict):
        publish.publish(world.operator, "key-1", definition(task("book")))
    assert OperationReceipt.objects.get(operation__operation_key="key-1").instance_revision == 0


def test_names_differ_by_case_accent_and_trailing_blank(world: World) -> None:
    for name in ("pay", "Pay", "páy", "pay "):
        assert world.publish(task("pay"), name=name)["version"] == 1
    assert WorkflowDefinition.objects.count() == 4


@pytest.mark.rule("G2")
def test_publishing_needs_its_own_right(world: World) -> None:
    with pytest.raises(PermissionDenied):
        publish.publish(world.actor(permissions.START, permissions.READ), "key", definition(task("pay")))


@pytest.mark.rule("G1")
def test_a_suspended_namespace_publishes_nothing(world: World) -> None:
    change(Namespace.objects.get(pk=world.namespace.pk), status="SUSPENDED")
    with pytest.raises(PermissionDenied):
        publish.publish(world.operator, "key", definition(task("pay")))


def test_a_refused_document_leaves_nothing_and_its_key_is_free(world: World) -> None:
    with pytest.raises(ValidationFailed) as refused:
        publish.publish(world.operator, "key", definition(sequence(task("pay", queue="nowhere"), task("book"))))
    assert list(refused.value.fields) == ["root.children.0.queue"]
    for model in (WorkflowDefinition, DefinitionVersion, StepDefinition, DefinitionQueue, ManagementOperation):
        assert not model.objects.exists()
    assert publish.publish(world.operator, "key", definition(task("pay"))).data["version"] == 1


def test_a_queue_of_another_namespace_is_not_there(world: World) -> None:
    make_world(world.traveller, name="other").add_queue("theirs")
    with pytest.raises(ValidationFailed):
        publish.publish(world.operator, "key", definition(task("pay", queue="theirs")))


@pytest.mark.django_db(transaction=True)
def test_publishers_of_one_new_name_get_versions_one_after_the_other(world: World) -> None:
    documents = [definition(task("pay", max_attempts=number)) for number in range(1, 5)]
    answers = together(
        [partial(publish.publish, world.operator, f"key-{number}", asked) for number, asked in enumerate(documents)]
    )
    assert sorted(answer.data["version"] for answer in answers) == [1, 2, 3, 4]
    assert WorkflowDefinition.objects.count() == 1


# What a document must look like


@pytest.mark.parametrize("name", ["name", "input_schema", "max_duration_ms", "root"])
def test_a_document_lacks_none_of_its_members(name: str) -> None:
    incomplete = definition(task("pay"))
    del incomplete[name]
    with pytest.raises(ValidationFailed) as refused:
        document.check(incomplete)
    assert list(refused.value.fields) == [name]


@pytest.mark.parametrize("value", [None, 5, "text", ["list"]])
def test_a_document_is_an_object(value: Any) -> None:
    with pytest.raises(ValidationFailed) as refused:
        document.check(value)
    assert list(refused.value.fields) == ["document"]


@pytest.mark.parametrize(
    ("root", "path"),
    [
        # Members that no node, or no node of that kind, has
        (task("pay", colour="red"), "root.colour"),
        (task("pay", children=[]), "root.children"),
        (task("pay", delay_ms=5), "root.delay_ms"),
        (task("pay", signal=receipt()), "root.signal"),
        (timer("wait", policy={}), "root.policy"),
        (signal("wait", output_contract=True), "root.output_contract"),
        ({**sequence(task("pay")), "queue": "bank"}, "root.queue"),
        (sequence(task("pay", colour="red")), "root.children.0.colour"),
        # Members that a node lacks
        ({"kind": "TIMER", "delay_ms": 1}, "root.key"),
        ({"key": "pay"}, "root.kind"),
        ({"key": "all", "kind": "SEQUENCE"}, "root.children"),
        ({"key": "wait", "kind": "TIMER"}, "root.delay_ms"),
        ({"key": "wait", "kind": "SIGNAL"}, "root.signal"),
        # Values
        (5, "root"),
        (task("pay", kind="WISH"), "root.kind"),
        (task("pay", kind=["TASK"]), "root.kind"),
        (task(""), "root.key"),
        (task("k" * 129), "root.key"),
        (task("with blank"), "root.key"),
        (task("nul\0"), "root.key"),
        ({**parallel(), "children": []}, "root.children"),
        ({**parallel(), "children": {}}, "root.children"),
        (task("pay", max_attempts=0), "root.max_attempts"),
        (task("pay", max_attempts=101), "root.max_attempts"),
        (task("pay", max_attempts=True), "root.max_attempts"),
        (task("pay", max_attempts="3"), "root.max_attempts"),
        (task("pay", timeout_ms=0), "root.timeout_ms"),
        (task("pay", timeout_ms=-5), "root.timeout_ms"),
        (task("pay", timeout_ms=2**63), "root.timeout_ms"),
        (poll("ask", interval_ms=0), "root.interval_ms"),
        (poll("ask", max_rounds=0), "root.max_rounds"),
        (poll("ask", total_timeout_ms=None), "root.total_timeout_ms"),
        (timer("wait", delay_ms=0), "root.delay_ms"),
        (task("pay", handler=""), "root.handler"),
        (task("pay", handler_version="1" * 33), "root.handler_version"),
        (task("pay", queue=5), "root.queue"),
        # Contracts
        (task("pay", output_contract={"type": "nothing"}), "root.output_contract"),
        (task("pay", output_contract={"$ref": "https://example.org/schema"}), "root.output_contract"),
        (signal("wait", signal=receipt(schema=5)), "root.signal.schema"),
        # Policy
        (task("pay", policy=[]), "root.policy"),
        (task("pay", policy={"colour": "red"}), "root.policy.colour"),
        (task("pay", policy={"on_failure": "IGNORE"}), "root.policy.on_failure"),
        (task("pay", policy={"retryable_errors": "TIMEOUT"}), "root.policy.retryable_errors"),
        (task("pay", policy={"retryable_errors": ["TIMEOUT", 5]}), "root.policy.retryable_errors.1"),
        (task("pay", policy={"backoff_ms": -1}), "root.policy.backoff_ms"),
        (task("pay", policy={"priority": 1.5}), "document"),
        (task("pay", policy={"priority": 2**31}), "root.policy.priority"),
        (task("pay", policy={"business_key": 5}), "root.policy.business_key"),
        (task("pay", policy={"concurrency_key": {"key": 5}}), "root.policy.concurrency_key"),
        (task("pay", policy={"latest_start_ms": 0}), "root.policy.latest_start_ms"),
        # Outcome map
        (poll("ask", outcome_map=[]), "root.outcome_map"),
        (poll("ask", outcome_map={"SUCCEEDED": ["done"]}), "root.outcome_map.pointer"),
        (poll("ask", outcome_map={"pointer": "state", "SUCCEEDED": ["done"]}), "root.outcome_map.pointer"),
        (poll("ask", outcome_map={"pointer": "/~2", "SUCCEEDED": ["done"]}), "root.outcome_map.pointer"),
        (poll("ask", outcome_map={"pointer": "/state"}), "root.outcome_map.SUCCEEDED"),
        (poll("ask", outcome_map={"pointer": "/state", "SUCCEEDED": []}), "root.outcome_map.SUCCEEDED"),
        (poll("ask", outcome_map={"pointer": "", "SUCCEEDED": [1], "WISH": [2]}), "root.outcome_map.WISH"),
        (poll("ask", outcome_map={"pointer": "", "SUCCEEDED": [1], "FAILED": [1]}), "root.outcome_map.FAILED"),
        # Signal
        (signal("wait", signal={}), "root.signal.name"),
        (signal("wait", signal=receipt(extra=1)), "root.signal.extra"),
        (signal("wait", signal=receipt(correlation=5)), "root.signal.correlation"),
        (poll("ask", signal=receipt(name="")), "root.signal.name"),
        # Templates
        (task("pay", input={"$from": "/instance/input", "more": 1}), "root.input"),
        (task("pay", input=[{"$from": 5}]), "root.input.0.$from"),
        (task("pay", input={"$from": "instance/input"}), "root.input.$from"),
        (task("pay", input={"$from": "/instance/output"}), "root.input"),
        (task("pay", input={"$from": "/steps/pay/input"}), "root.input"),
        (task("pay", input={"$from": "/steps/other/output"}), "root.input"),
        (task("pay", input={"$from": "/steps/pay/output"}), "root.input"),
        (task("pay", policy={"business_key": {"$from": "/steps/other/output"}}), "root.policy.business_key"),
        (poll("ask", signal=receipt(correlation={"$from": "/steps/other/output"})), "root.signal.correlation"),
        # Trees
        (sequence(task("pay"), task("pay")), "root.children.1.key"),
        (sequence(task("root")), "root.children.0.key"),
    ],
)
def test_a_field_that_is_wrong_is_refused_by_its_path(root: Any, path: str) -> None:
    assert path in problems(root)


def test_all_wrong_fields_are_told_at_once() -> None:
    found = problems(sequence(task("pay", max_attempts=0), timer("wait", delay_ms="soon")))
    assert set(found) == {"root.children.0.max_attempts", "root.children.1.delay_ms"}


@pytest.mark.parametrize("key", ["earlier", "inside", "box"])
def test_a_template_may_name_what_has_always_succeeded_before(key: str) -> None:
    named = task("late", input={"$from": f"/steps/{key}/output/number"})
    tree = sequence(
        task("earlier"), parallel(task("inside"), key="box"), parallel(sequence(named, key="deep"), key="b")
    )
    assert "late" in document.check(definition(tree)).nodes


@pytest.mark.parametrize(
    "tree",
    [
        pytest.param(lambda named: sequence(named, task("other")), id="later"),
        pytest.param(lambda named: parallel(task("other"), named), id="at the same time"),
        pytest.param(lambda named: sequence(parallel(named, key="other")), id="around it"),
    ],
)
def test_a_template_may_not_name_what_has_not_succeeded_before(tree: Any) -> None:
    assert problems(tree(task("named", input={"$from": "/steps/other/output"})))


def test_pointers_are_unescaped_before_they_are_compared() -> None:
    named = task("late", input={"$from": "/steps/a~1b/output"})
    assert document.check(definition(sequence(task("a/b"), named)))


def test_a_document_has_at_most_5000_steps() -> None:
    one = timer("t")
    leaves = [{**one, "key": f"t{number}"} for number in range(document.MAX_STEPS - 1)]
    assert len(document.check(definition(parallel(*leaves))).nodes) == document.MAX_STEPS
    assert "root" in problems(parallel(*leaves, timer("one-more")))


def test_a_document_is_neither_too_deep_nor_too_large() -> None:
    deep = task("pay")
    for number in range(40):
        deep = sequence(deep, key=f"s{number}")
    assert "document" in problems(deep)
    assert "document" in problems(task("pay", input="x" * (1024 * 1024)))


def test_a_document_is_not_changed_by_the_check() -> None:
    sent = definition(sequence(task("pay"), poll("ask")))
    before = copy.deepcopy(sent)
    document.check(sent)
    assert sent == before
