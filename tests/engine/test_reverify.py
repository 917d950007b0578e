"""Quarantine: what does not fit its source holds up its instance until the source was repaired and checked again."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from recovery.engine import inbox
from recovery.models import ActivationTask, InboxEvent, Namespace, ResultEvent, ResultStream, Task, TaskResult
from recovery.writes import insert
from tests.support.faults import facts
from tests.support.recovering import refused
from tests.support.trees import parallel, task
from tests.support.world import Flow, World

pytestmark = pytest.mark.django_db


def started(world: World) -> Flow:
    """Two branches whose results are published, "a" first, and not consumed."""
    flow = world.start(parallel(task("a"), task("b"), task("c")))
    leases = {lease.task.pk: lease for lease in world.claim_all()}
    for key in ("a", "b"):
        world.succeed(leases[flow.task(key).pk], {"n": 1}, run=False)
    return flow


def event(flow: Flow) -> ResultEvent:
    """The first one, of branch "a"."""
    return ResultEvent.objects.get(pk=flow.inbox()[0].result_event_id)


@contextmanager
def row_changed(model: Any, key: str, **fields: Any) -> Iterator[None]:
    """Somebody damages a row behind the engine's back, and repairs it at the end of the block."""
    rows = model.objects.filter(pk=key)
    before = rows.values(*fields).get()
    rows.update(**fields)
    yield
    rows.update(**before)


@contextmanager
def row_lost(model: Any, key: str) -> Iterator[None]:
    row = model.objects.get(pk=key)
    model.objects.filter(pk=key).delete()
    yield
    insert(row)


@contextmanager
def unreadable(flow: Flow) -> Iterator[None]:
    key = event(flow).result_id
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute("PRAGMA ignore_check_constraints = ON")
        cursor.execute("UPDATE recovery_taskresult SET payload = %s WHERE id = %s", ['{"n": 1', key])
    yield
    with connection.cursor() as cursor:
        cursor.execute("UPDATE recovery_taskresult SET payload = %s WHERE id = %s", ['{"n": 1}', key])
        if connection.vendor == "sqlite":
            cursor.execute("PRAGMA ignore_check_constraints = OFF")


@contextmanager
def foreign_stream(flow: Flow) -> Iterator[None]:
    namespace = Namespace(name="other", display_name="", status="ACTIVE", created_at=flow.instance.created_at)
    stream = ResultStream(namespace=namespace, next_offset=1)
    insert(namespace, stream)
    with row_changed(ResultEvent, event(flow).pk, stream_id=stream.pk):
        yield


DAMAGES: dict[str, Callable[[Flow], Any]] = {
    "content": lambda flow: row_changed(TaskResult, event(flow).result_id, payload={"n": 2}),
    "digest": lambda flow: row_changed(ResultEvent, event(flow).pk, payload_digest="0" * 64),
    "outcome": lambda flow: row_changed(TaskResult, event(flow).result_id, outcome="FAILED"),
    "event's revision": lambda flow: row_changed(ResultEvent, event(flow).pk, task_revision=1),
    "result's revision": lambda flow: row_changed(TaskResult, event(flow).result_id, task_revision=1),
    "task's revision": lambda flow: row_changed(Task, flow.task("a").pk, revision=1),
    "event's task": lambda flow: row_changed(ResultEvent, event(flow).pk, task_id=flow.task("c").pk),
    "result's task": lambda flow: row_changed(TaskResult, event(flow).result_id, task_id=flow.task("c").pk),
    "event's activation": lambda flow: row_changed(ResultEvent, event(flow).pk, activation_id=flow.activation("c").pk),
    "task's owner": lambda flow: row_changed(Task, flow.task("a").pk, owner_activation_id=flow.activation("c").pk),
    "owner's half": lambda flow: row_lost(ActivationTask, ActivationTask.objects.get(task=flow.task("a")).pk),
    "task's instance": lambda flow: row_changed(Task, flow.task("a").pk, instance_id="0" * 32),
    "task's application": lambda flow: row_changed(Task, flow.task("a").pk, application_id="0" * 32),
    "result's attempt": lambda flow: row_changed(
        TaskResult, event(flow).result_id, attempt_id=flow.attempts("c")[0].pk
    ),
    "stream": foreign_stream,
    "lost event": lambda flow: row_lost(ResultEvent, event(flow).pk),
    "lost result": lambda flow: row_lost(TaskResult, event(flow).result_id),
    "unreadable": unreadable,
}


