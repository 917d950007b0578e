"""Whom rights are granted to: people and groups, found by their exact name."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.utils.translation import gettext as _

from recovery.access.ledger import kind_of
from recovery.errors import ValidationFailed
from recovery.models import Namespace, Queue
from recovery.permissions import USE_QUEUE

PERMISSIONS: tuple[str, ...] = tuple(name for name, _label in Namespace._meta.permissions)
"""What can be granted on a namespace. `queues:use` is granted on its queues."""


def user(name: str) -> Any | None:
    """The account of that very name. MariaDB would also find one that differs in case or accents."""
    found = get_user_model()._default_manager.filter(username=name).first()
    return found if found is not None and found.get_username() == name else None


def group(name: str) -> Group | None:
    """The group of that very name."""
    found = Group.objects.filter(name=name).first()
    return found if found is not None and found.name == name else None


def holder(kind: str, name: str) -> Any:
    """A user or a group. Raises ValidationFailed for the field `name`."""
    found = group(name) if kind == "group" else user(name)
    if found is None:
        sentence = _("There is no group of this name.") if kind == "group" else _("There is no account of this name.")
        raise ValidationFailed(sentence, fields={"name": [sentence]})
    return found


def includes(holder: Any, user_id: int) -> bool:
    """Whether what is granted to the holder reaches this person."""
    if kind_of(holder) == "user":
        return bool(holder.pk == user_id)
    return bool(holder.user_set.filter(pk=user_id).exists())


def target(namespace_id: str, permission: str, queue: str) -> Namespace | Queue:
    """What a permission is granted on: the namespace, or one of its queues by name. Raises ValidationFailed."""
    if permission == USE_QUEUE:
        found = Queue.objects.filter(namespace_id=namespace_id, name=queue).first()
        if found is None:
            sentence = _("This namespace has no such queue.")
            raise ValidationFailed(sentence, fields={"queues": [sentence]})
        return found
    if permission not in PERMISSIONS:
        sentence = _("There is no such permission.")
        raise ValidationFailed(sentence, fields={"permissions": [sentence]})
    return Namespace.objects.get(pk=namespace_id)
