"""The pages of access in a real browser, on a desk and on a phone."""

from __future__ import annotations

from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.conf import settings
from django.contrib.auth import get_user_model
from django.test import Client
from playwright.sync_api import Page

from recovery import clock
from recovery.access import credentials
from recovery.permissions import ADMINISTER, READ, RECOVER
from tests.access.conftest import Desk

pytestmark = pytest.mark.browser

PAGES = (
    "",
    "people/bob/",
    "groups/",
    "groups/oncall/",
    "queues/",
    "queues/bank/",
    "grant/",
    "change/?kind=user&name=bob&permission=workflows:read",
    "why/",
    "credentials/",
    "credentials/new/",
    "log/",
)


@pytest.fixture(name="desk")
def _desk(transactional_db: None) -> Desk:
    return Desk()


@pytest.fixture(name="signed_in")
def _signed_in(desk: Desk, page: Page, live_server: Any) -> Page:
    """The administrator's browser, in a namespace where something is held in every way."""
    ada, bob = desk.person("ada", READ, ADMINISTER), desk.person("bob", READ)
    desk.group("oncall", bob, rights=(RECOVER,))
    desk.person("eve", RECOVER, until=clock.now())
    desk.use_queue(bob, "bank")
    credentials.create(ada, "bob", "laptop", reason="test")
    client = Client()
    client.force_login(get_user_model().objects.get(pk=ada.user_id))
    cookie = client.cookies[settings.SESSION_COOKIE_NAME].value
    page.context.add_cookies([{"name": settings.SESSION_COOKIE_NAME, "value": cookie, "url": live_server.url}])
    page.goto(f"{live_server.url}/access/pay/")
    return page


@pytest.mark.parametrize("width", [1440, 390])
def test_every_page_fits_and_is_accessible(signed_in: Page, live_server: Any, width: int) -> None:
    signed_in.set_viewport_size({"width": width, "height": 900})
    axe = Axe()
    for path in PAGES:
        answer = signed_in.goto(f"{live_server.url}/access/pay/{path}")
        assert answer is not None
        assert answer.status == 200
        assert signed_in.evaluate("document.documentElement.scrollWidth") <= width, path
        found = axe.run(signed_in)
        assert found.violations_count == 0, f"{path}: {found.generate_report()}"


def test_a_refusal_takes_the_focus_and_a_grant_is_given(desk: Desk, signed_in: Page, live_server: Any) -> None:
    signed_in.goto(f"{live_server.url}/access/pay/grant/")
    signed_in.fill("#id_name", "eve")
    signed_in.fill("#id_reason", "covers for bob")
    signed_in.click("button.go >> text=Grant")
    signed_in.wait_for_selector(".errors:focus >> text=Choose at least one permission or queue.")
    signed_in.check("input[value='workflows:pause']")
    signed_in.click("button.go >> text=Grant")
    signed_in.wait_for_url("**/access/pay/people/eve/?done=*")
    assert "eve: workflows:pause granted" in (signed_in.text_content("main") or "")
