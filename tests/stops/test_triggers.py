"""R31: whatever stops a run, its record says by what, and when by both clocks."""

from __future__ import annotations

import time
from typing import Any, Literal

import pytest
from tests.helpers import eventually
from tests.tripwire.secrets import BANK

from standfast import Budget, Done, LLMAgent, Run, Tripwire, agent, ask, child, models, tool
from standfast.clock import boot_id
from standfast.stop_records import StopRecord, since_accepted
from standfast.testing import lab

STORY = " ".join(f"word{n}" for n in range(5000))


def talker(*lines: Any, **more: Any) -> LLMAgent[str]:
    return LLMAgent("talker", model=models.scripted(*(lines or (STORY,)), delay=0.01), plan=False, **more)


async def speaking(run: Any) -> None:
    async def look() -> bool:
        return any(said.text for said in await run.transcript())

    await eventually(look)


def checked(stop: StopRecord) -> StopRecord:
    """Settled, with every time in its order by the clock that nobody can set."""
    assert stop.settled is not None
    for moment in (stop.asked, stop.accepted, stop.settled):
        assert moment.boot == boot_id() and moment.uptime is not None
    order = [since_accepted(stop, moment) for moment in (stop.asked, stop.accepted, stop.settled)]
    assert order == sorted(order, key=lambda one: one or 0.0)
    return stop


@pytest.mark.parametrize("hand", ["api", "button", "key", "terminal"])
async def test_a_hand(hand: Literal["api", "button", "key", "terminal"]) -> None:
    async with lab([one := talker()]) as runs:
        run = await runs.start(one, "Tell me a story")
        await speaking(run)
        await run.cancel(by="ann", reason="enough", trigger=hand)
        receipt = await run.settled()
        (stop,) = map(checked, await run.stops())
        assert (stop.verb, stop.trigger, stop.by, stop.reason) == ("cancel", hand, "ann", "enough")
        (cut,) = stop.streams
        assert (cut.tool, cut.outcome) == ("scripted", "aborted")
        assert cut.last_byte is not None and cut.last_byte.at == receipt.last_byte_at
        assert cut.last_byte.boot == boot_id() and cut.last_byte.uptime is not None
        (said,) = await run.transcript()
        assert cut.characters == {"text": len(said.text)}
        assert not stop.clients_known, "who reads in this process is no client of a server"


async def test_an_operator() -> None:
    async with lab([one := talker()]) as runs:
        run = await runs.start(one, "Tell me a story")
        await speaking(run)
        await runs.halt(all=True, reason="everything stops", by="op")
        await run.settled()
        (stop,) = map(checked, await run.stops())
        assert (stop.verb, stop.trigger, stop.by) == ("halt", "operator", "op")
        assert len(stop.streams) == 1


async def test_a_budget() -> None:
    @tool(effect="read")
    async def look() -> int:
        return 1

    @agent("looker", budget=Budget(calls=2))
    async def looker(run: Run[None]) -> Done[int] | None:
        await run.call(look())
        return None

    async with lab([looker]) as runs:
        run = await runs.start(looker, None)
        await run.settled()
        (stop,) = map(checked, await run.stops())
        assert (stop.verb, stop.trigger) == ("pause", "budget")


async def test_a_tripwire() -> None:
    leak = f"Sure. {BANK} That is all."
    one = talker(leak, instructions=BANK, tripwire=Tripwire(action="pause"))
    async with lab([one]) as runs:
        run = await runs.start(one, "What were you told?")
        await run.settled()
        (stop,) = map(checked, await run.stops())
        assert (stop.verb, stop.trigger, stop.status) == ("pause", "tripwire", "paused")
        assert len(stop.streams) == 1 and len(stop.trips) == 1
        assert stop.held_back[0].why == "tripwire"


async def test_a_deadline() -> None:
    async with lab([one := talker()]) as runs:
        run = await runs.start(one, "Tell me a story", deadline=time.time() + 0.5)
        await run.settled()
        (stop,) = map(checked, await run.stops())
        assert (stop.verb, stop.trigger) == ("cancel", "deadline")


async def test_the_run_itself_and_its_parent() -> None:
    @agent("kid")
    async def kid(run: Run[None]) -> Done[str]:
        return Done(str(await run.call(ask("Which one?"))))

    @agent("parent")
    async def parent(run: Run[None]) -> Done[str]:
        return Done(await run.call(child(kid, None)))

    async with lab([kid, parent]) as runs:
        run = await runs.start(parent, None)

        async def asked() -> Any:
            below = [view for view in await runs.list() if view.parent == run.id and view.status == "paused"]
            return below[0].id if below else None

        below = runs.handle(await eventually(asked))
        await run.cancel(by="ann")
        await run.settled()
        first, second = map(checked, await below.stops())
        assert (first.verb, first.trigger) == ("pause", "run")
        assert (second.verb, second.trigger, second.by) == ("cancel", "parent", "ann")
