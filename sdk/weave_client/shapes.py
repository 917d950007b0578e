"""What the server answers. Rows keep the server's field names and stay mappings; the other shapes are here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

Row = Mapping[str, Any]
"""A row as it is stored: references under `<name>_id`, revisions as decimal strings, times as RFC 3339 texts."""


@dataclass(frozen=True)
class Page:
    """A part of a list. `next_cursor`: where the next part begins, None at the end."""

    items: tuple[Row, ...]
    next_cursor: str | None

    @classmethod
    def read(cls, data: Any) -> Page:
        return cls(tuple(data["items"]), data["next_cursor"])


@dataclass(frozen=True)
class Finding:
    """A rule, whether it holds, what was found, and what to do next. `rows`: ids of the rows that show it."""

    rule: str
    holds: bool | Literal["depends"]
    found: str
    next: str
    rows: tuple[str, ...]

    @classmethod
    def read(cls, data: Any) -> Finding:
        return cls(data["rule"], data["holds"], data["found"], data["next"], tuple(data["rows"]))


def _findings(data: Any) -> tuple[Finding, ...]:
    return tuple(Finding.read(found) for found in data)


@dataclass(frozen=True)
class Receipt:
    """The frozen answer of a keyed call. `data`: all of it; `replayed`: the act had been committed before."""

    data: Row
    replayed: bool = False

    @property
    def operation_key(self) -> str:
        return str(self.data["operation_key"])

    @property
    def operation(self) -> str:
        return str(self.data["operation"])

    @property
    def instance_id(self) -> str | None:
        return self.data.get("instance_id")

    def __getitem__(self, name: str) -> Any:
        return self.data[name]


@dataclass(frozen=True)
class Preview:
    """What a command would do now. `changes`: entity, id, field, before, after; `created`: entity, fields."""

    allowed: bool
    findings: tuple[Finding, ...]
    changes: tuple[Row, ...]
    created: tuple[Row, ...]

    @classmethod
    def read(cls, data: Any) -> Preview:
        return cls(data["allowed"], _findings(data["findings"]), tuple(data["changes"]), tuple(data["created"]))


@dataclass(frozen=True)
class Option:
    """One operation on one target. `allowed`: no rule fails with what is known; `code`: of the first that fails."""

    operation: str
    target: Mapping[str, str]
    allowed: bool
    code: str | None
    findings: tuple[Finding, ...]

    @classmethod
    def read(cls, data: Any) -> Option:
        return cls(data["operation"], data["target"], data["allowed"], data["code"], _findings(data["findings"]))


@dataclass(frozen=True)
class Explanation:
    """What may be decided at this revision. `hidden`: how many troubled steps are not shown."""

    revision: str
    options: tuple[Option, ...]
    hidden: int
    data: Row

    @classmethod
    def read(cls, data: Any) -> Explanation:
        return cls(data["revision"], tuple(map(Option.read, data["operations"])), data.get("hidden", 0), data)


@dataclass(frozen=True)
class Lease:
    """A task that this worker holds. `seconds`: how long the lease was when it was granted, None where unknown."""

    task: Row
    attempt_id: str
    attempt_no: int
    lease_token: str
    lease_expires_at: datetime
    input: Any
    seconds: float | None = None

    @classmethod
    def read(cls, data: Any, granted_at: datetime | None) -> Lease:
        attempt = data["attempt"]
        expires = datetime.fromisoformat(attempt["lease_expires_at"])
        seconds = (expires - granted_at).total_seconds() if granted_at else None
        token = attempt["lease_token"]
        return cls(data["task"], attempt["id"], attempt["attempt_no"], token, expires, data["input"], seconds)


@dataclass(frozen=True)
class Report:
    """What became of a report. `late`: kept as a fact only, for the attempt had ended before."""

    late: bool
    task_status: str
