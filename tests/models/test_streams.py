"""R3, R36: what the providers stream, through the real SDKs, as typed deltas."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from openai.types.chat import ChatCompletionChunk
from openai.types.chat.chat_completion_chunk import Choice, ChoiceDelta
from tests.helpers import eventually
from tests.models.apis import WEATHER, Api, hear
from tests.providers.scenes import Answer, Raw, Say, Think, floods, says, use, uses

from standfast import Misuse, models
from standfast.models.openai_chat import OpenAIChat
from standfast.replies import Finished, ProviderError, Request, Text

SYNC = pytest.mark.parametrize("sync", [False, True], ids=["async", "sync"])


@SYNC
async def test_text_comes_token_by_token_and_adds_up_to_the_message(api: Api, sync: bool) -> None:
    api.server.will(says("Good", " morning", ", Zoë"))
    heard = await hear(api.provider(client=api.client(sync=sync)), api.user("hi"))
    assert heard.tokens == ["Good", " morning", ", Zoë"]
    assert "Good morning, Zoë" in json.dumps(heard.finished.message, ensure_ascii=False)
    assert heard.usage.input_tokens == 11
    assert heard.usage.output_tokens == 7
    assert not heard.usage.estimated
    assert api.server.last.body["stream"] is True


@SYNC
async def test_reasoning_comes_apart_from_the_answer(api: Api, sync: bool) -> None:
    api.server.will(Answer(acts=[Think("Hm, "), Think("yes."), Say("Yes.")]))
    heard = await hear(api.provider(client=api.client(sync=sync)), api.user("hi"))
    assert (heard.reasoning, heard.text) == ("Hm, yes.", "Yes.")


@SYNC
async def test_parallel_tool_calls_are_put_together_in_order(api: Api, sync: bool) -> None:
    first, second = use("weather", {"city": "Bergen"}, "c1"), use("weather", {"city": "Lima"}, "c2")
    api.server.will(uses(first, second, before="Let me look."))
    heard = await hear(api.provider(client=api.client(sync=sync)), api.user("hi"), tools=[WEATHER])
    assert [(c.id, c.name, json.loads(c.arguments)) for c in heard.calls] == [
        ("c1", "weather", {"city": "Bergen"}),
        ("c2", "weather", {"city": "Lima"}),
    ]
    assert heard.text == "Let me look."
    assert heard.finished.stop in ("tool_calls", "tool_use", "completed")


async def test_a_conversation_with_tools_and_thoughts_is_accepted_again(api: Api) -> None:
    """The server refuses what the real APIs refuse: calls without results, unsigned thoughts, blank text ..."""
    provider = api.provider()
    log = [api.user("weather?")]
    api.server.will(
        Answer(
            acts=[Think("Two cities."), Say("Let me look."), use("weather", {"city": "Bergen"}), use("weather", {})]
        ),
        Answer(acts=[Think("Rain."), Say("It rains.")]),
        says("Bye."),
    )
    for turn in ("", "thanks", "bye"):
        if turn:
            log.append(api.user(turn))
        heard = await hear(provider, *log, tools=[WEATHER], system="Be short.")
        log.append(heard.finished.message)
        log += [api.result(call, "rain") for call in heard.calls]
        if heard.calls:
            log.append(api.user("and be quick"))
    assert heard.text == "Bye."
    assert json.loads(json.dumps(log)) == log
    sent = json.dumps(api.server.last.body)
    assert "Be short." in sent
    assert "It rains." in sent
    assert "The weather of a city." in sent


@pytest.mark.parametrize("arguments", ['{"city": ', "[1]", '"Bergen"', "", "null"])
async def test_arguments_that_are_no_object_are_kept_as_written_and_the_log_stays_valid(
    api: Api, arguments: str
) -> None:
    provider = api.provider()
    api.server.will(uses(use("weather", arguments, "c1")) if arguments else Answer(acts=[use("weather", "", "c1")]))
    heard = await hear(provider, api.user("hi"))
    [call] = heard.calls
    assert call.arguments == arguments
    api.server.will(says("ok"))
    log = [api.user("hi"), heard.finished.message, api.result(call, "these are no arguments")]
    assert (await hear(provider, *log)).text == "ok"
    if arguments:
        assert arguments in str(api.server.last.body)


@pytest.mark.parametrize(
    "acts", [[], [Say("")], [Say(" \n")], [Think("hm")]], ids=["nothing", "empty", "blank", "thought"]
)
async def test_a_reply_without_content_still_gives_a_message_that_is_accepted(api: Api, acts: list[Any]) -> None:
    provider = api.provider()
    api.server.will(Answer(acts=acts), says("Here I am."))
    heard = await hear(provider, api.user("hi"))
    assert heard.text.strip() == ""
    again = await hear(provider, api.user("hi"), heard.finished.message, api.user("are you there?"))
    assert again.text == "Here I am."


async def test_a_reply_that_hit_its_limit_says_so(api: Api) -> None:
    word = {"chat": "length", "responses": "max_output_tokens", "anthropic": "max_tokens"}[api.name]
    api.server.will(says("Once upon a", stop=word))
    assert (await hear(api.provider(), api.user("hi"))).finished.stop == word


async def test_options_reach_the_provider_by_name_or_in_the_body(api: Api) -> None:
    api.server.will(says("ok"))
    provider = api.provider(metadata={"a": "b"}, top_k=3)
    await hear(provider, api.user("hi"), options={"min_p": 0.1, "top_k": 4})
    body = api.server.last.body
    assert (body["metadata"], body["top_k"], body["min_p"]) == ({"a": "b"}, 4, 0.1)
    if api.name == "anthropic":
        assert body["max_tokens"] == 8192
        api.server.will(says("ok"))
        await hear(provider, api.user("hi"), options={"max_tokens": 5})
        assert api.server.last.body["max_tokens"] == 5


async def test_the_providers_own_tools_stand_beside_ours(api: Api) -> None:
    api.server.will(says("ok"))
    own = {"type": "function", "name": "own", "input_schema": {}, "function": {"name": "own"}}
    await hear(api.provider(tools=[own]), api.user("hi"), tools=[WEATHER])
    assert [str(tool).count("weather") > 0 for tool in api.server.last.body["tools"]] == [True, False]


@pytest.mark.parametrize("name", ["stream", "model", "messages"])
async def test_what_standfast_sets_is_no_option(api: Api, name: str) -> None:
    with pytest.raises(Misuse, match=name):
        api.provider(**{name: "x"})
    with pytest.raises(Misuse, match=name):
        await hear(api.provider(), api.user("hi"), options={name: "x"})
    assert api.server.exchanges == []


async def test_a_price_makes_a_cost(api: Api) -> None:
    api.server.will(says("ok", usage=(1_000_000, 500_000)))
    assert (await hear(api.provider(price=(3, 15)), api.user("hi"))).usage.cost == pytest.approx(10.5)


@pytest.mark.parametrize("price", [3, (1,), (1, 2, 3), ("a", "b"), (-1, 2)])
def test_a_price_that_is_none_is_refused(api: Api, price: Any) -> None:
    with pytest.raises(Misuse, match="price"):
        api.provider(price=price)


@pytest.mark.parametrize("client", ["sk-key", object(), 3])
def test_a_client_that_is_none_is_refused(api: Api, client: Any) -> None:
    with pytest.raises(Misuse, match="client"):
        api.provider(client=client)


@pytest.mark.parametrize("make", [models.openai, models.anthropic])
def test_a_model_needs_a_name(make: Any) -> None:
    with pytest.raises(Misuse, match="name"):
        make(" ")


def test_an_unknown_api_is_refused() -> None:
    with pytest.raises(Misuse, match="api='completions'"):
        models.openai("m", api="completions")  # type: ignore[arg-type]


@pytest.mark.more
@SYNC
async def test_ten_megabytes_stream_through(api: Api, sync: bool) -> None:
    size = 10_000_000 - 10_000_000 % 4096
    api.server.will(floods(size))
    provider = api.provider(client=api.client(sync=sync))
    count = 0
    finished: Finished | None = None
    async with asyncio.timeout(100), provider.stream(Request([api.user("hi")])) as deltas:
        async for delta in deltas:
            if isinstance(delta, Text):
                count += len(delta.text)
            elif isinstance(delta, Finished):
                finished = delta
    assert count == size
    assert finished is not None


async def test_a_stream_is_not_read_ahead_of_its_reader(api: Api) -> None:
    """Flat memory: what nobody has asked for yet stays with the provider, but for the network's own buffers."""
    api.server.will(floods(100_000_000, piece=65536))
    async with api.provider().stream(Request([api.user("hi")])) as deltas:
        await anext(deltas)
        size = -1
        while size != (size := sum(size for _, size in api.server.last.sent)):
            await asyncio.sleep(0.2)
        assert size < 50_000_000


