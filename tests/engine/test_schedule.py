"""The scheduler: order, outputs, quotas, chunks, the closed gate, and the end of an instance."""

from datetime import timedelta

import pytest

from recovery import clock, exact_json
from recovery.engine import schedule, signals
from recovery.models import ActivationTask, QuotaHold, StepActivation, StepCheckpoint, Task
from recovery.writes import change
from tests.support.threads import together
from tests.support.trees import MINUTE, parallel, poll, receipt, sequence, signal, task, timer
from tests.support.world import Flow, World

pytestmark = pytest.mark.django_db


def checkpoints(flow: Flow, key: str) -> list[str]:
    rows = StepCheckpoint.objects.filter(activation=flow.activation(key), status="OPEN").order_by("kind")
    return list(rows.values_list("kind", flat=True))


# Order and outputs


def test_a_sequence_runs_its_children_one_after_the_other(world: World) -> None:
    flow = world.start(sequence(task("pay"), task("book")))
    assert flow.statuses() == {"root": "RUNNING", "pay": "RUNNING", "book": "PENDING"}
    world.succeed(world.claim(), {"number": 1})
    assert flow.statuses() == {"root": "RUNNING", "pay": "SUCCEEDED", "book": "RUNNING"}
    world.succeed(world.claim(), {"number": 2})
    assert flow.status == "SUCCEEDED"
    assert flow.instance.output == {"number": 2}


def test_parallel_children_run_at_once_and_their_outputs_are_told_apart(world: World) -> None:
    flow = world.start(parallel(task("pay"), sequence(task("ask"), task("book"), key="office")))
    assert flow.statuses() == {
        "root": "RUNNING",
        "pay": "RUNNING",
        "office": "RUNNING",
        "ask": "RUNNING",
        "book": "PENDING",
    }
    for lease in world.claim_all():
        world.succeed(lease, lease.task.business_key[-3:])
    assert flow.status == "RUNNING"
    world.succeed(world.claim(), "booked")
    assert flow.instance.output == {"pay": "pay", "office": "booked"}
    assert flow.step("office").output == "booked"


def test_an_end_settles_the_instance_and_frees_its_place(world: World) -> None:
    flow = world.start(task("pay"))
    before = flow.instance.revision
    world.succeed(world.claim(), run=False)
    world.run()
    instance = flow.instance
    assert (instance.status, flow.gate) == ("SUCCEEDED", "CLOSED")
    assert instance.settled_at == clock.now()
    assert instance.revision == before + 2  # the consumed result, and the end
    assert world.application_quota().open_instances == 0
    assert flow.clocks("INSTANCE_DEADLINE") == []
    assert flow.clocks("INSTANCE_DEADLINE", "CANCELLED") != []


@pytest.mark.rule("G9")
def test_an_activation_raises_its_steps_revision_and_not_the_instances(world: World) -> None:
    flow = world.start(sequence(task("pay")))
    assert flow.instance.revision == 1
    assert (flow.step("root").revision, flow.step("pay").revision) == (2, 2)


# What an activation pins


def test_a_task_is_pinned_with_everything_that_its_definition_says(world: World) -> None:
    policy = {
        "retryable_errors": ["TIMEOUT"],
        "backoff_ms": 500,
        "priority": 4,
        "concurrency_key": {"$from": "/instance/input/account"},
        "latest_start_ms": 2 * MINUTE,
        "on_failure": "FAIL",
    }
    node = task("pay", policy=policy, timeout_ms=5 * MINUTE, input={"to": {"$from": "/instance/input/account"}})
    flow = world.start(node, input={"account": "acc-1"}, business_key="order-9")
    pinned = flow.task("pay")
    assert (pinned.status, pinned.revision, pinned.max_attempts, pinned.attempt_count) == ("QUEUED", 1, 3, 0)
    assert (pinned.queue, pinned.handler, pinned.handler_version) == (world.queues["bank"], "bank.transfer", "1")
    assert (pinned.priority, pinned.policy) == (4, {"retryable_errors": ["TIMEOUT"], "backoff_ms": 500})
    assert (pinned.business_key, pinned.concurrency_key) == ("order-9:pay", "acc-1")
    assert pinned.input == flow.activation("pay").input == {"to": "acc-1"}
    assert pinned.input_digest == flow.activation("pay").input_digest == exact_json.digest({"to": "acc-1"})
    assert pinned.deadline_at == clock.now() + timedelta(minutes=5)
    assert pinned.latest_start_at == clock.now() + timedelta(minutes=2)
    assert [row.due_at for row in flow.clocks("TASK_DEADLINE")] == [pinned.deadline_at]
    assert checkpoints(flow, "pay") == ["TASK_RESULT"]


