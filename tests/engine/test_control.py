"""Pause, resume, cancel and cancelling a task: control with a revision of its own (B6, B11, G16)."""

from functools import partial
from typing import Any

import pytest

from recovery import permissions
from recovery.engine import cancel_task, control
from recovery.errors import (
    IdempotencyConflict,
    NotFound,
    PermissionDenied,
    RevisionConflict,
    StateConflict,
    StopRequested,
    ValidationFailed,
)
from recovery.models import (
    ExecutionAudit,
    InstanceGate,
    ManagementOperation,
    OperationReceipt,
    ResultEvent,
    RootContinuation,
    TaskResult,
    WorkflowAudit,
)
from recovery.permissions import Actor
from recovery.writes import change
from tests.support.threads import together
from tests.support.trees import parallel, poll, sequence, task
from tests.support.world import Flow, World, make_world

pytestmark = pytest.mark.django_db

ACTS = {"pause": control.pause, "resume": control.resume, "cancel": control.cancel}


@pytest.fixture(name="flow")
def _flow(world: World) -> Flow:
    return world.start(sequence(task("pay"), task("book")))


def in_review(world: World) -> Flow:
    """One branch failed and asks for a person, the other still runs."""
    flow = world.start(parallel(task("pay"), task("mail", queue="mail")))
    world.claim("mail")
    world.fail(world.claim())
    assert flow.status == "NEEDS_REVIEW"
    return flow


def gate(flow: Flow) -> tuple[str, int]:
    row = InstanceGate.objects.get(instance_id=flow.id)
    return row.state, row.generation


# Pause and resume


@pytest.mark.rule("B6")
def test_a_pause_closes_the_gate_and_grants_nothing_until_the_resume(world: World, flow: Flow) -> None:
    flow.pause()
    assert (flow.instance.paused, flow.status, gate(flow)) == (True, "RUNNING", ("CLOSED", 2))
    assert world.claim_all() == []
    flow.resume()
    assert (flow.instance.paused, gate(flow)) == (False, ("OPEN", 3))
    assert len(world.claim_all()) == 1


@pytest.mark.rule("B6")
def test_what_runs_when_the_pause_comes_may_end_and_is_recorded(world: World, flow: Flow) -> None:
    lease = world.claim()
    flow.pause()
    world.succeed(lease)
    assert flow.statuses() == {"root": "RUNNING", "pay": "SUCCEEDED", "book": "PENDING"}


@pytest.mark.rule("G9")
@pytest.mark.parametrize("act", ["pause", "cancel"])
def test_each_act_raises_both_revisions_by_one_and_is_audited(world: World, flow: Flow, act: str) -> None:
    before = flow.instance
    answer = getattr(flow, act)(run=False).data
    after, entry = flow.instance, flow.audits()[-1]
    assert (after.revision, after.control_revision) == (before.revision + 1, before.control_revision + 1)
    assert (answer["revision"], answer["control_revision"]) == (str(after.revision), str(after.control_revision))
    assert (entry.action, entry.actor, entry.reason) == (act, world.operator.username, "asked by the desk")
    assert (entry.pk, entry.operation.operation_key) == (answer["audit_id"], answer["operation_key"])  # type: ignore[union-attr]
    assert entry.before["revision"] == str(before.revision)
    assert entry.after["control_revision"] == str(after.control_revision)
    assert after.audit_head == f"{entry.sequence}:{entry.entry_hash}"
    assert OperationReceipt.objects.get(operation=entry.operation).instance_revision == after.revision


@pytest.mark.parametrize(("first", "again"), [("pause", "pause"), (None, "resume")])
def test_a_pause_of_the_paused_and_a_resume_of_the_running_are_refused(flow: Flow, first: str, again: str) -> None:
    if first:
        getattr(flow, first)()
    with pytest.raises(StateConflict):
        getattr(flow, again)()


