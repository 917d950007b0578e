"""The worker protocol: claims that wait, leases, and reports that count once."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import time_machine
from django.db import connection, connections

from recovery import permissions
from recovery.api import waiting
from recovery.api.waiting import until_some
from tests.api.callers import caller
from tests.api.desk import Desk, desk_of
from tests.support.trees import parallel, sequence, task
from tests.support.world import MORNING, World, make_world


def test_a_claim_answers_task_attempt_and_input(desk: Desk) -> None:
    run = desk.start(sequence(task("pay", input={"order": {"$from": "/instance/input/order"}})))
    lease = desk.claim()
    assert lease["input"] == {"order": "A-1"}
    assert lease["task"] | {"input": lease["input"]} == run.task("pay")
    assert set(lease["attempt"]) == {"id", "attempt_no", "lease_token", "lease_expires_at"}
    assert lease["attempt"]["attempt_no"] == 1
    assert desk.claim_all() == []


def test_a_claim_takes_only_the_handlers_that_it_names(desk: Desk) -> None:
    desk.start(sequence(parallel(task("a"), task("b", handler_version="2"), key="both")))
    assert desk.claim_all(handlers=[{"name": "bank.transfer", "version": "3"}]) == []
    (lease,) = desk.claim_all(handlers=[{"name": "bank.transfer", "version": "2"}, {"name": "x", "version": "1"}])
    assert lease["task"]["handler_version"] == "2"
    assert len(desk.claim_all()) == 1


def test_a_claim_with_a_key_answers_the_same_leases_again(desk: Desk) -> None:
    desk.start(sequence(parallel(*(task(key) for key in "abc"), key="all")))
    claim = {"worker": "w", "max_tasks": 2}
    first = desk.worker.post("/queues/bank/claim", claim, key="k")
    again = desk.worker.post("/queues/bank/claim", claim, key="k")
    assert len(first["tasks"]) == 2
    assert again.data == first.data
    other = desk.worker.post("/queues/bank/claim", claim | {"max_tasks": 3}, key="k")
    assert other.code == "IDEMPOTENCY_CONFLICT"
    assert len(desk.claim_all()) == 1


def test_a_full_queue_leases_no_more_than_it_may_run(world: World, desk: Desk) -> None:
    world.add_queue("narrow", max_running=2)
    desk.worker = caller(world, world.actor(permissions.WORK, queues=("narrow",)))
    desk.start(sequence(parallel(*(task(key, queue="narrow") for key in "abc"), key="all")))
    leases = desk.claim_all("narrow")
    assert len(leases) == 2
    assert desk.claim_all("narrow") == []
    desk.succeed(leases[0])
    assert len(desk.claim_all("narrow")) == 1


@pytest.mark.rule("B2")
def test_a_heartbeat_extends_a_lease_until_the_attempt_has_ended(world: World, desk: Desk) -> None:
    desk.start(sequence(task("pay")))
    lease = desk.claim()
    world.travel(seconds=20)
    beat = desk.report(lease, "heartbeat")
    assert beat.status == 200
    assert beat["lease_expires_at"] > lease["attempt"]["lease_expires_at"]
    world.travel(seconds=20)
    desk.succeed(lease)
    refused = desk.report(lease, "heartbeat")
    assert (refused.status, refused.code) == (409, "STATE_CONFLICT")


@pytest.mark.rule("B9")
def test_a_wrong_token_is_refused_at_every_report(desk: Desk) -> None:
    run = desk.start(sequence(parallel(task("a"), task("b"), key="both")))
    lease, other = desk.claim_all()
    lease["attempt"]["lease_token"] = other["attempt"]["lease_token"]
    said: dict[str, dict[str, Any]] = {
        "heartbeat": {},
        "succeed": {"result": None},
        "fail": {"error_code": "E", "error_message": "", "retryable": True},
        "unknown": {"error_code": "E", "error_message": ""},
    }
    for verb, more in said.items():
        assert desk.report(lease, verb, **more).code == "STATE_CONFLICT"
    assert [row["status"] for row in run.history("attempts")] == ["RUNNING", "RUNNING"]


def test_the_same_report_again_answers_as_the_first_did(desk: Desk) -> None:
    run = desk.start(sequence(task("pay"), task("notify", queue="mail")))
    lease = desk.claim()
    first = desk.succeed(lease)
    revision = run.state["revision"]
    again = desk.succeed(lease)
    assert (first.status, again.status, again.body) == (200, 200, first.body)
    assert run.state["revision"] == revision


@pytest.mark.rule("B1")
def test_a_failure_that_may_be_retried_is_claimed_again_after_its_backoff(world: World, desk: Desk) -> None:
    run = desk.start(sequence(task("pay", policy={"backoff_ms": 5000})))
    said = desk.report(desk.claim(), "fail", error_code="BUSY", error_message="", retryable=True)
    assert (said.status, said["task_status"]) == (200, "QUEUED")
    assert desk.claim_all() == []
    world.travel(seconds=5)
    assert desk.claim()["attempt"]["attempt_no"] == 2
    first = run.history("attempts")[0]
    assert (first["status"], first["error_code"]) == ("FAILED", "BUSY")


# Waiting


def test_a_claim_without_work_waits_no_longer_than_it_was_told(desk: Desk) -> None:
    assert desk.claim_all(wait_ms=1) == []


@pytest.fixture(name="busy_desk")
def _busy_desk(transactional_db: None) -> Iterator[Desk]:
    """A desk whose rows other connections see, in a time that flows."""
    with time_machine.travel(MORNING, tick=True) as traveller:
        yield desk_of(make_world(traveller))


def test_a_waiting_claim_gets_the_task_that_comes_and_holds_no_connection_meanwhile(busy_desk: Desk) -> None:
    desk = busy_desk
    held: list[bool] = []
    sleep = time.sleep

    def watched(seconds: float) -> None:
        held.append(connection.connection is not None)
        sleep(seconds)

    answers: list[Any] = []

    def wait() -> None:
        try:
            answers.extend(desk.claim_all(wait_ms=20_000))
        finally:
            connections.close_all()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("recovery.api.waiting.time.sleep", watched)
        worker = threading.Thread(target=wait)
        worker.start()
        while not held:
            sleep(0.01)
        desk.start(sequence(task("pay")))
        worker.join(timeout=30)
    assert not worker.is_alive()
    assert [lease["task"]["handler"] for lease in answers] == ["bank.transfer"]
    assert held
    assert not any(held)


def test_who_finds_no_place_to_wait_is_answered_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []

    def look() -> list[int]:
        looks.append(1)
        return []

    monkeypatch.setattr(waiting, "_places", threading.BoundedSemaphore(1))
    with waiting._places:
        assert until_some(look, 20_000) == []
    assert len(looks) == 1
    assert until_some(look, 1) == []
    assert waiting._places.acquire(blocking=False), "the place was not given back"


def test_pauses_grow_and_stay_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    moment, pauses = [0.0], []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        moment[0] += seconds

    monkeypatch.setattr("recovery.api.waiting.time.monotonic", lambda: moment[0])
    monkeypatch.setattr("recovery.api.waiting.time.sleep", sleep)
    assert until_some(list, 20_000) == []
    assert sum(pauses) == pytest.approx(20)
    assert pauses[0] == waiting.FIRST_PAUSE
    assert max(pauses) == waiting.LONGEST_PAUSE
    assert pauses[:-1] == sorted(pauses[:-1])
    assert len(pauses) < 40
