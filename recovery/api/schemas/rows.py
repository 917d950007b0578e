"""Schemas of rows, from the models: one component for each entity that an answer carries."""

from __future__ import annotations

import inspect
from collections.abc import Collection
from typing import Any

from django.db import models

from recovery import rows
from recovery.api.schemas.words import ANY, BOOL, TIME, Schema, nullable, ref, shape, text
from recovery.models.fields import Enum, Json


def row(model: type[models.Model], without: Collection[str] = ()) -> Schema:
    """What `rows.render` makes of a row."""
    properties = {field.attname: _column(field) for field in rows.shown(model, without)}
    return shape(properties, description=inspect.cleandoc(model.__doc__ or "").partition("\n\n")[0])


def _column(field: Any) -> Schema:
    if isinstance(field, Json):
        return ANY
    schema = _type(field)
    return nullable(schema) if field.null else schema


def _type(field: Any) -> Schema:
    if rows.is_revision(field.attname):
        return ref("Revision")
    if isinstance(field, models.DateTimeField):
        return TIME
    if isinstance(field, models.BooleanField):
        return BOOL
    if isinstance(field, models.IntegerField):
        return {"type": "integer", "format": "int64" if isinstance(field, models.BigIntegerField) else "int32"}
    if isinstance(field, Enum) and field.choices_enum is not None:
        return {"type": "string", "enum": list(field.choices_enum.values)}
    if isinstance(field, models.ForeignKey):
        return text(32)
    return text(field.max_length)
