"""A check beside people and workers who go on working."""

import threading
from collections.abc import Iterator

import pytest

from recovery.locks import transact
from recovery.models import ApplicationQuota
from recovery.verify import Check, Scope, Violation
from recovery.writes import change, insert
from tests.support.rows import nonsense
from tests.support.threads import together


@pytest.mark.django_db(transaction=True)
def test_what_is_written_meanwhile_is_not_seen_by_halves_and_does_not_wait() -> None:
    quota = nonsense(ApplicationQuota, open_tasks=1)
    insert(quota)
    looked, written = threading.Event(), threading.Event()
    seen: list[int] = []

    def find(scope: Scope) -> Iterator[Violation]:
        for _look in range(2):
            seen.append(ApplicationQuota.objects.get(pk=quota.pk).open_tasks)
            looked.set()
            assert written.wait(timeout=60)
        return iter(())

    def write() -> None:
        assert looked.wait(timeout=60)
        transact(lambda locks: change(locks.row(ApplicationQuota, quota.pk), open_tasks=2))
        written.set()

    check = Check(name="twice", promise="", find=find, deep=False)
    together([lambda: check.look(Scope()), write])
    assert seen == [1, 1]
    assert ApplicationQuota.objects.get(pk=quota.pk).open_tasks == 2
