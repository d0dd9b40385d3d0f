"""R7, R36: people's own loops on the SDKs, inside a step and without run.call, through the fence."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import pytest
from tests.fence.world import (
    CHAT,
    HELLO,
    Nothing,
    Words,
    anthropic_client,
    anthropic_streamed,
    asked,
    gone,
    openai_client,
    own_loop,
    recorded,
    streamed,
    whole,
)
from tests.helpers import eventually, held
from tests.providers.scenes import (
    drips,
    goes_silent,
    refuses,
    says,
    stalls_before_first_byte,
    stalls_before_headers,
)
from tests.providers.server import LoopbackProvider

from standfast import Accepted, Budget, Done, Idle, Interruption, Run, Runtime, agent, fence, tool
from standfast.events import CallCut, CallFinished, CallStarted
from standfast.events import CallFailed as Failed
from standfast.fence import RequestRefused

SILENT = {
    "before the headers": stalls_before_headers(),
    "before the first byte": stalls_before_first_byte(),
    "in mid-answer": goes_silent("Hel"),
    "while it speaks": drips(),
}


async def test_a_request_of_a_step_is_a_call_of_its_own(server: LoopbackProvider) -> None:
    """R7: named, counted, in view while it lasts, in the record with its end, and tagged by no header."""
    server.will(goes_silent("Hel"), says("Hello", "!"))
    async with (
        openai_client(server) as client,
        Runtime(":memory:", agents=[a := own_loop(lambda: streamed(client))]) as r,
    ):
        run = await r.start(a, Words())
        exchange = await asked(server)
        view = await run.view()
        name = f"http POST 127.0.0.1:{server.port}{CHAT}"
        assert [c.tool for c in view.in_flight] == [name]
        accepted = await run.pause()
        assert isinstance(accepted, Accepted)
        assert [c.tool for c in accepted.in_flight] == [name]
        receipt = await run.settled(timeout=120)
        assert [(f.call.tool, f.outcome) for f in receipt.in_flight] == [(name, "aborted")]
        assert receipt.in_flight[0].last_byte_at is not None
        assert receipt.residue == ()
        await gone(exchange)
        assert await run.resume()
        assert await run.result(timeout=120) == ["Hello!"]
        assert (await run.view()).spent.calls == 2
        events = await recorded(run)
    started = [e for e in events if isinstance(e, CallStarted)]
    assert [e.args for e in started] == [{"method": "POST", "url": f"http://127.0.0.1:{server.port}{CHAT}"}] * 2
    assert started[0].call != started[1].call
    assert [e.call for e in events if isinstance(e, CallCut)] == [started[0].call]
    finished = [e for e in events if isinstance(e, CallFinished)]
    assert [e.call for e in finished] == [started[1].call]
    assert isinstance(finished[0].result, dict)
    assert finished[0].result["status"] == 200
    assert finished[0].result["complete"] is True
    assert not any(run.id in value for e in server.exchanges for value in e.headers.values())


@pytest.mark.parametrize("answer", SILENT.values(), ids=SILENT)
@pytest.mark.parametrize("verb", ["pause", "cancel", "redirect"])
@pytest.mark.parametrize("sdk", ["openai", "anthropic"])
async def test_a_stop_closes_the_stream(server: LoopbackProvider, sdk: str, verb: str, answer: Any) -> None:
    """R3, R6: whether or not anything has come yet, the server sees the client leave; nothing is sent after."""
    server.will(answer, says("again"))
    client: Any = openai_client(server) if sdk == "openai" else anthropic_client(server)
    ask = streamed if sdk == "openai" else anthropic_streamed
    async with client, Runtime(":memory:", agents=[a := own_loop(lambda: ask(client))]) as r:
        run = await r.start(a, Words())
        exchange = await asked(server)
        if answer is SILENT["in mid-answer"] or answer is SILENT["while it speaks"]:
            await eventually(lambda: exchange.tokens)
        match verb:
            case "pause":
                assert await run.pause()
                await held(run, "user")
                await gone(exchange)
                assert len(server.exchanges) == 1
                assert await run.resume()
                assert await run.result(timeout=120) == ["again"]
            case "redirect":
                assert await run.redirect("otherwise")
                await gone(exchange)
                assert await run.result(timeout=120) == ["again"]
            case _:
                assert await run.cancel()
                receipt = await run.settled(timeout=120)
                await gone(exchange)
                assert [f.outcome for f in receipt.in_flight] == ["aborted"]
                assert receipt.calls_after_cancel == 0
                assert len(server.exchanges) == 1


async def test_a_request_that_is_not_streamed_is_cut_too(server: LoopbackProvider) -> None:
    server.will(stalls_before_headers())
    async with openai_client(server) as client, Runtime(":memory:", agents=[a := own_loop(lambda: whole(client))]) as r:
        run = await r.start(a, Words())
        exchange = await asked(server)
        assert await run.cancel()
        receipt = await run.settled(timeout=120)
        await gone(exchange)
        assert [f.outcome for f in receipt.in_flight] == ["aborted"]


async def test_a_run_pauses_and_resumes_between_its_turns(server: LoopbackProvider) -> None:
    """R4: turns that were finished are not asked again; the one that was cut is asked once more."""
    server.will(says("one"), says("two"), goes_silent("th"), says("three"))
    async with (
        openai_client(server) as client,
        Runtime(":memory:", agents=[a := own_loop(lambda: streamed(client), turns=3)]) as r,
    ):
        run = await r.start(a, Words())
        await asked(server, 3)
        assert await run.pause()
        await held(run, "user")
        assert await run.resume()
        assert await run.result(timeout=120) == ["one", "two", "three"]
    assert len(server.exchanges) == 4


async def test_a_repeated_step_asks_again(server: LoopbackProvider) -> None:
    """Requests are not journaled: only what run.call performs is kept."""
    server.will(says("first"), says("second"))
    begun = asyncio.Event()
    interruptions: list[Interruption | None] = []

    @tool(effect="read")
    async def slow() -> str:
        begun.set()
        await asyncio.sleep(60 if len(server.exchanges) == 1 else 0)
        return "slow"

    async with openai_client(server) as client:

        @agent("twice")
        async def twice(run: Run[Nothing]) -> Done[str]:
            interruptions.append(run.interruption)
            text = await streamed(client)
            return Done(text + " " + await run.call(slow()))

        async with Runtime(":memory:", agents=[twice]) as r:
            run = await r.start(twice, Nothing())
            await begun.wait()
            assert await run.pause()
            await held(run, "user")
            assert await run.resume()
            assert await run.result(timeout=120) == "second slow"
    assert interruptions[0] is None
    assert interruptions[1] is not None
    assert interruptions[1].finished == ()


async def test_an_error_of_the_provider_is_the_callers_to_handle(server: LoopbackProvider) -> None:
    server.will(refuses(400, "no"), says("fine"))

    async with openai_client(server) as client:

        async def ask() -> str:
            try:
                return await whole(client)
            except Exception as error:  # noqa: BLE001 - whatever the SDK makes of it
                return f"{type(error).__name__} {await whole(client)}"

        async with Runtime(":memory:", agents=[a := own_loop(ask)]) as r:
            run = await r.start(a, Words())
            assert await run.result(timeout=120) == ["BadRequestError fine"]
            finished = [e for e in await recorded(run) if isinstance(e, CallFinished)]
    assert [e.result["status"] for e in finished if isinstance(e.result, dict)] == [400, 200]


async def test_a_request_that_fails_is_recorded_as_failed(server: LoopbackProvider) -> None:
    async with openai_client(server, max_retries=0) as client:
        client.base_url = "http://127.0.0.1:1/v1"  # nobody listens there

        async def ask() -> str:
            try:
                return await whole(client)
            except Exception as error:  # noqa: BLE001 - whatever the SDK makes of it
                return type(error).__name__

        async with Runtime(":memory:", agents=[a := own_loop(ask)]) as r:
            run = await r.start(a, Words())
            assert await run.result(timeout=120) == ["APIConnectionError"]
            failed = [e for e in await recorded(run) if isinstance(e, Failed)]
    assert [e.error for e in failed] == ["ConnectError"]


async def test_a_caller_that_loses_patience_ends_its_request(server: LoopbackProvider) -> None:
    """Only the request is over: no stop has come, so the step goes on."""
    server.will(stalls_before_headers(), says("second try"))
    async with openai_client(server) as client:

        async def ask() -> str:
            try:
                async with asyncio.timeout(0.2):
                    return await whole(client)
            except TimeoutError:
                return await whole(client)

        async with Runtime(":memory:", agents=[a := own_loop(ask)]) as r:
            run = await r.start(a, Words())
            assert await run.result(timeout=120) == ["second try"]
            events = await recorded(run)
    await gone(server.exchanges[0])
    assert [e.error for e in events if isinstance(e, Failed)] == ["CancelledError"]


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_response_that_was_ready_ends_its_call(is_async: bool) -> None:
    """A transport of the user's own, a cache or a mock: nobody reads or closes what it gives."""
    ready = httpx2.MockTransport(lambda _: httpx2.Response(200, text="ready"))
    async with fence.http_client(transport=ready) as client:
        with fence.sync_http_client(transport=ready) as sync:

            async def ask() -> str:
                url = "http://model.example/v1?key=secret"
                return (await client.get(url) if is_async else await asyncio.to_thread(sync.get, url)).text

            async with Runtime(":memory:", agents=[a := own_loop(ask)]) as r:
                run = await r.start(a, Words())
                assert await run.result(timeout=120) == ["ready"]
                finished = [e for e in await recorded(run) if isinstance(e, CallFinished)]
    assert [e.result for e in finished] == [{"status": 200, "bytes": 5, "complete": True}]


