"""Every status of the system with its legal moves and its tone.

Imports nothing of ours. A status changes only through `writes.change*`, which asks `is_legal` here;
a move that is not listed raises. Tones: see `TONES`.
"""

from django.db import models
from django.utils.translation import gettext_lazy as _


class Status(models.TextChoices):
    """A status with legal moves. Subclasses without an entry in `MOVES` are plain enumerations."""

    @classmethod
    def is_legal(cls, before: str, after: str) -> bool:
        return before == after or after in MOVES.get(cls.__name__, {}).get(before, ())


class TenantStatus(Status):
    ACTIVE = "ACTIVE", _("Active")
    SUSPENDED = "SUSPENDED", _("Suspended")


class QueueStatus(Status):
    OPEN = "OPEN", _("Open")
    PAUSED = "PAUSED", _("Paused")


class TaskStatus(Status):
    QUEUED = "QUEUED", _("Queued")
    RUNNING = "RUNNING", _("Running")
    SUCCEEDED = "SUCCEEDED", _("Succeeded")
    FAILED = "FAILED", _("Failed")
    CANCELLED = "CANCELLED", _("Cancelled")
    NEEDS_REVIEW = "NEEDS_REVIEW", _("Effect unknown")


class AttemptStatus(Status):
    RUNNING = "RUNNING", _("Running")
    SUCCEEDED = "SUCCEEDED", _("Succeeded")
    FAILED = "FAILED", _("Failed")
    UNKNOWN = "UNKNOWN", _("Unknown")
    CANCELLED = "CANCELLED", _("Cancelled")


class ResultSource(Status):
    WORKER = "WORKER", _("Worker")
    REAPER = "REAPER", _("Lease reaper")
    REVIEW = "REVIEW", _("Review by a person")
    CONTROL = "CONTROL", _("Control")
    LATE = "LATE", _("Late report")


class ResultOutcome(Status):
    SUCCEEDED = "SUCCEEDED", _("Succeeded")
    FAILED = "FAILED", _("Failed")
    UNKNOWN = "UNKNOWN", _("Unknown")
    CANCELLED = "CANCELLED", _("Cancelled")


class StepKind(Status):
    SEQUENCE = "SEQUENCE", _("Sequence")
    PARALLEL = "PARALLEL", _("Parallel")
    TASK = "TASK", _("Task")
    POLL = "POLL", _("Poll")
    SIGNAL = "SIGNAL", _("Signal")
    TIMER = "TIMER", _("Timer")


LEAVES = frozenset({StepKind.TASK, StepKind.POLL, StepKind.SIGNAL, StepKind.TIMER})


class InstanceStatus(Status):
    RUNNING = "RUNNING", _("Running")
    NEEDS_REVIEW = "NEEDS_REVIEW", _("Needs review")
    CANCELLING = "CANCELLING", _("Stopping")
    SUCCEEDED = "SUCCEEDED", _("Succeeded")
    FAILED = "FAILED", _("Failed")
    CANCELLED = "CANCELLED", _("Cancelled")


class StopKind(Status):
    CANCEL = "CANCEL", _("Cancel")
    FAIL = "FAIL", _("Fail")


class GateState(Status):
    OPEN = "OPEN", _("Open")
    CLOSED = "CLOSED", _("Closed")


class ContinuationKind(Status):
    START = "START", _("Start")
    ADVANCE = "ADVANCE", _("Advance")
    RESUME = "RESUME", _("Resume")
    STOP = "STOP", _("Stop")


class ContinuationStatus(Status):
    PENDING = "PENDING", _("Pending")
    DONE = "DONE", _("Done")


class StepStatus(Status):
    PENDING = "PENDING", _("Not started")
    RUNNING = "RUNNING", _("Running")
    WAITING = "WAITING", _("Waiting")
    NEEDS_REVIEW = "NEEDS_REVIEW", _("Needs review")
    SUCCEEDED = "SUCCEEDED", _("Succeeded")
    FAILED = "FAILED", _("Failed")
    CANCELLED = "CANCELLED", _("Cancelled")


class ActivationStatus(Status):
    RUNNING = "RUNNING", _("Running")
    WAITING = "WAITING", _("Waiting")
    NEEDS_REVIEW = "NEEDS_REVIEW", _("Needs review")
    SUCCEEDED = "SUCCEEDED", _("Succeeded")
    FAILED = "FAILED", _("Failed")
    CANCELLED = "CANCELLED", _("Cancelled")


class ActivationCause(Status):
    INITIAL = "INITIAL", _("First start")
    RETRY = "RETRY", _("RetryStep")
    REARM = "REARM", _("RearmWait")


class PollStatus(Status):
    POLLING = "POLLING", _("Polling")
    WAITING = "WAITING", _("Waiting for the next round")
    SETTLED = "SETTLED", _("Settled")