@pytest.mark.rule("B4")
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_result_that_does_not_fit_is_quarantined_and_consumed_after_its_repair(world: World, damage: str) -> None:
    flow = started(world)
    event_id = event(flow).pk
    before = flow.instance.revision
    with DAMAGES[damage](flow):
        assert inbox.consume(flow.id) == 1
        first, second = InboxEvent.objects.filter(instance_id=flow.id).order_by("received_at", "status").reverse()
        assert (first.status, first.disposition, first.processed_at) == ("QUARANTINED", "SOURCE_CORRUPT", None)
        assert second.status == "PENDING"  # in its turn only
        assert (flow.status, flow.instance.review_reason) == ("NEEDS_REVIEW", "SOURCE_CORRUPT")
        assert flow.instance.revision == before + 1
        assert flow.step("a").status == "RUNNING"
        assert inbox.consume(flow.id) == 0
        assert inbox.reverify(event_id, actor="somebody")
        assert inbox.consume(flow.id) == 0
    assert inbox.reverify(event_id, actor="somebody") is None
    assert inbox.consume(flow.id) == 2
    assert [row.disposition for row in flow.inbox()] == ["ADVANCED", "ADVANCED"]
    assert (flow.step("a").status, flow.status) == ("SUCCEEDED", "NEEDS_REVIEW")
    assert flow.instance.revision == before + 4  # quarantined, released, two consumed
    assert world.application_quota().open_tasks == 1


@pytest.fixture(name="quarantined")
def _quarantined(world: World) -> Flow:
    """An instance whose first event was quarantined because of a damaged payload."""
    flow = started(world)
    TaskResult.objects.filter(pk=event(flow).result_id).update(payload={"n": 2})
    inbox.consume(flow.id)
    return flow


def repair(flow: Flow) -> None:
    TaskResult.objects.filter(pk=event(flow).result_id).update(payload={"n": 1})


@pytest.mark.rule("B4", "G6")
def test_no_statement_by_a_person_releases_a_quarantined_event(quarantined: Flow) -> None:
    refused(quarantined, "INBOX_UNSETTLED", "continue")


@pytest.mark.rule("B4")
def test_a_quarantine_holds_up_no_other_instance(world: World, quarantined: Flow) -> None:
    other = world.start(task("pay"))
    world.succeed(world.claim())
    assert other.status == "SUCCEEDED"
    assert quarantined.inbox()[1].status == "PENDING"


@pytest.mark.rule("B4", "B10")
def test_an_instance_with_a_quarantined_event_does_not_end(world: World, quarantined: Flow) -> None:
    quarantined.cancel()
    assert (quarantined.status, quarantined.instance.stop_kind) == ("NEEDS_REVIEW", "CANCEL")


@pytest.mark.rule("B4", "G10")
def test_a_check_that_fails_is_audited_and_changes_nothing(quarantined: Flow) -> None:
    event_id, before = event(quarantined).pk, facts()
    assert inbox.reverify(event_id, actor="shell") == "the digest differs"
    entry = quarantined.audits()[-1]
    assert (entry.actor, entry.action, entry.reason) == ("shell", "reverify_inbox", "the digest differs")
    assert entry.before == entry.after == {"event_id": event_id, "inbox_status": "QUARANTINED"}
    after = facts()
    after["WorkflowAudit"] = [row for row in after["WorkflowAudit"] if row["id"] != entry.pk]
    for known in (before, after):
        for name, column in (("WorkflowInstance", "audit_head"), ("ApplicationQuota", "lock_seq")):
            for row in known[name]:
                del row[column]
    assert after == before


@pytest.mark.rule("B4", "G10")
def test_the_command_releases_a_repaired_event_and_audits_it(world: World, quarantined: Flow) -> None:
    repair(quarantined)
    before, said = quarantined.instance.revision, io.StringIO()
    call_command("reverify_inbox", event(quarantined).pk, "--actor", "ann", stdout=said)
    assert "pending again" in said.getvalue()
    assert (quarantined.inbox()[0].status, quarantined.inbox()[0].disposition) == ("PENDING", "")
    assert quarantined.instance.revision == before + 1
    entry = quarantined.audits()[-1]
    assert (entry.actor, entry.action) == ("ann", "reverify_inbox")
    assert (entry.before["inbox_status"], entry.after["inbox_status"]) == ("QUARANTINED", "PENDING")
    world.run()
    assert [row.disposition for row in quarantined.inbox()] == ["ADVANCED", "ADVANCED"]


@pytest.mark.rule("B4")
def test_the_command_says_what_does_not_fit(quarantined: Flow) -> None:
    with pytest.raises(CommandError, match="Still quarantined: the digest differs"):
        call_command("reverify_inbox", event(quarantined).pk)


def test_the_command_refuses_events_that_are_not_quarantined_or_not_there(world: World) -> None:
    flow = started(world)
    with pytest.raises(CommandError, match="PENDING"):
        call_command("reverify_inbox", event(flow).pk)
    with pytest.raises(CommandError, match="No inbox received an event nothing"):
        call_command("reverify_inbox", "nothing")
    assert [entry.action for entry in flow.audits()] == ["start"]


@pytest.mark.rule("B4", "B9")
def test_a_damaged_late_report_of_an_ended_instance_is_quarantined_without_a_review(world: World) -> None:
    flow = world.start(task("pay"))
    first = world.claim()
    world.fail(first, retryable=True)
    world.succeed(world.claim())
    world.succeed(first, {"n": 1}, run=False)
    TaskResult.objects.filter(source="LATE").update(payload={"n": 2})
    assert inbox.consume(flow.id) == 1
    assert (flow.status, flow.inbox()[1].status) == ("SUCCEEDED", "QUARANTINED")
