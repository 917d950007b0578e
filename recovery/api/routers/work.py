"""The worker protocol: claim with a lease, heartbeat, and one final report for each attempt."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from ninja import Router

from recovery.api import bodies
from recovery.api.answers import answer
from recovery.api.auth import Call, actor_again
from recovery.api.endpoint import ACTING, endpoint
from recovery.api.params import Id
from recovery.api.schemas.words import ref
from recovery.api.waiting import until_some
from recovery.audit import instant
from recovery.engine import claim, report
from recovery.engine.claim import Lease
from recovery.engine.report import Report
from recovery.rows import render

router = Router(tags=["Work"])

_CODES = (*ACTING, "STATE_CONFLICT")
_REPORT = {200: ref("Report"), 202: ref("Report")}


@endpoint(
    router,
    "POST",
    "/queues/{path:name}/claim",
    "Leases",
    body="Claim",
    key="optional",
    codes=(*ACTING, "IDEMPOTENCY_CONFLICT"),
)
def claim_tasks(request: Call, name: Id) -> HttpResponse:
    """Claim tasks of a queue.

    Waits up to `wait_ms` for a first task; an empty answer is none, and may come sooner where too many wait. Each task
    is leased until `lease_expires_at`: send heartbeats, then one final report. With an Idempotency-Key, a claim that
    leased something answers the same leases again. Needs tasks:work, and queues:use on the queue.
    """
    asked = bodies.Claim.parse(bodies.sent(request))
    key = request.headers.get("Idempotency-Key")

    def look() -> list[Lease]:
        # Rights may end while a worker waits, so each look begins with the credential.
        return claim.claim(actor_again(request), name, asked.worker, asked.max_tasks, asked.handlers, key)

    return answer({"tasks": [_lease(lease) for lease in until_some(look, asked.wait_ms)]})


def _lease(lease: Lease) -> dict[str, Any]:
    attempt = lease.attempt
    return {
        "task": render(lease.task, ("input",)),
        "attempt": {
            "id": attempt.pk,
            "attempt_no": attempt.attempt_no,
            "lease_token": attempt.lease_token,
            "lease_expires_at": instant(attempt.lease_expires_at),
        },
        "input": lease.input,
    }


@endpoint(router, "POST", "/attempts/{attempt_id}/heartbeat", "Lease", body="Heartbeat", codes=_CODES)
def heartbeat(request: Call, attempt_id: Id) -> HttpResponse:
    """Extend a lease from now.

    An attempt that has ended, or another one's token, is a STATE_CONFLICT. Needs tasks:work.
    """
    said = bodies.Heartbeat.parse(bodies.sent(request))
    return answer({"lease_expires_at": instant(report.heartbeat(request.auth, attempt_id, **said.content()))})


@endpoint(router, "POST", "/attempts/{attempt_id}/succeed", _REPORT, body="Success", codes=_CODES)
def succeed(request: Call, attempt_id: Id) -> HttpResponse:
    """Report that an execution succeeded, and what it answered.

    202: the attempt had ended before; the report is kept once, as a fact only. The same report again answers as the
    first did. Needs tasks:work.
    """
    said = bodies.Success.parse(bodies.sent(request))
    return _reported(report.succeed(request.auth, attempt_id, **said.content()))


@endpoint(router, "POST", "/attempts/{attempt_id}/fail", _REPORT, body="Failure", codes=_CODES)
def fail(request: Call, attempt_id: Id) -> HttpResponse:
    """Report that an execution failed and has no further effect.

    The task is tried again where attempts are left and the error is retryable. 202 as for succeed. Needs tasks:work.
    """
    said = bodies.Failure.parse(bodies.sent(request))
    return _reported(report.fail(request.auth, attempt_id, **said.content()))


@endpoint(router, "POST", "/attempts/{attempt_id}/unknown", _REPORT, body="Doubt", codes=_CODES)
def unknown(request: Call, attempt_id: Id) -> HttpResponse:
    """Report that nobody knows what an execution did.

    It is never tried again by itself: a person reviews it. 202 as for succeed. Needs tasks:work.
    """
    said = bodies.Doubt.parse(bodies.sent(request))
    return _reported(report.unknown(request.auth, attempt_id, **said.content()))


def _reported(said: Report) -> HttpResponse:
    return answer({"late": said.late, "task_status": str(said.task_status)}, status=202 if said.late else 200)
