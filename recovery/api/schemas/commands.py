"""Schemas of bodies, from the dataclasses that read them: a field's limits are told where its check is known."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from recovery.api import bodies
from recovery.api.schemas.words import ANY, BOOL, EVIDENCE_REF, REASON, Schema, label, listed, name, ref, shape, whole
from recovery.api.schemas.words import text as text_of
from recovery.engine import cancel_task, control, signals, start
from recovery.operations import REGISTRY, commands
from recovery.operations.commands import Document

NOT_NULL: Schema = {
    "description": "Any JSON but null; numbers keep their exact value.",
    "type": ["boolean", "object", "array", "number", "string"],
}
NUMBER_OF_VERSION = whole(1, 2**31 - 1, description="Without it, the newest version.")
GENERATION = whole(1, 2**31 - 1, description="Sequence of the activation that the signal is for.")
HANDLERS = listed(
    shape({"name": label(128), "version": label(32)}, closed=True),
    minItems=1,
    maxItems=bodies.MAX_HANDLERS,
    description="Only tasks of these handlers; without it, of all.",
)

_BY_CHECK: dict[Any, Schema] = {
    commands.revision: ref("Revision"),
    commands.reason: REASON,
    commands.evidence_ref: EVIDENCE_REF,
    commands.name: name(),
    commands.label: label(),
    commands.stated: {"const": True, "description": "The JSON literal true: confirm it only when you know it."},
    commands.outcome: {"type": "string", "enum": ["SUCCEEDED", "FAILED"]},
    commands.json_value: ANY,
    commands.json_not_null: NOT_NULL,
}
_BY_PARTIAL: dict[Any, Callable[..., Schema]] = {
    commands.label: lambda limit: label(limit),
    commands.text: lambda limit: text_of(limit, 1),
    bodies._whole: whole,
}
_BY_FIELD: dict[tuple[type[Document], str], Schema] = {
    (start.Start, "version"): {**NUMBER_OF_VERSION, "type": ["integer", "null"]},
    (signals.SignalDocument, "generation"): GENERATION,
    (signals.SignalDocument, "name"): label(128),
    (bodies.Claim, "handlers"): HANDLERS,
    (bodies.Doubt, "error_code"): label(64),
    (bodies.Doubt, "error_message"): {**text_of(1024), "pattern": r"^[^\u0000]*$"},
    (bodies.Failure, "retryable"): {
        **BOOL,
        "description": "Whether trying again may help; the codes that the step pins decide before it.",
    },
}

DOCUMENTS: Mapping[str, type[Document]] = {
    "Start": start.Start,
    "Control": control.Control,
    "CancelTask": cancel_task.CancelTask,
    "SendSignal": signals.SignalDocument,
    "Claim": bodies.Claim,
    "Heartbeat": bodies.Heartbeat,
    "Success": bodies.Success,
    "Failure": bodies.Failure,
    "Doubt": bodies.Doubt,
    **{operation.name: operation.command for operation in REGISTRY.values()},
}
"""Component name -> what reads that body."""


def components() -> dict[str, Schema]:
    return {name: document(cls) for name, cls in DOCUMENTS.items()}


def document(cls: type[Document]) -> Schema:
    """The schema of one body. Raises LookupError for a check that this module cannot describe."""
    fields = dataclasses.fields(cls)
    return shape(
        {field.name: _field(cls, field) for field in fields},
        optional=tuple(field.name for field in fields if field.default is not dataclasses.MISSING),
        closed=True,
    )


def _field(cls: type[Document], field: Any) -> Schema:
    for owner in cls.__mro__:
        if (owner, field.name) in _BY_FIELD:
            return _BY_FIELD[owner, field.name]
    check = field.metadata["check"]
    if isinstance(check, partial):
        return _BY_PARTIAL[check.func](*check.args, **check.keywords)
    return _BY_CHECK[check]
