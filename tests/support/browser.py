"""A real Chromium (Debian's; nothing is downloaded), driven by Playwright."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import ConsoleMessage, Page, sync_playwright

QUIET = [
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--no-first-run",
]
"""Keeps the browser from calling anybody but the page's own server."""
IN_ENGLISH = {"locale": "en-US", "timezone_id": "UTC", "viewport": {"width": 1280, "height": 800}}


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Page]:
    """An empty page in a browser of its own.

    The test fails when the console shows an error at the end: an exception of a script, or anything that the content
    security policy has blocked. Answers of 400 and above are the test's own business.
    """
    program = shutil.which("chromium")
    assert program, "Chromium is missing: apt-get install chromium"
    # Playwright keeps an event loop in this thread, and Django then refuses the ORM, although nothing is asynchronous.
    monkeypatch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
    as_root = ["--no-sandbox"] if os.geteuid() == 0 else []
    errors: list[str] = []

    def note(message: ConsoleMessage) -> None:
        if message.type == "error" and not message.text.startswith("Failed to load resource: the server responded"):
            errors.append(message.text)

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=[*QUIET, *as_root])
        page = browser.new_context(**IN_ENGLISH).new_page()
        page.on("console", note)
        page.on("pageerror", lambda error: errors.append(str(error)))
        yield page
        browser.close()
    assert not errors
