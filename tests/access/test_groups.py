"""Groups, and who belongs to them."""

from datetime import timedelta

import pytest

from recovery import clock
from recovery.access import groups
from recovery.access.groups import create, join, leave
from recovery.errors import NotFound, PermissionDenied, StateConflict, ValidationFailed
from recovery.permissions import ADMINISTER, READ, RECOVER, Actor
from tests.access.conftest import Desk


def test_who_joins_a_group_holds_its_rights_and_who_leaves_does_not(desk: Desk, ada: Actor) -> None:
    bob = desk.person("bob")
    desk.group("oncall", rights=(RECOVER,))
    join(ada, "oncall", "bob", reason="night shift")
    assert desk.rights(bob) == {RECOVER}
    leave(ada, "oncall", "bob", reason="shift is over")
    assert desk.rights(bob) == set()
    assert [(entry.action, entry.subject, entry.after, entry.reason) for entry in desk.log()] == [
        ("join_group", "bob", {"group": "oncall"}, "night shift"),
        ("leave_group", "bob", {"group": "oncall"}, "shift is over"),
    ]


def test_joining_twice_is_one_entry_and_leaving_twice_is_refused(desk: Desk, ada: Actor) -> None:
    desk.person("bob")
    desk.group("oncall", rights=(RECOVER,))
    for _time in range(2):
        join(ada, "oncall", "bob", reason="night shift")
    leave(ada, "oncall", "bob", reason="over")
    with pytest.raises(StateConflict, match="bob does not belong to oncall any more"):
        leave(ada, "oncall", "bob", reason="over")
    assert len(desk.log()) == 2


def test_a_new_group_holds_nothing(desk: Desk, ada: Actor) -> None:
    bob = desk.person("bob")
    create(ada, "oncall", reason="nights")
    join(ada, "oncall", "bob", reason="night shift")
    assert desk.rights(bob) == set()
    assert [entry.action for entry in desk.log()] == ["create_group", "join_group"]
    with pytest.raises(ValidationFailed, match="There is a group of this name"):
        create(ada, "oncall", reason="nights")


@pytest.mark.parametrize("name", ["", " ", "x" * (groups.MAX_NAME + 1), "a\nb"])
def test_a_group_has_a_name(ada: Actor, name: str) -> None:
    with pytest.raises(ValidationFailed) as refused:
        create(ada, name, reason="nights")
    assert set(refused.value.fields) == {"name"}


def test_the_log_of_every_namespace_that_a_group_reaches_names_the_change(desk: Desk, ada: Actor) -> None:
    other = Desk("other")
    other.person("ada", ADMINISTER)
    desk.person("bob")
    desk.group("oncall", rights=(RECOVER,))
    other.group("oncall", rights=(READ,))
    join(ada, "oncall", "bob", reason="night shift")
    assert {entry.namespace_id for entry in desk.log()} == {desk.namespace.pk, other.namespace.pk}


def test_a_group_that_reaches_another_namespace_is_not_for_the_administrator_of_one(desk: Desk, ada: Actor) -> None:
    other = Desk("other")
    eve = desk.person("eve")
    desk.group("oncall", eve, rights=(RECOVER,))
    other.group("oncall", eve, rights=(READ,), until=clock.now() - timedelta(hours=1))
    desk.person("bob")
    with pytest.raises(PermissionDenied, match="other namespaces"):
        join(ada, "oncall", "bob", reason="night shift")
    with pytest.raises(PermissionDenied, match="other namespaces"):
        leave(ada, "oncall", "eve", reason="night shift")
    assert not desk.log()


def test_nobody_joins_a_group_that_administers(desk: Desk, ada: Actor) -> None:
    desk.group("leads", rights=(ADMINISTER,))
    with pytest.raises(PermissionDenied, match="themselves"):
        join(ada, "leads", "ada", reason="test")
    desk.person("bob")
    join(ada, "leads", "bob", reason="second administrator")


def test_the_last_administrator_does_not_leave_the_group(desk: Desk) -> None:
    bob = desk.person("bob", READ)
    desk.group("leads", bob, rights=(ADMINISTER,))
    with pytest.raises(StateConflict, match="Nobody could administer"):
        leave(bob, "leads", "bob", reason="test")
    assert ADMINISTER in desk.rights(bob)


def test_members_are_for_administrators_only(desk: Desk, ada: Actor) -> None:
    reader, stranger = desk.person("reader", READ), desk.person("root", is_superuser=True)
    desk.group("oncall", rights=(RECOVER,))
    for actor, error in ((reader, PermissionDenied), (stranger, NotFound)):
        with pytest.raises(error):
            join(actor, "oncall", "reader", reason="test")
        with pytest.raises(error):
            leave(actor, "oncall", "reader", reason="test")
        with pytest.raises(error):
            create(actor, "mine", reason="test")


@pytest.mark.parametrize(("group", "person"), [("nobody", "ada"), ("oncall", "nobody")])
def test_unknown_names_are_refused(desk: Desk, ada: Actor, group: str, person: str) -> None:
    desk.group("oncall")
    with pytest.raises(ValidationFailed):
        join(ada, group, person, reason="test")
