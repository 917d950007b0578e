"""Commands: what a caller may say, checked field by field before anything is locked (G3, G13).

A command is a frozen keyword-only dataclass; each field names the check that its text has to pass. Values are stored as
sent, never trimmed. Unknown fields, lone surrogates and wrong types are refused, each with the field's name.
"""

from __future__ import annotations

import dataclasses
import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from django.utils.translation import gettext as _

from recovery import exact_json
from recovery.errors import ValidationFailed

MAX_REVISION = 2**63 - 1
_REVISION = re.compile(r"[1-9][0-9]{0,18}\Z", re.ASCII)
_SURROGATE = re.compile("[\ud800-\udfff]")


class Invalid(ValueError):
    """One field is wrong; the message says how to mend it."""


def revision(value: Any) -> str:
    """A decimal string, so that no client rounds it; stays a string."""
    if not isinstance(value, str) or not _REVISION.match(value) or int(value) > MAX_REVISION:
        raise Invalid(_("A revision is a string of decimal digits without a sign or leading zeros, e.g. “31”."))
    return value


def text(value: Any, limit: int) -> str:
    if not isinstance(value, str):
        raise Invalid(_("This has to be text."))
    if _SURROGATE.search(value):
        raise Invalid(_("The text holds half of a surrogate pair; send whole characters."))
    if not 1 <= len(value) <= limit:
        raise Invalid(_("1 to %(limit)d characters.") % {"limit": limit})
    return value


def reason(value: Any) -> str:
    value = text(value, 1024)
    if "\0" in value:
        raise Invalid(_("The text holds a NUL character; remove it."))
    if not value.strip():
        raise Invalid(_("White space alone is no reason; say why."))
    return value


def evidence_ref(value: Any) -> str:
    value = text(value, 512)
    if any(char.isspace() or unicodedata.category(char) in ("Cc", "Zs", "Zl", "Zp") for char in value):
        raise Invalid(_("An evidence reference holds no white space and no control characters."))
    return value


def name(value: Any) -> str:
    """An identifier: of a step, an activation or a task."""
    value = text(value, 128)
    if any(char.isspace() or unicodedata.category(char) == "Cc" for char in value):
        raise Invalid(_("An identifier holds no white space and no control characters."))
    return value


def label(value: Any, limit: int = 191) -> str:
    """A name or a key that people choose; blanks count, nothing is trimmed."""
    value = text(value, limit)
    if any(unicodedata.category(char) == "Cc" for char in value):
        raise Invalid(_("The text holds a control character; remove it."))
    if not value.strip():
        raise Invalid(_("White space alone names nothing."))
    return value


def stated(value: Any) -> bool:
    """G13: a statement is the JSON literal true; it never replaces a check of the server."""
    if value is not True:
        raise Invalid(_("This statement has to be true: confirm it only when you know it."))
    return True


def outcome(value: Any) -> str:
    if value not in ("SUCCEEDED", "FAILED"):
        raise Invalid(_("SUCCEEDED or FAILED."))
    return value


def json_value(value: Any) -> Any:
    if problem := exact_json.problem(value):
        raise Invalid(_("This is not JSON that can be kept: %(problem)s.") % {"problem": problem})
    if len(exact_json.utf8(value)) > exact_json.MAX_BYTES:
        raise Invalid(_("Larger than %(limit)d bytes.") % {"limit": exact_json.MAX_BYTES})
    return value


def json_not_null(value: Any) -> Any:
    if value is None:
        raise Invalid(_("The result must not be null; say what the execution answered."))
    return json_value(value)


def checked(check: Callable[[Any], Any], **default: Any) -> Any:
    """A dataclass field whose value has to pass `check`; it may be missing where a `default` is given."""
    return dataclasses.field(metadata={"check": check}, **default)


@dataclass(frozen=True, kw_only=True)
class Document:
    """A JSON object from outside, read field by field."""

    @classmethod
    def parse(cls, payload: Any) -> Self:
        """Reads a JSON object. Raises ValidationFailed with a list of sentences for each wrong field."""
        if not isinstance(payload, Mapping):
            raise ValidationFailed(_("The command has to be a JSON object."), rule="G3")
        known = {field.name: field for field in dataclasses.fields(cls)}
        problems: dict[str, list[str]] = {}
        values = {}
        for name, field in known.items():
            if name not in payload:
                if field.default is dataclasses.MISSING:
                    problems[name] = [_("This field is missing.")]
                continue
            try:
                values[name] = field.metadata["check"](payload[name])
            except Invalid as error:
                problems[name] = [str(error)]
        for name in payload:
            if name not in known:
                problems[printable(name)] = [_("There is no such field; remove it.")]
        if problems:
            fields = ", ".join(sorted(problems))
            raise ValidationFailed(
                _("These fields are not valid: %(fields)s.") % {"fields": fields}, rule="G3", fields=problems
            )
        return cls(**values)

    def content(self) -> dict[str, Any]:
        """The canonical content, for the command's digest and for what is audited."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}


@dataclass(frozen=True, kw_only=True)
class Command(Document):
    """What all six operations take (G3)."""

    expected_revision: str = checked(revision)
    reason: str = checked(reason)
    evidence_ref: str = checked(evidence_ref)


def printable(field: Any) -> str:
    """A member's name as it can be shown: short, and without halves of characters."""
    return str(field).encode("utf-8", "backslashreplace").decode()[:128]


@dataclass(frozen=True, kw_only=True)
class StepDecision(Command):
    """What the four step operations add (G5)."""

    step_key: str = checked(name)
    activation_id: str = checked(name)
    expected_step_revision: str = checked(revision)
