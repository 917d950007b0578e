"""Reports: what an end of an attempt changes, what a second one is answered, and what comes too late."""

from datetime import timedelta
from decimal import Decimal
from functools import partial
from typing import Any

import pytest
from django.contrib.auth import get_user_model

from recovery import clock, exact_json, permissions
from recovery.engine import reaper, report
from recovery.engine.report import Report
from recovery.errors import NotFound, PermissionDenied, StateConflict, ValidationFailed
from recovery.locks import Locks
from recovery.models import (
    Application,
    ExecutionPermit,
    InboxEvent,
    Namespace,
    QuotaHold,
    ResultEvent,
    Task,
    TaskAttempt,
    TaskResult,
)
from recovery.permissions import Actor
from recovery.writes import change, insert
from tests.support.ledger import assert_ledger_holds, locked_tables
from tests.support.threads import together
from tests.support.trees import MINUTE, sequence, task
from tests.support.world import Flow, World


def facts(flow: Flow, key: str = "pay") -> dict[str, Any]:
    """Everything that a report may change about the step's last task."""
    found = flow.task(key)
    return {
        "task": Task.objects.filter(pk=found.pk).values().get(),
        "attempts": list(TaskAttempt.objects.filter(task=found).order_by("attempt_no").values()),
        "permits": list(ExecutionPermit.objects.filter(task=found).order_by("pk").values()),
        "results": list(TaskResult.objects.filter(task=found).order_by("task_revision").values()),
        "events": list(ResultEvent.objects.filter(task=found).order_by("offset").values()),
        "inbox": list(InboxEvent.objects.filter(task=found).order_by("task_revision").values()),
        "running": flow.world.queue_quota().running,
    }


def test_a_success_settles_the_task_and_publishes_its_result(world: World) -> None:
    flow = world.start(task("pay"))
    before = flow.instance.revision
    lease = world.claim()
    world.travel(seconds=5, run=False)
    result = {"state": "done", "amount": Decimal("1.10"), "number": 12345678901234567890}
    assert world.succeed(lease, result, run=False) == Report(late=False, task_status="SUCCEEDED")
    found = flow.task("pay")
    assert (found.status, found.revision, found.settled_at) == ("SUCCEEDED", 3, clock.now())
    [attempt] = flow.attempts("pay")
    assert (attempt.status, attempt.ended_at) == ("SUCCEEDED", clock.now())
    permit = ExecutionPermit.objects.get(attempt=attempt)
    assert (permit.active_key, permit.released_at) == (None, clock.now())
    [kept] = flow.results("pay")
    assert (kept.source, kept.outcome, kept.task_revision, kept.attempt_id) == ("WORKER", "SUCCEEDED", 3, attempt.pk)
    assert kept.payload == result
    event = ResultEvent.objects.get(result=kept)
    assert (event.task_revision, event.activation_id) == (3, found.owner_activation_id)
    assert event.payload_digest == exact_json.digest(result)
    [row] = flow.inbox()
    assert (row.status, row.task_revision, row.result_event_id) == ("PENDING", 3, event.pk)
    assert flow.instance.revision == before  # consumption raises it
    # The hold is given back by the consumption, under the application quota that workers never lock.
    assert QuotaHold.objects.get(task=found).released_at is None
    assert_ledger_holds(world)


# B1


@pytest.mark.rule("B1")
def test_a_retryable_failure_is_queued_again_after_the_backoff(world: World) -> None:
    flow = world.start(task("pay", policy={"backoff_ms": MINUTE}))
    assert world.fail(world.claim(), retryable=True) == Report(late=False, task_status="QUEUED")
    found = flow.task("pay")
    assert (found.status, found.revision, found.settled_at) == ("QUEUED", 3, None)
    assert found.available_at == clock.now() + timedelta(minutes=1)
    [attempt] = flow.attempts("pay")
    assert (attempt.status, attempt.error_code, attempt.error_message) == ("FAILED", "REFUSED", "the bank said no")
    assert flow.results("pay") == []
    assert_ledger_holds(world)


