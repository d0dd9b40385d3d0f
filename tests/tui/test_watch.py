"""`standfast watch`, by keys and by mouse: the bar, the panes, the dialogs; on a store and on a server (R25-R29)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.helpers import eventually
from tests.server.serving import Server
from tests.tui.looking import (
    LONG,
    SIZE,
    Watching,
    asked,
    bar,
    needing,
    shown,
    slow,
    slow_on_screen,
    so_far,
    text,
    until,
)
from textual.widgets import Button, DataTable, Input, Static, TextArea

from standfast import Runtime
from standfast.tui.app import WatchApp
from standfast.tui.dialogs import FrameDialog, NeedDialog, RedirectDialog, TextDialog
from standfast.tui.run_screen import RunScreen
from standfast.tui.runs_screen import RunsScreen

pytestmark = pytest.mark.more  # processes that are started and killed in every test: minutes


async def test_the_bar_says_what_each_control_would_do(runs: Runtime, watching: Watching) -> None:
    """R25: Pause, Redirect, Cancel in this order, with their consequences, and nothing cut off at 80x24."""
    async with slow_on_screen(runs, watching) as (_, app, pilot):
        controls = [button for button in app.screen.query("#controls Button").results(Button) if button.region.width]
        assert [button.id for button in controls] == ["pause", "redirect", "cancel"]
        assert all(button.region.bottom <= SIZE[1] and button.region.right <= SIZE[0] for button in controls)
        assert "2/3" in bar(app)
        assert "1 step" in bar(app)
        assert "steps 1/1000" in bar(app)
        assert "holds it here" in text(app, "#pause-words")
        assert "Read it aloud" in text(app, "#redirect-words")
        assert "keeps 1 finished step" in text(app, "#cancel-words")
        assert "✔ Write a draft" in text(app, "#plan-text")
        assert "▶ Read it aloud" in text(app, "#plan-text")
        await until(pilot, lambda: "Instruction: Read it aloud." in text(app, "#output-text"))


async def test_p_pauses_and_p_resumes(runs: Runtime, watching: Watching) -> None:
    """R3, R4: the state word changes when the run has changed."""
    async with slow_on_screen(runs, watching) as (run, app, pilot):
        await pilot.press("p")
        await until(pilot, lambda: "paused (user)" in bar(app))
        assert (await run.view()).status == "paused"
        assert str(app.screen.query_one("#pause", Button).label).startswith("Resume")
        await pilot.press("p")
        await until(pilot, lambda: "running" in bar(app))
    assert (await run.view()).status == "running"


async def test_x_cancels_only_when_it_is_pressed_twice(runs: Runtime, watching: Watching) -> None:
    """R9: then the receipt comes up by itself."""
    async with slow_on_screen(runs, watching) as (run, app, pilot):
        await pilot.press("x")
        await pilot.pause(0.2)
        assert (await run.view()).status == "running"
        assert "again" in str(app.screen.query_one("#cancel", Button).label)
        await pilot.press("x")
        await until(pilot, lambda: "cancelled" in bar(app))
        await until(pilot, lambda: "undo of draft: undone" in text(app, "#receipt-text"))
        assert app.screen.query_one("#receipt-text").region.width > 0, "the receipt is on the screen"
    assert (await run.settled()).by == "ann"


async def test_a_click_on_cancel_is_meant(runs: Runtime, watching: Watching) -> None:
    """No confirmation, never disabled."""
    async with slow_on_screen(runs, watching) as (_, app, pilot):
        assert not app.screen.query_one("#cancel", Button).disabled
        await pilot.click("#cancel")
        await until(pilot, lambda: "cancelled" in bar(app))
        assert not app.screen.query_one("#cancel", Button).disabled


async def test_keys_are_letters_while_one_types(runs: Runtime, watching: Watching) -> None:
    """R19: a message with p, x and q in it; what becomes of it is said at once."""
    async with slow_on_screen(runs, watching) as (run, app, pilot):
        await pilot.press("m", *"pxxq", "enter")
        await until(pilot, lambda: "message accepted" in text(app, "#notice"))
        assert "after this step" in text(app, "#notice")
        view = await run.view()
        assert view.status == "running"
        assert [letter.text for letter in view.mail] == ["pxxq"]
        await until(pilot, lambda: "pxxq" in text(app, "#mail-text"))


async def test_a_redirect_rewrites_the_next_step_now(runs: Runtime, watching: Watching) -> None:
    """R5: the step in progress is shown, rewritten, and taken again."""
    async with slow_on_screen(runs, watching) as (_, app, pilot):
        await pilot.press("r")
        await until(pilot, lambda: isinstance(app.screen, RedirectDialog))
        field = app.screen.query_one("#text", Input)
        assert field.value == "Read it aloud"
        field.value = "Read it quietly"
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))
        await until(pilot, lambda: "Instruction: Read it quietly." in text(app, "#output-text"))
        await until(pilot, lambda: "was: Read it aloud" in text(app, "#plan-text"))
        assert "(cut)" in text(app, "#output-text")


async def test_a_redirect_from_an_earlier_step_undoes_what_came_after(runs: Runtime, watching: Watching) -> None:
    """R5: chosen from the plan."""
    async with slow_on_screen(runs, watching, (110, 36)) as (run, app, pilot):
        await pilot.press("r")
        await until(pilot, lambda: isinstance(app.screen, RedirectDialog))
        app.screen.query_one("#text", Input).value = "Write it anew"
        select: Any = app.screen.query_one("#from-step")
        select.value = (await run.view()).plan[0].id
        await pilot.click("#from")
        await until(pilot, lambda: isinstance(app.screen, RunScreen) and "Write it anew" in text(app, "#plan-text"))
    undone = [event async for event in so_far(run) if event.type == "undo_ended"]
    assert [event.tool for event in undone] == ["draft"]


async def test_what_is_needed_comes_as_dialogs(runs: Runtime, watching: Watching) -> None:
    """R14: options, an answer that is no text, and an approval with changed arguments."""
    run = await runs.start("asking", {})
    app = watching(run.id)
    async with app.run_test(size=SIZE) as pilot:
        await asked(pilot, app, NeedDialog)
        labels = [str(button.label) for button in app.screen.query(Button).results(Button)]
        assert labels[:2] == ["red", "green"]
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))
        assert "Which colour?" in text(app, "#needs")
        await pilot.press("a")
        await asked(pilot, app, NeedDialog)
        await pilot.press("tab", "enter")  # the second option
        await asked(pilot, app, NeedDialog, "How many?")
        await pilot.press("7", "enter")
        await asked(pilot, app, NeedDialog, "approval")
        assert app.focused is app.screen.query_one("#later"), "Enter typed for something else approves nothing"
        app.screen.query_one("#arguments", TextArea).load_text('{"colour": "grey"}')
        app.screen.query_one("#changed", Button).press()
        await shown(pilot, app, "done")
    assert await run.result() == "painted grey 7 times"


async def test_a_paused_run_is_edited_in_place(runs: Runtime, watching: Watching) -> None:
    """R29; what is no JSON is not saved."""
    async with slow_on_screen(runs, watching, (100, 32)) as (run, app, pilot):
        await pilot.press("e")
        await until(pilot, lambda: "only a paused run" in text(app, "#notice"))
        await pilot.press("p")
        await until(pilot, lambda: "paused" in bar(app))
        await pilot.press("e")
        area = app.screen.query_one("#state-text", TextArea)
        await until(pilot, lambda: not area.read_only and area.text.startswith("{"))
        area.load_text("{ nonsense")
        app.screen.query_one("#save", Button).press()
        await until(pilot, lambda: "not saved" in text(app, "#notice"))
        state = await run.state()
        area.load_text(json.dumps({**state.model_dump(mode="json"), "title": "by hand"}))
        app.screen.query_one("#save", Button).press()
        await until(pilot, lambda: "edit accepted" in text(app, "#notice"))
    assert (await run.state()).title == "by hand"


async def test_thoughts_on_hold_are_shown_and_can_be_given_up_for_a_reason(runs: Runtime, watching: Watching) -> None:
    """R22."""
    run = await runs.start("clerk", {})
    app = watching(run.id)
    async with app.run_test(size=(100, 32)) as pilot:
        await shown(pilot, app, "waiting")
        await pilot.press("3")
        table = app.screen.query_one("#frames-table", DataTable)
        await until(pilot, lambda: table.row_count == 2)
        table.focus()
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, FrameDialog))
        app.screen.query_one("#abandon", Button).press()
        await until(pilot, lambda: "silently" in text(app, "#problem"))
        app.screen.query_one("#reason", Input).value = "nobody reads it"
        app.screen.query_one("#abandon", Button).press()
        await until(pilot, lambda: isinstance(app.screen, RunScreen) and table.row_count == 1)
    given_up = [event async for event in so_far(run) if event.type == "frame_abandoned"]
    assert [(event.goal, event.by, event.reason) for event in given_up] == [("report", "ann", "nobody reads it")]


async def test_calls_have_their_details(runs: Runtime, watching: Watching) -> None:
    async with slow_on_screen(runs, watching) as (_, app, pilot):
        await pilot.press("2")
        table = app.screen.query_one("#calls-table", DataTable)
        await until(pilot, lambda: table.row_count == 2)
        table.focus()
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, TextDialog))
        details = "\n".join(str(one.render()) for one in app.screen.query(Static).results(Static))
        assert "once upon a time" in details
        assert "[write]" in details


async def test_q_detaches_and_the_run_goes_on(runs: Runtime, watching: Watching) -> None:
    """R18."""
    async with slow_on_screen(runs, watching) as (run, app, pilot):
        await pilot.press("q")
        await until(pilot, lambda: not app.is_running or app._exit)
    assert (await run.view()).status == "running"


async def test_the_list_has_those_that_need_someone_on_top_and_opens_one(runs: Runtime, watching: Watching) -> None:
    """R26."""
    asks = await runs.start("asking", {}, id="asks")
    await eventually(lambda: needing(asks), LONG)
    other = await slow(runs, id="reads")
    app = watching()
    async with app.run_test(size=(100, 24)) as pilot:
        await until(
            pilot, lambda: isinstance(app.screen, RunsScreen) and app.screen.query_one(DataTable).row_count == 2
        )
        assert isinstance(app.screen, RunsScreen)
        first = app.screen.chosen()
        assert first is not None
        assert first.id == "asks"
        assert "1 need you" in text(app, "#headline")
        await pilot.press("down", "p")
        await until(pilot, lambda: "pause accepted: reads" in text(app, "#notice"))
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, RunScreen) and app.screen.run_id == "reads")
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, RunsScreen))
        await pilot.press("question_mark")
        await until(pilot, lambda: isinstance(app.screen, TextDialog))
        await pilot.press("escape")
    assert (await other.view()).status == "paused"


async def test_the_same_screen_works_on_a_server(server: Server, watching_server: Callable[..., WatchApp]) -> None:
    """Live text comes token by token; pause, redirect and cancel over the wire."""
    server.start("memo", "far", seconds=60)
    server.until("far", "running")
    app = watching_server("far")
    async with app.run_test(size=SIZE) as pilot:
        await shown(pilot, app, "running")
        await until(pilot, lambda: "Instruction: Read it aloud." in text(app, "#output-text"))
        await pilot.press("p")
        await until(pilot, lambda: "paused (user)" in bar(app))
        await pilot.press("x", "x")
        await until(pilot, lambda: "cancelled" in bar(app))
        await until(pilot, lambda: "undo of draft: undone" in text(app, "#receipt-text"))
    assert server.view("far")["status"] == "cancelled"


async def test_a_server_that_goes_away_is_said_to_be_away(tmp_path_factory: pytest.TempPathFactory) -> None:
    """R18, R28: the screen stays, says so, and goes on by itself when the server is back."""
    from standfast.cli.options import Place  # noqa: PLC0415

    folder = tmp_path_factory.mktemp("away")
    agents = ("tests.programs.watched:AGENTS",)
    token = "0123456789abcdef"
    one = Server(folder, "--token", token, agents=agents).ready()
    port = one.url.rpartition(":")[2]
    two = None
    try:
        one.start("memo", "away", seconds=60)
        one.until("away", "running")
        app = WatchApp(Place(url=one.url, token=token).open, "away")
        async with app.run_test(size=SIZE) as pilot:
            await shown(pilot, app, "running")
            await asyncio.to_thread(one.close)
            await until(pilot, lambda: "trying again" in text(app, "#notice"))
            two = await asyncio.to_thread(
                lambda: Server(folder, "--token", token, "--port", port, agents=agents).ready()
            )
            await pilot.press("p")
            await until(pilot, lambda: "paused (user)" in bar(app))
            assert isinstance(app.screen, RunScreen)
            seqs = [int(line.split()[0]) for line in app.screen.model.record]
            assert seqs == sorted(seqs)
    finally:
        one.close()
        if two is not None:
            two.close()