class RoundOutcome(Status):
    OPEN = "OPEN", _("Open")
    PENDING = "PENDING", _("Answered pending")
    SUCCEEDED = "SUCCEEDED", _("Answered succeeded")
    FAILED = "FAILED", _("Failed")
    INVALID = "INVALID", _("Answered outside the contract")
    UNKNOWN = "UNKNOWN", _("Unknown")
    CANCELLED = "CANCELLED", _("Cancelled")


class WaitKind(Status):
    SIGNAL = "SIGNAL", _("Signal")
    TIMER = "TIMER", _("Timer")
    POLL_FINAL = "POLL_FINAL", _("Final signal of a query")


class WaitStatus(Status):
    WAITING = "WAITING", _("Waiting")
    MATCHED = "MATCHED", _("Matched")
    EXPIRED = "EXPIRED", _("Expired")
    CANCELLED = "CANCELLED", _("Closed")


class SignalStatus(Status):
    PENDING = "PENDING", _("Pending")
    CONSUMED = "CONSUMED", _("Consumed")
    REJECTED = "REJECTED", _("Rejected")


class InboxStatus(Status):
    PENDING = "PENDING", _("Pending")
    PROCESSED = "PROCESSED", _("Processed")
    QUARANTINED = "QUARANTINED", _("Quarantined")


class ClockKind(Status):
    NEXT_ROUND = "NEXT_ROUND", _("Next round")
    POLL_DEADLINE = "POLL_DEADLINE", _("Query deadline")
    TIMER = "TIMER", _("Timer")
    WAIT_DEADLINE = "WAIT_DEADLINE", _("Wait deadline")
    TASK_DEADLINE = "TASK_DEADLINE", _("Task deadline")
    INSTANCE_DEADLINE = "INSTANCE_DEADLINE", _("Instance deadline")
    SCHEDULE_RETRY = "SCHEDULE_RETRY", _("Schedule again")


class ClockStatus(Status):
    ARMED = "ARMED", _("Armed")
    FIRED = "FIRED", _("Fired")
    CANCELLED = "CANCELLED", _("Set aside")


class CheckpointStatus(Status):
    OPEN = "OPEN", _("Open")
    CLOSED = "CLOSED", _("Closed")


class ReviewReason(Status):
    """Why an instance or a step is in review."""

    EXECUTION_UNKNOWN = "EXECUTION_UNKNOWN", _("The effect of an execution is unknown")
    TASK_FAILED = "TASK_FAILED", _("A task failed")
    TASK_CANCELLED = "TASK_CANCELLED", _("A task was cancelled before it started")
    CONTRACT_VIOLATION = "CONTRACT_VIOLATION", _("An answer breaks the output contract")
    REQUEST_FAILED = "REQUEST_FAILED", _("A query's request failed")
    OUTCOME_FAILED = "OUTCOME_FAILED", _("A query was answered failed")
    OUTCOME_INVALID = "OUTCOME_INVALID", _("A query was answered outside the map or the contract")
    ROUNDS_EXHAUSTED = "ROUNDS_EXHAUSTED", _("A query used up its rounds")
    QUERY_DEADLINE = "QUERY_DEADLINE", _("A query's deadline passed")
    WAIT_EXPIRED = "WAIT_EXPIRED", _("A wait expired")
    INPUT_UNRESOLVED = "INPUT_UNRESOLVED", _("A step's input could not be made")
    INSTANCE_DEADLINE = "INSTANCE_DEADLINE", _("The instance's deadline passed")
    SOURCE_CORRUPT = "SOURCE_CORRUPT", _("A result does not fit its source")
    PROOF_MISMATCH = "PROOF_MISMATCH", _("The proof of a continued query does not fit")
    HISTORY_INCONSISTENT = "HISTORY_INCONSISTENT", _("The history does not fit together")


class Disposition(Status):
    """What became of an inbox event or a signal; the last ones are of signals only."""

    ADVANCED = "ADVANCED", _("Settled its step")
    ROUND_PENDING = "ROUND_PENDING", _("Answered pending, next round planned")
    REVIEW_RAISED = "REVIEW_RAISED", _("Raised the review")
    RECORDED = "RECORDED", _("Recorded during a stop")
    STALE_ACTIVATION = "STALE_ACTIVATION", _("Of an old activation")
    STEP_ALREADY_SETTLED = "STEP_ALREADY_SETTLED", _("Its step was already settled")
    SOURCE_CORRUPT = "SOURCE_CORRUPT", _("Does not fit its source")
    MATCHED = "MATCHED", _("Matched the wait")
    WAIT_CLOSED = "WAIT_CLOSED", _("Its wait was closed")
    EXPIRED = "EXPIRED", _("Accepted after the wait's deadline")
    CORRELATION_MISMATCH = "CORRELATION_MISMATCH", _("Name or correlation key differ")
    CONTRACT_VIOLATION = "CONTRACT_VIOLATION", _("Breaks the signal contract")


