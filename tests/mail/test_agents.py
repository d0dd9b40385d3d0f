"""Redirects of an agent: pending until read, never lost, never silently ignored (R5)."""

from __future__ import annotations

from pathlib import Path

from tests.helpers import eventually
from tests.mail.world import Task, World, a_world, clerk, closed, deaf, listener, mail, obedient, status, writer

from standfast import Accepted, Refused, Runtime, TooLate


async def test_now_sets_the_step_back_and_it_is_taken_again_with_the_text() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(listener, Task(steps=1))
        await eventually(lambda: "think 0: " in world.log)
        answer = await run.redirect("shorter", by="ann")
        assert isinstance(answer, Accepted) and answer.mail
        await eventually(lambda: "think 0: shorter" in world.log)
        (item,) = await mail(run)
        assert (item.status, item.by, item.id) == ("pending", "ann", answer.mail)  # read, but no boundary yet
        world.open.set()
        assert await run.result(timeout=120) == [["shorter"]]
        (item,) = await mail(run)
        assert (item.status, item.step) == ("consumed", 0)


async def test_next_waits_for_the_next_step() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(listener, Task(steps=2))
        await eventually(lambda: "think 0: " in world.log)
        answer = await run.redirect("louder", when="next")
        assert answer and answer.note == "after this step"
        world.open.set()
        assert await run.result(timeout=120) == [[], ["louder"]]
        assert world.log == ["think 0: ", "think 1: louder"]
        assert [(m.status, m.step) for m in await mail(run)] == [("consumed", 1)]


async def test_two_redirects_are_both_read_in_order() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(listener, Task(steps=1))
        await eventually(lambda: "think 0: " in world.log)
        await run.redirect("a")
        await run.redirect("b")
        await eventually(lambda: "think 0: a, b" in world.log)
        world.open.set()
        assert await run.result(timeout=120) == [["a", "b"]]


async def test_a_request_sent_twice_is_one_redirect() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(listener, Task(steps=1))
        first = await run.redirect("a", request_id="r1")
        again = await run.redirect("a", request_id="r1")
        assert first == again
        world.open.set()
        assert await run.result(timeout=120) == [["a"]]


async def test_sent_before_anybody_drives_the_run_it_is_read_in_the_first_step(tmp_path: Path) -> None:
    world = World()
    world.open.set()
    store = tmp_path / "runs.db"
    async with Runtime(store, agents=[listener], provide={World: world}):
        pass  # its contract is known now
    async with Runtime(store, drive=False) as runs:
        run = await runs.start("listener", {"steps": 2})
        answer = await run.redirect("early")
        assert answer and "starts" in answer.note
        assert [m.status for m in await mail(run)] == ["pending"]
    async with Runtime(store, agents=[listener], provide={World: world}) as runs:
        assert await runs.handle(run.id).result(timeout=120) == [["early"], []]
        assert [(m.status, m.step) for m in await mail(runs.handle(run.id))] == [("consumed", 0)]


async def test_sent_while_paused_in_mid_step_the_step_is_taken_again_on_resume() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(listener, Task(steps=2))
        await eventually(lambda: "think 0: " in world.log)
        await run.pause()
        await status(run, "paused")
        answer = await run.redirect("later")
        assert answer and "resumed" in answer.note
        assert [m.status for m in await mail(run)] == ["pending"]
        assert "later" in (await run.view()).changed
        await run.resume()
        await eventually(lambda: "think 0: later" in world.log)
        world.open.set()
        assert await run.result(timeout=120) == [["later"], []]


async def test_pending_mail_survives_a_crash() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(listener, Task(steps=2))
        await eventually(lambda: "think 0: " in world.log)
        await run.redirect("kept", when="next")
        await runs.crash()
        world.open.set()
        assert await run.result(timeout=120) == [[], ["kept"]]


async def test_mail_read_in_a_step_that_crashed_is_read_again_and_new_mail_waits() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(listener, Task(steps=2))
        await eventually(lambda: "think 0: " in world.log)
        await run.redirect("first")
        await eventually(lambda: "think 0: first" in world.log)
        await run.redirect("second", when="next")
        await runs.crash()
        await eventually(lambda: world.log.count("think 0: first") == 2)
        world.open.set()
        assert await run.result(timeout=120) == [["first"], ["second"]]


async def test_a_message_that_comes_in_mid_step_does_not_change_the_step_when_it_is_repeated() -> None:
    """A repeated step gets what it got before, also when that was nothing (R5)."""
    async with a_world() as (runs, world):
        run = await runs.start(clerk, Task(steps=2))
        await eventually(lambda: "think 0: " in world.log)
        answer = await run.message("hello")
        assert answer and answer.note == "after this step"
        await runs.crash()
        await eventually(lambda: len(world.log) > 1)
        world.open.set()
        assert await run.result(timeout=120) == [[], ["hello"]]
        assert world.log == ["think 0: ", "think 0: ", "think 1: hello"]


async def test_a_message_for_now_sets_the_step_back_and_is_read_at_its_first_reading() -> None:
    """R19, R23: the thought in flight is cut as on a pause; what can wait still waits."""
    async with a_world() as (runs, world):
        run = await runs.start(clerk, Task(steps=2))
        await eventually(lambda: "think 0: " in world.log)
        await run.message("hello")
        answer = await run.message("quick", when="now")
        assert answer and answer.note == "now"
        await eventually(lambda: "think 0: quick" in world.log)
        world.open.set()
        assert await run.result(timeout=120) == [["quick"], ["hello"]]
        assert world.log == ["think 0: ", "think 0: quick", "think 1: hello"]


