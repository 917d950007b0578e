"""Corners where two correct parts of the engine meet: found by attacking it, each once wrong."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from recovery import contracts
from recovery.engine import clocks, inbox, signals, stop
from recovery.errors import ValidationFailed
from recovery.locks import Locks
from recovery.models import InstanceGate, StepClock
from tests.support.recovering import refused
from tests.support.trees import parallel, poll, receipt, sequence, signal, task, timer
from tests.support.world import World


def fire_the_deadline(instance_id: str) -> None:
    due = StepClock.objects.filter(instance_id=instance_id, kind="POLL_DEADLINE").values_list("pk", flat=True)
    clocks.fire(due[0], instance_id)


@pytest.mark.rule("B6")
def test_a_stop_does_not_wait_for_a_request_that_is_to_be_tried_again(world: World) -> None:
    flow = world.start(sequence(task("pay")))
    lease = world.claim()
    flow.cancel()
    said = world.fail(lease, retryable=True)
    assert (flow.task("pay").status, flow.status) == ("CANCELLED", "CANCELLED")
    assert world.fail(lease, retryable=True) == said, "a repeated report is answered like the first"


@pytest.mark.rule("B12")
def test_a_query_that_a_signal_settled_does_not_ask_again(world: World) -> None:
    flow = world.start(sequence(poll("ask", signal=receipt()), signal("later")))
    lease = world.claim()
    flow.send("ask")
    world.fail(lease, retryable=True)
    assert world.claim_all() == []
    assert flow.task("ask").status == "CANCELLED"


@pytest.mark.rule("RW1")
def test_a_wait_that_never_began_cannot_be_rearmed(world: World) -> None:
    flow = world.start(sequence(signal("wait")), input={"order": None})
    assert flow.step("wait").review_reason == "INPUT_UNRESOLVED"
    refused(flow, "STATE_CONFLICT", "rearm-wait", "wait")


def test_inputs_that_are_large_together_are_stored_in_several_statements(world: World) -> None:
    whole = {"order": "A-1", "text": '"' * 250_000}
    flow = world.start(parallel(*(task(f"t{n}", input={"$from": "/instance/input"}) for n in range(30))), input=whole)
    assert {flow.step(f"t{n}").status for n in range(30)} == {"RUNNING"}


def test_an_output_that_is_too_large_together_is_left_to_the_steps_that_have_it(world: World) -> None:
    many = parallel(*(task(f"t{n}") for n in range(6)), key="many")
    one, whole = {"$from": "/steps/t0/output/state"}, {"$from": "/steps/many/output/t0/state"}
    flow = world.start(sequence(many, task("one", input=one), task("whole", input=whole)))
    for lease in world.claim_all():
        world.succeed(lease, {"state": "done", "text": "x" * 1_000_000}, run=False)
    world.run()
    world.succeed(world.claim())
    assert (flow.step("many").status, flow.step("many").output) == ("SUCCEEDED", None)
    assert flow.task("one").input == "done"
    assert flow.step("whole").review_reason == "INPUT_UNRESOLVED", "a null that nobody answered is no input"


def test_a_short_template_cannot_name_a_long_value_without_end(world: World) -> None:
    long = [{"$from": "/instance/input/text"}] * 10_000
    flow = world.start(sequence(task("pay", input=long)), input={"text": "x" * 100_000})
    assert flow.step("pay").review_reason == "INPUT_UNRESOLVED"


def test_a_text_is_measured_as_it_travels_whatever_its_alphabet(world: World) -> None:
    flow = world.start(sequence(task("pay")))
    world.succeed(world.claim(), {"text": "核" * 300_000})
    assert flow.status == "SUCCEEDED"


@pytest.mark.rule("B7")
def test_many_clocks_that_cannot_fire_keep_no_other_one_waiting(world: World, caplog: pytest.LogCaptureFixture) -> None:
    *broken, sound = (world.start(timer("rest")) for _number in range(4))
    InstanceGate.objects.filter(instance_id__in=[flow.id for flow in broken]).delete()
    world.travel(minutes=10, run=False)
    assert clocks.fire_due(limit=1) == 1
    assert sound.step("rest").status == "SUCCEEDED"
    caplog.clear()  # the faults were asked for


@pytest.mark.parametrize("handlers", [7, "pay", [1, 2], [("pay",)], {"pay": "1"}, [("pay", "1")] * 501])
def test_handlers_that_are_no_pairs_are_refused(world: World, handlers: Any) -> None:
    with pytest.raises(ValidationFailed):
        world.claim_all(handlers=handlers)


def test_as_many_handlers_as_may_be_named_can_be_looked_for(world: World) -> None:
    world.start(sequence(task("pay")))
    named = [("bank.transfer", str(number)) for number in range(500)]
    assert len(world.claim_all(handlers=named)) == 1


@pytest.mark.parametrize("number", [Decimal("NaN"), Decimal("-Infinity")])
def test_what_is_no_number_is_no_result(world: World, number: Decimal) -> None:
    world.start(sequence(task("pay")))
    with pytest.raises(ValidationFailed):
        world.succeed(world.claim(), {"amount": number})


@pytest.mark.rule("G7")
@pytest.mark.parametrize("runner", [signals.adjudicate, stop.stop, inbox.consume, fire_the_deadline])
def test_a_signal_is_held_against_its_contract_once_and_before_the_first_lock(
    world: World, runner: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = world.start(sequence(poll("ask", signal=receipt())))
    lease = world.claim()
    flow.send("ask", run=False)
    world.travel(seconds=1, run=False)
    world.succeed(lease, run=False)
    flow.cancel(run=False)
    happened: list[str] = []

    def noted(word: str, function: Any) -> Any:
        def called(*arguments: Any) -> Any:
            happened.append(word)
            return function(*arguments)

        return called

    world.travel(hours=1, run=False)
    monkeypatch.setattr(contracts, "violation", noted("judged", contracts.violation))
    monkeypatch.setattr(Locks, "row", noted("locked", Locks.row))
    for _time in range(2):
        runner(flow.id)
    assert flow.signals("ask")[0].disposition == "MATCHED"
    del happened[happened.index("locked") :]
    # An answer is judged before the first lock too.
    assert happened.count("judged") == (2 if runner in (inbox.consume, fire_the_deadline) else 1)