@pytest.mark.rule("B1")
def test_a_failure_that_is_not_retryable_is_final(world: World) -> None:
    flow = world.start(task("pay"))
    assert world.fail(world.claim(), retryable=False).task_status == "FAILED"
    [kept] = flow.results("pay")
    assert (kept.outcome, kept.source) == ("FAILED", "WORKER")
    assert kept.payload == {"error_code": "REFUSED", "error_message": "the bank said no"}
    assert flow.task("pay").settled_at == clock.now()
    assert_ledger_holds(world)


@pytest.mark.rule("B1")
def test_the_last_attempt_that_fails_fails_the_task(world: World) -> None:
    flow = world.start(task("pay", max_attempts=2))
    assert world.fail(world.claim(), retryable=True).task_status == "QUEUED"
    assert world.fail(world.claim(), retryable=True).task_status == "FAILED"
    assert flow.task("pay").attempt_count == 2


@pytest.mark.rule("B1")
@pytest.mark.parametrize(("code", "retryable", "status"), [("TIMEOUT", False, "QUEUED"), ("REFUSED", True, "FAILED")])
def test_pinned_codes_decide_against_the_workers_word(world: World, code: str, retryable: bool, status: str) -> None:
    world.start(task("pay", policy={"retryable_errors": ["TIMEOUT"]}))
    assert world.fail(world.claim(), error_code=code, retryable=retryable).task_status == status


@pytest.mark.rule("B1")
def test_a_retry_that_the_deadline_forestalls_is_queued_for_the_reaper(world: World) -> None:
    flow = world.start(task("pay", timeout_ms=MINUTE, policy={"backoff_ms": 2 * MINUTE}))
    assert world.fail(world.claim(), retryable=True).task_status == "QUEUED"
    world.travel(minutes=1, run=False)
    assert reaper.reap() == 1
    assert flow.task("pay").status == "FAILED"


# B2


@pytest.mark.rule("B2")
def test_an_unknown_effect_keeps_permit_key_hold_and_count(world: World) -> None:
    flow = world.start(task("pay", policy={"concurrency_key": "account-7"}))
    assert world.unknown(world.claim()) == Report(late=False, task_status="NEEDS_REVIEW")
    found = flow.task("pay")
    assert (found.status, found.revision, found.settled_at) == ("NEEDS_REVIEW", 3, None)
    [attempt] = flow.attempts("pay")
    assert (attempt.status, attempt.error_code) == ("UNKNOWN", "TIMEOUT")
    [kept] = flow.results("pay")
    assert (kept.outcome, kept.source) == ("UNKNOWN", "WORKER")
    assert kept.payload == {"error_code": "TIMEOUT", "error_message": "no answer"}
    permit = ExecutionPermit.objects.get(task=found)
    assert (permit.active_key, permit.released_at) == (f"{found.queue_id}:account-7", None)
    assert world.queue_quota().running == 1
    assert QuotaHold.objects.get(task=found).released_at is None
    assert world.claim_all() == []
    assert (flow.status, flow.gate) == ("NEEDS_REVIEW", "CLOSED")
    assert_ledger_holds(world)


# B9


@pytest.mark.rule("B9")
@pytest.mark.parametrize("word", ["succeed", "fail", "unknown"])
def test_a_report_after_a_lost_lease_is_kept_once_and_changes_nothing(world: World, word: str) -> None:
    flow = world.start(task("pay", policy={"concurrency_key": "account-7"}))
    lease = world.claim()
    world.lose_lease(lease)
    before = facts(flow)
    assert getattr(world, word)(lease, run=False) == Report(late=True, task_status="NEEDS_REVIEW")
    after = facts(flow)
    assert after["task"] == before["task"] | {"revision": before["task"]["revision"] + 1}
    assert [after[name] for name in ("attempts", "permits", "running")] == [
        before[name] for name in ("attempts", "permits", "running")
    ]
    late = after["results"].pop()
    assert after["results"] == before["results"]
    outcome = {"succeed": "SUCCEEDED", "fail": "FAILED", "unknown": "UNKNOWN"}[word]
    assert (late["source"], late["outcome"], late["attempt_id"]) == ("LATE", outcome, lease.attempt.pk)
    assert after["events"].pop()["result_id"] == late["id"]
    assert after["inbox"].pop()["status"] == "PENDING"
    again = facts(flow)
    assert getattr(world, word)(lease, run=False) == Report(late=True, task_status="NEEDS_REVIEW")
    assert world.succeed(lease, {"something": "else"}, run=False).late
    assert facts(flow) == again


