"""Where a stop may find a model's call, and what is counted when it does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel
from tests.helpers import eventually
from tests.providers.scenes import (
    Answer,
    drips,
    goes_silent,
    refuses,
    stalls_before_first_byte,
    stalls_before_headers,
)
from tests.providers.server import Exchange
from tests.trials import trials

from standfast import Done, Handle, Interruption, Run, agent
from standfast.models import Model

Verb = Literal["pause", "redirect", "cancel"]
VERBS: tuple[Verb, ...] = ("pause", "redirect", "cancel")
TRIALS = trials(3, 30, 30)  # a test asserts on the worst of them
TOKEN = "token{} "


@dataclass(frozen=True)
class Place:
    """Where the call is when the stop comes."""

    answer: Answer
    speaks: bool
    reached: Callable[[Exchange, Handle[Any]], Awaitable[bool]]


async def _asked(exchange: Exchange, run: Handle[Any]) -> bool:
    return True


async def _headers(exchange: Exchange, run: Handle[Any]) -> bool:
    return bool(exchange.sent)


async def _speaking(run: Handle[Any]) -> bool:
    async with aclosing(run.events()) as events:
        async for event in events:
            if event.type in ("text_delta", "text_flushed"):  # live, or said before we looked
                return True
    return False


async def _backing_off(exchange: Exchange, run: Handle[Any]) -> bool:
    return "waiting 50 s: rate limited" in (await run.view()).waiting_for


PLACES: dict[str, Place] = {
    "in mid-stream": Place(drips(every=0.004, token=TOKEN), True, _asked),
    "in a silence": Place(goes_silent(*(TOKEN.format(i) for i in range(5))), True, _asked),
    "before the first byte": Place(stalls_before_first_byte(), False, _headers),
    "before the headers": Place(stalls_before_headers(), False, _asked),
    "in a back-off": Place(refuses(429, retry_after="50"), False, _backing_off),
}


class Talk(BaseModel):
    question: str = "Hello?"


def talker(model: Model, seen: list[Interruption | None]) -> Any:
    """One question, one answer; a redirect is part of the question."""

    @agent("talker")
    async def talker(run: Run[Talk]) -> Done[str]:
        seen.append(run.interruption)
        question = " ".join([run.state.question, *run.take_redirects()])
        return Done((await run.call(model(question))).text)

    return talker


async def at(place: Place, exchanges: list[Exchange], run: Handle[Any]) -> Exchange:
    """Wait until the call is at that place; its exchange."""
    if place.speaks:
        assert await _speaking(run)
    await eventually(lambda: exchanges)
    await eventually(lambda: place.reached(exchanges[-1], run))
    return exchanges[-1]


def count_tokens(text: str) -> int:
    """How many whole tokens a text has; it must be the first ones, in order."""
    words = text.split()
    assert words == [TOKEN.format(i).strip() for i in range(len(words))]
    return len(words)
