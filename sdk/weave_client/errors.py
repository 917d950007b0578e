"""What can go wrong: one class for each code of the API, and what happens on the way to the server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from weave_client.shapes import Finding


class WeaveError(Exception):
    """Whatever this package raises."""


class Unreachable(WeaveError):
    """The server could not be reached; nothing was sent, so nothing has happened."""


class AnswerLost(WeaveError):
    """The call was sent and no answer came: whether it had an effect is unknown. `key`: of a keyed call.

    A keyed call may be repeated with the same key at any time; `Client.receipt(key)` tells whether it was committed.
    """

    def __init__(self, sentence: str, *, key: str | None = None) -> None:
        super().__init__(sentence)
        self.key = key


class IncompatibleServer(WeaveError):
    """The server speaks another major version of the API, or is no Weave server."""


class UnexpectedAnswer(WeaveError):
    """The answer is not what the API promises: something stands between, or the server is broken."""


class Refused(WeaveError):
    """The server's refusal. `rule`: the rule that refused; `fields`: sentences for each field; `current`: what the
    revisions are now; `findings`: every rule that fails.
    """

    code = ""

    def __init__(self, problem: Mapping[str, Any], status: int, retry_after: float | None = None) -> None:
        self.code = str(problem.get("code", self.code))
        self.status = status
        self.title = str(problem.get("title", ""))
        self.detail = str(problem.get("detail", ""))
        self.rule: str | None = problem.get("rule")
        self.fields: Mapping[str, Sequence[str]] = problem.get("errors", {})
        self.current: Mapping[str, Any] = problem.get("current", {})
        self.findings = tuple(Finding.read(found) for found in problem.get("findings", ()))
        self.retry_after = retry_after
        """Seconds, where the server named them."""
        self.problem = problem
        super().__init__(f"{self.code}: {self.detail}")

    def __reduce__(self) -> Any:
        return type(self), (self.problem, self.status, self.retry_after)


class Conflict(Refused):
    """409: as things are now, the act is not possible."""


class Unauthenticated(Refused):
    code = "UNAUTHENTICATED"


class PermissionDenied(Refused):
    code = "PERMISSION_DENIED"


class NotFound(Refused):
    """Also the answer for what exists but may not be seen."""

    code = "NOT_FOUND"


class ValidationFailed(Refused):
    code = "VALIDATION_FAILED"


class RevisionConflict(Conflict):
    code = "REVISION_CONFLICT"


class IdempotencyConflict(Conflict):
    code = "IDEMPOTENCY_CONFLICT"


class StateConflict(Conflict):
    code = "STATE_CONFLICT"


class InboxUnsettled(Conflict):
    code = "INBOX_UNSETTLED"


class ExecutionUnknown(Conflict):
    code = "EXECUTION_UNKNOWN"


class ExecutionUnsettled(Conflict):
    code = "EXECUTION_UNSETTLED"


class StepUnresolved(Conflict):
    code = "STEP_UNRESOLVED"


class StopRequested(Conflict):
    code = "STOP_REQUESTED"


class DeadlinePassed(Conflict):
    code = "DEADLINE_PASSED"


class BudgetExhausted(Conflict):
    code = "BUDGET_EXHAUSTED"


class ActivationLimit(Conflict):
    code = "ACTIVATION_LIMIT"


class RoundAlreadyPending(Conflict):
    code = "ROUND_ALREADY_PENDING"


class RoundsExhausted(Conflict):
    code = "ROUNDS_EXHAUSTED"


class PendingNotProven(Conflict):
    code = "PENDING_NOT_PROVEN"


class OutcomeNotAccepted(Conflict):
    code = "OUTCOME_NOT_ACCEPTED"


class DelayNotElapsed(Conflict):
    code = "DELAY_NOT_ELAPSED"


class SignalPending(Conflict):
    code = "SIGNAL_PENDING"


class WinnerExists(Conflict):
    code = "WINNER_EXISTS"


class HistoryInconsistent(Conflict):
    code = "HISTORY_INCONSISTENT"


class QuotaExceeded(Conflict):
    code = "QUOTA_EXCEEDED"


class Busy(Refused):
    """The database was busy, also after the repetitions here; the same key may be sent again."""

    code = "BUSY"


class MethodNotAllowed(Refused):
    code = "METHOD_NOT_ALLOWED"


class NotAcceptable(Refused):
    code = "NOT_ACCEPTABLE"


class UnsupportedMediaType(Refused):
    code = "UNSUPPORTED_MEDIA_TYPE"


class InternalError(Refused):
    code = "INTERNAL_ERROR"


BY_CODE: Mapping[str, type[Refused]] = {
    cls.code: cls for cls in (*Refused.__subclasses__(), *Conflict.__subclasses__()) if cls.code
}


def refusal(problem: Mapping[str, Any], status: int, retry_after: float | None = None) -> Refused:
    """The error of a problem document. A code that is newer than this package is a Conflict or a plain Refused."""
    fallback = Conflict if status == 409 else Refused
    return BY_CODE.get(str(problem.get("code")), fallback)(problem, status, retry_after)
