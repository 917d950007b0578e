"""Why somebody can or cannot recover an instance, and the log of every change."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from recovery import clock, permissions
from recovery.access import holders
from recovery.access.why import why as explain
from recovery.console.access import log, matrix
from recovery.console.access.forms import LogFilter, WhyForm
from recovery.console.access.place import Place, administered
from recovery.console.reader import Request
from recovery.models import WorkflowInstance

SAME_KEY = 20
"""Instances of one business key that are offered: it is unique in an application, not in a namespace."""


@require_safe
def why(request: Request, namespace: str) -> HttpResponse:
    """Asks with a form, answers on the same page; person and instance stand in the URL."""
    place = administered(request, namespace)
    form = WhyForm(request.GET if "instance" in request.GET else None, initial=request.GET.dict())
    if not form.is_bound:
        return place.render("why", tab="why", form=form)
    context = _answer(place, form) if form.is_valid() else {}
    return place.render("why", tab="why", status=422 if form.errors else 200, form=form, **context)


def _answer(place: Place, form: WhyForm) -> dict[str, Any]:
    """What the page shows besides the form, which gets the sentences of what was not found."""
    permissions.require_reading(place.actor)
    person = holders.user(form.cleaned_data["person"])
    rows = WorkflowInstance.objects.filter(namespace=place.namespace).select_related("application")
    wanted = form.cleaned_data["instance"]
    found = list(rows.filter(pk=wanted)[:1] or rows.filter(business_key=wanted)[:SAME_KEY])
    if person is None:
        form.add_error("person", _("There is no account of this name."))
    if not found:
        form.add_error("instance", _("This namespace has no such instance."))
    if person is None or len(found) != 1:
        return {"choices": found}
    answer, now = explain(place.actor, person, found[0].pk), clock.now()
    needs = [(need, [matrix.cell([way], now, person.is_active) for way in need.ways]) for need in answer.needs]
    return {"answer": answer, "needs": needs}


@require_safe
def entries(request: Request, namespace: str) -> HttpResponse:
    """Every change, newest first; an invalid filter shows none and says why."""
    place = administered(request, namespace)
    form = LogFilter(request.GET)
    if not form.is_valid():
        return place.render("log", tab="log", status=422, form=form)
    lines, following = log.listed(place.namespace.pk, **form.cleaned_data)
    return place.render("log", tab="log", form=form, lines=lines, following=following)
