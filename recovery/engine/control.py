"""Pause, resume, cancel: control operations with a revision of their own, apart from the evidence (B6, G16)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

from recovery import audit, clock, flow, permissions, receipts, rows
from recovery.audit import instant
from recovery.errors import RevisionConflict, StateConflict, StopRequested
from recovery.instance_lock import Locked, lock_instance
from recovery.locks import Locks, transact
from recovery.models import ManagementOperation, WorkflowInstance
from recovery.operations.commands import Document, checked, reason, revision
from recovery.permissions import Actor
from recovery.receipts import Receipt
from recovery.states import TERMINAL, ContinuationKind, GateState, InstanceStatus, StopKind
from recovery.writes import change


@dataclass(frozen=True, kw_only=True)
class Control(Document):
    """What all three take. The evidence's revision is not asked for, and the control revision never stands for it."""

    expected_control_revision: str = checked(revision)
    reason: str = checked(reason)


def pause(actor: Actor, key: str, instance_id: str, expected_control_revision: str, reason: str) -> Receipt:
    """No new work is granted until `resume`; what runs goes on. Never holds up a stop.

    Receipt: {"operation", "operation_key", "instance_id", "actor", "reason", "committed_at", "gate", "audit_id"} and
    the instance's fields but input and output. Raises NotFound, PermissionDenied, ValidationFailed,
    IdempotencyConflict, RevisionConflict, StateConflict.
    """
    command = {"expected_control_revision": expected_control_revision, "reason": reason}
    return _control(actor, key, instance_id, command, "pause", permissions.PAUSE, _pause)


def resume(actor: Actor, key: str, instance_id: str, expected_control_revision: str, reason: str) -> Receipt:
    """Ends a pause; opens the gate only of a RUNNING instance without a stop intent (G16). As `pause` otherwise."""
    command = {"expected_control_revision": expected_control_revision, "reason": reason}
    return _control(actor, key, instance_id, command, "resume", permissions.PAUSE, _resume)


def cancel(actor: Actor, key: str, instance_id: str, expected_control_revision: str, reason: str) -> Receipt:
    """Records the stop intent CANCEL; the stop runner ends the instance once all work is settled.

    In review the review stays and the intent is recorded (B6). As `pause` otherwise, and StopRequested where a stop
    intent exists already: the first one stands.
    """
    command = {"expected_control_revision": expected_control_revision, "reason": reason}
    return _control(actor, key, instance_id, command, "cancel", permissions.CANCEL, _cancel)


def _pause(locked: Locked) -> None:
    instance = locked.instance
    if instance.paused:
        raise StateConflict(_("The instance is paused already."), rule="B6")
    change(instance, paused=True)
    flow.set_gate(locked.gate, GateState.CLOSED)
    flow.set_rounds_aside(instance.pk)


def _resume(locked: Locked) -> None:
    instance = locked.instance
    if not instance.paused:
        raise StateConflict(_("The instance is not paused."), rule="B6")
    change(instance, paused=False)
    if instance.status == InstanceStatus.RUNNING and instance.stop_kind is None:
        flow.set_gate(locked.gate, GateState.OPEN)
        flow.continue_root(instance, ContinuationKind.RESUME, locked.now)


def _cancel(locked: Locked) -> None:
    if locked.instance.stop_kind is not None:
        raise StopRequested(
            _("A stop (%(kind)s) was requested already; the first one stands.") % {"kind": locked.instance.stop_kind},
            rule="B13",
        )
    flow.intend_stop(locked.instance, locked.gate, StopKind.CANCEL)
    flow.continue_root(locked.instance, ContinuationKind.STOP, locked.now)


def _control(
    actor: Actor,
    key: str,
    instance_id: str,
    command: dict[str, Any],
    action: str,
    permission: str,
    apply: Callable[[Locked], None],
) -> Receipt:
    """The one transaction of the three: right, command, receipt of the key? locks, revision, state, audit, receipt."""
    found = permissions.find_instance(actor, instance_id)
    permissions.require(actor, permission)
    permissions.require_active(found.namespace, found.application)
    receipts.check_key(key)
    asked = Control.parse(command)
    digest = receipts.command_digest(action, instance_id, asked.content())

    def work(locks: Locks) -> Receipt:
        def claim() -> ManagementOperation:
            return receipts.claim(
                locks,
                namespace_id=actor.namespace_id,
                key=key,
                action=action,
                digest=digest,
                actor=actor.username,
                instance_id=instance_id,
                now=clock.now(),
            )

        locked = lock_instance(locks, instance_id, operation=claim)
        instance = locked.instance
        _require_fresh(instance, asked)
        if instance.status in TERMINAL:
            raise StateConflict(_("The instance has ended: %(status)s.") % {"status": instance.status}, rule="B6")
        before = _facts(locked)
        apply(locked)
        change(instance, revision=instance.revision + 1, control_revision=instance.control_revision + 1)
        entry, head = audit.append(
            instance,
            actor=actor.username,
            action=action,
            reason=asked.reason,
            before=before,
            after=_facts(locked),
            now=locked.now,
            operation=locked.operation,
        )
        change(instance, audit_head=head)
        answer = {
            "operation": action,
            "operation_key": key,
            "instance_id": instance_id,
            "actor": actor.username,
            "reason": asked.reason,
            "committed_at": instant(locked.now),
            **rows.render(instance, rows.BULKY),
            "gate": _gate(locked),
            "audit_id": entry.pk,
        }
        assert locked.operation is not None
        return receipts.freeze(locked.operation, answer, instance.revision, locked.now)

    return transact(work, before=lambda: receipts.find(actor.namespace_id, key, digest))


def _require_fresh(instance: WorkflowInstance, asked: Control) -> None:
    if asked.expected_control_revision != str(instance.control_revision):
        raise RevisionConflict(
            _("The control revision is %(now)d, not %(seen)s. Read what is newer, then decide again.")
            % {"now": instance.control_revision, "seen": asked.expected_control_revision},
            rule="B6",
            current={"revision": str(instance.revision), "control_revision": str(instance.control_revision)},
        )


def _facts(locked: Locked) -> dict[str, Any]:
    """What a control operation may change, as audited and answered."""
    instance = locked.instance
    return {
        "revision": str(instance.revision),
        "control_revision": str(instance.control_revision),
        "status": str(instance.status),
        "paused": instance.paused,
        "stop_kind": instance.stop_kind and str(instance.stop_kind),
        "gate": _gate(locked),
    }


def _gate(locked: Locked) -> dict[str, str]:
    return {"state": str(locked.gate.state), "generation": str(locked.gate.generation)}
