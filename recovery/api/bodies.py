"""What callers send: JSON read strictly, and the bodies that only HTTP has."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any

from django.http import HttpRequest
from django.utils.translation import gettext as _

from recovery import exact_json
from recovery.api.problems import UnsupportedMediaType
from recovery.engine.claim import MAX_TASKS
from recovery.operations.commands import Document, Invalid, checked, json_value, label, text

MAX_WAIT_MS = 20_000
"""The longest time that a claim waits for a task."""
MAX_HANDLERS = 100
_TOO_LARGE = f"it is larger than {exact_json.MAX_BYTES} bytes"


@dataclass(frozen=True)
class Unreadable:
    """A body that is no JSON object. No command accepts it, so it is refused where commands are read: after it was
    asked who may act here (G15). `problems.refused` then says what is wrong with it.
    """

    problem: str
    status: int = 422


def sent(request: HttpRequest) -> Any:
    """The parsed body, or Unreadable. Raises UnsupportedMediaType for anything but JSON in UTF-8."""
    # The length comes first: what is too large is never read.
    length = request.META.get("CONTENT_LENGTH") or "0"
    is_too_large = length.isdecimal() and int(length) > exact_json.MAX_BYTES
    parsed = Unreadable(_TOO_LARGE, status=413) if is_too_large else _parsed(request)
    if isinstance(parsed, Unreadable):
        request.unreadable = parsed  # type: ignore[attr-defined]
    return parsed


def _parsed(request: HttpRequest) -> Any:
    charset = (request.content_params or {}).get("charset", "utf-8")
    is_json = request.content_type == "application/json" and charset.lower().strip('"') in ("utf-8", "utf8")
    if request.body and not is_json:
        raise UnsupportedMediaType("Send the body as Content-Type: application/json, in UTF-8.")
    try:
        return _whole_numbers(exact_json.parse(request.body))
    except exact_json.InvalidJson as error:
        return Unreadable(str(error))


def _whole_numbers(value: Any) -> Any:
    """1.0 is the integer 1, as it is for a JSON Schema; its value stays exact."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else value
    if isinstance(value, dict):
        return {name: _whole_numbers(member) for name, member in value.items()}
    return [_whole_numbers(item) for item in value] if isinstance(value, list) else value


def key(request: HttpRequest) -> str:
    """The operation key, "" without one: it is checked where the command is read."""
    return request.headers.get("Idempotency-Key", "")


def _whole(least: int, most: int, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise Invalid(_("A whole number from %(least)d to %(most)d.") % {"least": least, "most": most})
    return value


def _handlers(value: Any) -> list[tuple[str, str]]:
    if not isinstance(value, list) or not 1 <= len(value) <= MAX_HANDLERS:
        raise Invalid(_("A list of 1 to %(limit)d handlers; without it, all of them.") % {"limit": MAX_HANDLERS})
    for pair in value:
        if not isinstance(pair, dict) or set(pair) != {"name", "version"}:
            raise Invalid(_("Each handler is an object with name and version."))
    return [(label(pair["name"], 128), label(pair["version"], 32)) for pair in value]


@dataclass(frozen=True, kw_only=True)
class Claim(Document):
    """`wait_ms`: how long to wait for a first task. `handlers`: absent for all."""

    worker: str = checked(partial(label, limit=128))
    max_tasks: int = checked(partial(_whole, 1, MAX_TASKS))
    wait_ms: int = checked(partial(_whole, 0, MAX_WAIT_MS), default=0)
    handlers: list[tuple[str, str]] | None = checked(_handlers, default=None)  # noqa: RUF009 - makes a dataclass field


def _anything(value: Any) -> Any:
    """Checked where the report is made."""
    return value


@dataclass(frozen=True, kw_only=True)
class Heartbeat(Document):
    lease_token: str = checked(partial(text, limit=128))


@dataclass(frozen=True, kw_only=True)
class Success(Heartbeat):
    result: Any = checked(json_value)  # noqa: RUF009 - makes a dataclass field


@dataclass(frozen=True, kw_only=True)
class Doubt(Heartbeat):
    error_code: str = checked(_anything)
    error_message: str = checked(_anything)


@dataclass(frozen=True, kw_only=True)
class Failure(Doubt):
    retryable: bool = checked(_anything)