async def test_a_burst_lets_others_run() -> None:
    """R3: a pause that arrives in a burst of tokens is heard within it, though no read has to wait."""
    token = ChatCompletionChunk.model_construct(choices=[Choice.model_construct(delta=ChoiceDelta(content="x"))])
    turns = 0

    async def burst() -> AsyncIterator[Any]:
        for _ in range(50_000):
            yield token

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    with pytest.raises(ProviderError, match="ended before"):
        async for _ in OpenAIChat("m")._deltas(burst(), "here", "text/event-stream"):
            pass
    task.cancel()
    assert turns > 3


async def test_half_characters_do_not_spoil_the_message(api: Api) -> None:
    api.server.will(says("\ud83d", "ok", " \ude00"))
    heard = await hear(api.provider(), api.user("hi"))
    assert "ok" in heard.text
    heard.text.encode()
    json.dumps(heard.finished.message, ensure_ascii=False).encode()


async def test_connections_are_kept_for_the_next_request(api: Api) -> None:
    provider = api.provider()
    for _ in range(5):
        api.server.will(says("a", "b"))
        await hear(provider, api.user("hi"))
    assert api.server.connections == 1


async def test_leaving_the_block_early_closes_the_connection(api: Api) -> None:
    api.server.will(says(*["x"] * 100_000, every=0.001))
    async with api.provider().stream(Request([api.user("hi")])) as deltas:
        async for delta in deltas:
            if isinstance(delta, Text):
                break
    await eventually(lambda: api.server.last.gone_at)
    await eventually(lambda: api.server.open_connections == 0)


