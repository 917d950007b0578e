"""Keys, receipts and audits of what people decided; the chains, and the revisions that the decisions raised."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from django.db.models import Exists, F, OuterRef, Q, QuerySet, Subquery
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from recovery.audit import ORIGIN, entry_hash
from recovery.models import (
    AccessLedger,
    AccessLog,
    ExecutionAudit,
    InboxEvent,
    ManagementOperation,
    OperationReceipt,
    Signal,
    StepClock,
    WorkflowAudit,
    WorkflowInstance,
)
from recovery.states import ClockStatus, InboxStatus, ReviewReason, SignalStatus
from recovery.verify.base import Scope, Violation, check, counted, found, violation, walk

DERIVED = Q(operation_key__startswith=" ")
"""Keys that no caller can send (G10)."""


@check(gettext_lazy("A key that a caller gave has one receipt; a derived key has none."))
def receipts(scope: Scope) -> Iterator[Violation]:
    receipt = Exists(OperationReceipt.objects.filter(operation=OuterRef("pk")))
    keys = scope.rows(ManagementOperation)
    yield from found(keys.exclude(DERIVED).filter(~receipt), _("The key was claimed, but has no receipt."))
    yield from found(keys.filter(DERIVED).filter(receipt), _("The key is derived, but has a receipt."))


@check(gettext_lazy("A receipt names the key, the instance and the revision of its own operation."))
def receipt_contents(scope: Scope) -> Iterator[Violation]:
    for receipt in walk(scope.rows(OperationReceipt).select_related("operation")):
        operation, said = receipt.operation, receipt.response
        real = {"operation_key": operation.operation_key, "revision": str(receipt.instance_revision)}
        if operation.instance_id:
            real["instance_id"] = operation.instance_id
        wrong = sorted(name for name, value in real.items() if said.get(name, value) != value)
        if wrong:
            yield violation(receipt, _("%(names)s differ from those of its operation.") % {"names": ", ".join(wrong)})


@check(gettext_lazy("A receipt of an operation on an instance has one entry in that instance's audit."))
def audited_receipts(scope: Scope) -> Iterator[Violation]:
    entries = WorkflowAudit.objects.filter(operation=OuterRef("operation"))
    on_instance = scope.rows(OperationReceipt).filter(Q(instance_revision__gt=0) | ~Q(operation__instance=None))
    yield from found(on_instance.filter(~Exists(entries)), _("The operation is not in the audit of its instance."))
    strangers = scope.rows(WorkflowAudit).exclude(operation__instance=None).exclude(operation__instance=F("instance"))
    yield from found(strangers, _("The entry is of an operation on another instance."))


@check(gettext_lazy("What was decided about a task is audited on the task too, under the same decision."))
def execution_audits(scope: Scope) -> Iterator[Violation]:
    entries = scope.rows(WorkflowAudit).filter(action__in=("review_task", "cancel_task"))
    own = ExecutionAudit.objects.filter(
        pk=OuterRef("execution_audit"),
        action=OuterRef("action"),
        actor=OuterRef("actor"),
        task__instance=OuterRef("instance"),
    )
    yield from found(entries.filter(~Exists(own)), _("The entry has no audit of its own on the task."))


@check(gettext_lazy("An instance's audit is a chain: no entry is missing, changed or exchanged."))
def audit_chains(scope: Scope) -> Iterator[Violation]:
    for _instance_id, entries in _entries(scope.rows(WorkflowAudit)):
        yield from broken_links(entries)


def broken_links(entries: Iterator[WorkflowAudit]) -> Iterator[Violation]:
    """What breaks the chain of one instance's entries, which come in their order."""
    sequence, previous = 0, ORIGIN
    for entry in entries:
        sequence += 1
        if entry.sequence != sequence:
            yield violation(entry, _("Entry %(number)d is missing before it.") % {"number": sequence})
        elif entry.previous_hash != previous:
            yield violation(entry, _("It does not follow the entry before it."))
        if entry.entry_hash != entry_hash(entry):
            yield violation(entry, _("Its content is not what its hash says."))
        sequence, previous = entry.sequence, entry.entry_hash


def _entries(rows: QuerySet[WorkflowAudit]) -> Iterator[tuple[str, Iterator[WorkflowAudit]]]:
    """Instance id and its entries, one instance after the other; only a chunk of entries is held."""
    return groupby(walk(rows, "instance_id", "sequence"), key=lambda entry: entry.instance_id)


