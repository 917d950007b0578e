"""What only a browser shows: where the focus goes, that a double click acts once, that live lines leave forms alone."""

from __future__ import annotations

from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.conf import settings
from django.contrib.auth import get_user_model
from django.test import Client
from playwright.sync_api import Page, expect

from tests.console.support import CLAIM, act_url
from tests.operations.stages import failed_query, failed_task, unknown_task
from tests.support.recovering import recover
from tests.support.world import Flow, World

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


PLACES = [
    "/review/?step=it",
    "/review/handled/",
    "/audit/",
    "/definitions/",
    "/queues/",
    "/queues/bank/",
    "/system/",
]
"""Pages that look the same whatever happened before."""


@pytest.fixture
def seat(world: World, page: Page, live_server: Any) -> Page:
    """The operator's browser, signed in; addresses without a host are the server's."""
    client = Client()
    client.force_login(get_user_model().objects.get(pk=world.operator.user_id))
    session = client.cookies[settings.SESSION_COOKIE_NAME].value
    page.context.add_cookies([{"name": settings.SESSION_COOKIE_NAME, "value": session, "url": live_server.url}])
    page.set_default_timeout(30_000)
    return page


def open_form(seat: Page, live_server: Any, flow: Flow, slug: str, target: str = "") -> None:
    seat.goto(live_server.url + act_url(flow, slug, target))


def fill(seat: Page, statement: str) -> None:
    for name, value in CLAIM.items():
        seat.locator(f"[name={name}]").last.fill(value)
    seat.locator(f"input[name={statement}]").check()


def test_the_summary_of_errors_takes_the_focus_and_leads_to_the_field(
    world: World, seat: Page, live_server: Any
) -> None:
    open_form(seat, live_server, failed_task(world), "retry-step", "it")
    seat.locator("[name=evidence_ref]").fill("ticket:1")
    seat.get_by_role("button", name="RetryStep").click()
    expect(seat.locator(".errors").first).to_be_focused()
    seat.locator(".errors a", has_text="Say why").click()
    expect(seat.locator("[name=reason]")).to_be_focused()
    expect(seat.locator("[name=evidence_ref]")).to_have_value("ticket:1")


@pytest.mark.rule("G4")
def test_a_double_click_acts_once(world: World, seat: Page, live_server: Any) -> None:
    flow = failed_task(world)
    open_form(seat, live_server, flow, "retry-step", "it")
    fill(seat, "safe_to_retry")
    seat.get_by_role("button", name="RetryStep").dblclick()
    seat.wait_for_url("**/operations/**")
    assert len(flow.activations("it")) == 2
    assert sum(audit.action == "retry_step" for audit in flow.audits()) == 1


@pytest.mark.rule("G5")
def test_after_a_conflict_the_words_stay_and_the_tick_goes(world: World, seat: Page, live_server: Any) -> None:
    flow = failed_task(world)
    open_form(seat, live_server, flow, "retry-step", "it")
    fill(seat, "safe_to_retry")
    world.travel(seconds=1)
    flow.pause()
    seat.get_by_role("button", name="RetryStep").click()
    expect(seat.get_by_role("heading", level=1)).to_be_focused()
    seat.get_by_role("button", name="Read again and go on").click()
    expect(seat.locator("[name=reason]")).to_have_value(CLAIM["reason"])
    expect(seat.locator("[name=safe_to_retry]")).not_to_be_checked()
    seat.locator("[name=safe_to_retry]").check()
    seat.get_by_role("button", name="RetryStep").click()
    seat.wait_for_url("**/operations/**")


def test_a_live_line_raises_itself_and_leaves_form_and_focus_alone(world: World, seat: Page, live_server: Any) -> None:
    flow = failed_task(world)
    open_form(seat, live_server, flow, "retry-step", "it")
    seat.locator("[name=reason]").fill("half a sen")
    flow.pause()
    expect(seat.locator(".newer")).to_contain_text("1 fact is newer than this page.")
    expect(seat.locator("[name=reason]")).to_be_focused()
    expect(seat.locator("[name=reason]")).to_have_value("half a sen")


def test_a_preview_keeps_what_was_typed(world: World, seat: Page, live_server: Any) -> None:
    open_form(seat, live_server, failed_query(world), "retry-step", "it")
    fill(seat, "safe_to_retry")
    seat.get_by_role("button", name="Preview").click()
    expect(seat.locator("#preview")).to_contain_text("StepActivation")
    expect(seat.locator("[name=reason]")).to_have_value(CLAIM["reason"])
    expect(seat.locator("[name=safe_to_retry]")).to_be_checked()


def test_no_answer_leads_to_the_original_key(world: World, seat: Page, live_server: Any) -> None:
    open_form(seat, live_server, failed_task(world), "retry-step", "it")
    fill(seat, "safe_to_retry")
    key = seat.locator("[name=operation_key]").input_value()
    seat.route("**/recovery/**", lambda route: route.fulfill(status=502))
    # htmx reports the lost answer as an error of the page, which is what this test is about.
    seat.evaluate("window.console.error = () => {}")
    seat.get_by_role("button", name="RetryStep").click()
    lost = seat.locator("[data-lost]")
    expect(lost).to_be_visible()
    assert key in (lost.locator("a").get_attribute("href") or "")


def test_single_keys_walk_the_rows_and_can_be_switched_off(world: World, seat: Page, live_server: Any) -> None:
    failed_task(world)
    unknown_task(world)
    seat.goto(f"{live_server.url}/review/")
    seat.keyboard.press("j")
    seat.keyboard.press("j")
    assert seat.locator("tr[aria-current=true]").count() == 1
    expect(seat.locator("a.key").nth(1)).to_be_focused()
    seat.keyboard.press("/")
    expect(seat.locator("#q")).to_be_focused()
    seat.context.add_cookies([{"name": "weave_keys", "value": "off", "url": live_server.url}])
    seat.reload()
    seat.keyboard.press("j")
    assert seat.locator("tr[aria-current=true]").count() == 0


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_pages_pass_the_accessibility_rules(world: World, seat: Page, live_server: Any, theme: Any) -> None:
    flow = failed_query(world)
    receipt = recover(flow, "retry-step", "it")
    flow = unknown_task(world)
    seat.emulate_media(color_scheme=theme)
    pages = [
        "/review/",
        "/instances/",
        "/preferences/",
        f"/instances/{flow.id}/",
        f"/instances/{flow.id}/steps/it/",
        f"/tasks/{flow.task('it').pk}/",
        act_url(flow, "review-task", flow.task("it").pk),
        f"/operations/{receipt.data['operation_key']}/",
        *PLACES,
    ]
    rules = {"runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}}
    for url in pages:
        seat.goto(live_server.url + url)
        results = Axe().run(seat, options=rules)
        assert results.violations_count == 0, f"{url}\n{results.generate_report()}"


@pytest.mark.parametrize("width", [390, 1440])
def test_no_page_is_wider_than_the_window(world: World, seat: Page, live_server: Any, width: int) -> None:
    flow = failed_query(world)
    seat.set_viewport_size({"width": width, "height": 900})
    name = flow.instance.definition.name
    places = [*PLACES, f"/definitions/{name}/versions/1/?step=it"]
    of_flow = (f"/instances/{flow.id}/", f"/instances/{flow.id}/steps/it/", act_url(flow, "continue"))
    for url in ("/review/", *places, *of_flow):
        seat.goto(live_server.url + url)
        assert seat.evaluate("document.documentElement.scrollWidth") <= width, url
