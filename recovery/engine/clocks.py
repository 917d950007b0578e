"""What falls due: rounds, timers and deadlines. Each clock fires once, in a transaction of its own."""

from __future__ import annotations

from collections.abc import Callable

from recovery import clock, flow
from recovery.engine import inbox, signals
from recovery.engine.due import settle
from recovery.engine.leaves import Leaf, close_wait, conclude, lock_leaves
from recovery.engine.rounds import QUOTA_RETRY, distrust, expire_query, expire_wait, is_due, is_proven, open_round
from recovery.instance_lock import Locked, lock_instance
from recovery.locks import Locks, transact
from recovery.models import RootContinuation, StepClock, WorkflowStep
from recovery.states import (
    LEAVES,
    TERMINAL,
    ClockKind,
    ClockStatus,
    ContinuationStatus,
    InstanceStatus,
    ReviewReason,
    StepStatus,
    WaitStatus,
)
from recovery.writes import change


def fire_due(limit: int = 100) -> int:
    """Fires the clocks that are due, the earliest first; answers how many fired.

    Each fired clock raises its instance's revision by one (G9). A clock that cannot fire keeps no other one waiting.
    """
    due = StepClock.objects.filter(status=ClockStatus.ARMED, due_at__lte=clock.now()).order_by("due_at", "pk")
    return settle("clock", due.values_list("pk", "instance_id"), lambda row: fire(*row), limit)


def fire(clock_id: str, instance_id: str) -> bool:
    """Fires one clock if it is still armed and due; answers whether it did.

    Results and signals that came before it have their effect first, however late the runner is (B8).
    """
    inbox.consume(instance_id)
    while True:
        signals.read(instance_id)
        done = transact(lambda locks: _fire(locks, clock_id, instance_id))
        if done is not None:
            return done


def _fire(locks: Locks, clock_id: str, instance_id: str) -> bool | None:
    """One transaction. None: signals had to go first, look again."""
    locked = lock_instance(locks, instance_id)
    armed = StepClock.objects.filter(pk=clock_id, status=ClockStatus.ARMED, due_at__lte=locked.now)
    row = armed.select_related("activation").defer("activation__input", "activation__output").first()
    if row is None:
        return False
    if row.kind in _AFTER_SIGNALS and signals.adjudicate_locked(locked, locks):
        return None
    leaf = None
    if row.activation is not None:
        leaf = lock_leaves(locks, locked.definition, [row.activation.step_id]).get(row.activation.step_id)
    row = locks.row(StepClock, clock_id)
    if locked.instance.status in TERMINAL or (row.activation_id and _is_stale(row, leaf)):
        change(row, status=ClockStatus.CANCELLED)
        return False
    if _is_put_off(locked, leaf, row):
        return False
    # First the clock, then what it does: a conclusion sets aside the clocks that are still armed.
    change(row, status=ClockStatus.FIRED, fired_at=locked.now)
    change(locked.instance, revision=locked.instance.revision + 1)
    if row.kind == ClockKind.INSTANCE_DEADLINE:
        _end_instance_time(locked)
    elif row.kind == ClockKind.SCHEDULE_RETRY:
        flow.go_on(locked.instance, locked.gate, locked.now)
    elif leaf is not None:
        _EFFECTS[ClockKind(row.kind)](locked, leaf)
    return True


def _is_stale(row: StepClock, leaf: Leaf | None) -> bool:
    return leaf is None or leaf.activation.pk != row.activation_id


def _is_put_off(locked: Locked, leaf: Leaf | None, row: StepClock) -> bool:
    """Whether a due clock does not fire now: a round that may not open yet, or a deadline of work that is done."""
    if row.kind == ClockKind.INSTANCE_DEADLINE:
        return _is_about_to_succeed(locked)
    if row.kind != ClockKind.NEXT_ROUND:
        return False
    assert leaf is not None
    if not locked.is_open or not is_due(leaf):
        # B5: armed again from `next_poll_at` when the gate opens.
        change(row, status=ClockStatus.CANCELLED)
        return True
    if locked.now >= locked.instance.deadline_at:
        # The clock of that deadline is due too; it closes the gate.
        return True
    if not flow.has_room(locked.application, locked.queue(leaf.spec.queue_id)):
        change(row, due_at=locked.now + QUOTA_RETRY)
        return True
    return False


def _is_about_to_succeed(locked: Locked) -> bool:
    """The work was done in time and only the scheduler is late: the deadline does not send it to review (B7)."""
    if locked.instance.status != InstanceStatus.RUNNING or not locked.is_open:
        return False
    leaves = WorkflowStep.objects.filter(instance_id=locked.instance.pk, kind__in=LEAVES)
    owed = RootContinuation.objects.filter(instance_id=locked.instance.pk, status=ContinuationStatus.PENDING)
    return owed.exists() and not leaves.exclude(status=StepStatus.SUCCEEDED).exists()


def _end_instance_time(locked: Locked) -> None:
    """B10: a RUNNING instance goes to review, without a stop intent; in every other status it is recorded only."""
    if locked.instance.status == InstanceStatus.RUNNING:
        flow.raise_review(locked.instance, locked.gate, ReviewReason.INSTANCE_DEADLINE, locked.now)


def _next_round(locked: Locked, leaf: Leaf) -> None:
    assert leaf.poll is not None
    if locked.now >= leaf.poll.deadline_at:
        expire_query(locked, leaf)
    elif is_proven(leaf):
        open_round(locked, leaf)
    else:
        distrust(locked, leaf)


def _timer(locked: Locked, leaf: Leaf) -> None:
    """The delay is over, also in review (B12); the successor waits for the gate."""
    if leaf.is_open and leaf.wait and leaf.wait.status == WaitStatus.WAITING:
        close_wait(leaf, WaitStatus.MATCHED, locked.now)
        conclude(leaf, StepStatus.SUCCEEDED, locked.now)
        flow.go_on(locked.instance, locked.gate, locked.now)


def _query_deadline(locked: Locked, leaf: Leaf) -> None:
    expire_query(locked, leaf)
    flow.go_on(locked.instance, locked.gate, locked.now)


def _wait_deadline(locked: Locked, leaf: Leaf) -> None:
    expire_wait(locked, leaf, ReviewReason.WAIT_EXPIRED)
    flow.go_on(locked.instance, locked.gate, locked.now)


def _task_deadline(locked: Locked, leaf: Leaf) -> None:
    """Recorded only: the reaper ends a task that did not start in time, a running attempt may go on (B1)."""


_AFTER_SIGNALS = frozenset({ClockKind.NEXT_ROUND, ClockKind.POLL_DEADLINE, ClockKind.WAIT_DEADLINE})
"""Clocks that let the signals go first: which of them came in time is told by when they were accepted (B8)."""

_EFFECTS: dict[ClockKind, Callable[[Locked, Leaf], None]] = {
    ClockKind.NEXT_ROUND: _next_round,
    ClockKind.POLL_DEADLINE: _query_deadline,
    ClockKind.TIMER: _timer,
    ClockKind.WAIT_DEADLINE: _wait_deadline,
    ClockKind.TASK_DEADLINE: _task_deadline,
}
