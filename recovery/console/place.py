"""Pages that show one namespace at a time: which one, and the others to choose from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

from recovery.console.reader import Request
from recovery.errors import NotFound
from recovery.models import Namespace


@dataclass(frozen=True)
class Place:
    """A namespace that the reader may see; `names`: all of them."""

    namespace: Namespace
    names: list[str]

    def context(self, section: str) -> dict[str, Any]:
        return {"section": section, "namespace": self.namespace, "names": self.names}


def chosen(request: Request) -> Place:
    """The namespace that `?namespace=` names, otherwise the first by name. Raises NotFound for what may not be seen."""
    rows = list(Namespace.objects.filter(pk__in=request.reader.namespaces).order_by("name"))
    wanted = request.GET.get("namespace", "")
    found = next((row for row in rows if wanted in ("", row.name)), None)
    if found is None:
        raise NotFound(_("There is nothing here that you may see."))
    return Place(found, [row.name for row in rows])