MOVES: dict[str, dict[str, tuple[str, ...]]] = {
    "TenantStatus": {"ACTIVE": ("SUSPENDED",), "SUSPENDED": ("ACTIVE",)},
    "QueueStatus": {"OPEN": ("PAUSED",), "PAUSED": ("OPEN",)},
    # A known task never moves again: a retry is a new task (RY7), a late report a new result (B9).
    "TaskStatus": {
        "QUEUED": ("RUNNING", "FAILED", "CANCELLED"),
        "RUNNING": ("QUEUED", "SUCCEEDED", "FAILED", "NEEDS_REVIEW"),
        "NEEDS_REVIEW": ("SUCCEEDED", "FAILED"),
    },
    # UNKNOWN stays UNKNOWN, whatever a person verifies later (RT3).
    "AttemptStatus": {"RUNNING": ("SUCCEEDED", "FAILED", "UNKNOWN")},
    "InstanceStatus": {
        "RUNNING": ("NEEDS_REVIEW", "CANCELLING", "SUCCEEDED"),
        "NEEDS_REVIEW": ("RUNNING", "CANCELLING"),
        "CANCELLING": ("NEEDS_REVIEW", "CANCELLED", "FAILED"),
    },
    "GateState": {"OPEN": ("CLOSED",), "CLOSED": ("OPEN",)},
    "ContinuationStatus": {"PENDING": ("DONE",)},
    "StepStatus": {
        "PENDING": ("RUNNING", "WAITING", "NEEDS_REVIEW", "SUCCEEDED", "CANCELLED"),
        "RUNNING": ("WAITING", "NEEDS_REVIEW", "SUCCEEDED", "FAILED", "CANCELLED"),
        "WAITING": ("RUNNING", "NEEDS_REVIEW", "SUCCEEDED", "FAILED", "CANCELLED"),
        # ResolveStep, RetryStep, RearmWait and ContinuePoll; the last three do not start from SUCCEEDED.
        "NEEDS_REVIEW": ("RUNNING", "WAITING", "SUCCEEDED", "FAILED", "CANCELLED"),
        "FAILED": ("RUNNING", "WAITING", "SUCCEEDED"),
        "CANCELLED": ("RUNNING", "WAITING", "SUCCEEDED", "FAILED"),
    },
    "ActivationStatus": {
        "RUNNING": ("WAITING", "NEEDS_REVIEW", "SUCCEEDED", "FAILED", "CANCELLED"),
        "WAITING": ("RUNNING", "NEEDS_REVIEW", "SUCCEEDED", "FAILED", "CANCELLED"),
        "NEEDS_REVIEW": ("WAITING", "SUCCEEDED", "FAILED", "CANCELLED"),
        # Only ResolveStep moves a settled activation, and only the current one (B14).
        "FAILED": ("SUCCEEDED",),
        "CANCELLED": ("SUCCEEDED", "FAILED"),
    },
    "PollStatus": {
        "POLLING": ("WAITING", "SETTLED"),
        "WAITING": ("POLLING", "SETTLED"),
        "SETTLED": ("WAITING",),  # ContinuePoll
    },
    "RoundOutcome": {"OPEN": ("PENDING", "SUCCEEDED", "FAILED", "INVALID", "UNKNOWN", "CANCELLED")},
    "WaitStatus": {
        "WAITING": ("MATCHED", "EXPIRED", "CANCELLED"),
        "CANCELLED": ("WAITING",),  # CP3, data from before B12
    },
    "SignalStatus": {"PENDING": ("CONSUMED", "REJECTED")},
    "InboxStatus": {
        "PENDING": ("PROCESSED", "QUARANTINED"),
        "QUARANTINED": ("PENDING",),  # `manage.py reverify_inbox`, after the source was repaired
    },
    "ClockStatus": {"ARMED": ("FIRED", "CANCELLED")},
    "CheckpointStatus": {"OPEN": ("CLOSED",)},
}

STATUS_AFTER: dict[str, TaskStatus] = {
    ResultOutcome.SUCCEEDED: TaskStatus.SUCCEEDED,
    ResultOutcome.FAILED: TaskStatus.FAILED,
    ResultOutcome.CANCELLED: TaskStatus.CANCELLED,
    ResultOutcome.UNKNOWN: TaskStatus.NEEDS_REVIEW,
}
"""What a task is after a result that is not LATE."""

KNOWN = frozenset({TaskStatus.SUCCEEDED, TaskStatus.FAILED, TaskStatus.CANCELLED})
"""A task is *known* when nobody has to ask any more what it did."""

TERMINAL = frozenset({InstanceStatus.SUCCEEDED, InstanceStatus.FAILED, InstanceStatus.CANCELLED})

TONES = {
    "NEEDS_REVIEW": "wait",
    "UNKNOWN": "wait",
    "QUARANTINED": "stop",
    "FAILED": "stop",
    "INVALID": "stop",
    "EXPIRED": "stop",
    "REJECTED": "stop",
    "SUSPENDED": "stop",
    "CANCELLING": "wait",
    "PAUSED": "wait",
}
"""wait: a person is asked for; stop: refused or failed; everything else is calm and has no hue."""


def tone(status: str) -> str:
    """The tone of any status word, `calm` for those that ask nothing and for those nobody knows yet."""
    return TONES.get(status, "calm")
