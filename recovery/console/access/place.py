"""Where an administrator works: the namespace that the URL names, with who they are there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.db.models import QuerySet
from django.http import HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _

from recovery import clock, permissions
from recovery.console.access import log
from recovery.console.access.forms import ReasonedForm
from recovery.console.middleware import SeeOther, page
from recovery.console.reader import Request
from recovery.errors import DomainError, NotFound
from recovery.models import AccessLog, Namespace
from recovery.permissions import Actor


@dataclass(frozen=True)
class Place:
    """One request of somebody who holds access:admin on the namespace."""

    request: Request
    namespace: Namespace
    actor: Actor

    def url(self, page_name: str, *names: str, **query: str) -> str:
        """A page of access to this namespace."""
        url = reverse(f"console:{page_name}", args=[self.namespace.name, *names])
        return f"{url}?{urlencode(query)}" if query else url

    def holder_url(self, kind: str, name: str) -> str:
        return self.url("access-group" if kind == "group" else "access-person", name)

    def render(self, template: str, *, tab: str = "", status: int = 200, **context: Any) -> HttpResponse:
        shared = {"section": "access", "namespace": self.namespace, "tab": tab, "now": clock.now(), "place": self}
        return page(self.request, f"access/{template}.html", shared | context, status=status)

    def accepts(self, form: ReasonedForm, template: str, **context: Any) -> bool:
        """Whether the form was sent. A refusal of what follows renders it again, with everything typed kept."""

        def refused(error: DomainError) -> HttpResponse:
            form.tell(error)
            return self.render(template, status=error.status, form=form, error=error, **context)

        self.request.refused = refused
        return self.request.method == "POST"

    def done(self, url: str, entries: Iterable[AccessLog], about: str) -> HttpResponse:
        """To a page that shows what was logged about somebody: success is read from the log alone."""
        entry = next(iter(entries), None)
        if entry is None:  # the form was sent before
            entry = self._own_entries.filter(subject=about).order_by("-sequence").first()
        return SeeOther(f"{url}?{urlencode({'done': entry.sequence})}" if entry else url)

    @property
    def logged(self) -> log.Line | None:
        """The entry that the page was sent to after a change, where this person wrote it."""
        sequence = self.request.GET.get("done", "")
        if not (sequence.isascii() and sequence.isdigit() and len(sequence) <= 18):
            return None
        entry = self._own_entries.select_related("queue").filter(sequence=int(sequence)).first()
        return log.line(entry) if entry else None

    @property
    def _own_entries(self) -> QuerySet[AccessLog]:
        return AccessLog.objects.filter(namespace=self.namespace, actor=self.actor.username)


def administered(request: Request, name: str) -> Place:
    """The namespace of that name, for who may administer access to it.

    Raises NotFound for who may not even see it, alike for one that is not there, and PermissionDenied for readers.
    """
    row = Namespace.objects.filter(name=name).first()
    if row is None:
        raise NotFound(_("There is nothing here that you may see."))
    permissions.check_administration(request.reader.rights(row.pk))
    return Place(request, row, request.reader.actor(row.pk))
