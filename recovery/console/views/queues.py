"""Queues: their load, and what is the matter with one."""

from __future__ import annotations

from django.http import HttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from recovery import clock
from recovery.console import place
from recovery.console.middleware import page
from recovery.console.presenters import load
from recovery.console.reader import Request
from recovery.errors import NotFound
from recovery.models import Queue


@require_safe
def listed(request: Request) -> HttpResponse:
    """The queues of one namespace by name."""
    here, now = place.chosen(request), clock.now()
    rows, following = load.listed(here.namespace.pk, request.GET.get("after", ""), now)
    context = {"rows": rows, "next": following, "now": now}
    return page(request, "console/queues.html", here.context("queues") | context)


@require_safe
def queue(request: Request, name: str) -> HttpResponse:
    here, now = place.chosen(request), clock.now()
    row = Queue.objects.filter(namespace=here.namespace, name=name).first()
    if row is None:
        raise NotFound(_("There is no such queue, or you may not see it."))
    shown = load.queue_page(row, request.GET.get("after", ""), now)
    return page(request, "console/queue.html", here.context("queues") | {"queue": row, "page": shown, "now": now})
