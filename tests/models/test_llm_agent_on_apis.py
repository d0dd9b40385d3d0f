"""R5, R16, R36: LLMAgent's conversations are accepted by the real APIs' rules, also after every interruption."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from pydantic import BaseModel
from tests.helpers import eventually, held
from tests.models.apis import Api
from tests.models.stops import PLACES, Place, at
from tests.providers.scenes import Answer, Say, Think, says, uses
from tests.providers.scenes import use as asks

from standfast import LLMAgent, Runtime, tool


@tool(effect="read")
async def weather(city: str) -> str:
    """The weather of a city."""
    return f"rain in {city}"


@tool
async def send(text: str) -> None:
    """Send a text."""
    await asyncio.sleep(0.2)


def forecaster(api: Api) -> LLMAgent[str]:
    return LLMAgent("forecaster", model=api.model(), tools=[weather, send], instructions="Be short.")


def refused(api: Api) -> list[int]:
    """Requests that the API would have refused."""
    return [exchange.n for exchange in api.server.exchanges if exchange.refused]


async def test_a_whole_conversation_is_accepted(api: Api, tmp_path: Path) -> None:
    api.server.will(
        Answer(acts=[Think("Two."), Say("Let me look."), asks("weather", {"city": "Bergen"}), asks("weather", '{"ci')]),
        uses(asks("send", {"text": "rain"}), asks("nonesuch", {})),
        says("It rains."),
    )
    async with Runtime(tmp_path / "runs.db", agents=[one := forecaster(api)]) as runs:
        run = await runs.start(one, "Weather?")
        assert await run.result(timeout=120) == "It rains."
    assert refused(api) == []


@pytest.mark.parametrize("where", [name for name in PLACES if name != "in a back-off"])
async def test_a_redirect_repeats_the_call_with_words_that_are_accepted(api: Api, where: str, tmp_path: Path) -> None:
    place: Place = PLACES[where]
    api.server.will(uses(asks("weather", {"city": "Bergen"}), before="Let me look."), place.answer, says("As a table."))
    async with Runtime(tmp_path / "runs.db", agents=[one := forecaster(api)]) as runs:
        run = await runs.start(one, "Weather?")
        await eventually(lambda: len(api.server.exchanges) >= 2)
        await at(place, api.server.exchanges, run)
        assert await run.redirect("as a table, please")
        assert await run.result(timeout=120) == "As a table."
    assert len(api.server.exchanges) == 3
    assert "as a table, please" in str(api.server.last.body)
    assert refused(api) == []


async def test_redirected_while_tools_run_the_model_still_gets_a_result_for_each(api: Api, tmp_path: Path) -> None:
    begun = asyncio.Event()

    @tool
    async def publish(text: str) -> None:
        """Publish a text."""
        begun.set()
        await asyncio.sleep(0.2)

    one = LLMAgent("publisher", model=api.model(), tools=[weather, publish], instructions="Be short.")
    wanted = asks("publish", {"text": "a"}), asks("publish", {"text": "b"}), asks("weather", {"city": "Lima"})
    api.server.will(uses(*wanted), says("Fine."))
    async with Runtime(tmp_path / "runs.db", agents=[one]) as runs:
        run = await runs.start(one, "Publish them.")
        await asyncio.wait_for(begun.wait(), 60)
        assert await run.redirect("no more of these")
        assert await run.result(timeout=120) == "Fine."
    assert refused(api) == []
    assert "no more of these" in str(api.server.last.body)


async def test_paused_in_mid_sentence_and_resumed_it_is_accepted(api: Api, tmp_path: Path) -> None:
    place = PLACES["in mid-stream"]
    api.server.will(place.answer)
    async with Runtime(tmp_path / "runs.db", agents=[one := forecaster(api)]) as runs:
        run = await runs.start(one, "Weather?")
        await at(place, api.server.exchanges, run)
        await run.pause()
        await held(run, "user")
        api.server.will(says("Rain."))
        await run.resume()
        assert await run.result(timeout=120) == "Rain."
    assert len(api.server.exchanges) == 2
    assert refused(api) == []


class Found(BaseModel):
    n: int


async def test_mail_after_a_typed_result_finds_a_conversation_that_is_accepted(api: Api, tmp_path: Path) -> None:
    """R22: the call that gave the result has a result of its own."""
    api.server.will(uses(asks("final_result", {"result": {"n": 42}})), says("Fine."))
    one = LLMAgent("counter", model=api.model(), result=Found)
    async with Runtime(tmp_path / "runs.db", agents=[one]) as runs:
        run = await runs.start(one, "How many?")
        await run.message("How are you?", when="later")
        assert await run.result(timeout=120) == Found(n=42)
        assert [e.text async for e in run.events() if e.type == "replied"] == ["Fine."]
    assert refused(api) == []


@pytest.mark.parametrize("city", ["NaN", "-Infinity", "1e999"])
async def test_arguments_that_no_json_can_hold_are_told_to_the_model(api: Api, city: str, tmp_path: Path) -> None:
    api.server.will(uses(asks("weather", f'{{"city": {city}}}')), says("Sorry."))
    async with Runtime(tmp_path / "runs.db", agents=[one := forecaster(api)]) as runs:
        run = await runs.start(one, "Weather?")
        assert await run.result(timeout=120) == "Sorry."
    assert refused(api) == []
    assert "not executed" in str(api.server.last.body)
