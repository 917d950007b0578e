"""Signals: kept when accepted, adjudicated by when they were accepted, in review and under a closed gate too (B8)."""

from typing import Any

import pytest

from recovery import clock, permissions
from recovery.engine import signals
from recovery.errors import IdempotencyConflict, NotFound, PermissionDenied, StateConflict, ValidationFailed
from recovery.models import Signal
from recovery.operations import run
from recovery.receipts import new_key
from recovery.writes import change
from tests.support.threads import together
from tests.support.trees import MINUTE, Node, parallel, poll, receipt, sequence, signal, task, timer
from tests.support.world import Flow, World, make_world

pytestmark = pytest.mark.django_db


def said(signal: Signal) -> tuple[str, str]:
    return signal.status, signal.disposition


def document(**fields: Any) -> Node:
    sent = {"step_key": "receipt", "generation": 1, "name": "receipt", "correlation_key": "A-1", "source_key": "s-1"}
    return {**sent, "payload": {"number": 1}, **fields}


def rearm(flow: Flow, key: str) -> None:
    step = flow.step(key)
    command = {
        "expected_revision": str(flow.instance.revision),
        "reason": "the sender had a wrong key",
        "evidence_ref": "ticket-1",
        "step_key": key,
        "activation_id": step.current_activation_id,
        "expected_step_revision": str(step.revision),
        "wait_verified": True,
    }
    run.execute(flow.world.operator, "rearm-wait", flow.id, new_key(), command)


# Acceptance


@pytest.mark.rule("B8")
def test_an_accepted_signal_is_kept_and_nothing_else_happens_yet(world: World) -> None:
    flow = world.start(signal("receipt"))
    before = flow.instance.revision
    kept = signals.accept(world.operator, flow.id, document())
    assert said(kept) == ("PENDING", "")
    assert (kept.accepted_at, kept.generation, kept.payload) == (clock.now(), 1, {"number": 1})
    assert (flow.instance.revision, flow.step("receipt").status) == (before, "WAITING")


@pytest.mark.rule("B8")
def test_the_same_source_key_answers_the_first_signal_and_other_content_is_refused(world: World) -> None:
    flow = world.start(parallel(signal("receipt"), signal("other")))
    first = flow.send("receipt", source_key="s-1")
    again = signals.accept(world.operator, flow.id, document(payload={"number": 1}))
    assert (again.pk, said(again)) == (first.pk, ("CONSUMED", "MATCHED"))
    for other in ({"payload": {"number": 2}}, {"name": "other"}, {"correlation_key": "A-2"}):
        with pytest.raises(IdempotencyConflict):
            signals.accept(world.operator, flow.id, document(**other))
    assert signals.accept(world.operator, flow.id, document(step_key="other")).pk != first.pk
    assert Signal.objects.count() == 2


@pytest.mark.rule("B8")
@pytest.mark.parametrize(
    "fields",
    [{"step_key": "nothing"}, {"step_key": "pay"}, {"step_key": "root"}, {"step_key": "later"}, {"generation": 2}],
)
def test_what_takes_no_signal_now_refuses_it(world: World, fields: Node) -> None:
    flow = world.start(sequence(parallel(signal("receipt"), task("pay"), key="both"), signal("later")))
    with pytest.raises(StateConflict):
        signals.accept(world.operator, flow.id, document(**fields))
    assert not Signal.objects.exists()


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"generation": "1"}, "generation"),
        ({"generation": 0}, "generation"),
        ({"generation": True}, "generation"),
        ({"name": ""}, "name"),
        ({"correlation_key": "k" * 192}, "correlation_key"),
        ({"source_key": None}, "source_key"),
        ({"payload": 0.5}, "payload"),
        ({"accepted_at": "2026-01-01T00:00:00Z"}, "accepted_at"),
    ],
)
def test_a_field_that_is_wrong_is_refused_by_its_name(world: World, fields: Node, field: str) -> None:
    flow = world.start(signal("receipt"))
    with pytest.raises(ValidationFailed) as refused:
        signals.accept(world.operator, flow.id, document(**fields))
    assert list(refused.value.fields) == [field]


