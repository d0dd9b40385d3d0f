"""Clean-up through the fence: what is open is closed, nothing new is sent, and the receipt says so (R7, R39)."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.fence.world import HELLO, Nothing, asked, gone, one_call_of, openai_client
from tests.providers.scenes import goes_silent, says
from tests.providers.server import LoopbackProvider

from standfast import Run, Runtime, agent, tool


def refusals(receipt: Any) -> list[str]:
    return [r.what for r in receipt.residue if "was refused" in r.what]


class Client:
    """A client with `async with`, and what its closing saw."""

    def __init__(self, server: LoopbackProvider) -> None:
        self._server = server
        self.seen: list[str] = []
        self.closed = False

    async def stream(self) -> None:
        """Read a stream that goes silent, in an ordinary `async with`."""
        async with openai_client(self._server) as client:
            try:
                stream = await client.chat.completions.create(model="m", messages=HELLO, stream=True)
                async with stream:
                    async for _ in stream:
                        pass
            except BaseException as error:
                self.seen.append(type(error).__name__)
                raise
            finally:
                await self._close()

    async def _close(self) -> None:
        try:
            await asyncio.sleep(0.3)
        except BaseException as error:
            self.seen.append(type(error).__name__)
            raise
        self.closed = True


async def test_a_tool_closes_its_client_and_the_server_sees_it(server: LoopbackProvider) -> None:
    """R39: one cancellation, and the connection is closed when the cancel has settled."""
    server.will(goes_silent("x"))
    client = Client(server)

    @tool(effect="read")
    async def think() -> None:
        await client.stream()

    async with one_call_of(think) as run:
        await asked(server)
        assert await run.cancel()
        receipt = await run.settled(timeout=120)
        assert client.closed
        assert client.seen == ["CancelledError"]
        assert receipt.residue == ()
        await gone(server.exchanges[0])


async def test_a_step_closes_its_client_and_the_server_sees_it(server: LoopbackProvider) -> None:
    """R39: the same without a tool, where the request is a call of its own."""
    server.will(goes_silent("x"))
    client = Client(server)

    @agent("thinker")
    async def thinker(run: Run[Nothing]) -> None:
        await client.stream()

    async with Runtime(":memory:", agents=[thinker]) as runs:
        run = await runs.start(thinker, Nothing())
        await asked(server)
        assert await run.cancel()
        receipt = await run.settled(timeout=120)
        assert client.closed
        assert client.seen == ["CancelledError"]
        assert receipt.residue == ()
        await gone(server.exchanges[0])


async def test_requests_of_a_tools_clean_up_are_refused_and_named(server: LoopbackProvider) -> None:
    """R7, R39: what needs a request to be released is a call with an undo; the receipt names what stays."""
    server.will(goes_silent("x"), says("never"))

    async with openai_client(server, max_retries=0) as client:

        @tool(effect="read")
        async def think() -> None:
            try:
                await client.chat.completions.create(model="m", messages=HELLO)
            finally:
                await client.chat.completions.create(model="m", messages=HELLO)

        async with one_call_of(think) as run:
            await asked(server)
            assert await run.cancel()
            receipt = await run.settled(timeout=120)
            (refused,) = refusals(receipt)
            assert refused.startswith("the clean-up of think was refused http POST 127.0.0.1")
    assert len(server.exchanges) == 1


async def test_requests_of_a_steps_clean_up_are_refused_and_named(server: LoopbackProvider) -> None:
    """R7, R39"""
    server.will(goes_silent("x"), says("never"))

    async with openai_client(server, max_retries=0) as client:

        @agent("thinker")
        async def thinker(run: Run[Nothing]) -> None:
            try:
                await client.chat.completions.create(model="m", messages=HELLO)
            finally:
                await client.chat.completions.create(model="m", messages=HELLO)

        async with Runtime(":memory:", agents=[thinker]) as runs:
            run = await runs.start(thinker, Nothing())
            await asked(server)
            assert await run.cancel()
            receipt = await run.settled(timeout=120)
            (refused,) = refusals(receipt)
            assert refused.startswith("the clean-up of code of step 0 was refused http POST 127.0.0.1")
    assert len(server.exchanges) == 1
