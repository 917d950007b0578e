"""Definitions and their versions."""

from __future__ import annotations

from django.http import HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from recovery import clock
from recovery.console import place
from recovery.console.middleware import SeeOther, page
from recovery.console.presenters import catalogue
from recovery.console.reader import Request
from recovery.errors import NotFound
from recovery.models import DefinitionVersion


@require_safe
def listed(request: Request) -> HttpResponse:
    """The definitions of one namespace by name."""
    here = place.chosen(request)
    rows, following = catalogue.listed(here.namespace.pk, request.GET.get("after", ""))
    context = {"rows": rows, "next": following, "now": clock.now()}
    return page(request, "console/definitions.html", here.context("definitions") | context)


@require_safe
def definition(request: Request, name: str) -> HttpResponse:
    """To its newest version."""
    here = place.chosen(request)
    row = DefinitionVersion.objects.filter(definition__namespace=here.namespace, definition__name=name)
    newest = row.order_by("-version").values_list("version", flat=True).first()
    if newest is None:
        raise NotFound(_("There is no such definition, or you may not see it."))
    return SeeOther(f"{reverse('console:version', args=[name, newest])}?{request.GET.urlencode()}")


@require_safe
def version(request: Request, name: str, number: int) -> HttpResponse:
    """The tree with its contracts, budgets and queues, and the instances that run on it by status."""
    here = place.chosen(request)
    rows = DefinitionVersion.objects.select_related("definition")
    row = rows.filter(definition__namespace=here.namespace, definition__name=name, version=number).first()
    if row is None:
        raise NotFound(_("There is no such version, or you may not see it."))
    given = request.GET.get("page", "")
    shown = catalogue.version_page(
        row,
        step=request.GET.get("step", ""),
        page=int(given) if given.isascii() and given.isdecimal() and len(given) < 9 else 1,
    )
    context = {"version": row, "page": shown, "now": clock.now()}
    return page(request, "console/definition.html", here.context("definitions") | context)
