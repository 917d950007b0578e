"""The audit: who did what, by actor, action, time and instance; the chain of one instance; the entries as files."""

from __future__ import annotations

from typing import Any

from django.db.models import Q
from django.http import HttpResponse, StreamingHttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from recovery import clock, permissions
from recovery.console.forms import AuditFilter
from recovery.console.middleware import page
from recovery.console.presenters import audit, audits
from recovery.console.presenters.chain_check import check_chain
from recovery.console.reader import Request
from recovery.errors import NotFound, ValidationFailed
from recovery.models import WorkflowInstance


@require_safe
def explorer(request: Request) -> HttpResponse:
    """Entries of the namespaces whose audit the reader may read, newest first; of one instance with its chain."""
    form = _form(request)
    context: dict[str, Any] = {"section": "audit", "form": form, "now": clock.now(), "most": audit.EXPORTED}
    if not form.is_valid():
        return page(request, "console/audit.html", context, status=422)
    instance = _instance(form)
    if form.errors:
        return page(request, "console/audit.html", context, status=422)
    found = audits.find(_search(form, instance), request.GET.get("after", ""))
    context |= {"rows": audit.entries(found.entries), "found": found, "chain": instance and check_chain(instance)}
    return page(request, "console/audit.html", context)


@require_safe
def export(request: Request, kind: str) -> StreamingHttpResponse:
    """The entries that the same filters list, up to `audit.EXPORTED`. Raises ValidationFailed for an invalid filter."""
    form = _form(request)
    instance = _instance(form) if form.is_valid() else None
    if form.errors:
        raise ValidationFailed(_("The filter is not valid, so nothing is exported."))
    rows = audits.every(_search(form, instance), audit.EXPORTED)
    lines, media = {
        "csv": (audit.csv_lines, "text/csv; charset=utf-8"),
        "jsonl": (audit.json_lines, "application/x-ndjson"),
    }[kind]
    response = StreamingHttpResponse(lines(rows), content_type=media)
    response["Content-Disposition"] = f'attachment; filename="audit-{clock.now():%Y%m%dT%H%M%SZ}.{kind}"'
    response["X-Content-Type-Options"] = "nosniff"
    return response


def _form(request: Request) -> AuditFilter:
    """Raises NotFound for somebody who may read no audit."""
    keys = request.reader.may(permissions.READ_AUDIT)
    if not keys:
        raise NotFound(_("There is nothing here that you may see."))
    return AuditFilter(request.GET, request.reader.named(keys))


def _instance(form: AuditFilter) -> WorkflowInstance | None:
    """The instance that the filter names by its id or its business key; an error at the field where it is not one."""
    wanted = form.cleaned_data["instance"]
    if not wanted:
        return None
    rows = WorkflowInstance.objects.filter(Q(pk=wanted) | Q(business_key=wanted), namespace_id__in=form.namespace_ids)
    found = list(rows.select_related("namespace")[:2])
    if len(found) != 1:
        several = _("Several instances have this business key. Give the identifier of one.")
        form.add_error("instance", several if found else _("There is no such instance, or you may not see it."))
        return None
    return found[0]


def _search(form: AuditFilter, instance: WorkflowInstance | None) -> audits.Search:
    action = form.cleaned_data["action"]
    return audits.Search(
        form.namespace_ids,
        (action,) if action else (),
        form.cleaned_data["actor"],
        instance.pk if instance else "",
        since=form.since(clock.now()),
    )
