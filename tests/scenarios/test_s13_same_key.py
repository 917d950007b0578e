"""S13: many callers with one key, many keys with one revision, and rights that change between two sends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import time_machine
from django.db import connection

from recovery import instance_lock, locks, operations, permissions
from recovery.errors import DomainError
from recovery.models import ApplicationQuota, ManagementOperation, NamespaceUserGrant, OperationReceipt, WorkflowAudit
from recovery.operations import Receipt
from tests.operations.stages import resolved, unknown_task
from tests.support.recovering import command, recover, refused, send
from tests.support.threads import together
from tests.support.world import MORNING, Flow, World, make_world

CALLERS = 64
pytestmark = pytest.mark.rule("G4")


@pytest.fixture
def busy_world(transactional_db: None) -> Iterator[World]:
    """A world whose rows other connections see. Time flows, so that nobody waits for ever."""
    with time_machine.travel(MORNING, tick=True) as traveller:
        yield make_world(traveller)


def answers(callers: list[Callable[[], Receipt]]) -> Counter[str]:
    """What the callers got, counted: the body of a receipt, or the code of a refusal."""
    counted: Counter[str] = Counter()
    for answer in together(callers):
        if isinstance(answer, Receipt):
            counted[answer.body] += 1
        elif isinstance(answer, DomainError):
            counted[answer.code] += 1
        else:
            raise answer
    return counted


def acts(flow: Flow) -> int:
    """Audits of recovery operations on the instance."""
    return WorkflowAudit.objects.filter(instance_id=flow.id, operation__operationreceipt__isnull=False).count()


@pytest.mark.parametrize(("slug", "target", "stage"), [("review-task", "it", unknown_task), ("continue", "", resolved)])
def test_64_callers_with_one_key_get_one_receipt(
    busy_world: World, slug: str, target: str, stage: Callable[[World], Flow]
) -> None:
    flow = stage(busy_world)
    payload, before = command(flow, slug, target), acts(flow)
    counted = answers([lambda: send(flow, slug, payload, key="the-key")] * CALLERS)
    assert list(counted.values()) == [CALLERS], counted
    assert acts(flow) == before + 1
    assert OperationReceipt.objects.filter(operation__operation_key="the-key").count() == 1


@pytest.mark.rule("G5")
@pytest.mark.parametrize(("slug", "target", "stage"), [("review-task", "it", unknown_task), ("continue", "", resolved)])
def test_of_64_callers_with_one_revision_one_succeeds(
    busy_world: World, slug: str, target: str, stage: Callable[[World], Flow]
) -> None:
    flow = stage(busy_world)
    payload, before = command(flow, slug, target), acts(flow)
    keys = [operations.new_key() for _caller in range(CALLERS)]
    counted = answers([partial(send, flow, slug, payload, key=key) for key in keys])
    assert counted.pop("REVISION_CONFLICT") == CALLERS - 1
    assert list(counted.values()) == [1]
    assert acts(flow) == before + 1
    assert ManagementOperation.objects.filter(operation_key__in=keys).count() == 1


@pytest.mark.skipif(connection.vendor == "sqlite", reason="SQLite has one writer: without the lock there is no race")
def test_without_the_lock_several_callers_would_decide_on_one_revision(
    busy_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The negative control: the race is real, and it is the lock that ends it."""

    def read_only(self: locks.Locks, model: Any, key: str) -> Any:
        return model._default_manager.get(pk=key)

    def read_only_rows(self: locks.Locks, model: Any, keys: Any, **how: Any) -> list[Any]:
        return list(model._default_manager.filter(pk__in=keys))

    def no_lock_seq(locks_: locks.Locks, quota_id: str) -> Any:
        return ApplicationQuota.objects.get(pk=quota_id)

    flow = resolved(busy_world)
    payload = command(flow, "continue")
    monkeypatch.setattr(locks.Locks, "row", read_only)
    monkeypatch.setattr(locks.Locks, "rows", read_only_rows)
    monkeypatch.setattr(instance_lock, "lock_application", no_lock_seq)
    keys = [operations.new_key() for _caller in range(CALLERS)]
    decided = 0
    for answer in together([partial(send, flow, "continue", payload, key=key) for key in keys]):
        # What stops a second decision here is the audit chain's unique sequence: a fault, not an answer.
        decided += not (isinstance(answer, DomainError) and answer.code == "REVISION_CONFLICT")
    assert decided > 1


def test_one_key_with_two_commands_succeeds_once(busy_world: World) -> None:
    flow = resolved(busy_world)
    one = command(flow, "continue")
    other = one | {"reason": "Another reason."}
    counted = answers([partial(send, flow, "continue", payload, key="k") for payload in (one, other)])
    assert counted.pop("IDEMPOTENCY_CONFLICT") == 1
    assert list(counted.values()) == [1]


def test_a_key_is_bound_to_operation_instance_and_content_but_not_to_the_person(world: World) -> None:
    flow, other = resolved(world), resolved(world)
    payload = command(flow, "continue")
    first = send(flow, "continue", payload, key="k")
    colleague = world.actor(permissions.READ, permissions.RECOVER, queues=("bank", "mail"))
    again = send(flow, "continue", dict(reversed(payload.items())), key="k", actor=colleague)
    assert (again.replayed, again.body) == (True, first.body)
    refused(other, "IDEMPOTENCY_CONFLICT", "continue", key="k")
    refused(flow, "IDEMPOTENCY_CONFLICT", "resolve-step", "it", key="k")


def test_the_first_receipt_is_answered_also_when_the_instance_has_moved_on(world: World) -> None:
    flow = resolved(world)
    payload = command(flow, "continue")
    first = send(flow, "continue", payload, key="k")
    world.run()
    world.succeed(world.claim("mail"))
    assert flow.status == "SUCCEEDED"
    assert send(flow, "continue", payload, key="k").body == first.body
    assert operations.receipt(world.operator, "k").body == first.body


@pytest.mark.rule("G2")
def test_a_right_that_was_revoked_between_two_sends_is_missed_by_the_second(world: World) -> None:
    flow = resolved(world)
    payload = command(flow, "continue")
    send(flow, "continue", payload, key="k")
    grants = NamespaceUserGrant.objects.filter(user_id=world.operator.user_id)
    grants.filter(permission__codename=permissions.RECOVER).delete()
    for ask in (
        lambda: send(flow, "continue", payload, key="k"),
        lambda: operations.receipt(world.operator, "k"),
    ):
        with pytest.raises(DomainError) as caught:
            ask()
        assert caught.value.code == "PERMISSION_DENIED"


def test_a_refusal_leaves_the_key_free(world: World) -> None:
    flow = unknown_task(world)
    refused(flow, "EXECUTION_UNKNOWN", "continue", key="k")
    assert not ManagementOperation.objects.filter(operation_key="k").exists()
    assert recover(flow, "review-task", "it", key="k").data["operation_key"] == "k"
