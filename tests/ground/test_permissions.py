"""Rights: granted explicitly, on one namespace or queue, until they end (G1, G2)."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine
from django.contrib.auth.models import Group, User
from django.contrib.auth.models import Permission as DjangoPermission

from recovery import permissions
from recovery.errors import NotFound, PermissionDenied
from recovery.models import Application, Namespace, Queue, WorkflowInstance
from recovery.permissions import Actor
from recovery.writes import insert
from tests.support.rows import nonsense
from tests.support.statements import capture_statements

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
ALL_RIGHTS = [codename for codename, _label in Namespace._meta.permissions]


class Place:
    """Two namespaces with a queue each, and one person."""

    def __init__(self) -> None:
        self.namespace, self.other = nonsense(Namespace), nonsense(Namespace)
        self.queue = nonsense(Queue, namespace_id=self.namespace.pk, name="bank")
        self.second = nonsense(Queue, namespace_id=self.namespace.pk, name="mail")
        self.foreign = nonsense(Queue, namespace_id=self.other.pk, name="bank")
        insert(self.namespace, self.other, self.queue, self.second, self.foreign)
        self.person = User.objects.create(username="op")
        self.group = Group.objects.create(name="oncall")

    @property
    def actor(self) -> Actor:
        return permissions.actor_of(self.person, self.namespace.pk)

    def grant(self, permission: str, to: Any = None, on: Any = None, **fields: Any) -> None:
        permissions.grant(to or self.person, permission, on or self.namespace, by="admin", reason="test", **fields)

    def held(self) -> frozenset[str]:
        return permissions.rights_of(self.person.pk, self.namespace.pk).permissions


@pytest.fixture(name="place")
def _place(db: None) -> Place:
    return Place()


def _make(person: User, **fields: Any) -> None:
    User.objects.filter(pk=person.pk).update(**fields)


@pytest.mark.rule("G2")
def test_nobody_holds_a_right_that_was_not_granted(place: Place) -> None:
    assert place.held() == frozenset()
    for permission in ALL_RIGHTS:
        with pytest.raises(PermissionDenied):
            permissions.require_work(place.actor, permission)


@pytest.mark.rule("G2")
@pytest.mark.parametrize(
    "standing", [{"is_superuser": True}, {"is_staff": True}, {"is_superuser": True, "is_staff": True}]
)
def test_being_superuser_or_staff_grants_nothing(place: Place, standing: dict[str, bool]) -> None:
    _make(place.person, **standing)
    assert place.held() == frozenset()
    assert permissions.all_rights(place.person.pk) == {}
    assert permissions.namespaces_where(place.person.pk, permissions.RECOVER) == []


@pytest.mark.rule("G2")
@pytest.mark.parametrize("permission", [permissions.RECOVER, permissions.READ])
def test_a_right_on_everything_counts_on_nothing(place: Place, permission: str) -> None:
    """Django's own permissions, held by a person or a group, name no namespace."""
    row = DjangoPermission.objects.get(content_type__app_label="recovery", codename=permission)
    place.person.user_permissions.add(row)
    place.group.permissions.add(row)
    place.person.groups.add(place.group)
    assert place.held() == frozenset()


@pytest.mark.rule("G2")
@pytest.mark.parametrize("held", [right for right in ALL_RIGHTS if right != permissions.RECOVER])
def test_no_other_right_includes_recovery(place: Place, held: str) -> None:
    place.grant(held)
    place.grant(permissions.READ)
    place.grant(permissions.USE_QUEUE, on=place.queue)
    assert not permissions.rights_of(place.person.pk, place.namespace.pk).may(permissions.RECOVER)
    with pytest.raises(PermissionDenied, match="workflows:recover") as refusal:
        permissions.require(place.actor, permissions.RECOVER, queue_ids=[place.queue.pk])
    assert refusal.value.rule == "G2"


@pytest.mark.rule("G2")
def test_a_right_is_held_directly_or_through_a_group(place: Place) -> None:
    place.grant(permissions.READ)
    place.grant(permissions.RECOVER, to=place.group)
    assert place.held() == {permissions.READ}
    place.person.groups.add(place.group)
    assert place.held() == {permissions.READ, permissions.RECOVER}
    place.person.groups.remove(place.group)
    assert place.held() == {permissions.READ}


