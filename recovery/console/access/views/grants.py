"""Granting, changing and revoking."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from recovery import clock, permissions
from recovery.access import grants
from recovery.access.grants import Held
from recovery.access.overview import Way
from recovery.console.access import matrix
from recovery.console.access.forms import ChangeForm, GrantForm
from recovery.console.access.place import Place, administered
from recovery.console.reader import Request
from recovery.errors import NotFound
from recovery.models import Queue
from recovery.permissions import Grant


@require_http_methods(["GET", "POST"])
def grant(request: Request, namespace: str) -> HttpResponse:
    """Rights for a person or a group; the query may say for whom and which."""
    place = administered(request, namespace)
    asked: dict[str, Any] = {name: request.GET.get(name, "") for name in ("kind", "name") if name in request.GET}
    asked |= {name: request.GET.getlist(name) for name in ("permissions", "queues")}
    names = Queue.objects.filter(namespace=place.namespace).order_by("name").values_list("name", flat=True)
    form = GrantForm(request.POST or None, names, initial=asked)
    if place.accepts(form, "grant", tab="people"):
        sent = form.sent()
        entries = grants.grant(
            place.actor,
            sent["kind"],
            sent["name"],
            names=sent["permissions"],
            queues=sent["queues"],
            expires_at=sent["expires_at"],
            reason=sent["reason"],
        )
        return place.done(place.holder_url(sent["kind"], sent["name"]), entries, sent["name"])
    return place.render("grant", tab="people", form=form)


@require_http_methods(["GET", "POST"])
def change(request: Request, namespace: str) -> HttpResponse:
    """One direct grant, which the query names: another end, or none of it any more."""
    place = administered(request, namespace)
    held = Held(*(request.GET.get(name, "") for name in ("kind", "name", "permission", "queue")))
    found = _find(place, held)
    version = grants.version(found)
    # What is newer than the form is shown with the refusal; the next attempt is about that.
    form = ChangeForm(request.POST or None, initial={"version": version, "expires_at": found.expires_at})
    shown: dict[str, Any] = {
        "held": held,
        "grant": found,
        "version": version,
        "cell": matrix.cell([Way(found, "")], clock.now()),
    }
    if place.accepts(form, "change", tab="people", **shown):
        sent = form.sent()
        if request.POST.get("act") == "revoke":
            entries = grants.revoke(place.actor, held, version=sent["version"], reason=sent["reason"])
        else:
            until = {"expires_at": sent["expires_at"], "reason": sent["reason"]}
            entries = grants.change_end(place.actor, held, version=sent["version"], **until)
        return place.done(place.holder_url(held.kind, held.name), entries, held.name)
    return place.render("change", tab="people", form=form, **shown)


def _find(place: Place, held: Held) -> Grant:
    queues = dict(Queue.objects.filter(namespace=place.namespace).values_list("pk", "name"))
    for row in permissions.grants(place.namespace.pk):
        if held == Held(row.kind, row.holder, row.permission, queues.get(row.target_id, "")):
            return row
    raise NotFound(_("There is no such grant. It may have been revoked; the log tells."))
