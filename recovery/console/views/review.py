"""The review queue."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.http import HttpResponse
from django.shortcuts import render

from recovery import clock, permissions
from recovery.console import counts, saved_views, words
from recovery.console.forms import QueueFilter
from recovery.console.middleware import page
from recovery.console.presenters import queue
from recovery.console.presenters.queue_rows import rows
from recovery.console.reader import Reader, Request
from recovery.models import WorkflowInstance
from recovery.states import ReviewReason


def review(request: Request) -> HttpResponse:
    """Every NEEDS_REVIEW instance that the reader may see; an invalid filter shows no row and says why."""
    form = QueueFilter(request.GET, request.reader)
    now = clock.now()
    context = {"section": "review", "form": form, "now": now, "now_stamp": queue.stamp(now)}
    if not form.is_valid():
        return page(request, "console/review.html", context, status=422)
    context |= _views(request.reader, request.GET.urlencode()) | _listed(request, form, now)
    return page(request, "console/review.html", context)


def _views(reader: Reader, query: str) -> dict[str, Any]:
    """The person's saved views, the one that is open, and the filters that another could be made of."""
    views, filters = saved_views.mine(reader), saved_views.normalised(query, reader)
    return {
        "views": views,
        "filters": filters,
        "view": next((v for v in views if filters and v.query == filters), None),
    }


def _listed(request: Request, form: QueueFilter, now: datetime) -> dict[str, Any]:
    """Counts by reason, and the page of rows that the cursor names. Raises ValidationFailed for a cursor of no page."""
    after = queue.Cursor.parse(request.GET.get("after", ""))
    counted = _counted(request.reader, form)
    wanted = queue.in_review(_namespaces(request.reader, form), form.cleaned_data)
    is_few = counted[form.cleaned_data["reason"]] <= counts.CAP
    places = queue.places(wanted, now, is_few=is_few, within=form.within_span, after=after)
    return {
        "total": counted[""],
        "facets": _facets(counted),
        "rows": rows(request.reader, places[: queue.PAGE], now),
        "next": places[queue.PAGE - 1].cursor if len(places) > queue.PAGE else "",
        "is_first": after is None,
    }


def newer(request: Request) -> HttpResponse:
    """The live line: how many came in since the page was made, 204 when none; it moves no row."""
    form = QueueFilter(request.GET, request.reader)
    since = queue.moment(request.GET.get("since", ""))
    if not form.is_valid() or since is None:
        return HttpResponse(status=204)
    wanted = queue.in_review(_namespaces(request.reader, form), form.cleaned_data)
    count = WorkflowInstance.objects.filter(wanted, review_since__gt=since).order_by()[:100].count()
    if not count:
        return HttpResponse(status=204)
    return render(request, "console/_queue_newer.html", {"count": count})


def _namespaces(reader: Reader, form: QueueFilter) -> list[str]:
    if not form.cleaned_data["mine"]:
        return reader.namespaces
    return [key for key in reader.namespaces if reader.rights(key).may(permissions.RECOVER)]


ALL = "all namespaces"
"""The count of what waits for the reader anywhere; no reason is spelled like it."""


def _counted(reader: Reader, form: QueueFilter) -> dict[str, int]:
    """How many match the other filters, by reason and under "" for any reason; the reader's whole count besides."""
    others = {name: value for name, value in form.cleaned_data.items() if name != "reason"}
    spaces = _namespaces(reader, form)
    wanted = {reason: queue.in_review(spaces, {**others, "reason": reason}) for reason in ["", *ReviewReason.values]}
    wanted[ALL] = queue.in_review(reader.namespaces, {})
    counted = counts.capped({name: WorkflowInstance.objects.filter(rows) for name, rows in wanted.items()})
    reader.waiting = counts.shown(counted.pop(ALL))
    return counted


def _facets(counted: dict[str, int]) -> list[tuple[str, Any, str]]:
    """(reason, its word, how many): the most frequent first, after "all"."""
    reasons = sorted((reason for reason in counted if reason and counted[reason]), key=lambda key: -counted[key])
    return [
        (reason, words.label("ReviewReason", reason), counts.shown(counted[reason]) or "0") for reason in ["", *reasons]
    ]
