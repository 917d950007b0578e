"""Credentials as the pages draw them: never a secret, nor its hash."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib.auth import get_user_model
from django.db.models import OuterRef, QuerySet, Subquery
from django.utils.translation import gettext as _

from recovery.console.words import Mark
from recovery.models import Credential, CredentialUse

PAGE = 50


@dataclass(frozen=True)
class Line:
    """One credential. `account`: whose rights it carries; `mark`: whether it can be used."""

    row: Credential
    account: str
    mark: Mark
    last_used_at: datetime | None


def listed(namespace_id: str, now: datetime, *, after: str = "") -> tuple[list[Line], str]:
    """The next page, newest first, and the id that the one after it begins below; "" where there is none."""
    rows = _rows().filter(namespace_id=namespace_id)
    if after:
        rows = rows.filter(pk__lt=after)
    found = list(rows.order_by("-pk")[: PAGE + 1])
    return [_line(row, now) for row in found[:PAGE]], found[PAGE - 1].pk if len(found) > PAGE else ""


def of_person(namespace_id: str, person: Any, now: datetime) -> list[Line]:
    """Those that carry the rights of one account, newest first."""
    rows = _rows().filter(user=person.pk, namespace_id=namespace_id)
    return [_line(row, now) for row in rows.order_by("-pk")[:PAGE]]


def one(namespace_id: str, credential_id: str, now: datetime) -> Line | None:
    row = _rows().filter(namespace_id=namespace_id, pk=credential_id).first()
    return None if row is None else _line(row, now)


def _rows() -> QuerySet[Any]:
    accounts = get_user_model()._default_manager.filter(pk=OuterRef("user"))
    used = CredentialUse.objects.filter(credential_id=OuterRef("pk"))
    return Credential.objects.select_related("application").annotate(
        account=Subquery(accounts.values("username")),
        is_active=Subquery(accounts.values("is_active")),
        last_used_at=Subquery(used.values("last_used_at")),
    )


def _line(row: Any, now: datetime) -> Line:
    if row.revoked_at is not None:
        mark = Mark("cancelled", _("revoked"))
    elif row.expires_at is not None and row.expires_at <= now:
        mark = Mark("cancelled", _("expired"))
    elif not row.is_active:
        mark = Mark("block", _("account is not active"))
    else:
        mark = Mark("ok", _("usable"))
    return Line(row, row.account or str(row.user), mark, row.last_used_at)
