"""The stack of thoughts, without I/O: who is on top, what may be put over it, what is said of those on hold.

The last frame of the list is the active one, all others are on hold. Whoever is finished or
abandoned leaves the stack.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, cast

from pydantic import JsonValue

from standfast import arguments
from standfast import events as ev
from standfast.errors import Misuse, StackFull
from standfast.events import Event
from standfast.records import Json, When
from standfast.rows import Fact, Frame, FrameKind
from standfast.snapshots import Thoughts
from standfast.ways import token_of

RANK: Final[dict[FrameKind, int]] = {"task": 0, "later": 0, "next": 1, "now": 2}


@dataclass(frozen=True, slots=True)
class Limits:
    """How many frames may be open, how long one stays fresh on hold, and what those on hold may cost."""

    frames: int = 4
    expiry: float = 1800.0
    held_tokens: int | None = None

    def __post_init__(self) -> None:
        arguments.whole("max_frames", self.frames, "leave it out for 4")
        arguments.number("frame_expiry", self.expiry, "leave it out for half an hour")
        if self.held_tokens is not None:
            arguments.whole("max_held_tokens", self.held_tokens, "leave it out for no limit")
        if self.frames < 1:
            raise Misuse("max_frames must be at least 1", hint="leave it out for 4")
        if self.expiry <= 0:
            raise Misuse("frame_expiry must be more than 0 seconds", hint="leave it out for half an hour")
        if self.held_tokens is not None and self.held_tokens < 0:
            raise Misuse("max_held_tokens cannot be negative", hint="leave it out for no limit")

    @property
    def contract(self) -> Json:
        return cast("Json", asdict(self))


def contract_limits(contract: Json | None) -> Limits:
    """The limits in a contract, for a process that has no more of the agent than that."""
    found = cast("dict[str, Any] | None", (contract or {}).get("frames"))
    return Limits() if found is None else Limits(**found)


# --- what is said of a frame --------------------------------------------------------------------


def place(frame: Frame) -> str:
    """How far it has got, in words; empty if it declares no steps."""
    if not frame.steps:
        return ""
    if frame.next is None:
        return f"all {len(frame.steps)} steps done"
    return f"at step {frame.done + 1} of {len(frame.steps)}"


def duration(seconds: float) -> str:
    """A span of time as people say it."""
    if seconds < 60:
        return f"{max(0, int(seconds))} s"
    minutes = int(seconds // 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, rest = divmod(minutes, 60)
    return f"{hours} h {rest} min" if rest else f"{hours} h"


def on_hold(frames: Sequence[Frame], now: float) -> list[str]:
    """A line for each frame on hold."""
    held = [f for f in frames if f.status == "held"]
    return [
        ", ".join(filter(None, [f"On hold: {f.goal}", place(f), f"for {duration(now - (f.held_at or now))}"]))
        for f in held
    ]


def held_tokens(frames: Sequence[Frame]) -> int:
    """What the frames on hold cost."""
    return sum(f.tokens for f in frames if f.status == "held")


def frame_view(frame: Frame, now: float, limits: Limits, ordered: str = "") -> Json:
    """A frame as views show it."""
    held = frame.held_at if frame.status == "held" else None
    return {
        "id": frame.id,
        "goal": frame.goal,
        "steps": cast("JsonValue", list(frame.steps)),
        "done": frame.done,
        "next": frame.next,
        "status": frame.status,
        "kind": frame.kind,
        "mail": frame.mail,
        "place": place(frame),
        "age": max(0.0, now - frame.opened_at),
        "held_for": None if held is None else max(0.0, now - held),
        "expires_at": None if held is None else held + limits.expiry,
        "expired": held is not None and now - held > limits.expiry,
        "tokens": frame.tokens,
        "note": frame.note,
        "returned": frame.returned,
        "reconstructed": frame.why,
        "ordered": ordered,
    }


# --- what may be put over what ------------------------------------------------------------------


def held_back(when: When, frames: Sequence[Frame], limits: Limits) -> str:
    """Why a message of this class has to wait for the stack; empty if it may be handled over the frame on top."""
    if not frames:
        return ""
    top = frames[-1]
    if when == "later":
        return f"later: when nothing else is on the stack ({_names(frames)})"
    full = no_room(frames, limits)
    if full:
        return f"held: {full}"
    if RANK[when] > RANK[top.kind] or (when == "now" and top.kind == "now"):
        return ""
    return f"held: until {top.goal!r}, which came {top.kind!r}, is finished"


def no_room(frames: Sequence[Frame], limits: Limits) -> str:
    """Why nothing can be put over the frame on top; empty if there is room."""
    if len(frames) >= limits.frames:
        return f"the stack is full ({len(frames)} of {limits.frames}): {_names(frames)}"
    cost = sum(f.tokens for f in frames)
    if limits.held_tokens is not None and frames and cost > limits.held_tokens:
        return f"frames on hold would cost {cost} tokens, the cap is {limits.held_tokens}"
    return ""


def _names(frames: Sequence[Frame]) -> str:
    return ", ".join(f.goal for f in frames)


# --- the stack ----------------------------------------------------------------------------------


class Stack:
    """The open frames of one run, as a step changes them; restored with the state when the step is set back."""

    __slots__ = ("thoughts",)

    def __init__(self, thoughts: Thoughts) -> None:
        self.thoughts = thoughts

    @property
    def frames(self) -> list[Frame]:
        return self.thoughts.frames

    @property
    def top(self) -> Frame | None:
        return self.frames[-1] if self.frames else None

    def find(self, which: str) -> Frame | None:
        """An open frame by its id, or the uppermost with that goal."""
        return find(self.frames, which)

    def open(
        self,
        goal: str,
        steps: Sequence[str],
        kind: FrameKind,
        mail: str | None,
        now: float,
        limits: Limits,
        facts: dict[str, Fact],
        *,
        always: bool = False,
    ) -> tuple[Frame, list[Event]]:
        """Put a new frame on top, whatever was there on hold; StackFull if there is no room, unless it is `always`."""
        full = no_room(self.frames, limits)
        if full and not always:
            raise StackFull(
                f"{goal!r} cannot be begun: {full}", hint="finish or abandon a frame first; limits are the agent's"
            )
        top = self.top
        if top is not None and kind == "task":
            kind = top.kind  # part of what is being handled: no less urgent than that
        frame = Frame(
            id=f"frame-{self.thoughts.opened}",
            goal=goal,
            steps=tuple(steps),
            kind=kind,
            mail=mail,
            opened_at=now,
            worked_at=now,
        )
        events = self.hold(now, facts)
        self.thoughts = replace(self.thoughts, frames=[*self.frames, frame], opened=self.thoughts.opened + 1)
        opened = ev.FrameOpened(frame=frame.id, goal=goal, steps=list(steps), kind=kind, mail=mail)
        return frame, [*events, opened]

    def hold(self, now: float, facts: dict[str, Fact]) -> list[Event]:
        """Put the active frame on hold, with what it stands on."""
        top = self.top
        if top is None or top.status == "held":
            return []
        kept = {name: facts[name] for name in top.relied if name in facts}
        self.put(replace(top, status="held", held_at=now, facts=kept, returned="", why=""))
        self.told()
        return [ev.FrameHeld(frame=top.id, goal=top.goal, at_step=place(top))]

    def activate(self, frame: Frame, now: float, why: str, facts: dict[str, Fact]) -> list[Event]:
        """Return to a frame, aloud; whatever was active is on hold."""
        events = self.hold(now, facts) if frame.status == "held" and self.top is not frame else []
        where = place(frame)
        if why:
            text = f"reconstruction of {frame.goal}, not a continuation: {why}" + (f"; {where}" if where else "")
        else:
            text = f"back to {frame.goal}" + (f": {where}" if where else "")
        back = replace(frame, status="active", held_at=None, worked_at=now, facts={}, returned=text, why=why)
        others = [f for f in self.frames if f.id != frame.id]
        self.thoughts = replace(self.thoughts, frames=[*others, back], untold=text)
        return [*events, ev.FrameReturned(frame=frame.id, text=text, reconstructed=bool(why), why=why)]

    def advance(self, frame: Frame, now: float, note: str) -> list[Event]:
        """The next step of a frame is done."""
        if frame.next is None:
            raise Misuse(
                f"{frame.goal!r} has no step left to be done", hint="declare its steps: run.frame(goal, steps=[...])"
            )
        new = replace(frame, done=frame.done + 1, note=note or frame.note, worked_at=now, returned="", why="")
        self.put(new)
        return [ev.FrameAdvanced(frame=new.id, done=new.done, of=len(new.steps), next=new.next, note=note)]

    def plan_anew(self, frame: Frame, steps: Sequence[str]) -> list[Event]:
        """Other steps for a frame; what is done stays done."""
        new = replace(frame, steps=tuple(steps), done=min(frame.done, len(steps)))
        self.put(new)
        return [
            ev.FrameAdvanced(frame=new.id, done=new.done, of=len(new.steps), next=new.next, note="its steps changed")
        ]

    def finish(self, frame: Frame) -> list[Event]:
        """A thought has come to its end."""
        self._remove(frame)
        return [ev.FrameFinished(frame=frame.id, goal=frame.goal)]

    def abandon(self, frame: Frame, by: str | None, reason: str, way: str = "") -> list[Event]:
        """A thought is given up, by someone and for a reason."""
        self._remove(frame)
        return give_up([frame], by, reason, way)

    def worked_on(self, now: float) -> None:
        """A step that had it active has ended."""
        top = self.top
        if top is not None:
            self.put(replace(top, worked_at=now))

    def told(self) -> str:
        """The return to the active frame, if no reply has named it yet; from now on it is told."""
        untold = self.thoughts.untold
        if untold:
            self.thoughts = replace(self.thoughts, untold="")
        return untold

    def put(self, frame: Frame) -> None:
        """A frame as it is now, in its place."""
        frames = [frame if f.id == frame.id else f for f in self.frames]
        self.thoughts = replace(self.thoughts, frames=frames)

    def _remove(self, frame: Frame) -> None:
        if frame.status == "active":
            self.told()  # what it was returned for is over
        self.thoughts = replace(self.thoughts, frames=[f for f in self.frames if f.id != frame.id])


def find(frames: Sequence[Frame], which: str) -> Frame | None:
    """A frame by its id, or the uppermost with that goal."""
    by_id = next((f for f in frames if f.id == which), None)
    return by_id or next((f for f in reversed(frames) if f.goal == which), None)


def give_up(frames: Sequence[Frame], by: str | None, reason: str, way: str = "") -> list[Event]:
    """What becomes of open frames when their run ends or goes back before them: never silently."""
    route, token = str(way), token_of(way)
    return [
        ev.FrameAbandoned(frame=f.id, goal=f.goal, by=by, route=route, by_token=token, reason=reason) for f in frames
    ]
