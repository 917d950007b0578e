"""The system: whether what runs behind the console runs."""

from __future__ import annotations

from django.http import HttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from recovery import clock
from recovery.console.middleware import page
from recovery.console.presenters.health import system_page
from recovery.console.reader import Request
from recovery.errors import NotFound


@require_safe
def system(request: Request) -> HttpResponse:
    """For whoever may read a namespace; what belongs to other namespaces is not counted."""
    if not request.reader.namespaces:
        raise NotFound(_("There is nothing here that you may see."))
    now = clock.now()
    shown = system_page(request.reader.namespaces, now)
    return page(request, "console/system.html", {"section": "system", "page": shown, "now": now})