async def test_unknown_events_are_passed_over(api: Api) -> None:
    event = b'event: brand_new\ndata: {"type": "brand_new", "choices": []}\n\n'
    api.server.will(Answer(acts=[Say("a"), Raw(event), Raw(b": a comment\n\n"), Say("b")]))
    assert (await hear(api.provider(), api.user("hi"))).text == "ab"


PROGRAM = """
import asyncio, json, sys
from standfast import models
from standfast.replies import Request, Text
from tests.models.apis import hear

api = sys.argv[1]
if api == "anthropic":
    from standfast.models.anthropic_messages import AnthropicMessages as Kind
elif api == "chat":
    from standfast.models.openai_chat import OpenAIChat as Kind
else:
    from standfast.models.openai_responses import OpenAIResponses as Kind
provider = Kind("test-model")

async def main(kind):
    print((await hear(provider, {"role": "user", "content": "hi"})).text)
    print((await hear(provider, {"role": "user", "content": "hi"})).text)
    if kind == "left":
        async with provider.stream(Request([{"role": "user", "content": "hi"}])) as deltas:
            async for delta in deltas:
                if isinstance(delta, Text):
                    return

for kind in ("whole", "whole", "left", "left"):  # another loop: another client
    asyncio.run(main(kind))
"""


@pytest.mark.more
def test_the_default_client_takes_the_environment_and_leaves_nothing_open(api: Api, tmp_path: Path) -> None:
    api.server._choose = lambda _: says("hello", "!")
    variables = {
        "OPENAI_API_KEY": "sk-env",
        "OPENAI_BASE_URL": api.server.openai_url,
        "ANTHROPIC_API_KEY": "sk-env",
        "ANTHROPIC_BASE_URL": api.server.anthropic_url,
    }
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", PROGRAM, api.name],
        env={**os.environ, **variables, "PYTHONPATH": f"{root / 'src'}{os.pathsep}{root}", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["hello!"] * 8
    noise = [line for line in done.stderr.splitlines() if "took" not in line]  # slow callbacks, in dev mode
    assert noise == []
    assert "sk-env" in str(api.server.last.headers)
    assert api.server.connections == 4
