"""A stop that holds is asked for again and again: it is never refused, and fills no disk (R34)."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from pydantic import BaseModel
from tests.core.looking import events_of, status_is
from tests.core.sending import paused_before_step_one, sender, world
from tests.helpers import eventually

from standfast import Accepted, Run, Runtime, agent, tool
from standfast import events as ev
from standfast.control import MOST_AGAIN
from standfast.records import Mark
from standfast.stores import sqlite_processes
from standfast.testing import lab
from standfast.verbs.cancelling import MOST_MARKS

pytestmark = pytest.mark.usefixtures("fresh_worlds")
LIMIT = 60.0


class Nothing(BaseModel):
    pass


async def test_a_pause_that_holds_is_accepted_for_ever_and_written_a_few_times_an_actor() -> None:
    async with lab([sender]) as runs:
        run = await paused_before_step_one(runs)
        before = (await run.view()).seq
        for n in range(20):
            said = await run.pause(by="mallory", reason=f"again {n}", request_id=f"m{n}")
            assert isinstance(said, Accepted)
        assert (await run.view()).seq == before + MOST_AGAIN
        assert said.note == "it is paused already"
        assert await run.pause(by="ann", reason="legal wants to look")
        last = (await events_of(run, ev.PauseAsked))[-1]
        assert (last.by, last.reason) == ("ann", "legal wants to look")  # another's flood leaves room for hers


async def test_request_ids_of_what_changes_nothing_are_not_kept_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_processes, "MOST_IDLE", 20)
    async with lab([sender]) as runs:
        run = await paused_before_step_one(runs)
        assert await run.edit({"items": ["a", "b"]}, by="ann", request_id="changed it")
        for n in range(250):
            assert await run.pause(by="mallory", request_id=f"m{n}")
        await run.cancel()
        await run.settled()
        for n in range(250):
            assert not await run.cancel(by="mallory", request_id=f"late{n}")
        kept = runs.read(lambda tx: [n for n in range(250) if tx.answered(f"late{n}") is not None])
        assert 20 <= len(kept) <= 120 and kept[-1] == 249, "the newest are kept"
        assert runs.read(lambda tx: tx.answered("changed it")) is not None, "what changed something is kept for ever"
        assert runs.read(lambda tx: [n for n in range(MOST_AGAIN, 250) if tx.answered(f"m{n}")]) == []


async def test_after_a_resume_a_pause_is_a_new_one() -> None:
    async with lab([sender]) as runs:
        run = await paused_before_step_one(runs)
        for _ in range(MOST_AGAIN + 2):
            await run.pause(by="ann")
        before = len(await events_of(run, ev.PauseAsked))
        world.door.clear()
        await run.edit({"items": ["a", "z", "y"]})
        await run.resume()
        await eventually(lambda: "z" in world.sent)
        assert await run.pause(by="ann")
        world.door.set()
        await status_is(run, "paused")
        assert len(await events_of(run, ev.PauseAsked)) == before + 1


async def test_a_cancel_that_holds_is_accepted_for_ever_and_written_a_few_times_an_actor(tmp_path: Path) -> None:
    begun, may_end = threading.Event(), threading.Event()

    @tool(effect="write", grace=LIMIT)
    def send() -> None:
        begun.set()
        may_end.wait(LIMIT)

    @agent("slow")
    async def slow(run: Run[Nothing]) -> None:
        await run.call(send())

    async with Runtime(tmp_path / "runs.db", agents=[slow]) as runs:
        run = await runs.start(slow, Nothing())
        await eventually(begun.is_set)
        assert await run.cancel(by="ann", soft=True)
        for _ in range(20):
            assert await run.cancel(by="mallory", soft=True, undo="all")
        noted = await events_of(run, ev.VerbNoted)
        assert len(noted) == MOST_AGAIN
        harder = await run.cancel(by="mallory")
        assert isinstance(harder, Accepted)
        assert (
            "the soft cancel is hard now" in harder.note
        )  # what changes something is written, however many went before
        assert len(await events_of(run, ev.VerbNoted)) == MOST_AGAIN + 1
        for n in range(MOST_MARKS + 10):
            said = await run.cancel(by="mallory", suspicious=Mark("some-call", n))
            assert isinstance(said, Accepted)
        assert f"{MOST_MARKS} places are marked" in said.note
        assert len(await events_of(run, ev.OutputSuspected)) == MOST_MARKS
        may_end.set()
        await run.settled()


async def test_a_stop_that_changes_nothing_leaves_the_row_of_a_run_at_rest_alone() -> None:
    """R32: it is signed for, and changes only together with the record."""
    async with lab([sender]) as runs:
        run = await paused_before_step_one(runs)

        def stood() -> bytes | None:
            found = runs.read(lambda tx: tx.stood(tx.numbers([run.id])[0]))
            assert found is not None
            return found.side

        before = stood()
        assert before is not None
        assert not await run.pause(by="ann", if_seq=1, request_id="stale")
        assert stood() == before
        await run.cancel()
        await run.settled(timeout=LIMIT)
        before = stood()
        for n in range(5):
            assert not await run.cancel(by="ann", request_id=f"late {n}")
        assert stood() == before
