"""Hints: after the commit, once, ids only; and a broker that is down fails nothing."""

from collections.abc import Iterator
from functools import partial
from queue import Empty
from typing import Any

import pytest
from celery import Celery
from django.db import transaction

from recovery import prompts
from recovery.engine import sweep
from recovery.locks import Rollback, transact
from tests.support.trees import parallel, task
from tests.support.world import World
from weave_admin import celery_app

pytestmark = pytest.mark.django_db(transaction=True)

INSTANCE, QUEUE = "recovery.tasks.run_instance", "recovery.tasks.work"


def messages() -> list[tuple[str, list[str]]]:
    """Takes what is on the broker: the task and the ids of each message."""
    found = []
    with celery_app.connection_for_read() as connection:
        for name in ("weave", "weave-handlers"):
            queue = connection.SimpleQueue(name)
            try:
                while True:
                    message = queue.get_nowait()
                    message.ack()
                    found.append((message.headers["task"], message.payload[0]))
            except Empty:
                queue.close()
    return found


@pytest.fixture(autouse=True)
def _empty_broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(prompts, "_silent_until", 0.0)
    messages()
    yield
    messages()


def test_a_fact_and_a_continuation_prompt_their_instance_once_a_transaction(world: World) -> None:
    flow = world.start(task("pay"), run=False)
    assert messages() == [(INSTANCE, [flow.id])]
    world.run()
    messages()
    world.succeed(world.claim(), run=False)
    assert messages() == [(INSTANCE, [flow.id])]
    with transaction.atomic():
        for key in ("a", "b", "a"):
            prompts.instance(key)
        assert messages() == []  # nothing inside of the transaction
    assert messages() == [(INSTANCE, ["a"]), (INSTANCE, ["b"])]


def test_a_transaction_that_is_rolled_back_or_only_previewed_prompts_nobody(world: World) -> None:
    def end(locks: Any, by: Exception) -> None:
        prompts.instance("a")
        raise by

    transact(partial(end, by=Rollback(None)))
    with pytest.raises(LookupError):
        transact(partial(end, by=LookupError()))
    assert messages() == []


def test_each_task_prompts_a_worker_of_ours_where_there_are_handlers(world: World, settings: Any) -> None:
    settings.WEAVE_HANDLERS = ["tests.support.sample_handlers"]
    world.start(parallel(task("a"), task("b"), task("c")))
    bank = world.queues["bank"].pk
    assert [keys for name, keys in messages() if name == QUEUE] == [[bank]] * 3
    world.fail(world.claim(), retryable=True)
    assert [keys for name, keys in messages() if name == QUEUE] == [[bank]]
    settings.WEAVE_HANDLERS = []
    world.start(task("pay"))
    assert [name for name, _keys in messages() if name == QUEUE] == []


def test_whoever_runs_an_instance_does_not_prompt_itself(world: World) -> None:
    flow = world.start(task("pay"))
    other = world.start(task("pay"), run=False)
    world.succeed(world.claim(), run=False)
    messages()
    assert sweep.run_instance(flow.id)  # consumes the result, and writes a continuation
    assert flow.status == "SUCCEEDED"
    assert messages() == []
    with prompts.handled_here(flow.id):
        prompts.instance(other.id)
    assert messages() == [(INSTANCE, [other.id])]


def test_an_instance_that_takes_too_long_for_one_message_gets_another(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep, "TURNS", 1)
    flow = world.start(task("pay"), run=False)
    messages()
    assert sweep.run_instance(flow.id)
    assert messages() == [(INSTANCE, [flow.id])]


def test_a_broker_that_is_down_fails_no_call_and_is_left_alone_for_a_while(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    nobody_there = Celery("dead", broker="amqp://127.0.0.1:1", set_as_current=False)
    nobody_there.conf.broker_transport_options = {"max_retries": 0}
    monkeypatch.setattr(prompts, "current_app", nobody_there)
    flow = world.start(task("pay"))
    world.succeed(world.claim())
    assert flow.status == "SUCCEEDED"
    complaints = [record for record in caplog.records if "takes no hints" in record.getMessage()]
    assert [record.levelname for record in complaints] == ["WARNING"]
    monkeypatch.setattr(prompts, "current_app", celery_app)
    prompts.instance("a")
    assert messages() == []
    monkeypatch.setattr(prompts, "_silent_until", 0.0)
    prompts.instance("a")
    assert messages() == [(INSTANCE, ["a"])]
