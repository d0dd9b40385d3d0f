"""R6, R7, R35: sync clients in tools and threads: the same rules, cut by shutting down their sockets."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import httpx2
import pytest
from openai import OpenAI
from tests.fence.world import HELLO, Nothing, asked, gone, one_call_of, recorded, sync_client
from tests.helpers import eventually, held
from tests.providers.scenes import Answer, drips, goes_silent, says, stalls_before_first_byte, stalls_before_headers
from tests.providers.server import LoopbackProvider

from standfast import Accepted, Done, Run, Runtime, agent, fence, tool
from standfast.events import CallStarted, LateResult
from standfast.fence import RequestCut, RequestRefused, blocking


def streamed(client: OpenAI) -> str:
    text = ""
    with client.chat.completions.create(model="m", messages=HELLO, stream=True) as stream:
        for piece in stream:
            text += (piece.choices[0].delta.content or "") if piece.choices else ""
    return text


def whole(client: OpenAI) -> str:
    return client.chat.completions.create(model="m", messages=HELLO).choices[0].message.content or ""


STALLS: dict[str, tuple[Answer, Callable[[OpenAI], str]]] = {
    "before the headers": (stalls_before_headers(), streamed),
    "before the headers, not streamed": (stalls_before_headers(), whole),
    "before the first byte": (stalls_before_first_byte(), streamed),
    "in mid-answer": (goes_silent("Hel"), streamed),
    "while it speaks": (drips(), streamed),
}


@pytest.mark.parametrize(("answer", "ask"), STALLS.values(), ids=STALLS)
@pytest.mark.parametrize("fresh", [True, False], ids=["new connection", "used connection"])
async def test_a_sync_tool_is_cut_in_mid_request(
    server: LoopbackProvider, answer: Answer, ask: Callable[[OpenAI], str], fresh: bool
) -> None:
    """R6: its thread hangs in a C call; the socket goes, and the thread with it."""
    if not fresh:
        server.will(says("warm"))
    server.will(answer)
    with sync_client(server) as client:

        @tool(effect="read")
        def think() -> str:
            return ("" if fresh else whole(client)) + ask(client)

        async with one_call_of(think) as run:
            exchange = await asked(server, 1 if fresh else 2)
            assert await run.cancel()
            receipt = await run.settled(timeout=120)
            await gone(exchange)
    assert [f.outcome for f in receipt.in_flight] == ["aborted"]
    assert receipt.residue == ()
    assert server.connections == 1


async def test_a_pause_cuts_and_repeats_a_sync_read(server: LoopbackProvider) -> None:
    server.will(goes_silent("x"), says("yes"))
    with sync_client(server) as client:

        @tool(effect="read")
        def think() -> str:
            try:
                return streamed(client)
            except RequestRefused:
                return "sorry"  # what is made of a cut is no result

        async with one_call_of(think) as run:
            await asked(server)
            assert await run.pause()
            await held(run, "user")
            assert await run.resume()
            assert await run.result(timeout=120) == "yes"


async def test_a_thread_of_a_step_is_a_call_of_its_own(server: LoopbackProvider) -> None:
    """Outside any call, in asyncio.to_thread: admitted, named, cut."""
    server.will(says("one"), goes_silent("x"), says("three"))
    cut: list[BaseException] = []
    with sync_client(server) as client:

        def ask() -> str:
            try:
                return whole(client) if len(server.exchanges) != 1 else streamed(client)
            except BaseException as error:  # RequestCut, or the exception that is thrown into the thread
                cut.append(error)
                raise

        @agent("threads")
        async def threads(run: Run[Nothing]) -> Done[str]:
            first = await asyncio.to_thread(ask)
            return Done(first + await asyncio.to_thread(ask)) if len(server.exchanges) < 3 else Done(first)

        async with Runtime(":memory:", agents=[threads]) as r:
            run = await r.start(threads, Nothing())
            exchange = await asked(server, 2)
            accepted = await run.pause()
            assert isinstance(accepted, Accepted)
            assert len(accepted.in_flight) == 1
            receipt = await run.settled(timeout=120)
            await gone(exchange)
            assert [f.outcome for f in receipt.in_flight] == ["aborted"]
            await eventually(lambda: cut)
            assert await run.resume()
            assert await run.result(timeout=120) == "three"
            started = [e for e in await recorded(run) if isinstance(e, CallStarted)]
    assert len(started) == 3


async def test_a_thread_that_goes_on_after_the_stop_is_refused(server: LoopbackProvider) -> None:
    """R7: a thread that swallows its cut is left behind; the fence keeps what it still wants to say."""
    server.will(goes_silent("x"))
    refused: list[BaseException] = []
    cuts: list[BaseException] = []
    with sync_client(server) as client:

        def stubborn() -> None:
            while len(refused) < 5:
                try:
                    streamed(client)
                except RequestRefused as error:
                    refused.append(error)
                except BaseException as error:  # noqa: BLE001 - its cut
                    cuts.append(error)

        @agent("threads")
        async def threads(run: Run[Nothing]) -> Done[None]:
            return Done(await asyncio.to_thread(stubborn))

        async with Runtime(":memory:", agents=[threads]) as r:
            run = await r.start(threads, Nothing())
            await asked(server)
            assert await run.cancel()
            receipt = await run.settled(timeout=120)
            await eventually(lambda: len(refused) == 5)
    assert receipt.calls_after_cancel == 0
    assert len(server.exchanges) == 1


async def test_a_sync_client_does_not_block_the_event_loop(server: LoopbackProvider) -> None:
    with sync_client(server) as client:

        @agent("blocks")
        async def blocks(run: Run[Nothing]) -> Done[str]:
            try:
                return Done(whole(client))
            except RequestRefused as error:
                return Done(error.hint)

        async with Runtime(":memory:", agents=[blocks]) as r:
            run = await r.start(blocks, Nothing())
            assert "asyncio.to_thread" in str(await run.result(timeout=120))
    assert server.exchanges == []


async def test_without_a_run_a_sync_request_is_refused(server: LoopbackProvider) -> None:
    with sync_client(server) as client, pytest.raises(RequestRefused):
        await asyncio.to_thread(whole, client)
    assert server.exchanges == []


async def test_a_request_that_cannot_be_cut_is_named_and_its_late_answer_kept_out() -> None:
    """R35: a transport of the user's own, which the fence knows no socket of."""
    go = threading.Event()
    begun = threading.Event()

    class Opaque(httpx2.BaseTransport):
        def handle_request(self, request: httpx2.Request) -> httpx2.Response:
            begun.set()
            go.wait(30)
            return httpx2.Response(200, text="late")

    with fence.sync_http_client(transport=Opaque()) as client:

        def ask() -> str:
            return client.get("http://model.example/v1/late?key=secret").text

        @agent("threads")
        async def threads(run: Run[Nothing]) -> Done[str]:
            return Done(await asyncio.to_thread(ask))

        async with Runtime(":memory:", agents=[threads]) as r:
            run = await r.start(threads, Nothing())
            await eventually(begun.is_set)
            assert await run.cancel()
            receipt = await run.settled(timeout=120)
            assert [f.outcome for f in receipt.in_flight] == ["still_running"]
            assert [r.what for r in receipt.residue if r.call] == ["http GET model.example/v1/late is still running"]
            assert "waiting for the response" in receipt.residue[0].why
            go.set()

            async def late() -> list[Any]:
                return [e for e in await recorded(run) if isinstance(e, LateResult)]

            await eventually(late)


