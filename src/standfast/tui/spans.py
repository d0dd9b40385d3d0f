"""When a run was at which step, paused, or on its way to a stop: spans of time, from its events."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from standfast import events as ev
from standfast.events import Event
from standfast.records import ENDED, Status

Kind = Literal["step", "pausing", "paused", "cancelling"]
_HELD: tuple[Kind, ...] = ("pausing", "paused", "cancelling")


@dataclass(slots=True)
class Span:
    """From when to when; `to` is None while it lasts."""

    kind: Kind
    label: str
    began: float
    to: float | None = None


@dataclass(slots=True)
class Spans:
    """The life of a run as spans; the same events give the same spans, however they come in."""

    step: int = 0
    began: float = 0.0
    ended: float | None = None
    all: list[Span] = field(default_factory=list[Span])
    _status: Status = "queued"

    def take(self, event: Event) -> None:
        """One event of the record."""
        match event:
            case ev.RunStarted():
                self.began = event.at
            case ev.RunClaimed():
                self._begin(event.step, event.at)
            case ev.StepFinished():
                self._begin(event.step + 1, event.at)
            case ev.StepSetBack():
                self._begin(event.step, event.at)
            case ev.Rewound():
                self._end("step", event.at)
                self.step = event.to
            case _:
                pass
        status: Status | None = getattr(event, "status", None)
        if status is not None and status != self._status:
            self._enter(status, event.at)

    def _enter(self, status: Status, at: float) -> None:
        for kind in _HELD:
            if self._status == kind:
                self._end(kind, at)
            if status == kind:
                self.all.append(Span(kind, kind, at))
        if status not in ("running", "pausing", "cancelling"):
            self._end("step", at)
        if status in ENDED:
            self.ended = at
        self._status = status

    def _begin(self, step: int, at: float) -> None:
        self._end("step", at)
        self.step = step
        self.all.append(Span("step", f"step {step}", at))

    def _end(self, kind: Kind, at: float) -> None:
        for span in reversed(self.all[-8:]):
            if span.kind == kind and span.to is None:
                span.to = at
