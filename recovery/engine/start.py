"""Starting: an instance of a published version, with all its steps, under the application's quota."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils.translation import gettext as _

from recovery import audit, clock, contracts, definitions, flow, permissions, receipts, rows
from recovery.audit import instant
from recovery.definitions import Definition
from recovery.errors import PermissionDenied, QuotaExceeded, StateConflict, ValidationFailed
from recovery.ids import new_id
from recovery.instance_lock import lock_application
from recovery.locks import Locks, transact
from recovery.models import (
    Application,
    ApplicationQuota,
    DefinitionVersion,
    InstanceGate,
    ManagementOperation,
    Namespace,
    StepClock,
    WorkflowInstance,
    WorkflowStep,
)
from recovery.operations.commands import Document, Invalid, checked, json_value, label
from recovery.permissions import Actor
from recovery.receipts import Receipt
from recovery.states import ClockKind, ClockStatus, ContinuationKind, GateState, InstanceStatus, StepStatus
from recovery.writes import change, insert

ACTION = "start"


def _version(value: Any) -> int | None:
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or not 1 <= value < 2**31):
        raise Invalid(_("The number of a version, from 1."))
    return value


@dataclass(frozen=True, kw_only=True)
class Start(Document):
    """What starts. Without a version the newest one."""

    application: str = checked(label)
    definition: str = checked(label)
    version: int | None = checked(_version, default=None)
    business_key: str = checked(label)
    input: Any = checked(json_value)  # noqa: RUF009 - makes a dataclass field


def start(actor: Actor, key: str, document: Mapping[str, Any]) -> Receipt:
    """Starts an instance; its steps are activated by the scheduler, which finds the START continuation.

    Receipt: {"operation", "operation_key", "actor", "instance_id", "application", "definition", "version" (int),
    "committed_at"} and the instance's fields but input and output. Raises PermissionDenied, ValidationFailed (also for
    an input that breaks the pinned schema), IdempotencyConflict, StateConflict for a business key that is taken,
    QuotaExceeded.
    """
    permissions.require_work(actor, permissions.START)
    receipts.check_key(key)
    asked = Start.parse(document)
    application = _application(actor, asked.application)
    digest = receipts.command_digest(ACTION, None, asked.content())
    if found := receipts.find(actor.namespace_id, key, digest):
        return found
    definition = _definition(actor.namespace_id, asked)

    def work(locks: Locks) -> Receipt:
        quota = lock_application(locks, application.applicationquota.pk)
        now = clock.now()
        instance_id = new_id()
        operation = receipts.claim(
            locks,
            namespace_id=actor.namespace_id,
            key=key,
            action=ACTION,
            digest=digest,
            actor=actor.username,
            instance_id=instance_id,
            now=now,
        )
        _require_room(quota)
        _require_free(application, asked.business_key)
        instance = _insert(actor, instance_id, application, definition, asked, operation, now)
        change(quota, open_instances=quota.open_instances + 1)
        answer = {
            "operation": ACTION,
            "operation_key": key,
            "actor": actor.username,
            "instance_id": instance.pk,
            "application": application.name,
            "definition": definition.name,
            "version": definition.version,
            "committed_at": instant(now),
            **rows.render(instance, rows.BULKY),
        }
        return receipts.freeze(operation, answer, instance.revision, now)

    return transact(work, before=lambda: receipts.find(actor.namespace_id, key, digest))


def _application(actor: Actor, name: str) -> Application:
    """G1: the application of the namespace, active, and the one that the credential is limited to, if any."""
    found = Application.objects.select_related("namespace", "applicationquota")
    application = found.filter(namespace_id=actor.namespace_id, name=name).first()
    if application is None:
        permissions.require_active(Namespace.objects.get(pk=actor.namespace_id))
        raise _invalid("application", _("This namespace has no such application."))
    permissions.require_active(application.namespace, application)
    if actor.application_id not in (None, application.pk):
        raise PermissionDenied(_("This credential is limited to another application."), rule="G1")
    return application


def _definition(namespace_id: str, asked: Start) -> Definition:
    """The version that is pinned from now on; its input schema accepts the input."""
    versions = DefinitionVersion.objects.filter(
        definition__namespace_id=namespace_id, definition__name=asked.definition
    ).order_by("-version")
    if asked.version is not None:
        versions = versions.filter(version=asked.version)
    version_id = versions.values_list("pk", flat=True).first()
    if version_id is None:
        if asked.version is not None:
            raise _invalid("version", _("There is no such version of this definition."))
        raise _invalid("definition", _("This namespace has no such definition."))
    definition = definitions.load(version_id)
    if problem := contracts.violation(definition.input_schema, asked.input):
        raise _invalid("input", problem)
    return definition


def _invalid(field: str, sentence: str) -> ValidationFailed:
    return ValidationFailed(_("The instance cannot be started."), fields={field: [sentence]})


def _require_room(quota: ApplicationQuota) -> None:
    if quota.open_instances >= quota.max_open_instances:
        raise QuotaExceeded(
            _("The application has %(count)d open instances, as many as it may. End one, or have the quota raised.")
            % {"count": quota.open_instances}
        )


def _require_free(application: Application, business_key: str) -> None:
    """Two starts with one business key meet at the application's quota row, so the read is safe."""
    taken = WorkflowInstance.objects.filter(
        namespace_id=application.namespace_id, application=application, business_key=business_key
    )
    if key := taken.values_list("pk", flat=True).first():
        raise StateConflict(
            _("The business key is taken by instance %(id)s. Look at that one, or use another key.") % {"id": key},
            current={"instance_id": key},
        )


def _insert(
    actor: Actor,
    instance_id: str,
    application: Application,
    definition: Definition,
    asked: Start,
    operation: ManagementOperation,
    now: datetime,
) -> WorkflowInstance:
    """The instance with gate, steps, deadline clock, START continuation and the first entry of its audit."""
    instance = WorkflowInstance(
        id=instance_id,
        namespace_id=application.namespace_id,
        application=application,
        definition_id=definition.definition_id,
        definition_version_id=definition.version_id,
        business_key=asked.business_key,
        status=InstanceStatus.RUNNING,
        revision=1,
        control_revision=1,
        input=asked.input,
        deadline_at=now + clock.milliseconds(definition.max_duration_ms),
        created_by=actor.username,
        created_at=now,
    )
    _entry, instance.audit_head = audit.append(
        instance,
        actor=actor.username,
        action=ACTION,
        reason="",
        before={},
        after={
            "revision": "1",
            "control_revision": "1",
            "status": instance.status,
            "gate": GateState.OPEN,
            "definition_version_id": definition.version_id,
            "deadline_at": instant(instance.deadline_at),
        },
        now=now,
        operation=operation,
    )
    gate = InstanceGate(instance=instance, state=GateState.OPEN, generation=1)
    deadline = StepClock(
        instance=instance, kind=ClockKind.INSTANCE_DEADLINE, due_at=instance.deadline_at, status=ClockStatus.ARMED
    )
    steps = [
        WorkflowStep(
            instance=instance,
            step_key=spec.key,
            kind=spec.kind,
            parent_key=spec.parent,
            status=StepStatus.PENDING,
            revision=1,
            created_at=now,
        )
        for spec in definition.steps.values()
    ]
    insert(instance, gate, *steps, deadline)
    flow.continue_root(instance, ContinuationKind.START, now)
    return instance
