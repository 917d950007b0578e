"""Owners, numbers, budgets and deadlines that do not fit together are named."""

from datetime import timedelta
from typing import Any

import pytest
from django.db.models import F

from recovery.models import (
    AccessLog,
    ActivationTask,
    DefinitionQueue,
    DefinitionVersion,
    StepActivation,
    StepDefinition,
    Task,
    TaskAttempt,
    WorkflowInstance,
)
from recovery.models.catalogue import entities
from recovery.verify import CHECKS, Scope
from tests.support.rows import nonsense
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


def test_a_reference_of_the_consoles_own_that_leads_nowhere(busy: Busy) -> None:
    entry = nonsense(AccessLog, namespace_id=NOWHERE)
    AccessLog.objects.bulk_create([entry])
    assert said("references", entry) == "namespace leads nowhere."
    assert CHECKS["references"].look(Scope(busy.world.namespace.pk)).violations == ()


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
    assert "2 tasks and 2 attempts in one round; 1 are pinned" in said("budgets", busy.reviewed.step("pay"))


@pytest.mark.rule("RY2")
def test_more_tasks_than_attempts_are_pinned(busy: Busy) -> None:
    TaskAttempt.objects.filter(task__in=busy.reviewed.tasks("pay")).delete()
    Task.objects.filter(pk__in=[task.pk for task in busy.reviewed.tasks("pay")]).update(attempt_count=0)
    put(_pinned(busy.reviewed), max_attempts=1)
    assert "2 tasks and 0 attempts in one round; 1 are pinned" in said("budgets", busy.reviewed.step("pay"))


@pytest.mark.rule("RY3")
def test_more_attempts_in_a_round_than_are_pinned(busy: Busy) -> None:
    """Two tasks asked in the first round; the one of the second round has a budget of its own."""
    put(_pinned(busy.query), max_attempts=1)
    assert "2 tasks and 2 attempts in one round; 1 are pinned" in said("budgets", busy.query.step("query"))


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
    assert sorted(check.name for check in CHECKS.values() if check.deep) == ["evidence_content", "histories"]


def test_what_a_namespace_does_not_own_is_not_looked_at(busy: Busy) -> None:
    put(busy.done.instance, deadline_at=F("created_at"))
    for check in CHECKS.values():
        assert check.look(Scope("another")).violations == ()
    assert CHECKS["instance_deadlines"].look(Scope(busy.world.namespace.pk)).violations
    assert (
        WorkflowInstance.objects.count()
        == StepActivation.objects.filter(sequence=1).values("instance").distinct().count()
    )
    assert DefinitionVersion.objects.count() == 8
