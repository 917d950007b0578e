"""What a check is, and how it looks at large tables: whole-table statements that find violations only, or walks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

from django.db import models
from django.db.models import Count, F, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.utils.translation import gettext as _

from recovery import exact_json
from recovery.locks import snapshot
from recovery.models import Namespace, StepDefinition

M = TypeVar("M", bound=models.Model)

MOST = 100
"""Violations that a check names; it stops after them, so that a broken table fills neither memory nor screen."""

CHUNK = 200
"""Rows that a walk holds at a time."""


@dataclass(frozen=True)
class Violation:
    """A row that breaks an invariant. `sentence`: what was found there."""

    entity: str
    id: str
    sentence: str


@dataclass(frozen=True)
class Scope:
    """What is looked at: one namespace, or everything."""

    namespace_id: str | None = None

    def rows(self, model: type[M]) -> QuerySet[M]:
        rows = model._default_manager.all()
        return rows if self.namespace_id is None else rows.filter(**{_path(model): self.namespace_id})


_OWNERS = ("namespace", "definition_version", "definition", "instance", "task", "application", "queue", "operation")


def _path(model: type[models.Model]) -> str:
    """The references that lead from an entity to its namespace."""
    if model is Namespace:
        return "pk"
    names = {field.name for field in model._meta.local_fields}
    owner = next(name for name in (*_OWNERS, "activation") if name in names)
    target: Any = model._meta.get_field(owner).related_model
    return f"{owner}__{_path(target)}"


@dataclass(frozen=True)
class Check:
    """One invariant. `promise`: what holds when it finds nothing. `deep`: takes long, so only on demand."""

    name: str
    promise: Any
    find: Callable[[Scope], Iterable[Violation]]
    deep: bool

    def look(self, scope: Scope) -> Result:
        """All it finds, up to `MOST`, at one moment: what is written meanwhile is not seen by halves."""
        try:
            with snapshot():
                found = list(islice(self.find(scope), MOST + 1))
        except exact_json.InvalidJson as error:
            found = [Violation("", "", _("A row holds what is no JSON: %(error)s.") % {"error": error})]
        return Result(self, tuple(found[:MOST]), len(found) > MOST)


@dataclass(frozen=True)
class Result:
    """What a check found. `more`: there are more violations than it names."""

    check: Check
    violations: tuple[Violation, ...]
    more: bool


CHECKS: dict[str, Check] = {}
"""Every check by its name, in the order of their modules."""


def check(promise: Any, *, deep: bool = False) -> Callable[[Callable[[Scope], Iterable[Violation]]], Any]:
    """Registers a function that answers the violations of a scope as the check of its name."""

    def register(find: Callable[[Scope], Iterable[Violation]]) -> Any:
        CHECKS[find.__name__] = Check(find.__name__, promise, find, deep)
        return find

    return register


def found(rows: QuerySet[Any], sentence: str | Callable[[Any], str]) -> Iterator[Violation]:
    """A violation for each row of a query; `sentence`: what is wrong with it, or how to say it of a row."""
    for row in rows.order_by("pk")[: MOST + 1]:
        yield violation(row, sentence if isinstance(sentence, str) else sentence(row))


def violation(row: models.Model, sentence: str) -> Violation:
    return Violation(type(row).__name__, str(row.pk), sentence)


def counted(rows: QuerySet[Any], key: str) -> Coalesce:
    """How many rows of a correlated query there are; `key`: the column that it is correlated by."""
    numbers = rows.order_by().values(key).annotate(number=Count("pk")).values("number")
    return Coalesce(Subquery(numbers), 0)


def differ(one: str, other: str) -> Q:
    """Whether two columns have different values; in SQL a null differs from nothing."""
    only_one = Q(**{f"{one}__isnull": False, f"{other}__isnull": True})
    only_other = Q(**{f"{one}__isnull": True, f"{other}__isnull": False})
    return only_one | only_other | (Q(**{f"{one}__isnull": False}) & ~Q(**{one: F(other)}))


def pinned(field: str, step: str = "") -> Subquery:
    """A field of the step's pinned definition; `step`: the path that leads to the step."""
    definitions = StepDefinition.objects.filter(
        definition_version=OuterRef(f"{step}instance__definition_version"), step_key=OuterRef(f"{step}step_key")
    )
    return Subquery(definitions.values(field)[:1])


def walk(rows: QuerySet[M], *order: str) -> Iterator[M]:
    """Every row in the order of a unique key, a chunk at a time, in plain statements on every database."""
    columns = order or ("pk",)
    last: tuple[Any, ...] | None = None
    while True:
        chunk = list((rows if last is None else rows.filter(_after(columns, last))).order_by(*columns)[:CHUNK])
        yield from chunk
        if len(chunk) < CHUNK:
            return
        last = tuple(getattr(chunk[-1], column) for column in columns)


def _after(columns: tuple[str, ...], last: tuple[Any, ...]) -> Q:
    """Keyset in its expanded form: the first column never before, and then later in the first that is not equal."""
    later, equal = Q(), Q()
    for column, value in zip(columns, last, strict=True):
        later |= equal & Q(**{f"{column}__gt": value})
        equal &= Q(**{column: value})
    return Q(**{f"{columns[0]}__gte": last[0]}) & later
