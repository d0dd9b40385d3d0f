"""A person in the run, from `standfast watch`: take over, perform, hand back, mark, fork (R10, R24, R29-R31)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.helpers import eventually
from tests.tui.looking import LONG, Watching, asked, needing, notice, shown, slow_on_screen, so_far, text, until
from textual.widgets import Button, Input, Select, Static, TextArea

from standfast import Budget, Runtime
from standfast.tui.acting import HandBackDialog, PerformDialog, StepDialog
from standfast.tui.dialogs import NeedDialog
from standfast.tui.forms import SchemaForm
from standfast.tui.run_screen import RunScreen

TALL = (100, 40)


async def test_take_over_perform_a_tool_and_hand_back(runs: Runtime, watching: Watching) -> None:
    """R24: t, u, t; the form is made of the tool's schema, and what came of it is said."""
    async with slow_on_screen(runs, watching, TALL) as (run, app, pilot):
        await pilot.press("u")
        await until(pilot, lambda: "take the run over first" in notice(app))
        await pilot.press("t")
        await shown(pilot, app, "paused (taken)")
        await until(pilot, lambda: "ann (claimed) has it" in text(app, "#plan-text"))
        assert "ann (claimed) has it: t hands it back" in text(app, "#pause-words"), "resume would be refused"
        await pilot.press("u")
        await until(pilot, lambda: isinstance(app.screen, PerformDialog))
        tool: Any = app.screen.query_one("#tool", Select)
        tool.value = "draft"
        form = await until(pilot, lambda: next((f for f in app.screen.query(SchemaForm) if len(f.fields) == 1), None))
        await pilot.press("ctrl+s")
        await until(pilot, lambda: "is needed" in text(app, "#problem"))
        form.query_one("#field-0", TextArea).load_text("by hand")
        await pilot.press("ctrl+s")
        await until(pilot, lambda: "draft performed: by hand" in notice(app))
        await pilot.press("t")
        await asked(pilot, app, HandBackDialog)
        await pilot.press(*"done", "enter")
        await until(pilot, lambda: "hand back accepted" in notice(app))
    told = [event async for event in so_far(run) if event.type in ("taken_over", "person_acted", "handed_back")]
    assert [event.type for event in told] == ["taken_over", "person_acted", "handed_back"]
    assert (told[0].trigger, told[1].args, told[2].note) == ("key", {"text": "by hand"}, "done")


async def test_the_bar_says_what_resume_would_do(runs: Runtime, watching: Watching) -> None:
    """R25: of a run that asks it would be refused."""
    run = await runs.start("asking", {}, id="asks")
    await eventually(lambda: needing(run), LONG)
    app = watching(run="asks")
    async with app.run_test(size=TALL) as pilot:
        await until(pilot, lambda: isinstance(app.screen, NeedDialog))
        await pilot.press("escape")
        await shown(pilot, app, "paused (asks)")
        await until(pilot, lambda: text(app, "#pause-words") == "first answer what it asks")


async def test_suspicious_output_is_marked_where_the_screen_was(runs: Runtime, watching: Watching) -> None:
    """R30, R31: S twice; the mark is in the receipt, in the transcript, and on the screen."""
    async with slow_on_screen(runs, watching, TALL) as (run, app, pilot):
        await until(pilot, lambda: "Instruction: Read it aloud." in text(app, "#output-text"))
        await pilot.press("S")
        await until(pilot, lambda: "press S again" in str(app.screen.query_one("#cancel", Button).label))
        assert (await run.view()).status == "running"
        await pilot.press("S")
        await shown(pilot, app, "cancelled")
        await until(pilot, lambda: "suspicious output: marked after" in text(app, "#receipt-text"))
        await until(pilot, lambda: "⚑ stopped here as suspicious" in text(app, "#output-text"))
    receipt = await run.settled(timeout=LONG)
    [mark] = receipt.marks
    assert (receipt.trigger, mark.offset) == ("key", len("Instruction: Read it aloud."))
    assert [said.marks for said in await run.transcript() if said.call == mark.call] == [(mark.offset,)]


async def test_x_then_shift_s_is_not_twice_the_same_key(runs: Runtime, watching: Watching) -> None:
    async with slow_on_screen(runs, watching) as (run, _, pilot):
        await pilot.press("x", "S")
        await pilot.pause(0.3)
    assert (await run.view()).status == "running"


async def test_a_click_is_a_button_and_a_key_is_a_key(runs: Runtime, watching: Watching) -> None:
    """R31"""
    async with slow_on_screen(runs, watching) as (run, app, pilot):
        await pilot.press("p")
        await shown(pilot, app, "paused (user)")
        await pilot.click("#cancel")
        await shown(pilot, app, "cancelled")
    asked = [event async for event in so_far(run) if event.type in ("pause_asked", "cancel_asked")]
    assert [event.trigger for event in asked] == ["key", "button"]