@pytest.mark.rule("B9")
def test_a_late_word_about_a_failed_attempt_does_not_disturb_the_next_one(world: World) -> None:
    flow = world.start(task("pay"))
    first = world.claim()
    world.fail(first, retryable=True)
    second = world.claim()
    assert world.succeed(first, run=False) == Report(late=True, task_status="RUNNING")
    assert flow.task("pay").revision == 5
    assert world.succeed(second, {"state": "second"}) == Report(late=False, task_status="SUCCEEDED")
    assert [(kept.source, kept.task_revision) for kept in flow.results("pay")] == [("LATE", 5), ("WORKER", 6)]
    assert (flow.status, flow.instance.output) == ("SUCCEEDED", {"state": "second"})
    assert_ledger_holds(world)


@pytest.mark.rule("B9")
def test_an_attempts_own_report_is_answered_again_and_written_once(world: World) -> None:
    flow = world.start(sequence(task("ok"), task("retried"), task("refused"), task("lost"), key="root"))
    lease = world.claim()
    for _time in range(2):
        assert world.succeed(lease, {"n": Decimal("1.0")}) == Report(late=False, task_status="SUCCEEDED")
    lease = world.claim()
    world.fail(lease, retryable=True)
    before = facts(flow, "retried")
    assert world.fail(lease, retryable=True) == Report(late=False, task_status="QUEUED")
    assert facts(flow, "retried") == before
    world.succeed(world.claim())
    assert world.fail(lease, retryable=True) == Report(late=False, task_status="QUEUED")
    lease = world.claim()
    for _time in range(2):
        assert world.fail(lease, run=False) == Report(late=False, task_status="FAILED")
    assert len(flow.results("refused")) == 1
    other = world.start(task("lost"))
    lease = world.claim()
    for _time in range(2):
        assert world.unknown(lease, run=False) == Report(late=False, task_status="NEEDS_REVIEW")
    assert len(other.results("lost")) == 1


@pytest.mark.rule("B9")
def test_a_changed_mind_is_late(world: World) -> None:
    flow = world.start(task("pay"))
    lease = world.claim()
    world.succeed(lease, {"state": "done"})
    assert world.fail(lease) == Report(late=True, task_status="SUCCEEDED")
    assert world.succeed(lease, {"state": "other"}).late
    assert [(kept.source, kept.outcome) for kept in flow.results("pay")] == [
        ("WORKER", "SUCCEEDED"),
        ("LATE", "FAILED"),
    ]
    assert [row.disposition for row in flow.inbox()] == ["ADVANCED", "STEP_ALREADY_SETTLED"]
    assert flow.status == "SUCCEEDED"


# Heartbeats


def test_a_heartbeat_extends_the_lease_and_raises_no_revision(world: World) -> None:
    flow = world.start(task("pay"))
    lease = world.claim()
    before = facts(flow)
    world.travel(seconds=20, run=False)
    until = report.heartbeat(world.worker, lease.attempt.pk, lease.attempt.lease_token)
    assert until == clock.now() + timedelta(seconds=30)
    before["attempts"][0] |= {"heartbeat_at": clock.now(), "lease_expires_at": until}
    assert facts(flow) == before