@pytest.mark.rule("G2")
def test_a_sender_needs_the_right_to_send_and_no_right_to_read(world: World) -> None:
    flow = world.start(signal("receipt"))
    elsewhere = make_world(world.traveller, name="other")
    with pytest.raises(PermissionDenied):
        signals.accept(world.actor(permissions.READ, permissions.RECOVER), flow.id, document())
    for foreign in (elsewhere.operator, world.actor(permissions.SEND_SIGNALS, application=elsewhere.application)):
        with pytest.raises(NotFound):
            signals.accept(foreign, flow.id, document())
    assert signals.accept(world.actor(permissions.SEND_SIGNALS), flow.id, document())


@pytest.mark.rule("G1")
def test_a_suspended_application_takes_no_signals(world: World) -> None:
    flow = world.start(signal("receipt"))
    change(world.application, status="SUSPENDED")
    with pytest.raises(PermissionDenied):
        signals.accept(world.operator, flow.id, document())


@pytest.mark.django_db(transaction=True)
def test_one_source_key_sent_many_times_at_once_is_one_signal(world: World) -> None:
    flow = world.start(signal("receipt"))
    answers = together([lambda: signals.accept(world.operator, flow.id, document())] * 6)
    assert len({answer.pk for answer in answers}) == 1


# Adjudication of a waiting step


@pytest.mark.rule("B8", "G9")
def test_a_match_settles_the_step_and_its_successor_starts(world: World) -> None:
    flow = world.start(sequence(signal("receipt"), task("book", input={"$from": "/steps/receipt/output/number"})))
    before = flow.instance.revision
    matched = flow.send("receipt", {"number": 7})
    assert said(matched) == ("CONSUMED", "MATCHED")
    assert (flow.wait("receipt").status, flow.wait("receipt").winner_signal) == ("MATCHED", matched)
    assert (flow.step("receipt").status, flow.step("receipt").output) == ("SUCCEEDED", {"number": 7})
    assert flow.activation("receipt").output == {"number": 7}
    assert flow.clocks("WAIT_DEADLINE") == []
    assert flow.instance.revision == before + 1
    assert flow.task("book").input == 7


@pytest.mark.rule("B12")
@pytest.mark.parametrize(
    ("fields", "disposition"),
    [
        ({"name": "other"}, "CORRELATION_MISMATCH"),
        ({"correlation_key": "a-1"}, "CORRELATION_MISMATCH"),
        ({"correlation_key": "A-1 "}, "CORRELATION_MISMATCH"),
        ({"payload": {}}, "CONTRACT_VIOLATION"),
        ({"payload": {"number": "seven"}}, "CONTRACT_VIOLATION"),
    ],
)
def test_a_signal_that_does_not_fit_is_kept_as_rejected_and_the_step_waits_on(
    world: World, fields: Node, disposition: str
) -> None:
    flow = world.start(signal("receipt"))
    before = flow.instance.revision
    assert said(flow.send("receipt", **fields)) == ("REJECTED", disposition)
    assert (flow.step("receipt").status, flow.wait("receipt").winner_signal) == ("WAITING", None)
    assert flow.instance.revision == before + 1
    assert said(flow.send("receipt")) == ("CONSUMED", "MATCHED")


@pytest.mark.rule("B8")
def test_the_first_accepted_wins_and_the_wait_is_closed_for_the_others(world: World) -> None:
    flow = world.start(signal("receipt"))
    first = flow.send("receipt", {"number": 1}, run=False)
    world.travel(seconds=1, run=False)
    second = flow.send("receipt", {"number": 2}, run=False)
    before = flow.instance.revision
    assert signals.adjudicate(flow.id) == 2
    assert flow.instance.revision == before + 2
    for row, status in ((first, ("CONSUMED", "MATCHED")), (second, ("REJECTED", "WAIT_CLOSED"))):
        row.refresh_from_db()
        assert said(row) == status
    assert flow.step("receipt").output == {"number": 1}


