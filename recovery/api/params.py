"""Query parameters. One that is invalid, unknown or given twice is refused: ignoring it would answer other rows."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Annotated, Any

from django.http import HttpRequest
from django.utils.translation import gettext as _
from pydantic import BeforeValidator, Field, WithJsonSchema

from recovery.api.paging import MAX_LIMIT
from recovery.errors import ValidationFailed
from recovery.operations import commands
from recovery.states import InstanceStatus, ReviewReason, Status

_DECIMAL = re.compile(r"[0-9]{1,9}\Z", re.ASCII)


def refuse_unknown(request: HttpRequest, known: Collection[str]) -> None:
    """Raises ValidationFailed for a parameter that the path does not have, or that is given twice."""
    problems = {}
    for name, values in request.GET.lists():
        if name not in known:
            problems[commands.printable(name)] = [_("There is no such parameter here; remove it.")]
        elif len(values) > 1:
            problems[name] = [_("Given more than once.")]
    if problems:
        names = ", ".join(sorted(problems))
        raise ValidationFailed(_("These parameters are not valid: %(names)s.") % {"names": names}, fields=problems)


def _decimal(value: Any) -> Any:
    if isinstance(value, str) and not _DECIMAL.match(value):
        raise ValueError("decimal digits only")
    return value


def _true_or_false(value: Any) -> Any:
    if value not in ("true", "false", True, False):
        raise ValueError("true or false, in small letters")
    return value


def _one_of(states: type[Status]) -> BeforeValidator:
    def check(value: Any) -> Any:
        if value not in states.values:
            raise ValueError(f"one of: {', '.join(states.values)}")
        return value

    return BeforeValidator(check)


def _label(limit: int) -> BeforeValidator:
    return BeforeValidator(lambda value: commands.label(value, limit))


def _enum(states: type[Status]) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "enum": list(states.values)})


def _text(limit: int, description: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "minLength": 1, "maxLength": limit, "description": description})


Limit = Annotated[int, BeforeValidator(_decimal), Field(ge=1, le=MAX_LIMIT, description="Rows of one page.")]
Cursor = Annotated[str | None, _text(512, "`next_cursor` of the page before, unchanged.")]
DryRun = Annotated[
    bool,
    BeforeValidator(_true_or_false),
    Field(description="true: answer what would change, and change nothing. Needs no key and takes none."),
]
StatusFilter = Annotated[str | None, _one_of(InstanceStatus), _enum(InstanceStatus)]
ReasonFilter = Annotated[str | None, _one_of(ReviewReason), _enum(ReviewReason)]
DefinitionFilter = Annotated[str | None, _label(128), _text(128, "Name of a definition, exactly.")]
BusinessKeyFilter = Annotated[str | None, _label(191), _text(191, "Business key, exactly.")]
StepKeyFilter = Annotated[str | None, _label(128), _text(128, "Explain this step only.")]
TaskIdFilter = Annotated[str | None, _label(64), _text(64, "Explain the step of this task only.")]

Id = Annotated[str, WithJsonSchema({"type": "string", "minLength": 1, "maxLength": 64, "description": "Opaque."})]
"""Of a path. Its form is not checked: what nobody has is not found."""
