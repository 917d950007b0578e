"""Checking what the server says about the past: each audit entry is hashed again here, and the chain followed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from weave_client import exact
from weave_client.shapes import Receipt, Row

ORIGIN = "0" * 64
"""The previous hash of the first entry."""

_CONTENT = (
    "id",
    "instance_id",
    "sequence",
    "operation_id",
    "execution_audit_id",
    "actor",
    "action",
    "reason",
    "evidence_ref",
    "before",
    "after",
    "previous_hash",
    "created_at",
)


def entry_hash(entry: Row) -> str:
    """SHA-256 over the whole content of an entry and the previous entry's hash."""
    return exact.digest({name: entry[name] for name in _CONTENT})


def verify(instance: Row, entries: Iterable[Row]) -> list[str]:
    """What is wrong with an instance's chain, in sentences; nothing where it is whole.

    `instance`: read before the entries, so that its head is at most older than they are: entries after the head are
    followed too. `entries`: all of them, in order.
    """
    problems: list[str] = []
    previous, sequence = ORIGIN, 0
    anchored, _, head = str(instance["audit_head"]).partition(":")
    met: str | None = ORIGIN if not anchored else None
    for entry in entries:
        sequence += 1
        if entry["sequence"] != sequence:
            problems.append(f"Entry {sequence} is missing; {entry['sequence']} stands in its place.")
            sequence = entry["sequence"]
        if entry["instance_id"] != instance["id"]:
            problems.append(f"Entry {sequence} is of another instance.")
        if entry["previous_hash"] != previous:
            problems.append(f"Entry {sequence} does not follow the entry before it.")
        if entry_hash(entry) != entry["entry_hash"]:
            problems.append(f"The content of entry {sequence} does not fit its hash.")
        previous = entry["entry_hash"]
        if str(sequence) == anchored:
            met = previous
    if met is None:
        problems.append(f"The chain ends at entry {sequence}, but the instance holds {anchored} as the last.")
    elif anchored and met != head:
        problems.append(f"Entry {anchored} is not the one that the instance holds as the last.")
    return problems


def verify_receipt(receipt: Receipt, entries: Sequence[Row]) -> list[str]:
    """Where a receipt differs from the audit entry that it names; nothing where they agree."""
    audit_id = receipt.data.get("audit_id")
    entry = next((entry for entry in entries if entry["id"] == audit_id), None)
    if entry is None:
        return [f"The chain has no entry {audit_id}."]
    claims = {
        "operation": (receipt.operation, entry["action"].replace("_", "-")),
        "instance_id": (receipt.instance_id, entry["instance_id"]),
        "actor": (receipt["actor"], entry["actor"]),
        "reason": (receipt["reason"], entry["reason"]),
        "committed_at": (receipt["committed_at"], entry["created_at"]),
        "revision": (receipt["revision"], entry["after"].get("revision")),
        "control_revision": (receipt["control_revision"], entry["after"].get("control_revision")),
    }
    if "evidence_ref" in receipt.data:
        claims["evidence_ref"] = (receipt["evidence_ref"], entry["evidence_ref"])
    return [
        f"{name}: the receipt says {said!r}, entry {entry['sequence']} says {written!r}."
        for name, (said, written) in claims.items()
        if said != written
    ]
