"""Who reads: rights and preferences of the signed-in person, each asked for at most once a request."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django_htmx.middleware import HtmxDetails

from recovery import permissions
from recovery.console import counts, times
from recovery.errors import DomainError
from recovery.models import Namespace, WorkflowInstance
from recovery.states import InstanceStatus

ZONE_COOKIE, THEME_COOKIE, KEYS_COOKIE = "weave_zone", "weave_theme", "weave_keys"
THEMES = ("system", "light", "dark")


class Reader:
    """Preferences live in cookies of the browser: a zone is a matter of the desk, not of the account."""

    def __init__(self, request: HttpRequest) -> None:
        self.user: Any = request.user
        self.zone = times.zone(request.COOKIES.get(ZONE_COOKIE, "UTC"))
        theme = request.COOKIES.get(THEME_COOKIE, "")
        self.theme = theme if theme in THEMES else "system"
        self.has_keys = request.COOKIES.get(KEYS_COOKIE) != "off"

    @property
    def offset(self) -> str:
        """The zone's present offset, for headings of columns."""
        return times.offset(timezone.now())

    @cached_property
    def _rights(self) -> dict[str, permissions.Rights]:
        return permissions.all_rights(self.user.pk) if self.user.is_authenticated else {}

    @property
    def namespaces(self) -> list[str]:
        """Ids of the namespaces whose workflows the person may read."""
        return sorted(key for key, rights in self._rights.items() if rights.may(permissions.READ))

    def may(self, permission: str) -> list[str]:
        """Ids of the namespaces that the person may read and where they hold the permission too."""
        return [key for key in self.namespaces if self._rights[key].may(permission)]

    @cached_property
    def may_audit(self) -> bool:
        return bool(self.may(permissions.READ_AUDIT))

    @property
    def may_administer(self) -> bool:
        """Whether the person administers access to any namespace, whether or not they may see its workflows."""
        return any(rights.may(permissions.ADMINISTER) for rights in self._rights.values())

    def named(self, keys: list[str]) -> list[tuple[str, str]]:
        """(id, name) of these namespaces, by name."""
        return list(Namespace.objects.filter(pk__in=keys).order_by("name").values_list("pk", "name"))

    @cached_property
    def names(self) -> list[str]:
        """What these namespaces are called."""
        return list(Namespace.objects.filter(pk__in=self.namespaces).order_by("name").values_list("name", flat=True))

    def rights(self, namespace_id: str) -> permissions.Rights:
        """What the person may do in one namespace."""
        return self._rights.get(namespace_id) or permissions.Rights(namespace_id, frozenset(), frozenset())

    def actor(self, namespace_id: str) -> permissions.Actor:
        """G1: the person from the session, the namespace from what the URL names."""
        return permissions.actor_of(self.user, namespace_id)

    @cached_property
    def waiting(self) -> str:
        """How many instances wait for a person, capped; "" where nobody waits."""
        rows = WorkflowInstance.objects.filter(namespace_id__in=self.namespaces, status=InstanceStatus.NEEDS_REVIEW)
        return counts.shown(counts.capped({"waiting": rows})["waiting"])


class Request(HttpRequest):
    """A request of the console, as the middleware leaves it to a view."""

    reader: Reader
    htmx: HtmxDetails
    refused: Callable[[DomainError], HttpResponse]
    """Left by a view that may be refused: renders its form again, with everything typed kept."""
