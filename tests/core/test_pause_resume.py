"""Pause and resume (R3, R4): what stops at once, what may finish, and where the run goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.core.looking import events_of, status_is
from tests.core.sending import Work, look_up, paused_before_step_one, reader, sender, talker, world
from tests.helpers import eventually

from standfast import Accepted, Done, Refused, Run, Runtime, agent, ask, tool
from standfast import events as ev
from standfast.records import RunView
from standfast.testing import lab

pytestmark = pytest.mark.usefixtures("fresh_worlds")


# --- pause -------------------------------------------------------------------------------------


async def test_pause_lets_a_write_finish_and_says_what_it_waits_for(tmp_path: Path) -> None:
    """R3, R27: pausing names the effect in flight; the boundary after it is reached, nothing further begins."""
    async with Runtime(tmp_path / "runs.db", agents=[sender]) as runs:
        run = await runs.start(sender, Work())
        await eventually(lambda: world.sent == ["a"])
        answer = await run.pause(by="ann", reason="lunch")
        assert isinstance(answer, Accepted)
        assert [c.tool for c in answer.in_flight] == ["send"]
        view = await run.view()
        assert view.status == "pausing"
        assert view.waiting_for.startswith("send ")
        assert view.waiting_for.endswith(" s")
        world.door.set()
        view = await status_is(run, "paused")
        assert (view.holds, view.step) == (("user",), 1)
        assert "lunch" in view.waiting_for
        assert world.sent == ["a"]
        assert (await run.state()).sent == 1


async def test_pause_cuts_a_read_and_resume_issues_it_again_with_the_same_key(tmp_path: Path) -> None:
    """R3, R4, R15: a read that hangs is cut after a short grace; the finished call before it is not repeated."""
    async with Runtime(tmp_path / "runs.db", agents=[reader]) as runs:
        run = await runs.start(reader, Work())
        await eventually(lambda: "second" in world.read)
        assert await run.pause()
        await status_is(run, "paused")
        world.door.set()
        assert await run.resume()
        assert await run.result() == ["FIRST", "SECOND"]
        assert world.read == ["first", "second", "second"]
        started = [e.call for e in await events_of(run, ev.CallStarted)]
        assert len(started) == 3
        assert started[1] == started[2]


async def test_pause_closes_a_model_stream_and_keeps_its_partial_text(tmp_path: Path) -> None:
    """R3: the stream is closed, its text kept; resume issues it again."""
    async with Runtime(tmp_path / "runs.db", agents=[talker]) as runs:
        run = await runs.start(talker, Work())
        await eventually(lambda: world.read == ["tell"])
        assert await run.pause()
        await status_is(run, "paused")
        (said,) = await run.transcript()
        assert (said.text, said.partial) == ("one two ", True)
        assert (await run.settled()).partial_output == "one two "
        world.door.set()
        assert await run.resume()
        assert await run.result() == "one two three"
        assert world.read == ["tell", "tell"]


async def test_pause_of_a_queued_run_holds_it_before_anything_begins(tmp_path: Path) -> None:
    """R3: a run nobody drives yet is paused at once."""
    async with Runtime(tmp_path / "runs.db", agents=[sender], concurrency=1) as runs:
        first = await runs.start(sender, Work())
        await eventually(lambda: world.sent == ["a"])
        second = await runs.start(sender, Work(items=["x"]))
        assert await second.pause()
        assert (await second.view()).status == "paused"
        world.door.set()
        assert await first.result() == 2
        assert "x" not in world.sent
        assert await second.resume()
        assert await second.result() == 1


async def test_pause_twice_is_one_pause() -> None:
    """R1: idempotent, by request id and by meaning."""
    async with lab([sender]) as runs:
        run = await runs.start(sender, Work())
        await eventually(lambda: world.sent == ["a"])
        one = await run.pause(request_id="p1")
        two = await run.pause(request_id="p1")
        assert one == two
        assert await run.pause()
        world.door.set()
        view = await status_is(run, "paused")
        assert view.holds == ("user",)
        assert len(await events_of(run, ev.PauseAsked)) == 1


async def test_a_step_that_needs_no_further_call_reaches_done_through_a_pause() -> None:
    """Ruling: pause accepted, step returns Done: done."""
    async with lab([sender]) as runs:
        run = await runs.start(sender, Work(items=["only"]))
        await eventually(lambda: world.sent == ["only"])
        assert await run.pause()
        assert (await run.view()).status == "pausing"
        world.door.set()
        assert await run.result() == 1


async def test_resume_while_pausing_is_taken_when_the_pause_has_settled() -> None:
    """The verb table: resume on pausing is noted, taken at settle."""
    async with lab([sender]) as runs:
        run = await runs.start(sender, Work())
        await eventually(lambda: world.sent == ["a"])
        assert await run.pause()
        assert await run.resume(by="ann", note="go on then")
        assert (await run.view()).status == "pausing"
        world.door.set()
        assert await run.result() == 2
        assert world.sent == ["a", "b"]
        (resumed,) = await events_of(run, ev.ResumeAsked)
        assert (resumed.by, resumed.note) == ("ann", "go on then")


async def test_a_pause_takes_back_a_resume_that_waits_for_the_pause_to_settle() -> None:
    """R3: the last word counts, and it is in the record."""
    async with lab([sender]) as runs:
        run = await runs.start(sender, Work())
        await eventually(lambda: world.sent == ["a"])
        assert await run.pause()
        assert await run.resume()
        assert await run.pause(by="ann", reason="no, wait")
        world.door.set()
        view = await status_is(run, "paused")
        assert (view.holds, view.step) == (("user",), 1)
        assert [e.reason for e in await events_of(run, ev.PauseAsked)] == ["", "no, wait"]
        assert await run.resume()
        assert await run.result() == 2


# --- resume --------------------------------------------------------------------------------------


async def test_resume_goes_on_where_it_was_and_repeats_no_committed_call(tmp_path: Path) -> None:
    """R4: code between calls runs again; calls with a committed result do not."""

    @tool
    async def charge(n: int) -> int:
        world.sent.append(f"charge {n}")
        return n

    @agent("shop")
    async def shop(run: Run[Work]) -> Done[int]:
        world.sections += 1
        await run.call(charge(1))
        await run.call(look_up("stock"))
        return Done(await run.call(charge(2)))

    async with Runtime(tmp_path / "runs.db", agents=[shop]) as runs:
        run = await runs.start(shop, Work())
        await eventually(lambda: world.read == ["stock"])
        assert await run.pause()
        await status_is(run, "paused")
        world.door.set()
        assert await run.resume()
        assert await run.result() == 2
        assert world.sent == ["charge 1", "charge 2"]
        assert world.sections == 2


async def test_resume_in_a_new_runtime_on_the_same_file(tmp_path: Path) -> None:
    """R2, R4: a paused run stays paused over a restart, and is resumed by a process that has never seen it."""
    async with Runtime(tmp_path / "runs.db", agents=[reader]) as runs:
        run = await runs.start(reader, Work(), id="r1")
        await eventually(lambda: "second" in world.read)
        assert await run.pause(by="ann")
    world.door.set()
    async with Runtime(tmp_path / "runs.db", agents=[reader]) as runs:
        run = runs.handle("r1")
        assert (await run.view()).status == "paused"
        assert world.read == ["first", "second"]
        assert await run.resume()
        assert await run.result() == ["FIRST", "SECOND"]
    assert world.read == ["first", "second", "second"]


async def test_a_running_run_is_released_on_exit_and_taken_up_on_entry(tmp_path: Path) -> None:
    """R2, R18: leaving the Runtime is not a pause: nobody has to resume."""
    async with Runtime(tmp_path / "runs.db", agents=[reader]) as runs:
        await runs.start(reader, Work(), id="r1")
        await eventually(lambda: "second" in world.read)
    world.door.set()
    async with Runtime(tmp_path / "runs.db", agents=[reader]) as runs:
        assert await runs.handle("r1").result() == ["FIRST", "SECOND"]
    assert world.read.count("first") == 1


async def test_resume_says_what_stands_in_the_way() -> None:
    """R4, R14: a question is not cleared by resume; Refused names it and offers what would help."""

    @agent("asker")
    async def asker(run: Run[Work]) -> Done[str]:
        return Done(await run.call(ask("Which one?", ["left", "right"])))

    async with lab([asker]) as runs:
        run = await runs.start(asker, Work())
        view = await status_is(run, "paused")
        assert view.holds == ("asks",)
        answer = await run.resume()
        assert isinstance(answer, Refused)
        assert "asks" in answer.why
        assert answer.choices
        assert await run.pause()
        assert set((await run.view()).holds) == {"asks", "user"}
        (need,) = view.needs
        assert await run.answer(need.id, "left")
        assert (await run.view()).holds == ("user",)
        assert await run.resume()
        assert await run.result() == "left"


async def test_step_once_takes_one_step_and_holds_again() -> None:
    """R29: a paused run can be stepped."""
    async with lab([sender]) as runs:
        run = await runs.start(sender, Work(items=["a", "b", "c"]))
        await eventually(lambda: world.sent == ["a"])
        await run.pause()
        world.door.set()
        await status_is(run, "paused")
        assert await run.step_once()

        async def stepped() -> bool:
            view = await run.view()
            return view.status == "paused" and view.step == 2

        await eventually(stepped)
        assert world.sent == ["a", "b"]
        assert (await run.view()).holds == ("user",)


async def test_a_paused_run_survives_a_crash_of_its_old_driver() -> None:
    """R2: the crash of a process that held it changes nothing about a paused run."""
    async with lab([sender]) as runs:
        run = await paused_before_step_one(runs)
        await runs.crash()
        assert (await run.view()).status == "paused"
        await run.resume()
        assert await run.result() == 2
        assert world.sent == ["a", "b"]


async def test_a_crash_while_pausing_still_settles_as_paused() -> None:
    """R2, R15: the pause was accepted; the write in flight is in doubt, not lost and not repeated."""
    async with lab([sender]) as runs:
        run = await runs.start(sender, Work())
        await eventually(lambda: world.sent == ["a"])
        await run.pause()
        await runs.crash()
        view = await status_is(run, "paused")
        assert "user" in view.holds
        refused = await run.resume()
        view = await status_is(run, "paused") if not refused else await eventually_in_doubt(run)
        assert "in_doubt" in view.holds
        assert world.sent == ["a"]


async def eventually_in_doubt(run: Any) -> RunView:
    async def look() -> RunView | None:
        view: RunView = await run.view()
        return view if "in_doubt" in view.holds else None

    found: RunView = await eventually(look)
    return found


async def test_elapsed_and_paused_time_are_told_apart() -> None:
    """R25: the time spent on hold is shown apart."""
    async with lab([sender]) as runs:
        run = await paused_before_step_one(runs)
        await runs.clock.advance(60)
        view = await run.view()
        assert view.paused_for == pytest.approx(60)
        assert view.elapsed >= 60
        await run.resume()
        await run.result()
        assert (await run.view()).paused_for == pytest.approx(60)
