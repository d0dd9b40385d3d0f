"""A process that drives `talker`, an agent that asks a model once: python talking.py STORE API BASE_URL.

Runs are started by whoever opens the store; it drives until it is killed.
"""

import asyncio
import sys
from typing import Any

from pydantic import BaseModel

from standfast import Done, Run, Runtime, agent, models


class Talk(BaseModel):
    """What is asked."""

    question: str = "Hello?"


def talker(model: models.Model) -> Any:
    """One question, one answer."""

    @agent("talker")
    async def talker(run: Run[Talk]) -> Done[str]:
        return Done((await run.call(model(run.state.question))).text)

    return talker


def the_model(api: str, url: str) -> models.Model:
    """The model behind that API at that place."""
    if api == "anthropic":
        from anthropic import AsyncAnthropic  # noqa: PLC0415

        return models.anthropic("test-model", AsyncAnthropic(base_url=url, api_key="test"))
    from openai import AsyncOpenAI  # noqa: PLC0415

    return models.openai("test-model", AsyncOpenAI(base_url=url, api_key="test"), api=api)  # type: ignore[arg-type]


async def main(store: str, api: str, url: str) -> None:
    """Drive for ever."""
    async with Runtime(store, agents=[talker(the_model(api, url))]):
        print("driving", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
