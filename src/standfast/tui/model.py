"""What the screen knows of a run: events go in, text, calls and record lines come out. No terminal, no network."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from pydantic import JsonValue

from standfast import events as ev
from standfast.cli.pages import event_line, marked
from standfast.cli.screens import harmless
from standfast.cli.words import TRIPWIRE_LIMITS, trip_words
from standfast.events import Event, TextDelta
from standfast.records import Json
from standfast.tui.spans import Spans

MOST_CHARACTERS = 20_000  # on the screen; the transcript has everything
MOST_LINES = 2_000


@dataclass(slots=True)
class CallLine:
    """A call as the list of calls shows it."""

    id: str
    tool: str
    effect: str
    title: str = ""
    status: str = "running"
    step: int = 0
    began: float = 0.0
    ended: float | None = None
    seconds: float | None = None
    tries: int = 1
    args: JsonValue = None
    result: JsonValue = None
    error: str = ""
    why: str = ""
    undo: str = ""

    @property
    def name(self) -> str:
        return self.title or self.tool


@dataclass(slots=True)
class Speech:
    """What one try of a call has said on one channel."""

    call: str
    channel: str
    text: str = ""
    cut: bool = False
    marks: list[int] = field(default_factory=list[int])
    tripped: str = ""  # what a tripwire heard in it


@dataclass(slots=True)
class RunModel:
    """Everything a screen shows of a run beside its view."""

    seq: int = 0
    last_at: float = 0.0  # of the newest event
    spans: Spans = field(default_factory=Spans)
    calls: dict[str, CallLine] = field(default_factory=dict[str, CallLine])
    speeches: list[Speech] = field(default_factory=list[Speech])
    record: deque[str] = field(default_factory=lambda: deque[str](maxlen=MOST_LINES))
    recorded: int = 0  # lines of the record so far, also those that have given way
    changed_calls: set[str] = field(default_factory=set[str])  # since the screen was last drawn
    _speaking: dict[tuple[str, str], Speech] = field(default_factory=dict[tuple[str, str], Speech])

    def take(self, event: Event | TextDelta) -> None:
        """One event of the record, or live text; what was seen before changes nothing."""
        if isinstance(event, TextDelta):
            self._say(event.call_id, event.channel, event.offset, event.text)
            return
        if event.seq and event.seq < self.seq:
            return
        self.seq = max(self.seq, event.seq)
        self.last_at = max(self.last_at, event.at)
        self.spans.take(event)
        if isinstance(event, ev.TextFlushed):
            self._say(event.call, event.channel, event.offset, event.text)
            return
        self.record.append(harmless(event_line(event)))
        self.recorded += 1
        call: str | None = getattr(event, "call", None)
        if call is not None:
            self.changed_calls.add(call)
        self._change(event)

    def _change(self, event: Event) -> None:
        match event:
            case ev.CallStarted():
                known = self.calls.get(event.call)
                self.calls[event.call] = CallLine(
                    *(event.call, event.tool, event.effect, event.title),
                    step=self.spans.step,
                    began=event.at,
                    tries=1 if known is None or known.status == "approved" else known.tries + 1,
                    args=event.args,
                    why=event.why,
                )
            case ev.CallFinished():
                self._ended(event.call, "finished", event.at, result=event.result)
            case ev.CallFailed():
                self._ended(event.call, "failed", event.at, error=f"{event.error}: {event.message}")
            case ev.CallCut():
                self._ended(event.call, event.outcome.replace("_", " "), event.at, error=event.why)
                for (call, _), speech in self._speaking.items():
                    speech.cut = speech.cut or call == event.call
            case ev.CallInDoubt():
                self._ended(event.call, "in doubt", event.at, error=event.why)
            case ev.TripwireTripped():
                self._heard_in(event).tripped = f"! tripwire: {trip_words(event)} ({TRIPWIRE_LIMITS})"
            case ev.UndoEnded():
                if event.call in self.calls and event.outcome != "retrying":
                    self.calls[event.call].undo = event.outcome
                    self.calls[event.call].status = "undone" if event.outcome == "undone" else f"undo: {event.outcome}"
            case ev.Asked():
                line = self.calls.setdefault(
                    event.call, CallLine(event.call, event.kind, "", step=self.spans.step, began=event.at)
                )
                line.status, line.args = "asks", event.args
            case ev.Answered():
                if event.call in self.calls:
                    self.calls[event.call].status = event.answer.replace("_", " ")
                    self.calls[event.call].ended = event.at
            case ev.OutputSuspected():
                spoken = self._speaking.get((event.call or "", "text"))
                if spoken is not None:
                    spoken.marks.append(event.offset)
            case ev.Replied():
                text = "\n".join([event.text, *event.lines])
                self.speeches.append(Speech("reply", "text", text))
            case _:
                pass

    def _heard_in(self, event: ev.TripwireTripped) -> Speech:
        """Arguments of a tool are not shown here, but that they gave something away is."""
        known = self._speaking.get((event.call, event.channel)) or self._speaking.get((event.call, "text"))
        if known is None:
            known = self._speaking[event.call, "text"] = Speech(event.call, "text")
            self.speeches.append(known)
        return known

    def _ended(self, call: str, status: str, at: float, *, result: JsonValue = None, error: str = "") -> None:
        line = self.calls.get(call)
        if line is not None:
            line.status, line.result, line.error = status, result, error
            line.ended = at
            line.seconds = max(0.0, at - line.began)

    def _say(self, call: str, channel: str, offset: int, text: str) -> None:
        """Text by its place: what was seen live is not said twice when it is flushed."""
        if channel == "tool_call":
            return
        key = (call, channel)
        speech = self._speaking.get(key)
        known = "" if speech is None else speech.text
        same = known.startswith(text) or text.startswith(known)
        if speech is None or (offset == 0 and known and not same) or (speech.cut and offset == 0):
            speech = self._speaking[key] = Speech(call, channel)
            self.speeches.append(speech)
            known = ""
        if offset > len(known):
            known += "…"  # text that was lost on the way, not on disk
            offset = len(known)
        speech.text = known + text[len(known) - offset :]

    def last_words(self) -> Json | None:
        """Where somebody is reading: the call that speaks, and how much of it is here; None if nothing was said."""
        said = next((one for one in reversed(self.speeches) if one.channel == "text" and one.call != "reply"), None)
        return None if said is None else {"call": said.call, "offset": len(said.text)}

    def calls_of(self, first: int, after: int | None) -> list[CallLine]:
        """The calls of a step and those behind it, up to another."""
        return [c for c in self.calls.values() if c.step >= first and (after is None or c.step < after)]

    def output(self) -> str:
        """What was said, the newest at the end; the beginning gives way."""
        parts: list[str] = []
        length = 0
        for speech in reversed(self.speeches):
            line = self.calls.get(speech.call)
            name = "reply" if speech.call == "reply" else line.name if line is not None else speech.call
            cut = " (cut)" if speech.cut else ""
            thinking = " thinks" if speech.channel == "reasoning" else ""
            tripped = f"{speech.tripped}\n" if speech.tripped else ""
            part = f"── {name}{thinking}{cut}\n{harmless(marked(speech.text, speech.marks)).rstrip()}\n{tripped}"
            parts.append(part)
            length += len(part)
            if length > MOST_CHARACTERS:
                break
        return "\n".join(reversed(parts))[-MOST_CHARACTERS:]
