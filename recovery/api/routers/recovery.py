"""Recovery: what may be decided and why not, the six operations, and their receipts."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from ninja import Router

from recovery import operations
from recovery.api import bodies, problems, receipts
from recovery.api.answers import answer, frozen
from recovery.api.auth import Call
from recovery.api.endpoint import ACTING, READING, endpoint
from recovery.api.params import DryRun, Id, StepKeyFilter, TaskIdFilter
from recovery.api.schemas.words import ref
from recovery.errors import BY_CODE
from recovery.operations import REGISTRY
from recovery.operations.base import Operation
from recovery.receipts import check_key
from recovery.rows import value

router = Router(tags=["Recovery"])

_CODES = tuple(code for code, error in BY_CODE.items() if error.status in (403, 404, 409))
"""An operation's rules may answer any conflict that the domain knows."""

_ABOUT = {
    "review-task": "State what a task of unknown effect really did.",
    "resolve-step": "Conclude a step by hand.",
    "continue-poll": "Let a query go on whose last answer was PENDING.",
    "rearm-wait": "Let a SIGNAL or TIMER wait again, with the same deadline.",
    "retry-step": "Try a TASK or POLL again, with the attempts that are left.",
    "continue": "End the review of an instance.",
}


@endpoint(router, "GET", "/instances/{instance_id}/recovery", "Explanation", codes=READING)
def explain_recovery(
    request: Call, instance_id: Id, step_key: StepKeyFilter = None, task_id: TaskIdFilter = None
) -> HttpResponse:
    """Explain what may be decided: each operation on each target, with every rule and its finding.

    The same rules as those of the operations, on one consistent snapshot; what is missing in rights is a finding too.
    Needs workflows:read.
    """
    explained = operations.explain(request.auth, instance_id, step_key=step_key, task_id=task_id)
    options = [
        {
            "operation": option.operation,
            "target": option.target,
            "allowed": option.allowed,
            "code": option.code,
            "findings": [problems.finding(found) for found in option.findings],
        }
        for option in explained.options
    ]
    revision = str(explained.case.instance.revision)
    return answer({"revision": revision, "operations": options, "hidden": explained.hidden})


def _add_operation(operation: Operation) -> None:
    def decide(request: Call, instance_id: Id, dry_run: DryRun = False) -> HttpResponse:
        command = bodies.sent(request)
        key = bodies.key(request)
        if not dry_run:
            return frozen(operations.execute(request.auth, operation.slug, instance_id, key, command))
        previewed = operations.preview(request.auth, operation.slug, instance_id, command)
        if "Idempotency-Key" in request.headers:  # it is not taken, but what is sent has to be one
            check_key(key)
        return answer(_preview(previewed))

    decide.__name__ = operation.action
    decide.__doc__ = (
        f"{operation.name}: {_ABOUT[operation.slug]}\n\n"
        "The answer is the frozen receipt; the same key with the same command answers it again, byte for byte. "
        "With `dry_run=true`, a preview: where a rule would refuse, `allowed` is false. "
        "Needs workflows:recover, and queues:use on every queue of the pinned version."
    )
    endpoint(
        router,
        "POST",
        f"/instances/{{instance_id}}/recovery/{operation.slug}",
        {200: {"oneOf": [ref("RecoveryReceipt"), ref("Preview")]}},
        body=operation.name,
        key="required",
        codes=_CODES,
    )(decide)


for _operation in REGISTRY.values():
    _add_operation(_operation)


def _preview(preview: operations.Preview) -> dict[str, Any]:
    return {
        "allowed": preview.allowed,
        "findings": [problems.finding(found) for found in preview.findings],
        "changes": [
            {"entity": entity, "id": key, "field": name, "before": value(name, before), "after": value(name, after)}
            for entity, key, name, before, after in preview.changes
        ],
        "created": [
            {"entity": entity, "fields": {name: value(name, given) for name, given in fields.items()}}
            for entity, fields in preview.created
        ],
    }


@endpoint(router, "GET", "/operations/{path:operation_key}", "Receipt", codes=ACTING)
def read_receipt(request: Call, operation_key: Id) -> HttpResponse:
    """Read the frozen receipt of an operation key.

    A key is percent-encoded in the path, also its `/`. Needs what the act itself needed.
    """
    return frozen(receipts.read(request.auth, operation_key))
