"""The pages of an instance, its steps and tasks, and how every page speaks of time, states and large values."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta

import pytest
from django.template import Context, Template

from recovery.console import times, words
from tests.console.support import Desk
from tests.console.test_queue import statements_of
from tests.operations.stages import failed_query, failed_task, open_wait, pending_query, unknown_task
from tests.support.faults import facts
from tests.support.recovering import recover
from tests.support.statements import Statement
from tests.support.trees import parallel, poll, receipt, sequence, task
from tests.support.world import World

INPUT = {"order": "A-1", "n": 12345678901234567890}

Capture = Callable[[], AbstractContextManager[list[Statement]]]


def test_the_instance_says_what_is_stuck_what_blocks_and_what_is_next(world: World, desk: Desk) -> None:
    flow = failed_task(world)
    page = desk.get(f"/instances/{flow.id}/")
    for words_ in ("Needs review", "What blocks Continue", "STEP_UNRESOLVED", "Retry it", "Open RetryStep"):
        assert words_ in page.text
    assert f"/instances/{flow.id}/recovery/retry-step/it/" in page.reader.links
    assert f"/instances/{flow.id}/steps/it/" in page.reader.links


@pytest.mark.rule("B12")
def test_an_unknown_request_of_a_query_that_a_signal_settled_is_what_comes_next(world: World, desk: Desk) -> None:
    flow = world.start(sequence(poll("ask", signal=receipt()), task("next", queue="mail")))
    lease = world.claim()
    flow.send("ask")
    world.unknown(lease)
    assert (flow.status, flow.step("ask").status) == ("NEEDS_REVIEW", "SUCCEEDED")
    url = f"/instances/{flow.id}/recovery/review-task/{flow.task('ask').pk}/"
    assert url in desk.get(f"/instances/{flow.id}/").reader.links
    assert url in desk.get("/review/").reader.links


def test_every_operation_is_answered_also_when_it_has_nothing_to_act_on(world: World, desk: Desk) -> None:
    text = desk.get(f"/instances/{failed_task(world).id}/").text
    for name in ("ReviewTask", "ResolveStep", "ContinuePoll", "RearmWait", "Continue", "RetryStep"):
        assert name in text
    assert "Nothing to act on" in text


def test_a_decision_stands_as_recorded_beside_what_was_stated(world: World, desk: Desk) -> None:
    flow = failed_task(world)
    done = recover(flow, "retry-step", "it", reason="The refusal came before anything was booked.")
    page = desk.get(f"/instances/{flow.id}/")
    assert "The refusal came before anything was booked." in page.text
    assert "new activation 2" in page.text
    assert f"/operations/{done.data['operation_key']}/?namespace=pay" in page.reader.links


def test_reading_writes_nothing(world: World, desk: Desk) -> None:
    flow = failed_query(world)
    before = facts()
    for url in ("/review/", "/instances/", f"/instances/{flow.id}/", f"/instances/{flow.id}/steps/it/"):
        assert desk.get(url).status == 200
    assert facts() == before


def test_a_running_and_a_settled_instance_have_pages_too(world: World, desk: Desk) -> None:
    flow = world.start(task("it"))
    assert "Running" in desk.get(f"/instances/{flow.id}/").text
    world.succeed(world.claim())
    text = desk.get(f"/instances/{flow.id}/").text
    assert "Succeeded" in text
    assert "What blocks Continue" not in text


def test_a_step_shows_its_activations_its_budget_and_its_rounds(world: World, desk: Desk) -> None:
    flow = world.start(poll("ask", signal=receipt()))
    world.fail(world.claim(), error_code="CERT_REJECTED")
    recover(flow, "retry-step", "ask")
    page = desk.get(f"/instances/{flow.id}/steps/ask/")
    for words_ in ("Activation 1", "Activation 2, current", "CERT_REJECTED", "Retry of the same round", "[1, 1]"):
        assert words_ in page.text
    for task_ in flow.tasks("ask"):
        assert f"/tasks/{task_.pk}/" in page.reader.links


def test_a_step_that_waits_or_has_not_started_has_a_page(world: World, desk: Desk) -> None:
    flow = open_wait(world)
    flow.send("it", correlation_key="somebody else's")
    page = desk.get(f"/instances/{flow.id}/steps/it/")
    assert "CORRELATION_MISMATCH" in page.text
    assert "This step has not started." in desk.get(f"/instances/{flow.id}/steps/notify/").text


def test_a_task_shows_attempts_results_and_what_it_still_holds(world: World, desk: Desk) -> None:
    flow = unknown_task(world)
    url = f"/tasks/{flow.task('it').pk}/"
    page = desk.get(url)
    for words_ in ("Effect unknown", "Unknown", "worker-1", "TIMEOUT", "held"):
        assert words_ in page.text
    recover(flow, "review-task", "it")
    settled = desk.get(url).text
    assert "REVIEW" in settled
    assert "this one counts" in settled
    assert "released" in settled


def test_the_axis_draws_without_styles_and_lists_the_same_facts(world: World, desk: Desk) -> None:
    flow = pending_query(world)
    page = desk.get(f"/instances/{flow.id}/")
    drawn = [given for tag, given in page.reader.elements if tag in ("rect", "line", "text") and "x" in given]
    assert any(given["x"].endswith("%") for given in drawn)
    assert "decision 3, ReviewTask by" in page.text
    assert "round 1: Unknown" in page.text


@pytest.mark.parametrize("count", [3, 130])
def test_the_number_of_statements_does_not_grow_with_the_steps(
    world: World, desk: Desk, capture_statements: Capture, count: int
) -> None:
    flow = world.start(sequence(task("it"), parallel(*(task(f"leaf-{number}") for number in range(count)), key="all")))
    world.fail(world.claim())
    desk.get(f"/instances/{flow.id}/")  # the definition is in memory now
    page = desk.get(f"/instances/{flow.id}/")
    assert len(page.html) < 100_000
    assert statements_of(capture_statements, desk, f"/instances/{flow.id}/") <= 26


def test_a_large_tree_is_shown_level_by_level_with_troubled_steps_first(world: World, desk: Desk) -> None:
    leaves = [task(f"leaf-{number:03}") for number in range(130)]
    flow = world.start(sequence(task("it"), parallel(*leaves, key="all")))
    world.fail(world.claim())
    page = desk.get(f"/instances/{flow.id}/")
    assert "leaf-000" not in page.text
    assert f"/instances/{flow.id}/steps/it/" in page.reader.links
    level = desk.get(f"/instances/{flow.id}/?at=all")
    assert "leaf-099" in level.text
    assert "leaf-100" not in level.text
    assert "leaf-129" in desk.get(f"/instances/{flow.id}/?at=all&page=2").text


def test_a_live_line_speaks_only_when_the_revision_is_newer(world: World, desk: Desk) -> None:
    flow = failed_task(world)
    url = f"/instances/{flow.id}/newer/?revision={flow.instance.revision}"
    assert desk.htmx(url).status == 204
    flow.pause()
    newer = desk.htmx(url, **{"HX-Current-URL": f"http://testserver/instances/{flow.id}/"})
    assert newer.status == 200
    assert "1 fact is newer than this page." in newer.text
    assert newer.reader.links == [f"/instances/{flow.id}/"]


@pytest.mark.parametrize("what", ["id", "business_key", "task", "activation", "attempt", "step", "operation"])
def test_any_identifier_lands_on_its_page(world: World, desk: Desk, what: str) -> None:
    flow = failed_task(world)
    done = recover(flow, "resolve-step", "it")
    place = f"/instances/{flow.id}/"
    first = flow.tasks("it")[0]
    wanted = {
        "id": (flow.id, place),
        "business_key": (flow.instance.business_key, place),
        "task": (first.pk, f"/tasks/{first.pk}/"),
        "activation": (flow.activation("it").pk, f"{place}steps/it/"),
        "attempt": (flow.attempts("it")[0].pk, f"/tasks/{first.pk}/"),
        "step": (flow.step("it").pk, f"{place}steps/it/"),
        "operation": (done.data["operation_key"], f"/operations/{done.data['operation_key']}/"),
    }
    identifier, page = wanted[what]
    answer = desk.get(f"/go?q={identifier}")
    assert (answer.status, answer.response["Location"]) == (303, page)


def test_an_identifier_of_another_namespace_leads_nowhere(world: World, desk: Desk) -> None:
    from tests.support.world import make_world

    foreign = failed_task(make_world(world.traveller, name="other"))
    for wanted in (foreign.id, foreign.instance.business_key, foreign.task("it").pk, foreign.step("it").pk):
        assert desk.get(f"/go?q={wanted}").status == 404


def test_the_list_of_instances_filters_by_prefix_and_status(world: World, desk: Desk) -> None:
    world.start(task("it"), business_key="A%-1")
    world.start(task("it"), business_key="AB-1")
    flow = world.start(task("other", queue="mail"), business_key="C-1")
    world.fail(world.claim("mail"))
    listed = {
        "business_key=A": {"A%-1", "AB-1"},
        "business_key=A%25": {"A%-1"},
        "status=NEEDS_REVIEW": {flow.instance.business_key},
        "": {"A%-1", "AB-1", "C-1"},
    }
    for query, wanted in listed.items():
        text = desk.get(f"/instances/?{query}").text
        assert {key for key in ("A%-1", "AB-1", "C-1") if key in text} == wanted, query
    assert desk.get("/instances/?status=LOST").status == 422


def test_times_are_in_the_readers_zone_with_utc_behind_them(world: World, desk: Desk) -> None:
    desk.client.cookies["weave_zone"] = "Asia/Shanghai"
    flow = failed_task(world)
    page = desk.get(f"/instances/{flow.id}/")
    assert "Times are Asia/Shanghai, +08:00" in page.text
    given = next(given for tag, given in page.reader.elements if tag == "time")
    assert re.fullmatch(r"2026-03-02 09:00:\d\d\.\d{6} UTC", given["title"])
    assert "17:00:" in page.text


def test_a_zone_that_does_not_exist_is_utc(world: World, desk: Desk) -> None:
    desk.client.cookies["weave_zone"] = "Mars/Olympus"
    assert "Times are UTC, UTC" in desk.get("/review/").text


def test_preferences_are_kept_in_the_browser(world: World, desk: Desk) -> None:
    answer = desk.post("/preferences/", {"zone": "Europe/Berlin", "theme": "dark", "next": "//elsewhere.example/"})
    assert (answer.status, answer.response["Location"]) == (303, "/preferences/")
    page = desk.get("/review/")
    root = next(given for tag, given in page.reader.elements if tag == "html")
    assert (root["data-theme"], "data-keys" in root) == ("dark", False)
    assert "Europe/Berlin" in page.text


def test_an_unknown_state_is_shown_as_itself() -> None:
    drawn = words.mark("StepStatus", "TELEPORTED")
    assert (drawn.icon, drawn.word) == ("other", "TELEPORTED")
    assert words.reason("NEVER_HEARD_OF").word == "NEVER_HEARD_OF"


@pytest.mark.parametrize(
    ("span", "counted", "lasted"),
    [
        (timedelta(milliseconds=40), "0:00", "40 ms"),
        (timedelta(seconds=59), "0:59", "59 s"),
        (timedelta(minutes=38, seconds=24), "38:24", "38 min"),
        (timedelta(hours=1, minutes=2, seconds=9), "1:02:09", "1 h 02 min"),
        (timedelta(days=3, hours=4), "3 d 4 h", "3 d 4 h"),
    ],
)
def test_durations_are_said_in_two_units_at_most(span: timedelta, counted: str, lasted: str) -> None:
    assert (times.counted(span), times.lasted(span)) == (counted, lasted)
    now = datetime(2026, 3, 2, 9, tzinfo=UTC)
    assert times.left(now - span, now) == f"{counted} ago"


def test_a_large_value_is_cut_and_linked_with_its_digest() -> None:
    source = '{% load console %}{% json_value value "/whole.json" %}'
    html = Template(source).render(Context({"value": {"text": "<script>" * 2000}}))
    assert len(html) < 40_000
    assert "<script>" not in html
    assert 'href="/whole.json"' in html
    assert "sha256" in html


def test_a_whole_value_comes_as_a_file_with_exact_numbers(world: World, desk: Desk) -> None:
    flow = world.start(task("it", input={"$from": "/instance/input"}), input=INPUT)
    for url in (f"/instances/{flow.id}/input.json", f"/tasks/{flow.task('it').pk}/input/0.json"):
        page = desk.get(url)
        assert "12345678901234567890" in page.html
        assert page.response["Content-Disposition"].startswith("attachment")
        assert page.response["X-Content-Type-Options"] == "nosniff"
