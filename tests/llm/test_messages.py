"""Messages to an LLMAgent: answered as frames of their own, by priority, with a return aloud (R19-R23)."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import Any

import pytest
from pydantic import BaseModel
from tests.helpers import eventually, held

from standfast import LLMAgent, Runtime, models, tool
from standfast.models import use
from standfast.testing import Lab, lab


class Found(BaseModel):
    n: int


class World:
    """A tool that waits for the test."""

    def __init__(self) -> None:
        self.begun: asyncio.Queue[str] = asyncio.Queue()
        self.doors: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)


world = World()


@pytest.fixture(autouse=True)
async def fresh() -> None:
    vars(world).update(vars(World()))


@tool(effect="read")
async def dig(what: str) -> str:
    world.begun.put_nowait(what)
    await world.doors[what].wait()
    return f"{what}: found"


PLAN = use("update_plan", items=[{"title": "dig", "status": "running"}, {"title": "write"}])


def agent_of(*lines: Any, **more: Any) -> Any:
    return LLMAgent("digger", model=models.scripted(*lines, **more), tools=[dig])


def contents(log: Any, role: str) -> list[str]:
    return [m["content"] for m in log if m["role"] == role]


async def replies(run: Any) -> list[Any]:
    return [e async for e in run.events() if e.type == "replied"]


async def digging(runs: Lab, one: Any, task: str) -> Any:
    """A run in the middle of its first dig."""
    run = await runs.start(one, task)
    await asyncio.wait_for(world.begun.get(), 10)
    return run


async def digging_coal_for_a_message(runs: Lab, one: Any) -> Any:
    """A run that has put its gold on hold."""
    run = await digging(runs, one, "Dig gold.")
    await run.message("Coal, please")
    world.doors["gold"].set()
    assert await asyncio.wait_for(world.begun.get(), 10) == "coal"
    return run


async def test_a_message_is_answered_after_the_step_and_the_task_goes_on_aloud() -> None:
    """R19, R20, R22"""
    one = agent_of(PLAN, use("dig", what="gold"), "Nearly there.", "All done.")
    async with lab([one]) as runs:
        run = await digging(runs, one, "Dig and write.")
        answer = await run.message("How far are you?", by="ann")
        assert answer and "after this step" in answer.note
        world.doors["gold"].set()
        assert await run.result(timeout=120) == "All done."
        (reply,) = await replies(run)
        assert (reply.text, reply.mail) == ("Nearly there.", answer.mail)
        log = (await run.state()).log
        heard = contents(log, "user")
        assert heard[1].startswith("Message from ann (claimed): How far are you?")
        assert "On hold meanwhile: Dig and write." in heard[1]
        assert heard[2] == "(back to Dig and write.: at step 1 of 2. Go on.)"
        assert [(m.status, m.kind) for m in (await run.view()).mail] == [("consumed", "message")]


async def test_a_message_for_now_cuts_the_model_and_is_answered_first() -> None:
    """R19, R23: what the model had said is kept, and it is told that it was interrupted."""
    one = agent_of("once upon a time " * 2000, "Yes?", "The end.", delay=0.005)
    async with Runtime(":memory:", agents=[one]) as runs:
        run = await runs.start(one, "Tell a story.")
        await eventually(lambda: _said(run, "once upon"))
        answer = await run.message("Are you there?", when="now")
        assert answer.note == "now"
        assert await run.result(timeout=120) == "The end."
        (reply,) = await replies(run)
        assert reply.text == "Yes?"
        log = (await run.state()).log
        assert [m["role"] for m in log] == ["user", "assistant", "user", "assistant", "user", "assistant"]
        assert log[1]["content"].endswith("(I was interrupted here.)")
        assert log[4]["content"] == "(back to Tell a story.. Go on.)"


async def test_a_message_for_now_among_tools_leaves_each_with_a_truthful_result() -> None:
    one = agent_of(use("dig", what="gold"), "Here I am.", use("dig", what="gold"), "Done.")
    async with lab([one]) as runs:
        run = await digging(runs, one, "Dig.")
        await run.message("Where are you?", when="now")
        await eventually(lambda: _replied(run))
        await asyncio.wait_for(world.begun.get(), 10)
        world.doors["gold"].set()
        assert await run.result(timeout=120) == "Done."
        first, second = contents((await run.state()).log, "tool")
        assert first.startswith("not executed: a message came that is answered first")
        assert second == "gold: found"


async def test_a_message_for_later_is_answered_before_the_end() -> None:
    """R22: it is neither dropped nor does it change the result."""
    one = agent_of(use("dig", what="gold"), "Found it.", "You are welcome.")
    async with lab([one]) as runs:
        run = await digging(runs, one, "Dig.")
        answer = await run.message("Thank you", when="later")
        assert answer.note.startswith("later: when nothing else is on the stack")
        world.doors["gold"].set()
        assert await run.result(timeout=120) == "Found it."
        (reply,) = await replies(run)
        assert reply.text == "You are welcome."


async def test_a_result_that_is_none_is_a_result_too() -> None:
    one = LLMAgent("one", model=models.scripted(use("final_result", result=None), "Hello."), result=Found | None)
    async with lab([one]) as runs:
        run = await runs.start(one, "Is there one?")
        await run.message("Hello?", when="later")
        assert await run.result(timeout=120) is None
        assert [reply.text for reply in await replies(run)] == ["Hello."]


@pytest.mark.parametrize("text", ["", " \n "])
async def test_a_message_without_words_is_answered_like_any_other(text: str) -> None:
    """R22: it may carry data; it must not stand in the way of the run."""
    one = agent_of(use("dig", what="gold"), "Seen.", "All done.")
    async with lab([one]) as runs:
        run = await digging(runs, one, "Dig.")
        await run.message(text, data={"file": 7})
        world.doors["gold"].set()
        assert await run.result(timeout=120) == "All done."
        assert [reply.text for reply in await replies(run)] == ["Seen."]


async def test_a_message_that_was_put_on_hold_for_the_task_is_answered_after_it() -> None:
    """R22: the task's end does not leave it behind."""
    one = agent_of(use("dig", what="gold"), use("dig", what="silver"), "All done.", "Nearly there.")
    async with lab([one]) as runs:
        run = await digging(runs, one, "Dig.")
        await run.message("How far are you?")
        world.doors["gold"].set()
        await asyncio.wait_for(world.begun.get(), 10)
        assert await run.return_to("Dig.")
        world.doors["silver"].set()
        assert await run.result(timeout=120) == "All done."
        assert [reply.text for reply in await replies(run)] == ["Nearly there."]
        assert contents((await run.state()).log, "user")[-1] == "(back to How far are you?. Go on.)"


