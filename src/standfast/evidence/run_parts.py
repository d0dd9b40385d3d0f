"""What a bundle tells of a run beside its record. All of it follows from the record: who checks makes it again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from pydantic import TypeAdapter

from standfast import events as ev
from standfast.evidence.ledgers import Ledger, LedgerReader
from standfast.evidence.redaction_map import Redacted, redacted_in
from standfast.json_values import is_object
from standfast.lazily import adapter
from standfast.records import Channel
from standfast.rows import child_id
from standfast.stop_records import StopRecord, stop_records
from standfast.transcripts import Said, Transcript


@dataclass(frozen=True, slots=True, kw_only=True)
class StopPlace:
    """How much of a call's text stood in the record when a stop was accepted; what follows it was written later."""

    stop: int  # the seq of its event
    call: str
    attempt: int
    take: int  # how often the call had begun anew in this attempt
    channel: Channel
    characters: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptPart:
    """What was said, call by call, and where the stops fell."""

    said: list[Said]
    stops: list[StopPlace]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunParts:
    """A run as its record tells it."""

    run: str
    agent: str
    parent: str | None
    status: str  # after the last event that names one
    events: int
    begun: float
    ended: float
    models: tuple[str, ...]
    transcript: TranscriptPart
    stops: tuple[StopRecord, ...]
    ledger: Ledger
    redactions: tuple[Redacted, ...]
    children: tuple[str, ...]  # the runs that its calls began

    def files(self) -> dict[str, bytes]:
        """The same as the parts of a bundle."""
        return {
            "transcript.json": _transcript.dump_json(self.transcript, indent=1),
            "stops.json": _stops.dump_json(self.stops, indent=1),
            "ledger.json": _ledger.dump_json(self.ledger, indent=1),
            "redactions.json": _redactions.dump_json(self.redactions, indent=1),
        }


_transcript: TypeAdapter[TranscriptPart] = adapter(TranscriptPart)
_stops: TypeAdapter[tuple[StopRecord, ...]] = adapter(tuple[StopRecord, ...])
_ledger: TypeAdapter[Ledger] = adapter(Ledger)
_redactions: TypeAdapter[tuple[Redacted, ...]] = adapter(tuple[Redacted, ...])


def read_run(run: str, bodies: Iterable[str | None]) -> RunParts:
    """A run from the rows of its record, oldest first (None: deleted); ValueError if one cannot be read."""
    reading = _Reading(run)
    stops = stop_records(reading.events(bodies))
    return reading.parts(stops)


@dataclass(slots=True)
class _Speaking:
    """A try of a call that has said something and not ended."""

    attempt: int
    take: int
    characters: dict[Channel, int] = field(default_factory=dict[Channel, int])


@dataclass(slots=True)
class _Reading:
    run: str
    agent: str = ""
    parent: str | None = None
    status: str = ""
    count: int = 0
    begun: float = 0.0
    ended: float = 0.0
    models: set[str] = field(default_factory=set[str])
    children: set[str] = field(default_factory=set[str])
    redactions: list[Redacted] = field(default_factory=list[Redacted])
    transcript: Transcript = field(default_factory=Transcript)
    places: list[StopPlace] = field(default_factory=list[StopPlace])
    ledger: LedgerReader = field(init=False)
    speaking: dict[str, _Speaking] = field(default_factory=dict[str, "_Speaking"])  # what a stop may fall into
    over: set[str] = field(default_factory=set[str])  # calls that have ended; their last words may stand behind that
    tripped: set[str] = field(default_factory=set[str])  # calls that a tripwire cut: its stop is accepted after the cut

    def __post_init__(self) -> None:
        self.ledger = LedgerReader(self.run)

    def events(self, bodies: Iterable[str | None]) -> Iterator[ev.Event]:
        """Every event, once it was looked at here."""
        for body in bodies:
            if body is None:
                continue
            self.redactions += redacted_in(body)
            for event in ev.decode(body.encode()):
                event.run = self.run
                self._take(event)
                yield event

    def _take(self, event: ev.Event) -> None:
        self.begun = self.begun or event.at
        self.ended = event.at
        self.count += 1
        self.status = getattr(event, "status", None) or self.status
        self.transcript.take(event)
        self.ledger.take(event)
        match event:
            case ev.RunStarted():
                self.agent, self.parent = event.agent, event.parent
            case ev.CallStarted():
                self.models |= _model(event.args)
                if _begins_a_run(event):
                    self.children.add(child_id(self.run, event.call))
                self.over.discard(event.call)
            case ev.TextFlushed():
                self._spoke(event)
            case ev.TripwireTripped() if event.action != "flag":
                self.tripped.add(event.call)
            case ev.CallFinished() | ev.CallFailed() | ev.CallCut():
                self.over.add(event.call)
            case ev.PauseAsked() | ev.CancelAsked() | ev.RunHalted() | ev.TakenOver() | ev.RewindAsked():
                self.places += [
                    StopPlace(
                        stop=event.seq,
                        call=call,
                        attempt=one.attempt,
                        take=one.take,
                        channel=channel,
                        characters=characters,
                    )
                    for call, one in self.speaking.items()
                    if call not in self.over or call in self.tripped
                    for channel, characters in one.characters.items()
                ]
            case ev.StepFinished() | ev.StepSetBack() | ev.RunReleased() | ev.RunClaimed():
                self._nobody_speaks()
            case ev.RunPaused() | ev.RunQueued() | ev.RunCancelled() | ev.RunDone() | ev.RunFailed():
                self._nobody_speaks()
            case _:
                pass

    def _nobody_speaks(self) -> None:
        for known in (self.speaking, self.over, self.tripped):
            known.clear()

    def _spoke(self, event: ev.TextFlushed) -> None:
        if event.channel == "tool_call":
            return
        known = self.speaking.get(event.call)
        if known is None or (known.attempt, known.take) != (event.attempt, event.take):
            known = self.speaking[event.call] = _Speaking(event.attempt, event.take)
        known.characters[event.channel] = event.offset + len(event.text)

    def parts(self, stops: tuple[StopRecord, ...]) -> RunParts:
        return RunParts(
            run=self.run,
            agent=self.agent,
            parent=self.parent,
            status=self.status,
            events=self.count,
            begun=self.begun,
            ended=self.ended,
            models=tuple(sorted(self.models)),
            transcript=TranscriptPart(said=self.transcript.said(), stops=self.places),
            stops=stops,
            ledger=self.ledger.ledger(),
            redactions=tuple(self.redactions),
            children=tuple(sorted(self.children)),
        )


def _begins_a_run(event: ev.CallStarted) -> bool:
    """Is it the call that begins a child run, as the gate records it?"""
    return event.tool == "child" and is_object(event.args) and event.args.keys() == {"agent", "state"}


def _model(args: Any) -> set[str]:
    """The model that a call asked, if it asked one: arguments as `models` writes them."""
    if not is_object(args) or not {"model", "messages", "system"} <= args.keys():
        return set()
    name = args["model"]
    return {name} if isinstance(name, str) else set()
