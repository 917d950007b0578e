"""Receipts: success is read from here and from nowhere else."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from django.utils.translation import gettext as _

from recovery import clock, operations
from recovery.console.middleware import page
from recovery.console.presenters.receipt import receipt_page
from recovery.console.reader import Request
from recovery.errors import NotFound
from recovery.models import ManagementOperation


def receipt(request: Request, operation_key: str) -> HttpResponse:
    """The frozen answer of a key. Where several visible namespaces have the key, they are listed."""
    found = _operations(request, operation_key)
    if len(found) > 1:
        return page(request, "console/receipts.html", {"operations": found, "key": operation_key})
    if not found:
        raise NotFound(_("There is no receipt for this key: nothing was committed with it where you may read."))
    operation = found[0]
    actor = request.reader.actor(operation.namespace_id)
    frozen = operations.receipt(actor, operation_key)
    if request.GET.get("format") == "json":
        return HttpResponse(frozen.body, content_type="application/json")
    shown = receipt_page(actor, frozen, operation)
    context: dict[str, Any] = {"section": "instances", "namespace": operation.namespace, "page": shown}
    return page(request, "console/receipt.html", context | {"now": clock.now(), "instance": shown.instance})


def _operations(request: Request, key: str) -> list[ManagementOperation]:
    rows = ManagementOperation.objects.select_related("namespace").filter(
        operation_key=key, namespace_id__in=request.reader.namespaces, operationreceipt__isnull=False
    )
    if name := request.GET.get("namespace"):
        rows = rows.filter(namespace__name=name)
    return list(rows.order_by("namespace__name")[:20])
