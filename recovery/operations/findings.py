"""What a rule answers: whether it holds, what was found, what to do next, and which rows show it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from recovery.errors import BY_CODE, DomainError


@dataclass(frozen=True)
class Finding:
    """`holds`: True, False, or None where it depends on what is entered. `code`: of the refusal, "" otherwise.

    `found` and `next` are sentences in the reader's language; `rows` are ids of the rows that show it.
    """

    rule: str
    holds: bool | None
    found: str
    code: str = ""
    next: str = ""
    rows: tuple[str, ...] = ()


def holds(rule: str, found: Any, rows: Iterable[str] = ()) -> Finding:
    return Finding(rule, True, str(found), rows=tuple(rows))


def fails(rule: str, error: type[DomainError], found: Any, next: Any, rows: Iterable[str] = ()) -> Finding:
    return Finding(rule, False, str(found), error.code, str(next), tuple(rows))


def depends(rule: str, found: Any) -> Finding:
    return Finding(rule, None, str(found))


def first_failure(findings: Sequence[Finding]) -> Finding | None:
    return next((finding for finding in findings if finding.holds is False), None)


def refuse(findings: Sequence[Finding], current: dict[str, Any]) -> None:
    """G15: raises the error of the first finding that fails; the error lists all that fail."""
    first = first_failure(findings)
    if first is None:
        return
    raise BY_CODE[first.code](
        f"{first.found} {first.next}".strip(),
        rule=first.rule,
        current=current,
        findings=[finding for finding in findings if finding.holds is False],
    )
