"""Somebody with the rights of the database's owner changes what is append-only: the chain and its anchor show it."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection
from django.db.models import F

from recovery import audit
from recovery.models import OperationReceipt, Task, WorkflowAudit
from recovery.models.fields import Ref
from tests.support.recovering import recover
from tests.support.trees import task
from tests.support.world import Flow, World
from tests.verify.breaking import put, remove, said

pytestmark = pytest.mark.django_db(transaction=True)


@contextmanager
def without_guards() -> Iterator[None]:
    """Drops the triggers for a while. On MariaDB this commits, hence the transactional tests."""
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
            triggers = dict(cursor.fetchall())
        else:
            cursor.execute("SELECT trigger_name FROM information_schema.triggers WHERE trigger_schema = DATABASE()")
            triggers = {}
            for (name,) in cursor.fetchall():
                cursor.execute(f"SHOW CREATE TRIGGER {name}")
                triggers[name] = re.sub(r"DEFINER=\S+ ", "", cursor.fetchone()[2])
        for name in triggers:
            cursor.execute(f"DROP TRIGGER {name}")
        try:
            yield
        finally:
            for sql in triggers.values():
                cursor.execute(sql)


@pytest.fixture(name="flow")
def _flow(world: World) -> Flow:
    """Reviewed, retried and paused: seven entries or more."""
    flow = world.start(task("pay"))
    world.unknown(world.claim())
    recover(flow, "review-task", "pay", outcome="FAILED", result={"why": "never arrived"})
    recover(flow, "retry-step", "pay")
    recover(flow, "continue")
    flow.pause()
    assert len(flow.audits()) >= 6
    return flow


@pytest.mark.rule("G10")
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("actor", "another"),
        ("action", "cancel"),
        ("reason", "another reason"),
        ("evidence_ref", "another"),
        ("before", {}),
        ("after", {"status": "SUCCEEDED"}),
        ("operation_id", None),
        ("execution_audit_id", "0" * 32),
        ("created_at", F("settled_at")),
    ],
)
def test_an_entry_that_was_changed(flow: Flow, field: str, value: Any) -> None:
    entry = flow.audits()[2]
    with without_guards():
        put(entry, **{field: flow.instance.deadline_at if field == "created_at" else value})
    assert "not what its hash says" in said("audit_chains", entry)


@pytest.mark.rule("G10")
def test_an_entry_that_was_changed_and_hashed_again(flow: Flow) -> None:
    """The next entry still names the old hash; the last entry's is named by the head."""
    second, third = flow.audits()[1:3]
    with without_guards():
        second.reason = "another reason"
        put(second, reason=second.reason, entry_hash=audit.entry_hash(second))
    assert "does not follow" in said("audit_chains", third)
    last = flow.audits()[-1]
    with without_guards():
        last.reason = "another reason"
        put(last, reason=last.reason, entry_hash=audit.entry_hash(last))
    said("audit_heads", flow.instance)


@pytest.mark.rule("G10")
def test_an_entry_that_was_taken_out(flow: Flow) -> None:
    second, third = flow.audits()[1:3]
    with without_guards():
        remove(second)
    assert said("audit_chains", third) == "Entry 2 is missing before it."
    said("audit_heads", flow.instance)


@pytest.mark.rule("G10")
def test_a_tail_that_was_cut(flow: Flow) -> None:
    """Nothing is wrong with what is left; the anchor shows it."""
    for entry in flow.audits()[-2:]:
        with without_guards():
            remove(entry)
    assert "entries, the last one" in said("audit_heads", flow.instance)


@pytest.mark.rule("G10")
def test_two_entries_that_were_exchanged(flow: Flow) -> None:
    second, third = flow.audits()[1:3]
    with without_guards():
        put(second, sequence=99)
        put(third, sequence=2)
        put(second, sequence=3)
    said("audit_chains", third)
    said("audit_chains", second)


@pytest.mark.rule("G4")
def test_a_receipt_that_was_changed_or_taken_away(flow: Flow) -> None:
    receipt = OperationReceipt.objects.filter(operation__action="continue").get()
    with without_guards():
        put(receipt, response=receipt.response | {"revision": "99"})
    assert said("receipt_contents", receipt).startswith("revision differ")
    with without_guards():
        remove(receipt)
    said("receipts", receipt.operation)


@pytest.mark.rule("G10")
def test_an_audit_that_was_taken_away_with_its_receipt_left(flow: Flow) -> None:
    receipt = OperationReceipt.objects.filter(operation__action="continue").get()
    with without_guards():
        remove(WorkflowAudit.objects.get(operation=receipt.operation))
    said("audited_receipts", receipt)


@pytest.mark.rule("RY1")
def test_a_second_successor_of_a_task(flow: Flow) -> None:
    """The unique key refuses it; a database that was restored without its keys would not."""
    first, second = flow.tasks("pay")
    loose = Ref(Task, null=True, related_name="+")
    loose.set_attributes_from_name("retry_of")
    loose.model = Task
    with connection.schema_editor() as editor:
        editor.alter_field(Task, Task._meta.get_field("retry_of"), loose)
    twin = Task.objects.get(pk=second.pk)
    twin.pk = "1" * 32
    Task.objects.bulk_create([twin])
    assert said("successors", first) == "It has 2 successors."
    remove(twin)
    with connection.schema_editor() as editor:
        editor.alter_field(Task, loose, Task._meta.get_field("retry_of"))
