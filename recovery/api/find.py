"""Finding and authorising in one step: what may not be seen is not found."""

from __future__ import annotations

from recovery import permissions
from recovery.api.auth import Call
from recovery.errors import NotFound
from recovery.models import Task, WorkflowInstance


def instance(call: Call, instance_id: str, *rights: str) -> WorkflowInstance:
    """An instance that the caller may see, where they hold these rights too.

    Raises NotFound, alike for what is missing and what is foreign, and PermissionDenied.
    """
    found = permissions.find_instance(call.auth, instance_id)
    held = permissions.require_reading(call.auth)
    for right in rights:
        permissions.check(held, right)
    return found


def task(call: Call, task_id: str, *rights: str) -> Task:
    """A task likewise, by its instance."""
    found = Task.objects.filter(pk=task_id, namespace_id=call.auth.namespace_id).first()
    if found is None:
        raise NotFound("There is nothing here that you may see.")
    instance(call, found.instance_id, *rights)
    return found
