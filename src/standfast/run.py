"""What a step sees of its run."""

from __future__ import annotations

import asyncio
import random as randomness
import uuid as uuids
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from pydantic import JsonValue
from pydantic_core import from_json, to_json

from standfast import arguments
from standfast import events as ev
from standfast.errors import CallFailed, Misuse, NotStorable
from standfast.plan import Plan
from standfast.records import Interruption, Message
from standfast.rows import MailRow
from standfast.tool import Call

if TYPE_CHECKING:
    from standfast.scope import Attempt
    from standfast.session import Session

S = TypeVar("S")
R = TypeVar("R")


class Run(Generic[S]):
    """One step's view of its run: the state, and the only door to the world."""

    __slots__ = (
        "_journaled",
        "_redirects",
        "_s",
        "mail_before",
        "mail_read",
        "number",
        "plan",
        "scope",
        "state",
        "step",
    )

    def __init__(self, session: Session, scope: Attempt, number: int, step: int, state: S, plan: Plan) -> None:
        self._s = session
        self.scope = scope
        self.number = number  # the attempt this object belongs to
        self.step = step
        self.state = state
        self.plan = plan
        self.mail_read: list[str] = []
        self.mail_before: set[str] = set()  # read by steps before this one, whose boundary may not be durable yet
        self._journaled: dict[str, int] = {}
        self._redirects: list[str] = []  # all that this step has read

    @property
    def id(self) -> str:
        """The run's id."""
        return self._s.row.id

    # --- calls ----------------------------------------------------------------------------------

    async def call(self, call: Call[R], key: str | None = None, title: str | None = None, why: str | None = None) -> R:
        """Perform a call, once: a repeated step gets the result it had. Raises CallFailed."""
        if not isinstance(call, Call):  # pyright: ignore[reportUnnecessaryIsInstance] - people without a checker
            raise Misuse(f"run.call was given {call!r}", hint="give it what calling a tool returns: run.call(draft(1))")
        if not (key is title is why is None):
            arguments.text_or_none("key", key)
            arguments.text_or_none("title", title)
            arguments.text_or_none("why", why)
        return await self._s.gate.call(self, call, key, title, why)

    async def call_all(self, calls: Iterable[Call[R]], limit: int | None = None) -> list[R | CallFailed]:
        """Perform calls side by side; all have ended when this returns. Failed ones are in the list."""
        if limit is not None and limit < 1:
            raise Misuse("call_all(limit=...) must be at least 1", hint="leave it out for no limit")
        slots = asyncio.Semaphore(limit) if limit is not None else None

        async def one(call: Call[R]) -> R | CallFailed:
            try:
                if slots is None:
                    return await self.call(call)
                async with slots:
                    return await self.call(call)
            except CallFailed as error:
                return error

        tasks = [asyncio.ensure_future(one(call)) for call in calls]
        try:
            return [await task for task in tasks]
        finally:
            for task in tasks:
                task.cancel()

    async def relies_on(self, name: str, call: Call[R]) -> R:
        """Read something, and have it compared when the run is taken up again (R16)."""
        if call.tool.effect != "read":
            raise Misuse(
                f"relies_on({name!r}) was given {call.tool.name}, which is {call.tool.effect}",
                hint="give it the call of a read tool",
            )
        self._s.agent.saw(call.tool)
        value = await self._s.gate.call(
            self, call, f"relies_on:{name}:{call.digest}:{self._count('relies_on:' + name)}", None, None
        )
        self._s.freshness.rely(name, call, call.tool.dump_result(value), self.step)
        return value

    # --- mail -------------------------------------------------------------------------------------

    def take_redirects(self) -> list[str]:
        """What people want done instead, in order; the boundary of this step marks it as read."""
        texts = [m.text for m in self._take("redirect")]
        self._redirects += texts
        return texts

    def take_messages(self) -> list[Message]:
        """What people sent in, in order."""
        return [Message(m.id, m.text, m.data, m.when, m.by, m.at) for m in self._take("message")]

    def _take(self, kind: str) -> list[MailRow]:
        """What the same question got in an earlier attempt, even nothing, and a redirect "now"; else what is new."""
        nth = self._count(f"mail:{kind}")
        name = f"mail:{kind}:{nth}"
        known = self._s.journal.values.get(name)
        n, step = self._s.row.n, self.step
        if isinstance(known, list):
            everything = self._s.env.store.read(lambda tx: tx.mail(n))
            sets_back = kind == "redirect" and nth == 0
            new = [m for m in everything if m.id in known or (sets_back and m.status == "pending" and m.when == "now")]
        else:
            new = self._s.env.store.read(lambda tx: tx.pending_mail(n))
        mail = [m for m in new if m.kind == kind and m.not_before <= step and not self._has_read(m.id)]
        ids = [m.id for m in mail]
        self.mail_read += ids
        if known is None or (ids and ids != known):
            self._s.remember_value(name, cast("JsonValue", ids), took_mail=bool(ids))
        return mail

    def _has_read(self, mail: str) -> bool:
        return mail in self.mail_read or mail in self.mail_before

    @property
    def instruction(self) -> str:
        """What this step is to do: the plan's line for it, or what the last redirects said."""
        item = self.plan.current
        if item is not None:
            return item.title
        self.take_redirects()
        return "\n".join(self._redirects)

    @property
    def interruption(self) -> Interruption | None:
        """What an earlier attempt at this step left behind; None when the step is not being repeated."""
        return self._s.interruption

    # --- notes --------------------------------------------------------------------------------------

    def note(self, text: str) -> None:
        """Add to the decision log: why the agent does what it does."""
        arguments.text("note(text)", text)
        if self._current():
            self._s.note(ev.Noted(text=text, attempt=self.number))

    def emit(self, name: str, data: JsonValue = None) -> None:
        """An event of the agent's own."""
        arguments.text("emit(name)", name)
        try:
            plain: JsonValue = from_json(to_json(data))
        except Exception as error:
            raise NotStorable(
                f"the data of event {name!r} cannot be stored: {error}", hint="emit JSON values"
            ) from error
        if self._current():
            self._s.note(ev.Emitted(name=name, data=plain, attempt=self.number))

    def _current(self) -> bool:
        return self.number == self.scope.number and not self.scope.closed

    # --- journaled values -----------------------------------------------------------------------------

    def now(self) -> float:
        """The time, the same when this step is repeated."""
        return cast("float", self._value("now", self._s.env.clock.now))

    def uuid(self) -> str:
        """A new id, the same when this step is repeated."""
        return cast("str", self._value("uuid", lambda: str(uuids.uuid4())))

    def random(self) -> float:
        """A random number, the same when this step is repeated."""
        return cast("float", self._value("random", randomness.random))

    def _value(self, kind: str, make: Any) -> JsonValue:
        name = f"{kind}:{self._count(kind)}"
        known = self._s.journal.values.get(name)
        if known is None:
            known = make()
            self._s.remember_value(name, known)
        return known

    def _count(self, kind: str) -> int:
        n = self._journaled.get(kind, 0)
        self._journaled[kind] = n + 1
        return n