@pytest.mark.rule("G11")
def test_a_task_and_its_activation_name_each_other(world: World) -> None:
    flow = world.start(task("pay"))
    half = ActivationTask.objects.get(task=flow.task("pay"))
    assert half.activation == flow.task("pay").owner_activation == flow.activation("pay")
    assert half.round == 0
    assert flow.step("pay").current_activation == flow.activation("pay")


def test_an_input_is_made_of_earlier_outputs_with_exact_numbers(world: World) -> None:
    node = task("book", input=[{"$from": "/steps/pay/output/fee"}, {"$from": "/steps/both/output/ask"}])
    flow = world.start(sequence(task("pay"), parallel(task("ask", queue="mail"), key="both"), node))
    world.succeed(world.claim(), exact_json.loads('{"fee": 0.10000000000000000001}'))
    world.succeed(world.claim("mail"), "yes")
    assert exact_json.dumps(flow.task("book").input) == '[0.10000000000000000001,"yes"]'


def test_a_long_business_key_keeps_its_beginning_and_stays_apart(world: World) -> None:
    flow = world.start(parallel(task("a" * 100), task("a" * 99 + "b")), business_key="k" * 150)
    keys = {row.business_key for row in Task.objects.all()}
    assert len(keys) == 2
    assert all(len(key) == 191 and key.startswith("k" * 100) for key in keys)
    assert flow.status == "RUNNING"


def test_a_query_begins_with_its_first_round(world: World) -> None:
    flow = world.start(poll("ask", timeout_ms=2 * MINUTE, total_timeout_ms=MINUTE, signal=receipt()))
    state, budget, (first,), asked = flow.poll("ask"), flow.budget("ask"), flow.rounds("ask"), flow.task("ask")
    end = clock.now() + timedelta(minutes=1)
    assert (state.first_round, state.first_round_attempts_used, state.used_rounds, state.status) == (1, 0, 1, "POLLING")
    assert state.deadline_at == first.deadline_at == asked.deadline_at == end  # cut by the query's deadline
    assert (first.round, first.outcome, first.task) == (1, "OPEN", asked)
    assert ActivationTask.objects.get(task=asked).round == 1
    assert (budget.in_flight, budget.requests_used) == (1, 0)
    wait = flow.wait("ask")
    assert (wait.kind, wait.status, wait.correlation_key, wait.deadline_at) == ("POLL_FINAL", "WAITING", "A-1", end)
    assert [row.due_at for row in flow.clocks("POLL_DEADLINE")] == [end]
    assert checkpoints(flow, "ask") == ["ROUND", "WAIT"]
    assert (flow.step("ask").status, flow.activation("ask").status) == ("RUNNING", "RUNNING")


def test_a_signal_step_waits_for_its_correlation_until_its_deadline(world: World) -> None:
    flow = world.start(signal("receipt"))
    wait = flow.wait("receipt")
    end = clock.now() + timedelta(hours=1)
    assert (wait.kind, wait.correlation_key, wait.deadline_at, wait.winner_signal) == ("SIGNAL", "A-1", end, None)
    assert [row.due_at for row in flow.clocks("WAIT_DEADLINE")] == [end]
    assert flow.step("receipt").status == flow.activation("receipt").status == "WAITING"
    assert checkpoints(flow, "receipt") == ["WAIT"]


def test_a_signal_step_may_wait_without_an_end(world: World) -> None:
    node = signal("receipt")
    del node["total_timeout_ms"]
    flow = world.start(node)
    assert flow.wait("receipt").deadline_at is None
    assert flow.clocks("WAIT_DEADLINE") == []


def test_a_timer_counts_from_its_first_activation(world: World) -> None:
    flow = world.start(timer("wait"))
    due = flow.activation("wait").created_at + timedelta(minutes=10)
    assert flow.wait("wait").deadline_at == due
    assert [row.due_at for row in flow.clocks("TIMER")] == [due]


