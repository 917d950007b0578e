"""G11: a decision relies on a history only if it fits together. Each case breaks one row that the engine wrote."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from recovery import exact_json
from recovery.ids import new_id
from recovery.models import (
    ActivationTask,
    Application,
    PollRound,
    PollState,
    ResultEvent,
    StepActivation,
    Task,
    TaskAttempt,
    TaskResult,
    WorkflowStep,
)
from tests.support.recovering import codes, recover, refused
from tests.support.trees import HOUR, parallel, poll, sequence, task
from tests.support.world import Flow, World

pytestmark = pytest.mark.rule("G11")
Break = Callable[[Flow, str], None]


def set_task(**fields: Any) -> Break:
    return lambda flow, key: _write(Task, flow.task(key).pk, **fields)


def _write(model: Any, key: str, **fields: Any) -> None:
    """Behind the back of every rule, as a fault of the database or of another program would."""
    assert model.objects.filter(pk=key).update(**fields) == 1


def foreign_application(flow: Flow, key: str) -> None:
    other = Application.objects.create(
        namespace=flow.world.namespace, name="other", status="ACTIVE", created_at=flow.instance.created_at
    )
    set_task(application=other)(flow, key)


def lost_half(flow: Flow, key: str) -> None:
    ActivationTask.objects.filter(task=flow.task(key)).delete()


def half_of_another(flow: Flow, key: str) -> None:
    ActivationTask.objects.filter(task=flow.task(key)).update(activation=flow.activation("other"), round=7)


def owner_of_another(flow: Flow, key: str) -> None:
    set_task(owner_activation=flow.activation("other"))(flow, key)


def lost_activation(flow: Flow, key: str) -> None:
    _write(StepActivation, flow.activation(key).pk, sequence=9)


def pointer_to_history(flow: Flow, key: str) -> None:
    _write(WorkflowStep, flow.step(key).pk, current_activation=flow.activations(key)[0])


def lost_attempt(flow: Flow, key: str) -> None:
    TaskAttempt.objects.filter(task=flow.tasks(key)[0]).delete()


def other_input(flow: Flow, key: str) -> None:
    set_task(input={"amount": 7})(flow, key)


def other_input_with_its_digest(flow: Flow, key: str) -> None:
    set_task(input={"amount": 7}, input_digest=exact_json.digest({"amount": 7}))(flow, key)


def other_input_of_the_activation(flow: Flow, key: str) -> None:
    _write(StepActivation, flow.activation(key).pk, input={"amount": 7})


def lost_event(flow: Flow, key: str) -> None:
    ResultEvent.objects.filter(task=flow.tasks(key)[0]).update(task=flow.task("other"))


def other_payload(flow: Flow, key: str) -> None:
    TaskResult.objects.filter(task=flow.tasks(key)[0]).update(payload={"forged": True})


def other_outcome(flow: Flow, key: str) -> None:
    TaskResult.objects.filter(task=flow.tasks(key)[0]).update(outcome="CANCELLED")


EVERYWHERE: dict[str, Break] = {
    "a task of another application": foreign_application,
    "a task of another instance": lambda flow, key: set_task(instance_id=new_id())(flow, key),
    "a task of another namespace": lambda flow, key: set_task(namespace_id=new_id())(flow, key),
    "a task on another queue": lambda flow, key: set_task(queue=flow.world.queues["mail"])(flow, key),
    "another handler": set_task(handler="bank.refund"),
    "another version": set_task(handler_version="2"),
    "another priority": set_task(priority=9),
    "another policy": set_task(policy={"backoff_ms": 1}),
    "another business key": set_task(business_key="x"),
    "another concurrency key": set_task(concurrency_key="x"),
    "another input": other_input,
    "another input with its digest": other_input_with_its_digest,
    "another input of an activation": other_input_of_the_activation,
    "more attempts allowed": set_task(max_attempts=9),
    "a moved deadline": lambda flow, key: set_task(deadline_at=flow.instance.deadline_at)(flow, key),
    "a broken chain of retries": set_task(retry_of=None),
    "a lost attempt": lost_attempt,
    "a lost half of the ownership": lost_half,
    "a half of the ownership elsewhere": half_of_another,
    "another owner": owner_of_another,
    "a hole in the activations": lost_activation,
    "a step that points to history": pointer_to_history,
    "a result without its event": lost_event,
    "a result of another content": other_payload,
    "a result of another outcome": other_outcome,
}


def retried_twice(world: World, kind: Callable[..., Any]) -> Flow:
    """Two activations, both failed, beside a sibling that failed too."""
    timeout = {"timeout_ms": HOUR} if kind is task else {}
    flow = world.start(
        sequence(parallel(kind("it", **timeout), task("other"), key="all"), task("notify", queue="mail"))
    )
    for lease in world.claim_all():
        world.fail(lease)
    recover(flow, "resolve-step", "other")
    recover(flow, "retry-step", "it")
    recover(flow, "continue")
    world.travel(minutes=1)
    world.fail(world.claim())
    return flow


# A task that lies on another step, or an activation that is missed, is met first by another rule of a step command.
MET_EARLIER = {"a hole in the activations", "a step that points to history"}


@pytest.mark.parametrize("kind", [task, poll])
@pytest.mark.parametrize("fault", EVERYWHERE)
def test_a_broken_history_is_refused_by_the_step_and_by_continue(world: World, kind: Any, fault: str) -> None:
    flow = retried_twice(world, kind)
    EVERYWHERE[fault](flow, "it")
    for slug, target in (("retry-step", "it"), ("resolve-step", "it"), ("continue", "")):
        with pytest.raises(Exception) as caught:  # noqa: PT011 - its codes are looked at below
            recover(flow, slug, target, run=False)
        codes = {finding.code for finding in getattr(caught.value, "findings", ())}
        assert "HISTORY_INCONSISTENT" in codes, (slug, caught.value)


@pytest.mark.parametrize("fault", [fault for fault in EVERYWHERE if fault not in MET_EARLIER])
def test_the_rule_is_named(world: World, fault: str) -> None:
    flow = retried_twice(world, task)
    EVERYWHERE[fault](flow, "it")
    error = refused(flow, "HISTORY_INCONSISTENT", "continue")
    assert error.rule == "CO1"
    assert error.findings[0].rows


def move_first_round(flow: Flow) -> None:
    PollState.objects.filter(pk=flow.poll("it").pk).update(first_round=2, used_rounds=2)


def forget_used_attempts(flow: Flow) -> None:
    PollState.objects.filter(pk=flow.poll("it").pk).update(first_round_attempts_used=0)


def claim_more_rounds(flow: Flow) -> None:
    PollState.objects.filter(pk=flow.poll("it").pk).update(used_rounds=2)


def move_query_deadline(flow: Flow) -> None:
    state = flow.poll("it")
    PollState.objects.filter(pk=state.pk).update(deadline_at=state.deadline_at + timedelta(hours=1))


def lose_round(flow: Flow) -> None:
    PollRound.objects.filter(task=flow.task("it")).delete()


def move_round_deadline(flow: Flow) -> None:
    PollRound.objects.filter(task=flow.task("it")).update(deadline_at=flow.instance.deadline_at)


@pytest.mark.parametrize(
    "fault",
    [move_first_round, forget_used_attempts, claim_more_rounds, move_query_deadline, lose_round, move_round_deadline],
)
def test_a_querys_rounds_cover_exactly_what_it_says(world: World, fault: Callable[[Flow], None]) -> None:
    flow = retried_twice(world, poll)
    fault(flow)
    refused(flow, "HISTORY_INCONSISTENT", "continue")
    error = refused(flow, "HISTORY_INCONSISTENT", "resolve-step", "it")
    assert error.rule == "G11"


@pytest.mark.rule("CO1")
@pytest.mark.parametrize("fault", [{"kind": "POLL"}, {"parent_key": None}, {"step_key": "unheard-of"}])
def test_a_graph_that_is_not_the_pinned_one_is_refused(world: World, fault: dict[str, Any]) -> None:
    flow = retried_twice(world, task)
    _write(WorkflowStep, flow.step("notify").pk, **fault)
    refused(flow, "HISTORY_INCONSISTENT", "continue")


@pytest.mark.rule("CO1")
def test_a_task_of_the_instance_that_lies_wholly_elsewhere_is_met_by_continue(world: World) -> None:
    """Neither half leads to a step of this instance, so no history of a step has it."""
    flow, elsewhere = retried_twice(world, task), world.start(task("far"))
    recover(flow, "resolve-step", "it")
    set_task(instance=flow.instance)(elsewhere, "far")
    assert codes(flow)["continue", ""] == "HISTORY_INCONSISTENT"
    assert refused(flow, "HISTORY_INCONSISTENT", "continue").findings[0].rows == (elsewhere.task("far").pk,)


@pytest.mark.parametrize("kind", [task, poll])
def test_a_sound_history_is_accepted(world: World, kind: Any) -> None:
    flow = retried_twice(world, kind)
    recover(flow, "retry-step", "it")
    assert flow.activation("it").sequence == 3
