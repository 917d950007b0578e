"""Rows as JSON: the field names of the catalogue, references as bare ids under `<name>_id`."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import datetime
from enum import Enum
from typing import Any

from django.db import models

from recovery.audit import instant
from recovery.models import TaskAttempt

BULKY = ("input", "output")
"""Of an instance: each may be a megabyte, so lists and receipts leave them out."""

SECRET = {(TaskAttempt, "lease_token")}
"""Whoever shows a lease token may report for its attempt: only the claim tells it."""


def shown(model: type[models.Model], without: Collection[str] = ()) -> Iterator[Any]:
    """The fields of an entity that are shown, in their order."""
    for field in model._meta.concrete_fields:
        if field.attname not in without and (model, field.name) not in SECRET:
            yield field


def render(row: models.Model, without: Collection[str] = ()) -> dict[str, Any]:
    """A row as exact JSON, but for the fields named in `without`."""
    return {field.attname: value(field.attname, getattr(row, field.attname)) for field in shown(type(row), without)}


def value(name: str, given: Any) -> Any:
    """A column's value as JSON: revisions as decimal strings, times as RFC 3339 with microseconds."""
    if given is not None and is_revision(name):
        return str(given)
    if isinstance(given, datetime):
        return instant(given)
    return str(given) if isinstance(given, Enum) else given


def is_revision(name: str) -> bool:
    """Revisions are decimal strings everywhere, so that no client rounds them."""
    return name == "revision" or name.endswith("_revision")