@pytest.mark.rule("G16")
def test_pause_and_resume_in_review_change_paused_only(world: World) -> None:
    flow = in_review(world)
    for act, paused in (("pause", True), ("resume", False)):
        getattr(flow, act)()
        assert (flow.instance.paused, flow.status, flow.gate) == (paused, "NEEDS_REVIEW", "CLOSED")
        assert flow.instance.review_reason == "TASK_FAILED"
    assert flow.continuations() == []
    assert "RESUME" not in flow.continuations("DONE")


@pytest.mark.rule("G16")
def test_a_resume_does_not_open_the_gate_of_what_is_being_stopped(world: World, flow: Flow) -> None:
    world.claim()
    flow.pause()
    flow.cancel()
    flow.resume()
    assert (flow.status, flow.gate, flow.instance.paused) == ("CANCELLING", "CLOSED", False)


# Cancel


@pytest.mark.rule("B6")
def test_a_cancel_records_the_intent_and_closes_the_gate(world: World, flow: Flow) -> None:
    world.claim()
    flow.cancel(run=False)
    assert (flow.status, flow.instance.stop_kind, flow.gate) == ("CANCELLING", "CANCEL", "CLOSED")
    assert flow.continuations() == ["STOP"]


@pytest.mark.rule("B6")
def test_a_cancel_in_review_keeps_the_review(world: World) -> None:
    flow = in_review(world)
    flow.cancel()
    assert (flow.status, flow.instance.stop_kind, flow.gate) == ("NEEDS_REVIEW", "CANCEL", "CLOSED")
    assert flow.instance.review_reason == "TASK_FAILED"


@pytest.mark.rule("B13")
def test_the_first_stop_intent_stands(world: World) -> None:
    flow = world.start(parallel(task("pay", policy={"on_failure": "FAIL"}), task("mail", queue="mail")))
    world.claim("mail")
    world.fail(world.claim())
    assert (flow.status, flow.instance.stop_kind) == ("CANCELLING", "FAIL")
    with pytest.raises(StopRequested):
        flow.cancel()
    assert flow.instance.stop_kind == "FAIL"


@pytest.mark.parametrize("act", list(ACTS))
def test_what_has_ended_is_not_controlled_any_more(flow: Flow, act: str) -> None:
    flow.cancel()
    assert flow.status == "CANCELLED"
    with pytest.raises((StateConflict, StopRequested)):
        getattr(flow, act)()


# Identity, rights, keys, revisions


@pytest.mark.rule("B6")
@pytest.mark.parametrize("act", list(ACTS))
def test_another_control_revision_is_refused_and_told_what_it_is_now(world: World, flow: Flow, act: str) -> None:
    flow.pause()
    flow.resume()
    before = OperationReceipt.objects.count()
    with pytest.raises(RevisionConflict) as refused:
        ACTS[act](world.operator, "key", flow.id, "1", "because")
    assert refused.value.current == {"revision": "3", "control_revision": "3"}
    assert OperationReceipt.objects.count() == before
    assert not ManagementOperation.objects.filter(operation_key="key").exists()


@pytest.mark.rule("G5")
def test_background_facts_do_not_make_a_control_command_stale(world: World, flow: Flow) -> None:
    revision = str(flow.instance.control_revision)
    world.succeed(world.claim())
    assert flow.instance.revision > flow.instance.control_revision
    assert control.pause(world.operator, "key", flow.id, revision, "because")


@pytest.mark.parametrize("act", list(ACTS))
@pytest.mark.parametrize(
    ("revision", "reason", "field"),
    [
        (1, "because", "expected_control_revision"),
        ("01", "because", "expected_control_revision"),
        ("9223372036854775808", "because", "expected_control_revision"),
        ("1", " ", "reason"),
        ("1", "x" * 1025, "reason"),
        ("1", "nul\0", "reason"),
    ],
)
def test_revision_and_reason_are_checked(
    world: World, flow: Flow, act: str, revision: Any, reason: str, field: str
) -> None:
    with pytest.raises(ValidationFailed) as refused:
        ACTS[act](world.operator, "key", flow.id, revision, reason)
    assert list(refused.value.fields) == [field]


