"""A receipt's page: the frozen answer with what proves it; and, apart from it, what followed since."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.utils.translation import gettext as _

from recovery import exact_json
from recovery.console import words
from recovery.console.presenters import acts, options
from recovery.console.presenters.facts import act_word
from recovery.flow import PLATFORM
from recovery.models import (
    InboxEvent,
    ManagementOperation,
    RootContinuation,
    StepActivation,
    Task,
    WorkflowAudit,
    WorkflowInstance,
)
from recovery.operations import Receipt, explain
from recovery.operations.base import Operation
from recovery.operations.registry import REGISTRY
from recovery.permissions import Actor
from recovery.states import ActivationStatus, GateState, InboxStatus, TaskStatus

LATER = 10
"""Later decisions that are listed."""


@dataclass(frozen=True)
class Seen:
    """A revision as the operator saw it, and as the decision made it."""

    word: Any
    before: Any
    after: Any


@dataclass(frozen=True)
class Later:
    """Something that followed. Not part of the receipt, and it may change."""

    at: datetime | None
    text: Any
    status: words.Mark | None = None


@dataclass(frozen=True)
class ReceiptPage:
    """The page. `made`: ids and values of what the act wrote, flat, under their names in the receipt."""

    receipt: Receipt
    operation: Operation
    audit: WorkflowAudit
    instance: WorkflowInstance
    command_digest: str
    committed_at: datetime
    target: str
    statement: Any
    seen: list[Seen]
    made: list[tuple[str, Any]]
    followed: list[Later]
    next: options.NextThing | None

    @property
    def digest(self) -> str:
        return exact_json.digest(self.receipt.data)

    @property
    def data(self) -> dict[str, Any]:
        return self.receipt.data


def receipt_page(actor: Actor, receipt: Receipt, operation: ManagementOperation) -> ReceiptPage:
    """`receipt`: already checked for its reader; `operation`: its identity, with namespace and instance loaded."""
    data = receipt.data
    audit = WorkflowAudit.objects.get(pk=data["audit_id"])
    explanation = explain(actor, data["instance_id"])
    kind = REGISTRY[data["operation"]]
    return ReceiptPage(
        receipt=receipt,
        operation=kind,
        audit=audit,
        instance=explanation.case.instance,
        command_digest=operation.command_digest,
        committed_at=datetime.strptime(data["committed_at"], "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC),
        target=str(audit.before.get("step_key") or audit.before.get("task_id") or ""),
        statement=acts.WORDS[kind.slug].stated,
        seen=list(_seen(audit)),
        made=list(_flat(data["effects"])),
        followed=sorted(_followed(data, audit), key=lambda later: later.at or audit.created_at),
        next=options.next_thing(explanation),
    )


def _seen(audit: WorkflowAudit) -> Iterator[Seen]:
    names = {
        "revision": _("Instance"),
        "control_revision": _("Control"),
        "step_revision": _("Step"),
        "task_revision": _("Task"),
        "step_status": _("Step status"),
        "task_status": _("Task status"),
        "status": _("Instance status"),
        "gate": _("Gate"),
    }
    for name, word in names.items():
        if name in audit.before and name in audit.after:
            yield Seen(word, audit.before[name], audit.after[name])


def _flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for name, member in value.items():
            yield from _flat(member, f"{path}.{name}" if path else name)
    elif value not in (None, [], ""):
        yield path, value


def _followed(data: dict[str, Any], audit: WorkflowAudit) -> Iterator[Later]:
    """What became of what the act made: its result, its task, its wait, its continuation; and later decisions."""
    effects = data["effects"]
    task, kind = effects.get("task", {}), data["operation"]
    if kind == "review-task":
        yield from _consumed(task)
    elif task_id := task.get("id"):
        yield from _task(task_id)
    elif activation_id := effects.get("activation", {}).get("id"):
        yield from _activation(activation_id)
    if continuation := effects.get("continuation"):
        row = RootContinuation.objects.filter(pk=continuation["id"]).first()
        if row is not None:
            text = _("The continuation %(kind)s") % {"kind": words.label("ContinuationKind", row.kind)}
            yield Later(row.done_at or row.created_at, text, words.mark("ContinuationStatus", row.status))
    later = WorkflowAudit.objects.filter(instance_id=audit.instance_id, sequence__gt=audit.sequence)
    for entry in later.order_by("sequence")[:LATER]:
        who = _("the platform") if entry.actor == PLATFORM else entry.actor
        place = {"number": entry.sequence, "act": act_word(entry.action), "actor": who}
        yield Later(entry.created_at, _("Entry %(number)d: %(act)s by %(actor)s") % place)


def _consumed(task: dict[str, Any]) -> Iterator[Later]:
    events = InboxEvent.objects.filter(task_id=task["id"], task_revision=int(task["revision"]))
    for event in events:
        if event.status == InboxStatus.PENDING:
            yield Later(event.received_at, _("The result waits in the inbox."), words.mark("InboxStatus", event.status))
        else:
            text = _("The result was consumed: %(disposition)s") % {
                "disposition": words.label("Disposition", event.disposition)
            }
            yield Later(event.processed_at, text, words.mark("InboxStatus", event.status))


def _task(task_id: str) -> Iterator[Later]:
    task = Task.objects.select_related("instance__instancegate").filter(pk=task_id).first()
    if task is None:
        return
    mark = words.mark("TaskStatus", task.status)
    if task.status == TaskStatus.QUEUED and task.instance.instancegate.state == GateState.CLOSED:
        yield Later(task.created_at, _("The new task is queued. Not claimable: the gate is closed."), mark)
    else:
        count = {"used": task.attempt_count, "allowed": task.max_attempts}
        text = _("The new task used %(used)d of %(allowed)d attempts") % count
        yield Later(task.settled_at or task.created_at, text, mark)


def _activation(activation_id: str) -> Iterator[Later]:
    row = StepActivation.objects.select_related("step").filter(pk=activation_id).first()
    if row is None:
        return
    text = _("Activation %(number)d of %(step)s") % {"number": row.sequence, "step": row.step.step_key}
    at = row.settled_at if row.status != ActivationStatus.WAITING else row.created_at
    yield Later(at, text, words.mark("ActivationStatus", row.status))
