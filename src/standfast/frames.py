"""Thoughts that survive being interrupted: what a step does with the stack (R19-R23).

Every change is shown to people with the next commit, is part of the boundary's snapshot, and is taken
back with the step if that is set back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any

from standfast import arguments
from standfast import events as ev
from standfast.errors import Misuse
from standfast.events import Event
from standfast.json_values import fingerprint
from standfast.records import Message
from standfast.rows import Fact, Frame, FrameKind, RunDoc
from standfast.stack import Stack, duration, find, on_hold, place

if TYPE_CHECKING:
    from standfast.run import Run
    from standfast.session import Session
    from standfast.stack import Limits


class OpenFrame:
    """A frame as the step that works on it sees it; `async with` opens it, or takes it up again."""

    def __init__(self, frames: Frames, goal: str, steps: Sequence[str], message: Message | None) -> None:
        self._frames = frames
        self._goal = goal
        self._steps = steps
        self._message = message
        self._data: Frame | None = None  # as it was last seen
        self._finishes = False
        self._stays = False

    async def __aenter__(self) -> OpenFrame:
        self._data = await self._frames.enter(self._goal, self._steps, self._message)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None or not self._frames.current:
            return  # it stays open: the step is taken again, or whoever caught the error goes on with it
        frame = self._now()
        if frame.status in ("active", "held") and not self._stays and (self._finishes or frame.next is None):
            await self._frames.finish(frame.id)

    # --- what it is ---------------------------------------------------------------------------------

    def _now(self) -> Frame:
        assert self._data is not None, "use it inside its block: async with run.frame(...) as frame"
        found = find(self._frames.stack.frames, self._data.id)
        if found is not None:
            self._data = found
        elif self._data.status in ("active", "held"):
            self._data = replace(self._data, status="finished")
        return self._data

    @property
    def id(self) -> str:
        """The frame's name in this run: frame-0, frame-1, ..."""
        return self._now().id

    @property
    def goal(self) -> str:
        """What it is for."""
        return self._now().goal

    @property
    def steps(self) -> tuple[str, ...]:
        """The titles of its steps."""
        return self._now().steps

    @property
    def done(self) -> int:
        """How many of its steps are done."""
        return self._now().done

    @property
    def next(self) -> str | None:
        """The title of the next step; None when all are done or none were declared."""
        return self._now().next

    @property
    def status(self) -> str:
        """active, held, finished or abandoned."""
        return self._now().status

    @property
    def note(self) -> str:
        """What the last advance said."""
        return self._now().note

    @property
    def returned(self) -> str:
        """ "back to X: at step 3 of 6", from the return until the frame goes on; else empty."""
        return self._now().returned

    @property
    def reconstructed(self) -> bool:
        """Was it returned to too late, or over facts that have changed? Until the frame goes on."""
        return bool(self._now().why)

    @property
    def why(self) -> str:
        """Why the return is a reconstruction, in words."""
        return self._now().why

    @property
    def tokens(self) -> int:
        """What its context costs; set it, and people see the cost of what is on hold."""
        return self._now().tokens

    @tokens.setter
    def tokens(self, tokens: int) -> None:
        self._frames.cost(self._now(), arguments.whole("tokens", tokens, "give how many tokens its context has"))

    # --- what is done with it -------------------------------------------------------------------------

    def advance(self, note: str = "") -> None:
        """Its next step is done."""
        self._frames.advance(self._now(), arguments.text("note", note))

    def finish(self) -> None:
        """It is over at the end of its block, whatever steps are left."""
        self._finishes, self._stays = True, False

    def stay_open(self) -> None:
        """It stays open at the end of its block, even if no step is left: a later step takes it up again."""
        self._stays, self._finishes = True, False


