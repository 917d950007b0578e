"""The stop runner: what has not started is cancelled, what waits is closed, and the end waits for what runs."""

import pytest

from recovery import clock
from recovery.engine import stop
from recovery.flow import continue_root
from recovery.models import (
    QuotaHold,
    StepActivation,
    StepCheckpoint,
    StepClock,
    Task,
    WaitState,
    WorkflowAudit,
)
from recovery.states import ContinuationKind
from tests.support.threads import together
from tests.support.trees import parallel, poll, receipt, sequence, signal, task, timer
from tests.support.world import World

pytestmark = pytest.mark.django_db


def failing(key: str, **fields: object) -> dict[str, object]:
    return task(key, policy={"on_failure": "FAIL"}, **fields)


# What has not started, and what waits


@pytest.mark.rule("B6")
def test_a_cancel_cancels_what_has_not_started_and_ends_the_instance(world: World) -> None:
    flow = world.start(sequence(parallel(task("pay"), task("mail", queue="mail"), key="both"), task("book")))
    flow.cancel()
    assert (flow.status, flow.instance.stop_kind, flow.gate) == ("CANCELLED", "CANCEL", "CLOSED")
    assert set(flow.statuses().values()) == {"CANCELLED"}
    assert [row.status for row in flow.tasks("pay")] == ["CANCELLED"]
    assert [(row.source, row.outcome) for row in flow.results("pay")] == [("CONTROL", "CANCELLED")]
    assert [row.disposition for row in flow.inbox()] == ["RECORDED", "RECORDED"]
    assert flow.tasks("book") == []
    assert flow.instance.settled_at == flow.step("root").settled_at == clock.now()
    assert flow.continuations() == []


def test_an_end_gives_everything_back(world: World) -> None:
    flow = world.start(
        parallel(task("pay"), poll("ask", queue="mail", signal=receipt()), timer("wait"), signal("receipt"))
    )
    world.succeed(world.claim())
    flow.cancel()
    assert flow.status == "CANCELLED"
    quota = world.application_quota()
    assert (quota.open_tasks, quota.open_instances, world.queue_quota("mail").open_tasks) == (0, 0, 0)
    assert not QuotaHold.objects.filter(released_at=None).exists()
    assert not StepClock.objects.filter(status="ARMED").exists()
    assert not StepCheckpoint.objects.filter(status="OPEN").exists()
    assert not WaitState.objects.filter(status="WAITING").exists()
    assert not StepActivation.objects.filter(status__in=["RUNNING", "WAITING"]).exists()


@pytest.mark.rule("B6")
def test_open_waits_are_closed_with_their_steps(world: World) -> None:
    flow = world.start(parallel(signal("receipt"), timer("wait"), poll("ask", signal=receipt())))
    world.succeed(world.claim(), {"state": "processing"})
    assert flow.step("ask").status == "WAITING"
    flow.cancel()
    for key in ("receipt", "wait", "ask"):
        assert (flow.step(key).status, flow.activation(key).status) == ("CANCELLED", "CANCELLED")
        assert (flow.wait(key).status, flow.wait(key).settled_at) == ("CANCELLED", clock.now())
    assert (flow.poll("ask").status, flow.poll("ask").next_poll_at) == ("SETTLED", None)
    assert flow.status == "CANCELLED"


@pytest.mark.rule("B6")
def test_the_final_wait_of_a_query_that_runs_closes_and_its_answer_is_recorded(world: World) -> None:
    flow = world.start(poll("ask", signal=receipt()))
    lease = world.claim()
    flow.cancel()
    assert (flow.wait("ask").status, flow.step("ask").status, flow.status) == ("CANCELLED", "RUNNING", "CANCELLING")
    world.succeed(lease, {"state": "processing"})
    assert (flow.step("ask").status, flow.status) == ("CANCELLED", "CANCELLED")
    assert [row.outcome for row in flow.rounds("ask")] == ["PENDING"]


