"""In-process handlers: what they may say, and what becomes of a task that one of them runs."""

import threading
import time
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db import OperationalError

from recovery import clock, permissions, prompts
from recovery.engine import handlers, reaper, report
from recovery.engine.handlers import handler
from recovery.models import TaskAttempt
from recovery.writes import change
from tests.support import sample_handlers
from tests.support.ledger import assert_ledger_holds
from tests.support.threads import together
from tests.support.trees import MINUTE, parallel, sequence, task
from tests.support.world import Flow, World

TIMEOUT = 60
"""Seconds that a test waits for a thread before it fails; never how long it takes."""


@pytest.fixture(autouse=True)
def _configured(world: World, settings: Any) -> Iterator[None]:
    """The sample handlers, run by an account of their own with the worker's rights."""
    account = world.actor(permissions.WORK, queues=("bank", "mail"))
    settings.WEAVE_HANDLERS = ["tests.support.sample_handlers"]
    settings.WEAVE_WORKER_USER = account.username
    handlers._complain.cache_clear()
    sample_handlers.running.clear()
    sample_handlers.go_on.clear()
    yield
    sample_handlers.go_on.set()


def doing(what: str, **fields: Any) -> Any:
    return {"input": {"do": what, **fields}}


def work(world: World, queue: str = "bank") -> int:
    return world._then(handlers.work(world.queues[queue].pk), True)


def end_of(world: World, what: str, **fields: Any) -> tuple[Flow, TaskAttempt]:
    """A flow of one task whose handler did that, and its last attempt."""
    flow = world.start(task("pay", max_attempts=2, **doing(what, **fields)))
    assert work(world) > 0
    return flow, flow.attempts("pay")[-1]


def test_what_a_handler_returns_is_the_result(world: World) -> None:
    flow, attempt = end_of(world, "answer", answer={"state": "done", "amount": 12345678901234567890})
    assert (flow.status, attempt.status) == ("SUCCEEDED", "SUCCEEDED")
    assert flow.results("pay")[0].payload == {"state": "done", "amount": 12345678901234567890}
    assert_ledger_holds(world)


def test_a_handler_may_answer_nothing(world: World) -> None:
    flow, _attempt = end_of(world, "answer", answer=None)
    assert flow.results("pay")[0].payload is None


def test_a_handler_knows_its_task_and_doubles_keep_their_digits(world: World) -> None:
    flow, _attempt = end_of(world, "describe")
    found = flow.task("pay")
    expected = {"task": found.pk, "attempt": 1, "key": found.business_key, "rate": Decimal("0.1")}
    assert flow.results("pay")[0].payload == expected


@pytest.mark.rule("B1")
def test_a_failure_is_tried_again_only_where_the_handler_allows_it(world: World) -> None:
    flow, attempt = end_of(world, "fail", retryable=True)
    assert (attempt.attempt_no, attempt.status, flow.task("pay").status) == (2, "FAILED", "FAILED")
    assert (attempt.error_code, attempt.error_message) == ("REFUSED", "the bank said no")
    flow, attempt = end_of(world, "fail")
    assert (attempt.attempt_no, flow.task("pay").status) == (1, "FAILED")


@pytest.mark.rule("B2")
@pytest.mark.parametrize(
    ("what", "code", "message"),
    [
        ("doubt", "TIMEOUT", "no answer"),
        ("raise", "EXCEPTION", "LookupError: a fault of the code"),
        ("answer nonsense", "EXCEPTION", "TypeError: "),
        ("answer not a number", "EXCEPTION", "ValueError: "),
        ("fail without a code", "EXCEPTION", "Invalid: "),
    ],
)
def test_whatever_else_a_handler_does_is_unknown(
    world: World, caplog: pytest.LogCaptureFixture, what: str, code: str, message: str
) -> None:
    flow, attempt = end_of(world, what)
    assert (flow.task("pay").status, attempt.status, attempt.error_code) == ("NEEDS_REVIEW", "UNKNOWN", code)
    assert attempt.error_message.startswith(message)
    assert flow.task("pay").attempt_count == 1  # never tried again by itself
    assert (flow.task("pay").pk in caplog.text) == (what != "doubt")
    caplog.clear()


def test_words_that_cannot_be_kept_are_spelled_out(world: World, caplog: pytest.LogCaptureFixture) -> None:
    _flow, attempt = end_of(world, "fail", message="a\0b \\ud800" + "x" * 2000)
    assert attempt.error_message.startswith("a\\0b")
    assert len(attempt.error_message) == 1024


