"""Instances: starting, finding and reading them."""

from __future__ import annotations

from typing import Annotated, Any

from django.db.models import Q, QuerySet
from django.http import HttpResponse
from ninja import Router

from recovery import definitions, permissions
from recovery.api import bodies, find
from recovery.api.answers import answer, frozen
from recovery.api.auth import Call
from recovery.api.endpoint import ACTING, READING, endpoint
from recovery.api.history import LISTS
from recovery.api.paging import DEFAULT_LIMIT, Keyset
from recovery.api.params import BusinessKeyFilter, DefinitionFilter, Id, Limit, ReasonFilter, StatusFilter, cursor_of
from recovery.api.schemas.words import ref
from recovery.engine import signals, start
from recovery.locks import snapshot
from recovery.models import (
    InstanceGate,
    StepActivation,
    WorkflowAudit,
    WorkflowDefinition,
    WorkflowInstance,
    WorkflowStep,
)
from recovery.rows import BULKY, render
from recovery.states import InstanceStatus

router = Router(tags=["Instances"])

_BY_AGE = Keyset("created_at", newest_first=True)
_BY_REVIEW = Keyset("review_since", newest_first=True)
_AUDIT = Keyset("sequence", is_unique=True)
_InstanceCursor = Annotated[str | None, cursor_of(_BY_AGE)]
_AuditCursor = Annotated[str | None, cursor_of(_AUDIT)]


@endpoint(
    router,
    "POST",
    "/instances",
    {201: ref("StartReceipt")},
    body="Start",
    key="required",
    codes=("PERMISSION_DENIED", "IDEMPOTENCY_CONFLICT", "STATE_CONFLICT", "QUOTA_EXCEEDED"),
)
def start_instance(request: Call) -> HttpResponse:
    """Start an instance of a published version.

    The answer says that it exists; what runs is seen in the instance. A business key that is taken in the application
    is a STATE_CONFLICT. Needs workflows:start.
    """
    return frozen(start.start(request.auth, bodies.key(request), bodies.sent(request)), status=201)


@endpoint(router, "GET", "/instances", "ListedInstancePage", codes=READING)
def list_instances(
    request: Call,
    status: StatusFilter = None,
    definition: DefinitionFilter = None,
    business_key: BusinessKeyFilter = None,
    review_reason: ReasonFilter = None,
    limit: Limit = DEFAULT_LIMIT,
    cursor: _InstanceCursor = None,
) -> HttpResponse:
    """List instances, the newest first.

    With `review_reason`, those that came into review last come first. Rows leave out `input` and `output`. Needs
    workflows:read.
    """
    permissions.require_reading(request.auth)
    keyset = _BY_AGE if review_reason is None else _BY_REVIEW
    parts = _parts(request, status, definition, business_key, review_reason)
    page, next_cursor = keyset.page(parts, cursor, limit, rows=WorkflowInstance.objects.defer(*BULKY))
    return answer({"items": [render(row, BULKY) for row in page], "next_cursor": next_cursor})


def _parts(
    call: Call, status: str | None, definition: str | None, business_key: str | None, review_reason: str | None
) -> list[QuerySet[WorkflowInstance]]:
    """The queries that make up the list, each in the order of an index that holds all that it asks for."""
    actor = call.auth
    of_namespace = Q(namespace_id=actor.namespace_id)
    rows = WorkflowInstance.objects.all()
    if actor.application_id is not None:
        rows = rows.filter(application_id=actor.application_id)
    if business_key is not None:
        rows = rows.filter(business_key=business_key)
    if review_reason is not None:
        # Only an instance in review has a reason.
        rows = rows.filter(of_namespace, status=InstanceStatus.NEEDS_REVIEW, review_reason=review_reason)
    if definition is not None:
        named = WorkflowDefinition.objects.filter(of_namespace, name=definition).values_list("pk", flat=True)
        rows = rows.filter(definition_id=named.first())
    else:
        rows = rows.filter(of_namespace)
    if status is not None:
        return [rows.filter(status=status)]
    if definition is not None and business_key is None and review_reason is None:
        return [rows.filter(status=each) for each in InstanceStatus.values]
    return [rows]


