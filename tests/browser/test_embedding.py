"""The parts for other people's apps: the bar in two lines, mounted under a path of theirs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect
from tests.browser.looking import control, word
from tests.browser.serving import ROOT, free_port, wait_for

pytestmark = pytest.mark.more  # chromium


class App:
    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.folder = folder
        self.url = f"http://127.0.0.1:{self.port}"
        paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.browser.somebodys_app", str(folder / "runs.db"), str(self.port)],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": paths, "STANDFAST_TEST_WORLD": str(folder)},
        )

    def api(self, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}/agents{path}", data, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.loads(answer.read())

    def ready(self) -> bool:
        assert self.process.poll() is None
        try:
            return bool(self.api("/api/agents")["agents"])
        except (urllib.error.URLError, ConnectionError):
            return False


@pytest.fixture(scope="module")
def app(_browser_is_here: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    one = App(tmp_path_factory.mktemp("mine"))
    try:
        wait_for(one.ready, "somebody's app is ready")
        yield one
    finally:
        one.process.terminate()
        one.process.wait(30)


def test_the_bar_works_in_another_app_in_two_lines(app: App, browser: Any) -> None:
    """R25"""
    (app.folder / "mine-fetch").touch()
    run = app.api("/api/runs", {"agent": "memo", "state": {"month": "May", "doors": "mine"}})["id"]
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{app.url}/mine/{run}")
    expect(word(page)).to_have_text("Running")
    expect(page.locator("standfast-bar [role=status]")).to_contain_text("Running")
    expect(page.locator("standfast-bar .why")).to_contain_text("Score accounts")
    control(page, "redirect").click()
    page.locator("standfast-bar #text").fill("Another way")
    page.locator("standfast-bar #text").press("Enter")
    expect(page.locator("standfast-bar #diff")).to_contain_text("Another way")
    colour = page.evaluate(
        "getComputedStyle(document.querySelector('standfast-bar').shadowRoot.querySelector('#now')).backgroundColor"
    )
    assert colour == "rgb(122, 31, 162)"  # themed by a CSS variable of the app
    control(page, "cancel").click()
    expect(word(page)).to_have_text("Cancelled")
    record = app.api(f"/api/runs/{run}/record")["events"]
    assert next(e for e in record if e["type"] == "cancel_asked")["by"] == "ada"
    context.close()


def test_a_bar_that_turns_to_another_run_takes_nothing_with_it(app: App, browser: Any) -> None:
    """R5: what is typed for one run never redirects another."""
    first, second = (
        app.api("/api/runs", {"agent": "memo", "state": {"month": "May", "doors": f"turn-{n}"}})["id"] for n in (1, 2)
    )
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{app.url}/mine/{first}")
    expect(word(page)).to_have_text("Running")
    page.evaluate("document.querySelector('standfast-bar').compose()")
    page.keyboard.type("Only for the first")
    page.evaluate("document.querySelector('standfast-bar').cancelTwice()")
    page.evaluate("(run) => document.querySelector('standfast-bar').setAttribute('run', run)", second)
    expect(word(page)).to_have_text("Running")
    expect(page.locator("standfast-bar #composer")).to_be_hidden()
    expect(control(page, "cancel")).not_to_have_attribute("data-armed", "", timeout=500)
    expect(page.locator("standfast-bar #said")).to_be_hidden()
    page.keyboard.press("Enter")
    page.evaluate("(run) => document.querySelector('standfast-bar').setAttribute('run', run)", first)
    expect(page.locator("standfast-bar #text")).to_have_value("Only for the first")  # nor is it lost
    for run in (first, second):
        assert app.api(f"/api/runs/{run}")["mail"] == []
    context.close()


def test_the_whole_page_works_under_somebodys_path(app: App, browser: Any) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{app.url}/agents/")
    expect(page.locator("h1")).to_have_text("Runs")
    expect(page.locator(".connection")).to_have_text("live")
    context.close()