@pytest.mark.rule("G2")
@pytest.mark.parametrize(
    ("act", "enough"),
    [("pause", permissions.PAUSE), ("resume", permissions.PAUSE), ("cancel", permissions.CANCEL)],
)
def test_each_act_needs_its_own_right(world: World, flow: Flow, act: str, enough: str) -> None:
    others = [name for name in (permissions.PAUSE, permissions.CANCEL, permissions.RECOVER) if name != enough]
    if act == "resume":
        flow.pause()
    with pytest.raises(PermissionDenied):
        getattr(flow, act)(actor=world.actor(permissions.READ, *others))
    assert getattr(flow, act)(actor=world.actor(permissions.READ, enough))


@pytest.mark.parametrize("act", list(ACTS))
def test_what_may_not_be_seen_is_not_found(world: World, flow: Flow, act: str) -> None:
    elsewhere = make_world(world.traveller, name="other")
    blind = world.actor(permissions.PAUSE, permissions.CANCEL)
    limited = world.actor(*permissions_of_operator(), application=elsewhere.application)
    for actor in (elsewhere.operator, blind, limited):
        with pytest.raises(NotFound):
            ACTS[act](actor, "key", flow.id, "1", "because")
    with pytest.raises(NotFound):
        ACTS[act](world.operator, "key", "0" * 32, "1", "because")


def permissions_of_operator() -> list[str]:
    return [permissions.READ, permissions.PAUSE, permissions.CANCEL, permissions.CANCEL_TASKS]


@pytest.mark.rule("G1")
@pytest.mark.parametrize("suspended", ["application", "namespace"])
def test_what_is_suspended_is_not_controlled(world: World, flow: Flow, suspended: str) -> None:
    change(getattr(world, suspended), status="SUSPENDED")
    with pytest.raises(PermissionDenied):
        flow.pause()


@pytest.mark.rule("G4")
def test_the_same_key_answers_the_first_receipt_after_the_instance_has_moved_on(world: World, flow: Flow) -> None:
    first = control.pause(world.operator, "key", flow.id, "1", "because")
    flow.resume()
    again = control.pause(world.operator, "key", flow.id, "1", "because")
    assert (again.replayed, again.body) == (True, first.body)
    assert not flow.instance.paused
    with pytest.raises(IdempotencyConflict):
        control.pause(world.operator, "key", flow.id, "1", "another reason")
    with pytest.raises(IdempotencyConflict):
        control.cancel(world.operator, "key", flow.id, "1", "because")


@pytest.mark.rule("G4")
@pytest.mark.django_db(transaction=True)
def test_one_key_sent_many_times_at_once_acts_once(world: World, flow: Flow) -> None:
    answers = together([lambda: control.cancel(world.operator, "key", flow.id, "1", "because")] * 6)
    assert len({answer.body for answer in answers}) == 1
    assert WorkflowAudit.objects.filter(action="cancel").count() == 1
    assert RootContinuation.objects.filter(kind="STOP").count() == 1


@pytest.mark.rule("B6")
@pytest.mark.django_db(transaction=True)
def test_of_many_cancels_with_one_control_revision_one_wins(world: World, flow: Flow) -> None:
    answers = together(
        [partial(control.cancel, world.operator, key, flow.id, "1", "because") for key in ("k-1", "k-2", "k-3", "k-4")]
    )
    names = sorted(type(answer).__name__ for answer in answers)
    assert names == ["Receipt", "RevisionConflict", "RevisionConflict", "RevisionConflict"]


# Cancelling a task that has not started