async def test_parallel_requests_are_cut_together(server: LoopbackProvider) -> None:
    server.will(*[goes_silent("x")] * 5)

    async with openai_client(server) as client:

        async def ask() -> str:
            return "".join(await asyncio.gather(*(streamed(client) for _ in range(5))))

        async with Runtime(":memory:", agents=[a := own_loop(ask)]) as r:
            run = await r.start(a, Words())
            await asked(server, 5)
            accepted = await run.cancel()
            assert isinstance(accepted, Accepted)
            assert len(accepted.in_flight) == 5
            receipt = await run.settled(timeout=120)
            for exchange in server.exchanges:
                await gone(exchange)
    assert [f.outcome for f in receipt.in_flight] == ["aborted"] * 5


async def test_a_stream_that_nobody_reads_is_closed_by_a_stop(server: LoopbackProvider) -> None:
    """`break` leaves the connection open: a stop does not."""
    server.will(goes_silent("a", "b"))
    left = asyncio.Event()

    async with openai_client(server) as client:

        async def ask() -> str:
            stream = await client.chat.completions.create(model="m", messages=HELLO, stream=True)
            async for _ in stream:
                break
            left.set()
            await asyncio.sleep(60)
            return str(stream)

        async with Runtime(":memory:", agents=[a := own_loop(ask)]) as r:
            run = await r.start(a, Words())
            await left.wait()
            assert server.exchanges[0].gone_at is None
            assert len((await run.view()).in_flight) == 1
            assert await run.pause()
            await gone(server.exchanges[0])
            await held(run, "user")


