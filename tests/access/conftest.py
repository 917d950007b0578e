"""A namespace with an administrator, and whoever a test needs besides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.test import Client

from recovery import clock, permissions
from recovery.access import grants
from recovery.access.grants import Held
from recovery.models import AccessLog, Application, ApplicationQuota, Namespace, Queue, QueueQuota
from recovery.permissions import ADMINISTER, Actor
from recovery.writes import insert
from tests.access.provisioning import Ran
from tests.console.support import Desk as Browser

Seat = Callable[[Actor], Browser]
Run = Callable[..., Ran]


@dataclass
class Desk:
    """The namespace "pay" with the application "desk", the queues "bank" and "mail" and the administrator "ada"."""

    name: str = "pay"
    namespace: Namespace = field(init=False)
    application: Application = field(init=False)
    queues: dict[str, Queue] = field(default_factory=dict)

    def __post_init__(self) -> None:
        now = clock.now()
        self.namespace = Namespace(name=self.name, display_name="Payments", status="ACTIVE", created_at=now)
        self.application = Application(namespace=self.namespace, name="desk", status="ACTIVE", created_at=now)
        quota = ApplicationQuota(application=self.application, max_open_tasks=9, max_open_instances=9)
        insert(self.namespace, self.application, quota)
        for name in ("bank", "mail"):
            queue = Queue(namespace=self.namespace, name=name, status="OPEN", lease_ms=30_000, created_at=now)
            insert(queue, QueueQuota(queue=queue, max_open_tasks=9, max_running=9))
            self.queues[name] = queue

    def person(self, username: str, *rights: str, until: datetime | None = None, **fields: Any) -> Actor:
        """An account with rights that were granted before the test began."""
        user, _made = get_user_model().objects.get_or_create(username=username, defaults=fields)
        for right in rights:
            permissions.grant(user, right, self.namespace, by="set-up", reason="test", expires_at=until)
        return permissions.actor_of(user, self.namespace.pk)

    def group(self, name: str, *members: Actor, rights: tuple[str, ...] = (), until: datetime | None = None) -> Group:
        made, _made = Group.objects.get_or_create(name=name)
        made.user_set.set([member.user_id for member in members])
        for right in rights:
            permissions.grant(made, right, self.namespace, by="set-up", reason="test", expires_at=until)
        return made

    def use_queue(self, actor: Actor, queue: str, until: datetime | None = None) -> None:
        user = get_user_model().objects.get(pk=actor.user_id)
        permissions.grant(user, permissions.USE_QUEUE, self.queues[queue], by="set-up", reason="test", expires_at=until)

    def version(self, held: Held) -> str:
        """Of a grant as it is now: what a form that is opened now carries."""
        rows = permissions.grants(self.namespace.pk)
        target = self.queues[held.queue].pk if held.queue else self.namespace.pk
        what = (held.kind, held.name, held.permission, target)
        return next(
            grants.version(row) for row in rows if what == (row.kind, row.holder, row.permission, row.target_id)
        )

    def rights(self, actor: Actor) -> frozenset[str]:
        return permissions.rights_of(actor.user_id, self.namespace.pk).permissions

    def log(self) -> list[AccessLog]:
        return list(AccessLog.objects.order_by("sequence"))


@pytest.fixture(name="desk")
def _desk(db: None) -> Desk:
    return Desk()


@pytest.fixture(name="ada")
def _ada(desk: Desk) -> Actor:
    """The administrator; her right has no end."""
    return desk.person("ada", ADMINISTER)


@pytest.fixture(name="seat")
def _seat() -> Seat:
    def seat(actor: Actor) -> Browser:
        client = Client()
        client.force_login(get_user_model().objects.get(pk=actor.user_id))
        return Browser(client)

    return seat


@pytest.fixture(name="browser")
def _browser(ada: Actor, seat: Seat) -> Browser:
    """The administrator's."""
    return seat(ada)


@pytest.fixture(name="run")
def _run(tmp_path: Path) -> Run:
    """Runs a provisioning document with options."""
    return lambda document, *options: Ran(tmp_path, document, *options)