@pytest.mark.rule("B5")
@pytest.mark.parametrize(
    "node",
    [
        task("late", input={"$from": "/steps/first/output/number"}),
        task("late", policy={"business_key": {"$from": "/steps/first/output"}}),
        task("late", policy={"concurrency_key": {"$from": "/steps/first/output/number"}}),
        poll("late", input={"$from": "/steps/first/output/number"}),
        signal("late", signal=receipt(correlation={"$from": "/steps/first/output/number"})),
    ],
)
def test_what_cannot_be_resolved_goes_to_review_and_nothing_else_starts(world: World, node: dict[str, object]) -> None:
    flow = world.start(sequence(task("first"), parallel(node, timer("beside"), key="both")))
    before = flow.instance.revision
    world.succeed(world.claim(), {"other": 1})
    late = flow.step("late")
    assert (late.status, late.review_reason) == ("NEEDS_REVIEW", "INPUT_UNRESOLVED")
    assert (flow.activation("late").status, flow.activation("late").input) == ("NEEDS_REVIEW", None)
    assert flow.tasks("late") == []
    assert (flow.status, flow.instance.review_reason, flow.gate) == ("NEEDS_REVIEW", "INPUT_UNRESOLVED", "CLOSED")
    assert flow.instance.review_since == clock.now()
    assert flow.instance.revision == before + 2  # the consumed result, and the review
    assert flow.step("beside").status == "PENDING"
    assert [entry.action for entry in flow.audits()] == ["start", "raise_review"]
    assert flow.continuations() == []


# Quotas and chunks


def test_a_leaf_that_finds_a_full_quota_waits_for_room(world: World) -> None:
    change(world.queue_quota("bank"), max_open_tasks=1)
    flow = world.start(parallel(task("one"), task("two"), task("three", queue="mail")))
    assert flow.statuses() == {"root": "RUNNING", "one": "RUNNING", "two": "PENDING", "three": "RUNNING"}
    (retry,) = flow.clocks("SCHEDULE_RETRY")
    assert retry.due_at == clock.now() + timedelta(seconds=5)
    assert flow.continuations() == []
    world.travel(seconds=5)
    assert flow.step("two").status == "PENDING"
    assert len(flow.clocks("SCHEDULE_RETRY")) == 1
    other = world.start(task("other"))
    assert other.step("other").status == "PENDING"
    world.succeed(world.claim())
    world.travel(seconds=5)
    assert sorted([flow.step("two").status, other.step("other").status]) == ["PENDING", "RUNNING"]


@pytest.mark.rule("RY5")
def test_the_counters_equal_the_open_holds(world: World) -> None:
    change(world.application_quota(), max_open_tasks=2)
    flow = world.start(parallel(task("one"), task("two", queue="mail"), task("three")))
    assert sorted(flow.statuses().values()) == ["PENDING", "RUNNING", "RUNNING", "RUNNING"]
    assert QuotaHold.objects.filter(released_at=None).count() == world.application_quota().open_tasks == 2
    assert [world.queue_quota(name).open_tasks for name in ("bank", "mail")] == [1, 1]
    for queue in ("bank", "mail"):
        world.succeed(world.claim(queue))
    world.succeed(world.claim())
    assert QuotaHold.objects.filter(released_at=None).count() == world.application_quota().open_tasks == 0
    assert [world.queue_quota(name).open_tasks for name in ("bank", "mail")] == [0, 0]


@pytest.mark.rule("B7")
def test_many_leaves_are_activated_in_chunks_of_bounded_size(world: World) -> None:
    flow = world.start(parallel(*(task(f"t{number:03}") for number in range(250))), run=False)
    activated = []
    while schedule.advance(flow.id):
        activated.append(StepActivation.objects.filter(instance_id=flow.id).count())
    assert activated == [100, 200, 250]
    assert flow.continuations() == []
    assert world.queue_quota().open_tasks == 250


def test_a_full_queue_does_not_hold_up_leaves_behind_it(world: World) -> None:
    change(world.queue_quota("bank"), max_open_tasks=1)
    crowd = [task(f"t{number:03}") for number in range(150)]
    flow = world.start(parallel(*crowd, task("mail", queue="mail")))
    assert flow.step("mail").status == "RUNNING"


@pytest.mark.rule("B7")
@pytest.mark.django_db(transaction=True)
def test_schedulers_that_race_activate_each_leaf_once(world: World) -> None:
    flow = world.start(parallel(task("one"), task("two")), run=False)
    answers = together([lambda: schedule.advance(flow.id)] * 4)
    assert sorted(answers) == [False, False, False, True]
    assert Task.objects.count() == 2
    assert world.application_quota().open_tasks == 2