def test_an_attempt_that_has_ended_has_no_heartbeat(world: World) -> None:
    world.start(task("pay"))
    lease = world.claim()
    world.lose_lease(lease)
    with pytest.raises(StateConflict):
        report.heartbeat(world.worker, lease.attempt.pk, lease.attempt.lease_token)


# Who may report what


def speak(actor: Actor, attempt_id: str, token: str) -> list[Any]:
    """All four words, each as a call that waits to be made."""
    return [
        partial(report.heartbeat, actor, attempt_id, token),
        partial(report.succeed, actor, attempt_id, token, {}),
        partial(report.fail, actor, attempt_id, token, "CODE", "", False),
        partial(report.unknown, actor, attempt_id, token, "CODE", ""),
    ]


@pytest.mark.rule("B9")
def test_nobody_is_heard_without_the_token(world: World) -> None:
    flow = world.start(task("pay"))
    lease = world.claim()
    before = facts(flow)
    for token in ("", "0" * 64, lease.attempt.lease_token[:-1], "ü\ud800"):
        for call in speak(world.worker, lease.attempt.pk, token):
            with pytest.raises(StateConflict, match="token"):
                call()
    assert facts(flow) == before


def test_nobody_is_heard_without_the_right(world: World) -> None:
    world.start(task("pay"))
    lease = world.claim()
    for call in speak(world.actor(), lease.attempt.pk, lease.attempt.lease_token):
        with pytest.raises(PermissionDenied):
            call()


def test_what_happened_is_recorded_although_the_namespace_was_suspended_meanwhile(world: World) -> None:
    flow = world.start(task("pay"))
    lease = world.claim()
    change(world.namespace, status="SUSPENDED")
    assert world.succeed(lease, run=False).task_status == "SUCCEEDED"
    assert len(flow.results("pay")) == 1


def test_foreign_attempts_look_like_missing_ones(world: World) -> None:
    world.start(task("pay"))
    lease = world.claim()
    now = clock.now()
    elsewhere = Namespace(name="elsewhere", display_name="Elsewhere", status="ACTIVE", created_at=now)
    shop = Application(namespace=world.namespace, name="shop", status="ACTIVE", created_at=now)
    insert(elsewhere, shop)
    stranger = get_user_model().objects.create(username="stranger")
    permissions.grant(stranger, permissions.WORK, elsewhere, by="set-up", reason="test")
    foreign = permissions.actor_of(stranger, elsewhere.pk)
    limited = world.actor(permissions.WORK, application=shop)
    for actor, attempt_id in ((foreign, lease.attempt.pk), (limited, lease.attempt.pk), (world.worker, "absent")):
        for call in speak(actor, attempt_id, lease.attempt.lease_token):
            with pytest.raises(NotFound):
                call()


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"error_code": ""}, "error_code"),
        ({"error_code": "C" * 65}, "error_code"),
        ({"error_code": "A\nB"}, "error_code"),
        ({"error_message": "m" * 1025}, "error_message"),
        ({"error_message": "a\0b"}, "error_message"),
        ({"error_message": "\ud800"}, "error_message"),
        ({"error_message": None}, "error_message"),
        ({"retryable": 1}, "retryable"),
    ],
)
def test_what_is_no_report_is_refused_by_field(world: World, said: dict[str, Any], field: str) -> None:
    flow = world.start(task("pay"))
    lease = world.claim()
    before = facts(flow)
    words: dict[str, Any] = {"error_code": "CODE", "error_message": "", "retryable": False} | said
    with pytest.raises(ValidationFailed) as refusal:
        report.fail(world.worker, lease.attempt.pk, lease.attempt.lease_token, **words)
    assert list(refusal.value.fields) == [field]
    assert facts(flow) == before


