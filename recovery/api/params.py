"""Query parameters. One that is invalid, unknown or given twice is refused: ignoring it would answer other rows."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Annotated, Any

from django.http import HttpRequest
from django.utils.translation import gettext as _
from pydantic import BeforeValidator, WithJsonSchema

from recovery.api.paging import DEFAULT_LIMIT, MAX_LIMIT, Keyset
from recovery.api.schemas import words
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


def _limit(value: Any) -> int:
    if value == DEFAULT_LIMIT:
        return DEFAULT_LIMIT
    if not _DECIMAL.match(value) or not 1 <= int(value) <= MAX_LIMIT:
        raise ValueError(f"a whole number from 1 to {MAX_LIMIT}")
    return int(value)


def _true_or_false(value: Any) -> bool:
    if value not in ("true", "false", False):
        raise ValueError("true or false, in small letters")
    return value == "true"


def _one_of(states: type[Status]) -> Any:
    def check(value: Any) -> Any:
        if value not in states.values:
            raise ValueError(f"one of: {', '.join(states.values)}")
        return value

    return Annotated[str, BeforeValidator(check), WithJsonSchema({"type": "string", "enum": list(states.values)})]


def _label(limit: int, description: str) -> Any:
    check = BeforeValidator(lambda value: commands.label(value, limit))
    return Annotated[str, check, WithJsonSchema({**words.label(limit), "description": description})]


def cursor_of(keyset: Keyset) -> WithJsonSchema:
    """What the document says of a list's cursor; the list itself checks it."""
    pattern = f"^{keyset.cursor_pattern}$"
    return WithJsonSchema(
        {"type": "string", "pattern": pattern, "description": "The next_cursor of the page before, unchanged."}
    )


Limit = Annotated[
    int,
    BeforeValidator(_limit),
    WithJsonSchema({**words.whole(1, MAX_LIMIT), "description": "Rows of one page."}),
]
DryRun = Annotated[
    bool,
    BeforeValidator(_true_or_false),
    WithJsonSchema(
        {"type": "boolean", "description": "true: answer what would change, and change nothing. Takes no key."}
    ),
]
StatusFilter = _one_of(InstanceStatus)
ReasonFilter = _one_of(ReviewReason)
DefinitionFilter = _label(128, "Name of a definition, exactly.")
BusinessKeyFilter = _label(191, "Business key, exactly.")
StepKeyFilter = _label(128, "Explain this step only.")
TaskIdFilter = _label(64, "Explain the step of this task only.")

Id = Annotated[str, WithJsonSchema({"type": "string", "minLength": 1, "maxLength": 128, "description": "Opaque."})]
"""Of a path. Its form is not checked: what nobody has is not found."""
