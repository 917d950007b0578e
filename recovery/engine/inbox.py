"""Consumption of results, strictly in the order of the stream: each event has its effect on its step exactly once.

What needs no lock (digests, schemas, the map) is done before the first one; what may have changed meanwhile, whether
an event is still the next, is read again under the instance lock. Nothing is scheduled here: the scheduler finds an
ADVANCE continuation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from itertools import takewhile

from django.db.models import F, OuterRef, Subquery
from django.utils.translation import gettext as _

from recovery import audit, definitions, exact_json, flow
from recovery.clock import milliseconds
from recovery.engine import signals
from recovery.engine.leaves import Leaf, await_round, conclude, lock_leaves, record_answer
from recovery.engine.rounds import expire_query
from recovery.engine.settle import Place, meaning, verdict
from recovery.errors import NotFound, StateConflict
from recovery.instance_lock import Locked, lock_instance
from recovery.locks import Locks, transact
from recovery.models import InboxEvent, ResultEvent, Signal
from recovery.states import (
    KNOWN,
    STATUS_AFTER,
    TERMINAL,
    Disposition,
    InboxStatus,
    ResultOutcome,
    ResultSource,
    ReviewReason,
    RoundOutcome,
    SignalStatus,
    StepKind,
    StepStatus,
    StopKind,
)
from recovery.writes import change

BATCH = 50
"""Events in one transaction: it holds the application quota, the hottest row."""


@dataclass(frozen=True)
class Fact:
    """An inbox row with its source. `meant`: None where `problem` says why the source does not fit."""

    row: InboxEvent
    meant: RoundOutcome | None
    problem: str | None


def consume(instance_id: str) -> int:
    """Consumes what is PENDING in the inbox of an instance; answers how many events were processed or quarantined.

    A quarantined event holds up all later ones of its instance until `reverify` released it (B4). Each event raises
    the instance's revision by one (G9).
    """
    total = 0
    while facts := _read(instance_id):
        signals.read(instance_id)
        consumed = transact(
            partial(_consume_some, instance_id=instance_id, known={fact.row.pk: fact for fact in facts})
        )
        if consumed is None:
            break
        total += consumed
    return total


def _unsettled(instance_id: str) -> list[str]:
    """The next inbox rows in the order of the stream, up to the first quarantined one. A lost event sorts first."""
    offset = ResultEvent.objects.filter(pk=OuterRef("result_event_id")).values("offset")
    rows = (
        InboxEvent.objects.filter(instance_id=instance_id, status__in=(InboxStatus.PENDING, InboxStatus.QUARANTINED))
        .annotate(offset=Subquery(offset))
        .order_by(F("offset").asc(nulls_first=True), "pk")
        .values_list("pk", "status")[:BATCH]
    )
    return [key for key, _status in takewhile(lambda row: row[1] == InboxStatus.PENDING, rows)]


def _read(instance_id: str) -> list[Fact]:
    """The next events with what they mean. No lock: sources never change, a repair of one excepted."""
    keys = _unsettled(instance_id)
    sources = _sources(keys) if keys else {}
    return [_check(key, sources.get(key)) for key in keys]


def _check(key: str, source: InboxEvent | None) -> Fact:
    if source is None:
        return Fact(InboxEvent.objects.get(pk=key), None, "a row of the source is missing or unreadable")
    if problem := _problem(source):
        return Fact(source, None, problem)
    spec = definitions.load(source.instance.definition_version_id).steps[source.activation.step.step_key]
    result = source.result_event.result
    return Fact(source, meaning(spec, result.outcome, result.payload), None)


def _sources(keys: list[str]) -> dict[str, InboxEvent]:
    """Inbox rows with their sources, in one statement; those whose source is missing or is no JSON are left out."""
    rows = InboxEvent.objects.select_related(
        "instance",
        "task__activationtask",
        "activation__step",
        "result_event__stream",
        "result_event__result__attempt",
    ).defer(
        "instance__input",
        "instance__output",
        "task__input",
        "task__policy",
        "activation__input",
        "activation__output",
        "activation__step__output",
    )
    try:
        return {row.pk: row for row in rows.filter(pk__in=keys)}
    except exact_json.InvalidJson:
        if len(keys) == 1:
            return {}
        return {key: row for single in keys for key, row in _sources([single]).items()}


def _problem(row: InboxEvent) -> str | None:
    """What of digest, owner or version does not fit (B4); None when everything does."""
    event, task, activation, instance = row.result_event, row.task, row.activation, row.instance
    result = event.result
    half = getattr(task, "activationtask", None)
    checks = {
        "the event is of another task": event.task_id == result.task_id == task.pk,
        "the revisions differ": event.task_revision == result.task_revision == row.task_revision <= task.revision,
        "the event is of another activation": event.activation_id == row.activation_id,
        "the task has another owner": task.owner_activation_id == getattr(half, "activation_id", None) == activation.pk,
        "the task is of another instance": task.instance_id == activation.instance_id == instance.pk,
        "the step is of another instance": activation.step.instance_id == instance.pk,
        "the task is of another namespace": (
            event.stream.namespace_id == task.namespace_id == instance.namespace_id
            and task.application_id == instance.application_id
        ),
        "the result is of another task's attempt": result.attempt is None or result.attempt.task_id == task.pk,
        "the result is not what the task says": (
            task.revision != row.task_revision
            or result.source == ResultSource.LATE
            or task.status == STATUS_AFTER[ResultOutcome(result.outcome)]
        ),
        "the digest differs": event.payload_digest == exact_json.digest(result.payload),
    }
    return next((sentence for sentence, fits in checks.items() if not fits), None)


def _consume_some(locks: Locks, instance_id: str, known: Mapping[str, Fact]) -> int | None:
    """One transaction: the next events as far as they are `known`, or the signals that were accepted before them.

    Answers how many events; None when there was nothing to do.
    """
    locked = lock_instance(locks, instance_id)
    facts = [known[key] for key in takewhile(known.__contains__, _unsettled(instance_id))]
    if not facts:
        return None
    if signal_at := _first_signal(instance_id, facts):
        # B8: an answer and a final signal compete by when they came, not by which is processed first.
        first = facts[0].row.received_at
        if signal_at < first and signals.adjudicate_locked(locked, locks, before=first):
            return 0
        facts = facts[:1] + list(takewhile(lambda fact: fact.row.received_at <= signal_at, facts[1:]))
    facts = _until_corrupt(facts)
    leaves = lock_leaves(locks, locked.definition, {fact.row.activation.step_id for fact in facts if fact.meant})
    rows = {row.pk: row for row in locks.rows(InboxEvent, [fact.row.pk for fact in facts])}
    for fact in facts:
        if fact.meant is None:
            _quarantine(locked, rows[fact.row.pk])
            continue
        disposition = _apply(locked, fact.row, fact.meant, leaves[fact.row.activation.step_id])
        change(rows[fact.row.pk], status=InboxStatus.PROCESSED, disposition=disposition, processed_at=locked.now)
    known_tasks = [fact.row.task_id for fact in facts if fact.meant and fact.row.task.status in KNOWN]
    flow.give_back(known_tasks, locked.application, locked.queues, locked.now)
    instance = locked.instance
    change(instance, revision=instance.revision + len(facts))
    flow.go_on(instance, locked.gate, locked.now)
    return len(facts)


def _first_signal(instance_id: str, facts: list[Fact]) -> datetime | None:
    """When the first signal was accepted that nobody adjudicated yet; None also where no query is concerned."""
    if not any(fact.meant and fact.row.activation.step.kind == StepKind.POLL for fact in facts):
        return None
    pending = Signal.objects.filter(instance_id=instance_id, status=SignalStatus.PENDING)
    return pending.order_by("accepted_at").values_list("accepted_at", flat=True).first()


def _until_corrupt(facts: list[Fact]) -> list[Fact]:
    """Up to and with the first fact whose source does not fit: it holds up what comes after it."""
    sound = list(takewhile(lambda fact: fact.problem is None, facts))
    return facts[: len(sound) + 1]


def _apply(locked: Locked, row: InboxEvent, meant: RoundOutcome, leaf: Leaf) -> Disposition:
    """What one result does to its step, and to its instance where a review or a stop follows."""
    event, result, instance, now = row.result_event, row.result_event.result, locked.instance, locked.now
    place = Place(
        is_current=leaf.activation.pk == row.activation_id,
        is_open=leaf.is_open,
        is_stopping=instance.stop_kind is not None,
        rounds_left=leaf.rounds_left,
    )
    if leaf.round and leaf.round.task_id == row.task_id and result.source != ResultSource.LATE:
        if leaf.round.outcome == RoundOutcome.OPEN:
            record_answer(leaf, meant, row.task.attempt_count, now)
        if leaf.poll and leaf.is_open and event.occurred_at >= leaf.poll.deadline_at:
            # The clock of the query deadline is late; the answer was later still.
            expire_query(locked, leaf)
            place = replace(place, is_open=False)
    said = verdict(leaf.spec, result.source, result.outcome, meant, place)
    if said.step == StepStatus.WAITING:
        assert leaf.poll is not None
        next_poll_at = min(event.occurred_at + milliseconds(leaf.spec.interval_ms), leaf.poll.deadline_at)
        await_round(leaf, next_poll_at, is_open=locked.is_open)
    elif said.step:
        is_answer = result.outcome == ResultOutcome.SUCCEEDED and said.step in (StepStatus.SUCCEEDED, StepStatus.FAILED)
        conclude(leaf, said.step, now, output=result.payload if is_answer else None, reason=said.reason)
    if said.stops:
        flow.intend_stop(instance, locked.gate, StopKind.FAIL)
    if said.reason:
        flow.raise_review(instance, locked.gate, said.reason, now)
    return said.disposition


def _quarantine(locked: Locked, row: InboxEvent) -> None:
    """B4: only a repaired source releases it. What has ended is not reviewed again."""
    change(row, status=InboxStatus.QUARANTINED, disposition=Disposition.SOURCE_CORRUPT)
    if locked.instance.status not in TERMINAL:
        flow.raise_review(locked.instance, locked.gate, ReviewReason.SOURCE_CORRUPT, locked.now)


def reverify(event_id: str, *, actor: str) -> str | None:
    """Checks a quarantined event again, after its source was repaired; PENDING only if everything fits (B4).

    Answers what does not fit, None when the event was released. Audited either way. Raises NotFound for an event
    that no inbox received, StateConflict for one that is not quarantined.
    """
    key = InboxEvent.objects.filter(result_event_id=event_id).values_list("pk", flat=True).first()
    if key is None:
        raise NotFound(_("No inbox received an event %(event)s.") % {"event": event_id}, rule="B4")
    fact = _check(key, _sources([key]).get(key))

    def work(locks: Locks) -> None:
        locked = lock_instance(locks, fact.row.instance_id)
        instance, row = locked.instance, locks.row(InboxEvent, key)
        if row.status != InboxStatus.QUARANTINED:
            found = _("The event is %(status)s, not quarantined.") % {"status": row.status}
            raise StateConflict(found, rule="B4")
        before = {"event_id": event_id, "inbox_status": row.status}
        changes: dict[str, object] = {}
        if fact.problem is None:
            change(row, status=InboxStatus.PENDING, disposition="")
            changes = {"revision": instance.revision + 1}
        _entry, head = audit.append(
            instance,
            actor=actor,
            action="reverify_inbox",
            reason=fact.problem or "",
            before=before,
            after={"event_id": event_id, "inbox_status": row.status},
            now=locked.now,
        )
        change(instance, audit_head=head, **changes)

    transact(work)
    return fact.problem
