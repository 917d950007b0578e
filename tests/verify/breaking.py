"""Breaking rows past everything that keeps them whole, and seeing what a check says."""

from typing import Any

from django.db import models

from recovery.verify import CHECKS, Scope


def put(row: models.Model, **values: Any) -> None:
    """Writes over a stored row."""
    assert type(row)._base_manager.filter(pk=row.pk).update(**values) == 1


def remove(row: models.Model) -> None:
    """Deletes a stored row, and leaves whatever refers to it."""
    assert type(row)._base_manager.filter(pk=row.pk).delete()[0] == 1


def said(name: str, row: models.Model | type[models.Model], *, namespace_id: str | None = None) -> str:
    """What a check says of a row; it fails the test if it does not name it."""
    found = CHECKS[name].look(Scope(namespace_id)).violations
    sentences = [violation.sentence for violation in found if violation.id == row.pk]
    assert sentences, f"{name} does not name {type(row).__name__} {row.pk}: {found}"
    return " ".join(sentences)