@pytest.mark.rule("G7")
def test_a_result_is_digested_once_and_before_the_first_lock(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.start(task("pay"))
    lease = world.claim()
    happened: list[str] = []

    def noted(word: str, function: Any) -> Any:
        def call(*arguments: Any) -> Any:
            happened.append(word)
            return function(*arguments)

        return call

    monkeypatch.setattr(exact_json, "digest", noted("digested", exact_json.digest))
    monkeypatch.setattr(Locks, "enter", noted("locked", Locks.enter))
    report.succeed(world.worker, lease.attempt.pk, lease.attempt.lease_token, {"state": "done"})
    assert happened[:2] == ["digested", "locked"]
    assert happened.count("digested") == 1


@pytest.mark.parametrize("result", [1.5, "x" * exact_json.MAX_BYTES, {"text": "\ud800"}])
def test_a_result_that_cannot_be_kept_is_refused(world: World, result: Any) -> None:
    world.start(task("pay"))
    with pytest.raises(ValidationFailed) as refusal:
        world.succeed(world.claim(), result)
    assert list(refusal.value.fields) == ["result"]


# Locks


def test_reports_lock_from_the_queue_to_the_stream_and_nothing_else(world: World) -> None:
    world.start(sequence(task("ok"), task("retried"), task("lost")))
    with locked_tables() as tables:
        world.succeed(world.claim(), run=False)
    claimed, ended = tables[:3], tables[3:]
    assert claimed == ["QueueQuota", "InstanceGate", "Task"]
    assert ended == ["QueueQuota", "Task", "TaskAttempt", "ExecutionPermit", "ResultStream"]
    world.run()
    lease = world.claim()
    with locked_tables() as tables:
        world.fail(lease, retryable=True, run=False)
    assert tables == ["QueueQuota", "Task", "TaskAttempt", "ExecutionPermit"]
    world.succeed(world.claim())
    lease = world.claim()
    with locked_tables() as tables:
        report.heartbeat(world.worker, lease.attempt.pk, lease.attempt.lease_token)
    assert tables == ["TaskAttempt"]
    with locked_tables() as tables:
        world.unknown(lease, run=False)
    assert tables == ["Task", "TaskAttempt", "ResultStream"]
    with locked_tables() as tables:
        world.succeed(lease, run=False)  # late
    assert tables == ["Task", "TaskAttempt", "ResultStream"]


# Many at a time


@pytest.mark.django_db(transaction=True)
@pytest.mark.rule("B7")
def test_one_report_sent_many_times_at_once_is_written_once(world: World) -> None:
    flow = world.start(task("pay"))
    lease = world.claim()
    answers = together([partial(world.succeed, lease, run=False)] * 8)
    assert answers == [Report(late=False, task_status="SUCCEEDED")] * 8
    assert len(flow.results("pay")) == 1
    assert_ledger_holds(world)


@pytest.mark.django_db(transaction=True)
@pytest.mark.rule("B7", "B9")
def test_reports_and_the_reaper_at_once_end_an_attempt_once(world: World) -> None:
    flows = [world.start(task("pay")) for _instance in range(8)]
    leases = world.claim_all()
    world.travel(minutes=1, run=False)
    callers: list[Any] = [partial(world.succeed, lease, run=False) for lease in leases] + [reaper.reap] * 3
    answers = together(callers)
    assert not [answer for answer in answers if isinstance(answer, Exception)]
    for flow in flows:
        sources = [kept.source for kept in flow.results("pay")]
        assert sources in (["WORKER"], ["REAPER", "LATE"])
    assert_ledger_holds(world)


@pytest.mark.django_db(transaction=True)
@pytest.mark.rule("B7")
def test_many_workers_in_both_directions_lose_no_count(world: World) -> None:
    """Claims and ends of one queue meet on its row: each keeps what the other counted."""
    for _instance in range(24):
        world.start(task("pay"))
    first = world.claim_all(max_tasks=12)
    ends = [partial(world.succeed, lease, run=False) for lease in first]
    answers = together([*ends, *(partial(world.claim_all, max_tasks=3) for _worker in range(4))])
    assert not [answer for answer in answers if isinstance(answer, Exception)]
    assert_ledger_holds(world)
    assert Task.objects.filter(status="RUNNING").count() == 12
