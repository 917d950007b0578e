"""Granting, changing and revoking rights."""

from datetime import timedelta

import pytest
import time_machine
from django.contrib.auth import get_user_model
from django.db import DatabaseError

from recovery import clock, permissions
from recovery.access import grants
from recovery.access.grants import Held
from recovery.errors import NotFound, PermissionDenied, RevisionConflict, StateConflict, ValidationFailed
from recovery.models import AccessLedger, AccessLog
from recovery.permissions import ADMINISTER, CANCEL, READ, RECOVER, Actor
from tests.access.conftest import Desk

HOUR = timedelta(hours=1)


def test_a_direct_grant_gives_the_right(desk: Desk, ada: Actor) -> None:
    bob = desk.person("bob")
    grants.grant(ada, "user", "bob", names=[READ, RECOVER], reason="on call")
    assert desk.rights(bob) == {READ, RECOVER}


def test_a_grant_to_a_group_reaches_its_members_and_nobody_else(desk: Desk, ada: Actor) -> None:
    bob, eve = desk.person("bob"), desk.person("eve")
    desk.group("oncall", bob)
    grants.grant(ada, "group", "oncall", names=[RECOVER], reason="on call")
    assert desk.rights(bob) == {RECOVER}
    assert desk.rights(eve) == set()


def test_queues_are_granted_one_by_one(desk: Desk, ada: Actor) -> None:
    bob = desk.person("bob")
    grants.grant(ada, "user", "bob", queues=["bank"], reason="on call")
    rights = permissions.rights_of(bob.user_id, desk.namespace.pk)
    assert rights.missing_queues(queue.pk for queue in desk.queues.values()) == [desk.queues["mail"].pk]


def test_a_grant_ends_at_its_time_without_anybody_cleaning_up(desk: Desk, ada: Actor) -> None:
    bob = desk.person("bob")
    with time_machine.travel(clock.now(), tick=False) as traveller:
        grants.grant(ada, "user", "bob", names=[RECOVER], expires_at=clock.now() + HOUR, reason="tonight")
        traveller.shift(HOUR - timedelta(microseconds=1))
        assert desk.rights(bob) == {RECOVER}
        traveller.shift(timedelta(microseconds=1))
        assert desk.rights(bob) == set()


def test_the_log_says_who_what_to_whom_where_before_after_why_and_when(desk: Desk, ada: Actor) -> None:
    desk.group("oncall", desk.person("bob"))
    end = clock.now() + HOUR
    grants.grant(ada, "group", "oncall", names=[RECOVER], queues=["bank"], expires_at=end, reason="CHG-8817")
    right, queue = desk.log()
    assert (right.actor, right.action, right.subject_kind, right.subject) == ("ada", "grant", "group", "oncall")
    assert (right.permission, right.namespace_id, right.queue_id) == (RECOVER, desk.namespace.pk, None)
    assert right.before is None
    assert right.after["members"] == ["bob"]
    assert right.after["expires_at"].startswith(f"{end:%Y-%m-%dT%H:%M}")
    assert right.reason == "CHG-8817"
    assert abs(clock.now() - right.created_at) < HOUR
    assert (queue.permission, queue.queue_id) == ("queues:use", desk.queues["bank"].pk)
    assert [right.sequence, queue.sequence] == [1, 2]
    assert AccessLedger.objects.get().entries == 2


@pytest.mark.parametrize("reason", ["", "  \n", "x" * 1025, "nul\0"])
def test_a_reason_is_required(desk: Desk, ada: Actor, reason: str) -> None:
    desk.person("bob")
    with pytest.raises(ValidationFailed) as refused:
        grants.grant(ada, "user", "bob", names=[READ], reason=reason)
    assert set(refused.value.fields) == {"reason"}
    assert not desk.log()


@pytest.mark.parametrize(
    ("named", "field"),
    [
        ({"name": "nobody"}, "name"),
        ({"name": "BOB"}, "name"),
        ({"names": ["workflows:fly"]}, "permissions"),
        ({"names": ["queues:use"]}, "queues"),
        ({"queues": ["gold"]}, "queues"),
        ({"names": []}, "permissions"),
        ({"expires_at": clock.now() - HOUR}, "expires_at"),
    ],
)
def test_what_does_not_exist_is_refused_at_its_field(
    desk: Desk, ada: Actor, named: dict[str, object], field: str
) -> None:
    bob = desk.person("bob")
    given: dict[str, object] = {"name": "bob", "names": [READ], "reason": "test", **named}
    with pytest.raises(ValidationFailed) as refused:
        grants.grant(ada, "user", **given)
    assert set(refused.value.fields) == {field}
    assert desk.rights(bob) == set()
    assert not desk.log()


