"""A headless Chromium that may reach one server and nothing else."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
ARGUMENTS = (
    "--no-sandbox",  # the tests may run as root
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
PATIENCE = 30_000  # milliseconds: a loaded machine draws late


def require_chromium() -> None:
    """Skip, loudly, where there is no browser."""
    if CHROMIUM is None:
        pytest.skip("Chromium is missing: `make test` installs it where it may, else install it yourself")


@contextlib.contextmanager
def browser() -> Iterator[Browser]:
    """A browser for several visits."""
    from playwright.sync_api import sync_playwright

    assert CHROMIUM is not None
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
        try:
            yield started
        finally:
            started.close()


@dataclass
class Visit:
    """One visitor of a page, and what went wrong in the browser."""

    page: Page
    address: str
    faults: list[str] = field(default_factory=list)  # errors of scripts, and answers that failed
    foreign: list[str] = field(default_factory=list)  # requests to any other server

    def open(self, path: str, *, ready: str = "h1") -> Page:
        """Open a page of the server and wait until it is drawn and connected."""
        self.page.goto(self.address + path, wait_until="domcontentloaded")
        self.page.wait_for_selector(ready)
        self.page.wait_for_function("window.socket?.connected ?? true")
        return self.page

    def overflow(self) -> int:
        """By how many pixels the page is wider than the window."""
        return int(self.page.evaluate("document.documentElement.scrollWidth - window.innerWidth"))

    def screenshot(self, path: Path) -> None:
        """Write a picture of the window."""
        self.page.screenshot(path=path)


@contextlib.contextmanager
def visit(
    started: Browser,
    address: str,
    token: str,
    *,
    width: int = 1280,
    height: int = 800,
    scheme: Literal["light", "dark"] = "light",
) -> Iterator[Visit]:
    """A visitor who has opened the address that the server printed."""
    context: BrowserContext = started.new_context(
        viewport={"width": width, "height": height}, color_scheme=scheme, reduced_motion="reduce"
    )
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    visited = Visit(page, address)
    page.on("pageerror", lambda error: visited.faults.append(str(error)))
    page.on("console", lambda said: visited.faults.append(said.text) if said.type == "error" else None)
    own = (address, address.replace("http", "ws", 1), "data:", "blob:")
    page.on("request", lambda sent: None if sent.url.startswith(own) else visited.foreign.append(sent.url))
    page.on("websocket", lambda one: None if one.url.startswith(own) else visited.foreign.append(one.url))
    try:
        page.goto(f"{address}/?token={token}", wait_until="domcontentloaded")
        page.wait_for_selector("h1")
        yield visited
    finally:
        context.close()
