"""Requests that no call made: each passes the gate as a call of its own, named, counted and cut like any other (R7).

A ContextVar, because foreign frameworks send requests from code and tasks of their own, which know nothing of
a `Run`. What is admitted here is never replayed: a repeated step sends its requests again.
"""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from copy import copy
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from standfast.codec import to_json
from standfast.errors import RequestRefused
from standfast.flight import Body, Flight, Outcome
from standfast.ladder import ladder_of
from standfast.outliving import late
from standfast.records import CallRef, Json
from standfast.tools import Call, Tool, unperformed

if TYPE_CHECKING:
    from standfast.run import Run
    from standfast.session import Session

PAUSE_BEFORE_REFUSAL = 0.02  # code that tries again at once must not spin
LONGEST_NAME = 120


class Door:
    """The way from a step's context to its gate."""

    __slots__ = ("_run", "_s")

    def __init__(self, session: Session, run: Run[Any]) -> None:
        self._s = session
        self._run = run

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """Where requests are admitted."""
        return self._s.env.loop

    @property
    def thread(self) -> int:
        """The thread of that loop."""
        return self._s.thread

    async def admit(self, name: str, args: Json, request: Body) -> Flight:
        """The call that the request is from now on, in flight until `end`; raises RequestRefused."""
        s, run = self._s, self._run
        task = asyncio.current_task()
        if task is not None and task is not run.scope.main:
            run.scope.used.add(task)

        async def refuse() -> None:
            if run.number == run.scope.number:
                run.scope.spoil()
            if ladder_of(task) is not None:
                s.refused_in_clean_up(name)
            await asyncio.sleep(PAUSE_BEFORE_REFUSAL)
            raise self._refusal(name)

        over = None if s.shut or run.scope.closed else s.over_cap()
        if over is not None:
            s.ask_stop("budget", over[1], over[0])
        call = _call(name, args)
        ref = CallRef(f"http-{uuid4().hex[:24]}", call.tool.name, call.tool.effect, s.env.store.now())
        s.journal.asked.add(ref.id)  # a step that sends requests is not one that does nothing
        run.scope.calling += 1
        try:
            flight = await s.gate.pass_through(run, call, ref, refuse)
        finally:
            run.scope.calling -= 1
        flight.passage = True
        flight.done = s.env.loop.create_future()  # its code is not the driver's to cancel: it ends by `end` alone
        flight.body = request
        return flight

    def stopped(self) -> None:
        """A stop cut a request that this door let through."""
        if self._run.number == self._run.scope.number:
            self._run.scope.spoil()

    def _refusal(self, name: str) -> RequestRefused:
        run = self._run
        if run.number != run.scope.number:
            why = f"the step that started this code is over: {name} was not sent"
            return RequestRefused(why, hint="await what a step starts before the step returns")
        return RequestRefused(
            f"the gate of run {run.id} is closed: {name} was not sent",
            hint="the run was paused, redirected or cancelled, or its budget is used up; a resume takes the step again",
        )


current_door: ContextVar[Door | None] = ContextVar("standfast_door", default=None)


def end(flight: Flight, outcome: Outcome) -> None:
    """The request is over; from any thread."""
    flight.session.in_loop(_end, flight, outcome)


def _end(flight: Flight, outcome: Outcome) -> None:
    s = flight.session
    if flight.abandoned:
        s.afterwards(late(s, flight, outcome))
    elif not flight.ended:
        s.ended(flight, outcome)


async def _never() -> None:
    """The body of a passage is whatever code sent the request."""
    raise AssertionError("a passage is not performed")


_PASSAGE: Tool[[], None] = Tool(_never, effect="read", kind="model", name="http")


def _call(name: str, args: Json) -> Call[None]:
    tool = copy(_PASSAGE)  # named after its request, so that people know which one is meant
    tool.name = name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 3] + "..."
    call: Call[None] = Call(tool, dict(args), to_json(args))
    made = unperformed.get()
    if made is not None:
        made.discard(call)
    return call
