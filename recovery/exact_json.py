"""JSON that loses nothing: exact numbers, one canonical form, and limits against bombs.

Decimals are read as `decimal.Decimal`; integers stay integers of any size up to `MAX_DIGITS`.
"""

import hashlib
import re
from decimal import Decimal
from typing import Any

import simplejson

MAX_DEPTH = 64
"""Levels of nesting."""
MAX_DIGITS = 1000
"""Digits of one number, and the largest decimal exponent: beyond it arithmetic on a short text exhausts memory."""
MAX_BYTES = 1024 * 1024
"""Of a JSON body, and of one `input`, `result`, `payload` or `output`, in UTF-8."""

_SURROGATE = re.compile("[\ud800-\udfff]")


class InvalidJson(ValueError):
    """The text is not JSON that this system keeps; the message says why."""


def _integer(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise InvalidJson(f"a number has more than {MAX_DIGITS} digits")
    return int(text)


def _decimal(text: str) -> Decimal:
    mantissa, _, exponent = text.lower().partition("e")
    if len(mantissa) > MAX_DIGITS or len(exponent) > 5 or abs(int(exponent or 0)) > MAX_DIGITS:
        raise InvalidJson(f"a number has more than {MAX_DIGITS} digits or a larger exponent")
    return Decimal(text)


def _constant(text: str) -> None:
    raise InvalidJson(f"{text} is not JSON")


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise InvalidJson("an object names a member twice")
    return members


def loads(text: str | bytes) -> Any:
    """Parses stored JSON. Raises InvalidJson for malformed text, duplicate members, NaN and oversized numbers."""
    try:
        return simplejson.loads(
            text, parse_int=_integer, parse_float=_decimal, parse_constant=_constant, object_pairs_hook=_members
        )
    except InvalidJson:
        raise
    except RecursionError:
        raise InvalidJson(f"nested deeper than {MAX_DEPTH} levels") from None
    except (ValueError, ArithmeticError) as error:
        raise InvalidJson(str(error)) from None


def parse(text: str | bytes) -> Any:
    """Parses JSON from outside: `loads`, and the checks of `problem` on the whole value."""
    size = len(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
    if size > MAX_BYTES:
        raise InvalidJson(f"larger than {MAX_BYTES} bytes")
    # Before the parser recurses: brackets outside of strings can only be fewer than all brackets.
    value = loads(text)
    if found := problem(value):
        raise InvalidJson(found)
    return value


def problem(value: Any) -> str | None:
    """What forbids keeping a parsed value: depth, a lone surrogate, a type that JSON has not; None when fine."""
    stack: list[tuple[Any, int]] = [(value, 0)]
    while stack:
        item, depth = stack.pop()
        if isinstance(item, str):
            if _SURROGATE.search(item):
                return "a text holds a lone surrogate"
        elif isinstance(item, dict | list):
            if depth >= MAX_DEPTH:
                return f"nested deeper than {MAX_DEPTH} levels"
            children = item if isinstance(item, list) else [*item, *item.values()]
            stack.extend((child, depth + 1) for child in children)
        elif isinstance(item, float):
            return "a number went through a double"
        elif isinstance(item, Decimal) and not item.is_finite():
            return f"{item} is not JSON"
        elif item is not None and not isinstance(item, bool | int | Decimal):
            return f"{type(item).__name__} is not JSON"
    return None


def dumps(value: Any) -> str:
    """Compact JSON in the given member order. Decimals keep their digits."""
    return simplejson.dumps(value, use_decimal=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def utf8(value: Any) -> bytes:
    """JSON as it travels: what `MAX_BYTES` counts, wherever the text is written in another alphabet."""
    text = simplejson.dumps(value, use_decimal=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "surrogatepass")


def _canonical(value: Any) -> Any:
    if isinstance(value, Decimal):
        sign, digits, exponent = value.as_tuple()
        assert isinstance(exponent, int)
        while digits and digits[-1] == 0:
            digits, exponent = digits[:-1], exponent + 1
        if not digits:
            return 0
        if exponent >= 0:
            number = int("".join(map(str, digits))) * 10**exponent
            return -number if sign else number
        return Decimal((sign, digits, exponent))
    if isinstance(value, dict):
        return {name: _canonical(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [_canonical(item) for item in value]
    return value


def canonical(value: Any) -> str:
    """One text for one value: members sorted, numbers by value (1.10 is 1.1, 1.0 is 1)."""
    return simplejson.dumps(
        _canonical(value), use_decimal=True, separators=(",", ":"), sort_keys=True, ensure_ascii=True, allow_nan=False
    )


def digest(value: Any) -> str:
    """SHA-256 of the canonical text, in hexadecimal."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()
