"""Saving and removing a person's own views of the review queue."""

from __future__ import annotations

from django.http import HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from recovery.console import saved_views
from recovery.console.forms import ViewForm
from recovery.console.middleware import SeeOther
from recovery.console.reader import Request
from recovery.errors import ValidationFailed


@require_POST
def saved(request: Request) -> HttpResponse:
    """Saves the filters under a name, or removes the view that `remove` names; then back to the queue."""
    if key := request.POST.get("remove"):
        saved_views.remove(request.reader, key)
        return SeeOther(reverse("console:review"))
    form = ViewForm(request.POST)
    if not form.is_valid():
        raise ValidationFailed(_("A view needs a name of at most 64 characters."))
    view = saved_views.save(request.reader, form.cleaned_data["name"], form.cleaned_data["query"])
    return SeeOther(f"{reverse('console:review')}?{view.query}")