@pytest.mark.rule("G1", "G2")
def test_a_right_counts_in_its_namespace_only(place: Place) -> None:
    place.grant(permissions.RECOVER, on=place.other)
    place.grant(permissions.READ, on=place.other)
    assert place.held() == frozenset()
    with pytest.raises(NotFound):
        permissions.require(place.actor, permissions.RECOVER)
    assert permissions.namespaces_where(place.person.pk, permissions.RECOVER) == [place.other.pk]
    assert set(permissions.all_rights(place.person.pk)) == {place.other.pk}


@pytest.mark.rule("G2")
def test_somebody_elses_right_is_not_mine(place: Place) -> None:
    place.grant(permissions.RECOVER, to=User.objects.create(username="other"))
    place.grant(permissions.READ, to=Group.objects.create(name="others"))
    place.person.groups.add(place.group)
    assert place.held() == frozenset()


@pytest.mark.rule("G2")
@pytest.mark.parametrize("through_group", [False, True])
def test_a_right_ends_at_the_moment_of_its_end(place: Place, through_group: bool) -> None:
    place.person.groups.add(place.group)
    to = place.group if through_group else place.person
    place.grant(permissions.RECOVER, to=to, expires_at=NOW)
    place.grant(permissions.USE_QUEUE, to=to, on=place.queue, expires_at=NOW)
    with time_machine.travel(NOW - timedelta(microseconds=1), tick=False):
        rights = permissions.rights_of(place.person.pk, place.namespace.pk)
        assert rights.may(permissions.RECOVER)
        assert rights.missing_queues([place.queue.pk]) == []
    with time_machine.travel(NOW, tick=False):
        rights = permissions.rights_of(place.person.pk, place.namespace.pk)
        assert not rights.may(permissions.RECOVER)
        assert rights.missing_queues([place.queue.pk]) == [place.queue.pk]
        assert permissions.namespaces_where(place.person.pk, permissions.RECOVER) == []
        assert permissions.all_rights(place.person.pk) == {}


def test_granting_again_changes_the_end_and_makes_no_second_grant(place: Place) -> None:
    place.grant(permissions.RECOVER, expires_at=NOW)
    place.grant(permissions.RECOVER)
    assert [grant.expires_at for grant in permissions.grants(place.namespace.pk)] == [None]


def test_a_right_that_was_taken_is_gone(place: Place) -> None:
    place.grant(permissions.RECOVER)
    place.grant(permissions.USE_QUEUE, on=place.queue)
    permissions.revoke(place.person, permissions.RECOVER, place.namespace)
    permissions.revoke(place.person, permissions.USE_QUEUE, place.queue)
    assert permissions.all_rights(place.person.pk) == {}


@pytest.mark.rule("G1")
@pytest.mark.parametrize("through_group", [False, True])
def test_an_account_that_was_switched_off_holds_nothing(place: Place, through_group: bool) -> None:
    place.person.groups.add(place.group)
    place.grant(permissions.RECOVER, to=place.group if through_group else place.person)
    assert place.held() == {permissions.RECOVER}
    _make(place.person, is_active=False)
    assert place.held() == frozenset()


@pytest.mark.rule("G2")
def test_every_named_queue_has_to_be_usable(place: Place) -> None:
    place.grant(permissions.READ)
    place.grant(permissions.RECOVER)
    place.grant(permissions.USE_QUEUE, on=place.queue)
    place.person.groups.add(place.group)
    permissions.require(place.actor, permissions.RECOVER, queue_ids=[place.queue.pk])
    both = [place.queue.pk, place.second.pk]
    with pytest.raises(PermissionDenied, match="queues:use is missing on: mail") as refusal:
        permissions.require(place.actor, permissions.RECOVER, queue_ids=both)
    assert refusal.value.rule == "G2"
    place.grant(permissions.USE_QUEUE, to=place.group, on=place.second)
    permissions.require(place.actor, permissions.RECOVER, queue_ids=both)


@pytest.mark.rule("G2")
def test_a_queue_of_the_same_name_elsewhere_is_another_queue(place: Place) -> None:
    place.grant(permissions.READ)
    place.grant(permissions.RECOVER)
    place.grant(permissions.USE_QUEUE, on=place.foreign)
    with pytest.raises(PermissionDenied, match="bank"):
        permissions.require(place.actor, permissions.RECOVER, queue_ids=[place.queue.pk])


def test_who_may_not_even_see_is_told_that_there_is_nothing(place: Place) -> None:
    """Recovery without reading: not found, as for somebody without any right (Errors)."""
    place.grant(permissions.RECOVER)
    with pytest.raises(NotFound):
        permissions.require(place.actor, permissions.RECOVER)
    place.grant(permissions.READ)
    permissions.require(place.actor, permissions.RECOVER)


