"""G9 and G10: what every decision leaves behind, and the frozen receipt."""

from __future__ import annotations

from typing import Any

import pytest

from recovery import audit, exact_json
from recovery.models import ExecutionAudit, ManagementOperation, OperationReceipt, StepActivation
from tests.operations.stages import NAMES, STAGES, Stage, failed_task, unknown_task
from tests.support.recovering import EVIDENCE, command, recover, send
from tests.support.world import World

EVERY_STAGE = pytest.mark.parametrize(("slug", "target", "stage"), STAGES, ids=NAMES)


@pytest.mark.rule("G9")
@EVERY_STAGE
def test_a_success_raises_both_revisions_by_one_and_a_step_command_the_steps(
    world: World, slug: str, target: str, stage: Stage
) -> None:
    flow = stage(world)
    before, step = flow.instance, flow.step("it").revision
    send(flow, slug, command(flow, slug, target))
    after = flow.instance
    assert after.revision == before.revision + 1
    assert after.control_revision == before.control_revision + 1
    assert flow.step("it").revision == step + (slug not in ("review-task", "continue"))


@pytest.mark.rule("G10")
@EVERY_STAGE
def test_one_audit_says_who_what_why_and_on_what_grounds(world: World, slug: str, target: str, stage: Stage) -> None:
    flow = stage(world)
    old, count = flow.instance, len(flow.audits())
    receipt = send(flow, slug, command(flow, slug, target))
    entry = flow.audits()[-1]
    assert len(flow.audits()) == count + 1
    assert (entry.actor, entry.action) == (world.operator.username, slug.replace("-", "_"))
    assert (entry.reason, entry.evidence_ref) == ("The bank portal was read.", EVIDENCE)
    assert (entry.before["revision"], entry.after["revision"]) == (str(old.revision), str(old.revision + 1))
    assert (entry.after["proposed_by"], entry.after["seen_digest"]) == (None, None)
    assert entry.pk == receipt.data["audit_id"]
    operation = entry.operation
    assert operation is not None
    assert operation.operation_key == receipt.data["operation_key"]


@pytest.mark.rule("G10")
@EVERY_STAGE
def test_the_chain_is_unbroken_and_its_head_is_anchored(world: World, slug: str, target: str, stage: Stage) -> None:
    flow = stage(world)
    send(flow, slug, command(flow, slug, target))
    previous = audit.ORIGIN
    for number, entry in enumerate(flow.audits(), start=1):
        assert (entry.sequence, entry.previous_hash) == (number, previous)
        assert entry.entry_hash == audit.entry_hash(entry)
        previous = entry.entry_hash
    assert flow.instance.audit_head == f"{len(flow.audits())}:{previous}"


@pytest.mark.rule("G10")
def test_every_part_of_an_entry_is_covered_by_its_hash(world: World) -> None:
    flow = failed_task(world)
    send(flow, "resolve-step", command(flow, "resolve-step", "it"))
    entry = flow.audits()[-1]
    for field in entry._meta.fields:
        if field.name == "entry_hash":
            continue
        kept = getattr(entry, field.attname)
        changed: Any = {"x": 1} if isinstance(kept, dict) else entry.sequence + 7 if field.name == "sequence" else "x"
        if field.name == "created_at":
            changed = kept.replace(microsecond=(kept.microsecond + 1) % 1_000_000)
        setattr(entry, field.attname, changed)
        assert audit.entry_hash(entry) != entry.entry_hash, field.name
        setattr(entry, field.attname, kept)
    assert audit.entry_hash(entry) == entry.entry_hash


@pytest.mark.rule("G10", "RT3")
def test_a_review_also_writes_an_execution_audit_under_an_operation_of_its_own(world: World) -> None:
    flow = unknown_task(world)
    send(flow, "review-task", command(flow, "review-task", "it"), key="k")
    task = flow.task("it")
    own = ExecutionAudit.objects.get(task=task, action="review_task")
    assert (own.from_status, own.to_status, own.task_revision) == ("NEEDS_REVIEW", "SUCCEEDED", task.revision)
    operation = own.operation
    assert operation is not None
    assert operation.operation_key.startswith(" ")
    assert not OperationReceipt.objects.filter(operation=operation).exists()
    assert flow.audits()[-1].execution_audit_id == own.pk


@pytest.mark.rule("G4", "G8")
@EVERY_STAGE
def test_a_receipt_is_complete_and_says_what_is_true_after_the_commit(
    world: World, slug: str, target: str, stage: Stage
) -> None:
    flow = stage(world)
    receipt = send(flow, slug, command(flow, slug, target), key="k")
    instance = flow.instance
    assert list(receipt.data) == [
        "operation_key",
        "operation",
        "instance_id",
        "actor",
        "proposed_by",
        "reason",
        "evidence_ref",
        "committed_at",
        "revision",
        "control_revision",
        "status",
        "gate",
        "audit_id",
        "effects",
        "will_not",
    ]
    assert (receipt.data["operation"], receipt.data["instance_id"]) == (slug, flow.id)
    assert receipt.data["revision"] == str(instance.revision)
    assert (receipt.data["status"], receipt.data["gate"]["state"]) == (instance.status, flow.gate)
    stored = OperationReceipt.objects.get(operation__operation_key="k")
    assert exact_json.dumps(stored.response) == receipt.body
    assert stored.instance_revision == instance.revision


@pytest.mark.rule("RS3")
def test_a_conclusion_keeps_the_former_state_and_output_and_the_new_ones_digest(world: World) -> None:
    flow = failed_task(world)
    results = flow.results("it")
    send(flow, "resolve-step", command(flow, "resolve-step", "it", output={"ok": 1}))
    entry = flow.audits()[-1]
    assert (entry.before["step_status"], entry.before["step_output"]) == ("FAILED", None)
    assert entry.after["output_digest"] == exact_json.digest({"ok": 1})
    concluded: StepActivation = flow.activation("it")
    assert concluded.concluded_by_id == entry.operation_id
    assert flow.results("it") == results


@pytest.mark.rule("RT3")
def test_a_review_gives_back_permit_hold_and_concurrency_key(world: World) -> None:
    flow = unknown_task(world)
    taken = world.queue_quota().open_tasks, world.queue_quota().running, world.application_quota().open_tasks
    send(flow, "review-task", command(flow, "review-task", "it"))
    given = world.queue_quota().open_tasks, world.queue_quota().running, world.application_quota().open_tasks
    assert given == tuple(count - 1 for count in taken)


@pytest.mark.rule("RT3")
def test_a_task_reviewed_as_failed_is_never_queued_again(world: World) -> None:
    flow = unknown_task(world)
    recover(flow, "review-task", "it", outcome="FAILED", result={"why": "never arrived"})
    world.travel(hours=1)
    assert flow.task("it").status == "FAILED"
    assert world.claim_all() == []


@pytest.mark.rule("G4")
def test_numbers_in_a_command_are_the_same_by_value(world: World) -> None:
    flow = unknown_task(world)
    payload = command(flow, "review-task", "it", result=exact_json.loads('{"amount": 1.10}'))
    first = send(flow, "review-task", payload, key="k")
    again = payload | {"result": exact_json.loads('{"amount": 1.1}')}
    assert send(flow, "review-task", again, key="k").body == first.body
    assert ManagementOperation.objects.filter(operation_key="k").count() == 1
