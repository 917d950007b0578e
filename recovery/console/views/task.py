"""The page of one task."""

from __future__ import annotations

from django.http import HttpResponse

from recovery import clock
from recovery.console import find
from recovery.console.middleware import page
from recovery.console.presenters.task import task_page
from recovery.console.reader import Request


def task(request: Request, task_id: str) -> HttpResponse:
    found, row = find.task(request, task_id)
    context = {"section": "instances", "namespace": found.instance.namespace, "instance": found.instance}
    return page(request, "console/task.html", context | {"page": task_page(found, row), "now": clock.now()})
