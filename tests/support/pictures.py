"""`make pictures`: the README's pictures, taken of the real pages on the demo's own instances."""

import os
import shutil
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from tests.support.browser import QUIET
from tests.support.stack import ROOT, running_stack

FOLDER = ROOT / "docs" / "pictures"
SCENARIOS = 12
"""Instances that the demo brings into review."""
PATIENCE = 120
"""Seconds for all of them to get there."""


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    as_root = ["--no-sandbox"] if os.geteuid() == 0 else []
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=[*QUIET, *as_root])
        with running_stack(Path(place), "demo") as (_process, address):
            for theme in ("light", "dark"):
                context = browser.new_context(
                    base_url=address,
                    color_scheme=theme,
                    viewport={"width": 1440, "height": 900},
                    locale="en-US",
                    timezone_id="UTC",
                )
                take(context.new_page(), theme)
                context.close()
        browser.close()


def take(page: Page, theme: str) -> None:
    """Signs in as the demo's operator and keeps the queue, an instance and an action in one theme."""
    page.goto("/review/")
    page.fill("input[name=username]", "operator")
    page.fill("input[name=password]", "demo-operator")
    page.keyboard.press("Enter")
    page.wait_for_url("**/review/")
    end = time.monotonic() + PATIENCE
    while page.locator("a[href^='/instances/']", has_text="ORDER-2026-").count() < SCENARIOS:
        if time.monotonic() > end:
            raise SystemExit("The demo's instances have not come into review.")
        page.wait_for_timeout(1000)
        page.goto("/review/")
    page.screenshot(path=FOLDER / f"queue-{theme}.png", full_page=True)
    page.click("a:has-text('ORDER-2026-S3-1')")
    page.wait_for_url("**/instances/*/")
    page.screenshot(path=FOLDER / f"instance-{theme}.png", full_page=True)
    page.goto(page.url + "recovery/retry-step/query-transfer/")
    page.screenshot(path=FOLDER / f"action-{theme}.png")


if __name__ == "__main__":
    main()