async def test_from_a_step_on_a_run_is_forked_or_run_with_another_state(runs: Runtime, watching: Watching) -> None:
    """R10, R29: f, the step, its state to be edited; what is no step and no JSON is said."""
    run = await runs.start("memo", {"seconds": 0})
    await run.result(timeout=LONG)
    app = watching(run.id)
    async with app.run_test(size=TALL) as pilot:
        await shown(pilot, app, "done")
        await until(pilot, lambda: "result" in text(app, "#receipt-text"))
        await pilot.press("f")
        await until(pilot, lambda: isinstance(app.screen, StepDialog))
        assert not app.screen.query("#rewind"), "a run that has ended cannot be undone"
        app.screen.query_one("#step", Input).value = "99"
        await pilot.press("enter")
        await until(pilot, lambda: "there is no step 99" in text(app, "#problem"))
        app.screen.query_one("#step", Input).value = "1"
        app.screen.query_one("#edit", Button).press()
        area = app.screen.query_one("#state", TextArea)
        await until(pilot, lambda: "once upon a time" in area.text)
        area.load_text("{")
        app.screen.query_one("#rerun", Button).press()
        await until(pilot, lambda: "not JSON" in text(app, "#problem"))
        area.load_text(json.dumps({"seconds": 0, "text": "another"}))
        app.screen.query_one("#rerun", Button).press()
        forked = await until(
            pilot, lambda: app.screen if isinstance(app.screen, RunScreen) and app.screen.run_id != run.id else None
        )
        await shown(pilot, app, "done")
    assert (await runs.handle(forked.run_id).result(timeout=LONG)).text == "another"


async def test_a_run_is_undone_back_to_a_step(runs: Runtime, watching: Watching) -> None:
    """R29"""
    async with slow_on_screen(runs, watching, TALL) as (run, app, pilot):
        await pilot.press("f")
        await until(pilot, lambda: isinstance(app.screen, StepDialog))
        app.screen.query_one("#step", Input).value = "0"
        app.screen.query_one("#rewind", Button).press()
        await shown(pilot, app, "paused")
        await until(pilot, lambda: "1 undone" in text(app, "#plan-text") or "0 steps" in text(app, "#status"))
    assert (await run.view()).step == 0


async def test_a_run_is_saved_beside_whoever_asks(
    runs: Runtime, watching: Watching, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole of it, readable by its owner alone; what is there is not written over."""
    monkeypatch.chdir(tmp_path)
    run = await runs.start("memo", {"seconds": 0}, id="kept")
    await run.result(timeout=LONG)
    (tmp_path / "kept.json").write_text("mine")
    app = watching(run.id)
    async with app.run_test(size=TALL) as pilot:
        await shown(pilot, app, "done")
        await pilot.press("f")
        await until(pilot, lambda: isinstance(app.screen, StepDialog))
        app.screen.query_one("#save", Button).press()
        await until(pilot, lambda: "saved as kept-1.json" in notice(app))
    body = json.loads((tmp_path / "kept-1.json").read_text())
    assert (body["run"]["id"], body["record"][-1]["type"]) == ("kept", "run_done")
    assert (tmp_path / "kept.json").read_text() == "mine"
    assert (tmp_path / "kept-1.json").stat().st_mode & 0o777 == 0o600


async def test_a_cap_is_raised_in_its_dialog(runs: Runtime, watching: Watching) -> None:
    """R17: to what the person says."""
    run = await runs.start("memo", {"seconds": 0}, budget=Budget(steps=1))
    app = watching(run.id)
    async with app.run_test(size=TALL) as pilot:
        await until(pilot, lambda: isinstance(app.screen, NeedDialog) and app.screen.need.kind == "budget")
        caps = app.screen.query_one("#caps", Input)
        caps.value = "nonsense"
        app.screen.query_one("#choice-0", Button).press()
        await until(pilot, lambda: "the caps are not JSON" in text(app, "#problem"))
        caps.value = '{"steps": 50}'
        app.screen.query_one("#choice-0", Button).press()
        await shown(pilot, app, "done")
    assert (await run.view()).budget.steps == 50


async def test_the_plan_shows_what_effects_each_line_had(runs: Runtime, watching: Watching) -> None:
    """R14, R26: and what was undone of them."""
    async with slow_on_screen(runs, watching, TALL) as (_, app, pilot):
        lines = await until(pilot, lambda: "write" in text(app, "#plan-text") and text(app, "#plan-text").splitlines())
        at = next(n for n, line in enumerate(lines) if "Write a draft" in line)
        assert lines[at + 1].split() == ["write"]
        at = next(n for n, line in enumerate(lines) if "Read it aloud" in line)
        assert lines[at + 1].split() == ["read"]
        await pilot.press("x", "x")
        await until(pilot, lambda: "1 undone" in text(app, "#plan-text"))
        assert "■ Read it aloud" in text(app, "#plan-text")


async def test_steps_calls_and_pauses_are_bars_over_time(runs: Runtime, watching: Watching) -> None:
    """R26: key 8."""
    async with slow_on_screen(runs, watching, TALL) as (_, app, pilot):
        await pilot.press("p")
        await shown(pilot, app, "paused")
        await pilot.press("8")
        drawn = await until(pilot, lambda: "held" in text(app, "#timeline-text") and text(app, "#timeline-text"))
        rows = {line[:7].strip(): line[7:] for line in drawn.splitlines() if line[:7].strip()}
        assert {"steps", "held", "calls"} <= rows.keys()
        assert "speak" in rows["calls"] or "…" in rows["calls"]
        width = app.screen.query_one("#timeline-text", Static).region.width
        assert all(len(line) <= width for line in drawn.splitlines())


async def test_words_of_an_agent_are_no_markup(runs: Runtime, watching: Watching) -> None:
    """What it offers is shown letter by letter, and cannot dress itself up."""
    run = await runs.start("brackets", {})
    app = watching(run.id)
    async with app.run_test(size=TALL) as pilot:
        await until(pilot, lambda: isinstance(app.screen, NeedDialog))
        assert str(app.screen.query_one("#choice-0", Button).label) == "[red]all[/red] [x]"
        app.screen.query_one("#choice-0", Button).press()
        await shown(pilot, app, "done")
    assert await run.result() == "[red]all[/red] [x]"
