"""The 35 entities by topic. Chinese comments come from the catalogue in docs/entities.txt."""

from recovery.models.access import (
    AccessLedger,
    AccessLog,
    CredentialUse,
    NamespaceGroupGrant,
    NamespaceUserGrant,
    QueueGroupGrant,
    QueueUserGrant,
)
from recovery.models.console import RunnerBeat, SavedView, SignInFailure
from recovery.models.definition import DefinitionQueue, DefinitionVersion, StepDefinition, WorkflowDefinition
from recovery.models.evidence import EvidenceBundle, EvidenceItem, EvidenceWithdrawal
from recovery.models.instance import (
    ActivationTask,
    InstanceGate,
    RootContinuation,
    StepActivation,
    WorkflowInstance,
    WorkflowStep,
)
from recovery.models.management import ManagementOperation, OperationReceipt, WorkflowAudit
from recovery.models.pulse import (
    ExecutionAudit,
    ExecutionPermit,
    ResultEvent,
    ResultStream,
    Task,
    TaskAttempt,
    TaskResult,
)
from recovery.models.tenancy import Application, ApplicationQuota, Credential, Namespace, Queue, QueueQuota, QuotaHold
from recovery.models.waiting import (
    InboxEvent,
    PollBudget,
    PollRound,
    PollState,
    Signal,
    StepCheckpoint,
    StepClock,
    WaitState,
)

__all__ = [
    "AccessLedger",
    "AccessLog",
    "ActivationTask",
    "Application",
    "ApplicationQuota",
    "Credential",
    "CredentialUse",
    "DefinitionQueue",
    "DefinitionVersion",
    "EvidenceBundle",
    "EvidenceItem",
    "EvidenceWithdrawal",
    "ExecutionAudit",
    "ExecutionPermit",
    "InboxEvent",
    "InstanceGate",
    "ManagementOperation",
    "Namespace",
    "NamespaceGroupGrant",
    "NamespaceUserGrant",
    "OperationReceipt",
    "PollBudget",
    "PollRound",
    "PollState",
    "Queue",
    "QueueGroupGrant",
    "QueueQuota",
    "QueueUserGrant",
    "QuotaHold",
    "ResultEvent",
    "ResultStream",
    "RootContinuation",
    "RunnerBeat",
    "SavedView",
    "SignInFailure",
    "Signal",
    "StepActivation",
    "StepCheckpoint",
    "StepClock",
    "StepDefinition",
    "Task",
    "TaskAttempt",
    "TaskResult",
    "WaitState",
    "WorkflowAudit",
    "WorkflowDefinition",
    "WorkflowInstance",
    "WorkflowStep",
]
