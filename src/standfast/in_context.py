"""Code in a context of its own, but in the task of its caller: what it sets in ContextVars, nobody else sees.

asyncio gives a context to a task alone. A task for each step and each read would cost more than most of them do, and
a cancellation would have to be passed on.
"""

from __future__ import annotations

import contextvars
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, Generic, TypeVar, cast

T = TypeVar("T")


async def _awaited(code: Awaitable[T]) -> T:
    return await code


class _InContext(Generic[T]):
    """Passes on what goes in and out of a coroutine, which is resumed in the context each time."""

    __slots__ = ("_context", "cr_await")

    def __init__(self, context: contextvars.Context, code: Coroutine[Any, Any, T]) -> None:
        self._context = context
        self.cr_await = code  # under this name those who look where a task is find the way on

    def __iter__(self) -> _InContext[T]:
        return self

    def __next__(self) -> Any:
        return self._context.run(self.cr_await.send, None)

    def send(self, value: Any) -> Any:
        return self._context.run(self.cr_await.send, value)

    def throw(self, *error: Any) -> Any:
        return self._context.run(self.cr_await.throw, *error)

    def close(self) -> None:
        self._context.run(self.cr_await.close)


class _Awaitable(Generic[T]):
    __slots__ = ("_inside",)

    def __init__(self, inside: _InContext[T]) -> None:
        self._inside = inside

    def __await__(self) -> Generator[Any, Any, T]:
        return cast("Generator[Any, Any, T]", self._inside)  # it is one in everything that `await` asks for


def in_context(context: contextvars.Context, code: Callable[[], Awaitable[T]]) -> Awaitable[T]:
    """What `code` returns, called and awaited in this context."""
    made = context.run(code)
    return _Awaitable(_InContext(context, made if inspect.iscoroutine(made) else _awaited(made)))
