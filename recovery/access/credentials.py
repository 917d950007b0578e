"""Credentials of programs: 256 random bits that are shown once, and what is kept of them."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.db import DatabaseError
from django.db.models import OuterRef, Subquery
from django.utils.translation import gettext as _

from recovery import clock, permissions
from recovery.access import holders
from recovery.access.grants import check_end, check_reason
from recovery.access.ledger import Ledger, change
from recovery.audit import instant
from recovery.errors import NotFound, StateConflict, Unauthenticated, ValidationFailed
from recovery.locks import is_contention
from recovery.models import AccessLog, Application, Credential, CredentialUse
from recovery.operations import commands
from recovery.permissions import Actor
from recovery.writes import change as write
from recovery.writes import insert

PREFIX = "weave"
"""Begins every token, so that programs that look for leaked secrets find it."""

_TOKEN = re.compile(rf"{PREFIX}_([0-9a-f]{{32}})_([A-Za-z0-9_-]{{43}})\Z", re.ASCII)

USE_STEP = timedelta(minutes=1)
"""How exactly the last use is kept: a busy worker does not write a row with every request."""

MAX_LABEL = 128
"""Characters of a label."""

_NOBODY = "0" * 64
"""What an unknown credential is compared with, so that the answer takes as long as for a known one."""


@dataclass(frozen=True)
class Issued:
    """A credential and its token. The token is nowhere else, and cannot be had again."""

    credential: Credential
    token: str

    def as_printed(self, namespace: str, user: str) -> dict[str, str]:
        """As commands print it, once (contract: "Provisioning")."""
        row = self.credential
        return {"namespace": namespace, "user": user, "label": row.label, "id": row.pk, "token": self.token}


def authenticate(token: str) -> Actor:
    """Who carries this token (G1), in one statement; a second one, once a minute, notes that it was used.

    Raises Unauthenticated for a token that is malformed, unknown, expired or revoked, or whose account is not active.
    Says nothing about rights, nor whether the namespace or the application is suspended.
    """
    parts = _TOKEN.match(token)
    if parts is None:
        raise Unauthenticated(_("This is no credential of this system."), rule="G1")
    account = get_user_model()._default_manager.filter(pk=OuterRef("user"), is_active=True)
    used = CredentialUse.objects.filter(credential_id=OuterRef("pk"))
    row = (
        Credential.objects.filter(pk=parts[1])
        .annotate(
            username=Subquery(account.values("username")),
            last_used_at=Subquery(used.values("last_used_at")),
        )
        .first()
    )
    if not hmac.compare_digest(_hash(parts[2]), row.secret_hash if row else _NOBODY) or row is None:
        raise Unauthenticated(_("This credential is not known."), rule="G1")
    now = clock.now()
    if row.revoked_at is not None:
        raise Unauthenticated(_("This credential was revoked."), rule="G1")
    if row.expires_at is not None and row.expires_at <= now:
        raise Unauthenticated(_("This credential has expired."), rule="G1")
    if row.username is None:
        raise Unauthenticated(_("The account of this credential is not active."), rule="G1")
    _note_use(row.pk, row.last_used_at, now)
    return Actor(
        user_id=row.user,
        username=row.username,
        namespace_id=row.namespace_id,
        application_id=row.application_id,
        credential_id=row.pk,
    )


def _note_use(credential_id: str, last: datetime | None, now: datetime) -> None:
    if last is not None and now - last < USE_STEP:
        return
    try:
        if last is None:
            CredentialUse.objects.bulk_create(
                [CredentialUse(credential_id=credential_id, last_used_at=now)], ignore_conflicts=True
            )
        else:
            CredentialUse.objects.filter(pk=credential_id).update(last_used_at=now)
    except DatabaseError as error:
        # A busy database must not turn a caller away over a note.
        if not is_contention(error):
            raise


def create(
    actor: Actor,
    username: str,
    label: str,
    *,
    application: str | None = None,
    expires_at: datetime | None = None,
    reason: str,
) -> Issued:
    """Makes a credential of the actor's namespace that carries the rights of an account.

    `application`: the name of the only application it may act for. Raises ValidationFailed.
    """

    def work(ledger: Ledger) -> Issued:
        permissions.require_administration(actor)
        return make(ledger, actor.namespace_id, username, label, application, expires_at, reason)

    return change(actor.username, work)


def rotate(actor: Actor, credential_id: str, *, reason: str) -> Issued:
    """Gives a credential a new secret; the old one is refused from then on. Raises NotFound, StateConflict."""
    check_reason(reason)

    def work(ledger: Ledger) -> Issued:
        row = _locked(actor, credential_id)
        token = _new_secret(row)
        write(row, secret_hash=row.secret_hash)
        _enter(ledger, "rotate_credential", row, reason, before=as_logged(row), after=as_logged(row))
        return Issued(row, token)

    return change(actor.username, work)


def revoke(actor: Actor, credential_id: str, *, reason: str) -> list[AccessLog]:
    """Ends a credential for good. Raises NotFound, StateConflict."""
    check_reason(reason)

    def work(ledger: Ledger) -> list[AccessLog]:
        withdraw(ledger, _locked(actor, credential_id), reason)
        return ledger.entries

    return change(actor.username, work)


# Parts that commands share


def make(
    ledger: Ledger,
    namespace_id: str,
    username: str,
    label: str,
    application: str | None,
    expires_at: datetime | None,
    reason: str,
) -> Issued:
    """Checks what was typed, and issues. Raises ValidationFailed."""
    check_reason(reason)
    check_end(expires_at, ledger.now)
    try:
        commands.label(label, MAX_LABEL)
    except commands.Invalid as error:
        raise ValidationFailed(str(error), fields={"label": [str(error)]}) from None
    person = holders.holder("user", username)
    if find(namespace_id, person.pk, label) is not None:
        sentence = _("This account has a credential of this label. Rotate or revoke that one, or choose another label.")
        raise ValidationFailed(sentence, fields={"label": [sentence]})
    limit = find_application(namespace_id, application)
    return issue(ledger, namespace_id, person, label, limit, expires_at, reason)


def issue(
    ledger: Ledger,
    namespace_id: str,
    person: Any,
    label: str,
    application: Application | None,
    expires_at: datetime | None,
    reason: str,
) -> Issued:
    """Inserts a credential and its entry in the log."""
    row = Credential(
        namespace_id=namespace_id,
        application=application,
        user=person.pk,
        label=label,
        expires_at=expires_at,
        created_at=ledger.now,
    )
    token = _new_secret(row)
    insert(row)
    _enter(ledger, "create_credential", row, reason, after=as_logged(row))
    return Issued(row, token)


def alter(
    ledger: Ledger, row: Credential, application: Application | None, expires_at: datetime | None, reason: str
) -> None:
    """Changes what a credential is limited to."""
    before = as_logged(row)
    write(row, application=application, expires_at=expires_at)
    _enter(ledger, "change_credential", row, reason, before=before, after=as_logged(row))


def withdraw(ledger: Ledger, row: Credential, reason: str) -> None:
    """Revokes a credential."""
    before = as_logged(row)
    write(row, revoked_at=ledger.now)
    _enter(ledger, "revoke_credential", row, reason, before=before, after=as_logged(row))


def find(namespace_id: str, user_id: int, label: str) -> Credential | None:
    """The credential of that label which is not revoked: a label names at most one of an account."""
    rows = Credential.objects.select_related("application").filter(namespace_id=namespace_id, revoked_at=None)
    return rows.filter(user=user_id, label=label).first()


def find_application(namespace_id: str, name: str | None) -> Application | None:
    """The application of that name, None for None. Raises ValidationFailed."""
    if name is None:
        return None
    found = Application.objects.filter(namespace_id=namespace_id, name=name).first()
    if found is None:
        sentence = _("This namespace has no such application.")
        raise ValidationFailed(sentence, fields={"application": [sentence]})
    return found


def as_logged(row: Credential) -> dict[str, Any]:
    """A credential as the log keeps it: never its secret, nor the hash of it."""
    return {
        "credential": row.pk,
        "label": row.label,
        "application": row.application.name if row.application else None,
        "expires_at": row.expires_at and instant(row.expires_at),
        "revoked_at": row.revoked_at and instant(row.revoked_at),
    }


def _locked(actor: Actor, credential_id: str) -> Credential:
    permissions.require_administration(actor)
    rows = Credential.objects.select_related("application").filter(namespace_id=actor.namespace_id)
    row = rows.filter(pk=credential_id).first()
    if row is None:
        raise NotFound(_("There is nothing here that you may see."))
    if row.revoked_at is not None:
        raise StateConflict(_("This credential was revoked. Make a new one instead."))
    return row


def _enter(ledger: Ledger, action: str, row: Credential, reason: str, before: Any = None, after: Any = None) -> None:
    person = get_user_model()._default_manager.filter(pk=row.user).first()
    ledger.enter(action, reason=reason, namespace_id=row.namespace_id, subject=person, before=before, after=after)


def _new_secret(row: Credential) -> str:
    """Puts the hash of a new secret into the row, and answers the token."""
    secret = secrets.token_urlsafe(32)
    row.secret_hash = _hash(secret)
    return f"{PREFIX}_{row.pk}_{secret}"


def _hash(secret: str) -> str:
    # No salt and no stretching: nobody guesses one of 256 random bits.
    return hashlib.sha256(secret.encode()).hexdigest()
