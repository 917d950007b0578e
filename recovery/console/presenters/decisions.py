"""Audited decisions: what each one changed, beside what was claimed for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from recovery.case import Case
from recovery.console import words
from recovery.console.presenters.facts import act_word
from recovery.flow import PLATFORM
from recovery.models import WorkflowAudit
from recovery.operations import REGISTRY

SHOWN = 20
"""Decisions on an instance's page."""


@dataclass(frozen=True)
class Delta:
    """One thing that changed. Stored values stay in the contract's capitals."""

    word: Any
    before: Any
    after: Any


@dataclass(frozen=True)
class Decision:
    """`key`: of its receipt, "" where there is none; `notes`: what was made."""

    audit: WorkflowAudit
    act: Any
    target: str
    deltas: tuple[Delta, ...]
    notes: tuple[str, ...]
    revisions: tuple[Delta, ...]
    key: str

    @property
    def is_platform(self) -> bool:
        return self.audit.actor == PLATFORM

    @property
    def is_operation(self) -> bool:
        """One of the six: only these have a receipt's page."""
        return self.audit.action.replace("_", "-") in REGISTRY

    @property
    def reason(self) -> Any:
        """What a person wrote; the platform's reasons are codes with a word of their own."""
        return words.label("ReviewReason", self.audit.reason) if self.is_platform else self.audit.reason


STATES = {
    "status": gettext_lazy("instance"),
    "step_status": gettext_lazy("step"),
    "activation_status": gettext_lazy("activation"),
    "task_status": gettext_lazy("task"),
    "wait_status": gettext_lazy("wait"),
    "gate": gettext_lazy("gate"),
    "paused": gettext_lazy("paused"),
    "stop_kind": gettext_lazy("stop intent"),
}

REVISIONS = {
    "revision": gettext_lazy("revision"),
    "control_revision": gettext_lazy("control"),
    "step_revision": gettext_lazy("step"),
    "task_revision": gettext_lazy("task"),
}


def decisions(audits: Iterable[WorkflowAudit], case: Case) -> list[Decision]:
    """The audits as decisions, in their order. Each needs its operation loaded."""
    owners = {task.row.pk: key for key, step in case.histories.items() for task in step.tasks}
    return [_decision(audit, owners) for audit in audits]


def _decision(audit: WorkflowAudit, owners: Mapping[str, str]) -> Decision:
    before, after = audit.before, audit.after
    task_id = str(before.get("task_id") or after.get("task_id") or "")
    key = audit.operation.operation_key if audit.operation else ""
    return Decision(
        audit=audit,
        act=act_word(audit.action),
        target=str(before.get("step_key") or after.get("step_key") or owners.get(task_id, task_id)),
        deltas=tuple(changed(STATES, before, after)),
        notes=tuple(_notes(before, after)),
        revisions=tuple(changed(REVISIONS, before, after)),
        key=key,
    )


def changed(names: dict[str, Any], before: dict[str, Any], after: dict[str, Any]) -> Iterable[Delta]:
    """Which of the named values an entry changed."""
    for name, word in names.items():
        if name in after and before.get(name) != after[name]:
            yield Delta(word, before.get(name), after[name])


def _notes(before: dict[str, Any], after: dict[str, Any]) -> Iterable[str]:
    if generation := after.get("generation"):
        yield _("new activation %(number)s") % {"number": generation}
    if attempts := after.get("max_attempts"):
        count = int(attempts)
        yield ngettext("%(count)d attempt allowed", "%(count)d attempts allowed", count) % {"count": count}
    if number := after.get("round"):
        yield _("round %(number)s") % {"number": number}
    if continuation := after.get("continuation"):
        yield _("continuation %(kind)s") % {"kind": continuation}
    if failed := after.get("failed_steps"):
        yield _("resolved as failed: %(steps)s") % {"steps": ", ".join(failed)}
