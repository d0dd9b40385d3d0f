"""R7: a request in a tool's body belongs to the call: refused, cut and over with it."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from typing import Any

import pytest
from tests.cancel.support import deaf_until
from tests.fence.world import Nothing, asked, gone, one_call_of, openai_client, recorded, streamed, whole
from tests.helpers import eventually, held
from tests.providers.scenes import goes_silent, says, stalls_before_headers
from tests.providers.server import LoopbackProvider

from standfast import Accepted, CallFailed, Done, Idle, Performed, Run, Runtime, agent, tool
from standfast.events import CallStarted
from standfast.fence import RequestCut, RequestRefused
from standfast.testing import tool_context


async def test_a_request_inside_a_call_is_no_call_of_its_own(server: LoopbackProvider) -> None:
    server.will(says("yes"))
    async with openai_client(server) as client:

        @tool(effect="read")
        async def think() -> str:
            return await streamed(client)

        async with one_call_of(think) as run:
            assert await run.result(timeout=120) == "yes"
            assert [e.tool for e in await recorded(run) if isinstance(e, CallStarted)] == ["think"]
            assert (await run.view()).spent.calls == 1


@pytest.mark.parametrize("kind", ["tool", "model"])
async def test_a_cut_call_takes_its_request_along(server: LoopbackProvider, kind: str) -> None:
    """R3: a pause cuts a read, and issues it again on resume, with its request."""
    server.will(goes_silent("x"), says("yes"))
    async with openai_client(server) as client:

        @tool(effect="read", kind=kind)
        async def think() -> str:
            return await streamed(client)

        async with one_call_of(think) as run:
            await asked(server)
            assert await run.pause()
            await held(run, "user")
            await gone(server.exchanges[0])
            assert await run.resume()
            assert await run.result(timeout=120) == "yes"
    assert len(server.exchanges) == 2


async def test_a_body_that_swallows_the_cut_has_no_result(server: LoopbackProvider) -> None:
    """What a read makes of a request that a pause has cut is not its result: it is performed again."""
    server.will(goes_silent("x"), says("true"))
    async with openai_client(server) as client:

        @tool(effect="read")
        async def think() -> str:
            # a nested framework: the request is in a task of its own, and a failure becomes an answer
            answer = await asyncio.gather(streamed(client), return_exceptions=True)
            return answer[0] if isinstance(answer[0], str) else "sorry"

        async with one_call_of(think) as run:
            await asked(server)
            assert await run.pause()
            await held(run, "user")
            assert await run.resume()
            assert await run.result(timeout=120) == "true"


async def test_a_body_that_swallows_the_refusal_has_no_result(server: LoopbackProvider) -> None:
    """The same for a read that asks in the moment between the pause and its own cut, and makes an answer of it."""
    server.will(says("true"))
    begun, go = asyncio.Event(), asyncio.Event()

    async with openai_client(server) as client:

        @tool(effect="read")
        async def think() -> str:
            begun.set()
            await go.wait()
            try:
                return await whole(client)
            except RequestRefused:
                return "sorry"

        async with one_call_of(think) as run:
            await begun.wait()
            paused = asyncio.create_task(run.pause())
            paused.add_done_callback(lambda _: go.set())
            assert await paused
            await held(run, "user")
            assert await run.resume()
            assert await run.result(timeout=120) == "true"
    assert len(server.exchanges) == 1


async def test_a_write_keeps_its_requests_while_a_pause_waits_for_it(server: LoopbackProvider) -> None:
    """R3: a tool with effects is allowed to finish, and asks the model for that as often as it must."""
    server.will(says("a", "b", every=0.1), says("c"))
    async with openai_client(server) as client:

        @tool
        async def write() -> str:
            return await streamed(client) + await streamed(client)

        async with one_call_of(write) as run:
            await asked(server)
            assert await run.pause()
            await run.settled(timeout=120)
            assert len(server.exchanges) == 2
            await run.resume()
            assert await run.result(timeout=120) == "abc"
    assert len(server.exchanges) == 2


async def test_a_hard_cancel_sends_nothing_new_even_for_a_write(server: LoopbackProvider) -> None:
    """R7: the grace of a write is for what it has under way; another question to the model is a further call."""
    server.will(says("a", "b", every=0.2), says("never"))
    async with openai_client(server) as client:
        refused: list[BaseException] = []

        @tool(grace=30)
        async def write() -> str:
            text = await streamed(client)
            try:
                return text + await streamed(client)
            except RequestRefused as error:
                refused.append(error)
                raise

        async with one_call_of(write) as run:
            await asked(server)
            assert await run.cancel()
            receipt = await run.settled(timeout=120)
    assert [f.outcome for f in receipt.in_flight] == ["failed"]
    assert len(server.exchanges) == 1
    assert server.exchanges[0].gone_at is None
    assert [str(e).count("cancelling") for e in refused] == [1]


async def test_a_task_that_a_tool_left_behind_cannot_reach_the_model_after_the_stop(server: LoopbackProvider) -> None:
    """R7: fire and forget, and deaf to its cancellation. Before the stop what it sends is named; after it, refused."""
    server.will(*[says("pong")] * 1000)
    over = False
    refused: list[RequestRefused] = []
    tasks: list[asyncio.Task[None]] = []

    async with openai_client(server) as client:

        async def ping() -> None:
            while not over:
                try:
                    await whole(client)
                except RequestRefused as error:
                    refused.append(error)
                except asyncio.CancelledError:
                    pass  # deaf on purpose

        @tool(effect="read")
        async def fire_and_forget() -> None:
            tasks.append(asyncio.create_task(ping()))

        @tool(effect="read")
        async def long() -> None:
            await asyncio.sleep(60)

        @agent("forgets")
        async def forgets(run: Run[Nothing]) -> Done[None]:
            await run.call(fire_and_forget())
            await run.call(long())
            return Done(None)

        async with Runtime(":memory:", agents=[forgets]) as r:
            run = await r.start(forgets, Nothing())
            await asked(server, 3)
            accepted = await run.cancel()
            assert isinstance(accepted, Accepted)
            receipt = await run.settled(timeout=120)
            before = len(refused)
            await eventually(lambda: len(refused) > before + 3)
            over = True
            await asyncio.wait(tasks)
            started = [e for e in await recorded(run) if isinstance(e, CallStarted) and e.tool.startswith("http")]
    assert receipt.calls_after_cancel == 0
    assert all(e.seq < accepted.seq for e in started)
    assert len(server.exchanges) <= len(started) + 1  # and one that belonged to its own call, begun before that ended


async def test_a_request_does_not_outlive_its_call(server: LoopbackProvider) -> None:
    """A stream that a tool's task still reads when the tool returns is closed with the call."""
    server.will(goes_silent("x"))
    ends: list[BaseException] = []

    async with openai_client(server) as client:

        async def read() -> None:
            try:
                await streamed(client)
            except RequestCut as error:
                ends.append(error)

        @tool(effect="read")
        async def starts() -> None:
            task = asyncio.create_task(read())
            await eventually(lambda: server.exchanges and server.exchanges[0].tokens)
            del task

        @agent("starts")
        async def starter(run: Run[Nothing]) -> Done[None]:
            await run.call(starts())
            await gone(server.exchanges[0])
            return Done(None)

        async with Runtime(":memory:", agents=[starter]) as r:
            run = await r.start(starter, Nothing())
            await run.result(timeout=120)
            await eventually(lambda: ends)


