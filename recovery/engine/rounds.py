"""The rounds of a query: the next one, the end of its time, and the proof that a person left for it (B3, B12, CP4)."""

from __future__ import annotations

from datetime import timedelta

from recovery import exact_json, flow
from recovery.audit import entry_hash, instant
from recovery.clock import milliseconds
from recovery.engine.leaves import Leaf, close_wait, conclude
from recovery.ids import new_id
from recovery.instance_lock import Locked
from recovery.models import (
    PollRound,
    PollState,
    ResultEvent,
    StepActivation,
    StepClock,
    Task,
    WorkflowAudit,
    WorkflowStep,
)
from recovery.states import (
    ActivationStatus,
    ClockKind,
    ClockStatus,
    PollStatus,
    ReviewReason,
    RoundOutcome,
    StepStatus,
    TaskStatus,
    WaitStatus,
)
from recovery.writes import change, insert

QUOTA_RETRY = timedelta(seconds=5)
"""How long a round waits that found the quota full."""


def is_due(leaf: Leaf) -> bool:
    """Whether the query waits for its next round."""
    return leaf.step.status == StepStatus.WAITING and leaf.poll is not None and leaf.poll.status == PollStatus.WAITING


def is_proven(leaf: Leaf) -> bool:
    """Whether the query waits on an answer of its own, or on a proof that still fits every row it names (CP4)."""
    if leaf.poll is None or leaf.poll.proof_id is None:
        return True
    audit = WorkflowAudit.objects.filter(pk=leaf.poll.proof_id).first()
    return audit is not None and proof_holds(leaf.poll, leaf.step, leaf.activation, audit)


def proof_holds(poll: PollState, step: WorkflowStep, activation: StepActivation, audit: WorkflowAudit) -> bool:
    """CP4: whether ContinuePoll's audit is unchanged and names the rows as they are now.

    Source event, activation, round, step revision, next time and both deadlines have to be the same, and the source
    has to be the task's result of that revision still.
    """
    proof = audit.after
    source = ResultEvent.objects.filter(pk=proof.get("source_event_id")).select_related("result").first()
    return (
        source is not None
        and audit.instance_id == activation.instance_id == step.instance_id
        and audit.entry_hash == entry_hash(audit)
        and proof.get("source_task_id") == source.task_id == source.result.task_id
        and proof.get("source_task_revision") == str(source.task_revision) == str(source.result.task_revision)
        and source.payload_digest == exact_json.digest(source.result.payload)
        and proof.get("activation_id") == activation.pk == source.activation_id == poll.activation_id
        and proof.get("round") == poll.used_rounds
        and proof.get("step_revision") == str(step.revision)
        and poll.next_poll_at is not None
        and proof.get("next_poll_at") == instant(poll.next_poll_at)
        and proof.get("query_deadline_at") == instant(poll.deadline_at)
        and proof.get("instance_deadline_at") == instant(step.instance.deadline_at)
    )


def distrust(locked: Locked, leaf: Leaf) -> None:
    """The proof does not fit any more: nothing goes on from it (CP4)."""
    conclude(leaf, StepStatus.NEEDS_REVIEW, locked.now, reason=ReviewReason.PROOF_MISMATCH)
    flow.raise_review(locked.instance, locked.gate, ReviewReason.PROOF_MISMATCH, locked.now)


def open_round(locked: Locked, leaf: Leaf) -> None:
    """Opens the next business round: a task with full attempts, cut by the query deadline (B3).

    Everything else is that of the task before it. The caller has checked gate, proof, deadlines and `flow.has_room`.
    """
    assert leaf.poll is not None
    assert leaf.round is not None
    assert leaf.budget is not None
    before, now, number = Task.objects.get(pk=leaf.round.task_id), locked.now, leaf.poll.used_rounds + 1
    deadline, latest_start_ms = leaf.poll.deadline_at, leaf.spec.policy.get("latest_start_ms")
    if leaf.spec.timeout_ms:
        deadline = min(now + milliseconds(leaf.spec.timeout_ms), deadline)
    task = Task(
        id=new_id(),
        namespace_id=before.namespace_id,
        application_id=before.application_id,
        instance_id=before.instance_id,
        queue_id=before.queue_id,
        handler=before.handler,
        handler_version=before.handler_version,
        status=TaskStatus.QUEUED,
        revision=1,
        priority=before.priority,
        input=before.input,
        input_digest=before.input_digest,
        policy=before.policy,
        business_key=before.business_key,
        concurrency_key=before.concurrency_key,
        owner_activation=leaf.activation,
        max_attempts=leaf.spec.max_attempts,
        latest_start_at=now + milliseconds(latest_start_ms) if latest_start_ms else None,
        deadline_at=deadline,
        available_at=now,
        created_at=now,
    )
    flow.enqueue(task, locked.application, locked.queue(task.queue_id), now, round_number=number)
    change(leaf.step, status=StepStatus.RUNNING, revision=leaf.step.revision + 1)
    change(leaf.activation, status=ActivationStatus.RUNNING)
    # The proof was for the wait that ends here.
    change(leaf.poll, status=PollStatus.POLLING, used_rounds=number, next_poll_at=None, proof=None)
    change(leaf.budget, in_flight=1, next_checkpoint_at=None)
    insert(
        PollRound(
            activation=leaf.activation,
            round=number,
            task=task,
            outcome=RoundOutcome.OPEN,
            deadline_at=deadline,
            started_at=now,
        ),
        StepClock(
            instance_id=task.instance_id,
            activation=leaf.activation,
            kind=ClockKind.TASK_DEADLINE,
            due_at=deadline,
            status=ClockStatus.ARMED,
        ),
    )


def expire_query(locked: Locked, leaf: Leaf) -> None:
    """The query deadline is reached: review at once, also while a request runs (B12); the final wait expires.

    Signals that were accepted earlier have been adjudicated. A query that only waits needs nobody under a stop.
    """
    expire_wait(locked, leaf, ReviewReason.QUERY_DEADLINE)


def expire_wait(locked: Locked, leaf: Leaf, reason: ReviewReason) -> None:
    """A wait's time is over: it expires, and a leaf without a conclusion goes to review for that `reason`."""
    if leaf.wait and leaf.wait.status == WaitStatus.WAITING:
        close_wait(leaf, WaitStatus.EXPIRED, locked.now)
    if not leaf.is_open:
        return
    if locked.instance.stop_kind and leaf.step.status == StepStatus.WAITING:
        conclude(leaf, StepStatus.CANCELLED, locked.now)
        return
    conclude(leaf, StepStatus.NEEDS_REVIEW, locked.now, reason=reason)
    flow.raise_review(locked.instance, locked.gate, reason, locked.now)
