"""What was handled: whether all that waited last night was decided, by whom, when and how."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from django.views.decorators.http import require_safe

from recovery import clock
from recovery.console.forms import HandledFilter
from recovery.console.middleware import page
from recovery.console.presenters import audits
from recovery.console.presenters.handled import ACTIONS, handled
from recovery.console.reader import Request


@require_safe
def listed(request: Request) -> HttpResponse:
    """Decisions by the six operations, newest first; an invalid filter shows no row and says why."""
    reader = request.reader
    form = HandledFilter(request.GET, reader.named(reader.namespaces))
    now = clock.now()
    context: dict[str, Any] = {"section": "review", "form": form, "now": now}
    if not form.is_valid():
        return page(request, "console/handled.html", context, status=422)
    act = form.cleaned_data["act"].replace("-", "_")
    search = audits.Search(
        form.namespace_ids, (act,) if act else ACTIONS, form.cleaned_data["actor"], since=form.since(now)
    )
    found = audits.find(search, request.GET.get("after", ""))
    return page(request, "console/handled.html", context | {"rows": handled(found.entries), "found": found})
