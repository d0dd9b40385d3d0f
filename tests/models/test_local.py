"""The real small model: it streams, is counted, and stops, whatever it is doing (R3, R6, R35)."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest
from tests.models.listening import LONG, STORY, Heard, busy, cut, listen, request, until

from standfast.models.local import LocalProvider
from standfast.replies import Counted, ProviderError, Request, Text, ToolSpec

pytestmark = pytest.mark.local_model

HALF_A_SECOND = 0.5
IDLE = 0.25  # of a processor: a model that goes on uses a whole one, or all that a loaded machine gives it


async def test_the_same_question_gets_the_same_answer() -> None:
    local = LocalProvider()
    first = await listen(local, request("Why is the sky blue?", max_tokens=20))
    await listen(local, request("Something else", max_tokens=5))  # leaves nothing behind
    again = await listen(LocalProvider(), request("Why is the sky blue?", max_tokens=20))
    assert first.text
    assert first.text == again.text


async def test_words_come_one_by_one_and_the_end_says_why() -> None:
    heard = await listen(LocalProvider(), request("Why is the sky blue?", max_tokens=20))
    assert heard.texts > 10
    assert heard.finished.message == {"role": "assistant", "content": heard.text}
    assert heard.finished.stop == "length"


async def test_tokens_are_counted_not_estimated() -> None:
    heard = await listen(LocalProvider(), request("Why is the sky blue?", max_tokens=20))
    assert heard.usage.output_tokens == 20
    assert heard.usage.input_tokens > 10
    assert not heard.usage.estimated


async def test_the_system_text_is_heard() -> None:
    plain = await listen(LocalProvider(), request("Who are you?", max_tokens=20))
    asked = Request(
        [{"role": "user", "content": "Who are you?"}], system="You are a pirate.", options={"max_tokens": 20}
    )
    assert (await listen(LocalProvider(), asked)).text != plain.text


async def test_reading_and_speaking_leave_the_loop_to_others() -> None:
    """C code holds Python still for a moment while it builds the model, but never afterwards."""
    local = LocalProvider()
    await listen(local, request("Hello", max_tokens=1))
    longest = 0.0
    heard = Heard()
    task = asyncio.ensure_future(listen(local, request(STORY + " word" * 60, max_tokens=20), heard))
    while not task.done():
        began = time.monotonic()
        await asyncio.sleep(0.001)
        longest = max(longest, time.monotonic() - began)
    await task
    assert longest < 1.0  # hundreds of ticks of a few milliseconds each, one of them perhaps late


async def test_leaving_stops_the_words() -> None:
    """R3: the processor is idle half a second after the reader has gone."""
    heard = Heard()
    task = asyncio.ensure_future(listen(LocalProvider(), request(max_tokens=1600), heard))
    await until(lambda: heard.texts > 5)
    working = await busy(0.5)
    await cut(task)
    count = len(heard.deltas)
    await asyncio.sleep(HALF_A_SECOND)
    assert await busy() < min(IDLE, working / 2)
    assert len(heard.deltas) == count


async def test_leaving_stops_the_reading_of_a_long_prompt() -> None:
    """R3: also before the first word, which would come after many seconds."""
    heard = Heard()
    task = asyncio.ensure_future(listen(LocalProvider(), request(LONG), heard))
    await until(lambda: any(isinstance(d, Counted) and d.usage.input_tokens for d in heard.deltas))
    working = await busy(0.5)
    await cut(task)
    await asyncio.sleep(HALF_A_SECOND)
    assert await busy() < min(IDLE, working / 2)
    assert heard.texts == 0
    assert heard.usage.input_tokens < 1000  # of the prompt's two thousand


async def test_breaking_out_of_the_stream_stops_it_too() -> None:
    async with LocalProvider().stream(request(max_tokens=1600)) as deltas:
        async for delta in deltas:
            if isinstance(delta, Text):
                break
    await asyncio.sleep(HALF_A_SECOND)
    assert await busy() < IDLE


async def test_after_a_cut_it_answers_as_if_nothing_had_been() -> None:
    local = LocalProvider()
    whole = await listen(local, request("Why is the sky blue?", max_tokens=16))
    for words in (0, 1, 7):
        heard = Heard()
        task = asyncio.ensure_future(listen(local, request("Why is the sky blue?", max_tokens=16), heard))
        await until(lambda heard=heard, words=words: heard.texts >= words and heard.deltas)
        await cut(task)
        assert whole.text.startswith(heard.text)
    assert (await listen(local, request("Why is the sky blue?", max_tokens=16))).text == whole.text


async def test_two_readers_share_it_and_take_turns() -> None:
    one, other = Heard(), Heard()
    first = asyncio.ensure_future(listen(LocalProvider(), request(max_tokens=30), one))
    await until(lambda: one.deltas)
    second = asyncio.ensure_future(listen(LocalProvider(), request("Why is the sky blue?", max_tokens=5), other))
    while not first.done():
        assert not other.deltas
        await asyncio.sleep(0.001)
    await asyncio.gather(first, second)
    assert one.finished
    assert other.finished
    speaking = [thread for thread in threading.enumerate() if thread.name.startswith("standfast SmolLM2")]
    assert len(speaking) == 1


async def test_a_reader_who_leaves_the_queue_never_has_a_turn() -> None:
    local = LocalProvider()
    first, waiting, last = Heard(), Heard(), Heard()
    speaking = asyncio.ensure_future(listen(local, request(max_tokens=2000), first))
    await until(lambda: first.texts)
    queued = asyncio.ensure_future(listen(local, request(LONG), waiting))
    after = asyncio.ensure_future(listen(local, request("Why is the sky blue?", max_tokens=5), last))
    await asyncio.sleep(0.05)
    began = time.monotonic()
    await cut(queued)
    assert time.monotonic() - began < 30  # at once, though it is not its turn
    await cut(speaking)
    await after
    assert not waiting.deltas
    assert last.texts


async def test_two_event_loops_share_it() -> None:
    def elsewhere() -> str:
        return asyncio.run(listen(LocalProvider(), request("Why is the sky blue?", max_tokens=15))).text

    here, there = await asyncio.gather(
        listen(LocalProvider(), request("Why is the sky blue?", max_tokens=15)), asyncio.to_thread(elsewhere)
    )
    assert here.text == there


async def test_a_conversation_that_is_too_long_is_refused_with_what_to_do() -> None:
    with pytest.raises(ProviderError) as refused:
        await listen(LocalProvider(context=512), request("word " * 600))
    assert refused.value.trouble == "refused"
    assert "shorten it" in refused.value.hint
    assert not refused.value.passing


@pytest.mark.parametrize(
    "asked",
    [
        Request([{"role": "user"}]),
        Request([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "nowhere"}}]}]),
        Request([{"role": "user", "content": "x"}], options={"temperature": "hot"}),
        Request([{"role": "nobody", "content": 7}]),
        Request([{"role": "user", "content": "\ud800"}]),
    ],
    ids=["no content", "image", "wrong option", "wrong content", "half a character"],
)
async def test_a_request_that_makes_no_sense_is_refused_and_the_next_one_answered(asked: Request) -> None:
    with pytest.raises(ProviderError) as refused:
        await listen(LocalProvider(), asked)
    assert refused.value.trouble == "refused"
    assert (await listen(LocalProvider(), request("Hello", max_tokens=3))).finished


async def test_tools_and_their_results_can_be_in_the_conversation() -> None:
    """It hardly knows how to use them, but it must not stumble over them."""
    weather = ToolSpec(
        "weather", "The weather of a city", {"type": "object", "properties": {"city": {"type": "string"}}}
    )
    call = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Paris"}'}}
    messages = [
        {"role": "user", "content": "What is the weather in Paris?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "sunny"},
    ]
    heard = await listen(LocalProvider(), Request(messages, [weather], options={"max_tokens": 20}))
    assert "sunny" in heard.text
