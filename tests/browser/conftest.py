"""One server and one browser for each module; a context of its own for each person."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.browser.serving import ROOT, TOKEN, Server, Wire

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
AXE = ROOT / "page" / "node_modules" / "axe-core" / "axe.min.js"
FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
PATIENCE = 30_000  # milliseconds; a hang guard, not a measurement


def lacking() -> str:
    """What these tests need and this machine does not have."""
    missing = [name for name in ("playwright", "starlette", "uvicorn") if importlib.util.find_spec(name) is None]
    if CHROMIUM is None:
        missing.append("chromium")
    return ", ".join(missing)


@pytest.fixture(autouse=True, scope="module")
def _browser_is_here() -> None:
    if missing := lacking():
        reason = f"browser tests: {missing} not installed"
        (pytest.fail if os.environ.get("STANDFAST_REQUIRE_TOOLS") else pytest.skip)(reason)


@pytest.fixture(scope="module")
def server(_browser_is_here: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    one = Server(tmp_path_factory.mktemp("served"))
    one.start()
    yield one
    one.stop()


@pytest.fixture(scope="module")
def browser(_browser_is_here: None) -> Iterator[Any]:
    from playwright.sync_api import expect, sync_playwright  # noqa: PLC0415 - absent where these tests are skipped

    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        one = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield one
        one.close()


class Person:
    """Somebody at a browser, logged in. Errors of the page are errors of the test."""

    def __init__(self, browser: Any, server: Server, base: str, **context: Any) -> None:
        self.server = server
        self.base = base
        self.context = browser.new_context(**{"viewport": {"width": 1280, "height": 860}, **context})
        self.context.set_default_timeout(PATIENCE)
        self.problems: list[str] = []
        self.page = self.tab()
        self.page.goto(f"{base}/?token={TOKEN}")

    def tab(self) -> Any:
        page = self.context.new_page()
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("console", self._heard)
        return page

    def _heard(self, message: Any) -> None:
        lost = ("WebSocket connection", "ERR_CONNECTION", "ERR_EMPTY_RESPONSE", "Failed to load resource", "ERR_SOCKET")
        if message.type == "error" and not any(word in message.text for word in lost):
            self.problems.append(message.text)

    def see(self, run: str, page: Any = None, more: str = "") -> Any:
        """Open a run and wait until the page knows it."""
        page = page or self.page
        page.goto(f"{self.base}/#/runs/{run}{more}")
        page.locator("standfast-bar .word", has_text="…").wait_for(state="detached")
        return page

    def at(self, path: str = "#/") -> Any:
        self.page.goto(f"{self.base}/{path}")
        return self.page


@pytest.fixture
def person(browser: Any, server: Server) -> Iterator[Callable[..., Person]]:
    people: list[Person] = []

    def make(base: str | None = None, **context: Any) -> Person:
        one = Person(browser, server, base or server.url, **context)
        people.append(one)
        return one

    yield make
    for one in people:
        one.context.close()
    assert [p for one in people for p in one.problems] == []


@pytest.fixture
def wire(server: Server) -> Iterator[Wire]:
    one = Wire(server.port)
    yield one
    one.close()


@pytest.fixture(scope="session")
def shots() -> Path:
    """Where pictures of every state go, to be looked at."""
    folder = ROOT / "page" / "shots"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def axe() -> str:
    if not AXE.exists():
        reason = "accessibility: axe-core not installed (npm install in page/)"
        (pytest.fail if os.environ.get("STANDFAST_REQUIRE_TOOLS") else pytest.skip)(reason)
    return AXE.read_text()
