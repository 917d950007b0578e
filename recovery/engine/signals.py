"""Signals: accepted and kept at once, adjudicated later by when they were accepted (B8, B12)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

from django.db.models import QuerySet
from django.utils.translation import gettext as _

from recovery import clock, contracts, definitions, exact_json, flow, permissions, prompts, stream
from recovery.engine.cancel_task import cancel_unstarted
from recovery.engine.leaves import Leaf, close_wait, conclude, lock_leaves
from recovery.engine.rounds import distrust, is_proven
from recovery.errors import IdempotencyConflict, StateConflict
from recovery.instance_lock import Locked, lock_instance
from recovery.locks import Locks, transact
from recovery.models import (
    InboxEvent,
    RootContinuation,
    Signal,
    StepActivation,
    WaitState,
    WorkflowInstance,
    WorkflowStep,
)
from recovery.operations.commands import Document, Invalid, checked, json_value, label, name
from recovery.permissions import Actor
from recovery.states import (
    ContinuationKind,
    Disposition,
    InboxStatus,
    SignalStatus,
    StepStatus,
    WaitStatus,
)
from recovery.stream import Settled
from recovery.writes import change, insert

CHUNK = 100
"""Signals of one transaction."""


def _generation(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value < 2**31:
        raise Invalid(_("The number of a generation, from 1."))
    return value


def _contract_name(value: Any) -> str:
    return label(value, 128)


@dataclass(frozen=True, kw_only=True)
class SignalDocument(Document):
    """What a sender says. `generation`: the sequence of the activation that it is for."""

    step_key: str = checked(name)
    generation: int = checked(_generation)
    name: str = checked(_contract_name)
    correlation_key: str = checked(label)
    source_key: str = checked(label)
    payload: Any = checked(json_value)  # noqa: RUF009 - makes a dataclass field


def accept(actor: Actor, instance_id: str, document: Mapping[str, Any]) -> Signal:
    """Keeps a signal as PENDING; the same source key for the same step and generation answers the first one.

    Locks instance, step, wait; no quota. Raises PermissionDenied, NotFound, ValidationFailed, StateConflict for a step
    that takes no signals or a generation that does not exist yet, IdempotencyConflict for other content.
    """
    permissions.require_work(actor, permissions.SEND_SIGNALS)
    found = permissions.find_instance(actor, instance_id)
    permissions.require_active(found.namespace, found.application)
    sent = SignalDocument.parse(document)
    spec = definitions.load(found.definition_version_id).steps.get(sent.step_key)
    if spec is None or spec.signal is None:
        raise StateConflict(_("This instance has no such step that takes signals."), rule="B8")
    step_id = WorkflowStep.objects.values_list("pk", flat=True).get(instance_id=instance_id, step_key=sent.step_key)
    return transact(lambda locks: _accept(locks, instance_id, step_id, sent))


def _accept(locks: Locks, instance_id: str, step_id: str, sent: SignalDocument) -> Signal:
    locks.row(WorkflowInstance, instance_id)
    step = locks.row(WorkflowStep, step_id)
    waits = dict(WaitState.objects.filter(activation__step_id=step_id).values_list("activation__sequence", "pk"))
    current = StepActivation.objects.filter(pk=step.current_activation_id).values_list("sequence", flat=True).first()
    locks.rows(WaitState, [waits[sent.generation]] if sent.generation in waits else [])
    now = clock.now()
    if sent.generation > (current or 0):
        raise StateConflict(
            _("Generation %(sent)d does not exist; the current one is %(current)d.")
            % {"sent": sent.generation, "current": current or 0},
            rule="B8",
        )
    known = Signal.objects.filter(step_id=step_id, generation=sent.generation, source_key=sent.source_key)
    if first := known.filter(instance_id=instance_id).first():
        return _same(first, sent)
    signal = Signal(
        instance_id=instance_id,
        step=step,
        generation=sent.generation,
        name=sent.name,
        correlation_key=sent.correlation_key,
        source_key=sent.source_key,
        status=SignalStatus.PENDING,
        payload=sent.payload,
        accepted_at=now,
    )
    insert(signal)
    prompts.instance(instance_id)
    return signal


def _same(first: Signal, sent: SignalDocument) -> Signal:
    """B8: the first answer, if it was the same signal."""
    said = (first.name, first.correlation_key, exact_json.canonical(first.payload))
    if said != (sent.name, sent.correlation_key, exact_json.canonical(sent.payload)):
        raise IdempotencyConflict(
            _("This source key was used for another signal to this step and generation. Use a new key."), rule="B8"
        )
    return first


def adjudicate(instance_id: str) -> int:
    """Adjudicates what is PENDING, the first accepted first; answers how many. Review and a closed gate do not matter.

    Each adjudicated signal raises the instance's revision by one (G9).
    """
    total = 0
    while read(instance_id):
        done = transact(lambda locks: adjudicate_locked(lock_instance(locks, instance_id), locks))
        if not done:
            break
        total += done
    return total


def pending(instance_id: str) -> QuerySet[Signal]:
    """Signals that nobody adjudicated yet, the first accepted first."""
    rows = Signal.objects.filter(instance_id=instance_id, status=SignalStatus.PENDING)
    return rows.order_by("accepted_at", "pk")


def read(instance_id: str) -> int:
    """Reads the next signals and holds them against their contracts, before any lock (G7); answers how many."""
    keys = list(pending(instance_id).values_list("pk", flat=True)[:CHUNK])
    for key in keys:
        _breaks_contract(key)
    return len(keys)


@lru_cache(maxsize=10 * CHUNK)
def _breaks_contract(signal_id: str) -> bool:
    """Once for each signal: neither its payload nor the pinned contract ever changes."""
    row = Signal.objects.values_list("payload", "step__step_key", "instance__definition_version_id").get(pk=signal_id)
    payload, step_key, version_id = row
    contract = definitions.load(version_id).steps[step_key].signal
    assert contract is not None
    return contracts.violation(contract["schema"], payload) is not None


def adjudicate_locked(locked: Locked, locks: Locks, *, before: datetime | None = None) -> int:
    """`adjudicate` for a chunk, in the transaction of the caller, which has locked no child of the instance yet.

    The caller calls `read` before it locks. `before`: only signals that were accepted before that moment. The result
    stream may be locked at the end.
    """
    rows = pending(locked.instance.pk)
    if before is not None:
        rows = rows.filter(accepted_at__lt=before)
    signals = _in_their_turn(locked.instance.pk, list(rows[:CHUNK]))
    if not signals:
        return 0
    leaves = lock_leaves(locks, locked.definition, {row.step_id for row in signals}, unstarted=True)
    locks.rows(Signal, [row.pk for row in signals])
    stopped_at = _stopped_at(locked)
    settled: list[Settled] = []
    moved = False
    for signal in signals:
        leaf = leaves[signal.step_id]
        disposition = _judge(signal, leaf, stopped_at)
        is_match = disposition == Disposition.MATCHED
        change(
            signal,
            status=SignalStatus.CONSUMED if is_match else SignalStatus.REJECTED,
            disposition=disposition,
            settled_at=locked.now,
        )
        if is_match:
            moved |= leaf.is_open
            settled += _win(locked, leaf, signal)
    change(locked.instance, revision=locked.instance.revision + len(signals))
    if moved:
        flow.go_on(locked.instance, locked.gate, locked.now)
    stream.publish(locks, settled, locked.now)
    return len(signals)


def _in_their_turn(instance_id: str, signals: list[Signal]) -> list[Signal]:
    """Without the signals that compete with an answer which came before them and is not consumed yet.

    Behind a quarantined event answers wait for a person; signals do not wait with them.
    """
    unsettled = InboxEvent.objects.filter(
        instance_id=instance_id, status__in=(InboxStatus.PENDING, InboxStatus.QUARANTINED)
    ).values_list("status", "activation__step_id", "received_at")
    answers = list(unsettled) if signals else []
    if any(status == InboxStatus.QUARANTINED for status, _step, _at in answers):
        return signals
    return [
        signal
        for signal in signals
        if not any(step_id == signal.step_id and at <= signal.accepted_at for _status, step_id, at in answers)
    ]


def _stopped_at(locked: Locked) -> datetime | None:
    """Since when a stop closes waits; the runner that closes them may be late."""
    if locked.instance.stop_kind is None:
        return None
    stops = RootContinuation.objects.filter(instance=locked.instance, kind=ContinuationKind.STOP).order_by("sequence")
    return stops.values_list("created_at", flat=True).first()


def _judge(signal: Signal, leaf: Leaf, stopped_at: datetime | None) -> Disposition:
    """B8: by the moment of acceptance against the wait's deadline and competing facts, never by that of processing."""
    wait, contract = leaf.wait, leaf.spec.signal
    assert contract is not None
    if signal.generation < leaf.activation.sequence:
        return Disposition.STALE_ACTIVATION
    if wait is None or wait.status != WaitStatus.WAITING or (stopped_at and signal.accepted_at >= stopped_at):
        return Disposition.WAIT_CLOSED
    if (signal.name, signal.correlation_key) != (contract["name"], wait.correlation_key):
        return Disposition.CORRELATION_MISMATCH
    if _breaks_contract(signal.pk):
        return Disposition.CONTRACT_VIOLATION
    if wait.deadline_at and signal.accepted_at >= wait.deadline_at:
        return Disposition.EXPIRED
    return Disposition.MATCHED


def _win(locked: Locked, leaf: Leaf, signal: Signal) -> Iterable[Settled]:
    """The wait has its winner. A step that waits succeeds; one in review does not move.

    A query's request that has not started is cancelled; one that runs goes on, and its result is recorded. A query
    that waits on a proof which does not fit any more goes to review instead (CP4).
    """
    assert leaf.wait is not None
    change(leaf.wait, winner_signal=signal)
    close_wait(leaf, WaitStatus.MATCHED, locked.now)
    if not leaf.is_open:
        flow.close_activation([leaf.activation.pk], locked.now)
        return []
    if not is_proven(leaf):
        distrust(locked, leaf)
        return []
    conclude(leaf, StepStatus.SUCCEEDED, locked.now, output=signal.payload)
    return cancel_unstarted([leaf.unstarted], locked.now) if leaf.unstarted else []
