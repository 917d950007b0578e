"""The hash chain of an instance's audit (G10). Entries are appended under the instance lock, never changed."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from recovery import exact_json
from recovery.models import ExecutionAudit, ManagementOperation, WorkflowAudit, WorkflowInstance
from recovery.writes import insert

ORIGIN = "0" * 64
"""The previous hash of the first entry."""


def head_of(instance: WorkflowInstance) -> tuple[int, str]:
    """The anchored head: how many entries there are, and the last one's hash."""
    sequence, _, entry_hash = instance.audit_head.partition(":")
    return (int(sequence), entry_hash) if sequence else (0, ORIGIN)


def entry_hash(entry: WorkflowAudit) -> str:
    """SHA-256 over the whole content of an entry and the previous entry's hash."""
    content = {
        "id": entry.pk,
        "instance_id": entry.instance_id,
        "sequence": entry.sequence,
        "operation_id": entry.operation_id,
        "execution_audit_id": entry.execution_audit_id,
        "actor": entry.actor,
        "action": entry.action,
        "reason": entry.reason,
        "evidence_ref": entry.evidence_ref,
        "before": entry.before,
        "after": entry.after,
        "previous_hash": entry.previous_hash,
        "created_at": instant(entry.created_at),
    }
    return hashlib.sha256(exact_json.canonical(content).encode()).hexdigest()


def instant(moment: datetime) -> str:
    """RFC 3339, UTC, microseconds: the one spelling of a time in receipts, audits and the API."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def append(
    instance: WorkflowInstance,
    *,
    actor: str,
    action: str,
    reason: str,
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    now: datetime,
    evidence_ref: str = "",
    operation: ManagementOperation | None = None,
    execution_audit: ExecutionAudit | None = None,
    audit_id: str | None = None,
) -> tuple[WorkflowAudit, str]:
    """Inserts the next entry and answers it with the new `audit_head`, which the caller writes to the instance.

    The instance row must be locked. `audit_id`: where another row had to name the entry before it was written.
    """
    sequence, previous = head_of(instance)
    entry = WorkflowAudit(
        instance_id=instance.pk,
        sequence=sequence + 1,
        operation=operation,
        execution_audit=execution_audit,
        actor=actor,
        action=action,
        reason=reason,
        evidence_ref=evidence_ref,
        before=dict(before),
        after=dict(after),
        previous_hash=previous,
        created_at=now,
        **({"id": audit_id} if audit_id else {}),
    )
    entry.entry_hash = entry_hash(entry)
    insert(entry)
    return entry, f"{entry.sequence}:{entry.entry_hash}"
