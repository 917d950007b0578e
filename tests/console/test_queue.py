"""The review queue: everything that waits, in the order of its clocks, and a signpost that does not mislead."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Any

import pytest

from recovery import clock, operations, permissions
from recovery.console.presenters import queue
from recovery.console.presenters.queue import Cursor, Place
from recovery.permissions import Actor
from tests.console.support import Desk, Page
from tests.operations.stages import NAMES, STAGES, failed_task, unknown_task
from tests.support.recovering import recover
from tests.support.statements import Statement
from tests.support.trees import HOUR, MINUTE, Node, parallel, poll, sequence, signal, task
from tests.support.world import Flow, World, make_world

Capture = Callable[[], AbstractContextManager[list[Statement]]]
Seat = Callable[[Actor], Desk]


def stuck(world: World, name: str, *, last: int, root: Node | None = None) -> Flow:
    """An instance in review whose own deadline is `last` milliseconds after its start."""
    flow = world.start(root or task("it"), business_key=name, max_duration_ms=last)
    world.fail(world.claim())
    assert flow.status == "NEEDS_REVIEW"
    return flow


def keys(page: Page) -> list[str]:
    """The business keys in their order."""
    rows = [given for tag, given in page.reader.elements if tag == "a" and given.get("class") == "key"]
    texts = [text for text in page.reader.text if text.startswith("O-")]
    assert len(rows) == len(texts)
    return texts


def test_running_clocks_come_first_and_passed_ones_last(world: World, desk: Desk) -> None:
    stuck(world, "O-late", last=9 * HOUR)
    stuck(world, "O-passed", last=1 * MINUTE)
    stuck(world, "O-soon", last=2 * HOUR)
    with_wait = parallel(task("it"), signal("wait", total_timeout_ms=30 * MINUTE))
    stuck(world, "O-wait", last=8 * HOUR, root=with_wait)
    world.travel(minutes=5)
    page = desk.get("/review/")
    assert keys(page) == ["O-wait", "O-soon", "O-late", "O-passed"]
    assert "4 instances wait for a person." in page.text
    assert "25:00" in page.text


def test_an_instance_that_nobody_has_to_decide_on_is_not_listed(world: World, desk: Desk) -> None:
    world.start(task("it"), business_key="O-running")
    flow = failed_task(world)
    recover(flow, "resolve-step", "it")
    recover(flow, "continue")
    page = desk.get("/review/")
    assert keys(page) == []
    assert "No instance is in review." in page.text


@pytest.mark.rule("G2")
def test_only_namespaces_that_may_be_read_are_listed(world: World, desk: Desk, sit: Seat) -> None:
    stuck(world, "O-mine", last=HOUR)
    other = make_world(world.traveller, name="other")
    stuck(other, "O-theirs", last=HOUR)
    assert keys(desk.get("/review/")) == ["O-mine"]
    assert keys(sit(other.operator).get("/review/")) == ["O-theirs"]
    both = sit(other.operator)
    user_id = other.operator.user_id
    grant_reading(user_id, world)
    assert sorted(keys(both.get("/review/"))) == ["O-mine", "O-theirs"]
    assert keys(both.get("/review/?namespace=pay")) == ["O-mine"]
    assert keys(both.get("/review/?mine=on")) == ["O-theirs"]


def grant_reading(user_id: int, world: World) -> None:
    from django.contrib.auth import get_user_model

    user = get_user_model().objects.get(pk=user_id)
    permissions.grant(user, permissions.READ, world.namespace, by="set-up", reason="test")


def test_every_filter_narrows_the_list_and_stands_in_the_url(world: World, desk: Desk) -> None:
    stuck(world, "O-failed", last=HOUR)
    long = {"timeout_ms": 5 * HOUR, "total_timeout_ms": 5 * HOUR}
    asked = world.start(poll("ask", **long), business_key="O-asked", max_duration_ms=3 * HOUR)
    world.unknown(world.claim())
    name = desk.get(f"/instances/{asked.id}/").text.split(" v1")[0].split()[-1]
    filters = {
        "step=ask": ["O-asked"],
        "step=nowhere": [],
        "reason=TASK_FAILED": ["O-failed"],
        "reason=EXECUTION_UNKNOWN": ["O-asked"],
        f"definition={name}": ["O-asked"],
        "application=desk": ["O-failed", "O-asked"],
        "application=des": [],
        "within=2h": ["O-failed"],
        "within=8h": ["O-failed", "O-asked"],
    }
    assert {query: keys(desk.get(f"/review/?{query}")) for query in filters} == filters


@pytest.mark.parametrize("query", ["within=soon", "reason=WHATEVER", "namespace=elsewhere", "step=" + "x" * 129])
def test_an_invalid_filter_lists_nothing_and_says_so(world: World, desk: Desk, query: str) -> None:
    stuck(world, "O-1", last=HOUR)
    page = desk.get(f"/review/?{query}")
    assert (page.status, keys(page)) == (422, [])
    assert "This filter is not valid" in page.text


def test_a_cursor_that_no_page_made_is_refused(world: World, desk: Desk) -> None:
    stuck(world, "O-1", last=HOUR)
    assert desk.get("/review/?after=r-1-").status == 422
    assert desk.get("/review/?after=x-1-2").status == 422
    assert desk.get("/review/?after=r-999999999999999999-a").status == 422


@pytest.mark.parametrize("is_few", [True, False])
def test_pages_follow_each_other_without_a_gap_or_a_repetition(world: World, is_few: bool) -> None:
    for number in range(3):
        stuck(world, f"O-passed-{number}", last=MINUTE * (number + 1))
    for number in range(4):
        stuck(world, f"O-running-{number}", last=HOUR * (1 + number // 2))
    world.travel(minutes=4)
    rows, now = queue.in_review([world.namespace.pk], {}), clock.now()
    whole = queue.places(rows, now, is_few=is_few, limit=50)
    assert [place.is_running for place in whole] == [True] * 4 + [False] * 3
    paged: list[Place] = []
    cursor = None
    while True:
        page = queue.places(rows, now, is_few=is_few, after=cursor, limit=2)
        paged += page[:2]
        if len(page) <= 2:
            break
        cursor = Cursor.parse(page[1].cursor)
    assert paged == whole


def test_a_row_is_placed_by_its_nearest_clock_only(world: World) -> None:
    waits = [signal(f"wait-{number}", total_timeout_ms=MINUTE * (10 + number)) for number in range(3)]
    flow = stuck(world, "O-1", last=HOUR, root=parallel(task("it"), *waits))
    places = queue.places(queue.in_review([world.namespace.pk], {}), clock.now(), is_few=False)
    assert [(place.instance_id, place.until) for place in places] == [
        (flow.id, flow.instance.created_at + timedelta(minutes=10))
    ]


@pytest.mark.rule("RY9")
@pytest.mark.parametrize("is_few", [True, False])
def test_a_query_in_review_is_placed_by_the_deadline_that_a_retry_has_to_beat(world: World, is_few: bool) -> None:
    flow = stuck(world, "O-1", last=9 * HOUR, root=poll("ask", timeout_ms=2 * HOUR, total_timeout_ms=HOUR))
    rows = queue.in_review([world.namespace.pk], {})
    placed = queue.places(rows, clock.now(), is_few=is_few)
    assert [place.until for place in placed] == [flow.poll("ask").deadline_at]
    recover(flow, "resolve-step", "ask")
    placed = queue.places(rows, clock.now(), is_few=is_few)
    assert [(place.until, place.kind) for place in placed] == [(flow.instance.deadline_at, "INSTANCE_DEADLINE")]


def suggested(desk: Desk) -> str:
    """Where the only row of the queue leads to."""
    page = desk.get("/review/")
    acts = [given["href"] for tag, given in page.reader.elements if tag == "a" and given.get("class") == "btn go"]
    assert len(acts) == 1, page.text
    return acts[0]


def is_allowed(actor: Actor, url: str) -> bool:
    """What the operation's own rules say about the page that a link leads to."""
    _empty, _instances, instance_id, _recovery, slug, *target = url.strip("/").join("//").split("/")[:-1]
    name = {"step": "step_key", "task": "task_id"}.get(operations.REGISTRY[slug].target)
    aim: dict[str, Any] = {name: target[0]} if name else {}
    options = operations.explain(actor, instance_id, **aim).options
    return any(option.operation == slug and option.target == aim and option.allowed for option in options)


