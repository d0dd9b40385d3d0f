"""A stop that does not come: force is offered after five seconds and says what it kills (R27, R34)."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from tests.server.serving import Server
from tests.tui.looking import LONG, SIZE, Watching, bar, notice, shown, text, until
from textual.widgets import Button

from standfast import Runtime
from standfast.tui.app import WatchApp
from standfast.tui.dialogs import TextDialog

pytestmark = pytest.mark.more  # processes that are started and killed in every test: minutes


def force_control(app: WatchApp) -> str:
    """What the control says, if it is on the screen."""
    button = app.screen.query_one("#force", Button)
    return f"{button.label}: {text(app, '#force-words')}" if button.region.width else ""


async def test_force_names_and_kills_the_worker_that_holds_a_stop(
    server: Server, watching_server: Callable[..., WatchApp]
) -> None:
    """R34: a pause that waits for a write; the worker is killed, the run is held, and the record says so."""
    server.start("scribe", "stuck", seconds=3600)
    server.until("stuck", "running")
    [pid] = server.workers()
    app = watching_server("stuck")
    async with app.run_test(size=(100, 30)) as pilot:
        await shown(pilot, app, "running")
        await pilot.press("F")
        await until(pilot, lambda: "no stop that has to be forced" in notice(app))
        await pilot.press("p")
        await shown(pilot, app, "pausing")
        assert "waiting for slow_write" in bar(app)
        assert force_control(app) == "", "not before its time"
        words = await until(pilot, lambda: force_control(app))
        assert words.startswith("Force stop  F: kills ")
        assert f"(pid {pid})" in words
        assert "in the midst of slow_write" in words
        await pilot.press("F")
        await until(pilot, lambda: "force accepted" in notice(app))
        await shown(pilot, app, "paused (user)")
        await until(pilot, lambda: force_control(app) == "")
    assert server.get("/api/runs/stuck/receipt")["in_flight"][0]["outcome"] == "in_doubt"
    noted = [event for event in server.events("stuck") if event["type"] == "verb_noted" and event["verb"] == "force"]
    assert "killed" in noted[0]["text"]


async def test_on_a_plain_store_it_says_what_can_be_done(runs: Runtime, watching: Watching) -> None:
    """R27: nobody is killed from here; the process is named."""
    run = await runs.start("scribe", {"seconds": 3600})
    app = watching(run.id)
    async with app.run_test(size=SIZE) as pilot:
        await shown(pilot, app, "running")
        await until(pilot, lambda: "slow_write" in text(app, "#plan-text"))
        await pilot.press("p")
        await shown(pilot, app, "pausing")
        words = await until(pilot, lambda: force_control(app))
        assert words.startswith("Stuck?  F: ")
        await pilot.press("F")
        await until(pilot, lambda: isinstance(app.screen, TextDialog))
        shown_text = "\n".join(str(one.render()) for one in app.screen.query("Static"))
        assert f"its driver is the process {os.getpid()}" in " ".join(shown_text.split())
        assert "in doubt" in shown_text
        await pilot.press("escape")
    assert (await run.view()).status == "pausing"
    await run.cancel()
    await run.settled(timeout=LONG)
