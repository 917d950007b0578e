"""Why somebody can, or cannot, recover an instance: every grant that counts, its way, and the queues (G1, G2)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from recovery import clock, definitions, permissions
from recovery.access import overview
from recovery.access.overview import Way
from recovery.models import Queue, WorkflowInstance
from recovery.permissions import READ, RECOVER, USE_QUEUE, Actor
from recovery.states import TenantStatus


@dataclass(frozen=True)
class Need:
    """One right that the operations ask for. `queue`: its name, where the right is queues:use."""

    permission: str
    queue: str
    ways: tuple[Way, ...]
    holds: bool

    @property
    def what(self) -> str:
        return f"{self.permission} {self.queue}".rstrip()


@dataclass(frozen=True)
class Why:
    """The answer. `may`: whether all of it holds at `now`; `administrators`: who can grant what is missing."""

    instance: WorkflowInstance
    person: Any
    now: datetime
    needs: tuple[Need, ...]
    administrators: tuple[str, ...]

    @property
    def namespace_is_active(self) -> bool:
        return self.instance.namespace.status == TenantStatus.ACTIVE

    @property
    def application_is_active(self) -> bool:
        return self.instance.application.status == TenantStatus.ACTIVE

    @property
    def may(self) -> bool:
        tenants = self.namespace_is_active and self.application_is_active
        return tenants and self.person.is_active and all(need.holds for need in self.needs)


def why(actor: Actor, person: Any, instance_id: str) -> Why:
    """Explains the rights of an account on one instance of the actor's namespace.

    The actor needs access:admin, and workflows:read to see the instance. Raises PermissionDenied, NotFound.
    """
    permissions.require_administration(actor)
    permissions.require_reading(actor)
    instance = permissions.find_instance(actor, instance_id)
    now = clock.now()
    held = overview.of_person(instance.namespace_id, person)
    queues = Queue.objects.filter(pk__in=definitions.load(instance.definition_version_id).queue_ids)
    targets = [(READ, "", instance.namespace_id), (RECOVER, "", instance.namespace_id)]
    targets += [(USE_QUEUE, name, key) for name, key in queues.order_by("name").values_list("name", "pk")]
    needs = []
    for permission, queue, target_id in targets:
        ways = tuple(held.get((permission, target_id), ()))
        holds = person.is_active and any(way.grant.counts(now) for way in ways)
        needs.append(Need(permission, queue, ways, holds))
    return Why(instance, person, now, tuple(needs), tuple(permissions.administrators(instance.namespace_id)))
