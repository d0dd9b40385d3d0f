"""lab(): a runtime for tests of one's own agents, with a clock and crashes at hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from standfast.abc import Model, Point, Tx, Use
from standfast.errors import Misuse
from standfast.handle import Handle
from standfast.llm_agent import LLMAgent
from standfast.models import scripted
from standfast.runtime import Runtime
from standfast.testing.clock import FakeClock
from standfast.testing.points import CallPoints
from standfast.unwritten import Unwritten

T = TypeVar("T")


class Lab(Runtime):
    """A Runtime with a fake clock and an in-memory store, which can be crashed and waited for."""

    def __init__(self, agents: Sequence[Any], provide: Mapping[type[Any], Any] | None, store: str) -> None:
        self._points_of_calls = CallPoints()
        self._fake_clock = FakeClock()
        super().__init__(store, agents, provide=provide, clock=self._fake_clock, points=self._points_of_calls)
        self.performed: dict[str, int] = {}
        """How often the body of each tool was begun, over all crashes."""
        self._performed = self.performed

    @property
    def clock(self) -> FakeClock:
        """Time, which passes only by `await lab.clock.advance(seconds)`."""
        return self._fake_clock

    async def until(
        self, run: Handle[Any] | str, *, call: str, point: Point = "admitted", timeout: float = 30.0
    ) -> None:
        """Until a call of the tool `call` has been admitted, performed or recorded.

        The call is then held at this point until the test's next verb or crash (at most a
        quarter of a second), so that what the test does next happens exactly there.
        """
        if point not in ("admitted", "performed", "recorded"):
            raise Misuse(f"there is no point {point!r}", hint='use "admitted", "performed" or "recorded"')
        id_ = run if isinstance(run, str) else run.id
        await asyncio.wait_for(self._points_of_calls.until(id_, call, point), timeout)

    async def control(self, act: Callable[[Tx], T], use: Use = "ordinary", stop: Unwritten[T] | None = None) -> T:
        """As Runtime; what is held at a point goes on afterwards."""
        try:
            with self._points_of_calls.acting():
                return await super().control(act, use, stop)
        finally:
            self._points_of_calls.let_go()

    async def crash(self) -> None:
        """As kill -9: nothing more is written or begun by the old driver; then a new one takes over."""
        await self.restart_driver()
        self._points_of_calls.let_go()


@asynccontextmanager
async def lab(
    agents: Sequence[Any] | Any,
    provide: Mapping[type[Any], Any] | None = None,
    model: Model | Sequence[Any] | None = None,
    *,
    store: str = ":memory:",
) -> AsyncGenerator[Lab, None]:
    """A runtime for tests: `async with lab([agent]) as runs: ...`.

    With `model`, a model or the lines of a scripted one, every LLMAgent thinks with that.
    """
    given: list[Any] = [*agents] if isinstance(agents, Sequence) else [agents]
    if model is not None:
        thinks = scripted(list(model)) if isinstance(model, Sequence) else model
        given = [one.with_model(thinks) if isinstance(one, LLMAgent) else one for one in given]
    runs = Lab(given, provide, store)
    async with runs:
        yield runs
