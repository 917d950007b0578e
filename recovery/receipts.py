"""Operation keys and frozen receipts: what makes every keyed call safe to repeat (G4)."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils.translation import gettext as _

from recovery import exact_json
from recovery.errors import IdempotencyConflict, ValidationFailed
from recovery.locks import Locks
from recovery.models import ManagementOperation, OperationReceipt
from recovery.writes import insert

_KEY = re.compile(r"[\x21-\x7e]{1,128}\Z")


@dataclass(frozen=True)
class Receipt:
    """A frozen answer. `data` as committed; `body` the very bytes of the first answer; `replayed`: not the first."""

    data: dict[str, Any]
    replayed: bool

    @property
    def body(self) -> str:
        return exact_json.dumps(self.data)


def new_key() -> str:
    """A key nobody else has: made when a form is rendered, so that a double click repeats instead of acting twice."""
    return secrets.token_urlsafe(24)


def check_key(key: Any) -> str:
    """G3: 1 to 128 visible ASCII characters. Raises ValidationFailed."""
    if not isinstance(key, str) or not _KEY.match(key):
        raise ValidationFailed(
            _("The operation key is not valid."),
            rule="G3",
            fields={"operation_key": [_("1 to 128 visible ASCII characters, no blanks.")]},
        )
    return key


def command_digest(action: str, instance_id: str | None, command: Mapping[str, Any]) -> str:
    """What makes two commands the same: action, instance and canonical content; not the person (G4)."""
    return exact_json.digest({"action": action, "instance_id": instance_id, "command": dict(command)})


def find(namespace_id: str, key: str, digest: str) -> Receipt | None:
    """The receipt of a key, when its command was the same. One unlocked statement.

    Raises IdempotencyConflict when the key belongs to another command.
    """
    row = (
        OperationReceipt.objects.filter(operation__namespace_id=namespace_id, operation__operation_key=key)
        .values_list("response", "operation__command_digest")
        .first()
    )
    if row is None:
        return None
    response, known = row
    if known != digest:
        raise IdempotencyConflict(
            _("This operation key was used for another command. Look at its receipt, or act with a new key."),
            rule="G4",
        )
    return Receipt(response, replayed=True)


def claim(
    locks: Locks,
    *,
    namespace_id: str,
    key: str,
    action: str,
    digest: str,
    actor: str,
    instance_id: str | None,
    now: datetime,
) -> ManagementOperation:
    """Claims a key by inserting its operation row, before anything but the application quota is locked.

    Of two callers with one new key the second waits here for the first, meets the unique key, and `locks.transact`
    tries again; its `before` then finds the receipt.
    """
    locks.enter(ManagementOperation)
    operation = ManagementOperation(
        namespace_id=namespace_id,
        operation_key=key,
        action=action,
        command_digest=digest,
        actor=actor,
        instance_id=instance_id,
        created_at=now,
    )
    insert(operation)
    return operation


def freeze(
    operation: ManagementOperation, response: Mapping[str, Any], instance_revision: int, now: datetime
) -> Receipt:
    """Stores the answer of the first success for ever."""
    receipt = OperationReceipt(
        operation=operation, response=dict(response), instance_revision=instance_revision, created_at=now
    )
    insert(receipt)
    return Receipt(receipt.response, replayed=False)