async def test_a_task_of_an_earlier_step_is_refused(server: LoopbackProvider) -> None:
    """R7: a task left over from a step that is over can never act, also if it swallows every cancellation."""
    refused: list[BaseException] = []
    second = asyncio.Event()
    tasks: list[asyncio.Task[None]] = []

    async with openai_client(server) as client:

        async def later() -> None:
            await deaf_until(second)
            while not refused:
                try:
                    await whole(client)
                except RequestRefused as error:
                    refused.append(error)
                except asyncio.CancelledError:
                    continue

        @agent("two")
        async def two(run: Run[Nothing]) -> Idle | None:
            if run.step == 0:
                tasks.append(asyncio.create_task(later()))
                return None
            second.set()
            await asyncio.wait(tasks)
            return Idle()

        async with Runtime(":memory:", agents=[two]) as r:
            run = await r.start(two, Nothing())
            await held(run, "waiting")
    assert "the step that started this code is over" in str(refused[0])
    assert server.exchanges == []


async def test_a_time_limit_is_no_stop(server: LoopbackProvider) -> None:
    """The call times out as ever; the step goes on."""
    server.will(stalls_before_headers())
    async with openai_client(server) as client:

        @tool(effect="read", timeout=0.3)
        async def think() -> str:
            return await whole(client)

        @agent("thinks")
        async def thinks(run: Run[Nothing]) -> Done[str]:
            try:
                return Done(await run.call(think()))
            except CallFailed as error:
                return Done(type(error).__name__)

        async with Runtime(":memory:", agents=[thinks]) as r:
            run = await r.start(thinks, Nothing())
            assert await run.result(timeout=120) == "CallTimedOut"
            await gone(server.exchanges[0])


