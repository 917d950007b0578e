"""G1 and G2: who may decide at all, and G15: in which order a command is refused."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group

from recovery import clock, operations, permissions
from recovery.engine import report
from recovery.errors import DomainError, NotFound, PermissionDenied
from recovery.ids import new_id
from recovery.models import Application
from recovery.permissions import Actor
from recovery.writes import change, insert
from tests.operations.stages import NAMES, STAGES, Stage, failed_task, unknown_task
from tests.support.faults import facts
from tests.support.recovering import command, refused, send
from tests.support.trees import task
from tests.support.world import OPERATOR, Flow, World, make_world

EVERY_STAGE = pytest.mark.parametrize(("slug", "target", "stage"), STAGES, ids=NAMES)


def answer(flow: Flow, actor: Actor, slug: str = "resolve-step", target: str = "it") -> str:
    """The code of the refusal, which has written nothing; "" when the command was accepted."""
    before = facts()
    try:
        send(flow, slug, command(flow, slug, target), actor=actor)
    except DomainError as error:
        assert facts() == before
        return error.code
    return ""


@pytest.mark.rule("G2")
@EVERY_STAGE
def test_the_explicit_right_and_the_queues_are_enough(world: World, slug: str, target: str, stage: Stage) -> None:
    actor = world.actor(permissions.READ, permissions.RECOVER, queues=("bank", "mail"))
    assert answer(stage(world), actor, slug, target) == ""


@pytest.mark.rule("G2")
@EVERY_STAGE
def test_no_other_right_includes_it(world: World, slug: str, target: str, stage: Stage) -> None:
    others = [right for right in [*OPERATOR, permissions.WORK] if right != permissions.RECOVER]
    actor = world.actor(*others, queues=("bank", "mail"))
    assert answer(stage(world), actor, slug, target) == "PERMISSION_DENIED"


@pytest.mark.rule("G2")
@EVERY_STAGE
def test_a_superuser_without_a_grant_finds_nothing(world: World, slug: str, target: str, stage: Stage) -> None:
    user = get_user_model().objects.create(username="root", is_superuser=True, is_staff=True)
    actor = permissions.actor_of(user, world.namespace.pk)
    assert answer(stage(world), actor, slug, target) == "NOT_FOUND"


@pytest.mark.rule("G2")
def test_every_queue_of_the_definition_counts_also_of_steps_that_never_ran(world: World) -> None:
    actor = world.actor(permissions.READ, permissions.RECOVER, queues=("bank",))
    flow = failed_task(world)  # its successor uses the queue mail
    with pytest.raises(DomainError, match="mail") as caught:
        send(flow, "resolve-step", command(flow, "resolve-step", "it"), actor=actor)
    assert caught.value.code == "PERMISSION_DENIED"


@pytest.mark.rule("G2")
def test_a_grant_through_a_group_counts_and_one_that_has_ended_does_not(world: World) -> None:
    group = Group.objects.create(name="on call")
    actor = world.actor(permissions.READ, queues=("bank", "mail"))
    get_user_model().objects.get(pk=actor.user_id).groups.add(group)
    end = clock.now() + timedelta(hours=1)
    permissions.grant(group, permissions.RECOVER, world.namespace, by="set-up", reason="test", expires_at=end)
    flow = failed_task(world)
    world.travel_to(end)
    assert answer(flow, actor) == "PERMISSION_DENIED"
    world.travel_to(end - timedelta(microseconds=1))
    assert answer(flow, actor) == ""


@pytest.mark.rule("G1")
def test_an_account_that_was_closed_may_nothing(world: World) -> None:
    actor = world.actor(permissions.READ, permissions.RECOVER, queues=("bank", "mail"))
    get_user_model().objects.filter(pk=actor.user_id).update(is_active=False)
    assert answer(failed_task(world), actor) == "NOT_FOUND"


@pytest.mark.rule("G1")
def test_the_right_to_recover_without_the_right_to_read_finds_nothing(world: World) -> None:
    actor = world.actor(permissions.RECOVER, queues=("bank", "mail"))
    assert answer(failed_task(world), actor) == "NOT_FOUND"


@pytest.mark.rule("G1")
@pytest.mark.parametrize("what", ["namespace", "application"])
def test_what_is_suspended_decides_nothing(world: World, what: str) -> None:
    flow = failed_task(world)
    change(getattr(world, what), status="SUSPENDED")
    assert answer(flow, world.operator) == "PERMISSION_DENIED"


@pytest.mark.rule("G1")
def test_another_namespaces_instance_is_not_found_like_one_that_is_not_there(world: World) -> None:
    flow = failed_task(world)
    stranger = make_world(world.traveller, name="other").operator
    assert answer(flow, stranger) == "NOT_FOUND"
    with pytest.raises(DomainError) as missing:
        operations.execute(stranger, "continue", new_id(), "k", {})
    assert missing.value.code == "NOT_FOUND"


@pytest.mark.rule("G1")
def test_a_credential_of_one_application_does_not_reach_another(world: World) -> None:
    other = Application(namespace=world.namespace, name="other", status="ACTIVE", created_at=clock.now())
    insert(other)
    actor = world.actor(permissions.READ, permissions.RECOVER, queues=("bank", "mail"), application=other)
    assert answer(failed_task(world), actor) == "NOT_FOUND"


@pytest.mark.rule("G1", "G4")
def test_a_credential_of_one_application_does_not_read_the_receipts_of_another(world: World) -> None:
    flow = failed_task(world)
    made = send(flow, "resolve-step", command(flow, "resolve-step", "it"), key="k")
    assert operations.receipt(replace(world.operator, application_id=flow.instance.application_id), "k") == replace(
        made, replayed=True
    )
    with pytest.raises(NotFound):
        operations.receipt(replace(world.operator, application_id=new_id()), "k")


@pytest.mark.rule("G1", "G15")
def test_that_a_namespace_is_suspended_is_said_before_which_right_is_missing(world: World) -> None:
    """Also in the explanation; and those who may not look are told nothing of it."""
    flow, reader = failed_task(world), world.actor(permissions.READ)
    change(world.namespace, status="SUSPENDED")
    with pytest.raises(PermissionDenied, match="suspended"):
        send(flow, "resolve-step", command(flow, "resolve-step", "it"), actor=reader)
    assert operations.explain(reader, flow.id).options[0].findings[0].rule == "G1"
    assert answer(flow, world.actor()) == "NOT_FOUND"


@pytest.mark.rule("G15")
def test_the_order_of_refusal(world: World) -> None:
    """Everything is wrong at once; each mend brings the next refusal to the front."""
    flow = unknown_task(world)
    world.travel_to(flow.instance.deadline_at, run=False)
    nobody = world.actor()
    reader = world.actor(permissions.READ)
    wrong = command(flow, "retry-step", "it", reason="", expected_revision="1", expected_step_revision="1")

    def code(actor: Actor, payload: dict[str, object], key: str = "k") -> str:
        with pytest.raises(DomainError) as caught:
            operations.execute(actor, "retry-step", flow.id, key, payload)
        return caught.value.code

    assert code(nobody, wrong) == "NOT_FOUND"
    assert code(reader, wrong) == "PERMISSION_DENIED"
    assert code(world.operator, wrong) == "VALIDATION_FAILED"
    valid = wrong | {"reason": "Checked."}
    taken = send(flow, "review-task", command(flow, "review-task", "it"), key="taken")
    assert code(world.operator, valid, key=taken.data["operation_key"]) == "IDEMPOTENCY_CONFLICT"
    assert code(world.operator, valid) == "REVISION_CONFLICT"
    fresh = command(flow, "retry-step", "it")
    assert code(world.operator, fresh) == "INBOX_UNSETTLED"
    world.run()
    assert code(world.operator, command(flow, "retry-step", "it")) == "DEADLINE_PASSED"
    flow.cancel()
    assert code(world.operator, command(flow, "retry-step", "it")) == "STOP_REQUESTED"


@pytest.mark.rule("G15")
def test_a_refusal_names_every_rule_that_fails(world: World) -> None:
    flow = unknown_task(world)
    world.travel_to(flow.instance.deadline_at)
    with pytest.raises(DomainError) as caught:
        send(flow, "retry-step", command(flow, "retry-step", "it", expected_revision="1"))
    assert [(f.rule, f.code) for f in caught.value.findings] == [
        ("G5", "REVISION_CONFLICT"),
        ("G12", "DEADLINE_PASSED"),
        ("RY1", "EXECUTION_UNKNOWN"),
    ]


@pytest.mark.rule("G5")
def test_a_conflict_says_what_is_there_now_and_control_revision_is_no_substitute(world: World) -> None:
    flow = failed_task(world)
    flow.pause()
    flow.resume()
    instance, step = flow.instance, flow.step("it")
    assert instance.revision != instance.control_revision
    with pytest.raises(DomainError) as caught:
        send(flow, "retry-step", command(flow, "retry-step", "it", expected_revision=str(instance.control_revision)))
    assert caught.value.code == "REVISION_CONFLICT"
    assert caught.value.current == {
        "revision": str(instance.revision),
        "control_revision": str(instance.control_revision),
        "step_revision": str(step.revision),
        "activation_id": step.current_activation_id,
    }


@pytest.mark.rule("G5")
@pytest.mark.parametrize("field", ["expected_step_revision", "activation_id"])
def test_a_step_command_is_fenced_by_step_revision_and_activation(world: World, field: str) -> None:
    flow = failed_task(world)
    old = {"expected_step_revision": "1", "activation_id": flow.activation("it").pk}[field]
    send(flow, "retry-step", command(flow, "retry-step", "it"))
    flow.cancel_task("it")
    with pytest.raises(DomainError) as caught:
        send(flow, "resolve-step", command(flow, "resolve-step", "it", **{field: old}))
    assert caught.value.code == "REVISION_CONFLICT"


@pytest.mark.rule("G6")
@EVERY_STAGE
def test_only_an_instance_in_review_is_recovered(world: World, slug: str, target: str, stage: Stage) -> None:
    flow = stage(world)
    change(flow.instance, status="RUNNING", review_reason="")
    assert answer(flow, world.operator, slug, target) == "STATE_CONFLICT"


@pytest.mark.rule("G3")
def test_evidence_in_this_systems_own_scheme_has_to_exist(world: World) -> None:
    flow = failed_task(world)
    with pytest.raises(DomainError) as caught:
        send(flow, "resolve-step", command(flow, "resolve-step", "it", evidence_ref="evidence:nothing"))
    assert (caught.value.code, list(caught.value.fields)) == ("VALIDATION_FAILED", ["evidence_ref"])


@pytest.mark.rule("G5")
@EVERY_STAGE
def test_every_operation_is_fenced_by_the_instances_revision(
    world: World, slug: str, target: str, stage: Stage
) -> None:
    flow = stage(world)
    for revision in (flow.instance.revision - 1, flow.instance.revision + 1):
        refused(flow, "REVISION_CONFLICT", slug, target, expected_revision=str(revision))


@pytest.mark.rule("G5")
def test_a_review_is_fenced_by_the_tasks_revision(world: World) -> None:
    flow = unknown_task(world)
    revision = flow.task("it").revision
    refused(flow, "REVISION_CONFLICT", "review-task", "it", expected_task_revision=str(revision - 1))


@pytest.mark.rule("G6")
@EVERY_STAGE
def test_every_operation_waits_for_facts_that_are_not_consumed_yet(
    world: World, slug: str, target: str, stage: Stage
) -> None:
    flow = stage(world, task("sibling"))
    lease = next(attempt for attempt in flow.attempts("sibling") if attempt.status == "RUNNING")
    report.succeed(world.worker, lease.pk, lease.lease_token, {"state": "done"})
    refused(flow, "INBOX_UNSETTLED", slug, target)


@pytest.mark.rule("G6", "B4")
@EVERY_STAGE
def test_no_statement_releases_a_quarantined_fact(world: World, slug: str, target: str, stage: Stage) -> None:
    flow = stage(world, task("sibling"))
    lease = next(attempt for attempt in flow.attempts("sibling") if attempt.status == "RUNNING")
    report.succeed(world.worker, lease.pk, lease.lease_token, {"state": "done"})
    change(flow.inbox()[-1], status="QUARANTINED")
    assert "reverify_inbox" in str(refused(flow, "INBOX_UNSETTLED", slug, target))


@pytest.mark.rule("G6")
@pytest.mark.parametrize(
    ("slug", "stage"),
    [(slug, stage) for slug, target, stage in STAGES if slug not in ("review-task", "rearm-wait", "continue")],
)
def test_a_step_needs_the_processed_inbox_row_of_its_tasks_present_revision(
    world: World, slug: str, stage: Stage
) -> None:
    flow = stage(world)
    task_ = flow.task("it")
    change(task_, revision=task_.revision + 1)
    refused(flow, "INBOX_UNSETTLED", slug, "it")


@pytest.mark.rule("G12")
@pytest.mark.parametrize(
    ("slug", "stage"), [(slug, stage) for slug, _target, stage in STAGES if slug in ("continue-poll", "rearm-wait")]
)
def test_nothing_is_awaited_past_the_instance_deadline(world: World, slug: str, stage: Stage) -> None:
    flow = stage(world)
    change(flow.instance, deadline_at=clock.now())
    assert refused(flow, "DEADLINE_PASSED", slug, "it").rule == "G12"
