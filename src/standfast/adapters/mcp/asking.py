"""One call of a server's tool, and the ladder by which it is stopped.

The server is told; it has a moment to answer; then its process is ended if that is allowed. What can neither be
stopped nor known to have stopped goes on, and standfast names it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite
from typing import Any, Literal, TypeVar

from pydantic import JsonValue

from standfast.adapters.mcp.backend import Nonsense, Refusal
from standfast.adapters.mcp.connection import BROKEN, LOST, Asked, Connection, NotTaken
from standfast.adapters.mcp.results import value_of
from standfast.context import CallContext, current_call
from standfast.errors import NotPerformed, ToolServerFailed
from standfast.records import Effect, Json

Kill = bool | Literal["stuck"]
T = TypeVar("T")

KEY = "standfast/idempotency-key"
LONGEST_NOTICE = 1.0  # how long a server that was told to stop may take to answer
FREE_PROGRESS = 50  # so many events at once, then
PROGRESS_EVERY = 0.1  # seconds


class ToolError(Exception):
    """The tool says that it failed; the text is the server's."""


@dataclass(frozen=True)
class Rules:
    """How a call of this tool is stopped."""

    effect: Effect
    grace: float
    kill: Kill

    @property
    def repeatable(self) -> bool:
        return self.effect in ("read", "idempotent")


async def perform(connect: Callable[[], Any], tool: str, arguments: Json, rules: Rules, server: str) -> JsonValue:
    """The answer to one call. A cut reaches the server before this ends."""
    try:
        return await _perform(connect, tool, arguments, rules, server)
    except NotTaken:  # so it may be sent, once more, in a new session
        try:
            return await _perform(connect, tool, arguments, rules, server)
        except NotTaken as error:
            raise NotPerformed(str(error)) from error


async def _perform(connect: Callable[[], Any], tool: str, arguments: Json, rules: Rules, server: str) -> JsonValue:
    context = current_call.get()
    connection: Connection = await _or_not_performed(connect, rules)
    meta: Json = {} if context is None else {KEY: context.key}
    asked = connection.ask(tool, arguments, meta, _Progress(context), _sayer(context))
    try:
        await asyncio.shield(asked.answer)
    except asyncio.CancelledError:
        stop = connection.spawn(_stop(connection, asked, rules))
        await _outlast(stop)
        how = "stopped" if stop.cancelled() else stop.result()
        if how == "stopped" or rules.repeatable:
            raise  # a read is asked again rather than explained after a stop
        if how == "not sent":
            raise NotPerformed(f"{tool} was cut before it was sent to the MCP server {server}") from None
    except (Refusal, Nonsense, ToolServerFailed):
        pass  # told below
    return _value(tool, server, asked.answer)


def _value(tool: str, server: str, answer: asyncio.Future[Json]) -> JsonValue:
    try:
        return value_or_error(answer.result())
    except Refusal as refusal:
        raise ToolError(f"the MCP server {server} refused {tool}: {refusal.message} (code {refusal.code})") from refusal
    except Nonsense as nonsense:
        raise ToolServerFailed(
            f"the MCP server {server} answered nonsense to {tool}: {nonsense}",
            hint="whether the tool did anything is not known",
        ) from nonsense


def value_or_error(answer: Json) -> JsonValue:
    """The result; ToolError with the server's text if the tool failed."""
    if answer.get("isError") is True:
        said = value_of({**answer, "structuredContent": None})
        raise ToolError(said if isinstance(said, str) and said else str(said or "the tool failed without a word"))
    return value_of(answer)


async def _or_not_performed(connect: Callable[[], Any], rules: Rules) -> Connection:
    """Nothing has been sent yet: whatever goes wrong here, the tool was not performed."""
    try:
        connection: Connection = await connect()
    except asyncio.CancelledError:
        if rules.repeatable:
            raise
        raise NotPerformed("it was cut before the MCP server was reached") from None
    except ToolServerFailed as error:
        raise NotPerformed(str(error)) from error
    return connection


# --- the ladder -------------------------------------------------------------------------------------


async def _stop(connection: Connection, asked: Asked, rules: Rules) -> Literal["stopped", "answered", "not sent"]:
    """Ends when the call is known to have ended, or was given up as told; else when the server answers at last."""
    if asked.id is None and not asked.answer.done():
        if asked.task is not None:
            asked.task.cancel()
        connection.give_up(asked)
        return "not sent"
    notice = min(rules.grace / 2, LONGEST_NOTICE)
    deadline = time.monotonic() + notice
    responds = not asked.answer.done() and await _tell(connection, asked, notice, wait_for_answer=rules.kill is True)
    if not asked.answer.done() and not responds:
        await asyncio.wait({asked.answer}, timeout=max(0.0, deadline - time.monotonic()))
    if not asked.answer.done() and not responds and rules.kill:
        await connection.kill(f"it was killed, because {asked.tool} was cut and did not stop")
        return "stopped"
    if not asked.answer.done() and not responds:
        await asyncio.wait({asked.answer})  # named as still running meanwhile
    if asked.answer.done() and asked.answer.exception() is None:
        return "answered"
    connection.give_up(asked)
    return "stopped"


async def _tell(connection: Connection, asked: Asked, notice: float, *, wait_for_answer: bool) -> bool:
    """Tell the server; True if it is known to have read that, and to be free to act on it.

    A server need not answer a call that was cancelled, and most do not. A ping that comes back after the notice
    shows at least that nothing blocks it.
    """
    session = connection.session
    if session is None or asked.id is None:
        return False
    told = connection.spawn(_quietly(session.cancel(asked.id, "the call was stopped")))
    await asyncio.wait({told}, timeout=notice)
    if wait_for_answer or not told.done():
        return False
    ping = connection.spawn(_quietly(session.ping()))
    waits: set[asyncio.Future[Any]] = {ping, asked.answer}
    await asyncio.wait(waits, timeout=notice, return_when=asyncio.FIRST_COMPLETED)
    return ping.done() and not ping.cancelled() and bool(ping.result())


async def _quietly(request: Any) -> bool:
    """True if it was answered, if only with an error; False if the connection broke."""
    try:
        await request
    except Refusal as refusal:
        return not (refusal.code == LOST and refusal.message.startswith(BROKEN))
    except Nonsense:
        return True
    except Exception:  # noqa: BLE001 - the stream is closed: the connection says why by itself
        return False
    return True


async def _outlast(task: asyncio.Task[Any]) -> None:
    """Wait for a task through every further cancellation: the runtime names what takes too long."""
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            continue


# --- what it says meanwhile -----------------------------------------------------------------------------


class _Progress:
    """Progress notifications as progress events; a flood of them is thinned out."""

    def __init__(self, context: CallContext | None) -> None:
        self._context = context
        self._free = FREE_PROGRESS
        self._last = 0.0

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        if self._context is None or not isfinite(progress):
            return
        now = time.monotonic()
        self._free -= 1
        if self._free < 0 and now - self._last < PROGRESS_EVERY:
            return
        self._last = now
        known = total is not None and isfinite(total) and total > 0
        fraction = progress / total if known and total is not None else progress if progress <= 1 else 0.0
        text = message or ("" if known else f"{progress:g}")
        self._context.progress(min(1.0, max(0.0, fraction)), text)


def _sayer(context: CallContext | None) -> Callable[[str], None]:
    return context.say if context is not None else lambda _: None
