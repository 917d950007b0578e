"""Provisioning as an operator sees it: a file, a run, and what there is afterwards."""

from __future__ import annotations

import copy
import io
import json
from pathlib import Path
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.core.management import call_command
from django.core.management.base import CommandError

from recovery import permissions
from recovery.models import (
    AccessLog,
    Application,
    ApplicationQuota,
    Credential,
    Namespace,
    Queue,
    QueueQuota,
    ResultStream,
)
from recovery.permissions import Actor

CONTRACT: dict[str, Any] = {
    "groups": [{"name": "oncall"}],
    "users": [{"username": "op", "password": None, "superuser": False, "groups": ["oncall"]}],
    "namespaces": [
        {
            "name": "pay",
            "display_name": "Payments",
            "status": "ACTIVE",
            "applications": [{"name": "desk", "status": "ACTIVE", "max_open_tasks": 1000, "max_open_instances": 1000}],
            "queues": [{"name": "bank", "lease_ms": 30000, "max_open_tasks": 1000, "max_running": 50}],
            "grants": [
                {
                    "to": {"group": "oncall"},
                    "permissions": ["workflows:read", "workflows:recover"],
                    "queues": ["bank"],
                    "expires_at": None,
                    "reason": "on call",
                }
            ],
            "credentials": [{"user": "op", "label": "desk robot", "application": None, "expires_at": None}],
        }
    ],
}
"""The contract's own example."""


class Ran:
    """What a run printed, and how it ended."""

    def __init__(self, folder: Path, document: Any, *options: str) -> None:
        file = folder / "provision.json"
        text = document if isinstance(document, bytes) else json.dumps(document).encode()
        file.write_bytes(text)
        stdout, stderr = io.StringIO(), io.StringIO()
        self.status, self.error = 0, ""
        try:
            call_command("provision", str(file), *options, stdout=stdout, stderr=stderr)
        except CommandError as error:
            self.status, self.error = error.returncode, str(error)
        self.stdout, self.stderr = stdout.getvalue(), stderr.getvalue()

    @property
    def tokens(self) -> list[dict[str, str]]:
        return list(json.loads(self.stdout)["credentials"])


def altered(**changes: Any) -> dict[str, Any]:
    """The contract's example with members replaced, by their path: `namespaces_0_status="SUSPENDED"`."""
    document = copy.deepcopy(CONTRACT)
    for path, value in changes.items():
        *steps, last = path.split("__")
        place: Any = document
        for step in steps:
            place = place[int(step) if step.isdigit() else step]
        place[int(last) if last.isdigit() else last] = value
    return document


def op() -> Actor:
    return permissions.actor_of(get_user_model().objects.get(username="op"), Namespace.objects.get(name="pay").pk)


def everything() -> list[Any]:
    """Every row that provisioning may write, but for the time of its own log."""
    models: tuple[Any, ...] = (Namespace, Application, ApplicationQuota, Queue, QueueQuota, ResultStream, Credential)
    models += (Group, get_user_model(), get_user_model().groups.through, AccessLog)
    rows = [list(model._default_manager.order_by("pk").values()) for model in models]
    return [*rows, [permissions.grants(row.pk) for row in Namespace.objects.order_by("pk")]]
