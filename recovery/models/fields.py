"""Field types of the 35 entities, and the two helpers that keep their Meta short."""

from typing import Any

from django.db import models
from django.db.models import Q

from recovery import exact_json
from recovery.ids import new_id
from recovery.states import Status


def byte_order_collation(connection: Any) -> str:
    """The collation that compares identifiers byte for byte: case, accents and trailing blanks all count."""
    if connection.vendor == "sqlite":
        return "BINARY"
    # MySQL 8 is chosen by the same code and stated as untested.
    return "utf8mb4_nopad_bin" if connection.mysql_is_mariadb else "utf8mb4_0900_bin"


class Text(models.CharField):
    """Text compared byte for byte on every database (`key(n)` and `text(n)` of the catalogue)."""

    def db_parameters(self, connection: Any) -> Any:
        return {**super().db_parameters(connection), "collation": byte_order_collation(connection)}


class Key(Text):
    """Identifier text. A class of its own, so that the catalogue can tell `key(n)` from `text(n)`."""


class Id(Key):
    """Own primary key, made by the application before the insert."""

    def __init__(self, **kwargs: Any) -> None:
        kwargs |= {"primary_key": True, "max_length": 32, "default": new_id, "editable": False}
        super().__init__(**kwargs)

    def deconstruct(self) -> Any:
        name, path, args, kwargs = super().deconstruct()
        for given in ("primary_key", "max_length", "default", "editable"):
            kwargs.pop(given, None)
        return name, path, args, kwargs


class Ref(models.ForeignKey):
    """A reference without a database constraint, without a cascade and without an index of its own."""

    def __init__(self, to: Any, on_delete: Any = models.DO_NOTHING, **kwargs: Any) -> None:
        super().__init__(to, on_delete, **{"db_constraint": False, "db_index": False, **kwargs})


class OneRef(models.OneToOneField):
    """A reference that at most one row may hold."""

    def __init__(self, to: Any, on_delete: Any = models.DO_NOTHING, **kwargs: Any) -> None:
        super().__init__(to, on_delete, **{"db_constraint": False, **kwargs})


class Json(models.JSONField):
    """JSON that keeps every number's exact value (decimals are read as Decimal, never through a double).

    Python's None is SQL NULL where the column may be null, and the JSON value null where it may not.
    """

    def db_type(self, connection: Any) -> Any:
        # MariaDB's own JSON type carries a JSON_VALID check that gives up beyond 32 levels; the contract allows 64.
        return "longtext" if connection.vendor == "mysql" else super().db_type(connection)

    def db_check(self, connection: Any) -> Any:
        return None if connection.vendor == "mysql" else super().db_check(connection)

    def get_db_prep_value(self, value: Any, connection: Any, prepared: bool = False) -> Any:
        if value is None and self.null:
            return None
        if isinstance(value, models.expressions.BaseExpression):
            return value
        return exact_json.dumps(value)

    def get_db_prep_save(self, value: Any, connection: Any) -> Any:
        return self.get_db_prep_value(value, connection)

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        return None if value is None else exact_json.loads(value)


class Enum(Key):
    """A status column. The CHECK behind it is `in_states` in the model's Meta."""

    def __init__(self, *, choices: Any = None, **kwargs: Any) -> None:
        self.choices_enum: type[Status] | None = choices if isinstance(choices, type) else None
        super().__init__(**{"max_length": 24, "choices": choices, **kwargs})


def in_states(table: str, field: str, states: type[Status]) -> models.CheckConstraint:
    """The CHECK behind an enum column: a value that the code does not know cannot be stored."""
    return models.CheckConstraint(condition=Q(**{f"{field}__in": states.values}), name=f"{table}_{field}_known")