@endpoint(router, "GET", "/instances/{instance_id}", "Instance", codes=READING)
def read_instance(request: Call, instance_id: Id) -> HttpResponse:
    """Read an instance with its gate and its steps.

    Needs workflows:read.
    """
    with snapshot():
        return answer(_whole(find.instance(request, instance_id)))


def _whole(instance: WorkflowInstance) -> dict[str, Any]:
    definition = definitions.load(instance.definition_version_id)
    gate = InstanceGate.objects.get(instance_id=instance.pk)
    steps = {row.step_key: row for row in WorkflowStep.objects.filter(instance_id=instance.pk)}
    current = StepActivation.objects.filter(instance_id=instance.pk).values("id", "sequence", "status")
    activations = {row["id"]: row for row in current}
    pinned = {key: steps[key] for key in definition.steps if key in steps}
    return render(instance) | {
        "gate": {"state": gate.state, "generation": str(gate.generation)},
        "definition": {"name": definition.name, "version": definition.version},
        "steps": [
            render(row) | {"current_activation": activations.get(row.current_activation_id or "")}
            for row in (pinned | steps).values()
        ],
    }


@endpoint(router, "GET", "/instances/{instance_id}/history", "History", codes=READING)
def read_history(request: Call, instance_id: Id, limit: Limit = DEFAULT_LIMIT) -> HttpResponse:
    """Read what happened: the first page of every list.

    The next pages are at /instances/{instance_id}/history/{name}. Needs workflows:read.
    """
    with snapshot():
        find.instance(request, instance_id)
        return answer({name: _page(name, instance_id, None, limit) for name in LISTS})


def _page(name: str, instance_id: str, cursor: str | None, limit: int) -> dict[str, Any]:
    rows, next_cursor = LISTS[name].keyset.page([LISTS[name].of(instance_id)], cursor, limit)
    return {"items": [render(row) for row in rows], "next_cursor": next_cursor}


def _add_list(name: str) -> None:
    def read(request: Call, instance_id: Id, limit: Limit = DEFAULT_LIMIT, cursor: str | None = None) -> HttpResponse:
        find.instance(request, instance_id)
        return answer(_page(name, instance_id, cursor, limit))

    read.__annotations__["cursor"] = Annotated[str | None, cursor_of(LISTS[name].keyset)]
    read.__name__ = f"list_{name}"
    read.__doc__ = f"List the {name.replace('_', ' ')} of an instance, the oldest first.\n\nNeeds workflows:read."
    component = f"{LISTS[name].model.__name__}Page"
    endpoint(router, "GET", f"/instances/{{instance_id}}/history/{name}", component, codes=READING)(read)


for _name in LISTS:
    _add_list(_name)


@endpoint(router, "GET", "/instances/{instance_id}/audit", "WorkflowAuditPage", codes=ACTING)
def list_audit(
    request: Call, instance_id: Id, limit: Limit = DEFAULT_LIMIT, cursor: _AuditCursor = None
) -> HttpResponse:
    """List the audit entries of an instance in their order.

    Each entry's hash covers its content and the hash before it; the instance holds the last one in `audit_head`. Needs
    workflows:read and audit:read.
    """
    find.instance(request, instance_id, permissions.READ_AUDIT)
    page, next_cursor = _AUDIT.page([WorkflowAudit.objects.filter(instance_id=instance_id)], cursor, limit)
    return answer({"items": [render(row) for row in page], "next_cursor": next_cursor})


@endpoint(
    router,
    "POST",
    "/instances/{instance_id}/signals",
    {202: ref("Signal")},
    body="SendSignal",
    codes=(*ACTING, "STATE_CONFLICT", "IDEMPOTENCY_CONFLICT"),
)
def send_signal(request: Call, instance_id: Id) -> HttpResponse:
    """Send a signal to a step.

    It is kept at once and adjudicated later, by when it was accepted. The same source key for the same step and
    generation answers the first signal again; with other content it is an IDEMPOTENCY_CONFLICT. Needs signals:send.
    """
    return answer(render(signals.accept(request.auth, instance_id, bodies.sent(request))), status=202)
