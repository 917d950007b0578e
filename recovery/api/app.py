"""The API object: routers, authentication, and the one place that turns errors into answers."""

from __future__ import annotations

from typing import Any

from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse
from ninja import NinjaAPI
from ninja.errors import AuthenticationError, ValidationError

from recovery.api import problems
from recovery.api.auth import bearer
from recovery.api.routers import control, definitions, evidence, instances, recovery, work
from recovery.errors import DomainError, Unauthenticated

api = NinjaAPI(
    title="Weave",
    version="1.0.0",
    description=(
        "Workflows that recover: definitions, instances, the worker protocol, and the six recovery operations. "
        "Every path needs a credential (Authorization: Bearer ...), which fixes the namespace and the operator."
    ),
    docs_url=None,
    openapi_url=None,
    auth=bearer,
    urls_namespace="api",
)
for _module in (definitions, instances, recovery, evidence, control, work):
    api.add_router("", _module.router)


def _nobody(request: HttpRequest, error: AuthenticationError) -> HttpResponse:
    sentence = "Send a credential: Authorization: Bearer <credential>."
    return problems.refused(request, Unauthenticated(sentence, rule="G1"))


_HANDLERS: dict[type[Exception], Any] = {
    DomainError: problems.refused,
    AuthenticationError: _nobody,
    ValidationError: problems.invalid_parameters,
    DatabaseError: problems.database_failed,
    Exception: problems.failed,
}
for _error, _handler in _HANDLERS.items():
    api.add_exception_handler(_error, _handler)
