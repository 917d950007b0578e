"""The system page: runners, backlogs, quarantine, and whether database and broker answer."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest

from recovery import clock, permissions
from recovery.console.presenters import health
from recovery.engine import sweep
from recovery.models import InboxEvent
from recovery.permissions import Actor
from tests.console.support import Desk
from tests.support.statements import Statement
from tests.support.trees import task
from tests.support.world import World, make_world

Capture = Callable[[], AbstractContextManager[list[Statement]]]
Seat = Callable[[Actor], Desk]


def waiting(world: World) -> InboxEvent:
    """A result that no runner has consumed yet."""
    world.start(task("it"))
    world.succeed(world.claim(), run=False)
    return InboxEvent.objects.order_by("-received_at").first() or pytest.fail("no event")


def test_a_runner_that_stands_still_is_said_to_be_late(world: World, desk: Desk) -> None:
    assert "never" in desk.get("/system/").text
    sweep.beat("clocks", handled=3, waiting_since=None)
    world.travel(seconds=20)
    assert "late" not in desk.get("/system/").text
    world.travel(minutes=2)
    assert "late: 2 min ago" in desk.get("/system/").text


def test_the_lag_of_a_runner_is_how_long_its_oldest_work_had_waited(world: World, desk: Desk) -> None:
    since = clock.now()
    world.travel(minutes=5)
    sweep.beat("reaper", handled=0, waiting_since=since)
    assert "5 min" in desk.get("/system/").text


@pytest.mark.rule("G2")
def test_backlogs_are_those_of_the_readers_namespaces(world: World, desk: Desk, sit: Seat) -> None:
    waiting(world)
    other = make_world(world.traveller, name="other")
    counts = [health.system_page([each.namespace.pk], clock.now()).backlogs[0].count for each in (world, other)]
    assert counts == ["1", ""]
    nobody = sit(world.actor(permissions.WORK))
    assert nobody.get("/system/").status == 404
    assert "/system/" not in nobody.get("/review/").reader.links


def test_a_quarantined_result_leads_to_its_instance(world: World, desk: Desk) -> None:
    event = waiting(world)
    InboxEvent.objects.filter(pk=event.pk).update(status="QUARANTINED", disposition="SOURCE_CORRUPT")
    page = desk.get("/system/")
    assert f"/instances/{event.instance_id}/" in page.reader.links
    assert "SOURCE_CORRUPT" in page.text


@pytest.mark.rule("B7")
def test_a_broker_that_is_down_is_said_so_within_its_time(world: World, desk: Desk, settings: Any) -> None:
    from celery import current_app

    kept = current_app.conf.broker_write_url, current_app.conf.broker_transport
    current_app.conf.broker_write_url, current_app.conf.broker_transport = "amqp://127.0.0.1:9//", "pyamqp"
    settings.CELERY_BROKER_URL = "amqp://127.0.0.1:9//"
    try:
        found = health.broker()
    finally:
        current_app.conf.broker_write_url, current_app.conf.broker_transport = kept
    assert found.took is None
    assert found.detail.startswith("amqp: ")


def test_database_and_broker_answer(world: World, desk: Desk) -> None:
    page = desk.get("/system/")
    assert "No answer" not in page.text
    assert page.text.count("Answers") >= 2


def test_the_system_page_costs_the_same_however_much_waits(
    world: World, desk: Desk, capture_statements: Capture
) -> None:
    waiting(world)
    few = statements_of(capture_statements, desk)
    for _number in range(6):
        waiting(world)
    assert statements_of(capture_statements, desk) == few <= 16


def statements_of(capture_statements: Capture, desk: Desk) -> int:
    with capture_statements() as statements:
        assert desk.get("/system/").status == 200
    return len([each for each in statements if not each.sql.startswith(("SAVEPOINT", "RELEASE"))])
