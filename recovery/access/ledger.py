"""The one transaction of every change of access, and the log that it writes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

from django.contrib.auth.models import Group
from django.utils.translation import gettext as _

from recovery import clock, permissions
from recovery.audit import instant
from recovery.errors import StateConflict
from recovery.locks import Locks, Rollback, transact
from recovery.models import AccessLedger, AccessLog, Namespace, Queue
from recovery.writes import change as write
from recovery.writes import insert

T = TypeVar("T")

SHELL = "manage.py"
"""Who acts where a command of whoever runs the system says what shall be, not a person who is signed in."""


@dataclass
class Ledger:
    """The locked ledger within one change. `now`: read once, after its lock; `by`: who acts."""

    locks: Locks
    row: AccessLedger
    by: str
    now: datetime
    entries: list[AccessLog] = field(default_factory=list)

    def enter(
        self,
        action: str,
        *,
        reason: str,
        namespace_id: str | None = None,
        queue: Queue | None = None,
        subject: Any = None,
        permission: str = "",
        before: Any = None,
        after: Any = None,
    ) -> AccessLog:
        """Notes one change; it is written at the end of the transaction. `subject`: a user or a group."""
        entry = AccessLog(
            sequence=self.row.entries + len(self.entries) + 1,
            namespace_id=namespace_id,
            queue=queue,
            actor=self.by,
            action=action,
            subject_kind=kind_of(subject),
            subject=name_of(subject),
            permission=permission,
            before=before,
            after=after,
            reason=reason,
            created_at=self.now,
        )
        self.entries.append(entry)
        return entry


def change(by: str, work: Callable[[Ledger], T], *, preview: bool = False) -> T:
    """Runs a change of access in one transaction; changes wait for each other, so that each sees the one before.

    A preview is the very same transaction, rolled back at its end.

    Two administrators who remove each other meet here: the second one is no administrator any more. Raises
    StateConflict when a namespace would lose its last administrator, Busy under contention, and what `work` raises;
    nothing is written then.
    """

    def run(locks: Locks) -> T:
        ledger = _lock(locks, by)
        before = permissions.administered_until(ledger.now)
        answer = work(ledger)
        _keep_administered(before, permissions.administered_until(ledger.now))
        insert(*ledger.entries)
        write(ledger.row, entries=ledger.row.entries + len(ledger.entries))
        if preview:
            raise Rollback(answer)
        return answer

    return transact(run)


def _lock(locks: Locks, by: str) -> Ledger:
    key = str(AccessLedger().pk)
    if not locks.rows(AccessLedger, [key]):
        # The first change of all. Whoever comes second waits for the first one's row.
        AccessLedger.objects.bulk_create([AccessLedger()], ignore_conflicts=True)
    return Ledger(locks, locks.row(AccessLedger, key), by, clock.now())


def _keep_administered(before: dict[str, datetime], after: dict[str, datetime]) -> None:
    """A namespace that is administered stays so for as long: its last administrator is neither removed nor ends."""
    for namespace_id, until in before.items():
        if (left := after.get(namespace_id)) is not None and left >= until:
            continue
        namespace = Namespace.objects.values_list("name", flat=True).get(pk=namespace_id)
        if left is None:
            raise StateConflict(
                _(
                    "Nobody could administer access to %(namespace)s any more. Grant access:admin to another active "
                    "person first."
                )
                % {"namespace": namespace}
            )
        raise StateConflict(
            _(
                "Nobody could administer access to %(namespace)s after %(time)s. Grant access:admin to another active "
                "person for longer first."
            )
            % {"namespace": namespace, "time": instant(left)}
        )


def kind_of(holder: Any) -> str:
    """`user`, `group`, or nothing for None."""
    return "" if holder is None else "group" if isinstance(holder, Group) else "user"


def name_of(holder: Any) -> str:
    """What a user or a group is called."""
    return "" if holder is None else holder.name if isinstance(holder, Group) else holder.get_username()
