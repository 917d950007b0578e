"""Why somebody can or cannot recover an instance."""

import itertools
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group

from recovery import clock, permissions
from recovery.access.why import Why, why
from recovery.errors import DomainError, NotFound, PermissionDenied
from recovery.permissions import ADMINISTER, PAUSE, READ, RECOVER, USE_QUEUE
from recovery.writes import change
from tests.support import trees
from tests.support.world import Flow, World

HOUR = timedelta(hours=1)


@pytest.fixture(name="flow")
def _flow(world: World) -> Flow:
    """Its definition names the queue "bank" and not the queue "mail"."""
    return world.start(trees.task("pay", queue="bank"), run=False)


def ask(world: World, flow: Flow, username: str) -> Why:
    admin = world.actor(READ, ADMINISTER)
    return why(admin, get_user_model().objects.get(username=username), flow.id)


def may_act(world: World, flow: Flow, username: str) -> bool:
    """What the operations themselves would say."""
    user = get_user_model().objects.get(username=username)
    actor = permissions.actor_of(user, world.namespace.pk)
    instance = flow.instance
    try:
        permissions.require(actor, RECOVER, queue_ids=[world.queues["bank"].pk])
        permissions.require_active(instance.namespace, instance.application)
    except DomainError:
        return False
    return True


@pytest.mark.rule("G2")
def test_every_need_is_answered_with_its_grants_and_their_way(world: World, flow: Flow) -> None:
    bob = get_user_model().objects.create(username="bob")
    oncall = Group.objects.create(name="oncall")
    oncall.user_set.add(bob)
    permissions.grant(bob, READ, world.namespace, by="ada", reason="direct")
    permissions.grant(oncall, READ, world.namespace, by="grace", reason="as a group")
    permissions.grant(oncall, RECOVER, world.namespace, by="ada", reason="on call", expires_at=clock.now() + HOUR)
    answer = ask(world, flow, "bob")
    ways = [
        (need.permission, need.queue, need.holds, [(way.through, way.grant.granted_by) for way in need.ways])
        for need in answer.needs
    ]
    assert ways == [
        (READ, "", True, [("", "ada"), ("oncall", "grace")]),
        (RECOVER, "", True, [("oncall", "ada")]),
        (USE_QUEUE, "bank", False, []),
    ]
    assert not answer.may


@pytest.mark.rule("G2")
def test_a_grant_that_has_ended_is_shown_and_does_not_count(world: World, flow: Flow) -> None:
    bob = get_user_model().objects.create(username="bob")
    permissions.grant(bob, RECOVER, world.namespace, by="ada", reason="shift", expires_at=clock.now())
    need = next(need for need in ask(world, flow, "bob").needs if need.permission == RECOVER)
    assert (need.holds, len(need.ways)) == (False, 1)


@pytest.mark.rule("G1", "G2")
def test_the_answer_is_the_one_that_the_operations_give(world: World, flow: Flow) -> None:
    facts: dict[str, Any] = {
        "read": [None, "direct", "group"],
        "recover": [None, "direct", "group", "ended"],
        "queue": [None, "direct", "group", "wrong queue"],
        "account": ["active", "inactive", "superuser"],
    }
    for number, case in enumerate(itertools.product(*facts.values())):
        read, recover, queue, account = case
        name = f"case-{number}"
        user = get_user_model().objects.create(
            username=name, is_active=account != "inactive", is_superuser=account == "superuser"
        )
        group = Group.objects.create(name=name)
        group.user_set.add(user)
        permissions.grant(user, PAUSE, world.namespace, by="ada", reason="not recovering")
        ends = clock.now() if recover == "ended" else None
        for permission, way, end in ((READ, read, None), (RECOVER, recover, ends)):
            if way:
                to = group if way == "group" else user
                permissions.grant(to, permission, world.namespace, by="ada", reason="case", expires_at=end)
        if queue:
            target = world.queues["mail" if queue == "wrong queue" else "bank"]
            to = group if queue == "group" else user
            permissions.grant(to, USE_QUEUE, target, by="ada", reason="case")
        assert ask(world, flow, name).may == may_act(world, flow, name), case


@pytest.mark.rule("G1")
@pytest.mark.parametrize("tenant", ["namespace", "application"])
def test_a_suspended_tenant_is_a_reason(world: World, flow: Flow, tenant: str) -> None:
    name = world.operator.username
    assert ask(world, flow, name).may
    change(getattr(world, tenant), status="SUSPENDED")
    answer = ask(world, flow, name)
    assert not answer.may
    assert not may_act(world, flow, name)
    assert (answer.namespace_is_active, answer.application_is_active) == (
        tenant != "namespace",
        tenant != "application",
    )


def test_it_names_who_can_grant_what_is_missing(world: World, flow: Flow) -> None:
    gone = get_user_model().objects.create(username="gone", is_active=False)
    permissions.grant(gone, ADMINISTER, world.namespace, by="set-up", reason="test")
    answer = ask(world, flow, world.operator.username)
    assert world.operator.username in answer.administrators
    assert "gone" not in answer.administrators


def test_asking_needs_the_right_to_administer_and_to_see_the_instance(world: World, flow: Flow) -> None:
    user = get_user_model().objects.get(pk=world.operator.user_id)
    for rights, error in (((READ,), PermissionDenied), ((ADMINISTER,), NotFound), ((), NotFound)):
        with pytest.raises(error):
            why(world.actor(*rights), user, flow.id)
    with pytest.raises(NotFound):
        why(world.actor(READ, ADMINISTER), user, "0" * 32)
