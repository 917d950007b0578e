"""Whether one instance's audit is the unbroken chain that its head anchors: the very checks of `manage.py verify`."""

from __future__ import annotations

from dataclasses import dataclass

from recovery.audit import ORIGIN, head_of
from recovery.models import WorkflowAudit, WorkflowInstance
from recovery.verify.decisions import broken_links

MOST = 2000
"""Entries that a page verifies; a longer chain is left to the command."""

SHOWN = 20


@dataclass(frozen=True)
class ChainCheck:
    """`entries`: how many were read; `anchored`: the head's number and hash. `problems`: (entry id, sentence)."""

    instance: WorkflowInstance
    entries: int
    anchored: int
    last_hash: str
    problems: tuple[tuple[str, str], ...]
    is_head_met: bool
    is_too_long: bool

    @property
    def holds(self) -> bool:
        return not self.problems and self.is_head_met and not self.is_too_long


def check_chain(instance: WorkflowInstance) -> ChainCheck:
    """Hashes every entry again and compares the last one with the instance's head, in one statement."""
    anchored, head = head_of(instance)
    rows = list(WorkflowAudit.objects.filter(instance_id=instance.pk).order_by("sequence")[: MOST + 1])
    problems = [(violation.id, violation.sentence) for violation in broken_links(iter(rows))]
    last = rows[-1].entry_hash if rows else ORIGIN
    is_met = (rows[-1].sequence if rows else 0, last) == (anchored, head)
    return ChainCheck(
        instance, len(rows), anchored, last, tuple(problems[:SHOWN]), is_met, is_too_long=len(rows) > MOST
    )