def test_a_worker_stays_until_the_queue_is_empty(world: World) -> None:
    flow = world.start(parallel(*(task(f"t{number}", **doing("answer")) for number in range(5))))
    assert handlers.work(world.queues["bank"].pk) == 5
    world.run()
    assert flow.status == "SUCCEEDED"
    assert handlers.work(world.queues["bank"].pk) == 0


def test_a_worker_leaves_a_queue_that_never_gets_empty_after_its_shift(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And tells the others that there is more."""
    world.start(parallel(*(task(f"t{number}", **doing("answer")) for number in range(3))))
    told: list[str] = []
    monkeypatch.setattr(prompts, "queue", told.append)
    run = handlers.run

    def slowly(*leased: Any) -> None:
        run(*leased)
        world.traveller.shift(handlers.SHIFT / 2)

    monkeypatch.setattr(handlers, "run", slowly)
    assert handlers.work(world.queues["bank"].pk) == 2
    assert told == [world.queues["bank"].pk]


def test_only_tasks_of_registered_handlers_are_claimed(world: World) -> None:
    flow = world.start(task("pay", handler_version="2"))
    assert work(world) == 0
    assert flow.task("pay").status == "QUEUED"


def test_two_functions_cannot_be_one_handler() -> None:
    with pytest.raises(ValueError, match=r"bank.transfer 1"):
        handler(sample_handlers.NAME, sample_handlers.VERSION)(lambda context: None)
    handler(sample_handlers.NAME, sample_handlers.VERSION)(sample_handlers.transfer)


# Which account


@pytest.mark.parametrize("name", ["", "nobody"])
def test_without_an_account_nothing_runs_and_the_log_says_so_once(
    world: World, settings: Any, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    settings.WEAVE_WORKER_USER = name
    world.start(task("pay", **doing("answer")))
    for _second in range(3):
        assert handlers.work(world.queues["bank"].pk) == 0
        assert handlers.waiting_queues() == []
    assert [record.levelname for record in caplog.records if "WEAVE_WORKER_USER" in record.getMessage()] == ["ERROR"]
    caplog.clear()


def test_a_locked_account_runs_nothing(world: World, settings: Any, caplog: pytest.LogCaptureFixture) -> None:
    get_user_model().objects.filter(username=settings.WEAVE_WORKER_USER).update(is_active=False)
    world.start(task("pay", **doing("answer")))
    assert handlers.work(world.queues["bank"].pk) == 0
    caplog.clear()


def test_the_account_needs_its_rights_and_the_log_names_the_missing_one(
    world: World, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    settings.WEAVE_WORKER_USER = world.actor(permissions.WORK, queues=("mail",)).username
    flow = world.start(task("pay", **doing("answer")))
    for _second in range(3):
        assert handlers.work(world.queues["bank"].pk) == 0
    assert [record.levelname for record in caplog.records if "queues:use" in record.getMessage()] == ["ERROR"]
    assert flow.task("pay").status == "QUEUED"
    caplog.clear()


def test_without_handlers_no_account_is_asked_for(
    world: World, settings: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    settings.WEAVE_HANDLERS, settings.WEAVE_WORKER_USER = [], ""
    monkeypatch.setattr(handlers, "_registry", {})
    world.start(task("pay"))
    assert handlers.waiting_queues() == []
    assert handlers.work(world.queues["bank"].pk) == 0
    assert "WEAVE_WORKER_USER" not in caplog.text


def test_the_sweep_is_told_of_queues_where_the_account_could_work_now(world: World) -> None:
    bank = world.queues["bank"]
    assert handlers.waiting_queues() == []
    world.start(sequence(task("pay", policy={"backoff_ms": MINUTE}, **doing("fail", retryable=True))))
    assert handlers.waiting_queues() == [bank.pk]
    work(world)
    assert handlers.waiting_queues() == []  # in its backoff
    world.travel(minutes=1)
    change(bank, status="PAUSED")
    assert handlers.waiting_queues() == []
    change(bank, status="OPEN")
    assert handlers.waiting_queues() == [bank.pk]


def test_the_sweep_is_not_told_of_queues_of_others(world: World, settings: Any) -> None:
    settings.WEAVE_WORKER_USER = world.actor(permissions.WORK, queues=("mail",)).username
    world.start(task("pay", **doing("answer")))
    assert handlers.waiting_queues() == []
    settings.WEAVE_WORKER_USER = world.actor(queues=("bank",)).username
    assert handlers.waiting_queues() == []


# Leases while a handler runs


def _lease(flow: Flow) -> TaskAttempt:
    return flow.attempts("pay")[-1]


def _wait_until(holds: Any) -> None:
    """Looks again and again: when it holds is of no interest, that it does is."""
    for _look in range(TIMEOUT * 20):
        if holds():
            return
        threading.Event().wait(0.05)
    raise AssertionError("it never came")


@pytest.fixture
def _brisk(db: None, world: World) -> None:
    """Leases of the bank's queue are short: what extends them does so many times a second."""
    change(world.queues["bank"], lease_ms=300)


def beside(world: World, watch: Any) -> None:
    """Runs a worker, and `watch` beside it as soon as its handler waits; the handler ends after that."""

    def then_let_go() -> None:
        assert sample_handlers.running.wait(TIMEOUT)
        try:
            watch()
        finally:
            sample_handlers.go_on.set()

    for answer in together([lambda: handlers.work(world.queues["bank"].pk), then_let_go]):
        if isinstance(answer, Exception):
            raise answer


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("_brisk")
@pytest.mark.rule("B2")
def test_the_lease_is_extended_while_a_handler_runs(world: World) -> None:
    flow = world.start(task("pay", **doing("wait")))

    def watch() -> None:
        for _time in range(3):
            world.traveller.shift(0.2)
            _wait_until(lambda: _lease(flow).heartbeat_at == clock.now())
            assert reaper.reap() == 0

    beside(world, watch)
    world.run()
    assert flow.status == "SUCCEEDED"


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("_brisk")
@pytest.mark.rule("B2", "B9")
def test_nobody_extends_the_lease_of_a_handler_that_outlives_its_tasks_time(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    flow = world.start(task("pay", timeout_ms=MINUTE, **doing("wait")))

    def watch() -> None:
        world.traveller.shift(60)
        _wait_until(lambda: not [thread for thread in threading.enumerate() if thread.name.startswith("lease ")])
        world.traveller.shift(1)
        assert reaper.reap() == 1
        assert flow.task("pay").status == "NEEDS_REVIEW"

    beside(world, watch)
    # The handler asked for its lease itself, was refused, and what it said then came too late.
    assert [kept.source for kept in flow.results("pay")] == ["REAPER", "LATE"]
    assert flow.task("pay").status == "NEEDS_REVIEW"
    caplog.clear()


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("_brisk")
def test_heartbeats_go_on_after_the_database_was_away(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    flow = world.start(task("pay", **doing("wait")))
    heartbeat, refused = report.heartbeat, threading.Event()

    def away_once(*credentials: Any) -> Any:
        if not refused.is_set():
            refused.set()
            raise OperationalError(2006, "server has gone away")
        return heartbeat(*credentials)

    monkeypatch.setattr(report, "heartbeat", away_once)

    def watch() -> None:
        assert refused.wait(TIMEOUT)
        world.traveller.shift(0.2)
        _wait_until(lambda: _lease(flow).heartbeat_at == clock.now())

    beside(world, watch)
    assert flow.task("pay").status == "SUCCEEDED"


@pytest.mark.django_db(transaction=True)
def test_a_report_is_sent_again_while_the_database_is_away(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    flow = world.start(task("pay", **doing("answer")))
    succeed, failures, slept = report.succeed, iter([OperationalError(2013, "lost"), None]), list[float]()

    def away_once(*credentials: Any, **said: Any) -> Any:
        if failure := next(failures):
            raise failure
        return succeed(*credentials, **said)

    monkeypatch.setattr(report, "succeed", away_once)
    monkeypatch.setattr(time, "sleep", slept.append)
    work(world)
    assert flow.status == "SUCCEEDED"
    assert slept == [handlers.PAUSES[0]]


@pytest.mark.rule("B2")
def test_a_handler_that_is_killed_reports_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(context: handlers.Context) -> None:
        raise SystemExit(1)

    monkeypatch.setitem(handlers._registry, ("bank.transfer", "9"), killed)
    flow = world.start(task("pay", handler_version="9"))
    with pytest.raises(SystemExit):
        work(world)
    assert flow.task("pay").status == "RUNNING"
    world.travel(seconds=30)
    assert flow.task("pay").status == "NEEDS_REVIEW"
