"""Groups: making them, and who belongs to them.

A group may hold rights in several namespaces, so whoever changes its members must administer all of these.
"""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import Group
from django.utils.translation import gettext as _

from recovery import permissions
from recovery.access import holders
from recovery.access.grants import check_reason
from recovery.access.ledger import Ledger, change
from recovery.errors import PermissionDenied, StateConflict, ValidationFailed
from recovery.models import AccessLog
from recovery.operations import commands
from recovery.permissions import Actor

MAX_NAME = 150
"""Characters of a group's name."""


def create(actor: Actor, name: str, *, reason: str) -> list[AccessLog]:
    """Makes a group that holds nothing yet. Raises ValidationFailed."""
    check_reason(reason)
    try:
        commands.label(name, MAX_NAME)
    except commands.Invalid as error:
        raise ValidationFailed(str(error), fields={"name": [str(error)]}) from None

    def work(ledger: Ledger) -> list[AccessLog]:
        permissions.require_administration(actor)
        if Group.objects.filter(name=name).exists():
            sentence = _("There is a group of this name, or of one that differs in case or accents only.")
            raise ValidationFailed(sentence, fields={"name": [sentence]})
        make(ledger, name, reason=reason, namespace_id=actor.namespace_id)
        return ledger.entries

    return change(actor.username, work)


def join(actor: Actor, group: str, username: str, *, reason: str) -> list[AccessLog]:
    """Adds a person to a group; nothing happens when they belong to it.

    Raises ValidationFailed, and PermissionDenied for whoever does not administer everything that the group reaches,
    or would give access:admin to themselves.
    """
    check_reason(reason)

    def work(ledger: Ledger) -> list[AccessLog]:
        into, person = _require_over(actor, group), holders.holder("user", username)
        if any(permissions.namespaces_of_group(into.pk).values()) and person.pk == actor.user_id:
            raise PermissionDenied(
                _("This group holds access:admin, and nobody grants that to themselves. Ask another administrator.")
            )
        if not holders.includes(into, person.pk):
            add(ledger, into, person, reason=reason, namespace_id=actor.namespace_id)
        return ledger.entries

    return change(actor.username, work)


def leave(actor: Actor, group: str, username: str, *, reason: str) -> list[AccessLog]:
    """Removes a person from a group. Raises StateConflict when they do not belong to it; otherwise as `join`."""
    check_reason(reason)

    def work(ledger: Ledger) -> list[AccessLog]:
        of, person = _require_over(actor, group), holders.holder("user", username)
        if not holders.includes(of, person.pk):
            raise StateConflict(
                _("%(person)s does not belong to %(group)s any more.") % {"person": username, "group": group}
            )
        remove(ledger, of, person, reason=reason, namespace_id=actor.namespace_id)
        return ledger.entries

    return change(actor.username, work)


# Parts that commands share


def make(ledger: Ledger, name: str, *, reason: str, namespace_id: str | None = None) -> Group:
    made = Group.objects.create(name=name)
    ledger.enter("create_group", reason=reason, namespace_id=namespace_id, subject=made)
    return made


def add(ledger: Ledger, group: Group, person: Any, *, reason: str, namespace_id: str | None = None) -> None:
    group.user_set.add(person)
    _enter(ledger, "join_group", group, person, reason, namespace_id)


def remove(ledger: Ledger, group: Group, person: Any, *, reason: str, namespace_id: str | None = None) -> None:
    group.user_set.remove(person)
    _enter(ledger, "leave_group", group, person, reason, namespace_id)


def _enter(ledger: Ledger, action: str, group: Group, person: Any, reason: str, namespace_id: str | None) -> None:
    """One entry for each namespace that the group reaches, so that the log of each is whole."""
    reached = set(permissions.namespaces_of_group(group.pk)) | {namespace_id}
    if len(reached) > 1:
        reached.discard(None)
    for key in sorted(reached, key=str):
        ledger.enter(action, reason=reason, namespace_id=key, subject=person, after={"group": group.name})


def _require_over(actor: Actor, name: str) -> Group:
    permissions.require_administration(actor)
    found: Group = holders.holder("group", name)
    reached = set(permissions.namespaces_of_group(found.pk))
    if reached - set(permissions.namespaces_where(actor.user_id, permissions.ADMINISTER)):
        raise PermissionDenied(
            _(
                "This group also holds rights in other namespaces. Who belongs to it is for somebody who administers "
                "access to all of them."
            )
        )
    return found
