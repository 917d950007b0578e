"""Refusals as application/problem+json (RFC 9457), and the refusals that only HTTP knows."""

from __future__ import annotations

import logging
from typing import Any

from django.core.signals import got_request_exception
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse
from ninja.errors import ValidationError

from recovery import exact_json
from recovery.errors import Busy, DomainError, NotFound, Unauthenticated, ValidationFailed
from recovery.locks import is_contention
from recovery.operations.findings import Finding

logger = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"


class MethodNotAllowed(DomainError):
    """`allowed`: the methods that the path has."""

    code, status, title = "METHOD_NOT_ALLOWED", 405, "The path has no such method"

    def __init__(self, sentence: str, *, allowed: str) -> None:
        super().__init__(sentence)
        self.allowed = allowed


class NotAcceptable(DomainError):
    code, status, title = "NOT_ACCEPTABLE", 406, "No answer in a form that the caller accepts"


class UnsupportedMediaType(DomainError):
    code, status, title = "UNSUPPORTED_MEDIA_TYPE", 415, "The body is not JSON"


class InternalError(DomainError):
    code, status, title = "INTERNAL_ERROR", 500, "A fault of the server"


HTTP_ONLY = {cls.code: cls for cls in (MethodNotAllowed, NotAcceptable, UnsupportedMediaType, InternalError)}
"""Codes beside those of the domain, for what goes wrong before the domain is asked."""


def refused(request: HttpRequest, error: DomainError) -> HttpResponse:
    """A domain error as it is answered: the code's status, and what the caller needs to go on."""
    status, fields, detail = error.status, error.fields, str(error)
    if isinstance(error, ValidationFailed) and (unreadable := getattr(request, "unreadable", None)):
        status, fields = unreadable.status, {**fields, "body": [unreadable.problem]}
        detail = f"The body cannot be read: {unreadable.problem}."
    problem: dict[str, Any] = {
        "type": f"/api/v1/docs#{error.code}",
        "title": str(error.title),
        "status": status,
        "detail": detail,
        "code": error.code,
        "rule": error.rule or None,
    }
    if fields:
        problem["errors"] = {name: [str(sentence) for sentence in found] for name, found in fields.items()}
    if error.current:
        problem["current"] = error.current
    if error.findings:
        problem["findings"] = [finding(found) for found in error.findings]
    response = HttpResponse(exact_json.dumps(problem), status=status, content_type=MEDIA_TYPE)
    if isinstance(error, Unauthenticated):
        told = ', error="invalid_token"' if "Authorization" in request.headers else ""
        response["WWW-Authenticate"] = f'Bearer realm="weave"{told}'
    if isinstance(error, Busy):
        response["Retry-After"] = str(error.retry_after)
    if isinstance(error, MethodNotAllowed):
        response["Allow"] = error.allowed
    return response


def finding(found: Finding) -> dict[str, Any]:
    """A finding as the explanation, the preview and a refusal show it."""
    return {
        "rule": found.rule,
        "holds": "depends" if found.holds is None else found.holds,
        "found": found.found,
        "next": found.next,
        "rows": list(found.rows),
    }


def not_found(request: HttpRequest, **values: Any) -> HttpResponse:
    """For every path that the API does not have."""
    return refused(request, NotFound("The API has no such path."))


def invalid_parameters(request: HttpRequest, error: ValidationError) -> HttpResponse:
    fields: dict[str, list[str]] = {}
    for each in error.errors:
        fields.setdefault(".".join(str(part) for part in each["loc"][1:]), []).append(each["msg"])
    names = ", ".join(fields)
    return refused(request, ValidationFailed(f"These parameters are not valid: {names}.", fields=fields))


def database_failed(request: HttpRequest, error: DatabaseError) -> HttpResponse:
    """A read that met contention or a lost connection: BUSY may stand in for any answer."""
    if is_contention(error):
        return refused(request, Busy("The database was busy. Nothing was written by this call; repeat it."))
    return failed(request, error)


def failed(request: HttpRequest, error: Exception) -> HttpResponse:
    """A fault of ours: logged with its traceback, told without it."""
    logger.error("%s %s failed", request.method, request.path, exc_info=error)
    got_request_exception.send(sender=None, request=request)
    return refused(request, InternalError("The server met a fault of its own; it has been logged."))
