"""Definitions: publishing and reading versions."""

from __future__ import annotations

from typing import Annotated, Any

from django.db.models import Max
from django.http import HttpResponse
from django.utils.translation import gettext as _
from ninja import Router

from recovery import definitions, permissions
from recovery.api import bodies
from recovery.api.answers import answer, frozen
from recovery.api.auth import Call
from recovery.api.endpoint import READING, endpoint
from recovery.api.paging import DEFAULT_LIMIT, Keyset
from recovery.api.params import Id, Limit, cursor_of
from recovery.api.schemas.words import ref
from recovery.api.trees import tree
from recovery.engine import publish
from recovery.errors import NotFound
from recovery.models import DefinitionVersion, WorkflowDefinition
from recovery.rows import render

router = Router(tags=["Definitions"])

_BY_NAME = Keyset("name", is_unique=True)
_Cursor = Annotated[str | None, cursor_of(_BY_NAME)]


@endpoint(
    router,
    "POST",
    "/definitions",
    {200: ref("PublishReceipt"), 201: ref("PublishReceipt")},
    body="Definition",
    key="required",
    codes=("PERMISSION_DENIED", "IDEMPOTENCY_CONFLICT"),
)
def publish_definition(request: Call) -> HttpResponse:
    """Publish a version.

    201: a new version. 200: the same content was published before; the answer names the version that has it.
    Needs definitions:publish.
    """
    receipt = publish.publish(request.auth, bodies.key(request), bodies.sent(request))
    return frozen(receipt, status=201 if receipt.data["created"] else 200)


@endpoint(router, "GET", "/definitions", "ListedDefinitionPage", codes=READING)
def list_definitions(request: Call, limit: Limit = DEFAULT_LIMIT, cursor: _Cursor = None) -> HttpResponse:
    """List definitions by name.

    Needs workflows:read.
    """
    permissions.require_reading(request.auth)
    rows = WorkflowDefinition.objects.filter(namespace_id=request.auth.namespace_id)
    page, next_cursor = _BY_NAME.page([rows], cursor, limit)
    latest = _latest([row.pk for row in page])
    items = [render(row) | {"latest_version": latest[row.pk]} for row in page]
    return answer({"items": items, "next_cursor": next_cursor})


def _latest(definition_ids: list[str]) -> dict[str, int]:
    versions = DefinitionVersion.objects.filter(definition_id__in=definition_ids).order_by()
    return dict(versions.values("definition_id").annotate(latest=Max("version")).values_list("definition_id", "latest"))


@endpoint(router, "GET", "/definitions/{path:name}/versions/{version}", "DefinitionVersion", codes=READING)
def read_definition_version(request: Call, name: Id, version: Id) -> HttpResponse:
    """Read a version of a definition.

    A name is percent-encoded in the path, also its `/`. `root` is what publishing takes. Needs workflows:read.
    """
    permissions.require_reading(request.auth)
    row = _find(request.auth.namespace_id, name, version)
    definition = definitions.load(row.pk)
    shown: dict[str, Any] = render(row) | {"name": definition.name, "root": tree(definition)}
    return answer(shown)


def _find(namespace_id: str, name: str, version: str) -> DefinitionVersion:
    row = None
    if version.isascii() and version.isdecimal() and len(version) < 10:
        known = DefinitionVersion.objects.filter(definition__namespace_id=namespace_id, definition__name=name)
        row = known.filter(version=int(version)).first()
    if row is None:
        raise NotFound(_("This namespace has no such version of a definition."))
    return row
