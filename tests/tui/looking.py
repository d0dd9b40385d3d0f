"""What the tests of `standfast watch` share: waiting, reading the screen, runs to look at, pictures of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.helpers import eventually
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widgets import Static

from standfast import Runtime
from standfast.tui.app import WatchApp
from standfast.tui.forms import SchemaForm
from standfast.tui.run_screen import RunScreen

SIZE = (80, 24)
LONG = 30
SHOTS = Path(__file__).parents[2] / "page" / "shots"
Watching = Callable[..., WatchApp]


async def until(pilot: Pilot[Any], look: Callable[[], Any]) -> Any:
    """The first truthy value of `look()`, while the app goes on."""
    async with asyncio.timeout(LONG):
        while not (found := look()):
            await pilot.pause(0.02)
    return found


def text(app: WatchApp, selector: str) -> str:
    """What a widget shows, of the topmost screen that has it; a dialog may lie over a run."""
    found = next((one for screen in reversed(app.screen_stack) for one in screen.query(selector).results(Static)), None)
    return "" if found is None else str(found.render())


def bar(app: WatchApp) -> str:
    return text(app, "#status")


def notice(app: WatchApp) -> str:
    return text(app, "#notice")


async def shown(pilot: Pilot[Any], app: WatchApp, words: str) -> RunScreen:
    """The screen of a run, once its bar says these words."""
    await until(pilot, lambda: isinstance(app.screen, RunScreen) and words in bar(app))
    assert isinstance(app.screen, RunScreen)
    return app.screen


async def asked(pilot: Pilot[Any], app: WatchApp, kind: type[Screen[Any]], need: str = "") -> None:
    """Until a dialog is up and has chosen where keys go, which is a moment later; `need`: the kind or text of it."""

    def ready() -> bool:
        dialog: Any = app.screen
        its_need = not need or (isinstance(dialog, kind) and need in (dialog.need.kind, dialog.need.text))
        return isinstance(dialog, kind) and its_need and dialog.focused is not None

    await until(pilot, ready)


async def slow(runs: Runtime, **more: Any) -> Any:
    """A run that reads aloud for a minute."""
    run = await runs.start("memo", {"seconds": 60}, **more)

    async def reading() -> Any:
        return (await run.view()).in_flight

    await eventually(reading, LONG)
    return run


@asynccontextmanager
async def slow_on_screen(
    runs: Runtime, watching: Watching, size: tuple[int, int] = SIZE
) -> AsyncIterator[tuple[Any, WatchApp, Pilot[Any]]]:
    """A run that reads aloud, and the screen that shows it running."""
    run = await slow(runs)
    app = watching(run.id)
    async with app.run_test(size=size) as pilot:
        await shown(pilot, app, "running")
        yield run, app, pilot


async def so_far(run: Any) -> AsyncIterator[Any]:
    """The record of a run that may still be going on."""
    seq = (await run.view()).seq
    async for event in run.events():
        yield event
        if getattr(event, "seq", 0) >= seq:
            return


async def needing(run: Any) -> Any:
    return (await run.view()).needs


async def form_with(pilot: Pilot[Any], app: WatchApp, first: str) -> SchemaForm:
    """The form of the dialog on top, once its first field is this one and all its inputs are there."""

    def look() -> SchemaForm | None:
        forms = [form for form in app.screen.query(SchemaForm) if form.fields and form.fields[0].name == first]
        return next((form for form in forms if form.query(f"#field-{len(form.fields) - 1}")), None)

    found = await until(pilot, look)
    assert isinstance(found, SchemaForm)
    return found


def shot(app: WatchApp, name: str) -> str:
    """Keep a picture of the screen; gives it as SVG."""
    SHOTS.mkdir(parents=True, exist_ok=True)
    svg = app.export_screenshot(title=name)
    (SHOTS / f"watch-{name}.svg").write_text(svg, encoding="utf-8")
    return svg
