"""The log of access in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils.translation import gettext_lazy as _

from recovery.access.provision.document import instant
from recovery.models import AccessLog
from recovery.operations.commands import Invalid

ACTIONS: Mapping[str, Any] = {
    "grant": _("%(subject)s: %(what)s granted"),
    "change_grant": _("%(subject)s: grant of %(what)s changed"),
    "revoke": _("%(subject)s: %(what)s revoked"),
    "create_group": _("group %(subject)s made"),
    "join_group": _("%(subject)s joins %(group)s"),
    "leave_group": _("%(subject)s leaves %(group)s"),
    "create_user": _("account %(subject)s made"),
    "change_user": _("account %(subject)s changed"),
    "create_credential": _("%(subject)s: credential “%(label)s” made"),
    "change_credential": _("%(subject)s: credential “%(label)s” changed"),
    "rotate_credential": _("%(subject)s: credential “%(label)s” has a new secret"),
    "revoke_credential": _("%(subject)s: credential “%(label)s” revoked"),
    "create_namespace": _("namespace made"),
    "change_namespace": _("namespace changed"),
    "create_application": _("application %(application)s made"),
    "change_application": _("application %(application)s changed"),
    "create_queue": _("queue %(queue)s made"),
    "change_queue": _("queue %(queue)s changed"),
}

VALUES: Mapping[str, Any] = {
    "expires_at": _("until"),
    "revoked_at": _("revoked at"),
    "members": _("members then:"),
    "superuser": _("superuser:"),
    "password": _("password given:"),
    "display_name": _("display name:"),
    "status": _("status:"),
}
"""What a value is called; columns of quotas are called what they are called in files."""

NAMED = ("group", "label", "application", "queue", "credential", "granted_by", "granted_at", "reason")
"""What the sentence already says, or the entry of an earlier change."""


@dataclass(frozen=True)
class Delta:
    """One value that the change has set. `before` is None where there was nothing."""

    name: Any
    before: Any
    after: Any


def sentence(entry: AccessLog) -> str:
    """What happened. An action that nobody knows yet is shown as itself."""
    facts = {**(entry.before or {}), **(entry.after or {})}
    what = f"{entry.permission} {entry.queue.name}" if entry.queue else entry.permission
    words = {name: facts.get(name) or "" for name in NAMED} | {"subject": entry.subject, "what": what}
    return str(ACTIONS.get(entry.action, entry.action)) % words


def deltas(entry: AccessLog) -> list[Delta]:
    """The values that differ, times as times."""
    before, after = entry.before or {}, entry.after or {}
    if entry.action == "revoke":
        return []
    names = [name for name in dict.fromkeys([*before, *after]) if before.get(name) != after.get(name)]
    return [
        Delta(VALUES.get(name, name), _value(before.get(name)), _value(after.get(name)))
        for name in names
        if name not in NAMED
    ]


def _value(value: Any) -> Any:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    try:
        moment: datetime = instant(value)
    except Invalid:
        return value
    return moment
