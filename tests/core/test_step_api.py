"""What a step can do besides calling (R2, R4, R17, R26): logs, words, spending, journaled values, notes."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.core.looking import events_of, status_is
from tests.core.remembering import Mem, wait_outside, world
from tests.helpers import eventually

from standfast import (
    Done,
    Log,
    OutsideACall,
    Run,
    Runtime,
    agent,
    idempotency_key,
    progress,
    say,
    spend,
    stop_token,
    tool,
    use,
)
from standfast import events as ev
from standfast.testing import lab

pytestmark = pytest.mark.usefixtures("fresh_worlds")


# --- Log -----------------------------------------------------------------------------------------------


@agent("chatter")
async def chatter(run: Run[Mem]) -> Done[list[str]] | None:
    if run.state.n == 4:
        await run.call(wait_outside())
    run.state.chat.append(f"line {run.state.n}")
    run.state.n += 1
    return Done(list(run.state.chat)) if run.state.n == 8 else None


LINES = [f"line {n}" for n in range(8)]


async def test_a_log_grows_with_its_run_and_survives_a_crash() -> None:
    async with lab([chatter]) as runs:
        run = await runs.start(chatter, Mem(chat=Log(["first"])))
        await runs.until(run, call="wait_outside")
        await runs.crash()
        world.door.set()
        assert await run.result(timeout=120) == ["first", *LINES]


async def test_every_snapshot_shows_the_log_as_it_was() -> None:
    """R29: state(step=k) is the state before step k, logs included."""
    async with lab([chatter]) as runs:
        world.door.set()
        run = await runs.start(chatter, Mem())
        await run.result()
        for step in range(9):
            assert list((await run.state(step)).chat) == LINES[:step]


async def test_a_log_is_cut_by_a_rewind_and_written_anew() -> None:
    """Ruling: Log rows are keyed by epoch: the lines of the undone future come back neither in reads nor in writes."""
    async with lab([chatter]) as runs:
        run = await runs.start(chatter, Mem())
        await runs.until(run, call="wait_outside")
        await run.rewind(2)
        await status_is(run, "paused")
        assert list((await run.state()).chat) == LINES[:2]
        await run.edit({"chat": [*LINES[:2], "by hand"]})
        world.door.set()
        await run.resume()
        assert await run.result(timeout=120) == [*LINES[:2], "by hand", *LINES[2:]]


async def test_appends_of_a_step_that_is_set_back_are_not_kept() -> None:
    """Ruling: on a set-back step, state and Log are restored."""

    @agent("talker")
    async def talker(run: Run[Mem]) -> Done[list[str]]:
        run.state.chat.append("attempt")
        await run.call(wait_outside())
        return Done(list(run.state.chat))

    async with lab([talker]) as runs:
        run = await runs.start(talker, Mem())
        await runs.until(run, call="wait_outside")
        await run.redirect("again, please")
        await status_is(run, "running")
        world.door.set()
        assert await run.result(timeout=120) == ["attempt"]


async def test_a_snapshot_with_a_long_log_stays_small(tmp_path: Path) -> None:
    """R38: a step costs what it appends, not what has been said so far."""

    @agent("long")
    async def long(run: Run[Mem]) -> Done[int] | None:
        run.state.chat.append("x" * 2000)
        return Done(len(run.state.chat)) if len(run.state.chat) == 100 else None

    async with Runtime(tmp_path / "runs.db", agents=[long]) as runs:
        run = await runs.start(long, Mem())
        assert await run.result() == 100
    assert (tmp_path / "runs.db").stat().st_size < 1_000_000  # 100 whole copies would be 10 MB


# --- say, spend, progress, use ---------------------------------------------------------------------------


class Stripe:
    def __init__(self, name: str) -> None:
        self.name = name


@tool(effect="read")
def charge_in_a_thread() -> str:
    say("thread ")
    spend(input_tokens=1, output_tokens=2, cost=0.5)
    progress(1.0, "done")
    return use(Stripe).name


@tool
async def charge() -> str:
    say("async ")
    spend(input_tokens=10, output_tokens=20, cost=0.25)
    progress(0.25, "quarter")
    return use(Stripe).name


@agent("spender")
async def spender(run: Run[Mem]) -> Done[list[str]]:
    return Done([await run.call(charge()), await run.call(charge_in_a_thread())])


async def test_say_spend_progress_and_use_work_in_async_and_in_threads() -> None:
    async with lab([spender], provide={Stripe: Stripe("live")}) as runs:
        run = await runs.start(spender, Mem())
        assert await run.result(timeout=120) == ["live", "live"]
        spent = (await run.view()).spent
        assert (spent.input_tokens, spent.output_tokens, spent.tokens, spent.cost) == (11, 22, 33, 0.75)
        assert (spent.calls, spent.steps) == (2, 1)
        assert [s.text for s in await run.transcript()] == ["async ", "thread "]
        told = {(e.fraction, e.text) for e in await events_of(run, ev.CallProgress)}
        assert told == {(0.25, "quarter"), (1.0, "done")}


async def test_titles_and_reasons_are_in_the_record_and_in_the_view() -> None:
    @agent("titled")
    async def titled(run: Run[Mem]) -> Done[str]:
        return Done(await run.call(wait_outside(), title="Wait for the door", why="it is raining"))

    async with lab([titled]) as runs:
        run = await runs.start(titled, Mem())
        await runs.until(run, call="wait_outside")
        (flying,) = (await run.view()).in_flight
        assert flying.title == "Wait for the door"
        world.door.set()
        await run.result()
        (started,) = await events_of(run, ev.CallStarted)
        assert (started.title, started.why) == ("Wait for the door", "it is raining")


async def test_a_dependency_that_was_not_given_is_an_error_with_a_hint() -> None:
    async with lab([spender]) as runs:
        run = await runs.start(spender, Mem())
        view = await status_is(run, "paused")
        assert view.holds == ("error",)
        assert "Stripe" in view.error
        assert "provide" in view.error


async def test_helpers_of_tools_say_so_when_used_outside_one() -> None:
    helpers = (idempotency_key, lambda: use(Stripe), lambda: say("x"), spend, lambda: progress(0.1, ""), stop_token)
    for helper in helpers:
        with pytest.raises(OutsideACall) as caught:
            helper()
        assert caught.value.hint


# --- now, uuid, random ------------------------------------------------------------------------------------


async def test_now_uuid_and_random_are_the_same_when_the_step_is_repeated() -> None:
    """API: journaled; equal calls in one step are told apart by their order; the next step gets new ones."""

    @agent("dicer")
    async def dicer(run: Run[Mem]) -> Done[None] | None:
        world.seen.append((run.step, run.now(), run.uuid(), run.uuid(), run.random(), run.random()))
        await run.call(wait_outside())
        run.state.n += 1
        return Done(None) if run.state.n == 2 else None

    async with lab([dicer]) as runs:
        run = await runs.start(dicer, Mem())
        await runs.until(run, call="wait_outside")
        await runs.clock.advance(10)
        await runs.crash()
        await eventually(lambda: len(world.seen) == 2)
        await runs.clock.advance(10)
        world.door.set()
        await run.result(timeout=120)
        first, again, following = world.seen
        assert first == again
        assert first[2] != first[3]
        assert first[4] != first[5]
        assert following[0] == 1
        assert following[1] > first[1]
        assert following[2] not in first


# --- interruption, note, emit -------------------------------------------------------------------------------


async def test_interruption_tells_a_repeated_step_what_was_finished_and_cut() -> None:
    """API: partial text, finished and cut calls of a step that is being repeated, else None."""

    @tool(effect="read", kind="model")
    async def stream() -> str:
        say("so far ")
        await world.door.wait()
        return "all"

    @tool
    async def effect() -> int:
        return 1

    @agent("cut")
    async def cut(run: Run[Mem]) -> Done[None] | None:
        world.seen.append(run.interruption)
        await run.call(effect())
        await run.call(stream())
        run.state.n += 1
        return Done(None) if run.state.n == 2 else None

    async with lab([cut]) as runs:
        run = await runs.start(cut, Mem())
        await runs.until(run, call="stream", point="admitted")
        await eventually(run.transcript)
        await run.pause()
        await status_is(run, "paused")
        world.door.set()
        await run.resume()
        await run.result(timeout=120)
        first, repeated, following = world.seen
        assert first is None
        assert following is None
        assert repeated.text == "so far "
        assert [c.tool for c in repeated.finished] == ["effect"]
        assert [c.tool for c in repeated.cut] == ["stream"]


async def test_notes_and_emitted_events_stay_tagged_with_their_attempt() -> None:
    """Ruling: on a set-back step, events stay, tagged with the attempt."""

    @agent("noter")
    async def noter(run: Run[Mem]) -> Done[None]:
        run.note("thinking")
        run.emit("mood", {"good": True})
        await run.call(wait_outside())
        return Done(None)

    async with lab([noter]) as runs:
        run = await runs.start(noter, Mem())
        await runs.until(run, call="wait_outside")
        await run.pause()
        await status_is(run, "paused")
        world.door.set()
        await run.resume()
        await run.result(timeout=120)
        notes, emitted = await events_of(run, ev.Noted), await events_of(run, ev.Emitted)
        assert [n.text for n in notes] == ["thinking", "thinking"]
        assert notes[0].attempt < notes[1].attempt
        assert [(e.name, e.data) for e in emitted] == [("mood", {"good": True})] * 2
