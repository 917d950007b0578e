"""Rows of nonsense that every table accepts: where only the database's own rules are of interest, not their meaning."""

from datetime import UTC, datetime
from typing import Any, TypeVar

from django.db import models

from recovery.ids import new_id

M = TypeVar("M", bound=models.Model)

MOMENT = datetime(2026, 3, 2, 9, 0, 0, 123456, tzinfo=UTC)


def nonsense(model: type[M], **fields: Any) -> M:
    """A row with a valid value in every column, not inserted; its references lead nowhere. Also for historical models.

    It differs from every other row in every key, except where `fields` say otherwise.
    """
    row = model(**fields)
    for field in model._meta.local_fields:
        if not {field.name, field.attname} & set(fields) and not field.has_default():
            setattr(row, field.attname, _value(field))
    return row


def _value(field: Any) -> Any:
    if field.null or isinstance(field, models.AutoField):
        return None
    if field.choices:
        return field.choices[0][0]
    if isinstance(field, models.ForeignKey | models.CharField):
        return new_id()[: field.max_length]
    if isinstance(field, models.DateTimeField):
        return MOMENT
    if isinstance(field, models.JSONField):
        return {}
    assert isinstance(field, models.IntegerField), field
    return int(new_id()[-6:], 16)
