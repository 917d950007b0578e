"""What was handled: the decisions of people on instances that waited for one, with who, when and how."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from recovery.console import words
from recovery.console.presenters.decisions import STATES, Delta, changed
from recovery.console.presenters.facts import act_word
from recovery.models import WorkflowAudit
from recovery.operations import REGISTRY

ACTIONS = tuple(slug.replace("-", "_") for slug in REGISTRY)
"""How the six operations, Continue among them, stand in the audit."""


@dataclass(frozen=True)
class Handled:
    """One decision. `now`: where its instance stands today, a later and separate fact."""

    entry: WorkflowAudit
    act: Any
    target: str
    deltas: tuple[Delta, ...]
    now: words.Mark

    @property
    def key(self) -> str:
        return self.entry.operation.operation_key if self.entry.operation else ""


def handled(entries: Iterable[WorkflowAudit]) -> list[Handled]:
    """The entries as they are drawn, in their order. Each needs its instance and its operation loaded."""
    return [
        Handled(
            entry=entry,
            act=act_word(entry.action),
            target=str(entry.before.get("step_key") or entry.after.get("step_key") or ""),
            deltas=tuple(changed(STATES, entry.before, entry.after)),
            now=words.mark("InstanceStatus", entry.instance.status),
        )
        for entry in entries
    ]
