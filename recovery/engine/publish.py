"""Publishing: a checked document becomes the next immutable version of its definition."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db.models import Max
from django.utils.translation import gettext as _

from recovery import clock, permissions, receipts
from recovery.audit import instant
from recovery.engine import document as documents
from recovery.engine.document import DefinitionDocument
from recovery.locks import Locks, transact
from recovery.models import (
    DefinitionQueue,
    DefinitionVersion,
    Namespace,
    Queue,
    StepDefinition,
    WorkflowDefinition,
)
from recovery.permissions import Actor
from recovery.receipts import Receipt
from recovery.writes import insert

ACTION = "publish"


def publish(actor: Actor, key: str, document: Mapping[str, Any]) -> Receipt:
    """Publishes a document; the same content again answers the version that has it.

    Receipt: {"operation", "operation_key", "actor", "definition", "definition_id", "version" (int), "version_id",
    "graph_digest", "created" (bool), "committed_at"}. Raises PermissionDenied, ValidationFailed, IdempotencyConflict.
    """
    permissions.require_work(actor, permissions.PUBLISH)
    permissions.require_active(Namespace.objects.get(pk=actor.namespace_id))
    receipts.check_key(key)
    checked = documents.check(document)
    digest = receipts.command_digest(ACTION, None, document)
    if found := receipts.find(actor.namespace_id, key, digest):
        return found
    queues = _queues(actor.namespace_id, checked)

    def work(locks: Locks) -> Receipt:
        now = clock.now()
        operation = receipts.claim(
            locks,
            namespace_id=actor.namespace_id,
            key=key,
            action=ACTION,
            digest=digest,
            actor=actor.username,
            instance_id=None,
            now=now,
        )
        definition = _definition(locks, actor.namespace_id, checked.name, now)
        version = DefinitionVersion.objects.filter(definition=definition, graph_digest=checked.digest).first()
        created = version is None
        if version is None:
            version = _insert_version(definition, checked, queues, actor.username, now)
        answer = {
            "operation": ACTION,
            "operation_key": key,
            "actor": actor.username,
            "definition": definition.name,
            "definition_id": definition.pk,
            "version": version.version,
            "version_id": version.pk,
            "graph_digest": version.graph_digest,
            "created": created,
            "committed_at": instant(now),
        }
        return receipts.freeze(operation, answer, 0, now)

    return transact(work, before=lambda: receipts.find(actor.namespace_id, key, digest))


def _queues(namespace_id: str, document: DefinitionDocument) -> dict[str, Queue]:
    """The queues that the document names, by name. Raises ValidationFailed where there is none of that name."""
    places = {node.path: node.fields["queue"] for node in document.nodes.values() if "queue" in node.fields}
    rows = Queue.objects.filter(namespace_id=namespace_id, name__in=sorted(set(places.values())))
    found = {queue.name: queue for queue in rows}
    documents.refuse(
        (f"{path}.queue", _("This namespace has no such queue.")) for path, name in places.items() if name not in found
    )
    return found


def _definition(locks: Locks, namespace_id: str, name: str, now: datetime) -> WorkflowDefinition:
    """The definition's row, locked, or a new one.

    Of two callers who publish a new name the second meets the unique key, and `transact` tries again.
    """
    known = WorkflowDefinition.objects.filter(namespace_id=namespace_id, name=name)
    if key := known.values_list("pk", flat=True).first():
        return locks.row(WorkflowDefinition, key)
    locks.enter(WorkflowDefinition)
    definition = WorkflowDefinition(namespace_id=namespace_id, name=name, created_at=now)
    insert(definition)
    return definition


def _insert_version(
    definition: WorkflowDefinition, document: DefinitionDocument, queues: Mapping[str, Queue], actor: str, now: datetime
) -> DefinitionVersion:
    """The next version with its steps and its queues. The definition's row is locked."""
    last = DefinitionVersion.objects.filter(definition=definition).aggregate(last=Max("version"))["last"] or 0
    version = DefinitionVersion(
        definition=definition,
        version=last + 1,
        graph_digest=document.digest,
        input_schema=document.input_schema,
        max_duration_ms=document.max_duration_ms,
        published_by=actor,
        published_at=now,
    )
    steps = [
        StepDefinition(
            definition_version=version,
            step_key=node.key,
            kind=node.kind,
            parent_key=node.parent,
            position=node.position,
            queue=queues[node.fields["queue"]] if "queue" in node.fields else None,
            handler=node.fields.get("handler", ""),
            handler_version=node.fields.get("handler_version", ""),
            policy=node.fields.get("policy", {}),
            input_template=node.fields.get("input", {}),
            output_contract=node.fields.get("output_contract", True),
            signal_contract=node.fields.get("signal"),
            **{name: node.fields.get(name) for name in _AS_SENT},
        )
        for node in document.nodes.values()
    ]
    named = sorted(queue.pk for queue in queues.values())
    insert(version, *steps, *(DefinitionQueue(definition_version=version, queue_id=key) for key in named))
    return version


_AS_SENT = (
    "max_attempts",
    "outcome_map",
    "interval_ms",
    "max_rounds",
    "timeout_ms",
    "total_timeout_ms",
    "delay_ms",
)
