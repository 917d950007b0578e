"""The page of one instance, and its live line."""

from __future__ import annotations

from django.http import HttpResponse
from django.shortcuts import render

from recovery.console import find
from recovery.console.middleware import page
from recovery.console.presenters.instance import instance_page
from recovery.console.reader import Request


def instance(request: Request, instance_id: str) -> HttpResponse:
    found = find.instance(request, instance_id)
    number = request.GET.get("page", "")
    shown = instance_page(
        found, at=request.GET.get("at", ""), page=int(number) if number.isascii() and number.isdecimal() else 1
    )
    context = {"section": "instances", "namespace": found.instance.namespace, "found": found, "page": shown}
    return page(request, "console/instance.html", context | {"now": shown.case.now, "instance": shown.case.instance})


def newer(request: Request, instance_id: str) -> HttpResponse:
    """The live line: how many facts are newer than the revision that the page shows, 204 when none."""
    found = find.instance(request, instance_id)
    seen = request.GET.get("revision", "")
    count = found.instance.revision - int(seen) if seen.isascii() and seen.isdecimal() else 0
    if count <= 0:
        return HttpResponse(status=204)
    return render(request, "console/_newer.html", {"count": count, "revision": found.instance.revision})
