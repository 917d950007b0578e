"""Control: pause, resume and cancel, and cancelling a task that has not started."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpResponse
from ninja import Router

from recovery import permissions
from recovery.api import bodies, find
from recovery.api.answers import answer, frozen
from recovery.api.auth import Call
from recovery.api.endpoint import ACTING, endpoint
from recovery.api.params import Id
from recovery.engine import cancel_task as tasks
from recovery.engine import control
from recovery.engine.cancel_task import CancelTask
from recovery.engine.control import Control
from recovery.receipts import Receipt
from recovery.rows import render

router = Router(tags=["Control"])

_CODES = (*ACTING, "REVISION_CONFLICT", "IDEMPOTENCY_CONFLICT", "STATE_CONFLICT")


@endpoint(
    router, "POST", "/instances/{instance_id}/pause", "ControlReceipt", body="Control", key="required", codes=_CODES
)
def pause(request: Call, instance_id: Id) -> HttpResponse:
    """Pause an instance.

    No new work is granted until it is resumed; what runs goes on. Never holds up a stop. Needs workflows:pause.
    """
    return _control(request, instance_id, permissions.PAUSE, control.pause)


@endpoint(
    router, "POST", "/instances/{instance_id}/resume", "ControlReceipt", body="Control", key="required", codes=_CODES
)
def resume(request: Call, instance_id: Id) -> HttpResponse:
    """End a pause.

    During a review the gate stays closed: only Continue ends a review. Needs workflows:pause.
    """
    return _control(request, instance_id, permissions.PAUSE, control.resume)


@endpoint(
    router,
    "POST",
    "/instances/{instance_id}/cancel",
    "ControlReceipt",
    body="Control",
    key="required",
    codes=(*_CODES, "STOP_REQUESTED"),
)
def cancel(request: Call, instance_id: Id) -> HttpResponse:
    """Cancel an instance.

    Records the intent to stop; the instance ends once all its work is settled. A review stays. Needs workflows:cancel.
    """
    return _control(request, instance_id, permissions.CANCEL, control.cancel)


def _control(call: Call, instance_id: str, right: str, act: Callable[..., Receipt]) -> HttpResponse:
    # Who may act is asked before what was said is read: an outsider learns nothing from a wrong body.
    find.instance(call, instance_id, right)
    asked = Control.parse(bodies.sent(call))
    return frozen(act(call.auth, bodies.key(call), instance_id, **asked.content()))


@endpoint(
    router,
    "POST",
    "/tasks/{task_id}/cancel",
    "Task",
    body="CancelTask",
    codes=(*ACTING, "REVISION_CONFLICT", "STATE_CONFLICT"),
)
def cancel_task(request: Call, task_id: Id) -> HttpResponse:
    """Cancel a task that has not started.

    Needs tasks:cancel.
    """
    find.task(request, task_id, permissions.CANCEL_TASKS)
    asked = CancelTask.parse(bodies.sent(request))
    return answer(render(tasks.cancel_task(request.auth, task_id, **asked.content())))
