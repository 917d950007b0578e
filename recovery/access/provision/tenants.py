"""Namespaces, applications and queues of a provisioning document, with their quotas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db import models

from recovery.access.ledger import Ledger
from recovery.access.provision.document import ApplicationEntry, NamespaceEntry, QueueEntry
from recovery.models import Application, ApplicationQuota, Namespace, Queue, QueueQuota, ResultStream
from recovery.states import QueueStatus, TenantStatus
from recovery.writes import change, insert

REASON = "provisioned"
"""Stated in the log for whatever the document states no reason for."""

MAX_OPEN = 1000
"""Of an application's tasks and instances and of a queue's tasks, where a new one's entry does not say."""
MAX_RUNNING = 50
LEASE_MS = 30_000


class Tenants:
    """Kind by kind, so that quota rows are locked in their order."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.rows: dict[str, Namespace] = {}

    def provide(self, entries: Sequence[NamespaceEntry]) -> dict[str, Namespace]:
        """Answers the namespaces of the document by name."""
        names = [entry.name for entry in entries]
        self.rows = {row.name: row for row in Namespace.objects.filter(name__in=names)}
        for entry in entries:
            self._namespace(entry)
        self._applications([(self.rows[entry.name], one) for entry in entries for one in entry.applications])
        self._queues([(self.rows[entry.name], one) for entry in entries for one in entry.queues])
        return self.rows

    def _namespace(self, entry: NamespaceEntry) -> None:
        row = self.rows.get(entry.name)
        if row is not None:
            self._change("namespace", row, row, display_name=entry.display_name, status=entry.status)
            if not ResultStream.objects.filter(namespace=row).exists():
                insert(ResultStream(namespace=row, next_offset=1))
            return
        row = Namespace(
            name=entry.name,
            display_name=entry.display_name or entry.name,
            status=entry.status or TenantStatus.ACTIVE,
            created_at=self.ledger.now,
        )
        insert(row, ResultStream(namespace=row, next_offset=1))
        self.rows[entry.name] = row
        self._enter("create_namespace", row, None, {"display_name": row.display_name, "status": row.status})

    def _applications(self, wanted: list[tuple[Namespace, ApplicationEntry]]) -> None:
        rows = Application.objects.filter(namespace__in=self.rows.values()).select_related("applicationquota")
        known = {(row.namespace_id, row.name): row for row in rows}
        limits = []
        for namespace, entry in wanted:
            if row := known.get((namespace.pk, entry.name)):
                self._change("application", namespace, row, status=entry.status)
                given = {"max_open_tasks": entry.max_open_tasks, "max_open_instances": entry.max_open_instances}
                limits.append((namespace, row.name, row.applicationquota, given))
                continue
            row = Application(
                namespace=namespace,
                name=entry.name,
                status=entry.status or TenantStatus.ACTIVE,
                created_at=self.ledger.now,
            )
            quota = ApplicationQuota(
                application=row,
                max_open_tasks=entry.max_open_tasks or MAX_OPEN,
                max_open_instances=entry.max_open_instances or MAX_OPEN,
            )
            insert(row, quota)
            made = {"max_open_tasks": quota.max_open_tasks, "max_open_instances": quota.max_open_instances}
            self._enter("create_application", namespace, None, {"application": row.name, "status": row.status} | made)
        self._limit("application", ApplicationQuota, limits)

    def _queues(self, wanted: list[tuple[Namespace, QueueEntry]]) -> None:
        rows = Queue.objects.filter(namespace__in=self.rows.values()).select_related("queuequota")
        known = {(row.namespace_id, row.name): row for row in rows}
        limits = []
        for namespace, entry in wanted:
            if row := known.get((namespace.pk, entry.name)):
                self._change("queue", namespace, row, lease_ms=entry.lease_ms)
                given = {"max_open_tasks": entry.max_open_tasks, "max_running": entry.max_running}
                limits.append((namespace, row.name, row.queuequota, given))
                continue
            row = Queue(
                namespace=namespace,
                name=entry.name,
                status=QueueStatus.OPEN,
                lease_ms=entry.lease_ms or LEASE_MS,
                created_at=self.ledger.now,
            )
            quota = QueueQuota(
                queue=row,
                max_open_tasks=entry.max_open_tasks or MAX_OPEN,
                max_running=entry.max_running or MAX_RUNNING,
            )
            insert(row, quota)
            made = {"max_open_tasks": quota.max_open_tasks, "max_running": quota.max_running}
            self._enter("create_queue", namespace, None, {"queue": row.name, "lease_ms": row.lease_ms} | made)
        self._limit("queue", QueueQuota, limits)

    def _limit(
        self, kind: str, model: type[models.Model], wanted: list[tuple[Namespace, str, Any, dict[str, Any]]]
    ) -> None:
        """Changes limits under the quota rows' locks. Only this transaction's ledger lets limits change."""
        changed = [one for one in wanted if _differing(one[2], one[3])]
        locked = {row.pk: row for row in self.ledger.locks.rows(model, [quota.pk for _, _, quota, _ in changed])}
        for namespace, name, quota, given in changed:
            self._change(kind, namespace, locked[quota.pk], {kind: name}, **given)

    def _change(
        self, kind: str, namespace: Namespace, row: Any, named: dict[str, Any] | None = None, **given: Any
    ) -> None:
        """Writes the given values that differ; None leaves what is there."""
        differing = _differing(row, given)
        if not differing:
            return
        named = named if named is not None else {} if kind == "namespace" else {kind: row.name}
        before = named | {name: getattr(row, name) for name in differing}
        change(row, **differing)
        self._enter(f"change_{kind}", namespace, before, named | differing)

    def _enter(self, action: str, namespace: Namespace, before: Any, after: Any) -> None:
        self.ledger.enter(action, reason=REASON, namespace_id=namespace.pk, before=before, after=after)


def _differing(row: Any, given: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if value is not None and getattr(row, name) != value}
