"""JSON that loses nothing: decimals stay decimals, and one value has one canonical text.

The canonical text is the server's, so that a digest made here equals one made there.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any


def loads(text: str | bytes) -> Any:
    """Parses JSON. Numbers with a point or an exponent become Decimal. Raises ValueError, also for NaN."""
    return json.loads(text, parse_float=Decimal, parse_constant=_no_constant)


def _no_constant(text: str) -> None:
    raise ValueError(f"{text} is not JSON")


def dumps(value: Any, *, sort_keys: bool = False) -> str:
    """Compact ASCII JSON. Raises TypeError for what JSON has not, and for a float, which has lost digits already."""
    if value is None or isinstance(value, bool | str):
        return json.dumps(value)
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, Decimal):
        if not value.is_finite():
            raise TypeError(f"{value} is not JSON")
        return str(value)
    if isinstance(value, float):
        raise TypeError(f"{value!r} is a float: send Decimal({str(value)!r}), an int or a text, which lose no digits")
    if isinstance(value, Mapping):
        names = sorted(value) if sort_keys else value
        return "{" + ",".join(f"{_name(name)}:{dumps(value[name], sort_keys=sort_keys)}" for name in names) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(dumps(item, sort_keys=sort_keys) for item in value) + "]"
    raise TypeError(f"{type(value).__name__} is not JSON")


def _name(name: Any) -> str:
    if not isinstance(name, str):
        raise TypeError(f"a member's name is text, not {type(name).__name__}")
    return json.dumps(name)


def canonical(value: Any) -> str:
    """One text for one value: members sorted, numbers by value (1.10 is 1.1, 1.0 is 1)."""
    return dumps(_by_value(value), sort_keys=True)


def digest(value: Any) -> str:
    """SHA-256 of the canonical text, in hexadecimal."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()


def _by_value(value: Any) -> Any:
    if isinstance(value, Decimal):
        return _shortest(value)
    if isinstance(value, Mapping):
        return {name: _by_value(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [_by_value(item) for item in value]
    return value


def _shortest(number: Decimal) -> Any:
    # Not Decimal.normalize(), which rounds to the context's precision.
    sign, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int):
        raise TypeError(f"{number} is not JSON")
    while digits and digits[-1] == 0:
        digits, exponent = digits[:-1], exponent + 1
    if not digits:
        return 0
    if exponent >= 0:
        whole = int("".join(map(str, digits))) * 10**exponent
        return -whole if sign else whole
    return Decimal((sign, digits, exponent))
