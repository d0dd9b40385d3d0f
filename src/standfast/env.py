"""What every driven run of one process shares."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, cast

from standfast.abc import Clock, Ids, Points, Tx
from standfast.agents import Agent
from standfast.errors import Misuse
from standfast.hub import Hub
from standfast.leases import Lease
from standfast.redaction import Redactor
from standfast.remains import Remains
from standfast.stores.group import GroupWriter
from standfast.stores.sqlite import SqliteStore

T = TypeVar("T")


@dataclass(slots=True)
class PlainWrite(Generic[T]):
    """A transaction of its own kind."""

    act: Callable[[Tx], T]
    future: asyncio.Future[T]
    result: T | None = None
    urgent: bool = True  # may it use the room that is kept on a full disk?

    def seal(self) -> None: ...

    def perform(self, tx: Tx) -> None:
        self.result = self.act(tx)

    def committed(self) -> None:
        if not self.future.done():
            self.future.set_result(cast("T", self.result))

    def failed(self, error: BaseException) -> None:
        if not self.future.done():
            self.future.set_exception(error)


@dataclass(slots=True)
class Env:
    """The services a session needs; made once by the runtime."""

    store: SqliteStore
    writer: GroupWriter
    clock: Clock
    ids: Ids
    lease: Lease
    hub: Hub
    agents: Mapping[str, Agent[Any, Any]]
    provide: Mapping[type[Any], Any]
    loop: asyncio.AbstractEventLoop
    points: Points | None = None
    live: int = 0  # runs being driven here
    performed: dict[str, int] | None = None  # counts of bodies begun, by tool, for tests
    redactor: Redactor | None = None  # keeps secrets out of what is said
    remains: Remains = field(default_factory=Remains)
    # as the runtime was entered: what a step sets in it, the next step does not see, as after a restart
    context: contextvars.Context = field(default_factory=contextvars.copy_context)
    crashed: bool = field(default=False)  # a test's kill -9: nothing is written any more

    async def unfenced(self, act: Callable[[Tx], T], *, urgent: bool = True) -> T:
        """A write that no fence guards: claims, and what must be said even by a driver that was fenced."""
        future: asyncio.Future[T] = self.loop.create_future()
        self.writer.submit(PlainWrite(act, future, urgent=urgent))
        return await asyncio.shield(future)

    def use(self, type_: type[Any]) -> Any:
        """A dependency given to the runtime."""
        try:
            return self.provide[type_]
        except KeyError:
            raise Misuse(
                f"no {type_.__name__} was given to the runtime",
                hint=f"Runtime(..., provide={{{type_.__name__}: ...}})",
            ) from None
