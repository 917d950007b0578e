"""The list of instances, newest first, paged by key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db.models import Q
from django.utils.translation import gettext as _

from recovery.console.presenters import queue
from recovery.console.reader import Reader
from recovery.errors import ValidationFailed
from recovery.models import WorkflowInstance

PAGE = 50


def listed(reader: Reader, filters: Mapping[str, Any], after: str) -> tuple[list[WorkflowInstance], str]:
    """The next page and the cursor of the one after it, "" where there is none; in two statements."""
    rows = WorkflowInstance.objects.filter(_wanted(filters), namespace_id__in=reader.namespaces)
    if after:
        stamp, _dash, key = after.partition("-")
        at = queue.moment(stamp)
        if at is None or not key:
            raise ValidationFailed(_("This page of the list does not exist. Start at its first page."))
        rows = rows.filter(created_at__lte=at).filter(Q(created_at__lt=at) | Q(pk__lt=key))
    keys = list(rows.order_by("-created_at", "-pk").values_list("pk", flat=True)[: PAGE + 1])
    # The page's keys first, then their rows: a join under the order made the plan a full one.
    loaded = WorkflowInstance.objects.select_related("namespace", "application", "definition", "definition_version")
    by_key = loaded.in_bulk(keys[:PAGE])
    page = [by_key[key] for key in keys[:PAGE] if key in by_key]
    following = f"{queue.stamp(page[-1].created_at)}-{page[-1].pk}" if len(keys) > PAGE else ""
    return page, following


def _wanted(filters: Mapping[str, Any]) -> Q:
    wanted = Q()
    if name := filters.get("namespace"):
        wanted &= Q(namespace__name=name)
    if status := filters.get("status"):
        wanted &= Q(status=status)
    if name := filters.get("definition"):
        wanted &= Q(definition__name=name)
    if prefix := filters.get("business_key"):
        # Not LIKE: the database would compare every key.
        wanted &= Q(business_key__gte=prefix, business_key__lt=prefix + chr(0x10FFFF))
    return wanted
