"""A model call is a call like any other: gate, journal, key, usage, cut at once (R3, R4, R9, R17)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from pydantic import BaseModel
from tests.helpers import eventually, held

from standfast import Budget, Done, Interruption, Json, Log, Run, RunHeld, Runtime, agent, models, tool
from standfast.models import Model, ProviderError, Think, Use, use
from standfast.replies import Counted, Delta, Dialect, Finished, Request, Text, Usage
from standfast.testing import lab


class Talk(BaseModel):
    log: Log[Json] = Log()
    answers: list[str] = []


class Slow:
    """A provider that says a word, then is silent until it is told to go on; it notes when it was closed."""

    name = "slow"
    dialect: Dialect = "openai-chat"

    def __init__(self, *words: str) -> None:
        self.words = words or ("half", " a", " thought")
        self.asked: list[Request] = []
        self.closed = 0
        self.go = asyncio.Event()
        self.silent = asyncio.Event()

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncGenerator[AsyncIterator[Delta], None]:
        self.asked.append(request)
        deltas = self._deltas()
        try:
            yield deltas
        finally:
            self.closed += 1
            await deltas.aclose()

    async def _deltas(self) -> AsyncGenerator[Delta, None]:
        for word in self.words:
            yield Text(word)
        self.silent.set()
        await self.go.wait()
        yield Text(".")
        yield Counted(Usage(10, 4, 0.5))
        yield Finished({"role": "assistant", "content": "".join(self.words) + "."}, "stop")


def talker(model: Model, seen: list[Interruption | None] | None = None) -> Any:
    @agent("talker")
    async def talker(run: Run[Talk]) -> Done[str]:
        if seen is not None:
            seen.append(run.interruption)
        reply = await run.call(model([{"role": "user", "content": "Hello?"}]))
        return Done(reply.text)

    return talker


# --- streams that are cut ---------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["pause", "cancel", "redirect"])
async def test_a_silent_stream_is_closed_at_once_by_every_stop(verb: str) -> None:
    """R3, R6: not after a grace, and not at the next token."""
    provider = Slow()
    async with Runtime(":memory:", agents=[one := talker(Model(provider))]) as runs:
        run = await runs.start(one, Talk())
        await asyncio.wait_for(provider.silent.wait(), 10)
        answer = await (run.redirect("louder") if verb == "redirect" else getattr(run, verb)())
        assert [c.tool for c in answer.in_flight] == ["slow"]
        await eventually(lambda: provider.closed == 1)
        if verb == "redirect":
            await eventually(lambda: len(provider.asked) == 2)
            await run.cancel()
        await run.settled(timeout=120)
        (said, *_) = await run.transcript()
        assert (said.text, said.partial) == ("half a thought", True)


async def test_a_resumed_step_asks_once_more_and_knows_what_was_said() -> None:
    """R4: the same call, with the same key; the partial text is in run.interruption."""
    provider, seen = Slow(), list[Interruption | None]()
    async with Runtime(":memory:", agents=[one := talker(Model(provider), seen)]) as runs:
        run = await runs.start(one, Talk())
        await asyncio.wait_for(provider.silent.wait(), 10)
        await run.pause()
        receipt = await run.settled(timeout=120)
        (flight,) = receipt.in_flight
        assert (flight.outcome, flight.tokens > 0, flight.estimated) == ("aborted", True, True)
        assert flight.last_byte_at is not None and flight.last_byte_at <= receipt.settled_at
        assert receipt.last_byte_at == flight.last_byte_at
        provider.go.set()
        await run.resume()
        assert await run.result(timeout=120) == "half a thought."
        assert len(provider.asked) == 2
        assert seen[0] is None and seen[1] is not None
        assert seen[1].text == "half a thought"
        partial, whole = await run.transcript()
        assert (partial.text, partial.partial) == ("half a thought", True)
        assert (whole.text, whole.partial) == ("half a thought.", False)
        assert partial.call == whole.call, "issued again with the same key"


async def test_tokens_of_a_cut_stream_count_and_are_called_estimated() -> None:
    """R17: what was cut was paid for."""
    provider = Slow("word " * 400)
    async with Runtime(":memory:", agents=[one := talker(Model(provider))]) as runs:
        run = await runs.start(one, Talk())
        await asyncio.wait_for(provider.silent.wait(), 10)
        await run.cancel()
        receipt = await run.settled(timeout=120)
        assert receipt.usage.output_tokens == receipt.in_flight[0].tokens == 500
        assert receipt.usage.input_tokens > 0


async def test_a_cut_stream_costs_what_its_tokens_cost() -> None:
    """R17: also where the provider had no time to say."""

    class Dear(Slow):
        def cost(self, input_tokens: int, output_tokens: int) -> float:
            return input_tokens + output_tokens / 10

    provider = Dear("word " * 400)
    async with Runtime(":memory:", agents=[one := talker(Model(provider))]) as runs:
        run = await runs.start(one, Talk())
        await asyncio.wait_for(provider.silent.wait(), 10)
        await run.cancel()
        usage = (await run.settled(timeout=120)).usage
        assert usage.cost == usage.input_tokens + 50


async def test_a_finished_reply_is_never_asked_for_again() -> None:
    """R4: a repeated step takes it from the journal."""
    m = models.scripted("first", "second")
    door = asyncio.Event()

    @tool(effect="read")
    async def wait() -> None:
        await door.wait()

    @agent("waits")
    async def waits(run: Run[Talk]) -> Done[str]:
        reply = await run.call(m("Hello?"))
        await run.call(wait())
        return Done(reply.text)

    async with lab([waits]) as runs:
        run = await runs.start(waits, Talk())
        await runs.until(run, call="wait")
        await runs.crash()
        await runs.until(run, call="wait")
        door.set()
        assert await run.result(timeout=120) == "first"
        assert runs.performed["scripted"] <= 2  # a read that was not yet recorded may be repeated, never more


async def test_text_so_far_survives_kill_9() -> None:
    """R2, R9: what was flushed is in the transcript of a new driver."""
    provider = Slow("x" * 5000)
    async with lab([one := talker(Model(provider))]) as runs:
        run = await runs.start(one, Talk())
        await asyncio.wait_for(provider.silent.wait(), 10)
        await eventually(run.transcript)
        await runs.crash()
        provider.go.set()
        assert (await run.result(timeout=120)).startswith("xxx")
        partial, whole = await run.transcript()
        assert (len(partial.text), partial.partial, whole.partial) == (5000, True, False)


# --- retries ----------------------------------------------------------------------------------------


async def test_a_passing_trouble_is_tried_again_inside_the_call() -> None:
    m = models.scripted(_fails(2, "rate_limited", 429, "at last"))
    async with lab([one := talker(m)]) as runs:
        run = await runs.start(one, Talk())
        assert await run.result(timeout=120) == "at last"
        waits = [e async for e in run.events() if e.type == "call_waits"]
        assert [(e.why, e.tries) for e in waits] == [("rate limited (429)", 1), ("rate limited (429)", 2)]
        assert runs.performed == {"scripted": 1}


async def test_a_wait_before_a_retry_is_seen_and_can_be_stopped() -> None:
    """R17: the view says what is waited for; a pause does not wait for it, and nothing is asked afterwards."""
    m = models.scripted(_fails(99, "rate_limited", 429, "", retry_after=50.0), retries=99)
    async with Runtime(":memory:", agents=[one := talker(m)]) as runs:
        run = await runs.start(one, Talk())
        view = await eventually(lambda: _waiting(run))
        assert "waiting 50 s: rate limited (429)" in view.waiting_for
        await run.pause()
        await held(run, "user")
        asked = len(m.requests)
        await asyncio.sleep(0.1)
        assert len(m.requests) == asked == 1
        await run.resume()
        await eventually(lambda: len(m.requests) == 2)
        await run.cancel()
        assert (await run.settled(timeout=120)).in_flight[0].outcome == "aborted"


@pytest.mark.parametrize("trouble", ["unauthorised", "not_found", "refused", "nonsense"])
async def test_a_trouble_that_stays_holds_the_run_at_once(trouble: Any) -> None:
    """Nothing is lost: paused(error) with the words of the error, and a resume asks again."""
    m = models.scripted(_fails(1, trouble, 401, "mended"))
    async with lab([one := talker(m)]) as runs:
        run = await runs.start(one, Talk())
        with pytest.raises(RunHeld, match="no key"):
            await run.result(timeout=120)
        assert len(m.requests) == 1
        await run.resume()
        assert await run.result(timeout=120) == "mended"


async def test_a_stream_that_ends_without_its_end_is_no_reply() -> None:
    class Dies(Slow):
        async def _deltas(self) -> AsyncGenerator[Delta, None]:
            yield Text("half")

    async with lab([one := talker(Model(Dies(), retries=1))]) as runs:
        run = await runs.start(one, Talk())
        with pytest.raises(RunHeld, match="ended before its answer did"):
            await run.result(timeout=120)
        assert [(s.text, s.partial) for s in await run.transcript()] == [("half", True), ("half", True)]


async def test_an_endless_answer_is_cut_and_kept() -> None:
    class Endless(Slow):
        async def _deltas(self) -> AsyncGenerator[Delta, None]:
            while True:
                yield Text("x" * 1000)

    async with lab([one := talker(Model(Endless(), most_characters=20_000))]) as runs:
        run = await runs.start(one, Talk())
        with pytest.raises(RunHeld, match="longer than 20000 characters"):
            await run.result(timeout=120)
        assert len((await run.transcript())[0].text) >= 20_000


# --- what a call is made of -------------------------------------------------------------------------


async def test_usage_counts_into_the_budget() -> None:
    provider = Slow()
    provider.go.set()

    @agent("spends")
    async def spends(run: Run[Talk]) -> Done[str] | None:
        run.state.answers.append((await run.call(Model(provider)("Hello?"))).text)
        return None

    async with lab([spends]) as runs:
        run = await runs.start(spends, Talk(), budget=Budget(tokens=30))
        view = await held(run, "budget")
        assert (view.spent.tokens, view.spent.cost) == (42, 1.5)


async def test_a_growing_log_is_named_in_the_record_and_not_repeated() -> None:
    """R38: a request holds where its messages are, whatever they weigh."""
    m = models.scripted("a" * 500, again=True)

    @agent("chatty")
    async def chatty(run: Run[Talk]) -> Done[int] | None:
        run.state.log.append({"role": "user", "content": "b" * 500})
        reply = await run.call(m(run.state.log))
        run.state.log.append(reply.message)
        return Done(len(run.state.log)) if run.step == 40 else None

    async with lab([chatty]) as runs:
        run = await runs.start(chatty, Talk())
        assert await run.result(timeout=120) == 82
        asked = [e async for e in run.events() if e.type == "call_started"]
        sizes = [len(str(e.args)) for e in asked]
        assert max(sizes) < 1500
        assert len(m.requests[-1].messages) == 81


async def test_reasoning_and_tool_calls_are_told_apart_from_text() -> None:
    m = models.scripted((Think("hm "), "Let me see. ", use("search", q="x"), Use("search", "{broken")))

    @agent("asks")
    async def asks(run: Run[Talk]) -> Done[Json]:
        reply = await run.call(m("Hello?"))
        return Done({"calls": [[c.name, c.arguments] for c in reply.tool_calls], "why": reply.reasoning})

    async with lab([asks]) as runs:
        run = await runs.start(asks, Talk())
        found = await run.result(timeout=120)
        assert found == {"calls": [["search", '{"q":"x"}'], ["search", "{broken"]], "why": "hm "}
        (said,) = await run.transcript()
        assert (said.text, said.reasoning, said.partial) == ("Let me see. ", "hm ", False)


async def test_the_instructions_are_no_part_of_the_record() -> None:
    """R32: who may see a run's record need not see its instructions."""
    m = models.scripted("yes")

    @agent("told")
    async def told(run: Run[Talk]) -> Done[str]:
        return Done((await run.call(m("Hello?", system="the secret of the house"))).text)

    async with lab([told]) as runs:
        run = await runs.start(told, Talk())
        await run.result(timeout=120)
        assert "secret of the house" not in "".join([str(e) async for e in run.events()])
        assert m.requests[0].system == "the secret of the house"


async def test_one_line_each_however_often_it_is_asked_for() -> None:
    m = models.scripted("one", "two")

    @agent("twice")
    async def twice(run: Run[Talk]) -> Done[list[str]]:
        return Done([(await run.call(m("a"))).text, (await run.call(m("b"))).text])

    async with lab([twice]) as runs:
        run = await runs.start(twice, Talk())
        assert await run.result(timeout=120) == ["one", "two"]


def _fails(times: int, trouble: Any, status: int, then: str, retry_after: float | None = None) -> Any:
    asked: list[Request] = []

    def answer(request: Request) -> str:
        asked.append(request)
        if len(asked) <= times:
            raise ProviderError("no key", trouble=trouble, status=status, retry_after=retry_after)
        return then

    return answer


async def _waiting(run: Any) -> Any:
    view = await run.view()
    return view if "rate limited" in view.waiting_for else None
