"""The fence beside the rest: processes of tools, models, children, crashes."""

from __future__ import annotations

import asyncio
from pathlib import Path

from openai import AsyncOpenAI
from tests.fence.thinking import think_elsewhere
from tests.fence.world import Nothing, Words, asked, gone, openai_client, own_loop, recorded, streamed
from tests.helpers import held
from tests.providers.scenes import goes_silent, says
from tests.providers.server import LoopbackProvider

from standfast import Accepted, Done, Run, Runtime, agent, child, fence, models
from standfast.events import CallStarted
from standfast.testing import lab


async def test_the_process_of_a_tool_may_ask_and_is_killed_with_its_call(
    server: LoopbackProvider, tmp_path: Path
) -> None:
    """R6: there is no gate in that process; it ends as a whole, and its connections with it."""
    server.will(says("yes"), goes_silent("x"))

    @agent("elsewhere")
    async def elsewhere(run: Run[Words]) -> Done[list[str]] | None:
        run.state.said.append(await run.call(think_elsewhere(server.openai_url, str(tmp_path / "pid"))))
        return None

    async with Runtime(":memory:", agents=[elsewhere]) as r:
        run = await r.start(elsewhere, Words())
        exchange = await asked(server, 2)
        assert await run.cancel()
        receipt = await run.settled(timeout=120)
        await gone(exchange)
        assert (await run.state()).said == ["yes"]
    assert [f.outcome for f in receipt.in_flight] == ["aborted"]
    assert receipt.residue == ()


async def test_a_model_with_a_fenced_client_is_one_call(server: LoopbackProvider) -> None:
    """R3: standfast's own models are behind the gate already; the fence adds nothing to their record."""
    server.will(goes_silent("Hel"), says("Hello"))
    client = fence.openai(AsyncOpenAI(base_url=server.openai_url, api_key="test"))
    m = models.openai("m", client=client)

    @agent("speaks")
    async def speaks(run: Run[Nothing]) -> Done[str]:
        reply = await run.call(m([{"role": "user", "content": "hi"}]))
        return Done(reply.text)

    async with client, Runtime(":memory:", agents=[speaks]) as r:
        run = await r.start(speaks, Nothing())
        exchange = await asked(server)
        assert await run.pause()
        await held(run, "user")
        await gone(exchange)
        assert await run.resume()
        assert await run.result(timeout=120) == "Hello"
        started = [e.tool for e in await recorded(run) if isinstance(e, CallStarted)]
    assert not any(name.startswith("http") for name in started)
    assert len(server.exchanges) == 2


async def test_a_child_run_sends_under_its_own_name(server: LoopbackProvider) -> None:
    """R6: cancelling the parent closes what the child reads; the child's record has it, the parent's has not."""
    server.will(goes_silent("x"))
    async with openai_client(server) as client:
        inner = own_loop(lambda: streamed(client), name="inner")

        @agent("outer")
        async def outer(run: Run[Nothing]) -> Done[list[str]]:
            return Done(await run.call(child(inner, Words())))

        async with Runtime(":memory:", agents=[outer, inner]) as r:
            run = await r.start(outer, Nothing())
            exchange = await asked(server)
            accepted = await run.cancel()
            assert isinstance(accepted, Accepted)
            named = {c.run for c in accepted.in_flight if c.tool.startswith("http")}
            assert len(named) == 1
            assert run.id not in named
            await run.settled(timeout=120)
            await gone(exchange)


async def test_after_a_crash_the_request_is_sent_again(server: LoopbackProvider) -> None:
    """R2: a request in flight at a kill -9 changed nothing that must be asked about: never in doubt."""
    server.will(goes_silent("x"), says("yes"))
    async with openai_client(server) as client, lab([a := own_loop(lambda: streamed(client))]) as runs:
        run = await runs.start(a, Words())
        await asked(server)
        await runs.crash()
        await asked(server, 2)
        assert await run.result(timeout=120) == ["yes"]
        assert (await run.view()).needs == []


async def test_two_runs_share_a_client_and_only_one_is_stopped(server: LoopbackProvider) -> None:
    server.will(goes_silent("x"), says("a", "b", every=0.2))
    async with openai_client(server) as client:
        a = own_loop(lambda: streamed(client))
        async with Runtime(":memory:", agents=[a]) as r:
            stopped = await r.start(a, Words())
            exchange = await asked(server)
            other = await r.start(a, Words())
            await asked(server, 2)
            assert await stopped.cancel()
            await gone(exchange)
            assert await other.result(timeout=120) == ["ab"]
            await asyncio.wait_for(stopped.settled(), 30)