@pytest.mark.rule("B11")
def test_a_cancelled_task_publishes_it_and_its_consumption_raises_the_review(world: World, flow: Flow) -> None:
    revision = flow.instance.revision
    cancelled = flow.cancel_task("pay", run=False)
    assert (cancelled.status, cancelled.revision, cancelled.attempt_count) == ("CANCELLED", 2, 0)
    (result,) = TaskResult.objects.filter(task=cancelled)
    assert (result.source, result.outcome, result.payload, result.attempt) == ("CONTROL", "CANCELLED", None, None)
    assert ResultEvent.objects.get(result=result).activation == flow.activation("pay")
    assert (flow.status, flow.step("pay").status, flow.instance.revision) == ("RUNNING", "RUNNING", revision)
    world.run()
    assert (flow.step("pay").status, flow.activation("pay").status) == ("CANCELLED", "CANCELLED")
    assert (flow.status, flow.instance.review_reason, flow.gate) == ("NEEDS_REVIEW", "TASK_CANCELLED", "CLOSED")
    assert [row.disposition for row in flow.inbox()] == ["REVIEW_RAISED"]
    assert world.application_quota().open_tasks == 0


@pytest.mark.rule("G10")
def test_a_cancelled_task_is_audited_on_the_task_and_on_the_instance(world: World, flow: Flow) -> None:
    flow.cancel_task("pay", run=False)
    execution, entry = ExecutionAudit.objects.get(), flow.audits()[-1]
    assert (execution.action, execution.from_status, execution.to_status) == ("cancel_task", "QUEUED", "CANCELLED")
    assert (execution.task, execution.task_revision, execution.actor) == (flow.task("pay"), 2, world.operator.username)
    assert (entry.action, entry.execution_audit, entry.reason) == ("cancel_task", execution, "not needed")
    assert flow.instance.audit_head == f"{entry.sequence}:{entry.entry_hash}"


@pytest.mark.rule("B11")
@pytest.mark.parametrize("end", ["running", "succeeded", "unknown", "cancelled"])
def test_a_task_that_has_started_or_ended_is_not_cancelled(world: World, flow: Flow, end: str) -> None:
    if end == "cancelled":
        flow.cancel_task("pay")
    else:
        lease = world.claim()
        if end == "succeeded":
            world.succeed(lease)
        elif end == "unknown":
            world.unknown(lease)
    paid = flow.tasks("pay")[0]
    with pytest.raises(StateConflict):
        cancel_task.cancel_task(world.operator, paid.pk, str(paid.revision), "because")


def test_another_task_revision_is_refused_and_told_what_it_is_now(world: World, flow: Flow) -> None:
    with pytest.raises(RevisionConflict) as refused:
        cancel_task.cancel_task(world.operator, flow.task("pay").pk, "2", "because")
    assert refused.value.current == {"task_revision": "1"}
    assert not ExecutionAudit.objects.exists()


@pytest.mark.rule("G2")
def test_cancelling_a_task_needs_its_own_right_and_a_task_that_may_be_seen(world: World, flow: Flow) -> None:
    def act(actor: Actor, task_id: str = "") -> Any:
        return cancel_task.cancel_task(actor, task_id or flow.task("pay").pk, "1", "because")

    elsewhere = make_world(world.traveller, name="other")
    with pytest.raises(PermissionDenied):
        act(world.actor(permissions.READ, permissions.CANCEL))
    for actor in (elsewhere.operator, world.actor(permissions.CANCEL_TASKS)):
        with pytest.raises(NotFound):
            act(actor)
    with pytest.raises(NotFound):
        act(world.operator, "0" * 32)
    with pytest.raises(ValidationFailed):
        cancel_task.cancel_task(world.operator, flow.task("pay").pk, "one", "")
    assert act(world.actor(permissions.READ, permissions.CANCEL_TASKS)).status == "CANCELLED"


@pytest.mark.rule("B11")
def test_a_request_of_a_query_that_was_cancelled_raises_the_review_too(world: World) -> None:
    flow = world.start(poll("ask"))
    flow.cancel_task("ask")
    assert (flow.step("ask").status, flow.instance.review_reason) == ("CANCELLED", "TASK_CANCELLED")
    assert [row.outcome for row in flow.rounds("ask")] == ["CANCELLED"]
