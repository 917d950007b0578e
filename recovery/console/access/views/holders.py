"""Who holds what: a namespace's matrix, a person, a group, a queue."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.http import HttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_safe

from recovery import clock, permissions
from recovery.access import groups, holders, overview
from recovery.console.access import credentials, log, matrix
from recovery.console.access.forms import GroupForm, MemberForm
from recovery.console.access.place import Place, administered
from recovery.console.middleware import SeeOther, page
from recovery.console.reader import Request
from recovery.errors import NotFound, PermissionDenied
from recovery.models import Namespace, Queue
from recovery.permissions import ADMINISTER, USE_QUEUE

LATEST = 5
"""Entries of the log that stand under what they are about."""


@require_safe
def namespaces(request: Request) -> HttpResponse:
    """The namespaces that the reader administers; the only one is opened at once."""
    keys = permissions.namespaces_where(request.reader.user.pk, ADMINISTER)
    names = list(Namespace.objects.filter(pk__in=keys).order_by("name").values_list("name", "display_name"))
    if not names:
        raise PermissionDenied(_("You hold access:admin on no namespace. Somebody who does can grant it."), rule="G2")
    if len(names) == 1:
        return SeeOther(administered(request, names[0][0]).url("access-matrix"))
    return page(request, "access/namespaces.html", {"section": "access", "names": names})


@require_safe
def people(request: Request, namespace: str) -> HttpResponse:
    """Permission by holder: directly or through which group, until when, granted by whom."""
    place, now = administered(request, namespace), clock.now()
    queues = _queues(place)
    known = overview.load(place.namespace.pk)
    shown = matrix.matrix(known, place.namespace.pk, queues, now, request.GET.get("after", ""))
    latest, _more = log.listed(place.namespace.pk, most=LATEST)
    return place.render("matrix", tab="people", matrix=shown, latest=latest, is_first="after" not in request.GET)


@require_safe
def person(request: Request, namespace: str, name: str) -> HttpResponse:
    """Everything that reaches one person, and what was changed about them."""
    place, now = administered(request, namespace), clock.now()
    found = holders.user(name)
    held = overview.of_person(place.namespace.pk, found) if found else {}
    latest, _more = log.listed(place.namespace.pk, about=name, most=LATEST)
    if found is None or not (held or latest or found.pk == request.reader.user.pk):
        raise NotFound(_("Nobody of this name holds anything here, nor ever did. Grant something to them first."))
    lines = matrix.lines(held, _queues(place), found.is_active, now)
    rows = credentials.of_person(place.namespace.pk, found, now)
    return place.render("person", tab="people", person=found, lines=lines, latest=latest, credentials=rows)


@require_safe
def queues(request: Request, namespace: str) -> HttpResponse:
    """Every queue, with how many may use it."""
    place, now = administered(request, namespace), clock.now()
    known = overview.load(place.namespace.pk)
    rows = [(name, len(_users(known, key, now))) for key, name in _queues(place).items()]
    return place.render("queues", tab="queues", rows=rows)


@require_safe
def queue(request: Request, namespace: str, name: str) -> HttpResponse:
    """Who may use one queue, and whose right has ended."""
    place, now = administered(request, namespace), clock.now()
    row = Queue.objects.filter(namespace=place.namespace, name=name).first()
    if row is None:
        raise NotFound(_("This namespace has no such queue."))
    known = overview.load(place.namespace.pk)
    own = [grant for grant in known.grants if (grant.permission, grant.target_id) == (USE_QUEUE, row.pk)]
    drawn = [(grant, matrix.cell([overview.Way(grant, "")], now)) for grant in own]
    people = [
        (one, [matrix.cell([way], now, one.is_active) for way in ways])
        for one in known.people.values()
        if (ways := known.by_person[one.key].get((USE_QUEUE, row.pk)))
    ]
    return place.render("queue", tab="queues", queue=row, grants=drawn, people=people)


@require_http_methods(["GET", "POST"])
def group_list(request: Request, namespace: str) -> HttpResponse:
    """The groups that hold something here, and making a new one."""
    place = administered(request, namespace)
    known = overview.load(place.namespace.pk)
    rows = [(name, known.members.get(key, [])) for key, name in known.groups.items()]
    form = GroupForm(request.POST or None)
    if place.accepts(form, "groups", tab="groups", rows=rows):
        sent = form.sent()
        entries = groups.create(place.actor, sent["name"], reason=sent["reason"])
        return place.done(place.url("access-group", sent["name"]), entries, sent["name"])
    return place.render("groups", tab="groups", rows=rows, form=form)


@require_http_methods(["GET", "POST"])
def group(request: Request, namespace: str, name: str) -> HttpResponse:
    """One group: what it holds here, who belongs to it, and who shall join or leave."""
    place, now = administered(request, namespace), clock.now()
    row = holders.group(name)
    if row is None or not _is_shown(place, row.pk):
        raise NotFound(_("There is no such group, or it holds nothing here."))
    form = MemberForm(request.POST or None, initial={"name": request.GET.get("leave", "")})
    known = overview.load(place.namespace.pk)
    held = {(grant.permission, grant.target_id): [overview.Way(grant, "")] for grant in known.of_group(row.pk)}
    leaving = request.POST.get("act", "leave" if "leave" in request.GET else "join") == "leave"
    context: dict[str, Any] = {
        "tab": "groups",
        "leaving": leaving,
        "group": row,
        "lines": matrix.lines(held, _queues(place), True, now),
        "members": row.user_set.order_by("username").values_list("username", "is_active"),
    }
    if place.accepts(form, "group", **context):
        sent = form.sent()
        act = groups.leave if leaving else groups.join
        entries = act(place.actor, name, sent["name"], reason=sent["reason"])
        return place.done(place.url("access-group", name), entries, sent["name"])
    return place.render("group", form=form, **context)


def _queues(place: Place) -> dict[str, str]:
    """Id to name, by name."""
    rows = Queue.objects.filter(namespace=place.namespace).order_by("name")
    return dict(rows.values_list("pk", "name"))


def _users(known: overview.Overview, queue_id: str, now: datetime) -> list[int]:
    return [
        one.key
        for one in known.people.values()
        if one.is_active
        and any(way.grant.counts(now) for way in known.by_person[one.key].get((USE_QUEUE, queue_id), ()))
    ]


def _is_shown(place: Place, group_id: int) -> bool:
    """A group is shown where it holds something; one that holds nothing anywhere, to every administrator."""
    reached = permissions.namespaces_of_group(group_id)
    return not reached or place.namespace.pk in reached
