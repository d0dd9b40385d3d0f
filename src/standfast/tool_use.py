"""Performing what a model asked for: side by side, each with a truthful result for the model (R14, R35)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pydantic_core import to_json

from standfast.dialects import tool_result
from standfast.errors import CallDenied, CallFailed, CallTimedOut, ChildCancelled, StandfastError
from standfast.records import Json
from standfast.replies import Dialect, ToolCall
from standfast.tools import Call
from standfast.usable import usables

if TYPE_CHECKING:
    from standfast.run import Run

WHY_CHARACTERS = 500  # of what the model said before it asked for tools
_UNKNOWN = "outcome unknown: it may have taken effect"


class ToolUse:
    """The tool calls of one reply."""

    def __init__(self, run: Run[Any], dialect: Dialect, tools: Iterable[Any]) -> None:
        self._run = run
        self._dialect: Dialect = dialect
        self._tools = {one.name: one for one in usables(tools)}

    async def perform(
        self, asked: Sequence[ToolCall], why: str = "", withhold: str = "", *, unless_approved: bool = False
    ) -> list[Json]:
        """Messages for the model, in the order it asked.

        With `withhold`, only what is over already is told, and `unless_approved` performs what a person has approved.
        """
        if withhold:  # one by one: which of equal calls is over depends on their order
            return [
                await self._one(one, self._withheld(self._prepared(one), withhold, unless_approved), why)
                for one in asked
            ]
        prepared = [(one, self._prepared(one)) for one in asked]
        if len(prepared) == 1:  # without a task of its own its admission shares a commit with what came before
            return [await self._one(*prepared[0], why)]
        tasks = [asyncio.ensure_future(self._one(one, call, why)) for one, call in prepared]
        try:
            return [await task for task in tasks]
        finally:
            for task in tasks:
                task.cancel()

    def _prepared(self, asked: ToolCall) -> Call[Any] | str:
        """The call, or why there is none."""
        usable = self._tools.get(asked.name)
        if usable is None:
            known = ", ".join(self._tools) or "none"
            return f"not executed: there is no tool {asked.name!r}; the tools are: {known}"
        try:
            return usable.call(asked.arguments)
        except StandfastError as error:
            return f"not executed: {error}"

    def _withheld(self, call: Call[Any] | str, why: str, unless_approved: bool) -> Call[Any] | str:
        """The call if it is over already, for its result, or still to be performed; else what is true of it."""
        if isinstance(call, str):
            return call
        left = self._run.withhold(call, unless_approved=unless_approved)
        if left in ("over", "approved"):
            return call
        if left == "cut" and call.tool.effect != "read":
            return f"cut off: {why}; {_UNKNOWN}"
        return f"not executed: {why}"

    async def _one(self, asked: ToolCall, call: Call[Any] | str, why: str) -> Json:
        if isinstance(call, str):
            return self._message(asked, call)
        try:
            value = await self._run.call(call, why=why or None)
        except CallFailed as error:
            return self._message(asked, _failure(call, error))
        return tool_result(self._dialect, asked, _as_text(value), failed=False)

    def _message(self, asked: ToolCall, text: str) -> Json:
        return tool_result(self._dialect, asked, text, failed=True)


def _failure(call: Call[Any], error: CallFailed) -> str:
    """What the model is told: not executed, failed, or failed with the outcome unknown."""
    if isinstance(error, CallDenied):
        return f"not executed: denied{f': {error.message}' if error.message else ''}"
    if isinstance(error, ChildCancelled):
        return f"cancelled: {error.message}"
    if error.type == "NotPerformed":
        return f"not executed: {error.message}"
    late = "timed out" if isinstance(error, CallTimedOut) else f"failed: {error.type}"
    unknown = call.tool.effect in ("write", "irreversible")
    return f"{late}: {error.message}" + (f"; {_UNKNOWN}" if unknown else "")


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "done" if value is None else to_json(value).decode()