@pytest.mark.parametrize(("slug", "target", "stage"), STAGES, ids=NAMES)
def test_the_signpost_leads_to_an_act_that_the_rules_allow(
    world: World, desk: Desk, slug: str, target: str, stage: Callable[[World], Flow]
) -> None:
    stage(world)
    assert is_allowed(world.operator, suggested(desk))


def test_the_signpost_follows_the_budget_the_answer_and_the_stop(world: World, desk: Desk) -> None:
    flow = world.start(sequence(poll("ask", max_attempts=1, max_rounds=1), task("next")))
    world.unknown(world.claim())
    assert "/recovery/review-task/" in suggested(desk)
    recover(flow, "review-task", "ask", outcome="FAILED", result={"code": 1})
    assert suggested(desk).endswith("/recovery/resolve-step/ask/")
    assert is_allowed(world.operator, suggested(desk))
    recover(flow, "resolve-step", "ask", outcome="SUCCEEDED")
    assert suggested(desk).endswith("/recovery/continue/")
    flow.cancel()
    assert is_allowed(world.operator, suggested(desk))


@pytest.mark.rule("G6")
def test_nothing_is_suggested_while_the_inbox_is_not_settled(world: World, desk: Desk) -> None:
    flow = unknown_task(world)
    recover(flow, "review-task", "it", run=False)
    page = desk.get("/review/")
    assert "1 event pending" in page.text
    assert not [given for _tag, given in page.reader.elements if given.get("class") == "btn go"]


