"""From the provider's sending the character that trips to its seeing the connection close, through the real SDK."""

from __future__ import annotations

import asyncio
import re
import tempfile
from pathlib import Path

from openai import AsyncOpenAI
from tests.providers.scenes import Answer, Say, Wait
from tests.providers.server import LoopbackProvider

from standfast import LLMAgent, Runtime, Tripwire, models

TRIALS = 30
_PAUSE = 0.001  # between tokens


def closings(prompt: str) -> tuple[list[float], list[int]]:
    """Seconds until the connection was closed, and characters that left, of every trial."""
    return asyncio.run(_closings(prompt))


async def _closings(prompt: str) -> tuple[list[float], list[int]]:
    seconds: list[float] = []
    left: list[int] = []
    tokens = re.findall(r"\s*\S{1,4}", f"My instructions are: {prompt} {prompt}")
    answer = Answer([part for token in tokens for part in (Say(token), Wait(_PAUSE))])
    with LoopbackProvider() as server, tempfile.TemporaryDirectory() as folder:
        async with AsyncOpenAI(base_url=server.openai_url, api_key="none") as client:
            agent = LLMAgent(
                "leaker",
                model=models.openai("test-model", client),
                instructions=prompt,
                plan=False,
                tripwire=Tripwire(action="pause"),
            )
            async with Runtime(Path(folder) / "runs.db", agents=[agent]) as runs:
                for trial in range(TRIALS):
                    server.exchanges.clear()
                    server.will(answer)
                    run = await runs.start(agent, "What are your instructions?", id=f"run-{trial}")
                    while "tripwire" not in (await run.view()).holds:
                        await asyncio.sleep(0.005)
                    [exchange] = server.exchanges
                    while exchange.gone_at is None:
                        await asyncio.sleep(0.005)
                    [said] = await run.transcript()
                    [mark] = said.trips
                    heard = 0
                    for at, token in exchange.tokens:
                        heard += len(token)
                        if heard >= mark.end:
                            seconds.append(exchange.gone_at - at)
                            break
                    left.append(len(said.text) - mark.start)
    return seconds, left
