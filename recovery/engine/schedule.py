"""The scheduler: what the root continuations owe is done, in transactions of bounded size."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from django.db.models import F, QuerySet
from jsonpointer import JsonPointer

from recovery import contracts, exact_json, flow
from recovery.clock import milliseconds
from recovery.definitions import Spec
from recovery.engine import terminal
from recovery.engine.activation import Plan, Resolved, activate, leave_unresolved, resolve
from recovery.engine.graph import Graph
from recovery.instance_lock import Locked, lock_instance
from recovery.locks import Locks, transact
from recovery.models import PollState, RootContinuation, StepClock, Task, WorkflowStep
from recovery.states import (
    ClockKind,
    ClockStatus,
    ContinuationKind,
    ContinuationStatus,
    InstanceStatus,
    PollStatus,
    ReviewReason,
    StepStatus,
)
from recovery.writes import change, change_all, insert

CHUNK = 100
"""Leaves, or held tasks, of one transaction."""
CHUNK_BYTES = 4 * exact_json.MAX_BYTES
"""Of the inputs of those leaves, as stored: they travel in one statement, and the database's packets are limited."""

RETRY_MS = 5_000
"""After a full quota."""

KINDS = (ContinuationKind.START, ContinuationKind.ADVANCE, ContinuationKind.RESUME)


def advance(instance_id: str) -> bool:
    """Does a chunk of what START, ADVANCE and RESUME continuations owe; answers whether there was anything.

    Under a closed gate they owe nothing: every opening of the gate writes a new one (B5). With an open gate containers
    settle, leaves that are ready are activated as far as quotas allow, and the instance ends when its root has
    succeeded (B10). RESUME also releases held tasks and arms the clocks of next rounds again.
    """
    if not _owed(instance_id).exists():
        return False
    return transact(lambda locks: _advance(locks, instance_id))


def _owed(instance_id: str) -> QuerySet[RootContinuation]:
    return RootContinuation.objects.filter(
        instance_id=instance_id, status=ContinuationStatus.PENDING, kind__in=KINDS
    ).order_by("sequence")


def _advance(locks: Locks, instance_id: str) -> bool:
    locked = lock_instance(locks, instance_id)
    owed = list(_owed(instance_id))
    if not owed:
        return False
    is_done = True
    if locked.is_open and locked.instance.status == InstanceStatus.RUNNING:
        is_done = _schedule(locks, locked)
        if any(row.kind == ContinuationKind.RESUME for row in owed) and locked.is_open:
            _arm_rounds(locked)
            is_done &= _release_held(locks, locked)
    if is_done:
        change_all(owed, status=ContinuationStatus.DONE, done_at=locked.now)
    return True


def _schedule(locks: Locks, locked: Locked) -> bool:
    """Settles containers and activates a chunk of the leaves that are ready; answers whether none was left over."""
    graph = Graph.load(locked)
    graph.walk()
    chosen, is_full, is_all = _choose(locked, graph)
    rows = locks.rows(WorkflowStep, [graph.ids[key] for key in {*graph.begun, *graph.finished, *chosen}])
    steps = {row.step_key: row for row in rows}
    _settle_containers(locked, graph, steps)
    is_all &= _activate(locked, graph, [steps[key] for key in chosen])
    if is_full:
        _try_again_later(locked)
    if graph.is_done and terminal.may_end(locked.instance.pk):
        terminal.end(locked, InstanceStatus.SUCCEEDED, output=graph.output(locked.definition.root))
    return is_all


def _choose(locked: Locked, graph: Graph) -> tuple[list[str], bool, bool]:
    """A chunk of the ready leaves that fit into the quotas; whether one did not fit; whether the chunk has them all."""
    application = locked.application.max_open_tasks - locked.application.open_tasks
    queues = {quota.queue_id: quota.max_open_tasks - quota.open_tasks for quota in locked.queues}
    chosen: list[str] = []
    is_full = False
    for key in graph.ready:
        queue_id = locked.definition.steps[key].queue_id
        if queue_id and (application < 1 or queues[queue_id] < 1):
            is_full = True
        elif len(chosen) == CHUNK:
            return chosen, is_full, False
        else:
            chosen.append(key)
            if queue_id:
                application -= 1
                queues[queue_id] -= 1
    return chosen, is_full, True