class Frames:
    """The stack of one step, with everything a change of it entails."""

    __slots__ = ("_counted", "_run", "_s", "stack")

    def __init__(self, session: Session, run: Run[Any], stack: Stack) -> None:
        self._s = session
        self._run = run
        self.stack = stack
        self._counted: dict[str, int] = {}

    @property
    def current(self) -> bool:
        """May this step still act?"""
        return self._run.current

    @property
    def _limits(self) -> Limits:
        return self._s.agent.limits

    @property
    def _facts(self) -> dict[str, Fact]:
        return self._s.freshness.facts

    def _now(self) -> float:
        return self._s.env.clock.now()

    def _show(self, events: list[Event]) -> None:
        """Let people see the stack as it is now, with the next commit."""
        frames = list(self.stack.frames)

        def change(doc: RunDoc) -> None:
            doc.frames = frames

        for event in events:
            event.attempt = self._run.number  # type: ignore[union-attr]  # all events of frames have one
            self._s.note(event)
        self._s.change(change)

    async def _may_act(self) -> None:
        if not self.current:
            await self._run.scope.park()

    # --- opening, going on, finishing -----------------------------------------------------------------

    async def enter(self, goal: str, steps: Sequence[str], message: Message | None) -> Frame:
        """Open a frame, or take up the open one of that message or goal."""
        await self._may_act()
        known = self._known(goal, message)
        if known is None:
            kind: FrameKind = "task" if message is None else message.when
            mail = None if message is None else message.id
            always = message is not None and message.always
            frame, events = self.stack.open(
                goal, steps, kind, mail, self._now(), self._limits, self._facts, always=always
            )
            self._show(events)
            return frame
        if known.status == "held":
            known = await self.return_to(known.id)
        else:
            known = await self._taken_up(known)
        if steps and tuple(steps) != known.steps:
            self._show(self.stack.plan_anew(known, steps))
        return self._get(known.id)

    def _known(self, goal: str, message: Message | None) -> Frame | None:
        if message is not None:
            return next((f for f in self.stack.frames if f.mail == message.id), None)
        return next((f for f in reversed(self.stack.frames) if f.goal == goal), None)

    async def _taken_up(self, frame: Frame) -> Frame:
        """The active frame, in a later step: a return only if it was left alone too long."""
        why = await self._verdict(frame, frame.worked_at, "left alone for")
        if why:
            self._show(self.stack.activate(self._get(frame.id), self._now(), why, self._facts))
        return self._get(frame.id)

    def advance(self, frame: Frame, note: str) -> None:
        """The next step of a frame is done; whoever works on a frame that is on hold has returned to it."""
        if not self.current:
            return
        events: list[Event] = []
        if frame.status == "held":
            why = self._expired(frame, frame.held_at, "held")
            events += self.stack.activate(frame, self._now(), why, self._facts)
        events += self.stack.advance(self._get(frame.id), self._now(), note)
        self._show(events)

    def cost(self, frame: Frame, tokens: int) -> None:
        """What a frame's context costs now."""
        if self.current and frame.tokens != tokens:
            self.stack.put(replace(frame, tokens=tokens))
            self._show([])

    async def finish(self, which: str) -> None:
        """A frame is over; if it was the active one, the run returns to the one below it, aloud."""
        frame = self._get(which)
        back = await self._below(frame)
        self._show([*self.stack.finish(self._get(frame.id)), *self._back_to(*back)])

    async def abandon(self, which: str, by: str | None, reason: str, way: str = "") -> None:
        """A frame is given up; if it was the active one, the run returns to the one below it, aloud."""
        await self._may_act()
        frame = self._get(which)
        back = await self._below(frame)
        self._show([*self.stack.abandon(self._get(frame.id), by, reason, way), *self._back_to(*back)])

    async def return_to(self, which: str) -> Frame:
        """Go back to a frame by choice; whatever is active is put on hold."""
        await self._may_act()
        frame = self._get(which)
        if frame.status == "held":
            why = await self._verdict(frame, frame.held_at, "held")
            self._show(self.stack.activate(self._get(frame.id), self._now(), why, self._facts))
        return self._get(frame.id)

    def _get(self, which: str) -> Frame:
        frame = self.stack.find(which)
        if frame is None:
            names = ", ".join(f"{f.id} ({f.goal})" for f in self.stack.frames) or "none"
            raise Misuse(f"no frame {which!r} is open", hint=f"open frames: {names}")
        return frame

    async def _below(self, frame: Frame) -> tuple[str | None, str]:
        """What the run returns to when this frame goes, and whether that is a reconstruction."""
        frames = self.stack.frames
        if frames[-1].id != frame.id or len(frames) < 2:
            return None, ""
        below = frames[-2]
        return below.id, await self._verdict(below, below.held_at, "held")

    def _back_to(self, which: str | None, why: str) -> list[Event]:
        top = self.stack.top
        if which is None or top is None or top.id != which or top.status != "held":
            return []
        return self.stack.activate(top, self._now(), why, {})

    # --- continuation or reconstruction ---------------------------------------------------------------

    def _expired(self, frame: Frame, since: float | None, word: str) -> str:
        gone = self._now() - (frame.worked_at if since is None else since)
        return f"{word} {duration(gone)}" if gone > self._limits.expiry else ""

    async def _verdict(self, frame: Frame, since: float | None, word: str) -> str:
        """Why a return to this frame is no continuation; a repeated step with finished calls hears the same again."""
        name = f"frame:{frame.id}:{frame.goal}:{word}"  # a step that does something first may ask for another return
        n = self._counted[name] = self._counted.get(name, 0) + 1
        name = f"{name}:{n}"
        journal = self._s.journal
        known = journal.values.get(name)
        if isinstance(known, str) and any(row.status == "finished" for row in journal.rows.values()):
            return known
        differences = await self._s.freshness.differences(frame.facts) if frame.facts else []
        changed = [f"changed: {text}" for text, _ in differences]
        why = "; ".join(filter(None, [self._expired(frame, since, word), *changed]))
        self._s.remember_value(name, why)
        return why

    def relied(self, name: str) -> None:
        """The active frame builds on this fact."""
        top = self.stack.top
        if top is not None and name not in top.relied:
            self.stack.put(replace(top, relied=(*top.relied, name)))
            self._show([])

    # --- answers --------------------------------------------------------------------------------------

    def reply(self, mail: str | None, text: str) -> None:
        """Say something to people; what is on hold and what was returned to is named here, never by the model."""
        if not self.current:
            return
        returned = self.stack.told()
        back = [returned[:1].upper() + returned[1:]] if returned else []
        lines = [*back, *on_hold(self.stack.frames, self._now())]
        held = [[f.goal, place(f)] for f in self.stack.frames if f.status == "held"]
        name = f"reply:{mail or ''}:{fingerprint([text, returned, held])}"  # what it names is part of what is said
        n = self._counted[name] = self._counted.get(name, 0) + 1
        if self._s.journal.values.get(f"{name}:{n}"):
            self._show([])
            return  # said by an earlier attempt at this step
        self._s.remember_value(f"{name}:{n}", True)
        self._show([ev.Replied(mail=mail, text=text, lines=lines)])