@pytest.mark.rule("B8")
def test_what_was_accepted_in_time_matches_however_late_it_is_adjudicated(world: World) -> None:
    flow = world.start(sequence(signal("receipt", total_timeout_ms=MINUTE), timer("wait")))
    world.travel(seconds=59, run=False)
    sent = flow.send("receipt", run=False)
    world.travel(hours=1)
    sent.refresh_from_db()
    assert said(sent) == ("CONSUMED", "MATCHED")
    assert flow.step("wait").status == "WAITING"


@pytest.mark.rule("B8")
def test_what_was_accepted_at_the_deadline_is_too_late_although_no_clock_has_fired(world: World) -> None:
    flow = world.start(signal("receipt", total_timeout_ms=MINUTE))
    world.travel(minutes=1, run=False)
    sent = flow.send("receipt", run=False)
    signals.adjudicate(flow.id)
    sent.refresh_from_db()
    assert said(sent) == ("REJECTED", "EXPIRED")
    world.run()
    assert (flow.step("receipt").status, flow.wait("receipt").status) == ("NEEDS_REVIEW", "EXPIRED")


@pytest.mark.rule("B8", "RW5")
def test_a_signal_for_an_old_generation_is_stale(world: World) -> None:
    flow = world.start(sequence(parallel(signal("receipt"), task("pay"), key="both"), task("book")))
    world.fail(world.claim())
    rearm(flow, "receipt")
    assert said(flow.send("receipt", generation=1)) == ("REJECTED", "STALE_ACTIVATION")
    assert flow.step("receipt").status == "WAITING"
    assert said(flow.send("receipt", generation=2)) == ("CONSUMED", "MATCHED")


def test_a_signal_to_an_ended_instance_is_kept_and_closed(world: World) -> None:
    flow = world.start(signal("receipt"))
    flow.send("receipt")
    assert flow.status == "SUCCEEDED"
    assert said(flow.send("receipt")) == ("REJECTED", "WAIT_CLOSED")
    assert flow.status == "SUCCEEDED"


# Review and closed gate


@pytest.mark.rule("B8")
def test_in_review_a_waiting_step_is_settled_and_no_successor_starts(world: World) -> None:
    flow = world.start(parallel(sequence(signal("receipt"), timer("after"), key="one"), task("pay")))
    world.fail(world.claim())
    assert flow.status == "NEEDS_REVIEW"
    assert said(flow.send("receipt")) == ("CONSUMED", "MATCHED")
    assert (flow.step("receipt").status, flow.step("after").status) == ("SUCCEEDED", "PENDING")


@pytest.mark.rule("B8")
def test_under_a_pause_a_step_is_settled_and_its_successor_waits_for_the_resume(world: World) -> None:
    flow = world.start(sequence(signal("receipt"), timer("after")))
    flow.pause()
    flow.send("receipt")
    assert (flow.step("receipt").status, flow.step("after").status) == ("SUCCEEDED", "PENDING")
    flow.resume()
    assert flow.step("after").status == "WAITING"


@pytest.mark.rule("B8", "B12")
def test_a_query_in_review_does_not_move_and_its_winner_is_recorded(world: World) -> None:
    flow = world.start(poll("ask", signal=receipt()))
    world.fail(world.claim())
    step = flow.step("ask")
    assert (step.status, flow.wait("ask").status) == ("NEEDS_REVIEW", "WAITING")
    matched = flow.send("ask")
    assert said(matched) == ("CONSUMED", "MATCHED")
    assert (flow.wait("ask").status, flow.wait("ask").winner_signal) == ("MATCHED", matched)
    assert (flow.step("ask").status, flow.step("ask").revision) == ("NEEDS_REVIEW", step.revision)
    assert flow.clocks("POLL_DEADLINE") == []