async def test_a_message_that_comes_with_the_last_word_is_answered_too() -> None:
    one = agent_of("The end. " * 200, "Good bye.", delay=0.002)
    async with Runtime(":memory:", agents=[one]) as runs:
        run = await runs.start(one, "Say something.")
        await eventually(lambda: _said(run, "The end"))
        await run.message("Good bye")
        assert (await run.result(timeout=120)).startswith("The end.")
        assert [r.text for r in await replies(run)] == ["Good bye."]


async def test_what_is_on_hold_is_named_by_the_runtime_in_the_reply() -> None:
    """R22: never left to the model."""
    one = agent_of(use("dig", what="gold"), ("Wait.", use("dig", what="coal")), "Now.", "Next.", "Done.")
    async with lab([one]) as runs:
        run = await digging_coal_for_a_message(runs, one)
        await run.message("Now what?", when="now")
        await eventually(lambda: _replied(run))
        world.doors["coal"].set()
        await run.result(timeout=120)
        first, second = await replies(run)
        assert first.text == "Now."
        assert [line.split(",")[0] for line in first.lines] == ["Back to Coal", "On hold: Dig gold."]
        assert second.text == "Next."
        said = [s.text for s in await run.transcript() if s.call == "reply"]
        assert "On hold: Dig gold." in said[0]