@pytest.mark.rule("B7")
def test_a_stop_works_in_chunks(world: World) -> None:
    flow = world.start(
        parallel(*(task(f"t{number:03}") for number in range(150)), *(timer(f"w{n:03}") for n in range(120)))
    )
    flow.cancel(run=False)
    left = []
    while stop.stop(flow.id):
        queued = Task.objects.filter(status="QUEUED").count()
        left.append((WaitState.objects.filter(status="WAITING").count(), queued))
    assert left == [(20, 150), (0, 150), (0, 50), (0, 0), (0, 0)]
    assert flow.status == "CANCELLING"  # the cancelled tasks are not consumed yet
    world.run()
    assert flow.status == "CANCELLED"


# What runs


@pytest.mark.rule("CO3")
def test_the_end_waits_for_what_runs_and_no_successor_starts(world: World) -> None:
    flow = world.start(sequence(task("pay"), task("book")))
    lease = world.claim()
    flow.cancel()
    assert (flow.status, flow.step("pay").status) == ("CANCELLING", "RUNNING")
    world.succeed(lease)
    assert flow.statuses() == {"root": "CANCELLED", "pay": "SUCCEEDED", "book": "CANCELLED"}
    assert (flow.status, flow.tasks("book")) == ("CANCELLED", [])


@pytest.mark.rule("B10")
def test_an_unknown_effect_during_a_stop_is_reviewed_and_nothing_ends(world: World) -> None:
    flow = world.start(parallel(task("pay"), timer("wait")))
    lease = world.claim()
    world.travel(minutes=5)
    flow.cancel()
    assert flow.step("wait").status == "CANCELLED"
    world.lose_lease(lease)
    assert (flow.status, flow.instance.stop_kind) == ("NEEDS_REVIEW", "CANCEL")
    assert (flow.step("pay").status, flow.instance.review_reason) == ("NEEDS_REVIEW", "EXECUTION_UNKNOWN")
    assert flow.continuations() == []


@pytest.mark.rule("B10")
def test_nothing_ends_while_an_event_is_not_consumed(world: World) -> None:
    flow = world.start(task("pay"))
    lease = world.claim()
    world.succeed(lease, run=False)
    flow.cancel(run=False)
    _stop_all(flow.id)
    assert (flow.status, flow.task("pay").status) == ("CANCELLING", "SUCCEEDED")
    world.run()
    assert flow.status == "CANCELLED"


def test_a_failure_during_a_stop_needs_nobody(world: World) -> None:
    flow = world.start(task("pay"))
    lease = world.claim()
    flow.cancel()
    world.fail(lease)
    assert (flow.status, flow.step("pay").status) == ("CANCELLED", "FAILED")


@pytest.mark.rule("B3")
def test_on_failure_fail_stops_the_rest_and_fails_the_instance(world: World) -> None:
    flow = world.start(parallel(failing("pay"), task("mail", queue="mail"), signal("receipt")))
    running = world.claim("mail")
    world.fail(world.claim())
    assert (flow.status, flow.instance.stop_kind) == ("CANCELLING", "FAIL")
    assert flow.step("receipt").status == "CANCELLED"
    world.succeed(running)
    assert flow.status == "FAILED"
    assert flow.statuses() == {"root": "CANCELLED", "pay": "FAILED", "mail": "SUCCEEDED", "receipt": "CANCELLED"}


@pytest.mark.rule("B13")
def test_a_failure_after_a_cancel_does_not_change_what_the_stop_ends_in(world: World) -> None:
    flow = world.start(failing("pay"))
    lease = world.claim()
    flow.cancel()
    world.fail(lease)
    assert (flow.status, flow.instance.stop_kind) == ("CANCELLED", "CANCEL")


# Review and pause


@pytest.mark.rule("B6")
def test_a_stop_in_review_cancels_and_closes_but_never_ends(world: World) -> None:
    flow = world.start(parallel(task("pay"), task("mail", queue="mail"), timer("wait"), poll("ask", signal=receipt())))
    for lease in world.claim_all():
        world.fail(lease)
    assert (flow.status, flow.step("ask").status, flow.wait("ask").status) == (
        "NEEDS_REVIEW",
        "NEEDS_REVIEW",
        "WAITING",
    )
    flow.cancel()
    assert flow.statuses() == {
        "root": "RUNNING",
        "pay": "FAILED",
        "mail": "CANCELLED",
        "wait": "CANCELLED",
        "ask": "NEEDS_REVIEW",
    }
    assert flow.wait("ask").status == "CANCELLED"
    assert flow.clocks("POLL_DEADLINE") == []
    assert (flow.status, flow.continuations()) == ("NEEDS_REVIEW", [])


