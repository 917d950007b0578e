"""Receipts by operation key: whoever may do the act may read what it answered (G4)."""

from __future__ import annotations

from dataclasses import replace

from django.utils.translation import gettext as _

from recovery import operations, permissions
from recovery.errors import NotFound
from recovery.evidence.references import SCHEME, visible
from recovery.models import ManagementOperation, Namespace, OperationReceipt, WorkflowAudit
from recovery.operations import REGISTRY, Receipt
from recovery.permissions import Actor

_RECOVERY = {operation.action for operation in REGISTRY.values()}
_CONTROL = {"pause": permissions.PAUSE, "resume": permissions.PAUSE, "cancel": permissions.CANCEL}
_OTHER = {"publish": permissions.PUBLISH, "start": permissions.START, "attach_evidence": permissions.ATTACH_EVIDENCE}


def read(actor: Actor, operation_key: str) -> Receipt:
    """The frozen receipt of a key, as a first answer. G1 and G2 are checked as for the act.

    Raises NotFound for a key without one, for another namespace's, and for one of an application that the credential
    is not for; PermissionDenied.
    """
    known = ManagementOperation.objects.filter(namespace_id=actor.namespace_id, operation_key=operation_key)
    operation = known.first()
    if operation is None or operation.action not in _RECOVERY | _CONTROL.keys() | _OTHER.keys():
        raise NotFound(_("There is no receipt for this key."))
    instance_id = operation.instance_id or _started(operation)
    instance = permissions.find_instance(actor, instance_id) if instance_id else None
    if operation.action in _RECOVERY:
        found = operations.receipt(actor, operation_key)
        return replace(found, replayed=False)
    if operation.action in _CONTROL:
        permissions.require(actor, _CONTROL[operation.action])
    else:
        permissions.require_work(actor, _OTHER[operation.action])
    if instance is not None:
        permissions.require_active(instance.namespace, instance.application)
    else:
        permissions.require_active(Namespace.objects.get(pk=actor.namespace_id))
    response = OperationReceipt.objects.get(operation=operation).response
    if operation.action == "attach_evidence" and not _is_visible(actor, response["ref"]):
        raise NotFound(_("There is no receipt for this key."))
    return Receipt(response, replayed=False)


def _is_visible(actor: Actor, evidence_ref: str) -> bool:
    return visible(actor).filter(pk=evidence_ref.removeprefix(SCHEME)).exists()


def _started(operation: ManagementOperation) -> str | None:
    """The instance that a start made: its first audit entry names the operation."""
    return WorkflowAudit.objects.filter(operation=operation).values_list("instance_id", flat=True).first()
