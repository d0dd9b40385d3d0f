"""Messages: acknowledged at once, by priority, held and not dropped (R19, R22, R23)."""

from __future__ import annotations

from typing import Any

from tests.frames.test_thoughts import interrupted
from tests.frames.world import Desk, a_world, asker, clerk, one_by_one, patient, said
from tests.helpers import eventually, held

from standfast import Accepted, Handle


async def note(run: Handle[Any], text: str, when: Any) -> str:
    answer = await run.message(text, when=when)
    assert isinstance(answer, Accepted) and answer.mail
    (received,) = [e for e in await said(run, "mail_received") if e.mail == answer.mail]
    assert received.disposition == answer.note  # the record says what the sender was told
    return answer.note


async def test_each_class_is_told_what_will_happen_to_it_and_why() -> None:
    """R19: now, after this step, later, held because the stack is full."""
    async with a_world() as (runs, world):
        gate = world.shut_at("think report 0")
        run = await runs.start(clerk, Desk())
        await eventually(lambda: "think report 0" in world.log)
        assert await note(run, "a", "next") == "after this step"
        assert await note(run, "b", "later") == "later: when nothing else is on the stack (report)"
        assert await note(run, "c", "now") == "now"
        gate.set()
        seen = await run.result(timeout=120)
        assert [s for s in seen if s.startswith("read")] == ["read c", "read a", "read b"]
        assert {m.status for m in (await run.view()).mail} == {"consumed"}


async def test_the_handling_of_a_message_is_not_interrupted_by_an_equal_one() -> None:
    """R23: "next" waits for "next"; "now" interrupts it."""
    async with a_world() as (runs, world):
        run, gate = await interrupted(runs, world, Desk(answers=2))
        assert await note(run, "second", "next") == "held: until 'answer hello', which came 'next', is finished"
        (waiting,) = [m for m in (await run.view()).mail if m.text == "second"]
        assert waiting.disposition == "held: until 'answer hello', which came 'next', is finished"
        assert await note(run, "quick", "now") == "now"
        gate.set()
        seen = await run.result(timeout=120)
        assert [s for s in seen if s.startswith("read")] == ["read quick", "read hello", "read second"]


async def test_next_does_not_interrupt_the_handling_of_now() -> None:
    async with a_world() as (runs, world):
        gate, urgent = world.shut_at("think report 0"), world.shut_at("think urgent 0")
        run = await runs.start(clerk, Desk(answers=2))
        await eventually(lambda: "think report 0" in world.log)
        await run.message("urgent", when="now")
        await eventually(lambda: "think urgent 0" in world.log)
        assert "'answer urgent', which came 'now'" in await note(run, "calm", "next")
        gate.set()
        urgent.set()
        seen = await run.result(timeout=120)
        assert [s for s in seen if s.startswith("read")] == ["read urgent", "read calm"]


async def test_a_message_that_finds_the_stack_full_is_held_and_read_later() -> None:
    """R19, R21: held, not dropped, with the names of what fills the stack."""
    async with a_world() as (runs, world):
        run, hello = await interrupted(runs, world, Desk(answers=2))
        hello.set()
        deep = world.shut_at("think deep 0")
        at = world.shut_at("think answer hello 1")
        await eventually(lambda: "think answer hello 1" in world.log)
        await run.message("deep", when="now")
        await eventually(lambda: "think deep 0" in world.log)
        full = "held: the stack is full (3 of 3): report, answer hello, answer deep"
        assert await note(run, "deeper", "now") == full
        assert world.log.count("think deep 0") == 1  # nothing was set back for it
        (waiting,) = [m for m in (await run.view()).mail if m.text == "deeper"]
        assert (waiting.status, waiting.disposition) == ("pending", full)
        at.set()
        deep.set()
        seen = await run.result(timeout=120)
        assert [s for s in seen if s.startswith("read")] == ["read hello", "read deep", "read deeper"]


