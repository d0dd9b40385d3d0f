"""Redirect from an earlier step: what came after it is undone first (R5)."""

from __future__ import annotations

from tests.helpers import eventually
from tests.mail.world import Task, a_world, jotter, mail, report, status, writer

from standfast import Refused


async def test_from_step_undoes_that_step_and_later_ones_newest_first() -> None:
    async with a_world() as (runs, world):
        world.shut_at("think 2")
        run = await runs.start(jotter, Task(steps=3))
        await eventually(lambda: "think 2" in world.log)
        await run.pause()
        await status(run, "paused")
        answer = await run.redirect("again", from_step=1, by="ann")
        assert answer and answer.mail
        view = await status(run, "paused")
        assert [line for line in world.log if line.startswith("unwrite")] == ["unwrite 2: ", "unwrite 1: "]
        assert (view.step, view.epoch) == (1, 1)
        assert [m.status for m in await mail(run)] == ["pending"]
        world.shut_at("think 2").set()
        await run.resume()
        assert await run.result(timeout=120) == [[], ["again"], []]
        assert [(m.status, m.step) for m in await mail(run)] == [("consumed", 1)]


async def test_from_step_of_a_running_run_goes_on_by_itself() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(jotter, Task(steps=1))
        await eventually(lambda: "think 0" in world.log)
        assert await run.redirect("again", from_step=0)
        await eventually(lambda: "jot 0: again" in world.log)
        assert "unwrite 0: " in world.log
        world.open.set()
        assert await run.result(timeout=120) == [["again"]]


async def test_from_step_with_a_write_in_flight_undoes_it_when_it_has_ended() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(writer, Task(steps=1))
        await eventually(lambda: "write 0: " in world.log)
        answer = await run.redirect("again", from_step=0)
        assert answer and [ref.tool for ref in answer.in_flight] == ["write"]
        assert world.log == ["write 0: "]
        world.open.set()
        assert await run.result(timeout=120) == [["again"]]
        assert world.log == ["write 0: ", "unwrite 0: ", "write 0: again"]


async def test_from_step_by_the_id_of_a_plan_item() -> None:
    async with a_world() as (runs, world):
        last = world.shut_at("think Publish")
        run = await runs.start(report, Task())
        await eventually(lambda: "think Publish" in world.log)
        item = (await run.view()).plan[0]
        assert item.title == "Collect"
        assert await run.redirect("Collect more", from_step=item.id)
        last.set()
        result = await run.result(timeout=120)
        assert result.heard == [["Collect more", "Collect more"], ["Publish"]]
        assert world.log.count("unwrite Collect") == 1
        assert [item.title for item in (await run.view()).plan] == ["Collect more", "Publish"]


async def test_from_a_step_or_item_that_is_not_there_is_refused() -> None:
    async with a_world() as (runs, world):
        run = await runs.start(report, Task())
        await eventually(lambda: "think Collect" in world.log)
        for wrong in (7, -1, "nothing", "stage-1"):
            assert isinstance(await run.redirect("x", from_step=wrong), Refused), wrong
        assert await mail(run) == []


async def test_two_redirects_from_steps_go_back_furthest_and_keep_their_order() -> None:
    """R5: the second comes while the first undoes."""
    async with a_world() as (runs, world):
        world.shut_at("think 2")
        undoing = world.shut_at("unwrite 2: ")
        run = await runs.start(jotter, Task(steps=3))
        await eventually(lambda: "think 2" in world.log)
        assert await run.redirect("first", from_step=2)
        await eventually(lambda: "unwrite 2: " in world.log)
        assert await run.redirect("second", from_step=0)
        assert await run.redirect("third", from_step=1)
        undoing.set()
        world.shut_at("think 2").set()
        assert await run.result(timeout=120) == [["first", "second", "third"], [], []]
        assert [m.text for m in await mail(run)] == ["first", "second", "third"]
        assert {(m.status, m.step) for m in await mail(run)} == {("consumed", 0)}