@pytest.mark.rule("G16")
def test_a_pause_does_not_hold_up_a_stop(world: World) -> None:
    flow = world.start(sequence(task("pay"), task("book")))
    flow.pause()
    flow.cancel()
    assert (flow.status, flow.instance.paused) == ("CANCELLED", True)


# The end is checked and told


@pytest.mark.rule("G10")
def test_the_end_of_a_stop_is_audited_as_the_platforms(world: World) -> None:
    flow = world.start(task("pay"))
    flow.cancel()
    entry = flow.audits()[-1]
    assert (entry.action, entry.actor, entry.after["status"]) == ("stop", "platform", "CANCELLED")
    assert [row.action for row in flow.audits()] == ["start", "cancel", "stop"]
    assert entry.after["revision"] == str(flow.instance.revision)
    assert flow.instance.audit_head == f"{entry.sequence}:{entry.entry_hash}"


@pytest.mark.rule("G11")
def test_a_history_that_does_not_fit_together_goes_to_review_instead(world: World) -> None:
    flow = world.start(parallel(task("pay"), task("mail", queue="mail")))
    lease = world.claim()
    world.succeed(world.claim("mail"))
    flow.cancel()
    Task.objects.filter(pk=flow.task("mail").pk).update(attempt_count=2)  # somebody meddled with the database
    world.succeed(lease)
    assert (flow.status, flow.instance.review_reason) == ("NEEDS_REVIEW", "HISTORY_INCONSISTENT")
    assert flow.statuses() == {"root": "RUNNING", "pay": "SUCCEEDED", "mail": "SUCCEEDED"}


@pytest.mark.rule("B7")
@pytest.mark.django_db(transaction=True)
def test_stop_runners_that_race_end_the_instance_once(world: World) -> None:
    flow = world.start(timer("wait"))
    flow.cancel(run=False)
    together([lambda: _stop_all(flow.id)] * 4)
    assert flow.status == "CANCELLED"
    assert WorkflowAudit.objects.filter(action="stop").count() == 1
    assert world.application_quota().open_instances == 0


def _stop_all(instance_id: str) -> None:
    while stop.stop(instance_id):
        pass


# Signals and the stop


@pytest.mark.rule("B8")
def test_a_signal_that_came_before_the_stop_wins_however_late_it_is_adjudicated(world: World) -> None:
    flow = world.start(sequence(signal("receipt"), task("book")))
    sent = flow.send("receipt", run=False)
    world.travel(seconds=1, run=False)
    flow.cancel(run=False)
    _stop_all(flow.id)
    sent.refresh_from_db()
    assert sent.disposition == "MATCHED"
    assert flow.statuses() == {"root": "CANCELLED", "receipt": "SUCCEEDED", "book": "CANCELLED"}
    assert flow.status == "CANCELLED"


@pytest.mark.rule("B8")
def test_a_signal_that_came_after_the_stop_finds_its_wait_closed_however_late_the_stop_runs(world: World) -> None:
    flow = world.start(signal("receipt"))
    flow.cancel(run=False)
    world.travel(seconds=1, run=False)
    sent = flow.send("receipt", run=False)
    world.run()
    sent.refresh_from_db()
    assert (sent.status, sent.disposition) == ("REJECTED", "WAIT_CLOSED")
    assert (flow.step("receipt").status, flow.status) == ("CANCELLED", "CANCELLED")


def test_a_stop_that_meets_an_ended_instance_is_done(world: World) -> None:
    flow = world.start(task("pay"))
    flow.cancel()
    before = flow.instance.revision
    continue_root(flow.instance, ContinuationKind.STOP, clock.now())
    assert stop.stop(flow.id)
    assert (flow.continuations(), flow.instance.revision, flow.status) == ([], before, "CANCELLED")
