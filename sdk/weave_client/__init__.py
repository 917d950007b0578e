"""The client of the Weave API, version 1."""

from weave_client.calls import new_key
from weave_client.client import AsyncClient, Client
from weave_client.commands import (
    COMMANDS,
    Command,
    Continue,
    ContinuePoll,
    RearmWait,
    ResolveStep,
    RetryStep,
    ReviewTask,
    of_instance,
    of_step,
    of_task,
)
from weave_client.delivery import Retries
from weave_client.shapes import Explanation, Finding, Lease, Option, Page, Preview, Receipt, Report, Row
from weave_client.worker import Failed, Job, Unknown, Worker

__version__ = "1.0.0"

__all__ = [
    "COMMANDS",
    "AsyncClient",
    "Client",
    "Command",
    "Continue",
    "ContinuePoll",
    "Explanation",
    "Failed",
    "Finding",
    "Job",
    "Lease",
    "Option",
    "Page",
    "Preview",
    "RearmWait",
    "Receipt",
    "Report",
    "ResolveStep",
    "Retries",
    "RetryStep",
    "ReviewTask",
    "Row",
    "Unknown",
    "Worker",
    "new_key",
    "of_instance",
    "of_step",
    "of_task",
]
