"""The list of instances, newest first, paged by key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db.models import Q, QuerySet

from recovery.console.keyset import Keyset
from recovery.console.reader import Reader
from recovery.models import Namespace, WorkflowDefinition, WorkflowInstance
from recovery.states import InstanceStatus

PAGE = 50

_BY_AGE = Keyset("created_at", newest_first=True)


def listed(reader: Reader, filters: Mapping[str, Any], after: str) -> tuple[list[WorkflowInstance], str | None]:
    """The next page, and the cursor of the one after it or None. One statement for each of the reader's namespaces.

    Raises ValidationFailed for a cursor that no page of this list has made.
    """
    rows = WorkflowInstance.objects.select_related("namespace", "application", "definition", "definition_version")
    return _BY_AGE.page(_parts(reader, filters), after, PAGE, rows=rows.defer("input", "output"))


def _parts(reader: Reader, filters: Mapping[str, Any]) -> list[QuerySet[WorkflowInstance]]:
    """The queries that make up the list, each in the order of an index that holds all that it asks for."""
    keys, status = _namespaces(reader, filters), filters.get("status")
    if name := filters.get("definition"):
        named = WorkflowDefinition.objects.filter(namespace_id__in=keys, name=name).values_list("pk", flat=True)
        statuses = [status] if status else InstanceStatus.values
        parts = [WorkflowInstance.objects.filter(definition_id=key, status=each) for key in named for each in statuses]
    else:
        wanted = Q(status=status) if status else Q()
        parts = [WorkflowInstance.objects.filter(wanted, namespace_id=key) for key in keys]
    if prefix := filters.get("business_key"):
        # Not LIKE: the database would compare every key.
        parts = [part.filter(business_key__gte=prefix, business_key__lt=prefix + chr(0x10FFFF)) for part in parts]
    return parts or [WorkflowInstance.objects.none()]


def _namespaces(reader: Reader, filters: Mapping[str, Any]) -> list[str]:
    if not filters.get("namespace"):
        return reader.namespaces
    named = Namespace.objects.filter(pk__in=reader.namespaces, name=filters["namespace"])
    return list(named.values_list("pk", flat=True))
