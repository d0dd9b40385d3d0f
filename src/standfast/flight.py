"""A call under way: its body, its caller, and how it can be cut."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from standfast.bodies.threads import Token
from standfast.places import place_of_task
from standfast.records import CallRef
from standfast.scope import insist
from standfast.tool import Call

if TYPE_CHECKING:
    from standfast.rows import CallRow
    from standfast.session import Session


@dataclass(slots=True)
class Outcome:
    """How a body ended."""

    kind: Literal["finished", "failed", "timed_out", "not_performed", "cut"]
    raw: bytes = b""
    error: str = ""
    message: str = ""


class Body(Protocol):
    """Code of a call that runs outside the event loop."""

    def cut(self) -> None: ...

    def where(self) -> str: ...


class Flight:
    """One call between admission and record."""

    __slots__ = (
        *("abandoned", "attempt", "body", "call", "cutting", "done", "ended", "facts", "flush_timer", "gone", "id"),
        *("over", "ref", "row", "said", "session", "task", "token", "unsaid"),
    )

    def __init__(
        self,
        session: Session,
        id: str,  # noqa: A002 - the word users know
        call: Call[Any],
        ref: CallRef,
        attempt: int,
        row: CallRow | None,
    ) -> None:
        self.session = session
        self.id = id
        self.call = call
        self.ref = ref
        self.attempt = attempt
        self.row = row
        self.done: asyncio.Future[Outcome] | None = None  # None: the body runs in its caller's task
        self.task: asyncio.Task[Any] | None = None  # what to cancel
        self.body: Body | None = None
        self.token = Token()
        self.cutting = False
        self.ended = False
        self.gone = False  # left behind, and ended at last
        self.abandoned = False  # outlived its deadline: whatever it still does is kept out of the run
        self.facts: list[str] = []  # held before it: its own effect may change them
        self.said = 0
        self.unsaid: list[str] = []
        self.flush_timer: asyncio.TimerHandle | None = None
        self.over: asyncio.Future[None] | None = None  # made by whoever waits for its end

    @property
    def repeatable(self) -> bool:
        """May it be cut and issued again?"""
        return self.call.tool.effect in ("read", "idempotent")

    @property
    def waits(self) -> bool:
        """Is it only waiting (for a person, for time, for a child), so that cutting it costs nothing?"""
        return self.call.tool.kind in ("ask", "sleep", "child")

    @property
    def is_child(self) -> bool:
        return self.call.tool.kind == "child"

    def cut(self) -> None:
        """Ask it to end, insistently; returns at once."""
        if self.cutting or self.ended:
            return
        self.cutting = True
        self.token.stop()
        if self.body is not None:
            self.body.cut()
        elif self.task is not None:
            insist(self.task)

    def until_over(self) -> asyncio.Future[None]:
        """Done when the call has ended and its end is on the way to the store."""
        if self.over is None:
            self.over = self.session.env.loop.create_future()
            if self.ended:
                self.over.set_result(None)
        return self.over

    def where(self) -> str:
        """What it is doing now, for people."""
        if self.body is not None:
            return self.body.where()
        return place_of_task(self.task) if self.task is not None else ""

    # --- context.CallContext ------------------------------------------------------------------

    @property
    def key(self) -> str:
        return self.id

    @property
    def stop_token(self) -> Token:
        return self.token

    @property
    def in_process_tool(self) -> bool:
        return False

    def use(self, type_: type[Any]) -> Any:
        return self.session.env.use(type_)

    def say(self, text: str) -> None:
        self.session.in_loop(self.session.voice.say, self, text)

    def spend(self, input_tokens: int, output_tokens: int, cost: float) -> None:
        self.session.in_loop(self.session.spend, input_tokens, output_tokens, cost)

    def progress(self, fraction: float, text: str) -> None:
        self.session.in_loop(self.session.voice.progress, self, fraction, text)