def test_one_wrong_name_among_several_grants_nothing(desk: Desk, ada: Actor) -> None:
    bob = desk.person("bob")
    with pytest.raises(ValidationFailed):
        grants.grant(ada, "user", "bob", names=[READ], queues=["gold"], reason="test")
    assert desk.rights(bob) == set()
    assert not desk.log()


def test_a_form_that_is_sent_twice_grants_once(desk: Desk, ada: Actor) -> None:
    desk.person("bob")
    assert len(grants.grant(ada, "user", "bob", names=[READ], reason="on call")) == 1
    assert grants.grant(ada, "user", "bob", names=[READ], reason="on call") == []
    assert len(desk.log()) == 1


def test_what_is_held_with_another_end_is_not_changed_by_a_second_grant(desk: Desk, ada: Actor) -> None:
    desk.person("bob")
    grants.grant(ada, "user", "bob", names=[READ], reason="on call")
    with pytest.raises(StateConflict, match="bob already holds workflows:read, granted by ada"):
        grants.grant(ada, "user", "bob", names=[READ], expires_at=clock.now() + HOUR, reason="on call")


def test_what_has_ended_can_be_granted_again(desk: Desk, ada: Actor) -> None:
    bob = desk.person("bob", READ, until=clock.now() - HOUR)
    assert len(grants.grant(ada, "user", "bob", names=[READ], reason="back again")) == 1
    assert desk.rights(bob) == {READ}
    assert desk.log()[0].before["granted_by"] == "set-up"


def test_the_end_of_a_grant_is_moved(desk: Desk, ada: Actor) -> None:
    bob = desk.person("bob", READ)
    held = Held("user", "bob", READ)
    end = clock.now() + HOUR
    grants.change_end(ada, held, version=desk.version(held), expires_at=end, reason="until tonight")
    with time_machine.travel(end, tick=False):
        assert desk.rights(bob) == set()
    (entry,) = desk.log()
    assert (entry.action, entry.before["expires_at"]) == ("change_grant", None)


def test_a_revoked_right_is_gone_with_the_next_question(desk: Desk, ada: Actor) -> None:
    bob = desk.person("bob", READ, RECOVER)
    desk.use_queue(bob, "bank")
    for held in (Held("user", "bob", RECOVER), Held("user", "bob", "queues:use", "bank")):
        grants.revoke(ada, held, version=desk.version(held), reason="left the team")
    rights = permissions.rights_of(bob.user_id, desk.namespace.pk)
    assert rights.permissions == {READ}
    assert rights.queues == set()
    assert [(entry.action, entry.before["granted_by"], entry.after) for entry in desk.log()] == [
        ("revoke", "set-up", None),
        ("revoke", "set-up", None),
    ]


def test_a_grant_that_somebody_changed_since_it_was_seen_is_left_alone(desk: Desk, ada: Actor) -> None:
    bob = desk.person("bob", READ)
    held = Held("user", "bob", READ)
    seen = desk.version(held)
    other = desk.person("grace", ADMINISTER)
    grants.change_end(other, held, version=seen, expires_at=clock.now() + HOUR, reason="until tonight")
    with pytest.raises(RevisionConflict, match="changed by grace"):
        grants.revoke(ada, held, version=seen, reason="left the team")
    assert desk.rights(bob) == {READ}
    grants.revoke(ada, held, version=desk.version(held), reason="left the team")
    with pytest.raises(StateConflict, match="revoked"):
        grants.revoke(ada, held, version=seen, reason="left the team")


# Who may


def test_only_an_administrator_of_the_namespace_grants(desk: Desk, ada: Actor) -> None:
    other = Desk("other")
    everything = [name for name, _label in type(desk.namespace)._meta.permissions if name != ADMINISTER]
    reader = desk.person("reader", *everything)
    foreigner = other.person("foreigner", ADMINISTER)
    desk.person("bob")
    with pytest.raises(PermissionDenied, match="access:admin"):
        grants.grant(reader, "user", "bob", names=[READ], reason="test")
    elsewhere = permissions.actor_of(get_user_model().objects.get(pk=foreigner.user_id), desk.namespace.pk)
    with pytest.raises(NotFound):
        grants.grant(elsewhere, "user", "bob", names=[READ], reason="test")
    assert not desk.log()


@pytest.mark.rule("G2")
def test_being_superuser_is_no_way_round(desk: Desk, ada: Actor) -> None:
    root = desk.person("root", is_superuser=True, is_staff=True)
    with pytest.raises(NotFound):
        grants.grant(root, "user", "root", names=[RECOVER], reason="I am root")
    held = Held("user", "ada", ADMINISTER)
    with pytest.raises(NotFound):
        grants.revoke(root, held, version=desk.version(held), reason="I am root")
    assert desk.rights(root) == set()


