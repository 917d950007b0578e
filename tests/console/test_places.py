"""Definitions and queues: what may run, and what is the matter with where it runs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from recovery import clock, permissions
from recovery.console.presenters.load import queue_page
from recovery.permissions import Actor
from tests.console.support import Desk
from tests.operations.stages import unknown_task
from tests.support.statements import Statement
from tests.support.trees import poll, sequence, signal, task
from tests.support.world import World, make_world

Capture = Callable[[], AbstractContextManager[list[Statement]]]
Seat = Callable[[Actor], Desk]


def statements_of(capture_statements: Capture, desk: Desk, url: str) -> int:
    with capture_statements() as statements:
        assert desk.get(url).status == 200
    return len([each for each in statements if not each.sql.startswith(("SAVEPOINT", "RELEASE"))])


def test_a_definition_is_listed_with_its_newest_version_and_what_runs(world: World, desk: Desk) -> None:
    world.publish(task("it"), name="transfer")
    world.publish(sequence(task("it"), task("next")), name="transfer")
    world.start("transfer")
    page = desk.get("/definitions/")
    assert "/definitions/transfer/versions/2/?namespace=pay" in page.reader.links
    assert "Running 1" in page.text


def test_a_version_shows_tree_contracts_budgets_queues_and_instances(world: World, desk: Desk) -> None:
    root = sequence(task("send", max_attempts=1), poll("ask"), signal("receipt"))
    world.start(root, name="transfer")
    page = desk.get("/definitions/transfer/versions/1/?step=ask")
    for said in ("send", "at most 1 attempt", "at most 3 rounds", "goes to review", "Outcome map", "processing"):
        assert said in page.text
    assert "/queues/bank/?namespace=pay" in page.reader.links
    assert "Running 1" in page.text
    assert desk.get("/definitions/transfer/").response["Location"].startswith("/definitions/transfer/versions/1/")


@pytest.mark.rule("G2")
def test_what_another_namespace_has_is_not_found(world: World, desk: Desk, sit: Seat) -> None:
    world.publish(task("it"), name="transfer")
    stranger = sit(make_world(world.traveller, name="other").operator)
    urls = ("/definitions/transfer/", "/definitions/transfer/versions/1/", "/queues/?namespace=pay")
    assert {stranger.get(url).status for url in urls} == {404}
    nobody = sit(world.actor(permissions.WORK))
    assert {nobody.get(url).status for url in ("/definitions/", "/queues/", "/queues/bank/")} == {404}
    assert "/queues/" not in nobody.get("/review/").reader.links
    assert {desk.get(url).status for url in ("/definitions/x/", "/definitions/transfer/versions/9/", "/queues/x/")} == {
        404
    }


def test_definitions_and_queues_are_paged_by_name(world: World, desk: Desk) -> None:
    for number in range(30):
        world.publish(task("it"), name=f"flow-{number:02}")
        world.add_queue(f"queue-{number:02}")
    for url in ("/definitions/", "/queues/"):
        page = desk.get(url)
        following = next(link for link in page.reader.links if "after=" in link)
        names = [
            link
            for each in (page, desk.get(url + following))
            for link in each.reader.links
            if link[0] == "/" and "-2" in link
        ]
        assert len(set(names)) == 10


@pytest.mark.parametrize("url", ["/definitions/", "/queues/", "/queues/bank/", "/definitions/flow/versions/1/"])
def test_these_pages_cost_the_same_however_many_rows_there_are(
    world: World, desk: Desk, capture_statements: Capture, url: str
) -> None:
    world.start(task("it"), name="flow")
    world.claim()
    statements_of(capture_statements, desk, url)  # loads the definition
    few = statements_of(capture_statements, desk, url)
    for number in range(8):
        world.start("flow")
        world.publish(task("it"), name=f"flow-{number}")
        world.publish(sequence(task("it"), task(f"t-{number}")), name="flow")
        world.add_queue(f"queue-{number}")
    world.claim_all(max_tasks=4)
    assert statements_of(capture_statements, desk, url) == few <= 18


@pytest.mark.rule("B2")
def test_a_task_of_unknown_effect_shows_what_it_still_holds(world: World, desk: Desk) -> None:
    flow = world.start(task("it", policy={"concurrency_key": "account-7"}))
    world.lose_lease(world.claim())
    kept = flow.task("it")
    assert kept.status == "NEEDS_REVIEW"
    shown = queue_page(world.queues["bank"], "", clock.now())
    (unknown, permit), *others = shown.unknown
    assert (unknown.pk, others) == (kept.pk, [])
    assert permit is not None
    page = desk.get("/queues/bank/")
    assert f"/tasks/{kept.pk}/" in page.reader.links
    assert "held account-7" in page.text


def test_a_queue_shows_its_load_its_workers_and_what_waits_longest(world: World, desk: Desk) -> None:
    for _number in range(3):
        world.start(task("it"))
    world.claim()
    world.travel(seconds=90, run=False)
    page = desk.get("/queues/bank/")
    for said in ("3 of 1000", "1 of 50", "worker-1", "90 s", "desk 3"):
        assert said in page.text
    assert "The counter says" not in page.text


def test_a_counter_that_disagrees_with_the_holds_is_said_so(world: World, desk: Desk) -> None:
    unknown_task(world)
    quota = world.queue_quota()
    type(quota).objects.filter(pk=quota.pk).update(open_tasks=7)
    assert "The counter says 7." in desk.get("/queues/bank/").text


@pytest.mark.rule("G2")
def test_the_navigation_names_only_pages_that_the_person_may_see(world: World, desk: Desk, sit: Seat) -> None:
    pages = {"/definitions/", "/queues/", "/system/", "/audit/", "/access/"}
    seats: list[tuple[Desk, set[str]]] = [
        (desk, pages),
        (sit(world.actor(permissions.READ)), pages - {"/audit/", "/access/"}),
        (sit(world.actor(permissions.ADMINISTER)), {"/access/"}),
        (sit(world.actor(permissions.WORK)), set()),
    ]
    for seat, named in seats:
        assert pages & set(seat.get("/review/").reader.links) == named
        assert {seat.client.get(url).status_code for url in named} <= {200, 302, 303}
