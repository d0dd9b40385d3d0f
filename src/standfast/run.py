"""What a step sees of its run."""

from __future__ import annotations

import asyncio
import random as randomness
import uuid as uuids
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, cast

from pydantic import JsonValue
from pydantic_core import from_json

from standfast import arguments
from standfast import events as ev
from standfast.abc import Tx
from standfast.codec import storable
from standfast.delivering import deliverable
from standfast.errors import CallFailed, Misuse, NotStorable
from standfast.frames import Frames, OpenFrame
from standfast.json_values import short
from standfast.plan import Plan
from standfast.records import Interruption, Json, Message
from standfast.replies import Reply
from standfast.rows import Frame, MailRow, Missed
from standfast.tool_use import WHY_CHARACTERS, ToolUse
from standfast.tools import Call, unperformed
from standfast.unread import withheld

if TYPE_CHECKING:
    from standfast.scope import Attempt
    from standfast.session import Session
    from standfast.stack import Stack

S = TypeVar("S")
R = TypeVar("R")

LONGEST_NOTE = 4_000_000  # characters of a note or a reply, bytes of the data of an event
MOST_NOTES = 10_000  # of these, in one step


class Run(Generic[S]):
    """One step's view of its run: the state, and the only door to the world."""

    __slots__ = (
        "_instructed",
        "_journaled",
        "_noted",
        "_redirects",
        "_s",
        "abandoned",
        "mail_before",
        "mail_declined",
        "mail_read",
        "number",
        "place",
        "plan",
        "scope",
        "state",
        "step",
        "thoughts",
    )

    def __init__(
        self, session: Session, scope: Attempt, number: int, place: int, state: S, plan: Plan, stack: Stack
    ) -> None:
        self._s = session
        self.scope = scope
        self.number = number  # the attempt this object belongs to
        self.place = place  # of this step among all steps of the run, as record, view and rewind number them
        self.step = session.row.doc.own_step(place)
        self.state = state
        self.plan = plan
        self.thoughts = Frames(session, self, stack)
        self.abandoned: tuple[tuple[Frame, str], ...] = ()  # frames that people gave up before this step, and why
        self.mail_read: tuple[str, ...] = ()
        self.mail_declined: dict[str, str] = {}  # given back when the step has ended, and why
        self.mail_before: frozenset[str] = frozenset()  # read by earlier steps, whose boundary may not be durable yet
        self._journaled: dict[str, int] = {}
        self._noted = 0
        self._instructed = False
        self._redirects: tuple[str, ...] = ()  # all that this step has read

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
        scope = self.scope
        scope.calling += 1
        try:
            return await self._s.gate.call(self, call, key, title, why)
        finally:
            scope.calling -= 1
            if self._s.answers:
                self._s.wake.set()  # perhaps only questions are left now

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

    async def use_tools(self, reply: Reply, tools: Iterable[Any]) -> list[Json]:
        """Perform what a model asked for, side by side: messages for its log, in request order, each truthful.

        `tools` are tools or agents. What failed, was denied, is unknown or malformed is told to the model, not raised.
        """
        why = (reply.text.strip() or reply.reasoning.strip())[-WHY_CHARACTERS:]
        return await ToolUse(self, reply.dialect, tools).perform(reply.tool_calls, why=why)

    def withhold(
        self, call: Call[Any], *, unless_approved: bool = False
    ) -> Literal["over", "approved", "cut", "not begun"]:
        """What an earlier attempt at this step left of a call that is not to be performed now.

        The call counts as dealt with. "over": it has ended, and `run.call` still gives its result or raises its error;
        "cut": it was begun, and nobody may know what came of it; "not begun": nothing happened. `unless_approved`
        leaves alone what a person has approved: "approved", and `run.call` performs it.
        """
        made = unperformed.get()
        if made is not None:
            made.discard(call)
        row = self._s.journal.next_row(call)
        if row is not None and (row.status == "finished" or row.error is not None):
            return "over"
        if unless_approved and row is not None and row.status == "approved":
            return "approved"
        self._s.journal.pass_over(call)
        return "cut" if row is not None and row.status in ("started", "cut", "in_doubt", "check") else "not begun"

    async def relies_on(self, name: str, call: Call[R]) -> R:
        """Read something, and have it compared when the run is taken up again (R16)."""
        if call.tool.effect != "read":
            raise Misuse(
                f"relies_on({name!r}) was given {call.tool.name}, which is {call.tool.effect}",
                hint="give it the call of a read tool",
            )
        self._s.agent.saw(call.tool)
        value = await self.call(call, f"relies_on:{name}:{call.digest}:{self._count('relies_on:' + name)}")
        self._s.freshness.rely(name, call, call.tool.dump_result(value), self.place)
        self.thoughts.relied(name)
        return value

    # --- mail -------------------------------------------------------------------------------------

    def take_redirects(self) -> list[str]:
        """What people want done instead, in order: read by this step, and applied with its boundary."""
        texts = [m.text for m in self._take("redirect")]
        self._redirects = (*self._redirects, *texts)
        return texts

    def take_messages(self, limit: int | None = None) -> list[Message]:
        """What people sent in and may be handled now: the most urgent first, each class in order.

        A message that does not outrank the frame on top, or finds the stack full, stays pending.
        """
        if limit is not None and limit < 1:
            raise Misuse("take_messages(limit=...) must be at least 1", hint="leave it out for all")
        return [
            Message(m.id, m.text, m.data, m.when, m.by, m.at, m.always, m.by_token)
            for m in self._take("message", limit)
        ]

    def _take(self, kind: str, limit: int | None = None) -> list[MailRow]:
        """What the same question got in an earlier attempt, even nothing, and mail for "now"; else what is new."""
        nth = self._count(f"mail:{kind}")
        name = f"mail:{kind}:{nth}"
        known = self._s.journal.values.get(name)
        mail = self._waiting(kind, known, first=nth == 0)
        wanted = len(mail)
        if kind == "message":
            before = known if isinstance(known, list) else []
            mail = deliverable(mail, self.frames, self._s.agent.limits, before)[:limit]
        ids = [m.id for m in mail]
        self.mail_read = (*self.mail_read, *ids)
        if known is None or (ids and ids != known):
            self._s.remember_value(name, cast("JsonValue", ids), took_mail=bool(wanted), heard=ids)
        return mail

    def _waiting(self, kind: str, known: JsonValue, *, first: bool) -> list[MailRow]:
        """What this step may read: of a question that was asked before, what it got then, and what came for now."""
        n, step = self._s.row.n, self.place

        def look(tx: Tx) -> tuple[list[MailRow], dict[str, Missed]]:
            found = [m for m in (tx.mail(n) if isinstance(known, list) else tx.pending_mail(n)) if m.kind == kind]
            row = tx.run_n(n) if found and kind == "redirect" else None
            return found, {} if row is None else row.doc.missed

        mail, missed = self._s.env.store.read(look)
        if isinstance(known, list):
            mail = [m for m in mail if m.id in known or (first and m.status == "pending" and m.when == "now")]
        before = known if isinstance(known, list) else []  # a person may have sent it again, or dropped it, meanwhile
        return [
            m
            for m in mail
            if m.status != "returned"
            and (m.not_before <= step or m.id in before)
            and not self._has_read(m.id)
            and not withheld(missed.get(m.id), self.plan)
        ]

    def peek_redirects(self) -> list[str]:
        """What `take_redirects` would give, without reading it; the same when this step is repeated."""
        return [mail.text for mail in self._peek()]

    def decline_redirects(self, why: str) -> None:
        """What `peek_redirects` gives is given back with this reason when the step has ended: it is not to be done."""
        self.mail_declined = {mail.id: why for mail in self._peek()}

    def _peek(self) -> list[MailRow]:
        name = "peek:redirect"
        known = self._s.journal.values.get(name)
        mail = self._waiting("redirect", known, first=True)
        ids = [m.id for m in mail]
        if ids != known:
            self._s.remember_value(name, cast("JsonValue", ids))
        return mail

    def _has_read(self, mail: str) -> bool:
        return mail in self.mail_read or mail in self.mail_before

    @property
    def instruction(self) -> str:
        """What this step is to do: what people want instead, or else the plan's line for it.

        Asking for it reads redirects; the plan's line then says what they say.
        """
        if not self._instructed:  # what comes for this step later sets it back
            self._instructed = True
            self.take_redirects()
            item = self.plan.upcoming
            if self._redirects and item is not None:
                self.plan.rewrite(item, "\n".join(self._redirects))
        current = self.plan.current
        return current.title if current is not None else "\n".join(self._redirects)

    @property
    def interruption(self) -> Interruption | None:
        """What an earlier attempt at this step left behind; None when the step is not being repeated."""
        return self._s.interruption

    # --- frames -------------------------------------------------------------------------------------

    def frame(self, goal: str, steps: Sequence[str] = (), *, message: Message | None = None) -> OpenFrame:
        """A thought on the stack: `async with run.frame("monthly report", ["collect", "write"]) as frame:`.

        Opens it, or takes up the open frame of that goal (or message) again, in whatever step or process. Leaving
        the block finishes it when no step is left; with steps left, or after an error, it stays open.
        """
        if not arguments.text("goal", goal).strip():
            raise Misuse("a frame needs a goal", hint="say in a few words what it is for; people see it")
        if isinstance(steps, str):
            raise Misuse(f"steps={steps!r} is one text", hint="give a list of titles")
        titles = [arguments.text("a step's title", title) for title in steps]
        return OpenFrame(self.thoughts, goal, titles, message)

    @property
    def frames(self) -> tuple[Frame, ...]:
        """The open frames: the active one last, those on hold before it."""
        return tuple(self.thoughts.stack.frames)

    @property
    def returned(self) -> str:
        """ "back to X: at step 3 of 6": the active frame was returned to and has not gone on since; else empty."""
        top = self.thoughts.stack.top
        return top.returned if top is not None else ""

    async def return_to(self, frame: Frame | OpenFrame | str) -> None:
        """Go back to a frame on hold, by its id or goal, aloud; the active one is put on hold."""
        await self.thoughts.return_to(frame if isinstance(frame, str) else frame.id)

    async def abandon(self, frame: Frame | OpenFrame | str, reason: str) -> None:
        """Give a frame up, for a reason that is kept."""
        if not arguments.text("reason", reason).strip():
            raise Misuse("a frame is abandoned for a reason", hint="say why in a few words")
        await self.thoughts.abandon(frame if isinstance(frame, str) else frame.id, None, reason)

    def reply(self, to: Message | str, text: str | None = None) -> None:
        """Answer a message: `run.reply(message, "done")`; or say something to whoever follows: `run.reply("done")`.

        The runtime adds a line for each frame on hold, and says what was returned to since the last reply.
        """
        mail = to.id if isinstance(to, Message) else None
        said = to if isinstance(to, str) and text is None else text
        if said is None:
            raise Misuse("a reply needs a text", hint="run.reply(message, text) or run.reply(text)")
        self._may_note(len(arguments.text("text", said)), "a reply")
        self.thoughts.reply(mail, said)

    # --- notes --------------------------------------------------------------------------------------

    def note(self, text: str) -> None:
        """Add to the decision log: why the agent does what it does."""
        self._may_note(len(arguments.text("note(text)", text)), "a note")
        if self.current:
            self._s.note(ev.Noted(text=text, attempt=self.number))

    def emit(self, name: str, data: JsonValue = None) -> None:
        """An event of the agent's own."""
        arguments.text("emit(name)", name)
        try:
            raw = storable(data)
        except NotStorable as error:
            told = f"the data of event {name!r} cannot be stored: {error.message}"
            raise NotStorable(told, path=error.path, hint="emit JSON values") from error
        plain: JsonValue = from_json(raw)
        self._may_note(len(name) + len(raw), f"event {short(name, 60)!r}")
        if self.current:
            self._s.note(ev.Emitted(name=name, data=plain, attempt=self.number))

    def _may_note(self, size: int, what: str) -> None:
        self._noted += 1
        held = "the step is held (paused: error), and a resume takes it again from its last snapshot"
        if size > LONGEST_NOTE:
            raise NotStorable(
                f"{what} is {size:,} long, and {LONGEST_NOTE:,} is the most", hint=f"keep long texts elsewhere; {held}"
            )
        if self._noted > MOST_NOTES:
            raise NotStorable(
                f"{what} is one more than the {MOST_NOTES:,} notes, events and replies of one step",
                hint=f"say less, or take more steps; {held}",
            )

    @property
    def current(self) -> bool:
        """May this step still act, or has another attempt taken its place?"""
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
