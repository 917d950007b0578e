"""Reads everything of one instance that a dossier tells, at one moment."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext as _

from recovery import clock, permissions, rows
from recovery.audit import instant
from recovery.dossier import bundle
from recovery.dossier.bundle import Member
from recovery.errors import NotFound
from recovery.evidence import store
from recovery.evidence.bundles import FILE, withdrawal_of
from recovery.evidence.references import SCHEME, reference, visible
from recovery.locks import snapshot
from recovery.models import (
    EvidenceBundle,
    EvidenceItem,
    ExecutionAudit,
    InboxEvent,
    InstanceGate,
    OperationReceipt,
    PollBudget,
    PollRound,
    PollState,
    ResultEvent,
    RootContinuation,
    Signal,
    StepActivation,
    StepCheckpoint,
    StepClock,
    StepDefinition,
    Task,
    TaskAttempt,
    TaskResult,
    WaitState,
    WorkflowAudit,
    WorkflowInstance,
    WorkflowStep,
)
from recovery.permissions import Actor

HISTORY: tuple[tuple[str, type[models.Model], str, tuple[str, ...]], ...] = (
    ("activations", StepActivation, "instance_id", ("created_at", "pk")),
    ("tasks", Task, "instance_id", ("created_at", "pk")),
    ("attempts", TaskAttempt, "task__instance_id", ("started_at", "pk")),
    ("results", TaskResult, "task__instance_id", ("recorded_at", "pk")),
    ("events", ResultEvent, "task__instance_id", ("offset",)),
    ("execution_audits", ExecutionAudit, "task__instance_id", ("created_at", "pk")),
    ("poll_states", PollState, "activation__instance_id", ("pk",)),
    ("rounds", PollRound, "activation__instance_id", ("started_at", "pk")),
    ("budgets", PollBudget, "activation__instance_id", ("pk",)),
    ("waits", WaitState, "activation__instance_id", ("pk",)),
    ("signals", Signal, "instance_id", ("accepted_at", "pk")),
    ("inbox", InboxEvent, "instance_id", ("received_at", "pk")),
    ("clocks", StepClock, "instance_id", ("due_at", "pk")),
    ("checkpoints", StepCheckpoint, "activation__instance_id", ("opened_at", "pk")),
    ("continuations", RootContinuation, "instance_id", ("sequence",)),
)
"""Name, entity, path to the instance, order."""


@dataclass(frozen=True)
class Dossier:
    """The JSON members as values, in their order; the evidence files; and about whom, when, by whom it was made."""

    about: Mapping[str, Any]
    documents: Mapping[str, Any]
    files: tuple[Member, ...]

    def members(self) -> list[Member]:
        """The JSON members as files."""
        found = []
        for name, value in self.documents.items():
            data = bundle.text(value).encode()
            found.append(Member(name, len(data), bundle.digest(data), partial(io.BytesIO, data)))
        return found


def gather(actor: Actor, instance_id: str) -> Dossier:
    """Needs workflows:read and audit:read; without evidence:read the evidence is listed as withheld.

    Raises NotFound and PermissionDenied.
    """
    permissions.find_instance(actor, instance_id)
    rights = permissions.require(actor, permissions.READ_AUDIT)
    with snapshot():
        found = WorkflowInstance.objects.select_related("namespace", "application", "definition_version__definition")
        instance = found.filter(pk=instance_id).first()
        if instance is None:
            raise NotFound(_("There is nothing here that you may see."))
        audits = list(WorkflowAudit.objects.filter(instance=instance).order_by("sequence"))
        evidence, items = _evidence(actor, instance, audits, is_read=rights.may(permissions.READ_EVIDENCE))
        documents = {
            "instance.json": _instance(instance),
            "history.json": _history(instance),
            "audit.json": [_entry(audit) for audit in audits],
            "receipts.json": _receipts(instance),
        }
    files, damaged = _files(items)
    for entry in evidence:
        for item in entry.get("items", ()):
            item["intact"] = item["sha256"] not in damaged
    return Dossier(_about(actor, instance, clock.now()), documents | {"evidence.json": evidence}, files)


def _about(actor: Actor, instance: WorkflowInstance, now: datetime) -> dict[str, Any]:
    return {
        "instance_id": instance.pk,
        "business_key": instance.business_key,
        "namespace": instance.namespace.name,
        "audit_head": instance.audit_head,
        "made_at": instant(now),
        "made_by": actor.username,
    }


def _instance(instance: WorkflowInstance) -> dict[str, Any]:
    version = instance.definition_version
    pinned = StepDefinition.objects.filter(definition_version=version).order_by("position")
    steps = WorkflowStep.objects.filter(instance=instance).order_by("pk")
    return {
        **rows.render(instance),
        "namespace": instance.namespace.name,
        "application": instance.application.name,
        "gate": rows.render(InstanceGate.objects.get(instance=instance)),
        "definition": {"name": version.definition.name, **rows.render(version)},
        "pinned_steps": [rows.render(step) for step in pinned],
        "steps": [rows.render(step) for step in steps],
    }


def _history(instance: WorkflowInstance) -> dict[str, Any]:
    return {
        name: [rows.render(row) for row in model._default_manager.filter(**{path: instance.pk}).order_by(*order)]
        for name, model, path, order in HISTORY
    }


def _entry(audit: WorkflowAudit) -> dict[str, Any]:
    """With exactly what its hash covers, and the hash (G10)."""
    return {
        **{field.attname: getattr(audit, field.attname) for field in audit._meta.concrete_fields},
        "created_at": instant(audit.created_at),
    }


def _receipts(instance: WorkflowInstance) -> list[dict[str, Any]]:
    found = OperationReceipt.objects.filter(operation__instance=instance).select_related("operation")
    return [
        {
            "operation_key": each.operation.operation_key,
            "operation_id": each.operation_id,
            "action": each.operation.action,
            "command_digest": each.operation.command_digest,
            "actor": each.operation.actor,
            "created_at": instant(each.created_at),
            "receipt": each.response,
        }
        for each in found.order_by("created_at", "pk")
    ]


def _evidence(
    actor: Actor, instance: WorkflowInstance, audits: list[WorkflowAudit], *, is_read: bool
) -> tuple[list[dict[str, Any]], list[EvidenceItem]]:
    """The bundles about the instance and those that its decisions name, and the files to put in."""
    used: dict[str, list[int]] = {}
    for audit in audits:
        if audit.evidence_ref.startswith(SCHEME):
            used.setdefault(audit.evidence_ref.removeprefix(SCHEME), []).append(audit.sequence)
    bundles = visible(actor).filter(Q(instance=instance) | Q(pk__in=used)).select_related("evidencewithdrawal")
    entries, files = [], []
    for row in bundles.order_by("pk"):
        entry: dict[str, Any] = {"ref": reference(row), "used_by": used.get(row.pk, []), "withheld": not is_read}
        if is_read:
            items = list(EvidenceItem.objects.filter(bundle=row).order_by("position"))
            files += [item for item in items if item.kind == FILE]
            entry |= {**_bundle(row), "items": [rows.render(item) for item in items]}
        entries.append(entry)
    return entries, files


def _bundle(row: EvidenceBundle) -> dict[str, Any]:
    withdrawal = withdrawal_of(row)
    return {**rows.render(row), "withdrawal": rows.render(withdrawal) if withdrawal else None}


def _files(items: list[EvidenceItem]) -> tuple[tuple[Member, ...], set[str]]:
    """Each content once, by its hash; and what is not intact any more and stays out."""
    kept: dict[str, Member] = {}
    damaged: set[str] = set()
    for item in sorted(items, key=lambda each: each.sha256):
        try:
            store.open_checked(item.sha256, item.size).close()
        except store.Damaged:
            damaged.add(item.sha256)
            continue
        opened = partial(store.open_checked, item.sha256, item.size)
        kept[item.sha256] = Member(f"evidence/{item.sha256}", item.size, item.sha256, opened)
    return tuple(kept.values()), damaged
