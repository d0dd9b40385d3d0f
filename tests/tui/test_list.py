"""The list in `standfast watch`: several runs at once, filters, a new run from a form (R26)."""

from __future__ import annotations

from typing import Any

from tests.helpers import eventually
from tests.tui.looking import LONG, Watching, form_with, needing, notice, shown, slow, so_far, text, until
from textual.pilot import Pilot
from textual.widgets import Checkbox, DataTable, Input, Select, TextArea

from standfast import Runtime
from standfast.tui.app import WatchApp
from standfast.tui.forms import SchemaForm
from standfast.tui.run_screen import RunScreen
from standfast.tui.runs_screen import RunsScreen
from standfast.tui.starting import StartDialog

WIDE = (110, 30)


def rows(app: Any) -> int:
    return app.screen.query_one(DataTable).row_count if isinstance(app.screen, RunsScreen) else -1


async def test_marked_runs_are_paused_and_cancelled_together(runs: Runtime, watching: Watching) -> None:
    """R26, R31: each answer is its own and counted; the trigger is the key."""
    both = [await slow(runs, id="one"), await slow(runs, id="two")]
    other = await slow(runs, id="other")
    app = watching()
    async with app.run_test(size=WIDE) as pilot:
        await until(pilot, lambda: rows(app) == 3)
        screen = app.screen
        assert isinstance(screen, RunsScreen)
        await until(pilot, lambda: screen.chosen() is not None)
        for id_ in ("one", "two"):
            table = screen.query_one(DataTable)
            table.move_cursor(row=table.get_row_index(id_))
            await pilot.press("space")
            await until(pilot, lambda id_=id_: id_ in screen.marked)
        assert "2 marked" in text(app, "#headline")
        await pilot.press("p")
        await until(pilot, lambda: "pause: 2 of 2 accepted" in notice(app))
        assert not screen.marked
        for run in both:
            assert (await run.settled(timeout=LONG)).trigger == "key"
            screen.marked.add(run.id)
        await pilot.press("x")
        await until(pilot, lambda: "press x again to cancel 2 runs" in notice(app))
        await pilot.press("x")
        await until(pilot, lambda: "cancel: 2 of 2 accepted" in notice(app))
    for run in both:
        assert (await run.settled(timeout=LONG)).status == "cancelled"
    assert (await other.view()).status == "running"


async def test_what_several_runs_ask_for_is_approved_at_once(runs: Runtime, watching: Watching) -> None:
    """R14"""
    asking = [await runs.start("painter", {"colour": colour}, id=colour) for colour in ("red", "green")]
    for run in asking:
        await eventually(lambda run=run: needing(run), LONG)
    app = watching()
    async with app.run_test(size=WIDE) as pilot:
        await until(pilot, lambda: rows(app) == 2)
        await pilot.press("space", "space")
        await until(pilot, lambda: "2 marked" in text(app, "#headline"))
        await pilot.press("a")
        await until(pilot, lambda: "approve: 2 of 2 accepted" in notice(app))
    assert [await run.result(timeout=LONG) for run in asking] == ["painted red", "painted green"]


async def test_the_list_shows_only_what_is_asked_for(runs: Runtime, watching: Watching) -> None:
    """R26: words, agent, status, label and need in one line."""
    await slow(runs, id="labelled", labels={"team": "growth"})
    await slow(runs, id="plain")
    asks = await runs.start("asking", {}, id="asks")
    await eventually(lambda: needing(asks), LONG)
    app = watching()
    async with app.run_test(size=WIDE) as pilot:
        await until(pilot, lambda: rows(app) == 3)
        for typed, count in (("agent:memo", 2), ("team=growth", 1), ("needs", 1), ("status:ended", 0), ("plain", 1)):
            await pilot.press("slash")
            app.screen.query_one("#search", Input).value = typed
            await pilot.press("enter")
            await until(pilot, lambda count=count: rows(app) == count)
            assert f"only {typed}" in text(app, "#headline")


async def new_run_form(pilot: Pilot[Any], app: WatchApp, agent: str, first: str) -> SchemaForm:
    """The form for a new run of this agent, once its first field is there."""
    await until(pilot, lambda: isinstance(app.screen, RunsScreen))
    await pilot.press("n")
    await until(pilot, lambda: isinstance(app.screen, StartDialog))
    choice: Any = app.screen.query_one("#agent", Select)
    choice.value = agent
    return await form_with(pilot, app, first)


async def test_a_new_run_is_started_from_a_form_of_its_state(runs: Runtime, watching: Watching) -> None:
    """R26: the fields of the agent's schema; what is wrong is said and nothing is sent."""
    app = watching()
    async with app.run_test(size=(100, 40)) as pilot:
        form = await new_run_form(pilot, app, "painter", "colour")
        kinds = [field.kind for field in form.fields]
        assert kinds == ["text", "integer", "boolean", "lines", "choice"]
        form.query_one("#field-1", Input).value = "many"
        await pilot.press("ctrl+s")
        await until(pilot, lambda: "Colour is needed" in text(app, "#problem"))
        form.query_one("#field-0", Input).value = "blue"
        await pilot.press("ctrl+s")
        await until(pilot, lambda: "'many' is not a whole number" in text(app, "#problem"))
        form.query_one("#field-1", Input).value = "3"
        form.query_one("#field-2", Checkbox).value = True
        form.query_one("#field-3", TextArea).load_text("wall\ndoor")
        app.screen.query_one("#labels", Input).value = "team=growth"
        await pilot.press("ctrl+s")
        await until(pilot, lambda: any(isinstance(screen, RunScreen) for screen in app.screen_stack))
    [view] = await runs.list(agent="painter")
    state = await runs.handle(view.id).state()
    assert (state.colour, state.coats, state.careful, state.places) == ("blue", 3, True, ["wall", "door"])
    assert view.labels == {"team": "growth"}
    [started] = [event async for event in so_far(runs.handle(view.id)) if event.type == "run_started"]
    assert started.by == "ann"


async def test_an_agent_that_takes_a_text_is_given_one(runs: Runtime, watching: Watching) -> None:
    app = watching()
    async with app.run_test(size=(100, 40)) as pilot:
        form = await new_run_form(pilot, app, "teller", "task")
        form.query_one("#field-0", TextArea).load_text("Tell me a story")
        await pilot.press("ctrl+s")
        await shown(pilot, app, "done")
    [view] = await runs.list(agent="teller")
    assert (await runs.handle(view.id).state()).task == "Tell me a story"


async def test_without_a_driver_a_new_run_is_not_offered(tmp_path: Any, watching: Watching) -> None:
    app = watching()
    async with app.run_test(size=WIDE) as pilot:
        await until(pilot, lambda: isinstance(app.screen, RunsScreen))
        await pilot.press("n")
        await until(pilot, lambda: "nobody drives an agent here" in notice(app))
