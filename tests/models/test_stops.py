"""R3-R6, R17: pause, redirect and cancel against a model's call, with the real SDKs: the worst of many trials."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import httpx2
import pytest
from pydantic import BaseModel
from tests.helpers import eventually, held
from tests.models.apis import Api
from tests.models.stops import PLACES, TRIALS, VERBS, Talk, Verb, at, count_tokens, talker
from tests.providers.scenes import Answer, Say, Wait, dies, floods, refuses, says, sends_html, uses
from tests.providers.scenes import use as uses_tool
from tests.providers.server import Exchange

from standfast import Accepted, Done, Handle, Interruption, Json, Log, Run, RunHeld, Runtime, agent, tool


class Trial:
    """One stop of one run, and what was seen of it."""

    def __init__(self, exchange: Exchange, accepted: Accepted, at: float) -> None:
        self.exchange = exchange
        self.accepted = accepted
        self.at = at  # no later than this was it accepted

    def check_named(self, model: str) -> None:
        assert [call.tool for call in self.accepted.in_flight] == [model]

    def tokens_read_after(self, kept: int) -> int:
        """Tokens in the transcript that the provider had not even sent when the stop was accepted."""
        return max(0, kept - sum(1 for when, _ in self.exchange.tokens if when <= self.at))


async def stop(run: Handle[Any], verb: Verb, exchange: Exchange) -> Trial:
    answer = await (run.redirect("and be brief") if verb == "redirect" else getattr(run, verb)())
    assert isinstance(answer, Accepted)
    return Trial(exchange, answer, time.monotonic())


@pytest.mark.soak
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("sync", [False, True], ids=["async", "sync"])
async def test_a_stop_cuts_the_call_wherever_it_is(
    api: Api, where: str, verb: Verb, sync: bool, tmp_path: Path
) -> None:
    """No request after accepted but a new attempt's; at most 3 tokens; the provider sees the connection close."""
    place, seen = PLACES[where], list[Interruption | None]()
    model = api.model(client=api.client(sync=sync))
    trials = TRIALS if not sync else min(TRIALS, 5)
    worst_tokens = 0
    async with Runtime(tmp_path / "runs.db", agents=[one := talker(model, seen)]) as runs:
        for trial in range(trials):
            exchanges = api.server.exchanges
            exchanges.clear()
            seen.clear()
            api.server.will(place.answer)
            if verb == "redirect":
                api.server.will(says("Hi", "."))
            run = await runs.start(one, Talk(), id=f"run-{trial}")
            stopped = await stop(run, verb, await at(place, exchanges, run))
            stopped.check_named(model.name)
            if where != "in a back-off":
                await eventually(lambda: stopped.exchange.gone_at)  # noqa: B023 - called at once
            if verb == "pause":
                await held(run, "user")
                assert len(exchanges) == 1, "a request after accepted"
                [said] = await run.transcript() or [None]
            elif verb == "redirect":
                assert await run.result(timeout=120) == "Hi."
                assert len(exchanges) == 2
                assert "and be brief" in str(exchanges[1].body)
                said, *_ = await run.transcript()
            else:
                receipt = await run.settled(timeout=120)
                assert [f.outcome for f in receipt.in_flight] == ["aborted"]
                assert receipt.calls_after_cancel == 0
                assert receipt.residue == ()
                assert len(exchanges) == 1, "a request after accepted"
                [said] = await run.transcript() or [None]
            if place.speaks:
                assert said is not None and said.partial
                worst_tokens = max(worst_tokens, stopped.tokens_read_after(count_tokens(said.text)))
                assert count_tokens(said.text) >= 1
            if verb == "pause":
                api.server.will(says("Hi", "."))
                assert await run.resume()
                assert await run.result(timeout=120) == "Hi."
                assert len(exchanges) == 2, "issued again exactly once"
                assert seen[0] is None and seen[1] is not None
                if place.speaks and said is not None:
                    assert seen[1].text == said.text
                    whole = (await run.transcript())[-1]
                    assert (whole.text, whole.partial) == ("Hi.", False)
    assert worst_tokens <= 3
    await eventually(lambda: api.server.open_connections <= 1)  # one may be kept for the next request


async def _has_said(run: Handle[Any], tokens: int) -> bool:
    return sum(count_tokens(one.text) for one in await run.transcript()) >= tokens


async def test_the_receipt_says_what_came_and_when(api: Api, tmp_path: Path) -> None:
    """R17: tokens, that they are estimated, and the times asked, accepted, last byte, settled."""
    model = api.model(price=(1.0, 1.0))
    async with Runtime(tmp_path / "runs.db", agents=[one := talker(model, [])]) as runs:
        api.server.will(PLACES["in a silence"].answer)
        run = await runs.start(one, Talk())
        await at(PLACES["in a silence"], api.server.exchanges, run)
        await eventually(lambda: _has_said(run, 5))  # the last byte has come; it is silent now
        await run.cancel()
        receipt = await run.settled(timeout=120)
    [flight] = receipt.in_flight
    assert flight.tokens > 0
    assert flight.estimated
    assert receipt.last_byte_at is not None
    assert receipt.last_byte_at <= receipt.accepted_at <= receipt.settled_at
    assert receipt.usage.output_tokens > 0
    assert count_tokens(receipt.partial_output) == 5


