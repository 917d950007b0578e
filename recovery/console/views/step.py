"""The page of one step."""

from __future__ import annotations

from django.http import HttpResponse

from recovery.console import find
from recovery.console.middleware import page
from recovery.console.presenters.step import step_page
from recovery.console.reader import Request


def step(request: Request, instance_id: str, step_key: str) -> HttpResponse:
    """A leaf's history. A SEQUENCE or PARALLEL has none of its own: its page is the instance's tree."""
    found = find.instance(request, instance_id)
    find.leaf(found, step_key)
    shown = step_page(found, step_key, everything="all" in request.GET)
    context = {"section": "instances", "namespace": found.instance.namespace, "found": found, "page": shown}
    return page(request, "console/step.html", context | {"now": shown.case.now, "instance": shown.case.instance})
