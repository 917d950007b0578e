"""Finding and authorising in one step: what may not be seen is not found."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from django.utils.translation import gettext as _

from recovery import definitions
from recovery.console.reader import Request
from recovery.errors import NotFound
from recovery.models import Task, WorkflowInstance
from recovery.permissions import Actor, Rights


@dataclass(frozen=True)
class Found:
    """An instance that the reader may see, with who they are in its namespace and what they may do there."""

    instance: WorkflowInstance
    actor: Actor
    rights: Rights

    @cached_property
    def definition(self) -> definitions.Definition:
        return definitions.load(self.instance.definition_version_id)


def instance(request: Request, instance_id: str) -> Found:
    """Two statements besides the reader's. Raises NotFound, alike for what is not there and what may not be seen."""
    rows = WorkflowInstance.objects.select_related("namespace", "application")
    row = rows.filter(pk=instance_id, namespace_id__in=request.reader.namespaces).first()
    if row is None:
        raise NotFound(_("There is no such instance, or you may not see it."))
    return Found(row, request.reader.actor(row.namespace_id), request.reader.rights(row.namespace_id))


def leaf(found: Found, step_key: str) -> None:
    """Raises NotFound where the instance has no leaf of that key."""
    spec = found.definition.steps.get(step_key)
    if spec is None or not spec.is_leaf:
        raise NotFound(_("This instance has no such step, or it only holds others."))


def task(request: Request, task_id: str) -> tuple[Found, Task]:
    """A task with its instance. Raises NotFound."""
    rows = Task.objects.select_related("queue", "owner_activation__step", "activationtask")
    row = rows.filter(pk=task_id, namespace_id__in=request.reader.namespaces).first()
    if row is None:
        raise NotFound(_("There is no such task, or you may not see it."))
    return instance(request, row.instance_id), row
