"""The redirect dialog offers what would be taken, and says why the rest is not (R5, R25, R40)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from tests.helpers import eventually
from tests.tui.looking import until
from textual.widgets import Button, Input, Select

from standfast import Done, Handle, Pipeline, Run, Runtime, agent, child, tool, use
from standfast.cli.options import Place
from standfast.tui.app import WatchApp
from standfast.tui.dialogs import RedirectDialog
from standfast.tui.run_screen import RunScreen


class Doors:
    """Each call waits at a door of its own."""

    def __init__(self) -> None:
        self.at: list[str] = []
        self.open: set[str] = set()


class Chore(BaseModel):
    heard: list[str] = []


@tool(effect="read")
async def at_door(name: str) -> str:
    doors = use(Doors)
    doors.at.append(name)
    while name not in doors.open:
        await asyncio.sleep(0.01)
    return name


some: Pipeline[Chore] = Pipeline("some", Chore)


@some.stage("Cook")
async def cook(run: Run[Chore]) -> None:
    run.state.heard.append(run.instruction)
    await run.call(at_door("cook"))


@some.stage("Lock", redirects=False)
async def lock(run: Run[Chore]) -> None:
    await run.call(at_door("lock"))


@some.stage("Serve")
async def serve(run: Run[Chore]) -> None:
    run.state.heard.append(run.instruction)
    await run.call(at_door("serve"))


@some.stage("Sweep", redirects=False)
async def sweep(run: Run[Chore]) -> None:
    await run.call(at_door("sweep"))


@agent("firm", redirects=False)
async def firm(run: Run[Chore]) -> Done[None]:
    """With a plan of its own, none of which can be rewritten."""
    run.plan.set(["One", "Two"])
    run.plan.start(run.plan.upcoming)
    await run.call(at_door("firm"))
    return Done(None)


@agent("deaf")
async def deaf(run: Run[Chore]) -> Done[None] | None:
    await run.call(at_door(f"deaf {run.step}"))
    return Done(None) if run.step else None


@agent("above")
async def above(run: Run[Chore]) -> Done[None]:
    return Done(await run.call(child(deaf, Chore())))


@pytest.fixture
def doors() -> Doors:
    return Doors()


@pytest.fixture
async def runs(tmp_path: Path, doors: Doors) -> Any:
    async with Runtime(tmp_path / "runs.db", [some, firm, deaf, above], provide={Doors: doors}) as open_runs:
        yield open_runs


def watch(tmp_path: Path, run: Handle[Any]) -> WatchApp:
    return WatchApp(Place(store=tmp_path / "runs.db", by="ann").open, run.id)


def offered(dialog: Any) -> list[str]:
    return [button.id for button in dialog.query(Button).results(Button)]


async def test_a_stage_that_takes_none_is_not_offered_and_enter_rewrites_the_next_one(
    runs: Runtime, doors: Doors, tmp_path: Path
) -> None:
    doors.open.add("cook")
    run = await runs.start(some, Chore())
    await eventually(lambda: "lock" in doors.at)
    app = watch(tmp_path, run)
    async with app.run_test(size=(110, 36)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, RunScreen) and app.screen.view is not None)
        await pilot.press("r")
        dialog: Any = await until(pilot, lambda: isinstance(app.screen, RedirectDialog) and app.screen)
        assert "“Lock” takes no redirects" in str(dialog.query_one("#why-not").render())
        assert offered(dialog) == ["next", "from", "close"]
        field = dialog.query_one("#text", Input)
        assert field.value == "Serve"
        choices = [str(title) for title, _ in dialog.query_one("#from-step", Select)._options]
        assert "Cook" in choices and "Lock" not in choices
        field.value = "Serve cold"
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))

        async def sent() -> bool:
            return [(one.text, one.when) for one in (await run.view()).mail] == [("Serve cold", "next")]

        await eventually(sent)
    doors.open |= {"lock", "serve", "sweep"}
    assert (await run.result(timeout=120)).heard == ["Cook", "Serve cold"]


async def test_past_the_last_stage_that_takes_some_only_earlier_ones_are_offered(
    runs: Runtime, doors: Doors, tmp_path: Path
) -> None:
    doors.open |= {"cook", "lock", "serve"}
    run = await runs.start(some, Chore())
    await eventually(lambda: "sweep" in doors.at)
    app = watch(tmp_path, run)
    async with app.run_test(size=(110, 36)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, RunScreen) and app.screen.view is not None)
        await pilot.press("r")
        dialog: Any = await until(pilot, lambda: isinstance(app.screen, RedirectDialog) and app.screen)
        assert offered(dialog) == ["from", "close"]
        dialog.query_one("#text", Input).value = "Serve hot"
        await pilot.press("enter")
        assert "choose the step first" in str(dialog.query_one("#problem").render())
    doors.open.add("sweep")
    await run.result(timeout=120)


async def test_an_agent_that_takes_none_at_all_opens_no_dialog_whatever_its_plan(
    runs: Runtime, doors: Doors, tmp_path: Path
) -> None:
    run = await runs.start(firm, Chore())
    await eventually(lambda: "firm" in doors.at)
    assert [item.redirects for item in (await run.view()).plan] == [False, False]
    app = watch(tmp_path, run)
    async with app.run_test(size=(110, 36)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, RunScreen) and app.screen.view is not None)
        await pilot.press("r")
        await until(pilot, lambda: any("agent firm takes no redirects" in n.message for n in app._notifications))
        assert isinstance(app.screen, RunScreen)
    doors.open.add("firm")
    await run.result(timeout=120)


async def test_a_childs_unread_redirect_is_shown_on_its_parent(runs: Runtime, doors: Doors, tmp_path: Path) -> None:
    run = await runs.start(above, Chore())
    await eventually(lambda: "deaf 0" in doors.at)
    (inner,) = [view.id for view in await runs.list() if view.parent == run.id]
    assert await runs.handle(inner).redirect("otherwise")
    await eventually(lambda: doors.at.count("deaf 0") == 2)
    doors.open.add("deaf 0")
    await eventually(lambda: "deaf 1" in doors.at)
    app = watch(tmp_path, run)
    async with app.run_test(size=(120, 36)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, RunScreen) and app.screen.view is not None)
        said = f"a child needs you: a redirect was not read ({inner}"
        await until(pilot, lambda: said in str(app.screen.query_one("#needs").render()))
        plan = " ".join(str(app.screen.query_one("#plan-text").render()).split())
        assert "needs you: a redirect was not read" in plan
    doors.open.add("deaf 1")
    await run.result(timeout=120)
