"""The 35 entities by topic. Chinese comments come from the catalogue in docs/entities.txt."""

from recovery.models.access import NamespaceGroupGrant, NamespaceUserGrant, QueueGroupGrant, QueueUserGrant
from recovery.models.console import RunnerBeat
from recovery.models.definition import DefinitionQueue, DefinitionVersion, StepDefinition, WorkflowDefinition
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
    "NamespaceGroupGrant",
    "NamespaceUserGrant",
    "QueueGroupGrant",
    "QueueUserGrant",
    "RunnerBeat",
    "ActivationTask",
    "Application",
    "ApplicationQuota",
    "Credential",
    "DefinitionQueue",
    "DefinitionVersion",
    "ExecutionAudit",
    "ExecutionPermit",
    "InboxEvent",
    "InstanceGate",
    "ManagementOperation",
    "Namespace",
    "OperationReceipt",
    "PollBudget",
    "PollRound",
    "PollState",
    "Queue",
    "QueueQuota",
    "QuotaHold",
    "ResultEvent",
    "ResultStream",
    "RootContinuation",
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
