"""What was handled, by whom, when and how; and the views of the queue that a person keeps."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from recovery import permissions
from recovery.console.presenters import audits
from recovery.console.presenters.handled import ACTIONS
from recovery.models import SavedView
from recovery.permissions import Actor
from tests.console.support import Desk
from tests.operations.stages import failed_task
from tests.support.recovering import recover
from tests.support.statements import Statement
from tests.support.world import Flow, World, make_world

Capture = Callable[[], AbstractContextManager[list[Statement]]]
Seat = Callable[[Actor], Desk]


def decided(world: World, number: int = 1) -> list[Flow]:
    """Instances that were resolved, a second apart, oldest first."""
    flows = []
    for _number in range(number):
        flow = failed_task(world)
        world.travel(seconds=1)
        recover(flow, "resolve-step", "it", outcome="SUCCEEDED")
        flows.append(flow)
    return flows


def test_what_was_handled_stands_with_who_when_and_how(world: World, desk: Desk) -> None:
    flow = decided(world)[0]
    page = desk.get("/review/handled/")
    audit = flow.audits()[-1]
    for said in ("ResolveStep", world.operator.username, audit.reason, flow.instance.business_key, "09:00:01"):
        assert said in page.text
    assert f"/instances/{flow.id}/#entry-{audit.sequence}" in page.reader.links
    receipts = [link for link in page.reader.links if link.startswith("/operations/")]
    assert desk.get(receipts[0]).status == 200


def test_what_the_platform_did_is_not_handled_by_anybody(world: World, desk: Desk) -> None:
    failed_task(world)
    assert "Nobody has decided anything yet." in desk.get("/review/handled/").text


@pytest.mark.rule("G2")
def test_decisions_of_other_namespaces_are_not_listed(world: World, sit: Seat) -> None:
    flow = decided(world)[0]
    other = make_world(world.traveller, name="other")
    assert flow.instance.business_key not in sit(other.operator).get("/review/handled/").text
    assert sit(other.operator).get("/review/handled/?namespace=pay").status == 422


def test_the_filters_of_the_handled_view_narrow_it(world: World, desk: Desk) -> None:
    flow = decided(world)[0]
    recover(flow, "continue")
    lines = {
        "": 2,
        "act=continue": 1,
        "act=resolve-step": 1,
        "act=retry-step": 0,
        f"actor={world.operator.username}": 2,
        f"actor={world.operator.username}&act=continue": 1,
        "actor=nobody": 0,
        "within=8h": 2,
    }
    found = {query: desk.get(f"/review/handled/?{query}").html.count("#entry-") for query in lines}
    assert found == lines
    world.travel(hours=9)
    assert desk.get("/review/handled/?within=8h").html.count("#entry-") == 0
    assert desk.get("/review/handled/?act=anything").status == 422


@pytest.mark.parametrize("scan", [2, 50])
def test_pages_of_decisions_follow_each_other_without_a_gap(world: World, scan: int) -> None:
    flows = decided(world, 5)
    strangers = make_world(world.traveller, name="other")
    decided(strangers, 3)
    decided_last = decided(world, 1)
    search = audits.Search((world.namespace.pk,), ACTIONS)
    seen: list[str] = []
    after = ""
    while True:
        found = audits.find(search, after, most=2, scan=scan)
        seen += [entry.instance_id for entry in found.entries]
        if found.following is None:
            break
        after = found.following
    assert seen == [flow.id for flow in reversed(flows + decided_last)]


def test_a_page_without_a_fit_says_how_far_it_read(world: World, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    decided(world)
    decided(make_world(world.traveller, name="other"), 2)
    monkeypatch.setattr(audits.find, "__kwdefaults__", {"most": 50, "scan": 1})
    page = desk.get("/review/handled/")
    assert "so far 0 entries fit" in page.text
    assert any("after=" in link for link in page.reader.links)


def test_decisions_cost_the_same_however_many_there_are(world: World, desk: Desk, capture_statements: Capture) -> None:
    decided(world)
    few = statements_of(capture_statements, desk)
    decided(world, 8)
    assert statements_of(capture_statements, desk) == few <= 14


def statements_of(capture_statements: Capture, desk: Desk) -> int:
    with capture_statements() as statements:
        assert desk.get("/review/handled/").status == 200
    return len([each for each in statements if not each.sql.startswith(("SAVEPOINT", "RELEASE"))])


def test_filters_are_kept_under_a_name_and_opened_again(world: World, desk: Desk) -> None:
    failed_task(world)
    page = desk.get("/review/?reason=TASK_FAILED&within=&after=")
    sent = page.fields("name") | {"name": "Failures"}
    assert sent["query"] == "reason=TASK_FAILED"
    answer = desk.post("/review/views/", sent)
    assert (answer.status, answer.response["Location"]) == (303, "/review/?reason=TASK_FAILED")
    page = desk.get("/review/?reason=TASK_FAILED")
    assert "/review/?reason=TASK_FAILED" in page.reader.links
    assert "Remove the view “Failures”" in page.text
    desk.post("/review/views/", page.fields("remove"))
    assert not SavedView.objects.exists()


def test_a_name_that_is_used_again_gets_the_new_filters(world: World, desk: Desk) -> None:
    for query in ("mine=on", "step=it"):
        desk.post("/review/views/", {"name": "Night", "query": query})
    assert list(SavedView.objects.values_list("name", "query")) == [("Night", "step=it")]


def test_views_are_nobody_elses(world: World, desk: Desk, sit: Seat) -> None:
    desk.post("/review/views/", {"name": "Night", "query": "step=it"})
    other = sit(world.actor(permissions.READ))
    assert "Night" not in other.get("/review/").text
    other.post("/review/views/", {"remove": SavedView.objects.get().pk})
    assert SavedView.objects.count() == 1


@pytest.mark.parametrize("sent", [{"name": "", "query": "step=it"}, {"name": "x", "query": "within=soon"}])
def test_a_view_without_a_name_or_with_wrong_filters_is_refused(world: World, desk: Desk, sent: dict[str, str]) -> None:
    assert desk.post("/review/views/", sent).status == 422
    assert not SavedView.objects.exists()
    assert desk.get("/review/views/").status == 405


def test_a_person_keeps_a_bounded_number_of_views(world: World, desk: Desk) -> None:
    for number in range(20):
        assert desk.post("/review/views/", {"name": f"view-{number}", "query": "step=it"}).status == 303
    assert desk.post("/review/views/", {"name": "one more", "query": "step=it"}).status == 422
