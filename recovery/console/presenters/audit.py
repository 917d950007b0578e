"""The audit explorer: entries with what was before and after, and the same entries as files."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from recovery import exact_json
from recovery.audit import instant
from recovery.console.presenters.decisions import Delta
from recovery.console.presenters.facts import act_word
from recovery.console.presenters.handled import ACTIONS
from recovery.console.words import ACTS
from recovery.flow import PLATFORM
from recovery.models import WorkflowAudit

EXPORTED = 10_000
"""Entries of one file at most, the newest first."""

KNOWN = (*ACTIONS, *ACTS)
"""Actions that the list can be filtered by."""


@dataclass(frozen=True)
class Entry:
    """One entry as it is drawn. `deltas`: what differs; `same`: what stood there before and after alike."""

    row: WorkflowAudit
    act: Any
    deltas: tuple[Delta, ...]
    same: tuple[Delta, ...]

    @property
    def is_platform(self) -> bool:
        return self.row.actor == PLATFORM

    @property
    def key(self) -> str:
        """Of its receipt's page; only the six operations have one."""
        return self.row.operation.operation_key if self.row.operation and self.row.action in ACTIONS else ""


def entries(rows: Iterable[WorkflowAudit]) -> list[Entry]:
    """The entries in their order."""
    return [_entry(row) for row in rows]


def _entry(row: WorkflowAudit) -> Entry:
    names = list(dict.fromkeys([*row.before, *row.after]))
    values = [Delta(name, row.before.get(name), row.after.get(name)) for name in names]
    changed = tuple(each for each in values if each.before != each.after)
    return Entry(row, act_word(row.action), changed, tuple(each for each in values if each.before == each.after))


COLUMNS = (
    "created_at",
    "namespace",
    "business_key",
    "instance_id",
    "sequence",
    "actor",
    "action",
    "reason",
    "evidence_ref",
    "operation_key",
    "before",
    "after",
    "previous_hash",
    "entry_hash",
    "id",
    "operation_id",
    "execution_audit_id",
)


def record(row: WorkflowAudit) -> dict[str, Any]:
    """An entry with everything that its hash covers."""
    return {
        "created_at": instant(row.created_at),
        "namespace": row.instance.namespace.name,
        "business_key": row.instance.business_key,
        "instance_id": row.instance_id,
        "sequence": row.sequence,
        "actor": row.actor,
        "action": row.action,
        "reason": row.reason,
        "evidence_ref": row.evidence_ref,
        "operation_key": row.operation.operation_key if row.operation else None,
        "before": row.before,
        "after": row.after,
        "previous_hash": row.previous_hash,
        "entry_hash": row.entry_hash,
        "id": row.pk,
        "operation_id": row.operation_id,
        "execution_audit_id": row.execution_audit_id,
    }


def json_lines(rows: Iterable[WorkflowAudit]) -> Iterator[str]:
    """One JSON object a line, every number exact."""
    for row in rows:
        yield exact_json.dumps(record(row)) + "\n"


def csv_lines(rows: Iterable[WorkflowAudit]) -> Iterator[str]:
    """A heading, then one line for each entry. No cell is a formula to a spreadsheet."""
    yield _line(COLUMNS)
    for row in rows:
        whole = record(row)
        yield _line([guarded(whole[name]) for name in COLUMNS])


def guarded(value: Any) -> str:
    """A cell. What a spreadsheet would take for a formula begins with an apostrophe instead."""
    text = exact_json.dumps(value) if isinstance(value, dict | list) else "" if value is None else str(value)
    starts = text.lstrip()[:1]
    return f"'{text}" if (starts and starts in "=+-@") or text[:1] in ("\t", "\r", "\n") else text


def _line(cells: Iterable[str]) -> str:
    written = io.StringIO()
    csv.writer(written).writerow(cells)
    return written.getvalue()
