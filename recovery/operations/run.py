"""The one transaction of the six operations, and its preview.

permission → command → receipt of the same key?  → locks → case → rules → effects → audit → receipt → events
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

from recovery import audit, clock, definitions, exact_json, permissions, receipts, stream, writes
from recovery.audit import instant
from recovery.case import Case, StepCase, TaskCase, load_histories, tasks_astray, unsettled_inbox
from recovery.errors import IdempotencyConflict, NotFound
from recovery.evidence import references
from recovery.ids import new_id
from recovery.instance_lock import Locked, lock_instance
from recovery.locks import Locks, Rollback, transact
from recovery.models import ManagementOperation, OperationReceipt, Task, WorkflowInstance, WorkflowStep
from recovery.operations.base import Effects, Operation, Scene
from recovery.operations.commands import Command, StepDecision
from recovery.operations.findings import Finding, first_failure, refuse
from recovery.operations.registry import REGISTRY
from recovery.operations.review_task import ReviewTask
from recovery.operations.rules import Question
from recovery.permissions import Actor
from recovery.receipts import Receipt


@dataclass(frozen=True)
class Preview:
    """What a commit would do now. `changes`: (entity, id, field, before, after); `created`: (entity, fields)."""

    allowed: bool
    findings: tuple[Finding, ...]
    changes: list[tuple[str, str, str, Any, Any]]
    created: list[tuple[str, dict[str, Any]]]


def execute(
    actor: Actor,
    slug: str,
    instance_id: str,
    key: str,
    payload: Mapping[str, Any],
    *,
    seen_digest: str | None = None,
) -> Receipt:
    """Commits one operation, or answers the frozen receipt of the same key and command (G4).

    `payload`: the command as parsed JSON (recovery.md, G3 and the operation's own members). `seen_digest`: of the facts
    and findings that the operator saw, kept in the audit; None over the API.
    Raises the DomainError of the first rule that fails (G15); then nothing was written.
    """
    operation, found, command, judgement = _admit(actor, slug, instance_id, payload, key)
    digest = receipts.command_digest(operation.action, instance_id, command.content())
    refusal = references.refusal(actor, command.evidence_ref)

    def frozen() -> Receipt | None:
        # What was committed with evidence stays committed when that evidence is withdrawn later (G4).
        try:
            known = receipts.find(actor.namespace_id, key, digest)
        except IdempotencyConflict as conflict:
            raise refusal or conflict from None
        if known is None and refusal:
            raise refusal
        return known

    def act(locks: Locks) -> Receipt:
        locked, case, question = _load(locks, actor, operation, found, command, judgement, key, digest)
        refuse(operation.decide(question), _current(question))
        assert locked.operation is not None
        return _commit(locks, actor, operation, locked.operation, case, question, seen_digest)

    return transact(act, before=frozen)


def preview(actor: Actor, slug: str, instance_id: str, payload: Mapping[str, Any]) -> Preview:
    """Runs the very transaction of `execute` and rolls it back; a rule that fails is part of the answer.

    Raises what `execute` raises for permission, command and contention. Needs no key and takes none.
    """
    operation, found, command, judgement = _admit(actor, slug, instance_id, payload)
    if refusal := references.refusal(actor, command.evidence_ref):
        raise refusal
    # A blank in front: nobody can send such a key, so a preview never meets a real one.
    key = " preview " + secrets.token_hex(16)

    def act(locks: Locks) -> Preview:
        with writes.watch() as changes:
            locked, case, question = _load(locks, actor, operation, found, command, judgement, key, key)
            findings = operation.decide(question)
            if first_failure(findings) is not None:
                raise Rollback(Preview(False, findings, [], []))
            assert locked.operation is not None
            _commit(locks, actor, operation, locked.operation, case, question, None)
        raise Rollback(Preview(True, findings, *_described(changes)))

    return transact(act)


def receipt(actor: Actor, operation_key: str) -> Receipt:
    """The frozen receipt of a key. G1 and G2 are checked as for the act. Raises NotFound, PermissionDenied."""
    row = (
        OperationReceipt.objects.filter(
            operation__namespace_id=actor.namespace_id,
            operation__operation_key=operation_key,
            operation__action__in=[operation.action for operation in REGISTRY.values()],
        )
        .select_related("operation")
        .first()
    )
    if row is None or row.operation.instance_id is None:
        raise NotFound(_("There is no receipt for this key."))
    _require(actor, permissions.find_instance(actor, row.operation.instance_id))
    return Receipt(row.response, replayed=True)


def _admit(
    actor: Actor, slug: str, instance_id: str, payload: Mapping[str, Any], key: str | None = None
) -> tuple[Operation, WorkflowInstance, Command, str | None]:
    """G1, G2, G3, in this order: who may act here is asked before what was said is read. Last, its judgement (G7)."""
    operation = REGISTRY[slug]
    instance = permissions.find_instance(actor, instance_id)
    _require(actor, instance)
    if key is not None:
        receipts.check_key(key)
    command = operation.command.parse(payload)
    return operation, instance, command, operation.judge(command, definitions.load(instance.definition_version_id))


def _require(actor: Actor, instance: WorkflowInstance) -> None:
    """Who may not even look finds nothing; then G1, then G2 (G15)."""
    rights = permissions.require_reading(actor)
    permissions.require_active(instance.namespace, instance.application)
    definition = definitions.load(instance.definition_version_id)
    permissions.check(rights, permissions.RECOVER, queue_ids=definition.queue_ids)


def _load(
    locks: Locks,
    actor: Actor,
    operation: Operation,
    found: WorkflowInstance,
    command: Command,
    judgement: str | None,
    key: str,
    digest: str,
) -> tuple[Locked, Case, Question]:
    """Takes the locks in order and loads what the operation decides about."""

    def claim() -> ManagementOperation:
        return receipts.claim(
            locks,
            namespace_id=actor.namespace_id,
            key=key,
            action=operation.action,
            digest=digest,
            actor=actor.username,
            instance_id=found.pk,
            now=clock.now(),
        )

    locked = lock_instance(locks, found, operation=claim)
    histories, steps = _histories(locks, locked, operation, command)
    is_whole = operation.target == "instance"
    case = Case(
        now=locked.now,
        instance=locked.instance,
        gate=locked.gate,
        definition=locked.definition,
        application=locked.application,
        queues=tuple(locked.queues),
        unsettled_inbox=unsettled_inbox(found.pk),
        histories=histories,
        steps=steps,
        is_whole=is_whole,
        astray=tasks_astray(found.pk, histories) if is_whole else (),
    )
    return locked, case, _question(case, command, judgement)


def _histories(
    locks: Locks, locked: Locked, operation: Operation, command: Command
) -> tuple[dict[str, StepCase], dict[str, WorkflowStep]]:
    """The one step that a command names, or all of them where the whole graph is decided about."""
    rows = WorkflowStep.objects.filter(instance_id=locked.instance.pk)
    if operation.target == "instance":
        steps = {row.step_key: row for row in rows}
        known = [row for key, row in steps.items() if key in locked.definition.steps]
        return load_histories(known, locked.definition, locks), steps
    if isinstance(command, StepDecision):
        wanted = list(rows.filter(step_key=command.step_key).values_list("pk", flat=True))
    elif isinstance(command, ReviewTask):
        owners = Task.objects.filter(pk=command.task_id, instance_id=locked.instance.pk)
        wanted = list(owners.values_list("owner_activation__step_id", flat=True))
    else:
        wanted = []
    locked_steps = {row.step_key: row for row in locks.rows(WorkflowStep, wanted)}
    return load_histories(locked_steps.values(), locked.definition, locks), locked_steps


def _question(case: Case, command: Command, judgement: str | None) -> Question:
    step: StepCase | None = None
    task: TaskCase | None = None
    if isinstance(command, StepDecision):
        step = case.histories.get(command.step_key)
    elif isinstance(command, ReviewTask):
        step = next(iter(case.histories.values()), None)
        task = next((each for each in step.tasks if each.row.pk == command.task_id), None) if step else None
    return Question(case, step, task, command, judgement)


def _current(question: Question) -> dict[str, Any]:
    """What the revisions are now, for the one who has to decide again."""
    instance, step, task = question.case.instance, question.step, question.task
    now: dict[str, Any] = {"revision": str(instance.revision), "control_revision": str(instance.control_revision)}
    if isinstance(question.command, StepDecision) and step:
        now["step_revision"] = str(step.row.revision)
        now["activation_id"] = step.current.row.pk if step.current else None
    if task:
        now["task_revision"] = str(task.row.revision)
    return now


def _commit(
    locks: Locks,
    actor: Actor,
    operation: Operation,
    claimed: ManagementOperation,
    case: Case,
    question: Question,
    seen_digest: str | None,
) -> Receipt:
    """Effects, audit, instance, receipt; and last of all the result events (G8, G9, G10)."""
    instance, command, now = case.instance, question.command, case.now
    assert command is not None
    before = {"revision": str(instance.revision), "control_revision": str(instance.control_revision)}
    before["status"] = instance.status
    scene = Scene(
        locks=locks,
        case=case,
        actor=actor,
        operation=claimed,
        command=command,
        audit_id=new_id(),
        step=question.step,
        task=question.task,
    )
    effects: Effects = operation.apply(scene)
    after = {
        "revision": str(instance.revision + 1),
        "control_revision": str(instance.control_revision + 1),
        "status": effects.instance.get("status", instance.status),
        "proposed_by": None,
        "seen_digest": seen_digest,
    }
    entry, head = audit.append(
        instance,
        actor=actor.username,
        action=operation.action,
        reason=command.reason,
        evidence_ref=command.evidence_ref,
        before=before | effects.before,
        after=after | effects.after,
        now=now,
        operation=claimed,
        execution_audit=effects.execution_audit,
        audit_id=scene.audit_id,
    )
    writes.change(
        instance,
        revision=instance.revision + 1,
        control_revision=instance.control_revision + 1,
        audit_head=head,
        **effects.instance,
    )
    frozen = receipts.freeze(
        claimed,
        {
            "operation_key": claimed.operation_key,
            "operation": operation.slug,
            "instance_id": instance.pk,
            "actor": actor.username,
            "proposed_by": None,
            "reason": command.reason,
            "evidence_ref": command.evidence_ref,
            "committed_at": instant(now),
            "revision": str(instance.revision),
            "control_revision": str(instance.control_revision),
            "status": str(instance.status),
            "gate": {"state": str(case.gate.state), "generation": str(case.gate.generation)},
            "audit_id": entry.pk,
            "effects": effects.made,
            "will_not": list(operation.will_not),
        },
        instance.revision,
        now,
    )
    stream.publish(locks, effects.settled, now)
    return frozen


def _described(
    changes: writes.Changes,
) -> tuple[list[tuple[str, str, str, Any, Any]], list[tuple[str, dict[str, Any]]]]:
    """The watched writes as plain values; what a row went through becomes its first and its last value."""
    first_last: dict[tuple[str, str, str], tuple[Any, Any]] = {}
    for row, field, before, after in changes.changed:
        column = next(each.attname for each in row._meta.fields if field in (each.name, each.attname))
        place = (type(row).__name__, row.pk, column)
        first = first_last[place][0] if place in first_last else plain(before)
        first_last[place] = (first, plain(after))
    created = [
        (type(row).__name__, {field.attname: plain(getattr(row, field.attname)) for field in row._meta.fields})
        for row in changes.created
    ]
    return [(*place, *values) for place, values in first_last.items() if values[0] != values[1]], created


def plain(value: Any) -> Any:
    """A column's value as JSON: times as RFC 3339, rows as their id."""
    if hasattr(value, "pk"):
        return value.pk
    if hasattr(value, "isoformat"):
        return instant(value)
    return exact_json.loads(exact_json.dumps(value)) if isinstance(value, dict | list) else value
