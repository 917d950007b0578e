"""The only place that knows guardian: who may see, who may do.

A right counts when it was granted explicitly on the namespace (or queue), to the person or to one of their groups, and
has not ended at this moment. Being superuser or staff grants nothing (G2); guardian's own `has_perm` would.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.db.models import Q, QuerySet, Value
from django.utils.translation import gettext as _

from recovery import clock
from recovery.errors import NotFound, PermissionDenied
from recovery.models import (
    Namespace,
    NamespaceGroupGrant,
    NamespaceUserGrant,
    Queue,
    QueueGroupGrant,
    QueueUserGrant,
    WorkflowInstance,
)
from recovery.states import TenantStatus

READ = "workflows:read"
START = "workflows:start"
RECOVER = "workflows:recover"
PAUSE = "workflows:pause"
CANCEL = "workflows:cancel"
PUBLISH = "definitions:publish"
SEND_SIGNALS = "signals:send"
WORK = "tasks:work"
REVIEW_TASKS = "tasks:review"
CANCEL_TASKS = "tasks:cancel"
ATTACH_EVIDENCE = "evidence:attach"
READ_EVIDENCE = "evidence:read"
READ_AUDIT = "audit:read"
ADMINISTER = "access:admin"
USE_QUEUE = "queues:use"


@dataclass(frozen=True, kw_only=True)
class Actor:
    """Who acts, and in which namespace. Made from a session or a credential, never from a command (G1)."""

    user_id: int
    username: str
    namespace_id: str
    application_id: str | None = None
    """Where the credential is limited to one application."""
    credential_id: str | None = None


@dataclass(frozen=True)
class Rights:
    """What one person may do in one namespace at one moment. `queues`: ids with `queues:use`."""

    namespace_id: str
    permissions: frozenset[str]
    queues: frozenset[str]

    def may(self, permission: str) -> bool:
        return permission in self.permissions

    def missing_queues(self, queue_ids: Iterable[str]) -> list[str]:
        return sorted(set(queue_ids) - self.queues)


def _counting(now: datetime) -> Q:
    """Grants that count at `now`. An end is enforced here, at the moment of use, not by a clean-up."""
    return Q(expires_at=None) | Q(expires_at__gt=now)


def _held(user_id: int, now: datetime) -> tuple[QuerySet[Any], QuerySet[Any]]:
    """The codenames on namespaces and on queues that count for one active person, each row (codename, object id)."""
    counts = _counting(now)
    own = counts & Q(user_id=user_id, user__is_active=True)
    through_group = counts & Q(group__user=user_id, group__user__is_active=True)
    row = ("permission__codename", "content_object_id")
    namespaces = NamespaceUserGrant.objects.filter(own).values_list(*row)
    namespaces = namespaces.union(NamespaceGroupGrant.objects.filter(through_group).values_list(*row))
    queues = QueueUserGrant.objects.filter(own).values_list(*row)
    queues = queues.union(QueueGroupGrant.objects.filter(through_group).values_list(*row))
    return namespaces, queues


def all_rights(user_id: int) -> dict[str, Rights]:
    """The rights of a person by namespace, where they have any, in one statement."""
    namespaces, queues = _held(user_id, clock.now())
    held: dict[str, set[str]] = {}
    usable = set()
    for codename, object_id in namespaces.union(queues):
        if codename == USE_QUEUE:
            usable.add(object_id)
        else:
            held.setdefault(object_id, set()).add(codename)
    return {key: Rights(key, frozenset(codenames), frozenset(usable)) for key, codenames in held.items()}


def rights_of(user_id: int, namespace_id: str) -> Rights:
    """All rights of a person in a namespace, in one statement. A suspended namespace grants nothing but reading."""
    namespaces, queues = _held(user_id, clock.now())
    permissions, usable = set(), set()
    for codename, object_id in namespaces.union(queues):
        if codename == USE_QUEUE:
            usable.add(object_id)
        elif object_id == namespace_id:
            permissions.add(codename)
    return Rights(namespace_id, frozenset(permissions), frozenset(usable))


def namespaces_where(user_id: int, permission: str) -> list[str]:
    """The ids of the namespaces on which a person holds a permission now. Lists and single checks share this rule."""
    namespaces, _queues = _held(user_id, clock.now())
    return sorted({object_id for codename, object_id in namespaces if codename == permission})


def require_reading(actor: Actor) -> Rights:
    """All rights of somebody who may see the namespace. Raises NotFound for anybody else."""
    rights = rights_of(actor.user_id, actor.namespace_id)
    if not rights.may(READ):
        raise NotFound(_("There is nothing here that you may see."))
    return rights


def require(actor: Actor, permission: str, *, queue_ids: Iterable[str] = ()) -> Rights:
    """Checks one right and the queues it needs; answers all rights.

    Raises NotFound where the person may not even read the namespace, PermissionDenied where a right or a queue is
    missing. Not for the worker protocol: a worker need not read workflows.
    """
    return check(require_reading(actor), permission, queue_ids=queue_ids)


def require_work(actor: Actor, permission: str, *, queue_ids: Iterable[str] = ()) -> Rights:
    """As `require`, for callers that need not see workflows: workers and senders of signals."""
    return check(rights_of(actor.user_id, actor.namespace_id), permission, queue_ids=queue_ids)


def check(rights: Rights, permission: str, *, queue_ids: Iterable[str] = ()) -> Rights:
    """Raises PermissionDenied, with what is missing and who can grant it."""
    if not rights.may(permission):
        raise PermissionDenied(
            _("The right %(right)s on this namespace is missing. Somebody with access:admin can grant it.")
            % {"right": permission},
            rule="G2",
        )
    if missing := rights.missing_queues(queue_ids):
        names = ", ".join(Queue.objects.filter(pk__in=missing).order_by("name").values_list("name", flat=True))
        raise PermissionDenied(
            _("queues:use is missing on: %(queues)s. Somebody with access:admin can grant it.") % {"queues": names},
            rule="G2",
        )
    return rights


def require_active(namespace: Namespace, application: Any | None = None) -> None:
    """G1: a suspended namespace or application decides nothing. Raises PermissionDenied."""
    if namespace.status != TenantStatus.ACTIVE:
        raise PermissionDenied(_("The namespace is suspended."), rule="G1")
    if application is not None and application.status != TenantStatus.ACTIVE:
        raise PermissionDenied(_("The application is suspended."), rule="G1")


def find_instance(actor: Actor, instance_id: str) -> WorkflowInstance:
    """The instance, if it is of the actor's namespace and of the application that their credential is limited to.

    Raises NotFound alike for what is missing and for what is foreign. Says nothing about rights.
    Namespace, application with its quota, and gate come with it, unlocked.
    """
    related = ("namespace", "application__applicationquota", "instancegate")
    found = WorkflowInstance.objects.select_related(*related)
    instance = found.filter(pk=instance_id, namespace_id=actor.namespace_id).first()
    if instance is None or actor.application_id not in (None, instance.application_id):
        raise NotFound(_("There is nothing here that you may see."))
    return instance


def actor_of(user: Any, namespace_id: str) -> Actor:
    """The actor of a signed-in session, in the namespace of what the URL names (G1)."""
    return Actor(user_id=user.pk, username=user.get_username(), namespace_id=namespace_id)


def require_administration(actor: Actor) -> Rights:
    """All rights of somebody who may administer access to the namespace, whether or not they may see its workflows.

    Raises PermissionDenied for those who only see it, NotFound for anybody else.
    """
    return check_administration(rights_of(actor.user_id, actor.namespace_id))


def check_administration(rights: Rights) -> Rights:
    """As `require_administration`, on rights that were asked for before."""
    if not rights.may(ADMINISTER) and not rights.may(READ):
        raise NotFound(_("There is nothing here that you may see."))
    return check(rights, ADMINISTER)


# The grants themselves: rows, without a check and without a log. `recovery.access` is who decides about them.

FOREVER = datetime.max.replace(tzinfo=UTC)
"""Later than every end of a grant."""


@dataclass(frozen=True)
class Grant:
    """A right that was granted, whether it still counts or has ended. `holder`: user or group name, by `kind`."""

    kind: str
    holder_id: int
    holder: str
    permission: str
    target_id: str
    """Of the namespace, or of the queue where the permission is queues:use."""
    expires_at: datetime | None
    granted_by: str
    reason: str
    created_at: datetime | None

    def counts(self, now: datetime) -> bool:
        return self.expires_at is None or self.expires_at > now


def grants(namespace_id: str) -> list[Grant]:
    """Every grant on a namespace and on its queues, those that have ended too, in one statement."""
    on_namespace, on_queues = Q(content_object=namespace_id), Q(content_object__namespace_id=namespace_id)
    rows = _rows(NamespaceUserGrant, on_namespace).union(
        _rows(NamespaceGroupGrant, on_namespace),
        _rows(QueueUserGrant, on_queues),
        _rows(QueueGroupGrant, on_queues),
        all=True,
    )
    return sorted((Grant(*row) for row in rows), key=lambda grant: (grant.kind, grant.holder, grant.permission))


def _rows(model: Any, where: Q) -> QuerySet[Any]:
    kind, name = ("user", "user__username") if hasattr(model, "user") else ("group", "group__name")
    what = ("permission__codename", "content_object_id", "expires_at", "granted_by", "reason", "created_at")
    return model.objects.filter(where).values_list(Value(kind), f"{kind}_id", name, *what)


def administered_until(now: datetime) -> dict[str, datetime]:
    """Until when each namespace that has an active administrator keeps one if nobody changes anything."""
    admin = _counting(now) & Q(permission__codename=ADMINISTER)
    direct = NamespaceUserGrant.objects.filter(admin, user__is_active=True)
    through_group = NamespaceGroupGrant.objects.filter(admin, group__user__is_active=True)
    until: dict[str, datetime] = {}
    row = ("content_object_id", "expires_at")
    for namespace_id, expires_at in direct.values_list(*row).union(through_group.values_list(*row)):
        until[namespace_id] = max(until.get(namespace_id, now), expires_at or FOREVER)
    return until


def administrators(namespace_id: str) -> list[str]:
    """Names of the active people who can grant rights on a namespace now."""
    admin = _counting(clock.now()) & Q(permission__codename=ADMINISTER, content_object=namespace_id)
    direct = NamespaceUserGrant.objects.filter(admin, user__is_active=True).values_list("user__username", flat=True)
    members = NamespaceGroupGrant.objects.filter(admin, group__user__is_active=True)
    return sorted(direct.union(members.values_list("group__user__username", flat=True)))


def namespaces_of_group(group_id: int) -> dict[str, bool]:
    """Where a group holds anything, ended or not; and whether access:admin, not ended, is among it."""
    counts = _counting(clock.now())
    held = dict.fromkeys(
        QueueGroupGrant.objects.filter(group_id=group_id).values_list("content_object__namespace_id", flat=True), False
    )
    rows = NamespaceGroupGrant.objects.filter(group_id=group_id).annotate(counts=counts)
    for namespace_id, codename, is_counted in rows.values_list("content_object_id", "permission__codename", "counts"):
        held[namespace_id] = held.get(namespace_id, False) or (codename == ADMINISTER and is_counted)
    return held


def grant(
    grantee: Any,
    permission: str,
    target: Namespace | Queue,
    *,
    by: str,
    reason: str,
    expires_at: datetime | None = None,
) -> None:
    """Gives a user or a group a permission on a namespace or queue, or changes the end of a grant they hold."""
    model, which = _grant_rows(grantee, permission, target)
    said = {"expires_at": expires_at, "granted_by": by, "reason": reason, "created_at": clock.now()}
    model.objects.update_or_create(**which, defaults=said)


def revoke(grantee: Any, permission: str, target: Namespace | Queue) -> None:
    """Takes a permission on a namespace or queue from a user or a group."""
    model, which = _grant_rows(grantee, permission, target)
    model.objects.filter(**which).delete()


def _grant_rows(grantee: Any, permission: str, target: Namespace | Queue) -> tuple[Any, dict[str, Any]]:
    """The table of a grant, and the columns that identify it there."""
    kind = "user" if isinstance(grantee, get_user_model()) else "group"
    models: dict[tuple[bool, str], Any] = {
        (False, "user"): NamespaceUserGrant,
        (False, "group"): NamespaceGroupGrant,
        (True, "user"): QueueUserGrant,
        (True, "group"): QueueGroupGrant,
    }
    codename = Permission.objects.get(content_type__app_label="recovery", codename=permission)
    which = {kind: grantee, "permission": codename, "content_object": target}
    return models[isinstance(target, Queue), kind], which
