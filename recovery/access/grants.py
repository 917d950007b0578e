"""Granting rights, changing their end, and taking them away."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils.translation import gettext as _

from recovery import exact_json, permissions
from recovery.access import holders
from recovery.access.ledger import Ledger, change, kind_of, name_of
from recovery.audit import instant
from recovery.errors import PermissionDenied, RevisionConflict, StateConflict, ValidationFailed
from recovery.models import AccessLog, Namespace, Queue
from recovery.operations import commands
from recovery.permissions import ADMINISTER, USE_QUEUE, Actor, Grant


@dataclass(frozen=True)
class Held:
    """Names one grant in a namespace: whose, and what. `queue`: its name, where the permission is queues:use."""

    kind: str
    name: str
    permission: str
    queue: str = ""


def grant(
    actor: Actor,
    kind: str,
    name: str,
    *,
    names: Iterable[str] = (),
    queues: Iterable[str] = (),
    expires_at: datetime | None = None,
    reason: str,
) -> list[AccessLog]:
    """Grants a user or a group permissions on the actor's namespace, and `queues:use` on queues of it.

    Answers what was logged; what the actor has already granted alike is left as it is, so that a form sent twice
    grants once. Raises ValidationFailed, PermissionDenied for a self-grant of access:admin, StateConflict for what is
    held with another end.
    """
    wanted = [(permission, "") for permission in dict.fromkeys(names)]
    wanted += [(USE_QUEUE, queue) for queue in dict.fromkeys(queues)]
    check_reason(reason)

    def work(ledger: Ledger) -> list[AccessLog]:
        permissions.require_administration(actor)
        if not wanted:
            sentence = _("Choose at least one permission or queue.")
            raise ValidationFailed(sentence, fields={"permissions": [sentence]})
        check_end(expires_at, ledger.now)
        grantee = holders.holder(kind, name)
        known = index(actor.namespace_id)
        for permission, queue in wanted:
            target = holders.target(actor.namespace_id, permission, queue)
            before = known.get(key(grantee, permission, target))
            if before is not None and before.counts(ledger.now):
                _require_alike(before, actor, expires_at, reason)
                continue
            refuse_self_grant(actor, grantee, permission, before, expires_at, ledger.now)
            put(ledger, actor.namespace_id, grantee, permission, target, before, expires_at, reason)
        return ledger.entries

    return change(actor.username, work)


def change_end(actor: Actor, held: Held, *, version: str, expires_at: datetime | None, reason: str) -> list[AccessLog]:
    """Moves the end of a grant. `version`: of the grant as it was seen; a newer one raises RevisionConflict."""
    check_reason(reason)

    def work(ledger: Ledger) -> list[AccessLog]:
        permissions.require_administration(actor)
        check_end(expires_at, ledger.now)
        grantee, target, before = _locked(actor, held, version)
        refuse_self_grant(actor, grantee, held.permission, before, expires_at, ledger.now)
        put(ledger, actor.namespace_id, grantee, held.permission, target, before, expires_at, reason)
        return ledger.entries

    return change(actor.username, work)


def revoke(actor: Actor, held: Held, *, version: str, reason: str) -> list[AccessLog]:
    """Takes a grant away; it counts no more from the next request on. Raises as `change_end`."""
    check_reason(reason)

    def work(ledger: Ledger) -> list[AccessLog]:
        permissions.require_administration(actor)
        grantee, target, before = _locked(actor, held, version)
        take(ledger, actor.namespace_id, grantee, held.permission, target, before, reason)
        return ledger.entries

    return change(actor.username, work)


# Parts that commands share


def put(
    ledger: Ledger,
    namespace_id: str,
    grantee: Any,
    permission: str,
    target: Namespace | Queue,
    before: Grant | None,
    expires_at: datetime | None,
    reason: str,
) -> None:
    """Writes a grant and its entry in the log. An entry about a group also says who its members are."""
    permissions.grant(grantee, permission, target, by=ledger.by, reason=reason, expires_at=expires_at)
    after: dict[str, Any] = {"expires_at": expires_at and instant(expires_at)}
    if kind_of(grantee) == "group":
        after["members"] = sorted(grantee.user_set.values_list("username", flat=True))
    ledger.enter(
        "change_grant" if before and before.counts(ledger.now) else "grant",
        reason=reason,
        namespace_id=namespace_id,
        queue=target if isinstance(target, Queue) else None,
        subject=grantee,
        permission=permission,
        before=before and as_logged(before),
        after=after,
    )


def take(
    ledger: Ledger,
    namespace_id: str,
    grantee: Any,
    permission: str,
    target: Namespace | Queue,
    before: Grant,
    reason: str,
) -> None:
    """Removes a grant and writes its entry in the log."""
    permissions.revoke(grantee, permission, target)
    ledger.enter(
        "revoke",
        reason=reason,
        namespace_id=namespace_id,
        queue=target if isinstance(target, Queue) else None,
        subject=grantee,
        permission=permission,
        before=as_logged(before),
    )


def as_logged(grant: Grant) -> dict[str, Any]:
    """A grant as the log keeps it."""
    return {
        "expires_at": grant.expires_at and instant(grant.expires_at),
        "granted_by": grant.granted_by,
        "reason": grant.reason,
        "granted_at": grant.created_at and instant(grant.created_at),
    }


def version(grant: Grant) -> str:
    """What tells a grant from the same one after somebody has changed it: 16 hexadecimal digits."""
    return exact_json.digest([grant.kind, grant.holder_id, grant.permission, grant.target_id, as_logged(grant)])[:16]


Key = tuple[str, int, str, str]
"""Kind and id of the holder, permission, id of the target: what identifies a grant."""


def index(namespace_id: str) -> dict[Key, Grant]:
    """Every grant of a namespace, ended or not."""
    return {(row.kind, row.holder_id, row.permission, row.target_id): row for row in permissions.grants(namespace_id)}


def key(grantee: Any, permission: str, target: Namespace | Queue) -> Key:
    return kind_of(grantee), grantee.pk, permission, target.pk


def check_reason(reason: str) -> None:
    """Raises ValidationFailed unless the reason is one (G3)."""
    try:
        commands.reason(reason)
    except commands.Invalid as error:
        raise ValidationFailed(str(error), fields={"reason": [str(error)]}) from None


def check_end(expires_at: datetime | None, now: datetime) -> None:
    """Raises ValidationFailed for an end that is reached."""
    if expires_at is not None and expires_at <= now:
        sentence = _("This time has passed. Choose a later one, or revoke instead.")
        raise ValidationFailed(sentence, fields={"expires_at": [sentence]})


def refuse_self_grant(
    actor: Actor, grantee: Any, permission: str, before: Grant | None, expires_at: datetime | None, now: datetime
) -> None:
    """Nobody grants or prolongs their own access:admin, neither directly nor through a group; shortening is allowed.

    Raises PermissionDenied.
    """
    if permission != ADMINISTER or not holders.includes(grantee, actor.user_id):
        return
    until = expires_at or permissions.FOREVER
    if before is None or not before.counts(now) or until > (before.expires_at or permissions.FOREVER):
        raise PermissionDenied(
            _("Nobody grants access:admin to themselves, nor to a group of theirs. Ask another administrator.")
        )


def _locked(actor: Actor, held: Held, seen: str) -> tuple[Any, Namespace | Queue, Grant]:
    grantee = holders.holder(held.kind, held.name)
    target = holders.target(actor.namespace_id, held.permission, held.queue)
    found = index(actor.namespace_id).get(key(grantee, held.permission, target))
    if found is None:
        raise StateConflict(
            _("%(holder)s does not hold %(permission)s any more: it was revoked.")
            % {"holder": name_of(grantee), "permission": held.permission}
        )
    if version(found) != seen:
        end = _("without an end") if found.expires_at is None else instant(found.expires_at)
        raise RevisionConflict(
            _("This grant was changed by %(by)s since you opened it; it now ends: %(end)s. Read it again, then decide.")
            % {"by": found.granted_by, "end": end},
            current={"version": version(found), "expires_at": as_logged(found)["expires_at"]},
        )
    return grantee, target, found


def _require_alike(before: Grant, actor: Actor, expires_at: datetime | None, reason: str) -> None:
    if (before.expires_at, before.granted_by, before.reason) == (expires_at, actor.username, reason):
        return
    raise StateConflict(
        _("%(holder)s already holds %(permission)s, granted by %(by)s. Change the end of that grant instead.")
        % {"holder": before.holder, "permission": before.permission, "by": before.granted_by}
    )
