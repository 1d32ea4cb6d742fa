"""Chromium for the tests that look at pages the way a reader does."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Route

_NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome")
_MAC = Path("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome")
# Headless in a container, and silent: a browser's own errands would look like a page's requests.
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def chromium_path() -> str | None:
    """Where a Chromium or Chrome of this machine is, or None."""
    found = next(filter(None, map(shutil.which, _NAMES)), None)
    return found or (str(_MAC) if _MAC.exists() else None)


# In CI the tests run and fail where chromium is missing: there it must be installed.
requires_chromium = pytest.mark.skipif(
    chromium_path() is None and os.environ.get("CI") != "true",
    reason="needs Chromium or Chrome on the PATH, and this machine has none",
)


@contextmanager
def launch() -> Iterator[Browser]:
    """A headless Chromium, closed at the end. Raises RuntimeError on a machine without one."""
    from playwright.sync_api import sync_playwright

    path = chromium_path()
    if path is None:
        raise RuntimeError(f"found no Chromium; one of {', '.join(_NAMES)} must be on the PATH")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(_FLAGS))
        try:
            yield browser
        finally:
            browser.close()


class Watched:
    """A page of its own context whose console errors, uncaught errors and requests are written down.

    ``origin`` is the only place that it may reach (None: nothing but files and data in the page); a request to
    anywhere else is refused and noted in ``left``.
    """

    def __init__(self, browser: Browser, *, origin: str | None = None, **context: Any) -> None:
        self.context = browser.new_context(**context)
        self.page = self.context.new_page()
        self.errors: list[str] = []
        self.left: list[str] = []
        self._allowed = ("file:", "data:", "blob:", "about:") + ((origin,) if origin else ())
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.context.route("**/*", self._route)
        if origin is None:
            self.context.set_offline(True)

    def _console(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.errors.append(message.text)

    def _route(self, route: Route) -> None:
        if route.request.url.startswith(self._allowed):
            route.continue_()
        else:
            self.left.append(route.request.url)
            route.abort()

    def __enter__(self) -> Watched:
        return self

    def __exit__(self, *_: object) -> None:
        self.context.close()