def test_what_one_move_costs_does_not_grow_with_the_siblings(world: World, capture_statements: object) -> None:
    costs = []
    for siblings in (5, 80):
        flow = world.start(sequence(task("one"), *(task(f"t{number}") for number in range(siblings))), run=False)
        with capture_statements() as statements:
            schedule.advance(flow.id)
        costs.append(len(statements))
        flow.cancel()
    assert costs[0] == costs[1]


# The gate


@pytest.mark.rule("B5")
def test_under_a_closed_gate_nothing_starts_and_every_opening_writes_a_continuation(world: World) -> None:
    flow = world.start(sequence(task("pay"), task("book")))
    lease = world.claim()
    flow.pause()
    world.succeed(lease)
    assert flow.statuses() == {"root": "RUNNING", "pay": "SUCCEEDED", "book": "PENDING"}
    assert flow.continuations() == []
    flow.resume(run=False)
    assert flow.continuations() == ["RESUME"]
    world.run()
    assert flow.step("book").status == "RUNNING"


@pytest.mark.rule("B5")
def test_a_continuation_that_meets_a_closed_gate_is_done_without_an_effect(world: World) -> None:
    flow = world.start(task("pay"), run=False)
    flow.pause(run=False)
    assert schedule.advance(flow.id)
    assert flow.continuations("DONE") == ["START"]
    assert flow.step("pay").status == "PENDING"
    assert not schedule.advance(flow.id)


def test_tasks_that_a_claim_put_aside_can_be_claimed_after_the_gate_opened(world: World) -> None:
    flow = world.start(task("pay"))
    flow.pause()
    assert world.claim_all() == []
    assert flow.task("pay").held
    flow.resume()
    assert not flow.task("pay").held
    assert world.claim().task.pk == flow.task("pay").pk


@pytest.mark.rule("B5")
def test_the_clock_of_the_next_round_is_set_aside_and_armed_again_for_the_same_time(world: World) -> None:
    flow = world.start(poll("ask"))
    world.succeed(world.claim(), {"state": "processing"})
    (armed,) = flow.clocks("NEXT_ROUND")
    flow.pause()
    assert flow.clocks("NEXT_ROUND") == []
    world.travel(minutes=5)
    assert len(flow.rounds("ask")) == 1
    flow.resume(run=False)
    schedule.advance(flow.id)
    assert [row.due_at for row in flow.clocks("NEXT_ROUND")] == [armed.due_at]
    world.run()
    assert len(flow.rounds("ask")) == 2


@pytest.mark.rule("B5")
def test_an_answer_that_comes_under_a_closed_gate_gets_its_clock_when_it_opens(world: World) -> None:
    flow = world.start(poll("ask"))
    lease = world.claim()
    flow.pause()
    world.succeed(lease, {"state": "processing"})
    assert flow.clocks("NEXT_ROUND") == []
    flow.resume()
    assert [row.due_at for row in flow.clocks("NEXT_ROUND")] == [clock.now() + timedelta(minutes=1)]


# The end


@pytest.mark.rule("B10")
def test_no_instance_ends_while_an_execution_runs(world: World) -> None:
    flow = world.start(poll("ask", signal=receipt()))
    lease = world.claim()
    flow.send("ask")
    assert (flow.step("ask").status, flow.status) == ("SUCCEEDED", "RUNNING")
    world.succeed(lease)
    assert flow.status == "SUCCEEDED"


@pytest.mark.rule("B10")
def test_no_instance_ends_while_an_event_is_not_consumed(world: World) -> None:
    flow = world.start(poll("ask", signal=receipt()))
    lease = world.claim()
    flow.send("ask", run=False)
    signals.adjudicate(flow.id)
    world.succeed(lease, run=False)
    assert schedule.advance(flow.id)
    assert (flow.step("ask").status, flow.status) == ("SUCCEEDED", "RUNNING")
    world.run()
    assert flow.status == "SUCCEEDED"


@pytest.mark.rule("B10")
def test_no_instance_ends_while_an_effect_is_unknown(world: World) -> None:
    flow = world.start(poll("ask", signal=receipt()))
    lease = world.claim()
    flow.send("ask")
    world.unknown(lease)
    assert (flow.step("ask").status, flow.status) == ("SUCCEEDED", "NEEDS_REVIEW")