def test_a_reader_is_told_which_right_is_missing(world: World, sit: Seat) -> None:
    failed_task(world)
    page = sit(world.actor(permissions.READ)).get("/review/")
    assert "you lack workflows:recover here" in page.text
    assert not [link for link in page.reader.links if "/recovery/" in link]


def test_the_live_line_counts_what_came_in_and_is_silent_otherwise(world: World, desk: Desk) -> None:
    stuck(world, "O-1", last=HOUR)
    world.travel(seconds=5)
    page = desk.get("/review/")
    live = next(given["hx-get"] for _tag, given in page.reader.elements if "hx-get" in given)
    assert desk.htmx(live).status == 204
    world.travel(seconds=5)
    stuck(world, "O-2", last=HOUR)
    newer = desk.htmx(live)
    assert (newer.status, "1 instance came in" in newer.text) == (200, True)
    assert desk.htmx("/review/newer/?since=nonsense").status == 204


def test_the_number_of_statements_does_not_grow_with_the_rows(
    world: World, desk: Desk, capture_statements: Capture
) -> None:
    stuck(world, "O-0", last=HOUR)
    few = statements_of(capture_statements, desk, "/review/")
    for number in range(1, 9):
        stuck(world, f"O-{number}", last=HOUR * number, root=parallel(task("it"), task("other"), signal("wait")))
    assert statements_of(capture_statements, desk, "/review/") == few
    assert few <= 13


def statements_of(capture_statements: Capture, desk: Desk, url: str) -> int:
    with capture_statements() as statements:
        assert desk.get(url).status == 200
    return len([each for each in statements if not each.sql.startswith(("SAVEPOINT", "RELEASE"))])


@pytest.mark.parametrize(("rounds", "said"), [(1, "1 round used"), (2, "all 2 rounds used")])
def test_a_query_without_rounds_has_no_attempts_left_and_names_no_worker(
    world: World, desk: Desk, rounds: int, said: str
) -> None:
    world.start(poll("ask", max_rounds=rounds))
    for _round in range(rounds):
        world.succeed(world.claim(), {"state": "processing"})
        world.travel(minutes=1)
    page = desk.get("/review/")
    assert "no rounds left" in page.text
    assert said in page.text
    assert "attempts left" not in page.text
    assert "worker-1" not in page.text