@pytest.mark.usefixtures("ada")
def test_the_right_to_administer_ends_at_the_moment_of_use(desk: Desk) -> None:
    desk.person("bob")
    tonight = desk.person("tonight", READ, ADMINISTER, until=clock.now() + HOUR)
    with time_machine.travel(clock.now() + HOUR, tick=False), pytest.raises(NotFound):
        grants.grant(tonight, "user", "bob", names=[READ], reason="test")


def test_a_queue_of_another_namespace_is_not_found(desk: Desk, ada: Actor) -> None:
    other = Desk("other")
    desk.queues["bank"].__class__.objects.filter(pk=desk.queues["bank"].pk).update(name="till")
    bob = desk.person("bob")
    with pytest.raises(ValidationFailed):
        grants.grant(ada, "user", "bob", queues=["bank"], reason="test")
    assert permissions.rights_of(bob.user_id, other.namespace.pk).queues == frozenset()


# No self-grant of access:admin


def test_nobody_makes_themselves_administrator_by_another_way(desk: Desk, ada: Actor) -> None:
    desk.group("leads", ada)
    with pytest.raises(PermissionDenied, match="themselves"):
        grants.grant(ada, "group", "leads", names=[ADMINISTER], reason="test")


def test_nobody_prolongs_their_own_administration_but_may_shorten_it(desk: Desk, ada: Actor) -> None:
    end = clock.now() + HOUR
    bob = desk.person("bob", ADMINISTER, until=end)
    held = Held("user", "bob", ADMINISTER)
    for longer in (None, end + HOUR):
        with pytest.raises(PermissionDenied, match="themselves"):
            grants.change_end(bob, held, version=desk.version(held), expires_at=longer, reason="test")
    grants.change_end(bob, held, version=desk.version(held), expires_at=end - HOUR / 2, reason="home early")
    grants.change_end(ada, held, version=desk.version(held), expires_at=None, reason="stays")


def test_other_rights_may_be_granted_to_oneself_and_the_log_tells(desk: Desk, ada: Actor) -> None:
    grants.grant(ada, "user", "ada", names=[CANCEL], reason="covers for bob")
    assert CANCEL in desk.rights(ada)
    assert [(entry.actor, entry.subject) for entry in desk.log()] == [("ada", "ada")]


# The last administrator


def test_the_last_administrator_is_neither_revoked_nor_given_an_end(desk: Desk, ada: Actor) -> None:
    held = Held("user", "ada", ADMINISTER)
    with pytest.raises(StateConflict, match="Nobody could administer access to pay any more"):
        grants.revoke(ada, held, version=desk.version(held), reason="test")
    with pytest.raises(StateConflict, match="Nobody could administer access to pay after"):
        grants.change_end(ada, held, version=desk.version(held), expires_at=clock.now() + HOUR, reason="test")
    assert ADMINISTER in desk.rights(ada)
    assert not desk.log()


@pytest.mark.parametrize("other", ["inactive", "ended", "empty group", "ends tonight", "elsewhere"])
def test_who_does_not_count_as_another_administrator(desk: Desk, ada: Actor, other: str) -> None:
    match other:
        case "inactive":
            desk.person("bob", ADMINISTER, is_active=False)
        case "ended":
            desk.person("bob", ADMINISTER, until=clock.now() - HOUR)
        case "empty group":
            desk.group("leads", rights=(ADMINISTER,))
        case "ends tonight":
            desk.person("bob", ADMINISTER, until=clock.now() + HOUR)
        case "elsewhere":
            Desk("other").person("bob", ADMINISTER)
    held = Held("user", "ada", ADMINISTER)
    with pytest.raises(StateConflict, match="Nobody could administer"):
        grants.revoke(ada, held, version=desk.version(held), reason="test")


def test_an_administrator_goes_when_another_one_stays(desk: Desk, ada: Actor) -> None:
    bob = desk.person("bob")
    desk.group("leads", bob, rights=(ADMINISTER,))
    held = Held("user", "ada", ADMINISTER)
    grants.revoke(ada, held, version=desk.version(held), reason="left")
    assert ADMINISTER not in desk.rights(ada)
    held = Held("group", "leads", ADMINISTER)
    with pytest.raises(StateConflict):
        grants.revoke(bob, held, version=desk.version(held), reason="test")


# The log itself


@pytest.mark.django_db
@pytest.mark.parametrize("write", ["update", "delete"])
def test_the_database_refuses_to_rewrite_the_log(desk: Desk, ada: Actor, write: str) -> None:
    desk.person("bob")
    grants.grant(ada, "user", "bob", names=[READ], reason="on call")
    rows = AccessLog.objects.all()
    with pytest.raises(DatabaseError, match="append-only"):
        rows.update(reason="forged") if write == "update" else rows.delete()
