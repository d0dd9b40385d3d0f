"""Events (R28): a typed union; every reader gets each event once, in order, wherever it reads and whenever it left."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, assert_never, get_args

import pytest
from pydantic import BaseModel
from pydantic_core import to_json
from tests.core.processes import Worker
from tests.helpers import eventually

from standfast import Done, Run, Runtime, TextDelta, UnknownRun, agent, progress, say, tool, voice
from standfast import events as ev
from standfast.hub import LIVE_BACKLOG, Hub
from standfast.testing import lab


class Count(BaseModel):
    to: int = 5
    n: int = 0


@tool(effect="read")
async def tick(n: int) -> int:
    return n


@agent("counter")
async def counter(run: Run[Count]) -> Done[int] | None:
    run.state.n = await run.call(tick(run.state.n)) + 1
    run.note(f"at {run.state.n}")
    return Done(run.state.n) if run.state.n == run.state.to else None


begin: asyncio.Event
spoken: asyncio.Event
door: asyncio.Event


@pytest.fixture(autouse=True)
async def fresh_doors() -> AsyncIterator[None]:
    global begin, spoken, door
    begin, spoken, door = asyncio.Event(), asyncio.Event(), asyncio.Event()
    begin.set()
    yield
    door.set()


@tool(effect="read", kind="model")
async def speak(words: int) -> str:
    await begin.wait()
    for i in range(words):
        say(f"w{i} ")
        await asyncio.sleep(0)
    progress(0.5, "half way")
    spoken.set()
    await door.wait()
    say("end")
    return "said"


@agent("speaker")
async def speaker(run: Run[Count]) -> Done[str]:
    return Done(await run.call(speak(run.state.to)))


async def all_events(run: Any, after: int = 0) -> list[Any]:
    return [e async for e in run.events(after=after) if not isinstance(e, TextDelta)]


def seqs(events: list[Any]) -> list[int]:
    return [e.seq for e in events]


# --- each once, in order -------------------------------------------------------------------------


async def test_events_are_numbered_from_one_without_a_gap_and_end_after_the_ending() -> None:
    async with lab([counter]) as runs:
        run = await runs.start(counter, Count())
        live = await all_events(run)  # read while it runs; the loop ends by itself
        assert seqs(live) == list(range(1, len(live) + 1))
        assert isinstance(live[0], ev.RunStarted)
        assert isinstance(live[-1], ev.RunDone)
        assert await all_events(run) == live
        assert {e.run for e in live} == {run.id}
        assert [e.step for e in live if isinstance(e, ev.StepFinished)] == [0, 1, 2, 3, 4]


async def test_a_reader_that_left_anywhere_goes_on_exactly_there() -> None:
    """R28: events share commits; a reader may have stopped inside one."""
    async with lab([counter]) as runs:
        run = await runs.start(counter, Count())
        await run.result()
        everything = await all_events(run)
        for cut in range(len(everything)):
            assert seqs(await all_events(run, after=cut)) == list(range(cut + 1, len(everything) + 1))


async def test_nothing_is_left_after_the_last_one() -> None:
    async with lab([counter]) as runs:
        run = await runs.start(counter, Count())
        last = (await all_events(run))[-1].seq
        assert await asyncio.wait_for(all_events(run, after=last), 5) == []


async def test_an_unknown_run_has_no_events_but_an_error() -> None:
    async with lab([counter]) as runs:
        with pytest.raises(UnknownRun):
            await all_events(runs.handle("nobody"))


async def test_many_readers_see_the_same() -> None:
    async with lab([counter]) as runs:
        run = await runs.start(counter, Count(to=50))
        readers = await asyncio.gather(*(all_events(run) for _ in range(5)))
        assert all(reader == readers[0] for reader in readers)


async def test_events_go_on_over_pause_crash_and_resume() -> None:
    """R28: one numbering for the whole life of the run; a reader that stays sees all of it."""
    async with lab([speaker]) as runs:
        run = await runs.start(speaker, Count())
        reading = asyncio.create_task(all_events(run))
        await runs.until(run, call="speak")
        await run.pause(by="ann", reason="wait")
        await run.settled()
        await runs.crash()
        door.set()
        await run.resume(by="bob", note="on")
        await run.result()
        events = await asyncio.wait_for(reading, 10)
        assert seqs(events) == list(range(1, len(events) + 1))
        kinds = [e.type for e in events]
        places = [kinds.index(kind) for kind in ("pause_asked", "run_paused", "resume_asked", "run_done")]
        assert places == sorted(places)
        asked = next(e for e in events if isinstance(e, ev.PauseAsked))
        assert (asked.by, asked.reason) == ("ann", "wait")


async def test_events_after_a_restart_of_the_runtime(tmp_path: Path) -> None:
    async with Runtime(tmp_path / "runs.db", agents=[speaker]) as runs:
        run = await runs.start(speaker, Count(), id="r1")
        seen = []
        async for event in run.events():
            if isinstance(event, TextDelta):
                continue
            seen.append(event)
            if isinstance(event, ev.CallStarted):
                break
    door.set()
    async with Runtime(tmp_path / "runs.db", agents=[speaker]) as runs:
        run = runs.handle("r1")
        rest = await all_events(run, after=seen[-1].seq)
        assert seqs(seen + rest) == list(range(1, len(seen) + len(rest) + 1))
        assert await all_events(run) == seen + rest


async def test_another_process_reads_along_through_kill_9(tmp_path: Path) -> None:
    """R28, R18: the reader is here, two drivers come and go elsewhere."""
    worker = Worker(tmp_path)
    (tmp_path / "setting.txt").write_text("given")
    seen: list[Any] = []

    async def read(runs: Runtime) -> None:
        async for event in runs.handle("r1").events():
            seen.append(event)

    try:
        await worker.until_waiting()
        async with Runtime(worker.store, drive=False) as runs:
            reading = asyncio.create_task(read(runs))
            await eventually(lambda: any(e.type == "call_started" and e.tool == "wait_for_door" for e in seen))
            worker.kill()
            (tmp_path / "door").touch()
            assert (await worker.drive())["status"] == "done"
            await asyncio.wait_for(reading, 20)
    finally:
        worker.kill()
    assert seqs(seen) == list(range(1, len(seen) + 1))
    claims = [e for e in seen if isinstance(e, ev.RunClaimed)]
    assert len(claims) == 2
    assert claims[1].taken_from == claims[0].driver


# --- slow readers ----------------------------------------------------------------------------------


async def test_a_slow_reader_does_not_slow_the_run_and_misses_nothing() -> None:
    """R28, R38: the run ends while the reader still holds its first event."""
    async with lab([counter]) as runs:
        run = await runs.start(counter, Count(to=300))
        stream = run.events()
        first = await anext(stream)
        assert await asyncio.wait_for(run.result(), 30) == 300  # nobody is reading
        rest = [e async for e in stream if not isinstance(e, TextDelta)]
        assert seqs([first, *rest]) == list(range(1, len(rest) + 2))


async def test_live_text_for_a_reader_that_never_reads_is_bounded() -> None:
    """A reader that stands still costs no memory without end; the durable text is whole."""
    async with lab([speaker]) as runs:
        run = await runs.start(speaker, Count(to=15_000))
        stream = run.events()
        await anext(stream)
        door.set()
        await run.result()
        deltas = [e async for e in stream if isinstance(e, TextDelta)]
        assert len(deltas) <= LIVE_BACKLOG
        (said,) = await run.transcript()
        assert said.text == "".join(f"w{i} " for i in range(15_000)) + "end"
        assert not said.partial


async def test_the_backlog_of_one_reader_has_an_end() -> None:
    hub = Hub()
    with hub.waiting("r1", steps=True) as reader:
        for offset in range(LIVE_BACKLOG + 5):
            hub.delta("r1", TextDelta("c", offset, "x"))
        assert len(reader.deltas) == LIVE_BACKLOG


# --- text --------------------------------------------------------------------------------------------


async def test_text_is_live_without_a_seq_and_durable_with_one() -> None:
    """R26, R28: token by token while it is said; (call, offset) places it, `seq` is only for flushed text."""
    begin.clear()
    async with lab([speaker]) as runs:
        run = await runs.start(speaker, Count(to=4))
        deltas: list[TextDelta] = []
        flushed: list[ev.TextFlushed] = []
        async for event in run.events():
            if isinstance(event, TextDelta):
                assert not hasattr(event, "seq")
                deltas.append(event)
                if len(deltas) == 4:
                    assert not flushed or flushed[0].text.startswith("w0")
                    door.set()
            elif isinstance(event, ev.CallStarted):
                begin.set()  # somebody is listening now
            elif isinstance(event, ev.TextFlushed):
                flushed.append(event)
        live = "".join(d.text for d in deltas)
        durable = "".join(f.text for f in flushed)
        assert live == durable == "w0 w1 w2 w3 end"
        for piece in (*deltas, *flushed):
            assert durable[piece.offset : piece.offset + len(piece.text)] == piece.text
        assert {d.call_id for d in deltas} == {f.call for f in flushed}


@tool(effect="read", kind="model")
async def speak_in_two_parts() -> str:
    say("first ")
    spoken.set()
    await begin.wait()
    say("second ")
    await door.wait()
    return "said"


@agent("two parts")
async def two_parts(run: Run[Count]) -> Done[str]:
    return Done(await run.call(speak_in_two_parts()))


@pytest.mark.parametrize("after", [0, 1])
async def test_a_reader_that_joins_in_the_middle_of_a_text_sees_no_gap(
    monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    """R26, R28: the record tells the text so far first; live text waits for it."""
    monkeypatch.setattr(voice, "FLUSH_SECONDS", 3600.0)
    begin.clear()
    async with lab([two_parts]) as runs:
        run = await runs.start(two_parts, Count())
        from_the_start = run.events()
        async for event in from_the_start:
            if isinstance(event, TextDelta):
                break
        await spoken.wait()
        joining = run.events(after)
        seen = [await anext(joining)]

        async def read_on() -> None:
            seen.extend([event async for event in joining])

        reading = asyncio.create_task(read_on())
        begin.set()
        async for event in from_the_start:
            if isinstance(event, TextDelta) and event.text == "second ":
                break
        await asyncio.sleep(0.05)  # time to do wrong: the other reader is shown what this one was
        door.set()
        await asyncio.wait_for(reading, 10)
        text = ""
        for event in seen:
            if isinstance(event, TextDelta | ev.TextFlushed):
                assert event.offset <= len(text), f"{event} leaves a gap after {text!r}"
                text = text[: event.offset] + event.text
        assert text == "first second "


async def test_progress_is_an_event() -> None:
    async with lab([speaker]) as runs:
        door.set()
        run = await runs.start(speaker, Count(to=1))
        await run.result()
        (told,) = [e for e in await all_events(run) if isinstance(e, ev.CallProgress)]
        assert (told.fraction, told.text) == (0.5, "half way")


# --- the union ------------------------------------------------------------------------------------------


def test_every_event_of_the_union_has_a_type_of_its_own() -> None:
    members = get_args(get_args(ev.Event)[0])
    names = [m.__dataclass_fields__["type"].default for m in members]
    assert len(set(names)) == len(names) > 30


async def test_events_are_plain_values_that_survive_json() -> None:
    async with lab([counter]) as runs:
        run = await runs.start(counter, Count())
        for event in await all_events(run):
            plain = ev.plain(event)
            assert plain["seq"] == event.seq
            (again,) = ev.decode(to_json([plain]))
            assert again == event


def narrowed(event: ev.RunDone | ev.RunFailed | TextDelta) -> str:
    """The union can be told apart by a checker."""
    if isinstance(event, ev.RunDone):
        return "done"
    if isinstance(event, ev.RunFailed):
        return "failed"
    if isinstance(event, TextDelta):
        return "text"
    assert_never(event)


# --- all runs -----------------------------------------------------------------------------------------


async def test_runs_events_shows_every_run_from_now_on_each_by_its_name() -> None:
    async with lab([counter]) as runs:
        old = await runs.start(counter, Count(to=1), labels={"team": "a"})
        await old.result()
        seen: list[Any] = []

        async def read() -> None:
            async for event in runs.events():
                seen.append(event)

        reading = asyncio.create_task(read())
        await asyncio.sleep(0.05)
        one = await runs.start(counter, Count(to=2))
        two = await runs.start(counter, Count(to=3))
        await eventually(lambda: sum(isinstance(e, ev.RunDone) for e in seen) == 2)
        reading.cancel()
        for run in (one, two):
            mine = [e for e in seen if e.run == run.id]
            assert seqs(mine) == list(range(1, len(mine) + 1))
        assert not [e for e in seen if e.run == old.id]


async def test_runs_events_by_label() -> None:
    async with lab([counter]) as runs:
        seen: list[Any] = []

        async def read() -> None:
            async for event in runs.events(labels={"team": "a"}):
                seen.append(event)

        reading = asyncio.create_task(read())
        await asyncio.sleep(0.05)
        mine = await runs.start(counter, Count(to=2), labels={"team": "a", "x": "y"})
        other = await runs.start(counter, Count(to=2), labels={"team": "b"})
        await asyncio.gather(mine.result(), other.result())
        await eventually(lambda: any(isinstance(e, ev.RunDone) for e in seen))
        reading.cancel()
        assert {e.run for e in seen} == {mine.id}


async def test_runs_events_from_another_process(tmp_path: Path) -> None:
    """R28: a control-only process that is open before the store exists sees the first event of the first run."""
    worker = Worker(tmp_path)
    (tmp_path / "setting.txt").write_text("given")
    seen: list[Any] = []

    async def read(runs: Runtime) -> None:
        async for event in runs.events():
            seen.append(event)

    try:
        async with Runtime(worker.store, drive=False) as runs:
            reading = asyncio.create_task(read(runs))
            await worker.until_waiting()
            await eventually(lambda: any(getattr(e, "tool", "") == "wait_for_door" for e in seen))
            reading.cancel()
    finally:
        worker.kill()
    assert seqs(seen) == list(range(1, len(seen) + 1))
    assert {e.run for e in seen} == {"r1"}