@check(gettext_lazy("An instance's head names the number of its audit entries and the last one's hash."))
def audit_heads(scope: Scope) -> Iterator[Violation]:
    instance: Any
    entries = WorkflowAudit.objects.filter(instance=OuterRef("pk"))
    last = Subquery(entries.order_by("-sequence").values("entry_hash")[:1])
    instances = scope.rows(WorkflowInstance).annotate(entries=counted(entries, "instance"), last=last)
    for instance in walk(instances.only("pk", "audit_head")):
        head = f"{instance.entries}:{instance.last}" if instance.entries else ""
        if instance.audit_head != head:
            yield violation(
                instance,
                _("Its head is %(head)s, but there are %(entries)d entries, the last one %(last)s.")
                % {"head": instance.audit_head or "-", "entries": instance.entries, "last": instance.last or "-"},
            )


@check(gettext_lazy("An act raises the revisions by exactly one, and no entry goes back behind an earlier one."))
def act_revisions(scope: Scope) -> Iterator[Violation]:
    for _instance_id, entries in _entries(scope.rows(WorkflowAudit)):
        latest = {"revision": 0, "control_revision": 0}
        for entry in entries:
            for name in latest:
                before, after = entry.before.get(name), entry.after.get(name)
                if before and after and int(after) != int(before) + 1:
                    words = {"name": name, "before": before, "after": after}
                    yield violation(entry, _("The act raised %(name)s from %(before)s to %(after)s.") % words)
                if (first := before or after) and int(first) < latest[name]:
                    words = {"name": name, "now": first, "latest": latest[name]}
                    yield violation(entry, _("%(name)s is %(now)s after an entry that left it at %(latest)d.") % words)
                latest[name] = max(latest[name], int(after or 0))


@check(
    gettext_lazy("An instance's revisions count what happened to it: acts, consumed events, signals, clocks, its end.")
)
def revisions(scope: Scope) -> Iterator[Violation]:
    """G9. Every fact raises the revision by one; a quarantined event twice more when it is released."""
    of_instance: dict[str, Any] = {"instance": OuterRef("pk")}
    audits = WorkflowAudit.objects.filter(**of_instance)
    inbox = InboxEvent.objects.filter(**of_instance)
    facts = {
        "acts": audits.exclude(operation=None).exclude(action="start"),
        "released": audits.filter(action="reverify_inbox", reason=""),
        "found": audits.filter(action="raise_review", reason__in=_FOUND_BY_RUNNERS),
        "consumed": inbox.exclude(status=InboxStatus.PENDING),
        "adjudicated": Signal.objects.filter(**of_instance).exclude(status=SignalStatus.PENDING),
        "fired": StepClock.objects.filter(**of_instance, status=ClockStatus.FIRED),
    }
    numbers = {name: counted(rows, "instance") for name, rows in facts.items()}
    instances = (
        scope.rows(WorkflowInstance)
        .annotate(**numbers)
        .annotate(
            real=1 + F("acts") + 2 * F("released") + F("found") + F("consumed") + F("adjudicated") + F("fired"),
        )
    )
    ended = Q(settled_at__isnull=False)
    wrong = instances.filter((ended & ~Q(revision=F("real") + 1)) | (~ended & ~Q(revision=F("real"))))
    sentence = _("Its revision is %(said)d, but the facts make %(real)d.")
    yield from found(
        wrong,
        lambda row: sentence % {"said": row.revision, "real": row.real + (row.settled_at is not None)},
    )
    wrong = instances.exclude(control_revision=1 + F("acts"))
    sentence_control = _("Its control revision is %(said)d, but the acts make %(real)d.")
    yield from found(wrong, lambda row: sentence_control % {"said": row.control_revision, "real": 1 + row.acts})


_FOUND_BY_RUNNERS = (ReviewReason.INPUT_UNRESOLVED, ReviewReason.HISTORY_INCONSISTENT)
"""Reviews that are facts of their own: no event, signal or clock brought them."""


@check(gettext_lazy("The log of access has as many entries as its ledger counts, numbered without a hole."))
def access_log(scope: Scope) -> Iterator[Violation]:
    """One log for all namespaces: looked at with everything only."""
    if scope.namespace_id is not None:
        return
    before = AccessLog.objects.filter(sequence=OuterRef("sequence") - 1)
    holes = AccessLog.objects.exclude(sequence=1).filter(~Exists(before))
    yield from found(holes, lambda entry: _("Entry %(number)d is missing before it.") % {"number": entry.sequence - 1})
    last = AccessLog.objects.order_by("-sequence").values_list("sequence", flat=True).first() or 0
    ledger = AccessLedger.objects.first() or AccessLedger()
    if ledger.entries != last:
        words = {"counted": ledger.entries, "last": last}
        yield violation(ledger, _("It counts %(counted)d entries, but the last one is number %(last)d.") % words)