async def test_a_body_whose_time_was_up_sends_nothing_more(server: LoopbackProvider) -> None:
    """R35: it is left behind while its step goes on; the step's gate is not open for it."""
    refused: list[BaseException] = []
    timed_out = asyncio.Event()

    async with openai_client(server) as client:
        with pytest.raises(RequestRefused):
            await whole(client)  # the SDK's first look at the platform is in a thread, which would not be started

        @tool(effect="read", timeout=0.1, grace=0.1)
        async def deaf() -> str:
            while not refused:
                try:
                    await timed_out.wait()
                    await whole(client)
                except asyncio.CancelledError:
                    pass  # deaf on purpose, however often it is cancelled
                except RequestRefused as error:
                    refused.append(error)
            return "late"

        @agent("goes on")
        async def goes_on(run: Run[Nothing]) -> Done[str]:
            try:
                return Done(await run.call(deaf()))
            except CallFailed as error:
                timed_out.set()
                await eventually(lambda: refused)
                return Done(type(error).__name__)

        async with Runtime(":memory:", agents=[goes_on]) as r:
            run = await r.start(goes_on, Nothing())
            assert await run.result(timeout=120) == "CallTimedOut"
    assert server.exchanges == []


async def test_an_undo_may_use_the_model_after_the_cancel(
    server: LoopbackProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R8, R39: an undo's own requests pass outside the gate; what it leaves is cut, and asks nothing more."""
    monkeypatch.setattr("standfast.aside.PATIENCE", 0.1)
    server.will(says("session"), says("closed"))
    late: list[asyncio.Task[Any]] = []
    undone = asyncio.Event()

    async with openai_client(server) as client:

        async def after_the_undo() -> None:
            await undone.wait()
            await whole(client)

        async def close_session(p: Performed[str, None]) -> None:
            assert await whole(client) == "closed"
            late.append(asyncio.create_task(after_the_undo()))

        @tool(undo=close_session, settles="run")
        async def open_session() -> str:
            return await whole(client)

        @agent("session")
        async def session(run: Run[Nothing]) -> Idle:
            await run.call(open_session())
            return Idle()

        async with Runtime(":memory:", agents=[session]) as r:
            run = await r.start(session, Nothing())
            await held(run, "waiting")
            assert await run.cancel()
            receipt = await run.settled(timeout=120)
            undone.set()
            await asyncio.wait(late)
    assert [u.outcome for u in receipt.undone] == ["in_doubt"]
    assert len(server.exchanges) == 2
    assert late[0].cancelled()


async def test_a_fact_may_be_read_through_the_fence(server: LoopbackProvider) -> None:
    """R16: the reading that is repeated on resume belongs to no step, and passes."""
    server.will(says("v1"), says("v1"), says("v2"))
    begun = asyncio.Event()
    async with openai_client(server) as client:

        @tool(effect="read")
        async def version() -> str:
            return await whole(client)

        @tool(effect="read")
        async def long() -> None:
            begun.set()
            await asyncio.sleep(60)

        @agent("relies")
        async def relies(run: Run[Nothing]) -> Done[None]:
            await run.relies_on("version", version())
            await run.call(long())
            return Done(None)

        async with Runtime(":memory:", agents=[relies]) as r:
            run = await r.start(relies, Nothing())
            for holds in ("user", "stale"):
                await begun.wait()
                assert await run.pause()
                await held(run, "user")
                begun.clear()
                assert await run.resume()
                if holds == "stale":
                    view = await held(run, "stale")
                    assert "v2" in view.needs[0].text
    assert len(server.exchanges) == 3


async def test_without_a_run_a_request_is_refused(server: LoopbackProvider) -> None:
    async with openai_client(server) as client:
        with pytest.raises(RequestRefused) as refused:
            await whole(client)
    assert isinstance(refused.value, Exception)
    assert "no run" in str(refused.value)
    assert refused.value.hint
    assert server.exchanges == []


async def test_a_unit_test_of_a_tool_needs_no_run(server: LoopbackProvider) -> None:
    server.will(says("yes"))
    async with openai_client(server) as client:

        @tool(effect="read")
        async def think() -> str:
            return await whole(client)

        with tool_context():
            assert await think.fn() == "yes"


async def test_a_framework_with_a_loop_of_its_own_is_covered(server: LoopbackProvider) -> None:
    """R36: run_sync() in a thread: another event loop, the same run."""
    server.will(says("one"), goes_silent("x"))
    ends: list[BaseException] = []

    def run_sync() -> str:
        async def main() -> str:
            async with openai_client(server) as client:
                text = await streamed(client)
                try:
                    return text + await streamed(client)
                except (RequestCut, asyncio.CancelledError) as error:  # whichever is first
                    ends.append(error)
                    raise

        return asyncio.run(main())

    @agent("elsewhere")
    async def elsewhere(run: Run[Nothing]) -> Done[str]:
        return Done(await asyncio.to_thread(run_sync))

    async with Runtime(":memory:", agents=[elsewhere]) as r:
        run = await r.start(elsewhere, Nothing())
        exchange = await asked(server, 2)
        assert len((await run.view()).in_flight) == 1
        assert await run.cancel()
        receipt = await run.settled(timeout=120)
        await gone(exchange)
        await eventually(lambda: ends)
    assert [f.outcome for f in receipt.in_flight] == ["aborted"]
    assert receipt.residue == ()


async def test_a_bare_thread_has_no_run(server: LoopbackProvider) -> None:
    """Its context is empty; in a copy of the step's context the same code works."""
    server.will(says("yes"))
    said: list[str] = []

    def ask() -> None:
        async def main() -> None:
            async with openai_client(server) as client:
                try:
                    said.append(await whole(client))
                except RequestRefused:
                    said.append("refused")

        asyncio.run(main())

    @agent("threads")
    async def threads(run: Run[Nothing]) -> Done[list[str]]:
        context = contextvars.copy_context()
        for target in (ask, lambda: context.run(ask)):
            thread = threading.Thread(target=target)
            thread.start()
            while thread.is_alive():
                await asyncio.sleep(0.01)
        return Done(said)

    async with Runtime(":memory:", agents=[threads]) as r:
        run = await r.start(threads, Nothing())
        assert await run.result(timeout=120) == ["refused", "yes"]
