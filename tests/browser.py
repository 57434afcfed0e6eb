"""A headless Chromium for tests of pages: offline, with everything that it asked for and complained of."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
FOLDERS = ("/usr/lib/chromium", "/usr/bin")
STEADY_MS = 10_000


def chromium() -> str:
    """The program; the test is skipped where there is none, or nothing to steer it."""
    pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = os.pathsep.join([os.environ.get("PATH", ""), *FOLDERS])
    found = next((p for p in (shutil.which(name, path=path) for name in PROGRAMS) if p), None)
    if found is None:
        pytest.skip("Chromium is not installed")
    return found


@dataclass
class Opened:
    """A page that is open."""

    page: Any
    requests: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def figures(self) -> dict[str, float | None]:
        """What the page says of its knobs."""
        return dict(self.page.evaluate("figures()"))

    def turn(self, **knobs: Any) -> None:
        """Set knobs, and wait until all is drawn."""
        self.page.evaluate("async (knobs) => { Object.assign(state, knobs); await draw(); }", knobs)

    def marks(self) -> dict[str, int]:
        """Marks that are drawn in every chart that is shown: shapes and lines of data with a size, no axes."""
        return dict(
            self.page.evaluate(
                """() => Object.fromEntries([...document.querySelectorAll("figure")].filter((f) => !f.hidden).map((f) =>
                  [f.id.slice(7), [...f.querySelectorAll(
                    ".mark-line path, .mark-symbol path, .mark-rect path, .mark-rule line, .mark-area path")]
                    .filter((m) => !m.closest(".role-axis, .role-legend")).filter((m) => {
                      const box = m.getBoundingClientRect(); return box.width + box.height > 0; }).length]))"""
            )
        )


class Browser:
    """A Chromium that opens pages from disk."""

    def __init__(self, browser: Any) -> None:
        self._browser = browser

    @contextmanager
    def opened(self, path: Path, fragment: str = "", width: int = 1200, scheme: str = "light") -> Iterator[Opened]:
        """A page from disk, without a network."""
        context = self._browser.new_context(
            offline=True, color_scheme=scheme, viewport={"width": width, "height": 900}, accept_downloads=True
        )
        try:
            page = context.new_page()
            page.set_default_timeout(6 * STEADY_MS)
            found = Opened(page)
            page.on("request", lambda asked: found.requests.append(asked.url))
            page.on("console", lambda line: found.said.append(line.text))
            page.on("pageerror", lambda error: found.said.append(str(error)))
            page.on("dialog", lambda dialog: (found.said.append(dialog.message), dialog.dismiss()))
            page.goto(path.as_uri() + fragment)
            if page.evaluate("typeof drawing !== 'undefined'"):
                page.evaluate("async () => { await drawing; }")
            yield found
        finally:
            context.close()


@contextmanager
def started() -> Iterator[Browser]:
    """The browser, for as long as it is needed."""
    program = chromium()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as tool:
        browser = tool.chromium.launch(executable_path=program, args=["--no-sandbox"], timeout=60_000)
        try:
            yield Browser(browser)
        finally:
            browser.close()
