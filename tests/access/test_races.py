"""Changes of access at one moment: they wait for each other, and each sees the one before."""

import json
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from recovery.access import grants, groups, provision
from recovery.access.grants import Held
from recovery.errors import PermissionDenied, StateConflict
from recovery.models import AccessLedger, AccessLog
from recovery.permissions import ADMINISTER, READ, Actor
from recovery.writes import insert
from tests.access.conftest import Desk
from tests.access.provisioning import CONTRACT
from tests.support.threads import together


@pytest.fixture(autouse=True)
def _there_is_a_ledger(transactional_db: None) -> None:
    """Before the first change of all there is none, and its insert would be a lock too."""
    insert(AccessLedger())


@pytest.fixture(name="meet")
def _meet(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any, str], None]:
    """Makes two callers wait for each other after all checks and before the write, for two seconds.

    Without the lock both arrive there, and both write. With it the second cannot come, and the first goes on alone.
    """
    gate = threading.Barrier(2)

    def meet_before(module: Any, name: str) -> None:
        write = getattr(module, name)

        def wait_and_write(*args: Any, **kwargs: Any) -> Any:
            with suppress(threading.BrokenBarrierError):
                gate.wait(timeout=2)
            return write(*args, **kwargs)

        monkeypatch.setattr(module, name, wait_and_write)

    return meet_before


def test_two_administrators_who_remove_each_other_leave_one(desk: Desk, meet: Callable[[Any, str], None]) -> None:
    pair = [desk.person("ada", READ, ADMINISTER), desk.person("bob", READ, ADMINISTER)]
    held = [Held("user", actor.username, ADMINISTER) for actor in reversed(pair)]
    seen = [desk.version(one) for one in held]
    meet(grants, "take")
    acts = [
        partial(grants.revoke, actor, other, version=version, reason="race")
        for actor, other, version in zip(pair, held, seen, strict=True)
    ]
    answers = together(acts)
    assert [type(answer) for answer in answers if isinstance(answer, Exception)] == [PermissionDenied]
    assert sum(ADMINISTER in desk.rights(actor) for actor in pair) == 1
    assert AccessLog.objects.count() == AccessLedger.objects.get().entries == 1


def test_two_who_leave_the_group_of_administrators_at_once_leave_one(
    desk: Desk, meet: Callable[[Any, str], None]
) -> None:
    members = [desk.person(name, READ) for name in ("ada", "bob")]
    desk.group("leads", *members, rights=(ADMINISTER,))
    meet(groups, "remove")
    answers = together([partial(groups.leave, actor, "leads", actor.username, reason="race") for actor in members])
    assert [type(answer) for answer in answers if isinstance(answer, Exception)] == [StateConflict]
    assert sum(ADMINISTER in desk.rights(actor) for actor in members) == 1


def test_two_first_changes_of_all_are_both_done(desk: Desk) -> None:
    AccessLedger.objects.all().delete()
    ada = desk.person("ada", ADMINISTER)
    acts = [partial(groups.create, ada, name, reason="race") for name in ("days", "nights")]
    assert not [answer for answer in together(acts) if isinstance(answer, Exception)]
    assert AccessLedger.objects.get().entries == 2


def test_two_runs_of_one_provisioning_file_make_everything_once() -> None:
    text = json.dumps(CONTRACT).encode()
    first, second = together([lambda: provision.provision(provision.read(text))] * 2)
    assert isinstance(first, provision.Outcome)
    assert isinstance(second, provision.Outcome)
    assert sorted([len(first.tokens), len(second.tokens)]) == [0, 1]
    assert AccessLog.objects.filter(action="create_namespace").count() == 1


def test_many_changes_at_once_leave_a_log_without_a_gap(desk: Desk) -> None:
    ada: Actor = desk.person("ada", ADMINISTER)
    names = [f"person-{number}" for number in range(8)]
    for name in names:
        desk.person(name)
    answers = together([partial(grants.grant, ada, "user", name, names=[READ], reason="race") for name in names])
    assert [isinstance(answer, list) for answer in answers] == [True] * 8
    assert list(AccessLog.objects.order_by("sequence").values_list("sequence", flat=True)) == list(range(1, 9))
    assert AccessLedger.objects.get().entries == 8
