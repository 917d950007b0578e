"""Owners, numbers, budgets and deadlines that do not fit together are named."""

from datetime import timedelta
from typing import Any

import pytest
from django.db.models import F

from recovery.models import (
    ActivationTask,
    DefinitionQueue,
    DefinitionVersion,
    PollRound,
    StepActivation,
    StepClock,
    StepDefinition,
    Task,
    TaskAttempt,
    WorkflowInstance,
)
from recovery.models.catalogue import entities
from recovery.verify import CHECKS, Scope
from tests.support.world import Flow
from tests.verify.breaking import put, remove, said
from tests.verify.conftest import Busy

pytestmark = pytest.mark.django_db

NOWHERE = "0" * 32
A_MICROSECOND = timedelta(microseconds=1)


def _references() -> list[Any]:
    return [
        pytest.param(model, field, id=f"{model.__name__}.{field.name}")
        for model in entities()
        for field in model._meta.local_fields
        if field.remote_field and model._meta.db_table not in GUARDED
    ]


GUARDED = ("recovery_workflowaudit", "recovery_executionaudit", "recovery_operationreceipt")
"""Whose rows cannot be broken; test_tampering does."""


@pytest.mark.parametrize(("model", "field"), _references())
def test_a_reference_that_leads_nowhere(busy: Busy, model: Any, field: Any) -> None:
    row = model.objects.order_by("pk").first()
    if row is None:  # no credential in this world
        row = model(namespace_id=busy.world.namespace.pk, user=1, created_at=busy.world.namespace.created_at)
        model.objects.bulk_create([row])
    put(row, **{field.attname: NOWHERE})
    assert said("references", row) == f"{field.name} leads nowhere."


def _half(task: Task) -> ActivationTask:
    return ActivationTask.objects.get(task=task)


@pytest.mark.rule("G11")
def test_a_task_without_the_other_half_of_its_ownership(busy: Busy) -> None:
    for task in (busy.query.task("query"), busy.done.task("pay")):
        remove(_half(task))
        assert "does not name it back" in said("owners", task)


@pytest.mark.rule("G11")
def test_a_task_whose_halves_name_different_activations(busy: Busy) -> None:
    task, stranger = busy.query.task("query"), busy.done.activation("pay")
    put(_half(task), activation_id=stranger.pk, round=9)
    said("owners", task)
    assert "owned by another" in said("owners", _half(task))


@pytest.mark.rule("G11")
@pytest.mark.parametrize("field", ["instance_id", "application_id", "namespace_id"])
def test_a_task_of_another_instance_application_or_namespace(busy: Busy, field: str) -> None:
    task = busy.query.task("query")
    put(task, **{field: busy.done.id})
    assert "not of one instance" in said("owners", task)


@pytest.mark.rule("G11")
def test_a_task_in_a_queue_that_its_definition_does_not_name(busy: Busy) -> None:
    task = busy.query.task("query")
    put(task, queue_id=busy.world.queues["mail"].pk)
    assert "does not name" in said("owners", task)
    other = busy.done.task("pay")
    remove(DefinitionQueue.objects.get(definition_version=busy.done.instance.definition_version_id))
    said("owners", other)


@pytest.mark.rule("G11")
def test_activations_with_a_hole(busy: Busy) -> None:
    first, _second = busy.query.activations("query")
    remove(first)
    assert said("activations", busy.query.step("query")) == "1 activations are there, the last one is number 2."


@pytest.mark.rule("G11")
@pytest.mark.parametrize("number", [0, None])
def test_a_step_that_does_not_name_its_last_activation(busy: Busy, number: int | None) -> None:
    step = busy.query.step("query")
    put(step, current_activation=None if number is None else busy.query.activations("query")[number])
    assert "last activation" in said("activations", step)


def test_an_activation_of_another_instances_step(busy: Busy) -> None:
    activation = busy.query.activation("query")
    put(activation, instance_id=busy.done.id)
    assert "different instances" in said("activations", activation)


@pytest.mark.rule("G11")
def test_a_retry_that_follows_a_task_elsewhere(busy: Busy) -> None:
    retry = busy.retried.task("pay")
    put(retry, retry_of_id=busy.done.task("pay").pk)
    assert "next activation" in said("successors", retry)


@pytest.mark.rule("G11")
def test_a_retry_that_skips_an_activation(busy: Busy) -> None:
    retry = busy.retried.task("pay")
    put(busy.retried.activation("pay"), sequence=3)
    said("successors", retry)
    said("activations", busy.retried.step("pay"))


def test_a_retry_of_what_is_not_known(busy: Busy) -> None:
    first, retry = busy.retried.tasks("pay")
    put(first, status="NEEDS_REVIEW")
    assert "not known" in said("successors", retry)


@pytest.mark.rule("G11")
def test_an_attempt_too_many_or_too_few(busy: Busy) -> None:
    task = busy.retried.task("pay")
    put(task, attempt_count=2)
    assert said("attempts", task) == "It counts 2 attempts; 1 are there, the last one is number 1."
    other = busy.done.task("pay")
    remove(busy.done.attempts("pay")[0])
    said("attempts", other)


@pytest.mark.rule("G11")
def test_attempts_that_are_not_numbered_from_1(busy: Busy) -> None:
    put(busy.done.attempts("pay")[0], attempt_no=2)
    said("attempts", busy.done.task("pay"))


@pytest.mark.rule("RY2")
def test_more_attempts_than_a_task_may_have(busy: Busy) -> None:
    task = busy.done.task("pay")
    put(task, max_attempts=0)
    assert "1 attempts of 0" in said("attempts", task)


def _pinned(flow: Flow) -> StepDefinition:
    version = flow.instance.definition_version_id
    return StepDefinition.objects.get(definition_version=version, kind__in=("TASK", "POLL"))


