"""The flow's writers killed at every statement, refused at every write, cut off after the commit: all or nothing (B7).

And the locks that each takes, in the one order that does not deadlock (G7).
"""

import signal
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count

import pytest
import time_machine
from django.db import OperationalError

from recovery.engine import cancel_task, control, inbox, publish, schedule, signals, start, stop
from tests.support.faults import Act, answers_lost, at_statement, die, facts, in_child
from tests.support.ledger import assert_ledger_holds, locked_tables
from tests.support.trees import HOUR, Node, parallel, poll, receipt, sequence, task, timer
from tests.support.world import MORNING, Flow, World, make_world

pytestmark = [pytest.mark.faults, pytest.mark.rule("B7")]

TREE: Node = sequence(parallel(task("pay"), poll("ask", queue="mail", signal=receipt()), timer("wait"), key="all"))


@pytest.fixture
def world(transactional_db: None) -> Iterator[World]:
    """A world whose transactions are real ones, on the database's own connection."""
    with time_machine.travel(MORNING, tick=False) as traveller:
        yield make_world(traveller)


def publishing(world: World) -> Act:
    document = {"name": "payment", "input_schema": True, "max_duration_ms": HOUR, "root": TREE}
    return partial(publish.publish, world.operator, "key", document)


def starting(world: World) -> Act:
    name = world.publish(TREE)["definition"]
    document = {"application": "desk", "definition": name, "business_key": "order", "input": {"order": "A-1"}}
    return partial(start.start, world.operator, "key", document)


def pausing(world: World) -> Act:
    return partial(control.pause, world.operator, "key", world.start(TREE).id, "1", "because")


def resuming(world: World) -> Act:
    flow = world.start(TREE)
    flow.pause()
    return partial(control.resume, world.operator, "key", flow.id, "2", "because")


def cancelling(world: World) -> Act:
    return partial(control.cancel, world.operator, "key", world.start(TREE).id, "1", "because")


def cancelling_a_task(world: World) -> Act:
    paid = world.start(TREE).task("pay")
    return partial(cancel_task.cancel_task, world.operator, paid.pk, "1", "because")


def accepting(world: World) -> Act:
    sent = {"step_key": "ask", "generation": 1, "name": "receipt", "correlation_key": "A-1", "source_key": "s"}
    return partial(signals.accept, world.operator, world.start(TREE).id, {**sent, "payload": {"number": 1}})


def adjudicating(world: World) -> Act:
    flow = world.start(TREE)
    flow.send("ask", run=False)
    return partial(signals.adjudicate, flow.id)


def activating(world: World) -> Act:
    return partial(schedule.advance, world.start(TREE, run=False).id)


def releasing(world: World) -> Act:
    flow = world.start(TREE)
    world.succeed(world.claim("mail"), {"state": "processing"})
    flow.pause()
    assert world.claim_all() == []
    flow.resume(run=False)
    return partial(schedule.advance, flow.id)


def ending(world: World) -> Act:
    flow = world.start(sequence(task("pay")))
    world.succeed(world.claim(), run=False)
    _consume(flow)
    return partial(schedule.advance, flow.id)


def closing_waits(world: World) -> Act:
    flow = world.start(TREE)
    flow.cancel(run=False)
    return partial(stop.stop, flow.id)


def cancelling_unstarted(world: World) -> Act:
    flow = world.start(parallel(task("pay"), task("mail", queue="mail")))
    flow.cancel(run=False)
    return partial(stop.stop, flow.id)


def ending_a_stop(world: World) -> Act:
    flow = world.start(sequence(task("pay"), task("book")))
    flow.cancel(run=False)
    stop.stop(flow.id)
    _consume(flow)
    return partial(stop.stop, flow.id)


def _consume(flow: Flow) -> None:
    assert inbox.consume(flow.id)


Stage = Callable[[World], Act]
RUNNERS: list[Stage] = [activating, releasing, ending, closing_waits, cancelling_unstarted, ending_a_stop, adjudicating]
KEYED: list[Stage] = [publishing, starting, pausing, resuming, cancelling, accepting]
STAGES: list[Stage] = [*RUNNERS, *KEYED, cancelling_a_task]


def every(stages: list[Stage]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("stage", stages, ids=[stage.__name__ for stage in stages])


@every(STAGES)
def test_killed_at_any_statement_it_leaves_all_or_nothing(world: World, stage: Stage) -> None:
    act = stage(world)
    before = facts()
    for number in count(1):
        ended = in_child(partial(at_statement, number, act, die))
        if facts() != before:
            break  # it had come to its commit
        assert ended == signal.SIGKILL
    assert number > 5
    assert_ledger_holds(world)


@every(STAGES)
def test_whichever_write_is_refused_nothing_is_left_and_it_can_be_done_again(world: World, stage: Stage) -> None:
    act = stage(world)
    before = facts()

    def refuse() -> None:
        raise OperationalError(1114, "The table is full")

    for number in count(1):
        try:
            at_statement(number, act, refuse, only_writes=True)
        except OperationalError:
            assert facts() == before
        else:
            break
    assert number > 1
    assert facts() != before
    assert_ledger_holds(world)


@every(STAGES)
@pytest.mark.parametrize("code", [1213, 1205])
def test_contention_is_tried_again_as_a_whole(world: World, stage: Stage, code: int) -> None:
    act, faults = stage(world), []

    def contend() -> None:
        faults.append(code)
        raise OperationalError(code, "contention")

    at_statement(2, act, contend, only_writes=True)
    once = facts()
    assert_ledger_holds(world)
    if stage in KEYED:
        act()
        assert facts() == once


@every(STAGES)
def test_a_commit_whose_answer_is_lost_has_its_effect_once(world: World, stage: Stage) -> None:
    act = stage(world)
    with answers_lost() as lost:
        act()
    assert lost
    after = facts()
    if stage in KEYED:
        act()
        assert facts() == after
    assert_ledger_holds(world)
    world.run()
    assert_ledger_holds(world)


TO_THE_GATE = ["ApplicationQuota", "QueueQuota", "WorkflowInstance", "InstanceGate"]
TO_THE_GATE_WITH_A_KEY = [TO_THE_GATE[0], "ManagementOperation", *TO_THE_GATE[1:]]
LEAF = ["WorkflowStep", "StepActivation", "PollState", "PollRound", "PollBudget", "WaitState"]


@pytest.mark.rule("G7")
@pytest.mark.parametrize(
    ("stage", "locks"),
    [
        (publishing, ["ManagementOperation", "WorkflowDefinition"]),
        (starting, ["ApplicationQuota", "ManagementOperation"]),
        (pausing, TO_THE_GATE_WITH_A_KEY),
        (resuming, TO_THE_GATE_WITH_A_KEY),
        (cancelling, TO_THE_GATE_WITH_A_KEY),
        (cancelling_a_task, [*TO_THE_GATE, "Task", "ResultStream"]),
        (accepting, ["WorkflowInstance", "WorkflowStep", "WaitState"]),
        (activating, [*TO_THE_GATE, "WorkflowStep"]),
        (adjudicating, [*TO_THE_GATE, *LEAF[:2], "Task", *LEAF[2:], "Signal", "ResultStream"]),
        (closing_waits, [*TO_THE_GATE, *LEAF]),
        (cancelling_unstarted, [*TO_THE_GATE, "Task", "ResultStream"]),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_locks_are_taken_in_the_one_order(world: World, stage: Stage, locks: list[str]) -> None:
    act = stage(world)
    if stage is publishing:
        world.publish(task("pay"), name="payment")  # a definition that does not exist cannot be locked
    with locked_tables() as taken:
        act()
    assert taken == locks
