"""Every state of `standfast watch` as a picture, narrow and wide, dark and light; nothing is cut off (R25-R27)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.helpers import eventually
from tests.trials import trials
from tests.tui.looking import LONG, Watching, bar, needing, notice, shot, shown, slow, slow_on_screen, text, until
from textual.pilot import Pilot
from textual.widgets import Button, DataTable

from standfast import Runtime
from standfast.tui.acting import PerformDialog, StepDialog
from standfast.tui.app import WatchApp
from standfast.tui.dialogs import NeedDialog, RedirectDialog, TextDialog
from standfast.tui.run_screen import RunScreen
from standfast.tui.runs_screen import RunsScreen
from standfast.tui.starting import StartDialog
from standfast.tui.tones import DARK, LIGHT

SIZES = {"narrow": (60, 30), "normal": (80, 24), "wide": (130, 36)}
# Colours change nothing about places: every width and every shade is looked at, all pairs of them in a soak.
LOOKS = trials(
    [("narrow", "light")],
    [("narrow", "light"), ("normal", "dark"), ("wide", "light")],
    [(width, shade) for width in SIZES for shade in ("dark", "light")],
)


def on_screen(app: WatchApp, size: tuple[int, int]) -> None:
    """The three controls, in their order, side by side, whole."""
    controls = [app.screen.query_one(f"#{name}", Button) for name in ("pause", "redirect", "cancel")]
    regions = [control.region for control in controls]
    assert all(one.width > 0 and one.right <= size[0] and one.bottom <= size[1] for one in regions), regions
    assert [one.x for one in regions] == sorted(one.x for one in regions)
    assert len({one.y for one in regions}) == 1
    for control in controls:
        assert len(str(control.label)) <= control.region.width, f"{control.label} is cut off"


async def light(pilot: Pilot[Any], app: WatchApp, wanted: str) -> None:
    if (wanted == "light") == app.current_theme.dark:
        await pilot.press("d")
        await until(pilot, lambda: (wanted == "light") != app.current_theme.dark)


@pytest.mark.soak
@pytest.mark.parametrize(("width", "shade"), LOOKS)
async def test_a_run_in_every_state(runs: Runtime, watching: Watching, width: str, shade: str) -> None:
    """R25, R27: running, paused, each pane, redirecting, cancelled: the bar is whole in all of them."""
    size, tail = SIZES[width], f"{width}-{shade}"
    async with slow_on_screen(runs, watching, size) as (_, app, pilot):
        await light(pilot, app, shade)
        await until(pilot, lambda: "Instruction" in text(app, "#output-text") and "write" in text(app, "#plan-text"))
        await pilot.pause(0.2)
        on_screen(app, size)
        svg = shot(app, f"running-{tail}")
        assert (LIGHT if shade == "light" else DARK)["green"] in svg, "the state word has the colour of this ground"
        await pilot.press("r")
        await until(pilot, lambda: isinstance(app.screen, RedirectDialog))
        await pilot.pause(0.1)
        shot(app, f"redirecting-{tail}")
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))
        await pilot.press("m", *"hello", "enter")
        await until(pilot, lambda: "message accepted" in notice(app))
        await pilot.press("escape", "p")
        await shown(pilot, app, "paused (user)")
        on_screen(app, size)
        for number, name in enumerate(
            ("output", "calls", "thoughts", "mail", "state", "receipt", "record", "timeline")
        ):
            await pilot.press(str(number + 1))
            await pilot.pause(0.15)
            shot(app, f"{name}-{tail}")
        await pilot.press("f")
        await until(pilot, lambda: isinstance(app.screen, StepDialog))
        await pilot.pause(0.1)
        shot(app, f"from-a-step-{tail}")
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))
        await pilot.press("x", "x")
        await shown(pilot, app, "cancelled")
        await until(pilot, lambda: "undo of draft: undone" in text(app, "#receipt-text"))
        on_screen(app, size)
        await pilot.pause(0.1)
        shot(app, f"cancelled-{tail}")


@pytest.mark.soak
@pytest.mark.parametrize(("width", "shade"), LOOKS)
async def test_dialogs_and_the_list(runs: Runtime, watching: Watching, width: str, shade: str) -> None:
    """R14, R24, R26"""
    size, tail = SIZES[width], f"{width}-{shade}"
    asks = await runs.start("painter", {"colour": "red"}, id="asks")
    await eventually(lambda: needing(asks), LONG)
    await slow(runs, id="reads", labels={"team": "growth"})
    done = await runs.start("memo", {"seconds": 0}, id="done")
    await done.result(timeout=LONG)
    app = watching()
    async with app.run_test(size=size) as pilot:
        await until(
            pilot, lambda: isinstance(app.screen, RunsScreen) and app.screen.query_one(DataTable).row_count == 3
        )
        await light(pilot, app, shade)
        await pilot.press("space", "space")
        await until(pilot, lambda: "2 marked" in text(app, "#headline"))
        await pilot.pause(0.1)
        shot(app, f"list-{tail}")
        await pilot.press("c", "n")
        await until(pilot, lambda: isinstance(app.screen, StartDialog))
        await pilot.pause(0.2)
        shot(app, f"new-run-{tail}")
        await pilot.press("escape")
        await pilot.press("question_mark")
        await until(pilot, lambda: isinstance(app.screen, TextDialog))
        await pilot.pause(0.1)
        shot(app, f"keys-{tail}")
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, RunsScreen))
        table = app.screen.query_one(DataTable)
        table.move_cursor(row=table.get_row_index("asks"))
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, NeedDialog))
        await pilot.pause(0.1)
        shot(app, f"approval-{tail}")
        await pilot.press("escape")
        await shown(pilot, app, "asks")
        on_screen(app, size)
        shot(app, f"needs-someone-{tail}")
        await pilot.press("t")
        await until(pilot, lambda: "taken" in bar(app))
        await pilot.press("u")
        await until(pilot, lambda: isinstance(app.screen, PerformDialog))
        await pilot.pause(0.2)
        shot(app, f"perform-{tail}")