@pytest.mark.rule("RY2")
def test_more_attempts_over_all_activations_than_are_pinned(busy: Busy) -> None:
    """Each task stays within its own budget; together they do not."""
    put(_pinned(busy.reviewed), max_attempts=1)
    assert "2 tasks used 2 attempts; 1 are pinned" in said("budgets", busy.reviewed.step("pay"))


@pytest.mark.rule("RY2")
def test_more_tasks_than_attempts_are_pinned(busy: Busy) -> None:
    TaskAttempt.objects.filter(task__in=busy.reviewed.tasks("pay")).delete()
    Task.objects.filter(pk__in=[task.pk for task in busy.reviewed.tasks("pay")]).update(attempt_count=0)
    put(_pinned(busy.reviewed), max_attempts=1)
    assert "2 tasks used 0 attempts; 1 are pinned" in said("budgets", busy.reviewed.step("pay"))


@pytest.mark.rule("RY3")
def test_more_attempts_in_a_round_than_are_pinned(busy: Busy) -> None:
    """Two tasks asked in the first round; the one of the second round has a budget of its own."""
    put(_pinned(busy.query), max_attempts=1)
    assert said("budgets", busy.query.step("query")) == "In round 1, 2 tasks used 2 attempts; 1 are pinned."


@pytest.mark.rule("B3")
def test_more_rounds_than_are_pinned(busy: Busy) -> None:
    put(_pinned(busy.query), max_rounds=1)
    assert said("budgets", busy.query.poll("query")) == "2 rounds of 1 that are pinned."


@pytest.mark.rule("RW2")
def test_more_activations_than_a_wait_may_have(busy: Busy) -> None:
    for key in ("receipt", "delay"):
        activation = busy.waiting.activation(key)
        put(activation, sequence=33)
        said("budgets", activation)


@pytest.mark.parametrize("by", [A_MICROSECOND, -A_MICROSECOND, timedelta(days=365)])
def test_a_deadline_of_an_instance_that_moved(busy: Busy, by: timedelta) -> None:
    instance = busy.done.instance
    put(instance, deadline_at=instance.deadline_at + by)
    assert "pinned duration" in said("deadlines", instance)


@pytest.mark.rule("RY4")
@pytest.mark.parametrize("field", ["deadline_at", "latest_start_at"])
@pytest.mark.parametrize("is_lost", [False, True])
def test_a_retry_that_was_timed_anew(busy: Busy, field: str, is_lost: bool) -> None:
    retry = busy.reviewed.task("pay")
    put(retry, **{field: None if is_lost else getattr(retry, field) + A_MICROSECOND})
    said("deadlines", retry)


def test_a_retry_that_got_a_deadline_which_its_predecessor_had_not(busy: Busy) -> None:
    retry = busy.retried.task("pay")
    assert retry.deadline_at is None
    put(retry, deadline_at=retry.created_at)
    said("deadlines", retry)


@pytest.mark.rule("RY4")
def test_a_query_that_was_timed_anew(busy: Busy) -> None:
    poll = busy.query.poll("query")
    put(poll, deadline_at=poll.deadline_at + A_MICROSECOND)
    said("deadlines", poll)


@pytest.mark.rule("RY4")
def test_a_round_whose_deadline_is_not_that_of_its_first_task(busy: Busy) -> None:
    for number in range(3):
        row = busy.query.rounds("query")[number]
        put(row, deadline_at=row.deadline_at + A_MICROSECOND)
        said("deadlines", row)
    assert PollRound.objects.count() == 3


@pytest.mark.rule("RW2", "RW4")
@pytest.mark.parametrize(("flow", "key"), [("waiting", "receipt"), ("waiting", "delay"), ("query", "query")])
@pytest.mark.parametrize("is_lost", [False, True])
def test_a_wait_that_was_timed_anew(busy: Busy, flow: str, key: str, is_lost: bool) -> None:
    wait = getattr(busy, flow).wait(key)
    put(wait, deadline_at=None if is_lost else wait.deadline_at + A_MICROSECOND)
    said("deadlines", wait)


@pytest.mark.parametrize("kind", ["TASK_DEADLINE", "POLL_DEADLINE", "TIMER", "WAIT_DEADLINE", "INSTANCE_DEADLINE"])
def test_a_clock_that_is_due_at_another_time_than_its_deadline(busy: Busy, kind: str) -> None:
    for clock in StepClock.objects.filter(kind=kind):
        put(clock, due_at=clock.due_at - A_MICROSECOND)
        assert kind in said("clocks", clock)
    assert StepClock.objects.filter(kind=kind).exists()


@pytest.mark.rule("G11")
def test_a_history_that_no_decision_would_rely_on(busy: Busy) -> None:
    """Two of the many things that only the decisions' own rules know: the pinned handler, and a query's rounds."""
    task = busy.done.task("pay")
    put(task, handler="another")
    assert "not the pinned ones" in said("histories", task)
    poll = busy.query.poll("query")
    put(poll, first_round=2)
    assert "rounds" in said("histories", poll)


def test_a_deep_check_is_made_on_demand_only() -> None:
    assert [check.name for check in CHECKS.values() if check.deep] == ["histories"]


def test_what_a_namespace_does_not_own_is_not_looked_at(busy: Busy) -> None:
    put(busy.done.instance, deadline_at=F("created_at"))
    for check in CHECKS.values():
        assert check.look(Scope("another")).violations == ()
    assert CHECKS["deadlines"].look(Scope(busy.world.namespace.pk)).violations
    assert (
        WorkflowInstance.objects.count()
        == StepActivation.objects.filter(sequence=1).values("instance").distinct().count()
    )
    assert DefinitionVersion.objects.count() == 8
