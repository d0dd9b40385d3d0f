"""R7: stops at any moment of a busy loop: nothing reaches the server after *accepted* but what it names."""

from __future__ import annotations

import asyncio
import random
import time
from pathlib import Path

import pytest
from tests.fence.world import Nothing, Words, openai_client, own_loop, recorded, streamed, whole
from tests.helpers import eventually
from tests.providers.scenes import says
from tests.providers.server import LoopbackProvider

from standfast import Accepted, Done, Run, Runtime, agent, fence, tool
from standfast.events import CallStarted

TRIALS = 30
QUICK = says("a", "b", "c")


@pytest.mark.parametrize("verb", ["pause", "cancel"])
async def test_no_request_after_accepted_but_those_in_flight(verb: str) -> None:
    """30 trials, asserted on the worst: requests the server has after accepted are named by it."""
    with LoopbackProvider(lambda _: QUICK) as server:
        async with openai_client(server) as client:

            async def ask() -> str:
                await asyncio.gather(*(streamed(client) for _ in range(3)))
                return ""

            calls = 0
            async with Runtime(":memory:", agents=[a := own_loop(ask, turns=100_000)]) as r:
                for trial in range(TRIALS):
                    seen = len(server.exchanges)
                    run = await r.start(a, Words())
                    await eventually(lambda seen=seen: len(server.exchanges) > seen)
                    await asyncio.sleep(random.Random(trial).uniform(0, 0.03))
                    accepted = await (run.pause() if verb == "pause" else run.cancel())
                    at = time.monotonic()
                    assert isinstance(accepted, Accepted)
                    await run.settled(timeout=120)
                    await asyncio.sleep(0.05)  # what was on the wire when it was cut may be read a little later
                    late = server.requests_after(at)
                    assert late <= len(accepted.in_flight), f"trial {trial}: {late} of {len(accepted.in_flight)} named"
                    if verb == "pause":
                        assert await run.cancel()
                    started = [e for e in await recorded(run) if isinstance(e, CallStarted)]
                    assert all(e.seq < accepted.seq for e in started)
                    calls += len(started)
                    assert len(server.exchanges) <= calls  # of all trials: a busy server reads what was cut later still


async def test_no_request_of_a_tool_after_it_settled_from_another_process(tmp_path: Path) -> None:
    """A tool that loops over the model, stopped through the file by a runtime that only controls."""
    with LoopbackProvider(lambda _: QUICK) as server:
        async with openai_client(server) as client:

            @tool
            async def loops() -> None:
                while True:
                    await asyncio.gather(*(whole(client) for _ in range(3)))

            @agent("loops")
            async def looping(run: Run[Nothing]) -> Done[None]:
                await run.call(loops())
                return Done(None)

            file = tmp_path / "runs.db"
            async with Runtime(file, agents=[looping]) as r, Runtime(file, drive=False) as outside:
                for trial in range(TRIALS):
                    seen = len(server.exchanges)
                    run = await r.start(looping, Nothing())
                    await eventually(lambda seen=seen: len(server.exchanges) > seen)
                    await asyncio.sleep(random.Random(trial).uniform(0, 0.03))
                    accepted = await outside.handle(run.id).cancel()
                    at = time.monotonic()
                    assert isinstance(accepted, Accepted)
                    await run.settled(timeout=120)
                    await asyncio.sleep(0.05)
                    assert server.requests_after(at) <= 3, f"trial {trial}"  # what its one call had under way


async def test_a_finished_run_reaches_nobody(server: LoopbackProvider) -> None:
    """After done, a task that the last step left behind is refused like any other."""
    server.will(says("yes"))
    tried: list[str] = []
    ended = asyncio.Event()
    tasks: list[asyncio.Task[None]] = []

    async with openai_client(server) as client:

        async def later() -> None:
            while not ended.is_set():
                try:
                    await asyncio.shield(ended.wait())
                except asyncio.CancelledError:
                    pass  # deaf on purpose
            try:
                await whole(client)
            except fence.RequestRefused as error:
                tried.append(str(error))

        @agent("ends")
        async def ends(run: Run[Nothing]) -> Done[str]:
            tasks.append(asyncio.create_task(later()))
            return Done(await whole(client))

        async with Runtime(":memory:", agents=[ends]) as r:
            run = await r.start(ends, Nothing())
            assert await run.result(timeout=120) == "yes"
            ended.set()
            await eventually(lambda: tried)
            await asyncio.wait(tasks)
    assert len(server.exchanges) == 1
