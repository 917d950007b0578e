"""S1 as an operator does it: the served product, its workers, a bank that dies, and a real browser."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.support.stack import ROOT, environment, running_stack

pytestmark = pytest.mark.browser
PATIENCE = 120_000
"""Milliseconds, far beyond what a slow machine needs."""


@contextmanager
def desk(folder: Path, env: dict[str, str]) -> Iterator[None]:
    """The demo's desk, which provisions, publishes and starts, beside a served product."""
    with (folder / "desk").open("w") as said:
        command = [sys.executable, "manage.py", "demo", "--desk"]
        process = subprocess.Popen(command, cwd=ROOT, env=environment(folder, **env), stdout=said, stderr=said)
        try:
            yield
            assert process.poll() is None, (folder / "desk").read_text()[-4000:]
        finally:
            process.terminate()
            process.wait()


def sign_in(page: Page, address: str) -> None:
    page.goto(f"{address}review/")
    page.get_by_label("User name").fill("operator")
    page.get_by_label("Password").fill("demo-operator")
    page.get_by_role("button", name="Sign in").click()


def wait_for(page: Page, text: str, *, within: str = "main") -> None:
    """Reloads until the page shows the text: what follows a decision is the engine's business, not the browser's."""
    end = time.monotonic() + PATIENCE / 1000
    while not page.locator(within).get_by_text(text, exact=True).first.is_visible():
        assert time.monotonic() < end, page.content()[-3000:]
        page.wait_for_timeout(500)
        page.reload()


def decide(page: Page, operation: str, statement: str, *, value: str = "") -> None:
    """Fills the form in, looks at the preview, sends it, and reads the receipt."""
    if value:
        page.get_by_label("Succeeded").check()
        page.get_by_label("as JSON").fill(value)
    page.get_by_label("Reference to a record").fill("bank-portal:FT26333")
    page.get_by_role("textbox", name="Reason").fill("The bank lists the transfer once.")
    page.get_by_label(statement).check()
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_text("rolled back").first).to_be_visible()
    page.get_by_role("button", name=operation).click()
    page.wait_for_url("**/operations/**")
    expect(page.get_by_text("The bank lists the transfer once.").first).to_be_visible()


def test_an_unknown_transfer_is_recovered_from_sign_in_to_success(
    tmp_path: Path, stack_database: str, page: Page
) -> None:
    env = {
        "DATABASE_URL": stack_database,
        "WEAVE_HANDLERS": "recovery.demo.bank",
        "WEAVE_WORKER_USER": "bank-worker",
    }
    page.set_default_timeout(PATIENCE)
    with running_stack(tmp_path, "serve", env) as (_process, address), desk(tmp_path, env):
        end = time.monotonic() + PATIENCE / 1000
        while "sign-in" in page.url or page.url == "about:blank":  # the desk may not have made the account yet
            assert time.monotonic() < end
            sign_in(page, address)
        wait_for(page, "ORDER-2026-S1-1")
        page.get_by_role("link", name="ORDER-2026-S1-1").click()
        page.wait_for_url("**/instances/*/")
        instance = page.url

        page.get_by_role("link", name="Open ReviewTask").click()
        decide(page, "ReviewTask", "ended", value='{"accepted": true, "reference": "FT26333"}')
        page.goto(instance)
        wait_for(page, "Open ResolveStep")
        page.get_by_role("link", name="Open ResolveStep").click()
        decide(page, "ResolveStep", "ended", value='{"accepted": true, "reference": "FT26333"}')
        page.goto(instance)
        page.get_by_role("link", name="Open Continue").click()
        decide(page, "Continue", "resolved")
        page.goto(instance)
        wait_for(page, "Succeeded", within=".head")
        page.goto("about:blank")  # or the page would ask a server that is gone
