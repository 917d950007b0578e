"""The review queue."""

from __future__ import annotations

from typing import Any

from django.db.models import Count
from django.http import HttpResponse
from django.shortcuts import render

from recovery import clock, permissions
from recovery.console import words
from recovery.console.forms import QueueFilter
from recovery.console.middleware import page
from recovery.console.presenters import queue
from recovery.console.presenters.queue_rows import rows
from recovery.console.reader import Reader, Request
from recovery.models import WorkflowInstance


def review(request: Request) -> HttpResponse:
    """Every NEEDS_REVIEW instance that the reader may see; an invalid filter shows no row and says why."""
    form = QueueFilter(request.GET, request.reader)
    now = clock.now()
    context: dict[str, Any] = {"section": "review", "form": form, "now": now, "now_stamp": queue.stamp(now)}
    if not form.is_valid():
        return page(request, "console/review.html", context, status=422)
    after = queue.Cursor.parse(request.GET.get("after", ""))
    wanted = queue.in_review(_namespaces(request.reader, form), form.cleaned_data)
    places = queue.places(wanted, now, within=form.within_span, after=after)
    context["facets"] = _facets(request.reader, form)
    context["rows"] = rows(request.reader, places[: queue.PAGE], now)
    context["next"] = places[queue.PAGE - 1].cursor if len(places) > queue.PAGE else ""
    context["is_first"] = after is None
    return page(request, "console/review.html", context)


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


def _facets(reader: Reader, form: QueueFilter) -> list[tuple[str, Any, int]]:
    """(reason, its word, how many) with "all" first; counted over the other filters."""
    others = {name: value for name, value in form.cleaned_data.items() if name != "reason"}
    wanted = queue.in_review(_namespaces(reader, form), others)
    counted = WorkflowInstance.objects.filter(wanted).order_by().values_list("review_reason").annotate(Count("pk"))
    counts = sorted(counted, key=lambda pair: -pair[1])
    return [("", "", sum(count for _reason, count in counts))] + [
        (reason, words.label("ReviewReason", reason), count) for reason, count in counts
    ]