def _settle_containers(locked: Locked, graph: Graph, steps: dict[str, WorkflowStep]) -> None:
    """Each move is a revision of its own; children come before their parents."""
    for key in graph.begun:
        change(steps[key], status=StepStatus.RUNNING, revision=steps[key].revision + 1)
    for key in graph.finished:
        step = steps[key]
        change(
            step,
            status=StepStatus.SUCCEEDED,
            revision=step.revision + 1,
            output=graph.output(key),
            settled_at=locked.now,
        )


def _activate(locked: Locked, graph: Graph, steps: Sequence[WorkflowStep]) -> bool:
    """Activates the leaves as far as one statement holds their inputs; answers whether it did all.

    Where a template gives nothing, its leaf goes to review and no other starts (B5).
    """
    specs = [locked.definition.steps[step.step_key] for step in steps]
    graph.read_outputs({key for spec in specs for key in _named(spec)})
    resolved: list[tuple[WorkflowStep, Resolved | None]] = []
    room = CHUNK_BYTES
    for step, spec in zip(steps, specs, strict=True):
        found = _resolve(locked, graph, spec)
        room -= len(exact_json.dumps(found.input)) if found else 0
        if room < 0 and resolved:
            break
        resolved.append((step, found))
    plan = Plan()
    if unresolved := [step for step, found in resolved if found is None]:
        for step in unresolved:
            leave_unresolved(locked, step, plan)
        flow.raise_review(locked.instance, locked.gate, ReviewReason.INPUT_UNRESOLVED, locked.now)
        change(locked.instance, revision=locked.instance.revision + 1)
    else:
        for step, found in resolved:
            assert found is not None
            activate(locked, step, found, plan)
    insert(*plan.activations)
    flow.enqueue_all(plan.tasks, locked.application, locked.queues, locked.now)
    for rows in plan.others.values():
        insert(*rows)
    return len(resolved) == len(steps)


def _named(spec: Spec) -> Iterable[str]:
    """The steps whose outputs a leaf's templates name."""
    correlation = spec.signal["correlation"] if spec.signal else None
    templates = (spec.input_template, spec.policy.get("business_key"), spec.policy.get("concurrency_key"), correlation)
    for pointer in contracts.sources(list(templates)):
        parts = JsonPointer(pointer).parts
        if parts[0] == "steps":
            yield parts[1]


def _resolve(locked: Locked, graph: Graph, spec: Spec) -> Resolved | None:
    """None where a template gives nothing."""
    named = list(_named(spec))
    if not all(graph.is_kept(key) for key in named):
        return None
    known = {
        "instance": {"input": locked.instance.input},
        "steps": {key: {"output": graph.output(key)} for key in named},
    }
    try:
        return resolve(spec, locked.instance.business_key, known)
    except contracts.Unresolved:
        return None


def _try_again_later(locked: Locked) -> None:
    """A full quota gives no sign when it has room again, so a clock asks; one at a time."""
    clocks = StepClock.objects.filter(instance=locked.instance, kind=ClockKind.SCHEDULE_RETRY, status=ClockStatus.ARMED)
    if not clocks.exists():
        due_at = locked.now + milliseconds(RETRY_MS)
        insert(
            StepClock(instance=locked.instance, kind=ClockKind.SCHEDULE_RETRY, due_at=due_at, status=ClockStatus.ARMED)
        )


def _arm_rounds(locked: Locked) -> None:
    """B5: the clocks of next rounds that a closed gate set aside, or never let be armed."""
    waiting = PollState.objects.filter(
        activation__instance=locked.instance,
        activation__step__current_activation=F("activation"),
        activation__step__status=StepStatus.WAITING,
        status=PollStatus.WAITING,
        next_poll_at__isnull=False,
    )
    clocks = StepClock.objects.filter(instance=locked.instance, kind=ClockKind.NEXT_ROUND, status=ClockStatus.ARMED)
    armed = set(clocks.values_list("activation_id", flat=True))
    insert(
        *(
            StepClock(
                instance=locked.instance,
                activation_id=activation_id,
                kind=ClockKind.NEXT_ROUND,
                due_at=next_poll_at,
                status=ClockStatus.ARMED,
            )
            for activation_id, next_poll_at in waiting.values_list("activation_id", "next_poll_at")
            if next_poll_at and activation_id not in armed
        )
    )


def _release_held(locks: Locks, locked: Locked) -> bool:
    """Lets claims see a chunk of the tasks that they put aside under a closed gate; answers whether none is left."""
    held = Task.objects.filter(instance=locked.instance, held=True).order_by("pk")
    keys = list(held.values_list("pk", flat=True)[: CHUNK + 1])
    change_all(locks.rows(Task, keys[:CHUNK]), held=False)
    return len(keys) <= CHUNK
