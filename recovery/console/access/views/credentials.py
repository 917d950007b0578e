"""Credentials: listing, making, rotating, revoking."""

from __future__ import annotations

from django.http import HttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_safe

from recovery import clock
from recovery.access import credentials
from recovery.access.credentials import Issued
from recovery.console.access import credentials as shown
from recovery.console.access.forms import CredentialForm, ReasonedForm
from recovery.console.access.place import Place, administered
from recovery.console.reader import Request
from recovery.errors import NotFound
from recovery.models import Application


@require_safe
def listed(request: Request, namespace: str) -> HttpResponse:
    """All of a namespace, newest first."""
    place = administered(request, namespace)
    lines, following = shown.listed(place.namespace.pk, clock.now(), after=request.GET.get("after", ""))
    return place.render("credentials", tab="credentials", lines=lines, following=following)


@require_http_methods(["GET", "POST"])
def create(request: Request, namespace: str) -> HttpResponse:
    """A new credential; its token stands in the answer and nowhere else."""
    place = administered(request, namespace)
    names = Application.objects.filter(namespace=place.namespace).order_by("name").values_list("name", flat=True)
    form = CredentialForm(request.POST or None, names, initial={"name": request.GET.get("name", "")})
    if place.accepts(form, "credential_new", tab="credentials"):
        sent = form.sent()
        issued = credentials.create(
            place.actor,
            sent["name"],
            sent["label"],
            application=sent["application"] or None,
            expires_at=sent["expires_at"],
            reason=sent["reason"],
        )
        return _issued(place, issued)
    return place.render("credential_new", tab="credentials", form=form)


@require_http_methods(["GET", "POST"])
def credential(request: Request, namespace: str, credential_id: str) -> HttpResponse:
    """One credential: what it is limited to, when it was used, and how it ends."""
    place = administered(request, namespace)
    line = shown.one(place.namespace.pk, credential_id, clock.now())
    if line is None:
        raise NotFound(_("This namespace has no such credential."))
    form = ReasonedForm(request.POST or None)
    if place.accepts(form, "credential", tab="credentials", line=line):
        reason = form.sent()["reason"]
        if request.POST.get("act") == "rotate":
            return _issued(place, credentials.rotate(place.actor, credential_id, reason=reason))
        entries = credentials.revoke(place.actor, credential_id, reason=reason)
        return place.done(place.url("access-credential", credential_id), entries, line.account)
    return place.render("credential", tab="credentials", line=line, form=form)


def _issued(place: Place, issued: Issued) -> HttpResponse:
    """Not a redirect: the token would have to be kept somewhere for the next page."""
    return place.render("credential_issued", tab="credentials", issued=issued)