async def test_rate_limits_and_broken_streams_are_tried_again_in_the_call(api: Api, tmp_path: Path) -> None:
    """R17: visible, counted, and what came of a stream that died is not mixed with what came later."""
    api.server.will(
        refuses(429, retry_after="0.05"), refuses(529, retry_after="0.05"), dies("Half", " of"), says("All", " of it")
    )
    async with Runtime(tmp_path / "runs.db", agents=[one := talker(api.model(), [])]) as runs:
        run = await runs.start(one, Talk())
        assert await run.result(timeout=120) == "All of it"
        waits = [event async for event in run.events() if event.type == "call_waits"]
        assert [wait.why.split(" (")[0] for wait in waits] == ["rate limited", "overloaded", "connection"]
        said = [(one.text, one.partial) for one in await run.transcript()]
    assert said[-1] == ("All of it", False)
    assert len(api.server.exchanges) == 4


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (refuses(401, "wrong key"), "_API_KEY"),
        (refuses(404, "no such model"), "check the model's name, 'test-model'"),
        (sends_html(), "base_url"),
    ],
    ids=["key", "name", "proxy"],
)
async def test_what_cannot_go_on_holds_the_run_and_says_why(
    api: Api, answer: Answer, words: str, tmp_path: Path
) -> None:
    async with Runtime(tmp_path / "runs.db", agents=[one := talker(api.model(), [])]) as runs:
        api.server.will(answer)
        run = await runs.start(one, Talk())
        with pytest.raises(RunHeld) as caught:
            await run.result(timeout=120)
        assert words in str(caught.value) + caught.value.traceback
        assert len(api.server.exchanges) == 1
        api.server.will(says("Hi."))
        await run.resume()
        assert await run.result(timeout=120) == "Hi."


class Chat(BaseModel):
    log: Log[Json] = Log()


async def test_a_loop_of_ones_own_with_tools(api: Api, tmp_path: Path) -> None:
    """R36: m(log, tools=...), run.use_tools; results in request order; bad ones are told truthfully."""

    @tool(effect="read")
    async def weather(city: str) -> str:
        """The weather of a city."""
        await asyncio.sleep(0.05 if city == "Bergen" else 0)
        return f"rain in {city}"

    m = api.model()

    @agent("own")
    async def own(run: Run[Chat]) -> Done[str] | None:
        log = run.state.log
        if run.step == 0:
            log.append(api.user("weather?"))
        reply = await run.call(m(log, tools=[weather], system="Be short."))
        log.append(reply.message)
        if not reply.tool_calls:
            return Done(reply.text)
        log.extend(await run.use_tools(reply, [weather]))
        return None

    api.server.will(
        uses(
            uses_tool("weather", {"city": "Bergen"}, "a"),
            uses_tool("weather", '{"city": ', "b"),
            uses_tool("forecast", {}, "c"),
            uses_tool("weather", {"city": "Lima"}, "d"),
            before="Let me look.",
        ),
        says("It rains."),
    )
    async with Runtime(tmp_path / "runs.db", agents=[own]) as runs:
        run = await runs.start(own, Chat())
        assert await run.result(timeout=120) == "It rains."
    sent = str(api.server.last.body)
    assert 0 < sent.index("rain in Bergen") < sent.index("rain in Lima")
    assert "forecast" in sent


async def test_a_pause_in_a_flood_is_heard(api: Api, tmp_path: Path) -> None:
    """R3: tokens that come faster than they can be read do not keep a pause out."""
    api.server.will(floods(400_000_000, piece=64))
    model = api.model()
    async with Runtime(tmp_path / "runs.db", agents=[one := talker(model, [])]) as runs:
        run = await runs.start(one, Talk())
        await eventually(run.transcript)
        assert await run.pause()
        await held(run, "user")
        exchange = api.server.last
        await eventually(lambda: exchange.gone_at)
        await run.cancel()


async def test_the_wait_of_a_slow_stream_does_not_lose_what_was_said(api: Api, tmp_path: Path) -> None:
    """R9: text is durable a quarter of a second after it came, though the stream goes on."""
    api.server.will(Answer(acts=[Say("Once upon"), Wait()]))
    async with Runtime(tmp_path / "runs.db", agents=[one := talker(api.model(), [])]) as runs:
        run = await runs.start(one, Talk())
        async with Runtime(tmp_path / "runs.db", drive=False) as others:
            [said] = await eventually(others.handle(run.id).transcript)
            assert (said.text, said.partial) == ("Once upon", True)
        await run.cancel()


async def test_a_sync_client_that_cannot_be_cut_is_named(api: Api, tmp_path: Path) -> None:
    """R35: the receipt says that the request still runs; what it brings later is kept out of the run."""
    released = threading.Event()

    def answer(request: httpx2.Request) -> httpx2.Response:
        released.wait(60)
        raise httpx2.ReadError("broken at last")

    http = httpx2.Client(transport=httpx2.MockTransport(answer))  # has no socket that could be shut
    model = api.model(client=api.client(sync=True, http_client=http))
    async with Runtime(tmp_path / "runs.db", agents=[one := talker(model, [])]) as runs:
        run = await runs.start(one, Talk())
        await eventually(lambda: [t for t in threading.enumerate() if t.name == "standfast-model"])
        await run.cancel()
        receipt = await run.settled(timeout=120)
        assert [flight.outcome for flight in receipt.in_flight] == ["still_running"]
        assert "test-model" in str(receipt.residue)
        released.set()
        await eventually(lambda: not [t for t in threading.enumerate() if t.name == "standfast-model"])