async def test_a_stream_left_open_ends_with_its_step(server: LoopbackProvider) -> None:
    server.will(goes_silent("a"))
    kept: list[Any] = []

    async with openai_client(server) as client:

        @agent("leaves")
        async def leaves(run: Run[Words]) -> Idle | None:
            if run.step == 1:
                return Idle()
            stream = await client.chat.completions.create(model="m", messages=HELLO, stream=True)
            kept.append(stream)
            return None

        async with Runtime(":memory:", agents=[leaves]) as r:
            run = await r.start(leaves, Words())
            await held(run, "waiting")
            await gone(server.exchanges[0])
            assert (await run.view()).in_flight == ()


async def test_soft_cancel_lets_the_request_finish(server: LoopbackProvider) -> None:
    """R12."""
    server.will(says(*"abcdefgh", every=0.05))
    async with (
        openai_client(server) as client,
        Runtime(":memory:", agents=[a := own_loop(lambda: streamed(client))]) as r,
    ):
        run = await r.start(a, Words())
        exchange = await asked(server)
        assert await run.cancel(soft=True)
        receipt = await run.settled(timeout=120)
    assert [f.outcome for f in receipt.in_flight] == ["finished"]
    assert exchange.gone_at is None
    assert receipt.result == ["abcdefgh"]


