"""What set a stop off is recorded, and what looked suspicious is marked where it was said (R30, R31)."""

import asyncio
from typing import Any, cast

import pytest
from tests.cancel.support import LIMIT, Nothing, cancelled, of_kind
from tests.helpers import eventually

from standfast import Accepted, Done, Handle, Mark, Misuse, Run, Runtime, agent, child, say, tool
from standfast import events as ev
from standfast.records import Trigger

WORDS = "one two three "


@tool(effect="read", kind="model")
async def talk() -> None:
    say(WORDS)
    await asyncio.sleep(60)


@agent("talker")
async def talker(run: Run[Nothing]) -> Done[str]:
    await run.call(talk())
    return Done("never")


@agent("above")
async def above(run: Run[Nothing]) -> Done[str]:
    await run.call(child(talker, Nothing()))
    return Done("never")


async def speaking(run: Handle[Any]) -> str:
    """The id of the call that has said something, once the record has it."""

    async def look() -> str:
        return next((one.call for one in await run.transcript() if one.text == WORDS), "")

    return await eventually(look, timeout=LIMIT)


@pytest.mark.parametrize("trigger", ["api", "button", "key", "terminal", "operator", "tripwire"])
async def test_a_stop_says_what_set_it_off(db: str, trigger: Trigger) -> None:
    """R31: in the event and in the receipt, of a pause as of a cancel."""
    async with Runtime(db, agents=[talker]) as runs:
        run = await runs.start(talker, Nothing())
        await speaking(run)
        assert await run.pause(trigger=trigger)
        assert (await run.settled(timeout=LIMIT)).trigger == trigger
        receipt = await cancelled(run, by="ann", trigger=trigger)
        assert receipt.trigger == trigger
        assert [e.trigger for e in await of_kind(run, ev.PauseAsked)] == [trigger]
        assert [e.trigger for e in await of_kind(run, ev.CancelAsked)] == [trigger]


async def test_a_trigger_that_does_not_exist_stops_nothing(db: str) -> None:
    async with Runtime(db, agents=[talker]) as runs:
        run = await runs.start(talker, Nothing())
        with pytest.raises(Misuse, match="trigger='mood'"):
            await run.cancel(trigger=cast("Trigger", "mood"))
        assert (await run.view()).status in ("queued", "running")


async def test_a_child_was_stopped_by_its_parent(db: str) -> None:
    """R31: what a person pressed stopped the run that they saw; its child went with it."""
    async with Runtime(db, agents=[above, talker]) as runs:
        run = await runs.start(above, Nothing())

        async def below() -> list[str]:
            return [view.id for view in await runs.list() if view.parent == run.id]

        [id_] = await eventually(below, timeout=LIMIT)
        await speaking(runs.handle(id_))
        assert (await cancelled(run, trigger="button")).trigger == "button"
        assert (await runs.handle(id_).settled(timeout=LIMIT)).trigger == "parent"


async def test_a_suspicious_stop_marks_the_transcript_where_somebody_had_read(db: str) -> None:
    """R30: the mark stands in the record, in the receipt, and in what was said."""
    async with Runtime(db, agents=[talker]) as runs:
        run = await runs.start(talker, Nothing())
        call = await speaking(run)
        receipt = await cancelled(run, by="ann", reason="leaks", trigger="key", suspicious=Mark(call, 7))
        assert receipt.marks == (Mark(call, 7),)
        [said] = await run.transcript()
        assert (said.text, said.marks) == (WORDS, (7,))
        [mark] = await of_kind(run, ev.OutputSuspected)
        assert (mark.by, mark.reason, mark.trigger, mark.call, mark.offset) == ("ann", "leaks", "key", call, 7)
        assert [e.suspicious for e in await of_kind(run, ev.CancelAsked)] == [True]


async def test_without_a_place_the_mark_is_where_the_record_ends(db: str) -> None:
    """R30"""
    async with Runtime(db, agents=[talker]) as runs:
        run = await runs.start(talker, Nothing())
        call = await speaking(run)
        assert (await cancelled(run, suspicious=True)).marks == (Mark(call, len(WORDS)),)


async def test_a_run_that_said_nothing_is_suspicious_without_a_place(db: str) -> None:
    async with Runtime(db, agents=[talker]) as runs:
        run = await runs.start(talker, Nothing(), deadline=None)
        await run.pause()
        await run.settled(timeout=LIMIT)
    async with Runtime(db, drive=False) as control:  # nobody drives the fork, so it cannot say anything
        fork = await control.handle(run.id).fork(0)
        assert await fork.pause()
        assert await fork.cancel(suspicious=True)
        [mark] = await of_kind(fork, ev.OutputSuspected)
        assert (mark.call, mark.offset) == (None, 0)


async def test_a_plain_cancel_marks_nothing(db: str) -> None:
    async with Runtime(db, agents=[talker]) as runs:
        run = await runs.start(talker, Nothing())
        await speaking(run)
        assert (await cancelled(run)).marks == ()
        assert await of_kind(run, ev.OutputSuspected) == []


@tool(effect="write", grace=1.0)
async def slow() -> None:
    say(WORDS)
    await asyncio.sleep(1.0)


@agent("slow")
async def slow_agent(run: Run[Nothing]) -> Done[str]:
    await run.call(slow())
    return Done("never")


async def test_the_second_of_two_cancels_can_still_mark_what_was_said(db: str) -> None:
    """R30: the run is being cancelled already; what somebody else saw in it is recorded all the same."""
    async with Runtime(db, agents=[slow_agent]) as runs:
        run = await runs.start(slow_agent, Nothing())
        call = await speaking(run)
        assert await run.cancel(by="ann")
        assert isinstance(await run.cancel(by="bob", suspicious=Mark(call, 3)), Accepted)
        receipt = await run.settled(timeout=LIMIT)
        assert (receipt.by, receipt.marks) == ("ann", (Mark(call, 3),))
        assert [e.by for e in await of_kind(run, ev.OutputSuspected)] == ["bob"]
        [said] = await run.transcript()
        assert said.marks == (3,)


@pytest.mark.parametrize("place", [Mark("talk", -1), "here", 3])
async def test_a_mark_that_is_no_place_stops_nothing(db: str, place: Any) -> None:
    async with Runtime(db, agents=[talker]) as runs:
        run = await runs.start(talker, Nothing())
        with pytest.raises(Misuse):
            await run.cancel(suspicious=place)
        assert (await run.view()).status in ("queued", "running")