# The final signal of a query


@pytest.mark.rule("B12")
def test_a_final_signal_settles_the_query_and_is_not_asked_for_the_outcome_map(world: World) -> None:
    flow = world.start(poll("ask", signal=receipt()))
    world.succeed(world.claim(), {"state": "processing"})
    flow.send("ask", {"number": 3})
    assert (flow.step("ask").status, flow.step("ask").output, flow.status) == ("SUCCEEDED", {"number": 3}, "SUCCEEDED")
    assert (flow.poll("ask").status, flow.budget("ask").settled_at) == ("SETTLED", clock.now())
    assert flow.clocks("NEXT_ROUND") == flow.clocks("POLL_DEADLINE") == []


@pytest.mark.rule("B8")
def test_a_request_that_has_not_started_is_cancelled_with_the_match(world: World) -> None:
    flow = world.start(poll("ask", signal=receipt()))
    flow.send("ask", run=False)
    signals.adjudicate(flow.id)
    assert flow.task("ask").status == "CANCELLED"
    assert [(row.source, row.outcome) for row in flow.results("ask")] == [("CONTROL", "CANCELLED")]
    assert world.claim_all() == []
    world.run()
    assert [row.disposition for row in flow.inbox()] == ["STEP_ALREADY_SETTLED"]
    assert [row.outcome for row in flow.rounds("ask")] == ["CANCELLED"]
    assert (flow.status, world.application_quota().open_tasks) == ("SUCCEEDED", 0)


@pytest.mark.rule("B8")
def test_a_request_that_runs_goes_on_and_its_result_is_recorded(world: World) -> None:
    flow = world.start(poll("ask", signal=receipt()))
    lease = world.claim()
    flow.send("ask", {"number": 3})
    assert flow.task("ask").status == "RUNNING"
    world.succeed(lease, {"state": "rejected"})
    assert [row.disposition for row in flow.inbox()] == ["STEP_ALREADY_SETTLED"]
    assert (flow.step("ask").output, flow.status) == ({"number": 3}, "SUCCEEDED")


@pytest.mark.rule("B8")
def test_an_answer_that_came_before_the_signal_wins_in_whatever_order_they_are_processed(world: World) -> None:
    flow = world.start(poll("ask", signal=receipt()))
    world.succeed(world.claim(), {"state": "done"}, run=False)
    world.travel(seconds=1, run=False)
    sent = flow.send("ask", run=False)
    assert signals.adjudicate(flow.id) == 0
    world.run()
    sent.refresh_from_db()
    assert said(sent) == ("REJECTED", "WAIT_CLOSED")
    assert flow.step("ask").output == {"state": "done"}


@pytest.mark.rule("B8")
def test_a_signal_that_came_before_the_answer_wins_in_whatever_order_they_are_processed(world: World) -> None:
    flow = world.start(poll("ask", signal=receipt()))
    lease = world.claim()
    sent = flow.send("ask", run=False)
    world.travel(seconds=1, run=False)
    world.succeed(lease, {"state": "done"})
    sent.refresh_from_db()
    assert said(sent) == ("CONSUMED", "MATCHED")
    assert [row.disposition for row in flow.inbox()] == ["STEP_ALREADY_SETTLED"]
    assert flow.step("ask").output == {"number": 1}


@pytest.mark.rule("B7")
@pytest.mark.django_db(transaction=True)
def test_adjudicators_that_race_judge_each_signal_once(world: World) -> None:
    flow = world.start(signal("receipt"))
    for number in range(3):
        flow.send("receipt", {"number": number}, run=False)
    before = flow.instance.revision
    answers = together([lambda: signals.adjudicate(flow.id)] * 4)
    assert sum(answers) == 3
    assert flow.instance.revision == before + 3
    assert [row.status for row in flow.signals("receipt")].count("CONSUMED") == 1