async def test_what_frames_on_hold_cost_is_bounded() -> None:
    """R23: a message waits when the thoughts on hold would cost more than the cap."""
    async with a_world() as (runs, world):
        gate = world.shut_at("think report 0")
        run = await runs.start(clerk, Desk(tokens=1500))
        await eventually(lambda: "think report 0" in world.log)
        assert await note(run, "a", "now") == "held: frames on hold would cost 1500 tokens, the cap is 1000"
        gate.set()
        seen = await run.result(timeout=120)
        assert seen[-1] == "read a"  # the report was finished first


async def test_later_is_read_before_the_run_ends_although_it_read_no_mail_before() -> None:
    """R22: the runtime kept it back, so the run is owed a turn."""
    async with a_world() as (runs, world):
        gate = world.shut_at("think report 0")
        run = await runs.start(clerk, Desk(parts=2))
        await eventually(lambda: "think report 0" in world.log)
        await run.message("when you have time", when="later")
        gate.set()
        assert (await run.result(timeout=120))[-1] == "read when you have time"
        assert [(m.status, m.step) for m in (await run.view()).mail] == [("consumed", 2)]


async def test_now_cuts_the_thought_in_flight_and_finished_calls_keep_their_results() -> None:
    """The step is set back as by a redirect, but neither questions nor effects of it are void."""
    async with a_world() as (runs, world):
        run = await runs.start(asker, Desk())
        view = await held(run, "asks")
        assert world.log == ["send first"]
        assert await note(run, "by the way", "now") == "read when what it asks is answered"
        assert (await run.view()).holds == ("asks",)  # a message answers no question
        assert await run.answer(str(view.needs[0].call), "yes")
        assert await run.result(timeout=120) == ["by the way None", "first", "yes", "second"]
        assert world.log == ["send first", "send second"]


async def test_a_message_for_now_waits_for_a_write_in_flight() -> None:
    async with a_world() as (runs, world):
        gate = world.shut_at("send first")
        run = await runs.start(asker, Desk())
        await eventually(lambda: "send first" in world.log)
        assert await note(run, "quick", "now") == "waiting for send"
        gate.set()
        view = await held(run, "asks")
        assert await run.answer(str(view.needs[0].call), "no")
        assert (await run.result(timeout=120))[:2] == ["quick None", "first"]
        assert world.log == ["send first", "send second"]


async def test_an_idle_run_is_not_kept_busy_by_mail_that_waits() -> None:
    async with a_world() as (runs, _):
        run = await runs.start(patient, Desk())
        await held(run, "waiting")
        assert (await note(run, "some day", "later")).startswith("read when the run is resumed; then later:")
        view = await run.view()
        assert (view.status, view.holds) == ("paused", ("waiting",))
        await run.redirect("which it never reads")
        step = (await held(run, "waiting")).step
        assert step < 6
        assert await note(run, "go", "next") == "it wakes the run, which reads it next"
        assert await run.result(timeout=120) == ["go", "some day"]


async def test_mail_that_waited_for_a_step_is_read_after_a_rewind() -> None:
    async with a_world() as (runs, world):
        gate = world.shut_at("think report 2")
        run = await runs.start(clerk, Desk())
        await eventually(lambda: "think report 2" in world.log)
        await run.message("hello")  # for step 3
        await run.rewind(0)
        await held(run, "user")
        gate.set()
        await run.resume()
        await run.result(timeout=120)
        assert [(m.status, m.step) for m in (await run.view()).mail] == [("consumed", 0)]


async def test_messages_can_be_taken_one_by_one() -> None:
    """A run that reads its mail one by one gets as many turns as that takes."""
    async with a_world() as (runs, world):
        gate = world.shut_at("think first")
        run = await runs.start(one_by_one, Desk())
        await eventually(lambda: "think first" in world.log)
        for text in "abc":
            await run.message(text)
        await run.message("quick", when="now")
        gate.set()
        assert await run.result(timeout=120) == ["quick", *"abc"]
