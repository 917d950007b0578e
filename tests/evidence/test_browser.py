"""Evidence in a real browser: nothing that was uploaded runs, and a decision's form gets the new reference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.conf import settings
from django.contrib.auth import get_user_model
from django.test import Client
from playwright.sync_api import Dialog, Page, expect

from recovery.models import EvidenceBundle
from tests.console.support import act_url
from tests.evidence.test_pages import HTML, SVG
from tests.operations.stages import failed_task
from tests.support.evidence import PNG, TEXT, attach
from tests.support.world import World

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def signed_in(world: World, page: Page, live_server: Any) -> Page:
    client = Client()
    client.force_login(get_user_model().objects.get(pk=world.operator.user_id))
    session = client.cookies[settings.SESSION_COOKIE_NAME].value
    page.context.add_cookies([{"name": settings.SESSION_COOKIE_NAME, "value": session, "url": live_server.url}])
    page.set_default_timeout(30_000)
    return page


def test_files_chosen_in_a_decisions_form_come_back_as_its_reference(
    world: World, signed_in: Page, live_server: Any, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_bytes(TEXT)
    (tmp_path / "b.png").write_bytes(PNG)
    flow = failed_task(world)
    signed_in.goto(live_server.url + act_url(flow, "retry-step", "it"))
    signed_in.locator("[name=reason]").fill("Typed before.")
    with signed_in.context.expect_page() as opened:
        signed_in.locator("a", has_text="Attach evidence in another tab").click()
    tab = opened.value
    tab.set_input_files("input[type=file]", [tmp_path / "a.txt", tmp_path / "b.png"])
    expect(tab.locator("[data-evidence-said]")).to_contain_text("b.png")
    tab.locator("button.go").click()
    tab.wait_for_url("**/evidence/*/?attached=1")
    ref = f"evidence:{EvidenceBundle.objects.get().pk}"
    expect(signed_in.locator("[name=evidence_ref]")).to_have_value(ref)
    expect(signed_in.locator("[name=reason]")).to_have_value("Typed before.")


def test_nothing_that_was_uploaded_runs_and_every_page_is_accessible(
    world: World, signed_in: Page, live_server: Any
) -> None:
    flow = failed_task(world)
    ran: list[str] = []

    def note(dialog: Dialog) -> None:
        ran.append(dialog.message)
        dialog.dismiss()

    signed_in.on("dialog", note)
    ref = attach(world, HTML, SVG, PNG + HTML, instance_id=flow.id)
    place = f"{live_server.url}/evidence/{ref.partition(':')[2]}/"
    for url in (f"{live_server.url}/evidence/", f"{live_server.url}/evidence/new/", f"{place}withdraw/", place):
        signed_in.goto(url)
        found = Axe().run(signed_in)
        assert found.violations_count == 0, f"{url}: {found.generate_report()}"
    assert signed_in.evaluate("document.querySelector('img.evidence').naturalWidth") == 1
    for position in (1, 2, 3):
        with signed_in.expect_download():
            signed_in.evaluate(f"location.href = '{place}files/{position}/'")
    signed_in.goto(f"{live_server.url}/instances/{flow.id}/dossier")
    assert signed_in.locator("h1").count() == 1
    assert ran == []
