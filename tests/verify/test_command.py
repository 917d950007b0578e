"""`manage.py verify` on a world at work, and what it says of a broken one."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db.models import F

from recovery.models import Namespace, ResultEvent, TaskResult
from recovery.verify import CHECKS, MOST, NOT_SEEN, Scope, base
from tests.support.rows import nonsense
from tests.support.statements import capture_statements
from tests.verify.breaking import put
from tests.verify.conftest import Busy

pytestmark = pytest.mark.django_db


def _verify(capsys: pytest.CaptureFixture[str], **options: Any) -> tuple[int, str]:
    """Exit status and standard output."""
    capsys.readouterr()
    try:
        call_command("verify", no_color=True, **options)
    except SystemExit as ended:
        return int(str(ended.code)), capsys.readouterr().out
    return 0, capsys.readouterr().out


def test_a_world_at_work_holds_in_every_check(busy: Busy) -> None:
    for name, check in CHECKS.items():
        assert check.look(Scope()).violations == (), name
        assert check.look(Scope(busy.world.namespace.pk)).violations == (), name


def test_what_holds_is_said_and_exits_with_0(busy: Busy, capsys: pytest.CaptureFixture[str]) -> None:
    status, told = _verify(capsys, deep=True)
    assert status == 0
    for name in CHECKS:
        assert f"holds     {name}: " in told
    assert f"All {len(CHECKS)} invariants hold." in told
    for sentence in NOT_SEEN:
        assert str(sentence) in told


def test_what_is_violated_is_named_and_exits_with_1(busy: Busy, capsys: pytest.CaptureFixture[str]) -> None:
    quota = busy.world.application_quota()
    put(quota, open_tasks=F("open_tasks") + 1)
    status, told = _verify(capsys)
    assert status == 1
    assert "VIOLATED  application_tasks: An application counts as many open tasks" in told
    assert f"ApplicationQuota {quota.pk}: open_tasks says {quota.open_tasks + 1}, but there are" in told
    assert f"1 of {sum(not check.deep for check in CHECKS.values())} invariants is violated." in told


def test_the_same_as_json(busy: Busy, capsys: pytest.CaptureFixture[str]) -> None:
    status, told = _verify(capsys, json=True)
    report = json.loads(told)
    assert (status, report["holds"]) == (0, True)
    assert [check["name"] for check in report["checks"]] == [name for name in CHECKS if not CHECKS[name].deep]
    assert report["not_seen"]
    stream = busy.world.stream()
    put(stream, next_offset=F("next_offset") + 1)
    status, told = _verify(capsys, json=True)
    report = json.loads(told)
    assert (status, report["holds"]) == (1, False)
    (broken,) = (check for check in report["checks"] if check["violations"])
    (violation,) = broken["violations"]
    assert (broken["name"], broken["more"]) == ("offsets", False)
    assert (violation["entity"], violation["id"]) == ("ResultStream", stream.pk)
    assert violation["sentence"].startswith("Its next offset is")


def test_one_namespace_is_looked_at_by_its_name(busy: Busy, capsys: pytest.CaptureFixture[str]) -> None:
    Namespace.objects.bulk_create([nonsense(Namespace, name="quiet")])
    put(busy.world.stream(), next_offset=F("next_offset") + 1)
    assert _verify(capsys, namespace="quiet")[0] == 0
    assert _verify(capsys, namespace=busy.world.namespace.name)[0] == 1
    with pytest.raises(CommandError, match="no namespace “elsewhere”") as unknown:
        call_command("verify", namespace="elsewhere")
    assert unknown.value.returncode == 2


def test_a_check_names_so_many_rows_and_says_that_there_are_more(
    busy: Busy, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    results = TaskResult.objects.count()
    assert results > 3
    ResultEvent.objects.update(payload_digest="0" * 64, task_revision=F("task_revision") + 99)
    monkeypatch.setattr(base, "MOST", 3)
    found = CHECKS["result_events"].look(Scope())
    assert (len(found.violations), found.more) == (3, True)
    monkeypatch.setattr(base, "MOST", results)
    found = CHECKS["result_events"].look(Scope())
    assert (len(found.violations), found.more) == (results, False)
    monkeypatch.undo()
    assert f"and more than these {MOST}" not in _verify(capsys)[1]


def test_a_row_that_is_no_json_is_a_violation_and_no_crash(busy: Busy) -> None:
    from django.db import connection

    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute("PRAGMA ignore_check_constraints = ON")
        cursor.execute("UPDATE recovery_taskresult SET payload = '{'")
        if connection.vendor == "sqlite":
            cursor.execute("PRAGMA ignore_check_constraints = OFF")
    (violation,) = CHECKS["histories"].look(Scope()).violations
    assert "no JSON" in violation.sentence


@pytest.mark.parametrize("name", [name for name, check in CHECKS.items() if not check.deep])
def test_a_large_table_is_looked_at_in_few_statements_or_in_chunks(
    busy: Busy, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing loads a whole table: a statement either finds violations only, or is limited."""
    monkeypatch.setattr(base, "CHUNK", 2)
    with capture_statements() as statements:
        assert CHECKS[name].look(Scope()).violations == ()
    for statement in statements:
        if statement.sql.startswith("SELECT"):
            assert "LIMIT" in statement.sql, statement.sql


def test_nothing_is_written_and_nothing_is_locked(busy: Busy) -> None:
    with capture_statements() as statements:
        for check in CHECKS.values():
            check.look(Scope())
    for statement in statements:
        assert statement.sql.startswith(("SELECT", "SAVEPOINT", "RELEASE")), statement.sql
        assert "FOR UPDATE" not in statement.sql


def test_every_check_is_broken_by_a_test() -> None:
    """A check that no test breaks may find nothing at all."""
    here = Path(__file__).parent
    tests = "".join(path.read_text() for path in here.glob("test_*.py"))
    assert [name for name in CHECKS if f'"{name}"' not in tests] == []