async def test_nothing_read_is_remembered_in_every_step() -> None:
    """The boundary of one step and what the next step read share a commit; each keeps its own."""
    async with a_world() as (runs, world):
        open_again = world.shut_at("think 1: ")
        run = await runs.start(clerk, Task(steps=3))
        await eventually(lambda: "think 1: " in world.log)
        await run.message("hello")
        await runs.crash()
        await eventually(lambda: len(world.log) > 2)
        open_again.set()
        assert await run.result(timeout=120) == [[], [], ["hello"]]
        assert world.log == ["think 0: ", "think 1: ", "think 1: ", "think 2: hello"]


async def test_in_the_last_step_of_a_run_that_reads_mail_it_gets_one_more_turn() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(listener, Task(steps=1))
        await eventually(lambda: "think 0: " in world.log)
        await run.redirect("a")
        await eventually(lambda: "think 0: a" in world.log)
        await run.redirect("b", when="next")
        world.open.set()
        assert await run.result(timeout=120) == [["a"], ["b"]]
        assert [(m.text, m.status, m.step) for m in await mail(run)] == [("a", "consumed", 0), ("b", "consumed", 1)]


async def test_a_pause_in_the_last_step_does_not_take_the_turn_that_mail_is_owed() -> None:
    async with a_world() as (runs, world):
        last = world.shut_at("write 1: a")
        first = world.shut_at("write 0: ")
        run = await runs.start(writer, Task(steps=2))
        await eventually(lambda: "write 0: " in world.log)
        await run.redirect("a", when="next")
        first.set()
        await eventually(lambda: "write 1: a" in world.log)
        await run.redirect("b", when="next")
        await run.pause()
        last.set()
        view = await status(run, "paused", "done")
        assert (view.status, view.step) == ("paused", 2)
        assert [m.status for m in view.mail] == ["consumed", "pending"]
        await run.resume()
        assert await run.result(timeout=120) == [[], ["a"], ["b"]]


async def test_instruction_is_the_same_whenever_it_is_read() -> None:
    async with a_world() as (runs, world):
        world.open.set()
        run = await runs.start(obedient, Task())
        await eventually(lambda: "think begin" in world.log)
        await run.result(timeout=120)
        held = world.shut_at("think begin")
        run = await runs.start(obedient, Task())
        await eventually(lambda: world.log.count("think begin") == 2)
        await run.redirect("be quick")
        held.set()
        assert await run.result(timeout=120) == ["be quick", "be quick"]


async def test_a_run_that_never_reads_gives_the_mail_back_with_a_reason() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(deaf, Task())
        await eventually(lambda: world.log)
        await run.redirect("hello?", when="next")
        world.open.set()
        assert await run.result(timeout=120) == "did not look"
        (item,) = await mail(run)
        assert (item.status, item.reason) == ("returned", "ended without reading it")


async def test_cancel_gives_pending_mail_back() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(listener, Task())
        await eventually(lambda: world.log)
        await run.redirect("x", when="next")
        await run.cancel()
        await run.settled(10)
        assert [(m.status, m.reason) for m in await mail(run)] == [("returned", "cancelled")]
        assert isinstance(await run.redirect("y"), TooLate)


async def test_now_during_a_long_write_is_pending_and_says_what_it_waits_for() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(writer, Task(steps=1))
        await eventually(lambda: "write 0: " in world.log)
        first = await run.redirect("a")
        assert first and "waiting for write" in first.note
        second = await run.redirect("b")  # joins the same new attempt
        assert second and "waiting for write" in second.note
        assert [m.status for m in await mail(run)] == ["pending", "pending"]
        assert "write" in (await run.view()).waiting_for
        world.open.set()
        assert await run.result(timeout=120) == [["a", "b"]]
        assert world.log == ["write 0: ", "write 0: a, b"]  # both stand: the first had finished


async def test_now_during_a_long_write_leaves_pause_and_cancel_possible() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(writer, Task(steps=1))
        await eventually(lambda: "write 0: " in world.log)
        await run.redirect("a")
        assert await run.pause()
        assert (await run.view()).status == "pausing"
        world.open.set()
        await status(run, "paused")
        assert [m.status for m in await mail(run)] == ["pending"]
        await run.resume()
        assert await run.result(timeout=120) == [["a"]]

        world.open.clear()
        run = await runs.start(writer, Task(steps=1))
        await eventually(lambda: world.log.count("write 0: ") == 2)
        await run.redirect("a")
        assert await run.cancel()
        receipt = await run.settled(10)
        assert [u.outcome for u in receipt.undone] == ["undone"]
        assert [(m.status, m.reason) for m in await mail(run)] == [("returned", "cancelled")]


async def test_an_agent_that_takes_no_redirects_refuses_them() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(closed, Task())
        await eventually(lambda: world.log)
        assert isinstance(await run.redirect("x"), Refused)
        assert isinstance(await run.redirect("x", from_step=0), Refused)
        assert await mail(run) == []
        world.open.set()
        assert await run.result(timeout=120) == "never asked"
