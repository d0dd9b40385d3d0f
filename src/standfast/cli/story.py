"""A run told while it goes: its plan, its calls, what it says, who did what."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from standfast import events as ev
from standfast.cli.pages import suspected_words
from standfast.cli.screens import Screen
from standfast.cli.words import (
    PLAN_SHAPES,
    TRIPWIRE_LIMITS,
    UNREAD_SHAPE,
    Colour,
    budget_words,
    count,
    duration,
    flying,
    joined,
    look_of,
    plan_position,
    short,
    status_words,
    trip_words,
)
from standfast.events import Event, TextDelta
from standfast.names import by_words, name_words, named
from standfast.records import PlanItem, RunView
from standfast.unread import ENDED_UNREAD

SHORTEST_TOLD = 0.05  # seconds
_PLAN_COLOURS: dict[str, Colour] = {"running": "green", "done": "blue", "dropped": "bright_black"}


class _Asked(Protocol):
    """What somebody did, and why."""

    @property
    def by(self) -> str | None: ...
    @property
    def by_token(self) -> str: ...
    @property
    def reason(self) -> str: ...


class Story:
    """What is written about one run, event by event."""

    def __init__(self, screen: Screen, hint: str = "Ctrl-C pauses") -> None:
        self._screen = screen
        self.hint = hint
        self._plan: dict[str, PlanItem] = {}
        self._tools: dict[str, str] = {}  # names of calls, by id
        self._since: dict[str, float] = {}
        self._said: dict[tuple[str, str], str] = {}  # kept after a call's end: its last words are flushed behind it
        self._speaking: tuple[str, str] | None = None

    # --- what happens -----------------------------------------------------------------------------

    def tell(self, event: Event | TextDelta) -> None:
        """One event, or live text."""
        match event:
            case TextDelta():
                self._speech(event.call_id, event.channel, event.offset, event.text)
            case ev.TextFlushed():
                self._speech(event.call, event.channel, event.offset, event.text)
            case ev.CallStarted():
                self._tools[event.call] = event.title or event.tool
                self._since[event.call] = event.at
                if not self._screen.live:
                    self._line(f"  · {self._tools[event.call]} {_args(event)}", "bright_black")
            case ev.CallFinished():
                spoke = event.result is None or (event.call, "text") in self._said
                result = "" if spoke else f" → {short(event.result, 60)}"
                took = event.at - self._since.pop(event.call, event.at)
                seconds = f" ({took:.1f} s)" if took >= SHORTEST_TOLD else ""
                self._line(f"  ✔ {self._name(event.call)}{result}{seconds}", "bright_black")
            case _:
                for line, colour in self._lines(event):
                    self._line(line, colour)

    def _lines(self, event: Event) -> Sequence[tuple[str, Colour | None]]:
        match event:
            case ev.CallFailed():
                unknown = "; whether it had an effect is unknown" if event.effect_unknown else ""
                return [(f"  ✖ {self._name(event.call)}: {event.error}: {event.message}{unknown}", "red")]
            case ev.CallCut():
                why = f" ({event.why})" if event.why else ""
                return [(f"  ✂ {self._name(event.call)}: {event.outcome.replace('_', ' ')}{why}", "yellow")]
            case ev.CallInDoubt():
                return [(f"  ? {event.tool}: in doubt ({event.why})", "yellow")]
            case ev.CallWaits():
                return [(f"  … {self._name(event.call)} waits {event.seconds:.0f} s: {event.why}", "yellow")]
            case ev.TripwireTripped() if event.open or event.action != "flag":
                return [(f"  ! tripwire: {trip_words(event)} ({TRIPWIRE_LIMITS})", "red")]
            case ev.TripwireTripped():
                return []  # told when it began
            case ev.TripwireExcused():
                whose = "the user had said it" if event.why == "user" else "everybody may know it"
                return [(f"  · the tripwire let {count(event.hits, 'hit')} pass: {whose}", "bright_black")]
            case ev.UndoEnded():
                why = f" ({event.reason})" if event.reason else ""
                return [(f"  ↶ undo of {event.tool}: {event.outcome.replace('_', ' ')}{why}", "cyan")]
            case ev.VerbNoted(verb="undo"):
                return [(f"  ↶ {event.text}", "yellow")]
            case ev.LeftBehind():
                return [(f"  ! left behind: {event.what} in {event.where}", "red")]
            case ev.Noted():
                return [(f"  note: {event.text}", None)]
            case ev.StepSetBack():
                return [(f"  ↺ step {event.step} is set back: {event.why}", "yellow")]
            case ev.StepFailed() | ev.RunFailed():
                return [(f"  ✖ {event.error}", "red")]
            case ev.MailReceived():
                sender = name_words(event.by, event.by_token)
                return [(f"  ✉ {event.kind} from {sender}: {event.text} [{event.disposition}]", "cyan")]
            case ev.MailConsumed():
                return [(f"  ✉ read at step {event.step}, applied", "cyan")]
            case ev.MailNotRead():
                whose = f"“{event.item}” (step {event.step})" if event.item else f"step {event.step}"
                return [(f"  {UNREAD_SHAPE} not read: {whose} ended without reading it", "red")]
            case ev.MailResent():
                return [
                    (f"  ✉ sent again {by_words(event.by, event.by_token, 'someone')} [{event.disposition}]", "cyan")
                ]
            case ev.MailReturned():
                unread = event.reason == ENDED_UNREAD
                return [
                    (f"  {UNREAD_SHAPE if unread else '✉'} returned: {event.reason}", "red" if unread else "yellow")
                ]
            case ev.FrameOpened():
                return [(f"  ◇ thinks about {event.goal}", "magenta")]
            case ev.FrameHeld():
                return [(f"  ◇ on hold: {joined([event.goal, event.at_step], ', ')}", "magenta")]
            case ev.FrameReturned():
                return [(f"  ◆ {event.text}", "magenta")]
            case ev.FrameAbandoned():
                who = by_words(event.by, event.by_token, "the run")
                return [(f"  ◇ abandoned {who}: {event.goal} ({event.reason})", "magenta")]
            case ev.Replied():
                return [(f"  « {event.text}", None), *((f"    {line}", "magenta") for line in event.lines)]
            case _:
                return self._controls(event)

    def _controls(self, event: Event) -> Sequence[tuple[str, Colour | None]]:
        match event:
            case ev.PauseAsked():
                waits = f"; in flight: {flying(event.in_flight)}" if event.in_flight else ""
                return [(f"◐ pause asked{_by(event)}{waits}", "yellow")]
            case ev.RunHalted():
                waits = f"; in flight: {flying(event.in_flight)}" if event.in_flight else ""
                return [(f"■ halted{_by(event)}{waits}", "red")]
            case ev.RunLifted():
                held = f"; still held ({', '.join(event.holds).replace('_', ' ')})" if event.holds else ""
                return [(f"□ halt lifted{_by(event)}{held}", "green")]
            case ev.RunPaused():
                why = joined([", ".join(event.holds).replace("_", " "), event.text], ": ")
                lines: list[tuple[str, Colour | None]] = [(f"‖ paused ({why})", "yellow")]
                return lines + [(f"  ! still running: {one}", "red") for one in event.residue]
            case ev.ResumeAsked():
                resumed: list[tuple[str, Colour | None]] = [(f"▶ resumed{_by(event)}", "green")]
                if event.changed:
                    resumed.append((f"  what you changed: {event.changed}", "cyan"))
                return resumed
            case ev.CancelAsked():
                flight = f"; in flight: {flying(event.in_flight)}" if event.in_flight else ""
                return [(f"◓ cancel asked{_by(event)}{flight}", "red")]
            case ev.OutputSuspected():
                return [(f"⚑ {suspected_words(event)}{_by(event)}", "red")]
            case ev.RewindAsked():
                return [(f"↺ rewind to step {event.to}{_by(event)}", "yellow")]
            case ev.StateEdited():
                return [(f"✎ edited{_by(event)}: {event.changed}", "cyan")]
            case ev.Answered():
                return [(f"  ⌨ {event.answer}{_by(event)}", "cyan")]
            case ev.RunClaimed() if event.taken_from:
                return [("  taken over from a driver that is gone", "yellow")]
            case _:
                return []

    # --- what it says -----------------------------------------------------------------------------

    def _speech(self, call: str, channel: str, offset: int, text: str) -> None:
        if channel == "tool_call":
            return
        key = (call, channel)
        said = self._said.get(key, "")
        if offset == 0 and said and not (said.startswith(text) or text.startswith(said)):
            said = ""  # the call was repeated: it begins anew
            self._screen.end_stream()
        new = text[len(said) - offset :] if offset <= len(said) else text
        self._said[key] = (said if offset <= len(said) else said.ljust(offset)) + new
        if not new:
            return
        if self._speaking != key:
            self._screen.end_stream()
            self._speaking = key
        self._screen.stream(new)

    def _line(self, text: str, colour: Colour | None = None) -> None:
        self._speaking = None
        self._screen.line(text, colour)

    def _name(self, call: str) -> str:
        return self._tools.get(call, call)

    # --- how it stands ----------------------------------------------------------------------------

    def stands(self, view: RunView) -> None:
        """The plan and the state of the run, as they are now."""
        total = len(view.plan)
        for number, item in enumerate(view.plan, 1):
            old = self._plan.get(item.id)
            if old is None or old.status != item.status or old.title != item.title:
                self._item(number, total, item, old)
            self._plan[item.id] = item
        if self._screen.live:
            self._screen.bottom(bottom_lines(view, self.hint))

    def _item(self, number: int, total: int, item: PlanItem, old: PlanItem | None) -> None:
        if item.status == "queued" and (old is None or old.title == item.title) and self._screen.live:
            return  # the live part shows it
        was = f"  (was: {item.was})" if item.was else ""
        again = "  (again)" if old is not None and old.status == "done" and item.status == "running" else ""
        colour = _PLAN_COLOURS.get(item.status)
        self._line(f"{PLAN_SHAPES[item.status]} {number}/{total} {item.title}{was}{again}", colour)


def bottom_lines(view: RunView, hint: str) -> list[str]:
    """The live part: the plan, and the state of the run in a line."""
    plan = [f"  {PLAN_SHAPES[item.status]} {item.title}" for item in view.plan]
    elapsed = duration(view.elapsed - view.paused_for)
    state = joined(
        [
            f"{look_of(view.status).shape} {status_words(view)}",
            plan_position(view),
            elapsed + (f" (+{duration(view.paused_for)} paused)" if view.paused_for >= 1 else ""),
            count(view.step, "step"),
            budget_words(view),
            f"in flight: {flying(view.in_flight)}" if view.in_flight else "",
        ],
        " · ",
    )
    return ["", *plan, state, f"  {hint}"]


def _by(event: _Asked) -> str:
    who = by_words(named(event.by, getattr(event, "trigger", "")), event.by_token)
    return (f" {who}" if who else "") + (f": {event.reason}" if event.reason else "")


def _args(event: ev.CallStarted) -> str:
    if event.args in (None, {}) or (isinstance(event.args, dict) and "messages" in event.args):
        return ""  # what a model is asked is long, and in the record
    return short(event.args, 60)
