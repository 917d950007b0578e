"""Corners where two correct parts of the engine meet: found by attacking it, each once wrong."""

import pytest

from tests.support.recovering import refused
from tests.support.trees import poll, receipt, sequence, signal, task
from tests.support.world import World


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