def test_a_worker_need_not_see_workflows(place: Place) -> None:
    place.grant(permissions.WORK)
    place.grant(permissions.USE_QUEUE, on=place.queue)
    permissions.require_work(place.actor, permissions.WORK, queue_ids=[place.queue.pk])
    with pytest.raises(PermissionDenied):
        permissions.require_work(place.actor, permissions.WORK, queue_ids=[place.second.pk])


@pytest.mark.rule("G1")
def test_a_suspended_namespace_or_application_decides_nothing(place: Place) -> None:
    active, suspended = Application(status="ACTIVE"), Application(status="SUSPENDED")
    permissions.require_active(place.namespace, active)
    for namespace, application in (
        (place.namespace, suspended),
        (Namespace(status="SUSPENDED"), active),
        (Namespace(status="SUSPENDED"), None),
    ):
        with pytest.raises(PermissionDenied, match="suspended") as refusal:
            permissions.require_active(namespace, application)
        assert refusal.value.rule == "G1"


@pytest.mark.rule("G1")
def test_an_instance_is_found_in_the_actors_own_namespace_and_application_only(place: Place) -> None:
    desk, till = (nonsense(Application, namespace_id=place.namespace.pk) for _number in range(2))
    mine = nonsense(WorkflowInstance, namespace_id=place.namespace.pk, application_id=desk.pk)
    foreign = nonsense(WorkflowInstance, namespace_id=place.other.pk, application_id=desk.pk)
    insert(desk, till, mine, foreign)

    def limited(application: Application | None) -> Actor:
        return Actor(
            user_id=place.person.pk,
            username="op",
            namespace_id=place.namespace.pk,
            application_id=application.pk if application else None,
        )

    for actor in (limited(None), limited(desk)):
        assert permissions.find_instance(actor, mine.pk).pk == mine.pk
    for actor, key in (
        (limited(till), mine.pk),
        (limited(None), foreign.pk),
        (limited(desk), foreign.pk),
        (limited(None), "not-there"),
        (limited(None), mine.pk.upper()),
    ):
        with pytest.raises(NotFound, match="nothing here"):
            permissions.find_instance(actor, key)


@pytest.mark.rule("G1")
def test_the_actor_of_a_session_acts_in_the_namespace_of_what_it_looks_at(place: Place) -> None:
    actor = permissions.actor_of(place.person, place.other.pk)
    assert (actor.user_id, actor.username, actor.namespace_id) == (place.person.pk, "op", place.other.pk)
    assert (actor.application_id, actor.credential_id) == (None, None)


def test_all_rights_of_a_person_are_one_statement(place: Place) -> None:
    for namespace in (place.namespace, place.other):
        for permission in ALL_RIGHTS:
            place.grant(permission, on=namespace)
            place.grant(permission, to=place.group, on=namespace)
    for queue in (place.queue, place.second, place.foreign):
        place.grant(permissions.USE_QUEUE, on=queue)
    place.person.groups.add(place.group)
    for look in (
        lambda: permissions.all_rights(place.person.pk),
        lambda: permissions.rights_of(place.person.pk, place.namespace.pk),
        lambda: permissions.namespaces_where(place.person.pk, permissions.READ),
    ):
        with capture_statements() as statements:
            assert look()
        assert len(statements) == 1


def test_the_list_of_namespaces_and_the_single_check_agree(place: Place) -> None:
    place.grant(permissions.READ)
    place.grant(permissions.RECOVER, on=place.other, expires_at=NOW)
    with time_machine.travel(NOW - timedelta(days=1), tick=False):
        for permission in ALL_RIGHTS:
            listed = permissions.namespaces_where(place.person.pk, permission)
            for namespace in (place.namespace, place.other):
                assert permissions.rights_of(place.person.pk, namespace.pk).may(permission) == (namespace.pk in listed)


def test_the_rights_are_those_of_the_contract() -> None:
    assert set(ALL_RIGHTS) == {
        permissions.READ,
        permissions.START,
        permissions.RECOVER,
        permissions.PAUSE,
        permissions.CANCEL,
        permissions.PUBLISH,
        permissions.SEND_SIGNALS,
        permissions.WORK,
        permissions.REVIEW_TASKS,
        permissions.CANCEL_TASKS,
        permissions.ATTACH_EVIDENCE,
        permissions.READ_EVIDENCE,
        permissions.READ_AUDIT,
        permissions.ADMINISTER,
    }
    assert permissions.USE_QUEUE in [codename for codename, _label in Queue._meta.permissions]
