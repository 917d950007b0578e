"""One class per failure of the domain: code, HTTP status, rule, facts, sentence (docs/recovery.md, Errors).

Nobody catches these but the middleware of the pages and the exception handler of the API.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.utils.translation import gettext_lazy as _


class DomainError(Exception):
    """A refusal. `sentence` says what was found and what to do next; `rule` names the rule that refused.

    `current`: what the revisions are now (REVISION_CONFLICT). `findings`: every rule that failed (G15).
    """

    code = ""
    status = 409
    title: Any = ""

    def __init__(
        self,
        sentence: Any,
        *,
        rule: str = "",
        current: Mapping[str, Any] | None = None,
        findings: Sequence[Any] = (),
        fields: Mapping[str, Sequence[Any]] | None = None,
    ) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.rule = rule
        self.current = dict(current or {})
        self.findings = tuple(findings)
        self.fields = {name: list(problems) for name, problems in (fields or {}).items()}

    def __str__(self) -> str:
        return str(self.sentence)


class Unauthenticated(DomainError):
    code, status, title = "UNAUTHENTICATED", 401, _("Sign in first")


class PermissionDenied(DomainError):
    code, status, title = "PERMISSION_DENIED", 403, _("Permission is missing")


class NotFound(DomainError):
    """Also the answer for what exists but may not be seen."""

    code, status, title = "NOT_FOUND", 404, _("Not found")


class ValidationFailed(DomainError):
    """`fields`: field name -> sentences."""

    code, status, title = "VALIDATION_FAILED", 422, _("The command is not valid")


class RevisionConflict(DomainError):
    code, title = "REVISION_CONFLICT", _("Facts are newer")


class IdempotencyConflict(DomainError):
    code, title = "IDEMPOTENCY_CONFLICT", _("The key was used for another command")


class StateConflict(DomainError):
    code, title = "STATE_CONFLICT", _("Not possible in this state")


class InboxUnsettled(DomainError):
    code, title = "INBOX_UNSETTLED", _("The inbox is not settled")


class ExecutionUnknown(DomainError):
    code, title = "EXECUTION_UNKNOWN", _("An effect is unknown")


class ExecutionUnsettled(DomainError):
    code, title = "EXECUTION_UNSETTLED", _("An execution has not ended")


class StepUnresolved(DomainError):
    code, title = "STEP_UNRESOLVED", _("A step is not resolved")


class StopRequested(DomainError):
    code, title = "STOP_REQUESTED", _("A stop was requested")


class DeadlinePassed(DomainError):
    code, title = "DEADLINE_PASSED", _("A deadline has passed")


class BudgetExhausted(DomainError):
    code, title = "BUDGET_EXHAUSTED", _("No attempts are left")


class ActivationLimit(DomainError):
    code, title = "ACTIVATION_LIMIT", _("No activations are left")


class RoundAlreadyPending(DomainError):
    code, title = "ROUND_ALREADY_PENDING", _("The round answered pending")


class RoundsExhausted(DomainError):
    code, title = "ROUNDS_EXHAUSTED", _("No rounds are left")


class PendingNotProven(DomainError):
    code, title = "PENDING_NOT_PROVEN", _("A pending answer is not proven")


class OutcomeNotAccepted(DomainError):
    code, title = "OUTCOME_NOT_ACCEPTED", _("The contract does not accept this output")


class DelayNotElapsed(DomainError):
    code, title = "DELAY_NOT_ELAPSED", _("The delay has not passed")


class SignalPending(DomainError):
    code, title = "SIGNAL_PENDING", _("A signal is waiting")


class WinnerExists(DomainError):
    code, title = "WINNER_EXISTS", _("A signal has already won")


class HistoryInconsistent(DomainError):
    code, title = "HISTORY_INCONSISTENT", _("The history does not fit together")


class QuotaExceeded(DomainError):
    code, title = "QUOTA_EXCEEDED", _("The quota is full")


class Busy(DomainError):
    """Lock waits or deadlocks persisted after the bounded retries; repeat with the same key."""

    code, status, title = "BUSY", 503, _("The system is busy")
    retry_after = 1  # seconds


BY_CODE: dict[str, type[DomainError]] = {cls.code: cls for cls in DomainError.__subclasses__()}