async def test_requests_count_into_the_budget(server: LoopbackProvider) -> None:
    """R17: the cap holds the run, and raising it lets it go on."""
    server.will(says("1"), says("2"), says("3"))
    async with (
        openai_client(server) as client,
        Runtime(":memory:", agents=[a := own_loop(lambda: streamed(client), turns=3)]) as r,
    ):
        run = await r.start(a, Words(), budget=Budget(calls=2))
        await held(run, "budget")
        assert len(server.exchanges) == 2
        assert await run.resume(budget=Budget(calls=10))
        assert await run.result(timeout=120) == ["1", "2", "3"]


async def test_a_step_that_sends_requests_is_not_taken_for_an_idle_one(server: LoopbackProvider) -> None:
    """Its state stays as it is, but it does something: the loop watch does not hold it for that."""
    server.will(*[says("tick")] * 6)

    async with openai_client(server) as client:

        @agent("polls", budget=Budget(repeats=3))
        async def polls(run: Run[Nothing]) -> Done[int] | None:
            await whole(client)
            return Done(run.step) if run.step == 5 else None

        async with Runtime(":memory:", agents=[polls]) as r:
            run = await r.start(polls, Nothing())
            assert await run.result(timeout=120) == 5


async def test_the_cap_holds_in_the_midst_of_a_step(server: LoopbackProvider) -> None:
    """R17: a framework that loops inside one step is held all the same; the step is taken again."""
    server.will(*map(says, "12345"))
    async with openai_client(server) as client:

        async def ask() -> str:
            return "".join([await whole(client) for _ in range(3)])

        async with Runtime(":memory:", agents=[a := own_loop(ask)]) as r:
            run = await r.start(a, Words(), budget=Budget(calls=2))
            view = await held(run, "budget")
            assert view.spent.calls == 2
            assert len(server.exchanges) == 2
            assert await run.resume(budget=Budget(calls=10))
            assert await run.result(timeout=120) == ["345"]


async def test_code_that_asks_after_the_pause_does_not_end_its_step(server: LoopbackProvider) -> None:
    """R7: nor is what it makes of a request that was never sent."""
    server.will(says("true"))
    begun, go = asyncio.Event(), asyncio.Event()

    async with openai_client(server) as client:

        async def ask() -> str:
            begun.set()
            await go.wait()
            try:
                return await whole(client)
            except RequestRefused:
                return "sorry, the model is down"

        async with Runtime(":memory:", agents=[a := own_loop(ask)]) as r:
            run = await r.start(a, Words())
            await begun.wait()
            assert await run.pause()
            go.set()
            await held(run, "user")
            assert await run.resume()
            assert await run.result(timeout=120) == ["true"]
    assert len(server.exchanges) == 1


async def test_code_that_swallows_the_refusal_does_not_end_its_step(server: LoopbackProvider) -> None:
    """R7: what a framework makes of a request that a pause has cut is no result of the step."""
    server.will(goes_silent("x"), says("true"))
    async with openai_client(server) as client:

        async def ask() -> str:
            try:
                return await streamed(client)
            except Exception:  # noqa: BLE001 - as a framework with a fallback answer does
                return "sorry, the model is down"

        async with Runtime(":memory:", agents=[a := own_loop(ask)]) as r:
            run = await r.start(a, Words())
            await asked(server)
            assert await run.pause()
            view = await held(run, "user")
            assert view.step == 0
            assert await run.resume()
            assert await run.result(timeout=120) == ["true"]


async def test_code_that_swallows_everything_reaches_nobody(server: LoopbackProvider) -> None:
    """R7: cancelled and refused again and again, it is left behind and named; the server hears nothing more."""
    server.will(goes_silent("x"), *[says("never")] * 100)
    tries = 0
    over = False
    refused: list[BaseException] = []

    async with openai_client(server) as client:

        async def ask() -> str:
            nonlocal tries
            while not over:
                tries += 1
                try:
                    await streamed(client)
                except BaseException as error:  # noqa: BLE001 - stubborn on purpose
                    refused.append(error)
            return ""

        async with Runtime(":memory:", agents=[a := own_loop(ask)]) as r:
            run = await r.start(a, Words())
            await asked(server)
            assert await run.cancel()
            receipt = await run.settled(timeout=120)
            before = tries
            await eventually(lambda: tries > before + 3)
            over = True
    assert receipt.residue != ()
    assert receipt.calls_after_cancel == 0
    assert len(server.exchanges) == 1
    assert any(isinstance(e, RequestRefused) for e in refused)