async def test_a_connection_that_is_being_made_is_given_up() -> None:
    """Cut while it connects: nothing is sent when the connection comes to be."""
    listener = socket.create_server(("127.0.0.1", 0))
    connecting = threading.Event()
    with listener, fence.sync_http_client() as client:
        pool: Any = client._transport.inner._pool  # type: ignore[attr-defined]
        connect = pool._network_backend._inner.connect_tcp

        def slow(*args: Any, **kwargs: Any) -> Any:
            connecting.set()
            end = time.monotonic() + 30
            while not blocking._at_work.request.is_cut and time.monotonic() < end:
                time.sleep(0.005)
            return connect(*args, **kwargs)

        pool._network_backend._inner.connect_tcp = slow
        ends: list[BaseException] = []

        def ask() -> None:
            try:
                client.get(f"http://127.0.0.1:{listener.getsockname()[1]}/")
            except httpx2.HTTPError as error:
                ends.append(error)
            except RequestCut as error:
                ends.append(error)

        @agent("threads")
        async def threads(run: Run[Nothing]) -> Done[None]:
            return Done(await asyncio.to_thread(ask))

        async with Runtime(":memory:", agents=[threads]) as r:
            run = await r.start(threads, Nothing())
            await eventually(connecting.is_set)
            assert await run.pause()
            await held(run, "user")
            await eventually(lambda: ends)
            served, _ = listener.accept()
            with served:
                served.settimeout(30)
                assert served.recv(100) == b""
    assert isinstance(ends[0], RequestCut)