async def test_a_full_stack_holds_a_message_and_gives_it_later() -> None:
    """R21, R22"""
    one = LLMAgent("digger", model=models.scripted(use("dig", what="gold"), "Done.", "Yes?"), tools=[dig], max_frames=1)
    async with lab([one]) as runs:
        run = await digging(runs, one, "Dig.")
        answer = await run.message("Hello?")
        assert "the stack is full (1 of 1)" in answer.note
        world.doors["gold"].set()
        assert await run.result(timeout=120) == "Done."
        assert [r.text for r in await replies(run)] == ["Yes?"]


async def test_a_redirect_that_begins_the_task_again_leaves_room_for_the_message_read_with_it() -> None:
    """R21, R22: also where one frame is all that is allowed."""
    model = models.scripted(use("dig", what="gold"), "Nearly there.", "All done.")
    one = LLMAgent("digger", model=model, tools=[dig], max_frames=1)
    async with lab([one]) as runs:
        run = await digging(runs, one, "Dig.")
        await run.pause()
        await held(run, "user")
        await run.abandon("Dig.", "no more of it")
        await run.message("How far are you?", when="now")
        await run.redirect("fill it in again")
        await run.resume()
        assert await run.result(timeout=120) == "All done."
        assert [reply.text for reply in await replies(run)] == ["Nearly there."]


async def test_a_frame_that_was_held_too_long_comes_back_as_a_reconstruction() -> None:
    """R21"""
    one = agent_of(use("dig", what="gold"), use("dig", what="coal"), "Coal is there.", "Done.")
    async with lab([one]) as runs:
        run = await digging_coal_for_a_message(runs, one)
        await runs.clock.advance(3600)
        world.doors["coal"].set()
        await run.result(timeout=120)
        told = contents((await run.state()).log, "user")[-1]
        assert "reconstruction of Dig gold., not a continuation: held 1 h" in told


async def test_a_person_gives_a_thought_up_and_the_model_is_told() -> None:
    """R22"""
    one = agent_of(use("dig", what="gold"), use("dig", what="coal"), "Back at it.")
    async with lab([one]) as runs:
        run = await digging_coal_for_a_message(runs, one)
        await run.pause()
        await held(run, "user")
        assert [f["goal"] for f in (await run.view()).frames] == ["Dig gold.", "Coal, please"]
        assert await run.abandon("Coal, please", "nobody wants coal", by="ann")
        world.doors["coal"].set()
        await run.resume()
        assert await run.result(timeout=120) == "Back at it."
        told = contents((await run.state()).log, "user")[-1]
        assert told == "('Coal, please' was given up: nobody wants coal. Now: back to Dig gold..)"


async def test_messages_survive_kill_9_at_every_point() -> None:
    one = agent_of(use("dig", what="gold"), "Yes?", "Done.")
    for point in ("admitted", "performed", "recorded"):
        vars(world).update(vars(World()))
        async with lab([one]) as runs:
            run = await digging(runs, one, "Dig.")
            await run.message("Hello?")
            world.doors["gold"].set()
            await runs.until(run, call="scripted", point=point)  # type: ignore[arg-type]
            await runs.crash()
            assert await run.result(timeout=120) == "Done."
            assert [r.text for r in await replies(run)] == ["Yes?"]


async def test_what_frames_on_hold_cost_is_shown() -> None:
    """R23"""
    one = agent_of(use("dig", what="gold"), use("dig", what="coal"), "Coal.", "Done.")
    async with lab([one]) as runs:
        run = await digging_coal_for_a_message(runs, one)
        task, _ = (await run.view()).frames
        assert task["status"] == "held" and task["tokens"] > 0
        await run.cancel()


async def _said(run: Any, words: str) -> bool:
    return any(words in said.text for said in await run.transcript())


async def _replied(run: Any) -> bool:
    return any(said.call == "reply" for said in await run.transcript())
