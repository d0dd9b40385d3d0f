"""Resume in a changed world (R16): what a run relied on is read again before it goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from tests.core.looking import status_is
from tests.helpers import eventually

from standfast import Done, Misuse, Refused, Run, Runtime, agent, file_content, tool
from standfast.records import RunView
from standfast.testing import lab


class World:
    def __init__(self) -> None:
        self.price: Any = 10
        self.stock = 3
        self.reads = 0
        self.sent: list[str] = []
        self.broken = False
        self.hangs = False
        self.door = asyncio.Event()


world: World


@pytest.fixture(autouse=True)
async def fresh_world() -> AsyncIterator[None]:
    global world
    world = World()
    yield
    world.door.set()


class Order(BaseModel):
    path: str = ""
    price: int = 0


@tool(effect="read", grace=0.2)
async def price_of(item: str) -> int:
    world.reads += 1
    if world.broken:
        raise OSError("no route to the shop")
    if world.hangs:
        await asyncio.Event().wait()
    return world.price


@tool(effect="read")
def stock_of(item: str) -> dict[str, int]:
    return {"left": world.stock, "shelf": 7}


@tool
async def buy(item: str) -> None:
    world.sent.append(item)
    world.stock -= 1


@tool
async def set_price(price: int) -> None:
    world.price = price


@tool(effect="read")
async def think() -> str:
    await world.door.wait()
    return "thought"


@agent("buyer")
async def buyer(run: Run[Order]) -> Done[int] | None:
    if run.step == 0:
        run.state.price = await run.relies_on("price", price_of("tea"))
        return None
    if run.step == 1:
        await run.relies_on("stock", stock_of("tea"))
        return None
    await run.call(think())
    await run.call(buy("tea"))
    return Done(run.state.price)


async def paused_thinking(runs: Runtime, about: Any = buyer, state: Any = None) -> Any:
    """A run that has seen price and stock, held in mid-thought."""
    run = await runs.start(about, state or Order())
    await pause_in_mid_thought(run)
    return run


async def pause_in_mid_thought(run: Any) -> None:
    await thinking(run)
    await run.pause()
    await status_is(run, "paused")
    world.door.set()


async def thinking(run: Any) -> None:
    async def look() -> bool:
        return any(c.tool == "think" for c in (await run.view()).in_flight)

    await eventually(look)


async def held_as_stale(run: Any) -> RunView:
    assert await run.resume()

    async def look() -> RunView | None:
        view: RunView = await run.view()
        return view if view.status == "paused" else None

    view: RunView = await eventually(look)
    assert view.holds == ("stale",)
    return view


async def test_an_unchanged_world_lets_the_run_go_on() -> None:
    async with lab([buyer]) as runs:
        run = await paused_thinking(runs)
        assert await run.resume()
        assert await run.result(timeout=120) == 10
        assert world.sent == ["tea"]


async def test_a_changed_reading_holds_the_run_with_the_difference() -> None:
    """R16: held as stale before any call is admitted; the difference is told in words, with three choices."""
    async with lab([buyer]) as runs:
        run = await paused_thinking(runs)
        world.price = 12
        view = await held_as_stale(run)
        assert "price" in view.waiting_for
        assert "10" in view.waiting_for
        assert "12" in view.waiting_for
        assert "stock" not in view.waiting_for
        assert world.sent == []
        (need,) = view.needs
        assert need.kind == "stale"
        assert [c.verb for c in need.choices] == ["resume", "rewind", "cancel"]
        refused = await run.resume()
        assert isinstance(refused, Refused)
        assert any(c.args == {"accept_stale": True} for c in refused.choices)


async def test_accepting_goes_on_and_takes_the_world_as_it_is() -> None:
    """R16: "go on" is not asked again for the same difference."""
    async with lab([buyer]) as runs:
        run = await paused_thinking(runs)
        world.price = 12
        view = await held_as_stale(run)
        world.door.clear()
        go_on = view.needs[0].choices[0]
        assert await run.choose(view.needs[0], go_on)
        await status_is(run, "running")
        await pause_in_mid_thought(run)
        assert await run.resume()
        assert await run.result(timeout=120) == 10


async def test_accepting_beforehand_covers_what_is_found_at_this_resume_only() -> None:
    """R16: accept_stale counts once: it is no licence for changes of a later pause."""
    async with lab([buyer]) as runs:
        run = await paused_thinking(runs)
        world.price = 12
        world.door.clear()
        assert await run.resume(accept_stale=True)
        await status_is(run, "running")
        await pause_in_mid_thought(run)
        world.price = 13
        text = (await held_as_stale(run)).waiting_for
        assert "12" in text
        assert "13" in text


async def test_accepting_once_does_not_cover_what_is_found_after_a_crash() -> None:
    """R16: a takeover without a resume compares anew."""
    async with lab([buyer]) as runs:
        run = await paused_thinking(runs)
        world.price = 12
        world.door.clear()
        assert await run.resume(accept_stale=True)
        await thinking(run)
        world.price = 13
        await runs.crash()
        view = await status_is(run, "paused")
        assert view.holds == ("stale",)


async def test_redo_goes_back_to_the_step_that_saw_what_has_changed() -> None:
    """R16: "redo from that step" names the step of the reading that differs, not the first of all readings."""
    async with lab([buyer]) as runs:
        run = await paused_thinking(runs)
        world.stock = 1
        view = await held_as_stale(run)
        redo = view.needs[0].choices[1]
        assert redo.args == {"to": 1}
        assert await run.choose(view.needs[0], redo)
        view = await status_is(run, "paused")
        assert view.step == 1
        assert await run.resume()
        assert await run.result(timeout=120) == 10


async def test_a_reading_that_fails_or_hangs_is_a_difference() -> None:
    """Ruling: a probe that hangs or raises is unknown; the run is held, not lost, and can go on when it is back."""
    async with lab([buyer]) as runs:
        run = await paused_thinking(runs)
        world.broken = True
        assert "no route to the shop" in (await held_as_stale(run)).waiting_for
        world.broken = False
        assert await run.resume(accept_stale=True)
        assert await run.result(timeout=120) == 10


async def test_a_reading_that_hangs_stops_neither_pause_nor_cancel() -> None:
    """R34: the world is compared in bounded time, and a verb does not wait for it."""
    async with lab([buyer]) as runs:
        run = await paused_thinking(runs)
        world.hangs = True
        assert "no answer" in (await held_as_stale(run)).waiting_for
        assert await run.cancel()
        assert (await run.settled(timeout=120)).status == "cancelled"


async def test_a_cancel_while_the_world_is_read_is_settled_without_it() -> None:
    @tool(effect="read", timeout=3600)
    async def slow() -> int:
        world.reads += 1
        if world.reads > 1:
            await asyncio.Event().wait()
        return 1

    @agent("patient")
    async def patient(run: Run[Order]) -> Done[int]:
        await run.relies_on("slow", slow())
        return Done(len(await run.call(think())))

    async with lab([patient]) as runs:
        run = await paused_thinking(runs, patient)
        assert await run.resume()
        await eventually(lambda: world.reads == 2)
        assert await run.cancel()
        assert (await run.settled(timeout=120)).status == "cancelled"


async def test_only_reads_can_be_relied_on() -> None:
    @agent("wrong")
    async def wrong(run: Run[Order]) -> Done[int]:
        await run.relies_on("bought", buy("tea"))
        return Done(0)

    async with lab([wrong]) as runs:
        run = await runs.start(wrong, Order())
        view = await status_is(run, "paused")
        assert view.holds == ("error",)
        assert view.error.startswith(Misuse.__name__)
        assert "read tool" in view.traceback
        assert world.sent == []


# --- own writes ------------------------------------------------------------------------------------


@agent("pricer")
async def pricer(run: Run[Order]) -> Done[int]:
    """Relies on what it then changes itself, in the same step."""
    await run.relies_on("price", price_of("tea"))
    await run.call(set_price(11))
    await run.call(think())
    return Done(world.price)


async def test_a_runs_own_write_is_not_a_strangers() -> None:
    """Ruling: own writes refresh what the step relies on."""
    async with lab([pricer]) as runs:
        run = await paused_thinking(runs, pricer)
        assert await run.resume()
        assert await run.result(timeout=120) == 11


async def test_a_strangers_write_after_the_runs_own_is_seen() -> None:
    async with lab([pricer]) as runs:
        run = await paused_thinking(runs, pricer)
        world.price = 99
        text = (await held_as_stale(run)).waiting_for
        assert "11" in text
        assert "99" in text


async def test_a_strangers_write_before_the_runs_own_is_not_covered_up() -> None:
    """A fact that no longer held when the run wrote is not refreshed by that write."""

    @agent("careless")
    async def careless(run: Run[Order]) -> Done[int]:
        await run.relies_on("price", price_of("tea"))
        world.price = 50  # a stranger, right now
        await run.call(buy("tea"))
        await run.call(think())
        return Done(0)

    async with lab([careless]) as runs:
        run = await paused_thinking(runs, careless)
        assert "50" in (await held_as_stale(run)).waiting_for


async def test_parallel_own_writes_refresh_together() -> None:
    @tool
    async def raise_price(by: int) -> None:
        await asyncio.sleep(0.01 * by)
        world.price += by

    @agent("raiser")
    async def raiser(run: Run[Order]) -> Done[int]:
        await run.relies_on("price", price_of("tea"))
        await run.call_all([raise_price(1), raise_price(2)])
        await run.call(think())
        return Done(world.price)

    async with lab([raiser]) as runs:
        run = await paused_thinking(runs, raiser)
        assert await run.resume()
        assert await run.result(timeout=120) == 13


async def test_the_last_reading_of_a_name_counts() -> None:
    @agent("twice")
    async def twice(run: Run[Order]) -> Done[int]:
        await run.relies_on("price", price_of("tea"))
        world.price = 20  # the world moves on, and the step looks again
        await run.relies_on("price", price_of("tea"))
        await run.call(think())
        return Done(0)

    async with lab([twice]) as runs:
        run = await paused_thinking(runs, twice)
        assert await run.resume()
        assert await run.result(timeout=120) == 0


async def test_the_world_is_compared_after_a_crash_too() -> None:
    async with lab([buyer]) as runs:
        run = await runs.start(buyer, Order())
        await runs.until(run, call="think")
        world.price = 77
        await runs.crash()
        view = await status_is(run, "paused")
        assert view.holds == ("stale",)
        assert "77" in view.waiting_for


# --- files -----------------------------------------------------------------------------------------


@agent("editor")
async def editor(run: Run[Order]) -> Done[str]:
    seen = await run.relies_on("the file", file_content(run.state.path))
    await run.call(think())
    return Done(seen or "none")


@pytest.mark.parametrize(
    ("before", "after", "stale"),
    [("one", "one", False), ("one", "two", True), ("one", None, True), (None, "one", True), (None, None, False)],
)
async def test_file_content(tmp_path: Path, before: str | None, after: str | None, stale: bool) -> None:
    """R16: changed, removed and new files are differences; a touched one is not."""
    file = tmp_path / "draft.txt"

    def put(text: str | None) -> None:
        file.unlink(missing_ok=True)
        if text is not None:
            file.write_text(text)

    put(before)
    async with lab([editor]) as runs:
        run = await paused_thinking(runs, editor, Order(path=str(file)))
        put(after)
        if stale:
            assert "the file" in (await held_as_stale(run)).waiting_for
        else:
            assert await run.resume()
            assert await run.result(timeout=120)
