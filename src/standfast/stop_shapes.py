"""What is known of a stop: who stopped the run by what, when, and what had reached whom (R31)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from standfast.guarding import Action, TripKind
from standfast.records import CallRef, Channel, EndedAs, Moment, Status, Trigger, Way

StopVerb = Literal["pause", "cancel", "halt", "take_over", "rewind"]
Kept = Literal["tripwire", "not_handed_over"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CutStream:
    """A provider's stream that was open when the stop came; `characters` as they came, those held back too."""

    call: str
    tool: str
    attempt: int = 0
    take: int = 0
    outcome: EndedAs
    last_byte: Moment | None = None  # None: nothing had come
    characters: dict[Channel, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """A piece of text that a client was handed; `StopRecord.text_of` gives it.

    `characters` were counted by its server; `recorded` of them are in the record, which is less only if the driver died
    before it had written what it had said. `digest` is SHA-256 of those.
    """

    call: str
    attempt: int = 0
    take: int = 0
    channel: Channel = "text"
    start: int = 0
    characters: int
    recorded: int
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Handed:
    """Text that clients were handed, once however many they are; what each had of it is a span of it."""

    call: str
    attempt: int = 0
    take: int = 0
    channel: Channel = "text"
    start: int = 0
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """What had been handed to one client's connection when the stop had settled; nobody knows what was seen of it."""

    server: str
    client: str
    by: str | None = None
    by_token: str = ""  # the token that the server was shown
    way: Way
    program: str = ""  # what it calls itself
    since: Moment
    after: int = 0  # it was given the record's events from here ...
    seq: int = 0  # ... to here
    behind: bool = False  # it had not been given the end of the stop: what it lacks may have followed
    last_byte: Moment | None = None  # of the run's text; None: it was given none
    after_accepted: int = 0  # characters handed to it after the stop was accepted
    at_least: bool = False  # it was more than could be counted
    left: Moment | None = None  # it had gone by then
    texts: tuple[Received, ...] = ()
    left_out: int = 0  # older pieces of text


@dataclass(frozen=True, slots=True, kw_only=True)
class Telling:
    """A server that told what its clients had been handed. One that told nothing may have had clients all the same."""

    server: str
    at: Moment
    clients: int
    left_out: int = 0
    fetched: int = 0  # requests it had answered with what the run had said; how much of it is not counted


@dataclass(frozen=True, slots=True, kw_only=True)
class Withheld:
    """Text that a tripwire kept in, or that went over no counted connection. `digest` is SHA-256 of it.

    What is read in this process, from the file, or from a server that told nothing, is not counted.
    """

    call: str
    attempt: int = 0
    take: int = 0
    channel: Channel = "text"
    start: int = 0
    characters: int
    digest: str
    why: Kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Marked:
    """Where somebody called the output suspicious: `offset` characters into the call's text; None: none was said."""

    call: str | None = None
    offset: int = 0
    by: str | None = None
    by_token: str = ""  # the token that a server was shown for it
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tripped:
    """A span in which a tripwire saw the agent's instructions come out."""

    call: str
    attempt: int = 0
    channel: Channel
    kind: TripKind
    variant: str
    start: int
    end: int
    action: Action
    held_back: int = 0
    held_from: int | None = None  # None: nothing was held back
    digest: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRecord:
    """One stop of a run. `settled` is None while it is under way."""

    run: str
    number: int  # of the run's stops, from 1
    seq: int  # of the event with which it was accepted
    verb: StopVerb
    trigger: Trigger
    by: str | None = None
    reason: str = ""
    route: str = ""  # by which way the one who asked came
    by_token: str = ""  # the token that a server was shown for it
    asked: Moment
    accepted: Moment
    settled: Moment | None = None
    settled_seq: int | None = None
    status: Status  # that the run had then
    in_flight: tuple[CallRef, ...] = ()
    still_running: tuple[str, ...] = ()  # what went on although the stop had settled
    streams: tuple[CutStream, ...] = ()
    clients: tuple[Reached, ...] = ()
    texts: tuple[Handed, ...] = ()  # what they were handed
    told: tuple[Telling, ...] = ()
    held_back: tuple[Withheld, ...] = ()
    marks: tuple[Marked, ...] = ()
    trips: tuple[Tripped, ...] = ()

    @property
    def clients_known(self) -> bool:
        """Has a server told of its clients? Else nobody knows who was given what; that is not "nobody"."""
        return bool(self.told)

    def text_of(self, piece: Received) -> str:
        """Exactly what a client was handed, as far as the record holds it."""
        where = (piece.call, piece.attempt, piece.take, piece.channel)
        for one in self.texts:
            at = piece.start - one.start
            if where == (one.call, one.attempt, one.take, one.channel) and 0 <= at < len(one.text):
                return one.text[at : at + piece.recorded]
        return ""


def settled_words(stop: StopRecord) -> str:
    """How it ended, for a line of times: by what is known of the calls, not by what a stop is for."""
    going = f"; still running: {', '.join(stop.still_running)}" if stop.still_running else ""
    return f"settled: {stop.status}{going}"


def since_accepted(stop: StopRecord, moment: Moment | None) -> float | None:
    """Seconds from the acceptance to a moment; by the wall clock where the other cannot tell (another machine)."""
    if moment is None:
        return None
    accepted = stop.accepted
    if moment.uptime is None or accepted.uptime is None or moment.boot is None or moment.boot != accepted.boot:
        return moment.at - accepted.at
    return moment.uptime - accepted.uptime
