"""A person's own named filters of the review queue. Nobody else sees them; they carry no right."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.http import QueryDict
from django.utils.translation import gettext as _

from recovery import clock
from recovery.console.forms import QueueFilter
from recovery.console.reader import Reader
from recovery.errors import ValidationFailed
from recovery.models import SavedView
from recovery.writes import insert

MOST = 20
"""Views that one person keeps."""


def mine(reader: Reader) -> list[SavedView]:
    """All of the person's views, by name."""
    return list(SavedView.objects.filter(user=reader.user.pk).order_by("name"))


def normalised(query: str, reader: Reader) -> str:
    """The filters of a query string in one spelling: no cursor, nothing empty. Raises ValidationFailed for others."""
    form = QueueFilter(QueryDict(query), reader)
    if not form.is_valid():
        raise ValidationFailed(_("These filters are not valid, so they were not saved."))
    kept: dict[str, Any] = {name: form.cleaned_data[name] for name in sorted(form.fields) if form.cleaned_data[name]}
    return urlencode(kept | ({"mine": "on"} if kept.get("mine") else {}))


def save(reader: Reader, name: str, query: str) -> SavedView:
    """Keeps the filters under the name; a view of that name gets the new filters. Raises ValidationFailed."""
    wanted = normalised(query, reader)
    views = {view.name: view for view in mine(reader)}
    if view := views.get(name):
        SavedView.objects.filter(pk=view.pk).update(query=wanted)
        view.query = wanted
        return view
    if len(views) >= MOST:
        raise ValidationFailed(_("You keep %(count)d views already. Remove one first.") % {"count": MOST})
    view = SavedView(user=reader.user.pk, name=name, query=wanted, created_at=clock.now())
    insert(view)
    return view


def remove(reader: Reader, view_id: str) -> None:
    """Forgets one of the person's views; one that is not there is gone already."""
    SavedView.objects.filter(pk=view_id, user=reader.user.pk).delete()
