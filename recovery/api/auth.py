"""Who calls: the bearer credential fixes operator and namespace (G1). A cookie neither signs in nor overrides."""

from __future__ import annotations

from django.http import HttpRequest
from ninja.security import HttpBearer

from recovery.access import credentials
from recovery.errors import Unauthenticated
from recovery.permissions import Actor


class Bearer(HttpBearer):
    """Answers the actor of `Authorization: Bearer <credential>`. Raises Unauthenticated."""

    def authenticate(self, request: HttpRequest, token: str) -> Actor:
        return credentials.authenticate(token)


bearer = Bearer()


class Call(HttpRequest):
    """A request as the routers get it."""

    auth: Actor


def actor_again(request: HttpRequest) -> Actor:
    """The actor of a call that has waited: meanwhile the credential may have ended. Raises Unauthenticated."""
    actor = bearer(request)
    if actor is None:
        raise Unauthenticated("Send a credential: Authorization: Bearer <credential>.")
    return actor
