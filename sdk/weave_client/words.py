"""The pages' words for stored values, in English. A value that nobody knows yet is shown as itself."""

from __future__ import annotations

from collections.abc import Mapping

WORDS: Mapping[str, Mapping[str, str]] = {
    "InstanceStatus": {
        "RUNNING": "Running",
        "NEEDS_REVIEW": "Needs review",
        "CANCELLING": "Stopping",
        "SUCCEEDED": "Succeeded",
        "FAILED": "Failed",
        "CANCELLED": "Cancelled",
    },
    "GateState": {"OPEN": "Open", "CLOSED": "Closed"},
    "StopKind": {"CANCEL": "Cancel", "FAIL": "Fail"},
    "StepKind": {
        "SEQUENCE": "Sequence",
        "PARALLEL": "Parallel",
        "TASK": "Task",
        "POLL": "Poll",
        "SIGNAL": "Signal",
        "TIMER": "Timer",
    },
    "StepStatus": {
        "PENDING": "Not started",
        "RUNNING": "Running",
        "WAITING": "Waiting",
        "NEEDS_REVIEW": "Needs review",
        "SUCCEEDED": "Succeeded",
        "FAILED": "Failed",
        "CANCELLED": "Cancelled",
    },
    "TaskStatus": {
        "QUEUED": "Queued",
        "RUNNING": "Running",
        "SUCCEEDED": "Succeeded",
        "FAILED": "Failed",
        "CANCELLED": "Cancelled",
        "NEEDS_REVIEW": "Effect unknown",
    },
    "ReviewReason": {
        "EXECUTION_UNKNOWN": "The effect of an execution is unknown",
        "TASK_FAILED": "A task failed",
        "TASK_CANCELLED": "A task was cancelled before it started",
        "CONTRACT_VIOLATION": "An answer breaks the output contract",
        "REQUEST_FAILED": "A query's request failed",
        "OUTCOME_FAILED": "A query was answered failed",
        "OUTCOME_INVALID": "A query was answered outside the map or the contract",
        "ROUNDS_EXHAUSTED": "A query used up its rounds",
        "QUERY_DEADLINE": "A query's deadline passed",
        "WAIT_EXPIRED": "A wait expired",
        "INPUT_UNRESOLVED": "A step's input could not be made",
        "INSTANCE_DEADLINE": "The instance's deadline passed",
        "SOURCE_CORRUPT": "A result does not fit its source",
        "PROOF_MISMATCH": "The proof of a continued query does not fit",
        "HISTORY_INCONSISTENT": "The history does not fit together",
    },
}
"""Kind of value -> stored value -> word."""

NAMES: Mapping[str, str] = {
    "review-task": "ReviewTask",
    "resolve-step": "ResolveStep",
    "continue-poll": "ContinuePoll",
    "rearm-wait": "RearmWait",
    "retry-step": "RetryStep",
    "continue": "Continue",
}
"""The six operations as pages name them."""


def word(kind: str, value: str) -> str:
    return WORDS[kind].get(value, value)
