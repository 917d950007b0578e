"""Landing on any identifier, and the list of instances."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.db.models import Q
from django.http import HttpResponse
from django.urls import reverse

from recovery.console.forms import InstanceFilter
from recovery.console.middleware import SeeOther, page
from recovery.console.presenters.instances import listed
from recovery.console.reader import Request
from recovery.evidence.references import SCHEME
from recovery.models import (
    EvidenceBundle,
    ManagementOperation,
    Signal,
    StepActivation,
    Task,
    TaskAttempt,
    WorkflowInstance,
    WorkflowStep,
)

MOST = 20
"""Hits that are listed where one identifier leads to several things."""


def go(request: Request) -> HttpResponse:
    """Lands on what the identifier names; lists the hits where there are several, and says so where there is none."""
    wanted = request.GET.get("q", "").strip()
    hits = list(dict.fromkeys(_hits(request.reader.namespaces, wanted))) if wanted else []
    if len(hits) == 1:
        return SeeOther(hits[0][1])
    return page(request, "console/go.html", {"wanted": wanted, "hits": hits[:MOST]}, status=200 if hits else 404)


def instances(request: Request) -> HttpResponse:
    """All instances that the reader may see, newest first."""
    form = InstanceFilter(request.GET, request.reader)
    context: dict[str, Any] = {"section": "instances", "form": form}
    if not form.is_valid():
        return page(request, "console/instances.html", context, status=422)
    rows, following = listed(request.reader, form.cleaned_data, request.GET.get("after", ""))
    return page(request, "console/instances.html", context | {"rows": rows, "next": following})


Hit = tuple[str, str]
"""What was found, and its page."""


def _hits(namespaces: list[str], wanted: str) -> Iterator[Hit]:
    """Every lookup is by a whole indexed value."""
    rows = WorkflowInstance.objects.filter(Q(pk=wanted) | Q(business_key=wanted), namespace_id__in=namespaces)
    for row in rows[:MOST]:
        yield row.business_key, reverse("console:instance", args=[row.pk])
    task = Q(pk=wanted) | Q(business_key=wanted) | Q(pk__in=_task_of_attempt(wanted))
    for key in Task.objects.filter(task, namespace_id__in=namespaces).values_list("pk", flat=True)[:MOST]:
        yield key, reverse("console:task", args=[key])
    for instance_id, key in _steps(Q(instance__namespace_id__in=namespaces), wanted):
        yield key, reverse("console:step", args=[instance_id, key])
    operations = ManagementOperation.objects.filter(operation_key=wanted, namespace_id__in=namespaces)
    if operations.filter(operationreceipt__isnull=False).exists():
        yield wanted, reverse("console:receipt", args=[wanted])
    bundles = EvidenceBundle.objects.filter(pk=wanted.removeprefix(SCHEME), namespace_id__in=namespaces)
    for key in bundles.values_list("pk", flat=True):
        yield SCHEME + key, reverse("console:evidence-bundle", args=[key])


def _task_of_attempt(wanted: str) -> list[str]:
    return list(TaskAttempt.objects.filter(pk=wanted).values_list("task_id", flat=True))


def _steps(is_visible: Q, wanted: str) -> Iterator[tuple[str, str]]:
    """(instance, step key) of a step, an activation or a signal."""
    yield from WorkflowStep.objects.filter(is_visible, pk=wanted).values_list("instance_id", "step_key")
    for model in (StepActivation, Signal):
        yield from model.objects.filter(is_visible, pk=wanted).values_list("instance_id", "step__step_key")
