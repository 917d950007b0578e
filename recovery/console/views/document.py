"""Whole JSON documents, for those that a page only shows the beginning of."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from django.utils.translation import gettext as _

from recovery import exact_json
from recovery.console import find
from recovery.console.reader import Request
from recovery.errors import NotFound
from recovery.models import TaskResult, WorkflowStep


def instance_document(request: Request, instance_id: str, name: str) -> HttpResponse:
    """`input` or `output` of an instance."""
    instance = find.instance(request, instance_id).instance
    return _file(instance.input if name == "input" else instance.output, f"{name}.json")


def step_document(request: Request, instance_id: str, name: str, step_key: str) -> HttpResponse:
    """`input` or `output` of a step's current activation."""
    found = find.instance(request, instance_id)
    rows = WorkflowStep.objects.select_related("current_activation")
    step = rows.filter(instance_id=found.instance.pk, step_key=step_key).first()
    if step is None or step.current_activation is None:
        raise NotFound(_("There is no such document."))
    return _file(step.current_activation.input if name == "input" else step.output, f"{name}.json")


def task_document(request: Request, task_id: str, name: str, revision: str) -> HttpResponse:
    """A task's `input`, or its result of one revision."""
    task = find.task(request, task_id)[1]
    if name == "input":
        return _file(task.input, "input.json")
    result = TaskResult.objects.filter(task_id=task.pk, task_revision=int(revision)).first()
    if result is None:
        raise NotFound(_("There is no such document."))
    return _file(result.payload, f"result-{revision}.json")


def _file(value: Any, name: str) -> HttpResponse:
    response = HttpResponse(exact_json.dumps(value), content_type="application/json")
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    response["X-Content-Type-Options"] = "nosniff"
    return response
